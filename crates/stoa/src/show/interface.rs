//! All about one interface: state with the reason why it is down, addresses, settings, counters and neighbours.

use std::io::Write;

use serde_json::{Value, json};
use stoa_api::text::{ip_text, mac_text};
use stoa_api::v1::{InterfaceState, ListInterfacesRequest, NeighborState};

use super::{duration, interfaces, neighbors, number, unix_s};
use crate::failure::Failure;
use crate::operator::Client;

/// What other routers call the table of all interfaces: `show ip interface brief`, `show interfaces terse`.
const TABLE_NAMES: [&str; 3] = ["brief", "terse", "summary"];

/// Names that an error lists.
const NAMES_LIMIT: usize = 20;

/// Requests the state of an interface and prints it.
pub async fn show(
    client: &mut Client,
    name: &str,
    as_json: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let all =
        client.show_interfaces(ListInterfacesRequest::default()).await?.into_inner().interfaces;
    let one = all.iter().find(|it| it.name == name);
    if one.is_none() && TABLE_NAMES.contains(&name) {
        return interfaces::show(client, as_json, out).await;
    }
    let one = one.ok_or_else(|| unknown(name, &all))?;
    let mut known = neighbors::all(client).await?;
    known.retain(|neighbor| neighbor.interface == name);
    if as_json {
        let mut shown = interfaces::json(one);
        shown["reason_down"] = json!(reason_down(one, &all));
        let near: Vec<Value> = known.iter().map(neighbors::json).collect();
        writeln!(out, "{}", json!({ "interfaces": [shown], "neighbors": near }))?;
        return Ok(());
    }
    for line in lines(one, &all, &known, unix_s()) {
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

fn unknown(name: &str, all: &[InterfaceState]) -> Failure {
    let mut names: Vec<&str> = all.iter().map(|it| it.name.as_str()).collect();
    let more = if names.len() > NAMES_LIMIT { ", ..." } else { "" };
    names.truncate(NAMES_LIMIT);
    let fix = match names.is_empty() {
        true => "none is configured".to_owned(),
        false => format!("use {}{more}", names.join(", ")),
    };
    Failure::Message(format!("there is no interface {name:?}: {fix}"))
}

/// Why an interface is down; `None`: it is up.
fn reason_down(one: &InterfaceState, all: &[InterfaceState]) -> Option<String> {
    if !one.enabled {
        let name = &one.name;
        return Some(format!(
            "it is disabled: `set interfaces interface {name} enabled true` enables it"
        ));
    }
    if one.up {
        return None;
    }
    let parent = all.iter().find(|it| !one.parent.is_empty() && it.name == one.parent);
    match parent.map(|parent| (parent, reason_down(parent, all))) {
        Some((parent, Some(reason))) => Some(format!("{} is down: {reason}", parent.name)),
        _ if !one.detail.is_empty() => Some(one.detail.clone()),
        _ => Some("there is no link: check the cable and the other end".to_owned()),
    }
}

fn lines(
    one: &InterfaceState,
    all: &[InterfaceState],
    neighbors: &[NeighborState],
    now: u64,
) -> Vec<String> {
    let ago = |since: u64| duration(now.saturating_sub(since));
    let since = if one.changed_unix_s > 0 {
        format!(" for {}", ago(one.changed_unix_s))
    } else {
        String::new()
    };
    let mut lines = vec![format!("Interface {} is {}{since}", one.name, interfaces::state(one))];
    let mut line = |name: &str, text: String| {
        if !text.is_empty() {
            lines.push(format!("  {name:<15} {text}"));
        }
    };
    line("Reason", reason_down(one, all).unwrap_or_default());
    line("On", interfaces::on(one).replace('\n', ", "));
    // Of a port that is down, the reason above says it.
    if one.up || !one.enabled {
        line("Details", one.detail.clone());
    }
    line("VRF", if one.vrf.is_empty() { "default".into() } else { one.vrf.clone() });
    line("MTU", format!("{} bytes", one.mtu));
    line("MAC address", if one.mac.is_empty() { String::new() } else { mac_text(&one.mac) });
    if one.rx_queues > 0 {
        line("Queues", format!("{} to receive, {} to send", one.rx_queues, one.tx_queues));
    }
    for (at, address) in one.addresses.iter().enumerate() {
        line(if at == 0 { "Addresses" } else { "" }, interfaces::with_state(address));
    }
    let packets = |packets, bytes| {
        let noun = if packets == 1 { "packet" } else { "packets" };
        format!("{} {noun}, {} bytes", number(packets), number(bytes))
    };
    line("Received", packets(one.rx_packets, one.rx_bytes));
    line("Sent", packets(one.tx_packets, one.tx_bytes));
    let [after, device, before] = [one.rx_drops, one.rx_missed, one.tx_drops].map(number);
    line("Dropped", format!("{after} after reception, {device} by the device, {before} to send"));
    line(
        "Counters",
        match (one.cleared_unix_s, one.created_unix_s) {
            (0, 0) => String::new(),
            (0, created) => format!("since {} ago", ago(created)),
            (cleared, _) => format!("cleared {} ago", ago(cleared)),
        },
    );
    for (at, neighbor) in neighbors.iter().enumerate() {
        let mac = if neighbor.mac.is_empty() { "-".into() } else { mac_text(&neighbor.mac) };
        let text = format!("{} {mac} {}", ip_text(&neighbor.address), neighbor.state);
        line(if at == 0 { "Neighbours" } else { "" }, text);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(name: &str, parent: &str) -> InterfaceState {
        let (name, parent) = (name.into(), parent.into());
        InterfaceState { name, parent, enabled: true, ..InterfaceState::default() }
    }

    #[test]
    fn the_reason_is_that_of_the_interface_or_its_parent() {
        let all = [interface("eth0", ""), interface("eth0.5", "eth0")];
        let of = |all: &[InterfaceState]| reason_down(&all[1], all).unwrap_or_default();
        assert_eq!(of(&all), "eth0 is down: there is no link: check the cable and the other end");
        let mut detailed = all.clone();
        detailed[0].detail = "no device eth0".into();
        assert_eq!(of(&detailed), "eth0 is down: no device eth0");
        let mut disabled = all.clone();
        disabled[1].enabled = false;
        assert!(of(&disabled).starts_with("it is disabled: `set interfaces interface eth0.5"));
        let up = InterfaceState { up: true, ..interface("eth0", "") };
        assert_eq!(reason_down(&up, &[]), None);
    }

    #[test]
    fn all_about_an_interface_has_counters_and_neighbours() {
        let one = InterfaceState {
            mtu: 1500,
            rx_packets: 1_234,
            tx_packets: 1,
            tx_drops: 5,
            cleared_unix_s: 90,
            changed_unix_s: 40,
            ..interface("eth0", "")
        };
        let near = NeighborState {
            interface: "eth0".into(),
            address: vec![10, 1, 0, 2],
            state: "incomplete".into(),
            ..NeighborState::default()
        };
        let text = lines(&one, &[], &[near], 100).join("\n");
        for part in [
            "Interface eth0 is down for 1 min 0 s",
            "Reason          there is no link",
            "MTU             1500 bytes",
            "Received        1,234 packets, 0 bytes",
            "Sent            1 packet, 0 bytes",
            "0 by the device, 5 to send",
            "Counters        cleared 10 s ago",
            "Neighbours      10.1.0.2 - incomplete",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        let Failure::Message(text) = unknown("x", &[one]) else { panic!("no message") };
        assert_eq!(text, "there is no interface \"x\": use eth0");
    }
}
