//! Drops by reason.

use std::io::Write;

use comfy_table::{Cell, Table};
use serde_json::{Value, json};
use stoa_api::counters::DROPS;
use stoa_api::v1::{DropState, ListDropsRequest};

use super::{columns, counts, table, with_counters, write};
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
    let mut table = table(&columns(&["reason"], DROPS, &["meaning"]));
    for drop in drops.iter().filter(|drop| drop.packets > 0 || all) {
        let mut row = vec![Cell::new(&drop.reason)];
        row.extend(counts(DROPS, drop));
        row.push(Cell::new(&drop.description));
        table.add_row(row);
    }
    table
}

fn json(drop: &DropState) -> Value {
    let reason = json!({ "reason": drop.reason, "description": drop.description });
    with_counters(reason, DROPS, drop, json!({}))
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

    #[test]
    fn columns_and_members_have_their_names_and_order() {
        let row = DropState::default();
        let (table, object) = (to_table(std::slice::from_ref(&row), true), json(&row));
        let (header, keys) = super::super::names(&table, &object);
        assert_eq!(header.join(", "), "REASON, PACKETS, MEANING");
        assert_eq!(keys.join(" "), "reason description packets");
    }
}
