//! Traces: the path of a packet as text, and as JSON.

use std::fmt::Write;

use serde_json::{Value, json};
use stoa_api::v1::{GetTraceReply, TraceStep, TracedPacket};

use super::{clock, number};

/// The message if there is no trace.
pub const NOTHING: &str = "There is no trace: `stoa trace add` starts one.";

/// The trace as text.
pub fn text(reply: &GetTraceReply) -> String {
    if reply.interface.is_empty() {
        return NOTHING.to_owned();
    }
    let filter = match reply.expression.as_str() {
        "" => String::new(),
        expression => format!(", filter \"{expression}\""),
    };
    let mut text = format!(
        "{} of {} packets traced, interface {}{filter}",
        reply.taken, reply.count, reply.interface
    );
    for one in &reply.packets {
        let _ = write!(text, "\n\n{}", packet(one));
    }
    if reply.steps_lost > 0 {
        let lost = number(reply.steps_lost);
        let _ = write!(
            text,
            "\n\n{lost} steps did not fit into the trace: packets may lack steps. Trace fewer packets."
        );
    }
    text
}

/// A packet as text.
pub fn packet(packet: &TracedPacket) -> String {
    let mut text = format!(
        "Packet {}, {} UTC, {}: {}",
        packet.number,
        clock(packet.unix_ns),
        if packet.interface.is_empty() { "-" } else { &packet.interface },
        packet.outcome
    );
    let mut previous: &[String] = &[];
    for one in &packet.steps {
        let _ = write!(text, "\n{}", step(one));
        // Unchanged headers are not repeated.
        for line in one.headers.iter().filter(|line| !previous.contains(line)) {
            let _ = write!(text, "\n                 {line}");
        }
        previous = &one.headers;
    }
    text
}

fn step(step: &TraceStep) -> String {
    let after = micros(step.after_ns);
    let mut text = format!("  {after:>9} us  {:<18} {}", step.node, step.what);
    if !step.adjacency.is_empty() {
        // A connected network has a next hop only once its neighbour is known.
        let is_known = !step.adjacency.starts_with("connected ");
        let next_hop = if is_known { "next hop " } else { "" };
        let _ = write!(text, ", {next_hop}{}", step.adjacency);
    }
    let with_length = ["received ", "sent on ", "sent to host interface "];
    if with_length.iter().any(|text| step.what.starts_with(text)) {
        let _ = write!(text, ", {} bytes, worker {}", step.length, step.worker);
    }
    text
}

/// Nanoseconds as microseconds, such as "12.3".
fn micros(ns: u64) -> String {
    format!("{}.{}", ns / 1000, ns % 1000 / 100)
}

/// The trace as JSON.
pub fn json(reply: &GetTraceReply) -> String {
    let packets: Vec<Value> = reply.packets.iter().map(packet_json).collect();
    json!({
        "interface": reply.interface,
        "expression": reply.expression,
        "count": reply.count,
        "taken": reply.taken,
        "steps_lost": reply.steps_lost,
        "packets": packets,
    })
    .to_string()
}

fn packet_json(packet: &TracedPacket) -> Value {
    let steps: Vec<Value> = packet.steps.iter().map(step_json).collect();
    json!({
        "number": packet.number,
        "unix_ns": packet.unix_ns,
        "interface": packet.interface,
        "outcome": packet.outcome,
        "drop": packet.drop,
        "derived_from": packet.derived_from,
        "steps": steps,
    })
}

fn step_json(step: &TraceStep) -> Value {
    let head: String = step.head.iter().map(|byte| format!("{byte:02x}")).collect();
    json!({
        "worker": step.worker,
        "after_ns": step.after_ns,
        "node": step.node,
        "next": step.next,
        "what": step.what,
        "drop": step.drop,
        "headers": step.headers,
        "head": head,
        "length": step.length,
        "rx_interface": step.rx_interface,
        "tx_interface": step.tx_interface,
        "adjacency": step.adjacency,
        "acl": step.acl,
        "rule": step.rule,
        "of_flow": step.of_flow,
        "from_zone": step.from_zone,
        "to_zone": step.to_zone,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(node: &str, what: &str, after_ns: u64, headers: &[&str]) -> TraceStep {
        let headers = headers.iter().map(|line| (*line).to_owned()).collect();
        let (node, what) = (node.to_owned(), what.to_owned());
        TraceStep { node, what, after_ns, headers, length: 60, ..TraceStep::default() }
    }

    #[test]
    fn each_step_has_a_line_and_its_new_headers() {
        let packet = TracedPacket {
            number: 1,
            unix_ns: 1_000_000_003_000_004_000,
            interface: "eth0".into(),
            outcome: "sent on eth1".into(),
            steps: vec![
                one("tap-input", "received on eth0", 0, &["Ethernet a > b", "IPv4 c > d"]),
                one("ethernet-input", "to ip4-input", 1260, &["IPv4 c > d"]),
                one("port-output", "sent on eth1", 12_400, &["Ethernet e > f", "IPv4 c > d"]),
            ],
            ..TracedPacket::default()
        };
        let text = super::packet(&packet);
        let expected = "\
Packet 1, 01:46:43.000004 UTC, eth0: sent on eth1
        0.0 us  tap-input          received on eth0, 60 bytes, worker 0
                 Ethernet a > b
                 IPv4 c > d
        1.2 us  ethernet-input     to ip4-input
       12.4 us  port-output        sent on eth1, 60 bytes, worker 0
                 Ethernet e > f";
        assert_eq!(text, expected);
        assert_eq!(text.lines().count(), 7);
    }

    #[test]
    fn a_resolved_next_hop_is_named() {
        let mut one = one("ip4-input", "to ip4-rewrite", 0, &[]);
        for (adjacency, expected) in [
            ("10.2.0.2 on out", "to ip4-rewrite, next hop 10.2.0.2 on out"),
            ("connected network on out", "to ip4-rewrite, connected network on out"),
            ("", "to ip4-rewrite"),
        ] {
            one.adjacency = adjacency.into();
            assert!(step(&one).ends_with(expected), "{}", step(&one));
        }
        let given = super::tests::one("port-output", "sent to host interface lab/out", 0, &[]);
        assert!(step(&given).ends_with("sent to host interface lab/out, 60 bytes, worker 0"));
    }

    #[test]
    fn without_a_trace_the_text_names_the_command() {
        assert_eq!(text(&GetTraceReply::default()), NOTHING);
        let reply = GetTraceReply {
            interface: "any".into(),
            count: 5,
            steps_lost: 7,
            ..Default::default()
        };
        assert!(text(&reply).starts_with("0 of 5 packets traced, interface any\n"));
        assert!(text(&reply).contains("7 steps did not fit"));
    }
}
