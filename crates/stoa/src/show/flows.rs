//! Flows that stateful rules of access lists have admitted, or that NAT translates.

use std::io::Write;

use comfy_table::{Cell, Table};
use serde_json::{Value, json};
use stoa_api::acl::protocol_name;
use stoa_api::flow::keep_first;
use stoa_api::text::ip_text;
use stoa_api::v1::{FlowOrder, FlowState, ShowFlowsReply, ShowFlowsRequest};
use stoa_wire::protocol::{GRE, has_ports};

use super::flow_filter::FlowFilter;
use super::{count, duration, flow_summary, number, table, write};
use crate::failure::Failure;
use crate::operator::Client;

/// Which flows to show, and how many.
#[derive(Debug, clap::Args)]
pub struct Selection {
    #[command(flatten)]
    filter: FlowFilter,
    /// Rows, at most: the flows with the most bytes
    #[arg(long, value_name = "ROWS", default_value_t = 50,
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
    /// Only the N flows with the most bytes
    #[arg(long, value_name = "N", conflicts_with = "limit",
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    top: Option<u32>,
    /// Only how many flows there are of each family and state
    #[arg(long, conflicts_with_all = ["limit", "top"])]
    summary: bool,
}

/// Requests the flows and prints them.
pub async fn show(
    client: &mut Client,
    selection: &Selection,
    as_json: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    if selection.summary {
        return flow_summary::show(client, &selection.filter, as_json, out).await;
    }
    let at_most = selection.top.unwrap_or(selection.limit);
    let mut all = ShowFlowsReply::default();
    for filter in selection.filter.requests()? {
        let request = ShowFlowsRequest { filter: Some(filter), at_most };
        let reply = client.show_flows(request).await?.into_inner();
        all.flows.extend(reply.flows);
        all.matching += reply.matching;
    }
    keep_first(&mut all.flows, at_most as usize, FlowOrder::FlowByBytes);
    if as_json {
        let flows: Vec<Value> = all.flows.iter().map(to_json).collect();
        writeln!(out, "{}", json!({ "flows": flows, "matching": all.matching }))?;
        return Ok(());
    }
    if all.flows.is_empty() {
        writeln!(out, "{}", none(&selection.filter))?;
        return Ok(());
    }
    write(&to_table(&all.flows), out)?;
    let rest = all.matching.saturating_sub(all.flows.len() as u64);
    if rest > 0 && selection.top.is_none() {
        let matching = number(all.matching);
        writeln!(out, "{matching} flows in all; --limit shows more than these.")?;
    }
    Ok(())
}

/// What to say where no flow is listed.
pub(super) fn none(filter: &FlowFilter) -> &'static str {
    match filter.is_all() {
        true => "No flows: stateful rules of access lists create them, and NAT.",
        false => "No flow matches.",
    }
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

/// An end as the first packet has it, and as what it is translated to.
fn translated(shown: String, translated: String) -> String {
    match translated.is_empty() || translated == shown {
        true => shown,
        false => format!("{shown} as {translated}"),
    }
}

/// The source port of flows whose destination port is a call ID of PPTP.
const CALL: u32 = 0xffff;

/// The end that receives. A packet of a PPTP call has the call ID of that end in place of a port (RFC 2637 4.1).
fn receiver(address: &[u8], port: u32, flow: &FlowState) -> String {
    match flow.protocol == u32::from(GRE) && flow.source_port == CALL {
        true => format!("{} call ID {port}", ip_text(address)),
        false => end(address, port, flow.protocol),
    }
}

fn source(flow: &FlowState) -> String {
    let of = |address, port| end(address, port, flow.protocol);
    let behind = match flow.translated_source.is_empty() {
        true => String::new(),
        false => of(&flow.translated_source, flow.translated_source_port),
    };
    translated(of(&flow.source, flow.source_port), behind)
}

fn destination(flow: &FlowState) -> String {
    let of = |address, port| receiver(address, port, flow);
    let behind = match flow.translated_destination.is_empty() {
        true => String::new(),
        false => of(&flow.translated_destination, flow.translated_destination_port),
    };
    translated(of(&flow.destination, flow.destination_port), behind)
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
    // Most routers have one VRF.
    let has_vrfs = flows.iter().any(|flow| !flow.vrf.is_empty());
    let vrf: &[&str] = if has_vrfs { &["vrf"] } else { &[] };
    let mut table = table(&[&columns[..], vrf].concat());
    for flow in flows {
        let rule = if flow.rule.is_empty() {
            "-".to_owned()
        } else {
            format!("{} {}", flow.acl, flow.rule)
        };
        let vrf = if flow.vrf.is_empty() { "default" } else { &flow.vrf };
        let mut row = vec![
            Cell::new(protocol_name(flow.protocol)),
            Cell::new(source(flow)),
            Cell::new(destination(flow)),
            Cell::new(state(flow)),
            count(flow.packets),
            count(flow.bytes),
            count(flow.reply_packets),
            count(flow.reply_bytes),
            Cell::new(duration(flow.age_s.into())),
            Cell::new(duration(flow.timeout_s.saturating_sub(flow.idle_s).into())),
            Cell::new(rule),
        ];
        row.extend(has_vrfs.then(|| Cell::new(vrf)));
        table.add_row(row);
    }
    table
}

fn to_json(flow: &FlowState) -> Value {
    let named = |name: &String| (!name.is_empty()).then(|| name.clone());
    let is_translated = !flow.translated_source.is_empty();
    let address = |address: &[u8]| is_translated.then(|| ip_text(address));
    let port = |port: u32| is_translated.then_some(port);
    json!({
        "protocol": flow.protocol,
        "source": ip_text(&flow.source),
        "source_port": flow.source_port,
        "destination": ip_text(&flow.destination),
        "destination_port": flow.destination_port,
        "translated_source": address(&flow.translated_source),
        "translated_source_port": port(flow.translated_source_port),
        "translated_destination": address(&flow.translated_destination),
        "translated_destination_port": port(flow.translated_destination_port),
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
        assert!(!shown.contains("VRF"), "{shown}");
        let in_vrf = FlowState { vrf: "red".to_owned(), ..flow.clone() };
        let shown = to_table(&[flow.clone(), in_vrf]).to_string();
        assert!(shown.contains("VRF") && shown.contains("red") && shown.contains("default"));
        assert_eq!(to_json(&flow)["destination_port"], 443);
        let flow = FlowState {
            translated_source: vec![203, 0, 113, 17],
            translated_source_port: 40_112,
            translated_destination: flow.destination.clone(),
            translated_destination_port: flow.destination_port,
            ..flow
        };
        assert_eq!(source(&flow), "10.0.0.1:40000 as 203.0.113.17:40112");
        assert_eq!(destination(&flow), "198.51.100.7:443");
        assert_eq!(to_json(&flow)["translated_source_port"], 40_112);
        let call = FlowState {
            protocol: u32::from(GRE),
            source_port: CALL,
            destination_port: 7,
            translated_destination: vec![10, 0, 0, 7],
            translated_destination_port: 9,
            ..flow
        };
        assert_eq!(destination(&call), "198.51.100.7 call ID 7 as 10.0.0.7 call ID 9");
        assert_eq!(end(&[0; 16], 53, 17), "[::]:53");
        assert_eq!(end(&[10, 0, 0, 1], 9, 1), "10.0.0.1");
    }
}
