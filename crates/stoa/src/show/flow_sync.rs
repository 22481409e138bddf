//! Flows at a partner: the connection, what was sent, and what became of what was received.

use std::io::Write;

use serde_json::{Value, json};
use stoa_api::counters::{FLOW_SYNC, LOGIN_SYNC};
use stoa_api::text::ip_text;
use stoa_api::v1::{
    FlowSync, FlowSyncState, FlowSyncStatus, ListFlowSyncReply, ListFlowSyncRequest, LoginSyncState,
};

use super::{number, with_counters};
use crate::failure::Failure;
use crate::operator::Client;

/// Requests the state and prints it.
pub async fn show(client: &mut Client, as_json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let reply = client.show_flow_sync(ListFlowSyncRequest {}).await?.into_inner();
    if as_json {
        writeln!(out, "{}", to_json(&reply))?;
        return Ok(());
    }
    match (&reply.settings, &reply.state) {
        (Some(settings), Some(state)) => {
            write!(out, "{}", text(settings, state, reply.follows_flows))?;
            write!(out, "{}", reply.logins.as_ref().map_or_else(String::new, of_logins))?;
        }
        _ => writeln!(
            out,
            "No partner: set flow-sync local-address, flow-sync partner-address and flow-sync secret."
        )?,
    }
    Ok(())
}

fn end(address: &[u8], port: u32) -> String {
    match address.len() {
        16 => format!("[{}]:{port}", ip_text(address)),
        _ => format!("{}:{port}", ip_text(address)),
    }
}

fn bulk(is_done: bool) -> &'static str {
    if is_done { "complete" } else { "not complete" }
}

fn text(settings: &FlowSync, state: &FlowSyncState, follows_flows: bool) -> String {
    let mut text = format!(
        "Partner {} from {}: {}\n",
        end(&settings.partner_address, settings.partner_port),
        end(&settings.local_address, settings.local_port),
        state.status().name()
    );
    if !state.error.is_empty() {
        text += &format!("Last error: {}\n", state.error);
    }
    let n = number;
    text += &format!(
        "Connections: {}, and {} refused\n\
         Sent: {} records of flows of at least {} s, {} ends; bulk {}; {} bytes wait, {} pauses for a slow partner\n\
         Received: {} records, {} ends; bulk {}\n\
         Standby flows: {} created, {} times refreshed, {} ended; {} records changed nothing\n",
        n(state.connections),
        n(state.refused_connections),
        n(state.sent_records),
        settings.minimum_age_s,
        n(state.sent_ends),
        bulk(state.is_bulk_sent),
        n(state.queued_bytes),
        n(state.queue_full),
        n(state.received_records),
        n(state.received_ends),
        bulk(state.is_bulk_received),
        n(state.created_flows),
        n(state.refreshed_flows),
        n(state.ended_flows),
        n(state.ignored_records),
    );
    let refused = [
        (state.refused_expired, "expired"),
        (state.refused_vrf, "without VRF"),
        (state.refused_translation, "not translated like this"),
        (state.refused_room, "without room"),
        (state.refused_damaged, "damaged"),
    ];
    let reasons: Vec<String> = refused
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, why)| format!("{} {why}", n(*count)))
        .collect();
    if !reasons.is_empty() {
        text += &format!("Refused records: {}\n", reasons.join(", "));
    }
    if state.sent_leases + state.received_leases > 0 {
        text += &format!(
            "Leases: {} sent, {} received; standby: {} created, {} ended\n",
            n(state.sent_leases),
            n(state.received_leases),
            n(state.created_leases),
            n(state.ended_leases),
        );
    }
    if state.left_out_flows > 0 {
        let flows = n(state.left_out_flows);
        text += &format!(
            "Not sent: {flows} flows with a gateway, a SYN cookie, hairpin or twice NAT\n"
        );
    }
    if !follows_flows {
        text += "No flows are followed: no attached rule is stateful, and nothing is translated.\n";
    }
    text
}

/// Logins at the partner; nothing where nobody logs in.
fn of_logins(state: &LoginSyncState) -> String {
    if state.status() == FlowSyncStatus::FlowSyncOff {
        return String::new();
    }
    let mut text = format!("Logins: {}\n", state.status().name());
    if !state.error.is_empty() {
        text += &format!("Last error: {}\n", state.error);
    }
    let n = number;
    text += &format!(
        "Logins sent: {}, and {} ends; bulk {}\n\
         Logins received: {}, and {} ends; bulk {}\n\
         Standby logins: {} added, {} taken over; {} refused\n",
        n(state.sent_logins),
        n(state.sent_ends),
        bulk(state.is_bulk_sent),
        n(state.received_logins),
        n(state.received_ends),
        bulk(state.is_bulk_received),
        n(state.added_logins),
        n(state.taken_over_logins),
        n(state.refused_logins),
    );
    text
}

/// Logins at the partner.
fn logins_to_json(state: &LoginSyncState) -> Value {
    let first = json!({
        "status": state.status().name(),
        "error": state.error,
        "bulk_sent": state.is_bulk_sent,
        "bulk_received": state.is_bulk_received,
    });
    with_counters(first, LOGIN_SYNC, state, json!({}))
}

fn to_json(reply: &ListFlowSyncReply) -> Value {
    let (Some(settings), Some(state)) = (&reply.settings, &reply.state) else {
        return json!({ "partner": null });
    };
    let first = json!({
        "partner": ip_text(&settings.partner_address),
        "partner_port": settings.partner_port,
        "local": ip_text(&settings.local_address),
        "local_port": settings.local_port,
        "minimum_age_s": settings.minimum_age_s,
        "status": state.status().name(),
        "error": state.error,
        "bulk_sent": state.is_bulk_sent,
        "bulk_received": state.is_bulk_received,
        "queued_bytes": state.queued_bytes,
    });
    with_counters(
        first,
        FLOW_SYNC,
        state,
        json!({
            "follows_flows": reply.follows_flows,
            "logins": reply.logins.as_ref().map(logins_to_json),
        }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_shown() {
        let settings = FlowSync {
            local_address: vec![192, 0, 2, 1],
            local_port: 8_784,
            partner_address: vec![192, 0, 2, 2],
            partner_port: 8_784,
            minimum_age_s: 5,
            ..FlowSync::default()
        };
        let state = FlowSyncState {
            status: FlowSyncStatus::FlowSyncConnected.into(),
            is_bulk_sent: true,
            sent_records: 12_345,
            refused_translation: 7,
            sent_leases: 3,
            ..FlowSyncState::default()
        };
        let printed = text(&settings, &state, true);
        assert!(printed.starts_with("Partner 192.0.2.2:8784 from 192.0.2.1:8784: connected\n"));
        assert!(printed.contains("Refused records: 7 not translated like this\n"), "{printed}");
        assert!(printed.contains("Leases: 3 sent, 0 received; standby: 0 created"), "{printed}");
        assert!(!printed.contains("Last error") && !printed.contains("No flows"), "{printed}");
        let failed = FlowSyncState { error: "refused".to_owned(), ..FlowSyncState::default() };
        let printed = text(&settings, &failed, false);
        assert!(printed.contains(": connecting\nLast error: refused\n"), "{printed}");
        assert!(printed.contains("No flows are followed"), "{printed}");
        let reply = ListFlowSyncReply {
            settings: Some(settings),
            state: Some(state),
            ..Default::default()
        };
        assert_eq!(to_json(&reply)["sent_records"], 12_345);
    }

    #[test]
    fn logins_are_shown_where_hosts_log_in() {
        let off = FlowSyncStatus::FlowSyncOff.into();
        assert_eq!(of_logins(&LoginSyncState { status: off, ..Default::default() }), "");
        let state =
            LoginSyncState { error: "gone".to_owned(), added_logins: 7, ..Default::default() };
        let printed = of_logins(&state);
        assert!(printed.starts_with("Logins: connecting\nLast error: gone\n"), "{printed}");
        assert!(printed.contains("Standby logins: 7 added"), "{printed}");
        assert_eq!(logins_to_json(&state)["added_logins"], 7);
    }
}
