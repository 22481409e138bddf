//! The metric families: one function for each section of the state.

use std::fmt;

use stoa_api::counters::{DROPS, INTERFACES, NODES};
use stoa_api::text::mac_text;
use stoa_api::v1;

use super::page::{Page, float, one};
use crate::operational_state::OperationalState;

/// Versions and processes.
pub(super) fn program(page: &mut Page<'_>, operational: Option<&OperationalState>) -> fmt::Result {
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    page.info("build", "Version of the controller", [version])?;
    let is_up = operational.is_some();
    page.gauge("forwarder_up", "", "Whether the forwarder answers", one(is_up))?;
    let Some(operational) = operational else { return Ok(()) };
    let help = "Whether the forwarder has the running configuration";
    page.gauge("in_sync", "", help, one(operational.in_sync))?;
    let Some(hello) = &operational.program else { return Ok(()) };
    let labels = [("version", hello.version.as_str()), ("kernel", hello.kernel.as_str())];
    page.info("forwarder", "Version and SIMD kernel of the forwarder", [labels])?;
    let started = float(hello.started_unix_s);
    let help = "Start of the forwarder and of its counters, since 1970";
    page.gauge("forwarder_start_time", "seconds", help, started)?;
    let help = "Frequency of the time stamp counter that counts cycles";
    page.gauge("time_stamp_counter", "hertz", help, float(hello.tsc_hz))
}

/// Interfaces.
pub(super) fn interfaces(page: &mut Page<'_>, all: &[v1::InterfaceState]) -> fmt::Result {
    let mut by_name: Vec<_> = INTERFACES.iter().collect();
    by_name.sort_by_key(|counter| counter.metric.map(|metric| metric.name));
    page.table(by_name, all.iter(), |it| [("interface", it.name.as_str())])?;
    type Gauge = fn(&v1::InterfaceState) -> f64;
    let gauges: [(&str, &str, &str, Gauge); 4] = [
        ("interface_up", "", "Whether the interface is up", |it| one(it.up)),
        ("interface_enabled", "", "Whether the interface is enabled in the configuration", |it| {
            one(it.enabled)
        }),
        ("interface_mtu", "bytes", "Largest IP packet of the interface", |it| it.mtu.into()),
        ("interface_changed_time", "seconds", "Last change of the link state, since 1970", |it| {
            float(it.changed_unix_s)
        }),
    ];
    for (name, unit, help, of) in gauges {
        let samples = all.iter().map(|it| ([("interface", it.name.as_str())], of(it)));
        page.gauges(name, unit, help, samples)?;
    }
    let labels = all.iter().map(|it| {
        [
            ("interface", it.name.clone()),
            ("driver", it.driver.clone()),
            ("parent", it.parent.clone()),
            ("vrf", it.vrf.clone()),
            ("mac", if it.mac.is_empty() { String::new() } else { mac_text(&it.mac) }),
        ]
    });
    page.info("interface", "Properties of an interface", labels)
}

/// Graph nodes. A node has no sample for workers that never called it, which are most.
pub(super) fn nodes(page: &mut Page<'_>, all: &[v1::NodeState]) -> fmt::Result {
    let called = all.iter().filter(|it| it.calls > 0);
    page.table(NODES, called, |it| [("node", it.name.clone()), ("worker", it.worker.to_string())])
}

/// Drops by reason.
pub(super) fn drops(page: &mut Page<'_>, all: &[v1::DropState]) -> fmt::Result {
    page.table(DROPS, all.iter(), |it| [("reason", it.reason.as_str())])
}

/// The number of routes.
pub(super) fn routes(page: &mut Page<'_>, all: &[v1::RouteCount]) -> fmt::Result {
    let samples = all.iter().map(|it| {
        let family = if it.family == 4 { "ipv4" } else { "ipv6" };
        let vrf = if it.vrf.is_empty() { "default" } else { it.vrf.as_str() };
        let protocol = it.protocol().to_string();
        let labels =
            [("vrf", vrf.to_owned()), ("family", family.to_owned()), ("protocol", protocol)];
        (labels, float(it.routes))
    });
    page.gauges("routes", "", "Routes by VRF, family and protocol", samples)
}

/// Bounded resources: tables, neighbours, rings, buffers.
pub(super) fn limits(page: &mut Page<'_>, all: &[v1::LimitState]) -> fmt::Result {
    let used = all.iter().filter_map(|it| Some(([("name", it.name.as_str())], float(it.used?))));
    page.gauges("limit_used", "", "Use of a bounded resource", used)?;
    let bounds = all.iter().filter(|it| it.limit > 0);
    let bounds = bounds.map(|it| ([("name", it.name.as_str())], float(it.limit)));
    page.gauges("limit_max", "", "Limit of a bounded resource", bounds)?;
    let refused = all.iter().map(|it| ([("name", it.name.as_str())], it.refused));
    page.counters(
        "limit_refused",
        "",
        "Requests refused because the resource was exhausted",
        refused,
    )
}

/// Flows of stateful rules. How many there are is a limit.
pub(super) fn flows(page: &mut Page<'_>, all: &[v1::FlowCounts]) -> fmt::Result {
    type Count = fn(&v1::FlowCounts) -> u64;
    const LIMITED: &str = "Packets dropped because their source had as many flows as it may have";
    let families: [(&str, &str, Count); 7] = [
        ("flows_created", "Flows that stateful rules have admitted", |it| it.created),
        ("flows_expired", "Flows that have ended by their timeout", |it| it.expired),
        ("flows_evicted", "Flows that gave way because the table was nearly full", |it| it.evicted),
        ("flows_refused", "Packets dropped because the flow table was full", |it| it.refused),
        ("flows_source_limited", LIMITED, |it| it.source_limited),
        ("flows_adopted", "Flows of the last forwarder that go on", |it| it.adopted),
        ("flows_left_out", "Flows of the last forwarder that do not go on", |it| it.left_out),
    ];
    for (name, help, count) in families {
        let samples = all.iter().map(|it| ([("family", format!("ipv{}", it.family))], count(it)));
        page.counters(name, "", help, samples)?;
    }
    Ok(())
}

/// Application level gateways. What is expected now is a limit.
pub(super) fn algs(page: &mut Page<'_>, algs: Option<&v1::AlgState>) -> fmt::Result {
    let Some(it) = algs.filter(|it| it.expected > 0 || it.passed.iter().any(|it| it.packets > 0))
    else {
        return Ok(());
    };
    let families = [
        (
            "alg_expected",
            "Announcements whose connection application level gateways expect",
            it.expected,
        ),
        ("alg_begun", "Expected connections that have begun", it.begun),
        ("alg_expired", "Expected connections that did not come in time", it.expired),
        ("alg_edited", "Announcements that got another address or port", it.edited),
    ];
    for (name, help, value) in families {
        page.counters(name, "", help, std::iter::once((<[(&str, &str); 0]>::default(), value)))?;
    }
    let passed = it.passed.iter().map(|it| ([("cause", it.cause.clone())], it.packets));
    page.counters("alg_passed", "packets", "Announcements that passed as they were", passed)
}

/// Packet accounting.
pub(super) fn accounting(page: &mut Page<'_>, accounting: &v1::Conservation) -> fmt::Result {
    let counters = [
        ("received", "Packets that ports received", accounting.received),
        ("generated", "Packets that Stoa generated", accounting.generated),
        ("sent", "Packets that ports sent", accounting.sent),
        ("consumed", "Packets delivered to Stoa itself or to Linux", accounting.consumed),
        ("dropped", "Packets dropped for any reason", accounting.dropped),
    ];
    for (name, help, value) in counters {
        page.counter(name, "packets", help, value)?;
    }
    page.gauge("held", "packets", "Packets in progress", float(accounting.held))?;
    let help = "Whether received and generated packets are sent, consumed, dropped or held; \
                while packets move the sums differ for a moment";
    page.gauge("packets_conserved", "", help, one(accounting.balanced))?;
    page.gauge("buffers", "", "Total number of packet buffers", float(accounting.buffers))?;
    let states = [
        ("free", accounting.buffers_free),
        ("busy", accounting.buffers_busy),
        ("waiting", accounting.buffers_waiting),
    ];
    let states = states.map(|(state, value)| ([("state", state)], float(value)));
    page.gauges("buffers_state", "", "Packet buffers by state", states)
}
