//! The families of metrics: one function for each kind of facts.

use std::fmt;

use stoa_api::text::mac_text;
use stoa_api::v1;

use super::page::Page;
use crate::operational_state::OperationalState;

/// A gauge of yes and no.
pub(super) fn one(is: bool) -> f64 {
    f64::from(u8::from(is))
}

/// A whole number as a gauge tells it: exact up to 2^53.
#[allow(clippy::cast_precision_loss)]
pub(super) fn float(value: u64) -> f64 {
    value as f64
}

/// Who is there.
pub(super) fn program(page: &mut Page<'_>, operational: Option<&OperationalState>) -> fmt::Result {
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    page.words("build", "The program", [version])?;
    let is_up = operational.is_some();
    page.gauge("forwarder_up", "", "Whether the forwarder answers", one(is_up))?;
    let Some(operational) = operational else { return Ok(()) };
    let help = "Whether the forwarder holds the running configuration";
    page.gauge("in_sync", "", help, one(operational.in_sync))?;
    let Some(hello) = &operational.program else { return Ok(()) };
    let words = [("version", hello.version.as_str()), ("kernel", hello.kernel.as_str())];
    page.words("forwarder", "Version and vector instructions of the forwarder", [words])?;
    let started = float(hello.started_unix_s);
    let help = "When the forwarder was started, since 1970; all its counters count since then";
    page.gauge("forwarder_start_time", "seconds", help, started)?;
    let help = "How fast the counter runs that cycles are counted by";
    page.gauge("time_stamp_counter", "hertz", help, float(hello.tsc_hz))
}

/// Interfaces.
pub(super) fn interfaces(page: &mut Page<'_>, all: &[v1::InterfaceState]) -> fmt::Result {
    type Of = fn(&v1::InterfaceState) -> u64;
    let counters: [(&str, &str, &str, Of); 7] = [
        ("interface_receive", "packets", "Packets received", |it| it.rx_packets),
        ("interface_receive", "bytes", "Bytes received", |it| it.rx_bytes),
        (
            "interface_receive_drops",
            "packets",
            "Packets dropped after the interface received them",
            |it| it.rx_drops,
        ),
        (
            "interface_receive_missed",
            "packets",
            "Packets that the port shed before they were seen",
            |it| it.rx_missed,
        ),
        ("interface_transmit", "packets", "Packets sent", |it| it.tx_packets),
        ("interface_transmit", "bytes", "Bytes sent", |it| it.tx_bytes),
        ("interface_transmit_drops", "packets", "Packets that the port did not take", |it| {
            it.tx_drops
        }),
    ];
    for (name, unit, help, of) in counters {
        let samples = all.iter().map(|it| ([("interface", it.name.as_str())], of(it)));
        page.counters(name, unit, help, samples)?;
    }
    type Gauge = fn(&v1::InterfaceState) -> f64;
    let gauges: [(&str, &str, &str, Gauge); 4] = [
        ("interface_up", "", "Whether packets can pass", |it| one(it.up)),
        ("interface_enabled", "", "Whether the configuration wants it up", |it| one(it.enabled)),
        ("interface_mtu", "bytes", "The largest IP packet that it carries", |it| it.mtu.into()),
        ("interface_changed_time", "seconds", "Since when it is up or down, since 1970", |it| {
            float(it.changed_unix_s)
        }),
    ];
    for (name, unit, help, of) in gauges {
        let samples = all.iter().map(|it| ([("interface", it.name.as_str())], of(it)));
        page.gauges(name, unit, help, samples)?;
    }
    let words = all.iter().map(|it| {
        [
            ("interface", it.name.clone()),
            ("driver", it.driver.clone()),
            ("parent", it.parent.clone()),
            ("vrf", it.vrf.clone()),
            ("mac", if it.mac.is_empty() { String::new() } else { mac_text(&it.mac) }),
        ]
    });
    page.words("interface", "What an interface is", words)
}

/// Nodes of the graph. Those that a worker never called are left out: most workers never call most.
pub(super) fn nodes(page: &mut Page<'_>, all: &[v1::NodeState]) -> fmt::Result {
    type Of = fn(&v1::NodeState) -> u64;
    let counters: [(&str, &str, Of); 3] = [
        ("vectors", "How often a node was called, each time with a vector of packets", |it| {
            it.calls
        }),
        ("packets", "Packets in those vectors", |it| it.packets),
        ("cycles", "What that took, in cycles of the time stamp counter", |it| it.cycles),
    ];
    let called = || all.iter().filter(|it| it.calls > 0);
    for (unit, help, of) in counters {
        let samples = called()
            .map(|it| ([("node", it.name.clone()), ("worker", it.worker.to_string())], of(it)));
        page.counters("node", unit, help, samples)?;
    }
    Ok(())
}

/// Workers.
pub(super) fn workers(page: &mut Page<'_>, all: &[v1::WorkerState]) -> fmt::Result {
    type Of = fn(&v1::WorkerState) -> u64;
    let counters: [(&str, &str, &str, Of); 5] = [
        ("worker_turns", "", "How often a worker looked at its queues", |it| it.loops),
        ("worker_sleeps", "", "How often a worker went to sleep", |it| it.sleeps),
        ("worker_receive", "packets", "Packets that a worker received", |it| it.packets),
        ("worker_handed_out", "packets", "Packets given to other workers", |it| it.handed_out),
        ("worker_handed_in", "packets", "Packets taken from other workers", |it| it.handed_in),
    ];
    for (name, unit, help, of) in counters {
        let samples = all.iter().map(|it| ([("worker", it.index.to_string())], of(it)));
        page.counters(name, unit, help, samples)?;
    }
    let busy = all.iter().map(|it| ([("worker", it.index.to_string())], it.busy));
    let help = "Share of the last second that a worker spent with packets";
    page.gauges("worker_busy", "ratio", help, busy)?;
    let vector = all.iter().map(|it| ([("worker", it.index.to_string())], it.vector));
    let help = "Mean number of packets that went through the graph together";
    page.gauges("worker_vector", "packets", help, vector)?;
    let words = all.iter().map(|it| {
        let cpu = if it.cpu < 0 { String::new() } else { it.cpu.to_string() };
        [("worker", it.index.to_string()), ("cpu", cpu), ("polling", it.polling.clone())]
    });
    page.words("worker", "Where a worker runs, and what it does when no packet is there", words)
}

/// Drops by reason.
pub(super) fn drops(page: &mut Page<'_>, all: &[v1::DropState]) -> fmt::Result {
    let samples = all.iter().map(|it| ([("reason", it.reason.as_str())], it.packets));
    page.counters("drop", "packets", "Packets dropped, by reason", samples)
}

/// Budgets of the control plane.
pub(super) fn punts(page: &mut Page<'_>, all: &[v1::PuntState]) -> fmt::Result {
    let sums = || all.iter().filter(|it| it.interface.is_empty());
    let sum = |of: fn(&v1::PuntState) -> u64| {
        sums().map(move |it| ([("class", it.class.as_str())], of(it)))
    };
    let help = "Packets for the control plane that passed their budget, by class";
    page.counters("punt_passed", "packets", help, sum(|it| it.passed))?;
    let help = "Packets for the control plane beyond their budget, by class";
    page.counters("punt_dropped", "packets", help, sum(|it| it.dropped))?;
    let budgets = sums().map(|it| ([("class", it.class.as_str())], f64::from(it.rate)));
    let help = "Packets of a class that may pass in a second, all interfaces together";
    page.gauges("punt_budget", "packets_per_second", help, budgets)?;
    let each = |of: fn(&v1::PuntState) -> u64| {
        let rows = all.iter().filter(|it| !it.interface.is_empty());
        rows.map(move |it| {
            ([("class", it.class.as_str()), ("interface", it.interface.as_str())], of(it))
        })
    };
    let help = "As punt_passed, of one interface that had packets of the class";
    page.counters("interface_punt_passed", "packets", help, each(|it| it.passed))?;
    let help = "As punt_dropped, of one interface that had packets of the class";
    page.counters("interface_punt_dropped", "packets", help, each(|it| it.dropped))
}

/// How many routes there are.
pub(super) fn routes(page: &mut Page<'_>, all: &[v1::RouteCount]) -> fmt::Result {
    let samples = all.iter().map(|it| {
        let family = if it.family == 4 { "ipv4" } else { "ipv6" };
        let vrf = if it.vrf.is_empty() { "default" } else { it.vrf.as_str() };
        let protocol = it.protocol().to_string();
        let labels =
            [("vrf", vrf.to_owned()), ("family", family.to_owned()), ("protocol", protocol)];
        (labels, float(it.routes))
    });
    page.gauges("routes", "", "Routes by VRF, family and source", samples)
}

/// Everything that is bounded: tables, neighbours, rings, buffers.
pub(super) fn limits(page: &mut Page<'_>, all: &[v1::LimitState]) -> fmt::Result {
    let used = all.iter().filter_map(|it| Some(([("name", it.name.as_str())], float(it.used?))));
    page.gauges("limit_used", "", "How much there is of something that is bounded", used)?;
    let bounds = all.iter().filter(|it| it.limit > 0);
    let bounds = bounds.map(|it| ([("name", it.name.as_str())], float(it.limit)));
    page.gauges("limit_max", "", "How much there can be", bounds)?;
    let refused = all.iter().map(|it| ([("name", it.name.as_str())], it.refused));
    page.counters("limit_refused", "", "How often there was no room", refused)
}

/// The packet accounting of all packets.
pub(super) fn accounting(page: &mut Page<'_>, accounting: &v1::Conservation) -> fmt::Result {
    let counters = [
        ("received", "Packets that ports received", accounting.received),
        ("generated", "Packets that Stoa made itself", accounting.generated),
        ("sent", "Packets that ports sent", accounting.sent),
        ("consumed", "Packets for Stoa itself or for Linux", accounting.consumed),
        ("dropped", "Packets dropped, by whatever reason", accounting.dropped),
    ];
    for (name, help, value) in counters {
        page.counter(name, "packets", help, value)?;
    }
    page.gauge("held", "packets", "Packets under way", float(accounting.held))?;
    let help = "Whether received and generated packets are sent, consumed, dropped or held; \
                while packets move the sums differ for a moment";
    page.gauge("conserved", "", help, one(accounting.balanced))?;
    page.gauge("buffers", "", "Packet buffers in all", float(accounting.buffers))?;
    let states = [
        ("free", accounting.buffers_free),
        ("busy", accounting.buffers_busy),
        ("waiting", accounting.buffers_waiting),
    ];
    let states = states.map(|(state, value)| ([("state", state)], float(value)));
    page.gauges("buffers_state", "", "Packet buffers by what they are doing", states)
}
