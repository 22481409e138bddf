//! Flows at the partner as YANG data, and as metrics.

use std::fmt;

use serde_json::{Map, Value, json};
use stoa_api::counters::{FLOW_SYNC, LOGIN_SYNC};
use stoa_api::v1;

use crate::capability::Page;
use crate::json::{number, object, text, with_counters};

/// Adds `/stoa-flow-sync:flow-sync/state`.
pub(super) fn add(listed: &v1::ListFlowSyncReply, state: &mut Map<String, Value>) {
    let Some(it) = &listed.state else { return };
    let of = object([
        ("status", text(it.status().name())),
        ("last-error", text(&it.error)),
        ("bulk-sent", Value::Bool(it.is_bulk_sent)),
        ("bulk-received", Value::Bool(it.is_bulk_received)),
        ("queued-octets", number(it.queued_bytes)),
    ]);
    let mut whole = with_counters(of, FLOW_SYNC, it);
    if let Some(it) = &listed.logins {
        let of = object([
            ("status", text(it.status().name())),
            ("last-error", text(&it.error)),
            ("bulk-sent", Value::Bool(it.is_bulk_sent)),
            ("bulk-received", Value::Bool(it.is_bulk_received)),
        ]);
        whole["logins"] = with_counters(of, LOGIN_SYNC, it);
    }
    state.insert("stoa-flow-sync:flow-sync".to_owned(), json!({ "state": whole }));
}

/// Adds what was sent and received.
pub(super) fn metrics(listed: &v1::ListFlowSyncReply, page: &mut Page<'_>) -> fmt::Result {
    let none: [(&str, &str); 0] = [];
    page.table(FLOW_SYNC, listed.state.iter(), |_| none)?;
    page.table(LOGIN_SYNC, listed.logins.iter(), |_| none)?;
    let is_up = |it: &v1::FlowSyncState| {
        f64::from(u8::from(it.status() == v1::FlowSyncStatus::FlowSyncConnected))
    };
    let has_logins = |it: &&v1::LoginSyncState| it.status() != v1::FlowSyncStatus::FlowSyncOff;
    let is_connected = |it: &v1::LoginSyncState| {
        f64::from(u8::from(it.status() == v1::FlowSyncStatus::FlowSyncConnected))
    };
    let of_logins = listed.logins.iter().filter(has_logins).map(|it| (none, is_connected(it)));
    let help = "Whether the partner is connected for logins";
    page.gauges("login_sync_up", "", help, of_logins)?;
    let up = listed.state.iter().map(|it| (none, is_up(it)));
    page.gauges("flow_sync_up", "", "Whether the partner is connected", up)
}
