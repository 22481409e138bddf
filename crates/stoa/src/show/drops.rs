//! Drops: every one has a reason with a name.

use std::io::Write;

use comfy_table::{Cell, Table};
use serde_json::{Value, json};
use stoa_api::v1::{DropState, ListDropsRequest};

use super::{count, table, write};
use crate::failure::Failure;
use crate::operator::Client;

/// Asks and shows; reasons that never came only with `all`.
pub async fn show(
    client: &mut Client,
    all: bool,
    as_json: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let drops = client.show_drops(ListDropsRequest {}).await?.into_inner().drops;
    if as_json {
        let list: Vec<Value> = drops.iter().map(json).collect();
        writeln!(out, "{}", json!({ "drops": list }))?;
    } else if drops.iter().any(|drop| drop.packets > 0) || all {
        write(&made(&drops, all), out)?;
    } else {
        writeln!(out, "No packet was dropped.")?;
    }
    Ok(())
}

fn made(drops: &[DropState], all: bool) -> Table {
    let mut table = table(&["reason", ">packets", "what it means"]);
    for drop in drops.iter().filter(|drop| drop.packets > 0 || all) {
        table.add_row(vec![
            Cell::new(&drop.reason),
            count(drop.packets),
            Cell::new(&drop.description),
        ]);
    }
    table
}

fn json(drop: &DropState) -> Value {
    json!({ "reason": drop.reason, "description": drop.description, "packets": drop.packets })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_that_never_came_are_left_out() {
        let drop = |reason: &str, packets| DropState {
            reason: reason.into(),
            packets,
            ..DropState::default()
        };
        let drops = [drop("no-route", 5), drop("ttl-expired", 0)];
        assert!(!made(&drops, false).to_string().contains("ttl-expired"));
        assert!(made(&drops, true).to_string().contains("ttl-expired"));
        assert_eq!(json(&drops[0])["packets"], 5);
    }
}
