//! Zones: their interfaces, and what passes between them.

use std::io::Write;

use comfy_table::{Cell, Table};
use serde_json::{Value, json};
use stoa_api::v1::{
    ShowZonesReply, ShowZonesRequest, SynCookiesState, Zone, ZonePair, ZonePairState,
};

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
    if !reply.syn_cookies.is_empty() {
        writeln!(out)?;
        write(&cookies(&reply.syn_cookies), out)?;
        writeln!(out, "Segments without a valid cookie, dropped: {}", reply.syn_cookies_refused)?;
    }
    Ok(())
}

/// The zones with SYN cookies.
fn cookies(zones: &[SynCookiesState]) -> Table {
    let columns = ["zone", "SYN cookies", ">half open", ">threshold", ">sent", ">accepted"];
    let mut table = table(&columns);
    for it in zones {
        let is_on = if it.is_on { "on" } else { "off" };
        let counts = [it.half_open.into(), it.threshold.into(), it.sent, it.accepted].map(count);
        table.add_row([Cell::new(&it.zone), Cell::new(is_on)].into_iter().chain(counts));
    }
    table
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
pub(super) fn lists(ZonePair { acls4, acls6, .. }: &ZonePair) -> String {
    if acls4.is_empty() && acls6.is_empty() {
        return "none: packets are dropped".to_owned();
    }
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
    let cookies = |it: &SynCookiesState| {
        json!({
            "zone": it.zone, "on": it.is_on, "threshold": it.threshold, "half-open": it.half_open,
            "sent": it.sent, "accepted": it.accepted,
        })
    };
    let cookies: Vec<Value> = reply.syn_cookies.iter().map(cookies).collect();
    let cookies = json!({ "zones": cookies, "refused": reply.syn_cookies_refused });
    json!({ "zones": zones, "pairs": pairs, "unpaired": unpaired, "syn-cookies": cookies })
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
            syn_cookies: vec![SynCookiesState {
                zone: "lan".into(),
                threshold: 4_000,
                half_open: 4_321,
                is_on: true,
                sent: 9,
                accepted: 8,
            }],
            syn_cookies_refused: 6,
        };
        assert!(zones(&reply.zones).to_string().contains("a, b"));
        let text = pairs(&reply).to_string();
        assert!(text.contains("web, four") && text.contains("1,234"), "{text}");
        assert!(text.contains("IPv4: web, four; IPv6: web"), "{text}");
        assert!(text.contains("none: packets are dropped"), "{text}");
        assert_eq!(lists(&ZonePair::default()), "none: packets are dropped");
        let shown = to_json(&reply);
        assert_eq!(shown["pairs"][1]["acls6"], json!(["web"]));
        assert_eq!(shown["unpaired"], json!({ "packets": 7, "bytes": 8 }));
        assert_eq!(shown["zones"][0]["name"], "lan");
        let text = cookies(&reply.syn_cookies).to_string();
        assert!(text.contains("on") && text.contains("4,321"), "{text}");
        let shown = &shown["syn-cookies"];
        assert_eq!((&shown["refused"], &shown["zones"][0]["on"]), (&json!(6), &json!(true)));
    }
}
