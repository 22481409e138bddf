//! Export by IPFIX: collectors, and what was sent to them and lost.

use std::io::Write;

use comfy_table::{Cell, Table};
use serde_json::{Value, json};
use stoa_api::counters::{COLLECTORS, EXPORT};
use stoa_api::text::ip_text;
use stoa_api::v1::{
    Ipfix, IpfixCollector, IpfixCollectorState, IpfixState, IpfixTransport, ListIpfixReply,
    ListIpfixRequest,
};

use super::{columns, counts, number, table, with_counters, write};
use crate::failure::Failure;
use crate::operator::Client;

/// Requests the state and prints it.
pub async fn show(client: &mut Client, as_json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let reply = client.show_ipfix(ListIpfixRequest {}).await?.into_inner();
    if as_json {
        writeln!(out, "{}", to_json(&reply))?;
        return Ok(());
    }
    let (Some(settings), Some(state)) = (&reply.settings, &reply.state) else {
        let hint = "No export. `set ipfix collector NAME address ADDRESS` exports flow records to a collector.";
        writeln!(out, "{hint}")?;
        return Ok(());
    };
    write(&to_table(settings, &reply.collectors), out)?;
    for collector in reply.collectors.iter().filter(|it| !it.error.is_empty()) {
        writeln!(out, "{}: {}", collector.name, collector.error)?;
    }
    writeln!(out)?;
    write!(out, "{}", summary(settings, state, reply.follows_flows))?;
    Ok(())
}

/// "192.0.2.9:4739 udp", "[2001:db8::9]:4739 tcp".
fn end(collector: &IpfixCollector) -> String {
    let (address, port) = (ip_text(&collector.address), collector.port);
    let transport = transport(collector);
    match collector.address.len() {
        16 => format!("[{address}]:{port} {transport}"),
        _ => format!("{address}:{port} {transport}"),
    }
}

fn transport(collector: &IpfixCollector) -> &'static str {
    match collector.transport() {
        IpfixTransport::IpfixUdp => "udp",
        IpfixTransport::IpfixTcp => "tcp",
    }
}

fn to_table(settings: &Ipfix, collectors: &[IpfixCollectorState]) -> Table {
    let mut table = table(&columns(&["collector", "address", "state"], COLLECTORS, &[">queued"]));
    for state in collectors {
        let known = settings.collectors.iter().find(|it| it.name == state.name);
        let first = [
            Cell::new(&state.name),
            Cell::new(known.map(end).unwrap_or_default()),
            Cell::new(&state.state),
        ];
        let last = [Cell::new(number(state.queued_bytes))];
        table.add_row(first.into_iter().chain(counts(COLLECTORS, state)).chain(last));
    }
    table
}

/// What is exported, and what was lost before it reached a collector.
fn exported(settings: &Ipfix) -> String {
    let parts = [
        (settings.flows, "flows"),
        (settings.nat_sessions, "NAT sessions"),
        (settings.nat_events, "NAT events"),
        (settings.denials, "denials"),
    ];
    let names: Vec<&str> = parts.iter().filter(|(is, _)| *is).map(|(_, name)| *name).collect();
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

fn summary(settings: &Ipfix, state: &IpfixState, follows_flows: bool) -> String {
    let sampling = match settings.sampling {
        0 | 1 => "all flows".to_owned(),
        one_of => format!("1 of {} flows", number(one_of.into())),
    };
    let mut text = format!(
        "Exported: {} ({sampling}; active timeout {} s, idle timeout {} s)\n\
         Records: {} of flows, {} of NAT, {} of denials, {} of statistics; {} not made, as workers found no room\n",
        exported(settings),
        settings.active_timeout_s,
        settings.idle_timeout_s,
        number(state.flow_records),
        number(state.nat_records),
        number(state.denial_records),
        number(state.other_records),
        number(state.lost_records),
    );
    if state.unreported_flows > 0 {
        let flows = number(state.unreported_flows);
        text +=
            &format!("{flows} times a flow was not reported before its end: there are too many\n");
    }
    if state.suppressed_nat_events > 0 {
        let events = number(state.suppressed_nat_events);
        text += &format!(
            "{events} NAT events were not exported: more in a second than a worker reports\n"
        );
    }
    if settings.flows && !follows_flows {
        text += "No flows are followed: no attached rule is stateful, and nothing is translated.\n";
    }
    text
}

fn to_json(reply: &ListIpfixReply) -> Value {
    let Some(settings) = &reply.settings else { return json!({ "collectors": [] }) };
    let collector = |it: &IpfixCollectorState| {
        let known = settings.collectors.iter().find(|known| known.name == it.name);
        let first = json!({
            "name": it.name,
            "address": known.map(|it| ip_text(&it.address)).unwrap_or_default(),
            "port": known.map_or(0, |it| it.port),
            "transport": known.map(transport).unwrap_or_default(),
            "state": it.state,
            "error": it.error,
        });
        with_counters(first, COLLECTORS, it, json!({ "queued_bytes": it.queued_bytes }))
    };
    let state = reply.state.unwrap_or_default();
    let last = json!({
        "collectors": reply.collectors.iter().map(collector).collect::<Vec<_>>(),
        "active_timeout_s": settings.active_timeout_s,
        "idle_timeout_s": settings.idle_timeout_s,
        "template_interval_s": settings.template_interval_s,
        "sampling": settings.sampling.max(1),
        "observation_domain": settings.observation_domain,
        "message_size": settings.message_size,
        "biflow": settings.biflow,
        "flows": settings.flows,
        "nat_sessions": settings.nat_sessions,
        "nat_events": settings.nat_events,
        "denials": settings.denials,
        "follows_flows": reply.follows_flows,
    });
    with_counters(json!({}), EXPORT, &state, last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply() -> ListIpfixReply {
        let collector = IpfixCollector {
            name: "noc".to_owned(),
            address: vec![192, 0, 2, 9],
            port: 4739,
            ..IpfixCollector::default()
        };
        let far = IpfixCollector {
            name: "far".to_owned(),
            address: [vec![0x20, 1, 0xd, 0xb8], vec![0; 11], vec![9]].concat(),
            port: 4740,
            transport: IpfixTransport::IpfixTcp.into(),
            ..IpfixCollector::default()
        };
        let state = |name: &str, state: &str, error: &str| IpfixCollectorState {
            name: name.to_owned(),
            state: state.to_owned(),
            error: error.to_owned(),
            records: 1_234,
            lost_records: 7,
            queued_bytes: 9,
            ..IpfixCollectorState::default()
        };
        ListIpfixReply {
            settings: Some(Ipfix {
                collectors: vec![collector, far],
                active_timeout_s: 300,
                idle_timeout_s: 60,
                sampling: 10,
                flows: true,
                denials: true,
                ..Ipfix::default()
            }),
            state: Some(IpfixState {
                flow_records: 1_200,
                lost_records: 3,
                ..IpfixState::default()
            }),
            collectors: vec![state("noc", "sending", ""), state("far", "failed", "no route")],
            follows_flows: false,
        }
    }

    #[test]
    fn collectors_and_losses_are_shown() {
        let reply = reply();
        let settings = reply.settings.as_ref().unwrap();
        let text = to_table(settings, &reply.collectors).to_string();
        for part in
            ["192.0.2.9:4739 udp", "[2001:db8::9]:4740 tcp", "sending", "1,234", "LOST RECORDS"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        let text = summary(settings, reply.state.as_ref().unwrap(), reply.follows_flows);
        for part in
            ["flows, denials (1 of 10 flows", "1,200 of flows", "3 not made", "No flows are"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        let json = to_json(&reply);
        assert_eq!(json["lost_records"], 3);
        assert_eq!(json["collectors"][1]["transport"], "tcp");
        assert_eq!(json["collectors"][0]["queued_bytes"], 9);
        assert_eq!(to_json(&ListIpfixReply::default()), json!({ "collectors": [] }));
    }
}
