//! Control-plane policers: packets that each class passed and dropped.

use std::io::Write;

use comfy_table::{Cell, Table};
use serde_json::{Value, json};
use stoa_api::v1::{ListPuntsRequest, PuntState};

use super::{count, table, write};
use crate::failure::Failure;
use crate::operator::Client;

/// Requests the state and prints it.
pub async fn show(client: &mut Client, as_json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let punts = client.show_punts(ListPuntsRequest {}).await?.into_inner().punts;
    if as_json {
        let list: Vec<Value> = punts.iter().map(json).collect();
        writeln!(out, "{}", json!({ "punts": list }))?;
    } else {
        write(&to_table(&punts), out)?;
    }
    Ok(())
}

fn to_table(punts: &[PuntState]) -> Table {
    let mut table =
        table(&["class", "interface", ">passed", ">dropped", ">limit/s", ">burst", "description"]);
    for punt in punts {
        let is_total = punt.interface.is_empty();
        table.add_row(vec![
            Cell::new(if is_total { punt.class.as_str() } else { "" }),
            Cell::new(if is_total { "all" } else { punt.interface.as_str() }),
            count(punt.passed),
            count(punt.dropped),
            count(punt.rate.into()),
            if is_total { Cell::new("") } else { count(punt.burst.into()) },
            Cell::new(if is_total { punt.description.as_str() } else { "" }),
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
            description: "ARP requests".into(),
            interface: interface.into(),
            dropped: 1234,
            rate: 1000,
            ..PuntState::default()
        };
        let text = to_table(&[punt(""), punt("left")]).to_string();
        assert_eq!(text.matches("arp").count(), 1);
        assert_eq!((text.matches("1,234").count(), text.matches("left").count()), (2, 1));
        assert_eq!(json(&punt("left"))["interface"], "left");
    }
}
