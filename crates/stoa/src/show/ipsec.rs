//! Security associations of tunnels with ESP, and crypto engines.

use std::io::Write;

use comfy_table::{Cell, Table};
use serde_json::{Value, json};
use stoa_api::counters::SECURITY_ASSOCIATIONS;
use stoa_api::v1::{
    ListCryptoReply, ListCryptoRequest, ListSasReply, ListSasRequest, SecurityAssociation,
    SecurityAssociationState,
};

use super::{columns, count, counts, table, with_counters, write};
use crate::failure::Failure;
use crate::operator::Client;

/// Requests the associations and prints them.
pub async fn show(client: &mut Client, as_json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let reply = client.show_sas(ListSasRequest {}).await?.into_inner();
    if as_json {
        writeln!(out, "{}", to_json(&reply))?;
        return Ok(());
    }
    if reply.associations.is_empty() {
        let hint = "No security associations. `set ipsec sad sad-entry NAME ...` adds one: see the guide, ipsec.md.";
        writeln!(out, "{hint}")?;
        return Ok(());
    }
    write(&to_table(&reply), out)?;
    for it in reply.associations.iter().filter(|it| !it.in_force) {
        let name = it.association.as_ref().map_or("", |it| &it.name);
        writeln!(out, "{name} is not in force: {}", it.reason)?;
    }
    Ok(())
}

/// "in" or "out".
fn direction(of: &SecurityAssociation) -> &'static str {
    of.direction().name().trim_end_matches("bound")
}

/// The name of the algorithm, and what else of it is not usual.
fn algorithm(of: &SecurityAssociation) -> String {
    let implicit = if of.implicit_iv { " iiv" } else { "" };
    let esn = if of.extended { " esn" } else { "" };
    let udp = if of.udp.is_some() { " udp" } else { "" };
    format!("{}{implicit}{esn}{udp}", of.algorithm)
}

fn window(of: &SecurityAssociation) -> String {
    match of.window {
        0 => "-".to_owned(),
        size => size.to_string(),
    }
}

fn to_table(reply: &ListSasReply) -> Table {
    let first = ["name", "dir", ">spi", "tunnel", "algorithm", "state"];
    let mut table = table(&columns(&first, SECURITY_ASSOCIATIONS, &[">window", ">sequence"]));
    for it in &reply.associations {
        let of = it.association.clone().unwrap_or_default();
        let first = [
            Cell::new(&of.name),
            Cell::new(direction(&of)),
            Cell::new(format!("{:#x}", of.spi)),
            Cell::new(&of.interface),
            Cell::new(algorithm(&of)),
            Cell::new(if it.in_force { "up" } else { "down" }),
        ];
        let last = [Cell::new(window(&of)), count(it.sequence)];
        table.add_row(first.into_iter().chain(counts(SECURITY_ASSOCIATIONS, it)).chain(last));
    }
    table
}

fn to_json(reply: &ListSasReply) -> Value {
    let association = |it: &SecurityAssociationState| {
        let of = it.association.clone().unwrap_or_default();
        let udp =
            of.udp.map(|it| json!({ "local_port": it.local_port, "remote_port": it.remote_port }));
        let first = json!({
            "name": of.name,
            "direction": of.direction().name(),
            "spi": of.spi,
            "interface": of.interface,
            "algorithm": of.algorithm,
            "implicit_iv": of.implicit_iv,
            "extended": of.extended,
            "window": of.window,
            "dscp": of.dscp,
            "udp": udp,
            "in_force": it.in_force,
            "reason": it.reason,
            "engine": it.engine,
            "sequence": it.sequence,
        });
        with_counters(first, SECURITY_ASSOCIATIONS, it, json!({}))
    };
    json!({ "associations": reply.associations.iter().map(association).collect::<Vec<_>>() })
}

/// Requests the engines and prints them.
pub async fn engines(
    client: &mut Client,
    as_json: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let reply = client.show_crypto(ListCryptoRequest {}).await?.into_inner();
    if as_json {
        writeln!(out, "{}", engines_to_json(&reply))?;
        return Ok(());
    }
    let mut engines = table(&["engine", "state", "serves"]);
    for engine in &reply.engines {
        let served = reply.algorithms.iter().filter(|it| it.engine == engine.name);
        let served: Vec<&str> = served.map(|it| it.name.as_str()).collect();
        let state = if engine.refused.is_empty() { "works" } else { &engine.refused };
        let served = if served.is_empty() { "-".to_owned() } else { served.join(", ") };
        engines.add_row(vec![Cell::new(&engine.name), Cell::new(state), Cell::new(served)]);
    }
    write(&engines, out)?;
    Ok(())
}

fn engines_to_json(reply: &ListCryptoReply) -> Value {
    let engines = reply
        .engines
        .iter()
        .map(|it| json!({ "name": it.name, "algorithms": it.algorithms, "refused": it.refused }));
    let algorithms =
        reply.algorithms.iter().map(|it| json!({ "name": it.name, "engine": it.engine }));
    json!({
        "engines": engines.collect::<Vec<_>>(),
        "algorithms": algorithms.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn associations_are_shown_without_keys() {
        let of = SecurityAssociation {
            name: "to-b".to_owned(),
            interface: "tun".to_owned(),
            direction: 1,
            spi: 0x1001,
            algorithm: "aes-128-gcm".to_owned(),
            extended: true,
            ..SecurityAssociation::default()
        };
        let state = SecurityAssociationState {
            association: Some(of),
            reason: "its key was used".to_owned(),
            packets: 1_234,
            sequence: 2_345,
            ..SecurityAssociationState::default()
        };
        let reply = ListSasReply { associations: vec![state] };
        let mut out = Vec::new();
        write(&to_table(&reply), &mut out).unwrap();
        let printed = String::from_utf8(out).unwrap();
        for part in ["to-b", "out", "0x1001", "tun", "aes-128-gcm esn", "down", "1,234", "2,345"] {
            assert!(printed.contains(part), "{part} in {printed}");
        }
        let json = to_json(&reply);
        let first = &json["associations"][0];
        assert_eq!((&first["direction"], &first["packets"]), (&json!("outbound"), &json!(1_234)));
        assert!(first.get("key").is_none() && first.get("salt").is_none());
    }
}
