//! Zones: their interfaces, and what passes between them.

use std::io::Write;

use comfy_table::{Cell, Table};
use serde_json::{Value, json};
use stoa_api::v1::{ShowZonesReply, ShowZonesRequest, Zone, ZonePair, ZonePairState};

use super::{count, table, write};
use crate::failure::Failure;
use crate::operator::Client;

/// Requests the zones and prints them.
pub async fn show(client: &mut Client, as_json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let reply = client.show_zones(ShowZonesRequest {}).await?.into_inner();
    if as_json {
        writeln!(out, "{}", to_json(&reply))?;
        return Ok(());
    }
    if reply.zones.is_empty() {
        writeln!(out, "No zones.")?;
        return Ok(());
    }
    write(&zones(&reply.zones), out)?;
    writeln!(out)?;
    write(&pairs(&reply), out)?;
    Ok(())
}

fn zones(zones: &[Zone]) -> Table {
    let mut table = table(&["zone", "interfaces"]);
    for Zone { name, interfaces } in zones {
        table.add_row([name, &interfaces.join(", ")]);
    }
    table
}

/// The pairs, and in the last row what is dropped because there is none.
fn pairs(reply: &ShowZonesReply) -> Table {
    let columns = ["from", "to", "lists in order", ">no rule: packets", ">bytes"];
    let mut table = table(&columns);
    for state in &reply.pairs {
        let Some(pair) = &state.pair else { continue };
        let counts = (state.dropped_packets, state.dropped_bytes);
        table.add_row(row((&pair.from, &pair.to, &lists(pair)), counts));
    }
    let counts = (reply.unpaired_packets, reply.unpaired_bytes);
    table.add_row(row(("others", "others", "none: packets are dropped"), counts));
    table
}

fn row((from, to, lists): (&str, &str, &str), (packets, bytes): (u64, u64)) -> Vec<Cell> {
    vec![Cell::new(from), Cell::new(to), Cell::new(lists), count(packets), count(bytes)]
}

/// The lists of both families, each with its own if they differ.
fn lists(ZonePair { acls4, acls6, .. }: &ZonePair) -> String {
    if acls4 == acls6 {
        return acls4.join(", ");
    }
    let of = |family: u8, lists: &[String]| format!("IPv{family}: {}", lists.join(", "));
    let all = [(4, acls4), (6, acls6)].into_iter().filter(|(_, lists)| !lists.is_empty());
    all.map(|(family, lists)| of(family, lists)).collect::<Vec<_>>().join("; ")
}

fn to_json(reply: &ShowZonesReply) -> Value {
    let zone = |it: &Zone| json!({ "name": it.name, "interfaces": it.interfaces });
    let pair = |state: &ZonePairState| {
        let pair = state.pair.as_ref()?;
        Some(json!({
            "from": pair.from, "to": pair.to, "acls4": pair.acls4, "acls6": pair.acls6,
            "dropped": { "packets": state.dropped_packets, "bytes": state.dropped_bytes },
        }))
    };
    let zones: Vec<Value> = reply.zones.iter().map(zone).collect();
    let pairs: Vec<Value> = reply.pairs.iter().filter_map(pair).collect();
    let unpaired = json!({ "packets": reply.unpaired_packets, "bytes": reply.unpaired_bytes });
    json!({ "zones": zones, "pairs": pairs, "unpaired": unpaired })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_and_pairs_are_shown() {
        let names = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        let pair = |acls4: &[&str], acls6: &[&str]| ZonePairState {
            pair: Some(ZonePair {
                from: "lan".into(),
                to: "wan".into(),
                acls4: names(acls4),
                acls6: names(acls6),
            }),
            dropped_packets: 1_234,
            dropped_bytes: 99,
        };
        let reply = ShowZonesReply {
            zones: vec![Zone { name: "lan".into(), interfaces: names(&["a", "b"]) }],
            pairs: vec![pair(&["web", "four"], &["web", "four"]), pair(&["web", "four"], &["web"])],
            unpaired_packets: 7,
            unpaired_bytes: 8,
        };
        assert!(zones(&reply.zones).to_string().contains("a, b"));
        let text = pairs(&reply).to_string();
        assert!(text.contains("web, four") && text.contains("1,234"), "{text}");
        assert!(text.contains("IPv4: web, four; IPv6: web"), "{text}");
        assert!(text.contains("none: packets are dropped"), "{text}");
        let shown = to_json(&reply);
        assert_eq!(shown["pairs"][1]["acls6"], json!(["web"]));
        assert_eq!(shown["unpaired"], json!({ "packets": 7, "bytes": 8 }));
        assert_eq!(shown["zones"][0]["name"], "lan");
    }
}
