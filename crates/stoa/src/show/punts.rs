//! Punts: what packets for the control plane may cost, and what they did cost.

use std::io::Write;

use comfy_table::{Cell, Table};
use serde_json::{Value, json};
use stoa_api::v1::{ListPuntsRequest, PuntState};

use super::{count, table, write};
use crate::failure::Failure;
use crate::operator::Client;

/// Asks and shows.
pub async fn show(client: &mut Client, as_json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let punts = client.show_punts(ListPuntsRequest {}).await?.into_inner().punts;
    if as_json {
        let list: Vec<Value> = punts.iter().map(json).collect();
        writeln!(out, "{}", json!({ "punts": list }))?;
    } else {
        write(&made(&punts), out)?;
    }
    Ok(())
}

fn made(punts: &[PuntState]) -> Table {
    let mut table =
        table(&["class", "interface", ">passed", ">dropped", ">limit/s", ">burst", "what it is"]);
    for punt in punts {
        let is_all = punt.interface.is_empty();
        table.add_row(vec![
            Cell::new(if is_all { punt.class.as_str() } else { "" }),
            Cell::new(if is_all { "all" } else { punt.interface.as_str() }),
            count(punt.passed),
            count(punt.dropped),
            count(punt.rate.into()),
            if is_all { Cell::new("") } else { count(punt.burst.into()) },
            Cell::new(if is_all { punt.description.as_str() } else { "" }),
        ]);
    }
    table
}

fn json(punt: &PuntState) -> Value {
    json!({
        "class": punt.class,
        "description": punt.description,
        "interface": punt.interface,
        "passed": punt.passed,
        "dropped": punt.dropped,
        "rate": punt.rate,
        "burst": punt.burst,
        "urgent": punt.urgent,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_named_once() {
        let punt = |interface: &str| PuntState {
            class: "arp".into(),
            description: "ARP questions".into(),
            interface: interface.into(),
            dropped: 1234,
            rate: 1000,
            ..PuntState::default()
        };
        let text = made(&[punt(""), punt("left")]).to_string();
        assert_eq!(text.matches("arp").count(), 1);
        assert_eq!((text.matches("1,234").count(), text.matches("left").count()), (2, 1));
        assert_eq!(json(&punt("left"))["interface"], "left");
    }
}
