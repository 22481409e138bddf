//! The export as YANG data, and as metrics.

use std::fmt;

use serde_json::{Map, Value, json};
use stoa_api::counters::{COLLECTORS, EXPORT};
use stoa_api::v1;

use crate::capability::Page;
use crate::json::{list, number, object, text, with_counters};

/// Adds `/stoa-ipfix:ipfix/state`.
pub(super) fn add(listed: &v1::ListIpfixReply, state: &mut Map<String, Value>) {
    let Some(of_all) = &listed.state else { return };
    let collector = |it: &v1::IpfixCollectorState| {
        let entry = object([
            ("name", text(&it.name)),
            ("status", text(&it.state)),
            ("last-error", text(&it.error)),
            ("queued-octets", number(it.queued_bytes)),
        ]);
        with_counters(entry, COLLECTORS, it)
    };
    let collectors = object([("collector", list(listed.collectors.iter().map(collector)))]);
    let whole = with_counters(collectors, EXPORT, of_all);
    state.insert("stoa-ipfix:ipfix".to_owned(), json!({ "state": whole }));
}

/// Adds what was exported, by collector too.
pub(super) fn metrics(listed: &v1::ListIpfixReply, page: &mut Page<'_>) -> fmt::Result {
    let none: [(&str, &str); 0] = [];
    page.table(EXPORT, listed.state.iter(), |_| none)?;
    let labels = |it: &v1::IpfixCollectorState| [("collector", it.name.clone())];
    page.table(COLLECTORS, listed.collectors.iter(), labels)?;
    let is_up = |it: &v1::IpfixCollectorState| {
        f64::from(u8::from(matches!(it.state.as_str(), "sending" | "connected")))
    };
    let up = listed.collectors.iter().map(|it| (labels(it), is_up(it)));
    page.gauges("ipfix_collector_up", "", "Whether there is a way to a collector", up)
}
