//! The same workload without threads and without a clock, so that each run has the same result: for
//! counting instructions.

use std::sync::Arc;

use serde::Serialize;
use stoa_forwarder::control::{Forwarder, Limits};

use super::layout::Layout;
use super::targets::Table;
use super::{BenchError, Workload, drops, logins, refused, running, setup, snapshot};

/// Packets through a node.
#[derive(Clone, Debug, Serialize)]
pub struct NodeCount {
    /// The node.
    pub name: String,
    /// Packets.
    pub packets: u64,
}

/// Packets through the graph.
#[derive(Clone, Debug, Serialize)]
pub struct Counts {
    /// Packets sent.
    pub packets: u64,
    /// Main-loop iterations of each worker.
    pub loops: u32,
    /// Packets by node.
    pub nodes: Vec<NodeCount>,
}

/// Runs each worker for this many main-loop iterations.
///
/// # Errors
///
/// As for [`super::run`].
pub fn step(workload: &Workload, loops: u32) -> Result<Counts, BenchError> {
    workload.check()?;
    let tables = workload.families().into_iter().map(|ip| Table::new(workload, ip));
    let tables = tables.collect::<Result<Vec<_>, _>>()?;
    let mut forwarder = Forwarder::stepped(Limits::default(), Arc::new(stoa_ports::open));
    forwarder.apply(setup::desired(workload, &tables)?).map_err(|reason| refused(&reason))?;
    let state = running(&mut forwarder)?;
    logins::add(state, workload, &Layout::new(workload))?;
    state.limit_flows_of_sources(Some(u32::MAX));
    for _ in 0..loops {
        state.step();
    }
    let (_, packets, nodes) = snapshot(state);
    if packets == 0 {
        return Err(BenchError::Nothing(drops(state)));
    }
    let nodes = nodes.into_iter().filter(|(_, packets, _)| *packets > 0);
    let nodes = nodes.map(|(name, packets, _)| NodeCount { name, packets }).collect();
    Ok(Counts { packets, loops, nodes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forward::workload::tests::workload;
    use crate::forward::{Feature, Flows, Ip, Mix, Visits};
    use crate::prefixes::Source;

    #[test]
    fn every_run_has_the_same_result() {
        let workload = Workload {
            routes: 100,
            visits: Visits::Some(10),
            next_hops: 3,
            is_tagged: true,
            mix: Some(Mix::Imix2),
            flows: Flows::Some(5),
            ..workload()
        };
        let of = |loops| step(&workload, loops).map(|counts| counts.packets).unwrap();
        assert_eq!(of(20) - of(10), 10 * 256);
        let counts = step(&workload, 10).unwrap();
        let node = |name| counts.nodes.iter().find(|node| node.name == name).unwrap().packets;
        assert_eq!((node("ip4-input"), node("ip6-rewrite")), (1280, 1280));
    }

    /// All packets of `turns` main loop iterations are forwarded, through these nodes.
    fn all_forwarded(change: impl FnOnce(&mut Workload), nodes: &[&str]) {
        let mut workload = Workload { routes: 64, visits: Visits::Random, ..workload() };
        change(&mut workload);
        let counts = step(&workload, 4).unwrap();
        let of = |name: &str| {
            let ends = counts.nodes.iter().filter(|node| node.name.ends_with(name));
            ends.map(|node| node.packets).sum::<u64>()
        };
        let burst = if workload.burst == 0 { 256 } else { u64::from(workload.burst) };
        let generated = 4 * burst * u64::from(workload.ports);
        // With output features, packets are rewritten behind them.
        let rewritten = of("-rewrite") - of("-output-rewrite");
        // The router also sends packets of its own.
        assert!(counts.packets >= generated, "{workload:?}");
        assert_eq!((of("generator-input"), rewritten), (generated, generated), "{workload:?}");
        for node in nodes {
            assert!(counts.nodes.iter().any(|it| it.name == *node), "{node}: {:?}", counts.nodes);
        }
    }

    #[test]
    fn every_layout_forwards_all_packets() {
        all_forwarded(|it| (it.ports, it.burst) = (8, 32), &["ip4-rewrite"]);
        all_forwarded(|it| (it.vlans, it.next_hops) = (1000, 64), &[]);
        all_forwarded(|it| (it.vlans, it.is_qinq, it.ip, it.frame) = (500, true, Ip::V6, 78), &[]);
        all_forwarded(|it| it.vrfs = 16, &[]);
        let rules = || "firewall:300".parse().ok();
        let nodes = ["ip4-acl-input", "ip6-acl-input"];
        all_forwarded(|it| (it.acl, it.mix) = (rules(), Some(Mix::Imix2)), &nodes);
        let zones = |it: &mut Workload| {
            (it.acl, it.has_zones, it.mix) = (rules(), true, Some(Mix::Imix2));
        };
        all_forwarded(zones, &["ip4-zone-output", "ip6-zone-output"]);
        let nodes = ["ip4-nat44-input", "ip4-nat44-output"];
        all_forwarded(|it| (it.has_nat44, it.flows) = (true, Flows::Some(100)), &nodes);
        let nat64 = |it: &mut Workload| {
            (it.has_nat64, it.frame, it.flows) = (true, 78, Flows::Some(100));
        };
        all_forwarded(nat64, &["ip6-nat64-input", "ip4-nat44-output"]);
        let siit = |it: &mut Workload| {
            (it.has_nat64, it.is_stateless, it.frame) = (true, true, 78);
        };
        all_forwarded(siit, &["ip6-siit-input"]);
        all_forwarded(|it| (it.vrfs, it.vlans, it.ports, it.next_hops) = (3, 5, 2, 7), &[]);
        all_forwarded(|it| it.mix = Some(Mix::Campus), &[]);
        all_forwarded(|it| it.features_elsewhere = vec![Feature::UrpfLoose], &[]);
        all_forwarded(|it| (it.features, it.vlans) = (vec![Feature::Noop], 3), &["ip4-noop"]);
        let flow = vec![Feature::Flow, Feature::Noop];
        let nodes = ["ip4-flow-hash", "ip6-flow-hash"];
        all_forwarded(|it| (it.features, it.mix) = (flow, Some(Mix::Imix2)), &nodes);
        let at_ports = ["ethernet-noop", "ethernet-dispatch"];
        let all = [Feature::NoopEthernet, Feature::NoopLocal, Feature::NoopOrigin, Feature::Noop];
        all_forwarded(|it| it.features = all.to_vec(), &at_ports);
        all_forwarded(|it| (it.features, it.vlans) = (all.to_vec(), 300), &at_ports);
        let qinq =
            |it: &mut Workload| (it.features, it.vlans, it.is_qinq) = (all.to_vec(), 90, true);
        all_forwarded(qinq, &at_ports);
        all_forwarded(
            |it| (it.features, it.ports, it.next_hops) = (vec![Feature::NoopPort], 2, 4),
            &["interface-output", "port-output-noop"],
        );
        all_forwarded(
            |it| (it.features, it.mix) = (vec![Feature::NoopOutput], Some(Mix::Imix2)),
            &["ip4-output-noop", "ip6-output-noop"],
        );
        let both = vec![Feature::Login, Feature::LoginOutput];
        let nodes = ["ip4-login", "ip6-login", "ip4-login-output", "ip6-login-output"];
        all_forwarded(|it| (it.features, it.mix) = (both.clone(), Some(Mix::Imix2)), &nodes);
        all_forwarded(|it| (it.features, it.vlans, it.next_hops) = (both, 3, 7), &nodes[..1]);
    }

    #[test]
    fn no_source_fails_the_reverse_path_check() {
        let nodes = ["ip4-reverse-path", "ip6-reverse-path"];
        for feature in [Feature::UrpfStrict, Feature::UrpfLoose] {
            all_forwarded(|it| it.features = vec![feature], &nodes[..1]);
            let table = vec![Source::Synthetic(20_000)];
            let real = |it: &mut Workload| {
                (it.prefixes, it.mix, it.next_hops) = (table, Some(Mix::Imix2), 64);
                (it.ports, it.vlans, it.features) = (4, 16, vec![feature]);
            };
            all_forwarded(real, &nodes);
        }
    }
}
