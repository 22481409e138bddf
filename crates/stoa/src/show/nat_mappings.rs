//! Dynamic mappings of address translation.

use std::io::Write;

use comfy_table::{Cell, Table};
use serde_json::{Value, json};
use stoa_api::acl::protocol_name;
use stoa_api::text::ip_text;
use stoa_api::v1::{NatDynamicMapping, NatLease, NatMappingFilter, Prefix, ShowNatMappingsRequest};

use super::{count, duration, number, table, write};
use crate::failure::Failure;
use crate::named;
use crate::operator::Client;

/// Which mappings to show, and how many. All given conditions must hold.
#[derive(Debug, clap::Args)]
pub struct Selection {
    /// Only mappings of this protocol: tcp, udp or icmp
    #[arg(long, value_name = "PROTOCOL")]
    protocol: Option<String>,
    /// Only mappings with this address, internal or external
    #[arg(long, value_name = "ADDRESS", conflicts_with = "prefix")]
    address: Option<std::net::Ipv4Addr>,
    /// Only mappings with an address of this prefix, internal or external
    #[arg(long, value_name = "PREFIX", value_parser = named::prefix)]
    prefix: Option<Prefix>,
    /// Only mappings of this inside host
    #[arg(long, value_name = "ADDRESS")]
    subscriber: Option<std::net::Ipv4Addr>,
    /// Only mappings with this port, internal or external: a number, or a service such as https
    #[arg(long, value_name = "PORT", value_parser = named::port)]
    port: Option<u16>,
    /// Only mappings whose external address is in this VRF, such as default
    #[arg(long, value_name = "NAME")]
    vrf: Option<String>,
    /// Rows, at most: the oldest mappings
    #[arg(long, value_name = "ROWS", default_value_t = 50,
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
}

impl Selection {
    fn request(&self) -> Result<ShowNatMappingsRequest, Failure> {
        let protocol = self.protocol.as_deref().map(|name| named::protocol(name, true));
        let one = |it: std::net::Ipv4Addr| Prefix { address: it.octets().to_vec(), length: 32 };
        let vrf = self.vrf.clone().filter(|name| name != "all");
        let filter = NatMappingFilter {
            protocol: protocol.transpose()?,
            prefix: self.address.map(one).or_else(|| self.prefix.clone()),
            port: self.port.map(u32::from),
            subscriber: self.subscriber.map(one),
            vrf: vrf.map(|name| if name == "default" { String::new() } else { name }),
            ..NatMappingFilter::default()
        };
        Ok(ShowNatMappingsRequest { filter: Some(filter), at_most: self.limit })
    }
}

/// Requests the mappings and prints them.
pub async fn show(
    client: &mut Client,
    selection: &Selection,
    as_json: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let reply = client.show_nat_mappings(selection.request()?).await?.into_inner();
    if as_json {
        let mappings: Vec<Value> = reply.mappings.iter().map(to_json).collect();
        writeln!(out, "{}", json!({ "mappings": mappings, "matching": reply.matching }))?;
        return Ok(());
    }
    if reply.mappings.is_empty() {
        writeln!(
            out,
            "No dynamic mapping. Policies with mapping-type eim have them; `show flows` has all flows."
        )?;
        return Ok(());
    }
    write(&to_table(&reply.mappings), out)?;
    let rest = reply.matching.saturating_sub(reply.mappings.len() as u64);
    if rest > 0 {
        let matching = number(reply.matching);
        writeln!(out, "{matching} mappings in all; --limit shows more than these.")?;
    }
    Ok(())
}

/// Address and port; of ICMP, the identifier stands for the port.
fn end(address: &[u8], port: u32, vrf: &str) -> String {
    let of = if vrf.is_empty() { String::new() } else { format!(" ({vrf})") };
    format!("{}:{port}{of}", ip_text(address))
}

/// Who may send by a lease; nothing: anybody.
fn peers(lease: &NatLease) -> impl Iterator<Item = String> {
    lease.peers.iter().map(|it| {
        let prefix = it.prefix.as_ref().map_or_else(String::new, ToString::to_string);
        let address = prefix.strip_suffix("/32").unwrap_or(&prefix);
        match it.port {
            0 => address.to_owned(),
            port => format!("{address}:{port}"),
        }
    })
}

/// A lease, its time that is left, and who may send.
fn lease(it: &NatLease) -> String {
    let left = duration(it.left_s.into());
    let from = peers(it).collect::<Vec<_>>().join(", ");
    let from = if from.is_empty() { from } else { format!(", from {from}") };
    format!("{}, {left} left{from}", it.kind)
}

fn to_table(mappings: &[NatDynamicMapping]) -> Table {
    let mut table =
        table(&["protocol", "external", "internal", "policy", ">flows", "age", "lease"]);
    for it in mappings {
        table.add_row(vec![
            Cell::new(protocol_name(it.protocol)),
            Cell::new(end(&it.external, it.external_port, &it.external_vrf)),
            Cell::new(end(&it.internal, it.internal_port, &it.internal_vrf)),
            Cell::new(format!("{}/{}", it.instance, it.policy)),
            count(it.flows),
            Cell::new(duration(it.age_s.into())),
            Cell::new(it.leases.iter().map(lease).collect::<Vec<_>>().join("\n")),
        ]);
    }
    table
}

fn to_json(mapping: &NatDynamicMapping) -> Value {
    json!({
        "protocol": mapping.protocol,
        "external": ip_text(&mapping.external),
        "external_port": mapping.external_port,
        "external_vrf": mapping.external_vrf,
        "internal": ip_text(&mapping.internal),
        "internal_port": mapping.internal_port,
        "internal_vrf": mapping.internal_vrf,
        "instance": mapping.instance,
        "policy": mapping.policy,
        "flows": mapping.flows,
        "age_s": mapping.age_s,
        "leases": mapping.leases.iter().map(|it| json!({
            "kind": it.kind, "left_s": it.left_s, "peers": peers(it).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use stoa_api::v1::NatRemotePeer;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        selection: Selection,
    }

    #[test]
    fn conditions_go_into_the_contract() {
        let request = |line: &str| {
            let words = std::iter::once("mappings").chain(line.split_whitespace());
            Line::try_parse_from(words).ok().and_then(|it| it.selection.request().ok())
        };
        let line =
            "--address 10.0.0.7 --port https --protocol tcp --vrf default --subscriber 10.0.0.7";
        let made = request(line).unwrap();
        let filter = NatMappingFilter {
            protocol: Some(6),
            prefix: Some(Prefix { address: vec![10, 0, 0, 7], length: 32 }),
            port: Some(443),
            vrf: Some(String::new()),
            subscriber: Some(Prefix { address: vec![10, 0, 0, 7], length: 32 }),
            ..NatMappingFilter::default()
        };
        assert_eq!((made.filter, made.at_most), (Some(filter), 50));
        assert_eq!(request("").unwrap().filter, Some(NatMappingFilter::default()));
        assert!(request("--protocol none").is_none() && request("--address fd00::1").is_none());
    }

    #[test]
    fn mappings_are_shown_with_both_ends() {
        let mapping = NatDynamicMapping {
            internal: vec![10, 0, 0, 7],
            internal_port: 5_000,
            external: vec![203, 0, 113, 17],
            external_port: 40_112,
            protocol: 17,
            internal_vrf: "red".to_owned(),
            instance: 1,
            policy: 10,
            flows: 2,
            age_s: 61,
            leases: vec![
                NatLease { kind: "map".to_owned(), left_s: 7_200, peers: Vec::new() },
                NatLease {
                    kind: "peer".to_owned(),
                    left_s: 60,
                    peers: vec![NatRemotePeer {
                        prefix: Some(Prefix { address: vec![198, 51, 100, 9], length: 32 }),
                        port: 443,
                    }],
                },
            ],
            ..NatDynamicMapping::default()
        };
        let text = to_table(std::slice::from_ref(&mapping)).to_string();
        for part in
            ["udp", "203.0.113.17:40112", "10.0.0.7:5000 (red)", "1/10", "1 min 1 s", "map, 2 h"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(text.contains("left, from 198.51.100.9:443"), "{text}");
        let json = to_json(&mapping);
        assert_eq!(
            (&json["external_port"], &json["leases"][0]["left_s"]),
            (&40_112.into(), &7_200.into())
        );
    }
}
