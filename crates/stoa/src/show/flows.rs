//! Flows that stateful rules of access lists have admitted.

use std::io::Write;
use std::net::IpAddr;

use comfy_table::{Cell, Table};
use serde_json::{Value, json};
use stoa_api::acl::{protocol_name, protocol_number};
use stoa_api::text::ip_text;
use stoa_api::v1::{FlowState, ListFlowsRequest, ShowFlowsReply, ShowFlowsRequest};
use stoa_wire::protocol::has_ports;

use super::{count, duration, number, table, write};
use crate::failure::Failure;
use crate::operator::Client;

/// Which flows to show.
#[derive(Debug, clap::Args)]
pub struct Selection {
    /// Only flows of this protocol: tcp, udp, icmp or a number
    #[arg(long, value_name = "PROTOCOL")]
    protocol: Option<String>,
    /// Only flows with this address at either end
    #[arg(long, value_name = "ADDRESS")]
    address: Option<IpAddr>,
    /// Rows, at most: the flows with the most bytes
    #[arg(long, value_name = "ROWS", default_value_t = 50,
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
}

impl Selection {
    fn filter(&self, is_ip4: bool) -> Result<ListFlowsRequest, Failure> {
        let known = |name: &String| {
            protocol_number(name, is_ip4).ok_or_else(|| {
                Failure::Message(format!(
                    "there is no protocol {name:?}: use tcp, udp, icmp or a number up to 255"
                ))
            })
        };
        let address = match self.address {
            None => Vec::new(),
            Some(IpAddr::V4(address)) => address.octets().to_vec(),
            Some(IpAddr::V6(address)) => address.octets().to_vec(),
        };
        let protocol = self.protocol.as_ref().map(known).transpose()?;
        // "icmp" has a number in each family.
        let is_of_family = self.protocol.as_ref().is_some_and(|name| name == "icmp");
        let family = match (is_of_family, is_ip4) {
            (false, _) => 0,
            (true, true) => 4,
            (true, false) => 6,
        };
        Ok(ListFlowsRequest { family, protocol, address })
    }

    fn is_all(&self) -> bool {
        self.protocol.is_none() && self.address.is_none()
    }

    /// The requests that select these flows: "icmp" is one for each family.
    fn filters(&self) -> Result<Vec<ListFlowsRequest>, Failure> {
        let all = [self.filter(true)?, self.filter(false)?];
        let is_one = all[0] == all[1];
        Ok(all.into_iter().take(if is_one { 1 } else { 2 }).collect())
    }
}

/// Requests the flows and prints them.
pub async fn show(
    client: &mut Client,
    selection: &Selection,
    as_json: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let mut all = ShowFlowsReply::default();
    for filter in selection.filters()? {
        let request = ShowFlowsRequest { filter: Some(filter), at_most: selection.limit };
        let reply = client.show_flows(request).await?.into_inner();
        all.flows.extend(reply.flows);
        all.matching += reply.matching;
    }
    all.flows.sort_by_key(|flow| std::cmp::Reverse(flow.bytes + flow.reply_bytes));
    all.flows.truncate(selection.limit as usize);
    if as_json {
        let flows: Vec<Value> = all.flows.iter().map(to_json).collect();
        writeln!(out, "{}", json!({ "flows": flows, "matching": all.matching }))?;
        return Ok(());
    }
    if all.flows.is_empty() {
        let none = match selection.is_all() {
            true => "No flows: stateful rules of access lists create them.",
            false => "No flow matches.",
        };
        writeln!(out, "{none}")?;
        return Ok(());
    }
    write(&to_table(&all.flows), out)?;
    let rest = all.matching.saturating_sub(all.flows.len() as u64);
    if rest > 0 {
        let matching = number(all.matching);
        writeln!(out, "{matching} flows in all; --limit shows more than these.")?;
    }
    Ok(())
}

/// Address and port of an end. ICMP has an identifier instead.
fn end(address: &[u8], port: u32, protocol: u32) -> String {
    let text = ip_text(address);
    let has_ports = u8::try_from(protocol).is_ok_and(has_ports);
    match (has_ports, address.len()) {
        (true, 16) => format!("[{text}]:{port}"),
        (true, _) => format!("{text}:{port}"),
        (false, _) => text,
    }
}

/// Its state in words.
fn state(flow: &FlowState) -> String {
    match flow.suspended {
        true => format!("{}, suspended", flow.state),
        false => flow.state.clone(),
    }
}

fn to_table(flows: &[FlowState]) -> Table {
    let columns = [
        "protocol",
        "source",
        "destination",
        "state",
        ">packets",
        ">bytes",
        ">reply packets",
        ">reply bytes",
        "age",
        "ends in",
        "rule",
    ];
    let mut table = table(&columns);
    for flow in flows {
        let rule = if flow.rule.is_empty() {
            "-".to_owned()
        } else {
            format!("{} {}", flow.acl, flow.rule)
        };
        table.add_row(vec![
            Cell::new(protocol_name(flow.protocol)),
            Cell::new(end(&flow.source, flow.source_port, flow.protocol)),
            Cell::new(end(&flow.destination, flow.destination_port, flow.protocol)),
            Cell::new(state(flow)),
            count(flow.packets),
            count(flow.bytes),
            count(flow.reply_packets),
            count(flow.reply_bytes),
            Cell::new(duration(flow.age_s.into())),
            Cell::new(duration(flow.timeout_s.saturating_sub(flow.idle_s).into())),
            Cell::new(rule),
        ]);
    }
    table
}

fn to_json(flow: &FlowState) -> Value {
    let named = |name: &String| (!name.is_empty()).then(|| name.clone());
    json!({
        "protocol": flow.protocol,
        "source": ip_text(&flow.source),
        "source_port": flow.source_port,
        "destination": ip_text(&flow.destination),
        "destination_port": flow.destination_port,
        "vrf": flow.vrf,
        "state": flow.state,
        "suspended": flow.suspended,
        "packets": flow.packets,
        "bytes": flow.bytes,
        "reply_packets": flow.reply_packets,
        "reply_bytes": flow.reply_bytes,
        "age_s": flow.age_s,
        "idle_s": flow.idle_s,
        "timeout_s": flow.timeout_s,
        "acl": named(&flow.acl),
        "rule": named(&flow.rule),
        "worker": flow.worker,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_shown_with_both_directions() {
        let flow = FlowState {
            source: vec![10, 0, 0, 1],
            destination: vec![198, 51, 100, 7],
            protocol: 6,
            source_port: 40_000,
            destination_port: 443,
            state: "tcp-established".to_owned(),
            packets: 1_200,
            reply_bytes: 5_000_000,
            timeout_s: 7_440,
            idle_s: 40,
            acl: "edge".to_owned(),
            rule: "out".to_owned(),
            ..FlowState::default()
        };
        let shown = to_table(std::slice::from_ref(&flow)).to_string();
        for part in
            ["10.0.0.1:40000", "198.51.100.7:443", "1,200", "5,000,000", "2 h 3 min", "edge out"]
        {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        assert_eq!(to_json(&flow)["destination_port"], 443);
        assert_eq!(end(&[0; 16], 53, 17), "[::]:53");
        assert_eq!(end(&[10, 0, 0, 1], 9, 1), "10.0.0.1");
    }

    #[test]
    fn icmp_has_a_number_in_each_family() {
        let select = |protocol: Option<&str>| Selection {
            protocol: protocol.map(str::to_owned),
            address: None,
            limit: 50,
        };
        let families = |protocol| {
            let filters = select(protocol).filters().unwrap();
            filters.into_iter().map(|it| (it.family, it.protocol)).collect::<Vec<_>>()
        };
        assert_eq!(families(None), [(0, None)]);
        assert_eq!(families(Some("tcp")), [(0, Some(6))]);
        assert_eq!(families(Some("icmp")), [(4, Some(1)), (6, Some(58))]);
        assert!(select(Some("none")).filters().is_err());
    }
}
