//! Settings that are no lists of objects, each one entry, and what ports are opened with. Where the desired state has 0
//! or "", the forwarder's own value is in force, which it reports with the result of an audit.

use super::{Kind, Tally};
use crate::text::ip;
use crate::v1;
use crate::v1::port::Driver;

/// The highest limit of a table: a higher one that is configured is capped.
pub const LIMIT_MAX: u32 = 1 << 23;
/// The highest limit of flows of one kind: a higher one that is configured is capped.
pub const FLOW_LIMIT_MAX: u32 = 1 << 24;

/// Adds the settings of a desired state.
pub(super) fn add(tally: &mut Tally, desired: &v1::Desired, defaults: &v1::Desired) {
    workers(tally, desired.workers.clone().unwrap_or_default(), defaults);
    limits(tally, desired.limits.unwrap_or_default(), defaults);
    if let Some(desired) = &desired.logging {
        logging(tally, desired);
    }
    reassembly(tally, desired.reassembly.unwrap_or_default(), defaults);
    multipath(tally, desired.multipath.unwrap_or_default(), defaults);
    for port in &desired.ports {
        port_settings(tally, port.clone(), defaults);
    }
}

fn or(value: u32, default: u32) -> u32 {
    if value == 0 { default } else { value }
}

/// The workers. `defaults`: what the forwarder has where nothing is configured.
pub fn workers(tally: &mut Tally, workers: v1::Workers, defaults: &v1::Desired) {
    let default = defaults.workers.clone().unwrap_or_default();
    let entry = v1::Workers {
        count: workers.count.max(1),
        buffers: or(workers.buffers, default.buffers),
        kernel: if workers.kernel.is_empty() { default.kernel } else { workers.kernel },
        ..workers
    };
    tally.add(Kind::Workers, "workers".to_owned(), &entry);
}

/// Sizes of tables. `defaults` as in [`workers`].
pub fn limits(tally: &mut Tally, limits: v1::Limits, defaults: &v1::Desired) {
    let default = defaults.limits.unwrap_or_default();
    let limit = |value: u32, default| or(value.min(LIMIT_MAX), default);
    let flows = |value: u32, default| or(value.min(FLOW_LIMIT_MAX), default);
    let entry = v1::Limits {
        ip4_routes: limit(limits.ip4_routes, default.ip4_routes),
        ip6_routes: limit(limits.ip6_routes, default.ip6_routes),
        vrf_routes: limit(limits.vrf_routes, default.vrf_routes),
        next_hops: limit(limits.next_hops, default.next_hops),
        adjacencies: limit(limits.adjacencies, default.adjacencies),
        neighbors: limit(limits.neighbors, default.neighbors),
        ip4_flows: flows(limits.ip4_flows, default.ip4_flows),
        ip6_flows: flows(limits.ip6_flows, default.ip6_flows),
        nat_flows: flows(limits.nat_flows, default.nat_flows),
        nat_mappings: limit(limits.nat_mappings, default.nat_mappings),
    };
    tally.add(Kind::Limits, "limits".to_owned(), &entry);
}

/// Level, format and destinations of the log.
pub fn logging(tally: &mut Tally, logging: &v1::Logging) {
    tally.add(Kind::Logging, "log".to_owned(), logging);
}

/// Bounds of reassembly. `defaults` as in [`workers`].
pub fn reassembly(tally: &mut Tally, bounds: v1::Reassembly, defaults: &v1::Desired) {
    let default = defaults.reassembly.unwrap_or_default();
    let entry = v1::Reassembly {
        packets: or(bounds.packets, default.packets),
        per_source: or(bounds.per_source, default.per_source),
    };
    tally.add(Kind::Reassembly, "reassembly".to_owned(), &entry);
}

/// The choice among several paths. `defaults` as in [`workers`].
pub fn multipath(tally: &mut Tally, multipath: v1::Multipath, defaults: &v1::Desired) {
    let default = defaults.multipath.unwrap_or_default();
    let entry = v1::Multipath { hash_seed: or(multipath.hash_seed, default.hash_seed) };
    tally.add(Kind::Multipath, "multipath".to_owned(), &entry);
}

/// What the driver of a port is opened with. `defaults` as in [`workers`].
pub fn port_settings(tally: &mut Tally, port: v1::Port, defaults: &v1::Desired) {
    let queues = |count: u32| count.min(u16::MAX.into());
    let (rx, tx) = (queues(port.rx_queues), queues(port.tx_queues));
    let both = (rx.max(tx), rx.max(tx));
    let ((rx_queues, tx_queues), driver) = match port.driver {
        Some(Driver::AfXdp(it)) if it.auto => {
            let v1::AfXdp { device, netns, auto, .. } = it;
            let it = v1::AfXdp { device, netns, auto, ..v1::AfXdp::default() };
            ((rx, tx), Some(Driver::AfXdp(it)))
        }
        Some(driver @ (Driver::AfXdp(_) | Driver::Tap(_))) => (both, Some(driver)),
        Some(Driver::Memif(it)) => {
            // Operators see the digest: a weak secret could be guessed from it.
            let secret = if it.secret.is_empty() { "" } else { "set" };
            ((rx, tx), Some(Driver::Memif(v1::Memif { secret: secret.to_owned(), ..it })))
        }
        Some(Driver::Dpdk(it)) => {
            let it = v1::Dpdk { ring_size: queues(it.ring_size), ..it };
            ((rx, tx), Some(Driver::Dpdk(it)))
        }
        Some(Driver::Generator(it)) => ((rx, 0), Some(Driver::Generator(generator(it, defaults)))),
        Some(driver @ Driver::Null(_)) => ((0, tx), Some(driver)),
        // The rest of a tunnel is of a kind of its own.
        Some(Driver::Tunnel(_)) => ((0, 0), Some(Driver::Tunnel(v1::Tunnel::default()))),
        Some(driver @ Driver::Pcap(_)) => ((0, 0), Some(driver)),
        other => ((rx, tx), other),
    };
    let entry = v1::Port { rx_queues, tx_queues, driver, ..port };
    tally.add(Kind::PortSettings, entry.interface.clone(), &entry);
}

/// A generator with the defaults of the forwarder.
fn generator(it: v1::Generator, defaults: &v1::Desired) -> v1::Generator {
    let drivers = defaults.ports.iter().filter_map(|port| port.driver.as_ref());
    let mut generators = drivers.filter_map(|driver| match driver {
        Driver::Generator(it) => Some(it.clone()),
        _ => None,
    });
    let default = generators.next().unwrap_or_default();
    let address = |bytes: Vec<u8>, default| if ip(&bytes).is_some() { bytes } else { default };
    v1::Generator {
        frame: or(it.frame, default.frame).min(u16::MAX.into()),
        source: address(it.source, default.source),
        destination: address(it.destination, default.destination),
        destinations: it.destinations.max(1),
        vlan: it.vlan.min(4095),
        ..it
    }
}
