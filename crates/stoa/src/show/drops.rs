//! Drops by reason.

use std::io::Write;

use comfy_table::{Cell, Table};
use serde_json::{Value, json};
use stoa_api::v1::{DropState, ListDropsRequest};

use super::{count, table, write};
use crate::failure::Failure;
use crate::operator::Client;

/// Requests the drops and prints them; reasons without drops only with `all`.
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
        write(&to_table(&drops, all), out)?;
    } else {
        writeln!(out, "No packet was dropped.")?;
    }
    Ok(())
}

fn to_table(drops: &[DropState], all: bool) -> Table {
    let mut table = table(&["reason", ">packets", "meaning"]);
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
    fn reasons_without_drops_are_omitted() {
        let drop = |reason: &str, packets| DropState {
            reason: reason.into(),
            packets,
            ..DropState::default()
        };
        let drops = [drop("no-route", 5), drop("ttl-expired", 0)];
        assert!(!to_table(&drops, false).to_string().contains("ttl-expired"));
        assert!(to_table(&drops, true).to_string().contains("ttl-expired"));
        assert_eq!(json(&drops[0])["packets"], 5);
    }
}
