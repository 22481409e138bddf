//! BFD sessions: their state, and whether routes through the neighbours are used.

use std::io::Write;

use comfy_table::{Cell, Table};
use serde_json::{Value, json};
use stoa_api::counters::BFD_SESSIONS;
use stoa_api::text::ip_text;
use stoa_api::v1::{BfdSessionState, InterfaceState, ListInterfacesRequest};

use super::{columns, counts, duration, table, unix_s, with_counters, write};
use crate::failure::Failure;
use crate::operator::Client;

/// Requests the state and prints it.
pub async fn show(client: &mut Client, as_json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let interfaces =
        client.show_interfaces(ListInterfacesRequest::default()).await?.into_inner().interfaces;
    if as_json {
        let list: Vec<Value> = sessions(&interfaces).map(json).collect();
        writeln!(out, "{}", json!({ "sessions": list }))?;
    } else if sessions(&interfaces).next().is_none() {
        writeln!(
            out,
            "No BFD sessions. To configure one: `stoa set interfaces interface NAME bfd session ADDRESS`."
        )?;
    } else {
        write(&to_table(&interfaces, unix_s()), out)?;
    }
    Ok(())
}

fn sessions(
    interfaces: &[InterfaceState],
) -> impl Iterator<Item = (&InterfaceState, &BfdSessionState)> {
    interfaces.iter().flat_map(|interface| interface.bfd.iter().map(move |it| (interface, it)))
}

fn to_table(interfaces: &[InterfaceState], now_unix_s: u64) -> Table {
    let first = [
        "vrf",
        "interface",
        "neighbor",
        "state",
        "for",
        "routes",
        ">tx ms",
        ">rx ms",
        ">detection ms",
    ];
    let columns = columns(&first, BFD_SESSIONS, &["reason"]);
    let skip = usize::from(sessions(interfaces).all(|(interface, _)| interface.vrf.is_empty()));
    let mut table = table(&columns[skip..]);
    for (interface, session) in sessions(interfaces) {
        let is_negotiated = session.tx_us > 0;
        let interval = |us: u64| if is_negotiated { milliseconds(us) } else { "-".to_owned() };
        let row = [
            Cell::new(if interface.vrf.is_empty() { "default" } else { &interface.vrf }),
            Cell::new(&interface.name),
            Cell::new(ip_text(&session.address)),
            Cell::new(&session.state),
            Cell::new(duration(now_unix_s.saturating_sub(session.changed_unix_s))),
            Cell::new(if session.has_failed { "not used" } else { "used" }),
            Cell::new(interval(session.tx_us.into())),
            Cell::new(interval(session.rx_us.into())),
            Cell::new(interval(session.detection_us)),
        ];
        let row = row.into_iter().chain(counts(BFD_SESSIONS, session));
        let row = row.chain([Cell::new(reason(session).unwrap_or("-"))]);
        table.add_row(row.skip(skip).collect::<Vec<_>>());
    }
    table
}

/// Microseconds as milliseconds, without trailing zeros.
fn milliseconds(us: u64) -> String {
    match us % 1_000 {
        0 => format!("{}", us / 1_000),
        rest => format!("{}.{rest:03}", us / 1_000).trim_end_matches('0').to_owned(),
    }
}

/// Why a session is not up, in the terms of RFC 5880 section 4.1.
fn reason(session: &BfdSessionState) -> Option<&'static str> {
    if session.state == "up" {
        return None;
    }
    if session.state == "init" {
        // Its packets arrive, but still report the state down.
        return (session.remote_state == "down")
            .then_some("neighbor receives no BFD packets from this router");
    }
    Some(match session.diagnostic {
        _ if session.remote_state == "admin-down" && session.rx_packets > 0 => {
            "neighbor administratively down"
        }
        0 if session.rx_packets == 0 => "no BFD packet received",
        1 => "detection time expired",
        2 => "echo function failed",
        3 => "neighbor signaled session down",
        4 => "forwarding plane reset",
        5 => "path down",
        6 => "concatenated path down",
        7 => "administratively down",
        8 => "reverse concatenated path down",
        _ => return None,
    })
}

fn json((interface, session): (&InterfaceState, &BfdSessionState)) -> Value {
    let some = |value: u32| (value > 0).then_some(value);
    let state = json!({
        "interface": interface.name,
        "vrf": interface.vrf,
        "neighbor": ip_text(&session.address),
        "state": session.state,
        "remote_state": session.remote_state,
        "changed_unix_s": session.changed_unix_s,
        "failed": session.has_failed,
        "diagnostic": session.diagnostic,
        "remote_diagnostic": session.remote_diagnostic,
        "reason": reason(session),
        "tx_interval_us": some(session.tx_us),
        "rx_interval_us": some(session.rx_us),
        "remote_multiplier": some(session.remote_multiplier),
        "detection_us": (session.tx_us > 0).then_some(session.detection_us),
    });
    let last = json!({ "discriminator": session.discriminator });
    with_counters(state, BFD_SESSIONS, session, last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(vrf: &str, session: BfdSessionState) -> InterfaceState {
        InterfaceState {
            name: "wan".into(),
            vrf: vrf.into(),
            bfd: vec![session],
            ..InterfaceState::default()
        }
    }

    #[test]
    fn intervals_are_shown_only_if_negotiated() {
        let up = BfdSessionState {
            address: vec![192, 0, 2, 1],
            state: "up".into(),
            changed_unix_s: 1_000,
            tx_us: 100_000,
            rx_us: 12_500,
            remote_multiplier: 3,
            detection_us: 37_500,
            rx_packets: 7,
            ..BfdSessionState::default()
        };
        let expired = BfdSessionState {
            state: "down".into(),
            diagnostic: 1,
            has_failed: true,
            detection_us: 300_000,
            tx_us: 0,
            rx_us: 0,
            ..up.clone()
        };
        let never = BfdSessionState { state: "down".into(), ..BfdSessionState::default() };
        assert_eq!(reason(&never), Some("no BFD packet received"));
        let disabled = BfdSessionState { remote_state: "admin-down".into(), ..expired.clone() };
        assert_eq!(reason(&disabled), Some("neighbor administratively down"));
        let all = [interface("", up.clone()), interface("", expired.clone())];
        let text = to_table(&all, 1_061).to_string();
        for words in
            ["192.0.2.1", "1 min 1 s", "12.5", "37.5", "not used", "detection time expired"]
        {
            assert!(text.contains(words), "{words} in\n{text}");
        }
        assert!(!text.contains("VRF") && !text.contains("300"), "{text}");
        let shown = json((&all[1], &expired));
        assert!(shown["detection_us"].is_null() && shown["tx_interval_us"].is_null());
        assert_eq!(
            (&shown["reason"], &shown["failed"]),
            (&json!("detection time expired"), &json!(true))
        );
        assert!(to_table(&[interface("red", up)], 0).to_string().contains("red"));
    }

    #[test]
    fn columns_and_members_have_their_names_and_order() {
        let all = [interface("red", BfdSessionState::default())];
        let table = to_table(&all, 0);
        let object = sessions(&all).map(json).next().unwrap();
        let (header, keys) = super::super::names(&table, &object);
        assert_eq!(
            header.join(", "),
            "VRF, INTERFACE, NEIGHBOR, STATE, FOR, ROUTES, TX MS, RX MS, DETECTION MS, DOWNS, REASON"
        );
        assert_eq!(
            keys.join(" "),
            "interface vrf neighbor state remote_state changed_unix_s failed diagnostic remote_diagnostic reason \
                    tx_interval_us rx_interval_us remote_multiplier detection_us downs rx_packets tx_packets discriminator"
        );
    }
}
