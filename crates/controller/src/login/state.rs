//! Logins as YANG data, and as metrics.

use std::fmt;

use serde_json::{Map, Value, json};
use stoa_api::date;
use stoa_api::text::mac_text;

use super::logins::Listed;
use super::sessions::Session;
use crate::capability::Page;
use crate::json::{list, number, object, text};

/// Adds `/stoa-login:logins`.
pub(super) fn add(logins: &Listed, state: &mut Map<String, Value>) {
    let (now, sessions) = (logins.now_s, &logins.sessions);
    let host = |it: &Session| {
        let mut host = object([
            ("interface", text(&it.interface)),
            ("mac-address", text(&mac_text(&it.mac))),
            ("user", text(&it.user)),
            ("method", text(it.method.name())),
            ("since", text(&date::of_unix_s(logins.since_unix_s(it)))),
            ("session-id", text(&it.session_id())),
            ("standby", Value::Bool(it.is_standby())),
            ("idle", json!(it.idle_s(now) as u32)),
            ("in-packets", number(it.total().in_packets)),
            ("in-octets", number(it.total().in_bytes)),
            ("out-packets", number(it.total().out_packets)),
            ("out-octets", number(it.total().out_bytes)),
        ]);
        if let Some(left) = it.remaining_s(now) {
            host["remaining"] = json!(left);
        }
        if let Some(left) = it.remaining_bytes() {
            host["remaining-octets"] = json!(left.to_string());
        }
        host
    };
    if !sessions.is_empty() {
        let hosts = object([("host", list(sessions.iter().map(host)))]);
        state.insert("stoa-login:logins".to_owned(), hosts);
    }
}

/// Adds how many hosts have logged in at each interface, and what accounting has lost.
pub(super) fn metrics(logins: &Listed, page: &mut Page<'_>) -> fmt::Result {
    let mut counts = std::collections::BTreeMap::<&str, u32>::new();
    for it in &logins.sessions {
        *counts.entry(&it.interface).or_default() += 1;
    }
    let rows =
        counts.into_iter().map(|(name, count)| ([("interface", name.to_owned())], count.into()));
    page.gauges("logins", "", "Hosts that have logged in", rows)?;
    let help = "Starts and stops of logins that no RADIUS server has got";
    page.counter("login_lost_reports", "", help, logins.lost_reports)
}
