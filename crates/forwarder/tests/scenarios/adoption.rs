//! Flows of a forwarder that has ended, in the next one: what goes on, what is left out, and what is held for them.

use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use stoa_api::v1;
use stoa_forwarder::acl::Action;
use stoa_forwarder::control::Limits;
use stoa_forwarder::control::desired::{NatBlocks, NatPolicy};
use stoa_forwarder::nat::{Filtering, Mapping};
use stoa_warm_restart::{DescriptorStore, Regions, Taken};
use stoa_wire::tcp::flag;

use crate::acl::{all, list};
use crate::acl_stateful::{
    LONG, await_flows, back, connect, flows, into, open_gate, out, stateful, there,
};
use crate::harness::*;
use crate::nat44::{POOL, net, passed, policy, segment, translated};
use crate::nat64;
use crate::zones::{pair, zone, zoned};

const ROOMY: Limits = Limits { nat_flows: 1024, nat_mappings: 1024, ..LIMITS };

/// A supervisor that holds the memory of one forwarder after the other.
pub struct Supervisor {
    store: DescriptorStore,
    socket: Option<OwnedFd>,
}

impl Supervisor {
    pub fn new() -> Self {
        Self { store: DescriptorStore::of("forwarder"), socket: None }
    }

    /// What the next forwarder finds: also what one has sent that was killed at this moment.
    fn regions(&mut self) -> Regions {
        if let Some(socket) = self.socket.take() {
            while self.store.receive(&socket) == Taken::Part {}
        }
        let (of_child, ours) = self.store.connect().unwrap();
        self.socket = Some(ours);
        Regions::of_child(of_child)
    }

    /// A forwarder. The one before it has been killed, or is about to be: nothing that it does concerns this one.
    pub fn start(&mut self, setup: &Setup, limits: Limits) -> Lab {
        let workers = setup.0.workers.count;
        Lab::with_regions(setup, limits, self.regions(), |_| Wire::new(workers, 8))
    }
}

/// Flows that were adopted, and that were left out.
pub fn adopted(lab: &mut Lab) -> (u64, u64) {
    let counts = lab.state().flow_counts();
    counts.iter().fold((0, 0), |sum, it| (sum.0 + it.adopted, sum.1 + it.left_out))
}

fn ask(host: u8, port: u16, to: u16) -> Vec<u8> {
    udp_ports(host4(host), host4(2), (port, to), b"ask")
}

/// A flow without what differs between processes: the rule that admits it now, and times.
fn lasting(flow: &v1::FlowState) -> v1::FlowState {
    let (acl, rule) = Default::default();
    v1::FlowState { acl, rule, age_s: 0, idle_s: 0, worker: 0, ..flow.clone() }
}

fn lasting_all(lab: &mut Lab) -> Vec<v1::FlowState> {
    let mut all: Vec<_> = flows(lab).iter().map(lasting).collect();
    all.sort_by_key(|it| (it.source_port, it.translated_source_port, it.source.clone()));
    all
}

/// Waits until mappings without flows are over: workers look at them some seconds after the last flow.
#[track_caller]
pub fn await_mappings(lab: &mut Lab, count: u64) {
    let deadline = Instant::now() + LONG;
    while lab.state().nat().policies[0].dynamic_mappings != count {
        assert!(Instant::now() < deadline, "{:?}", lab.state().nat());
        lab.pass_time(Duration::from_secs(1));
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn connections_of_stateful_rules_go_on() {
    for workers in [1, 2] {
        let mut supervisor = Supervisor::new();
        let mut lab = supervisor.start(&open_gate().workers(workers), LIMITS);
        connect(&mut lab);
        let before = lasting_all(&mut lab);
        assert_eq!((before.len(), adopted(&mut lab)), (2, (0, 0)));
        // With another number of workers.
        for next in [workers, 3, 1] {
            let mut lab = supervisor.start(&open_gate().workers(next), LIMITS);
            assert_eq!(adopted(&mut lab), (2, 0));
            assert_eq!(lasting_all(&mut lab), before);
        }
        let mut lab = supervisor.start(&open_gate(), LIMITS);
        // Replies first, then a segment that the rules judge by how the connection began.
        assert_eq!(into(&mut lab, back((901, 101), flag::ACK, 10)), 2);
        assert_eq!(out(&mut lab, there((101, 911), flag::ACK, 10)), 2);
        assert_eq!(into(&mut lab, back((911, 111), flag::ACK, 10)), 2);
        // The state of the connection is that of before.
        assert_eq!(into(&mut lab, back((900_000_000, 111), flag::ACK, 10)), 0);
        let drops = lab.dropped();
        assert!(drops.iter().all(|(name, _)| name == "tcp-out-of-window"), "{drops:?}");
    }
}

/// A rule that admits it no more ends it with the next packet of the end that began.
#[test]
fn rules_judge_adopted_flows_anew() {
    let mut supervisor = Supervisor::new();
    let mut lab = supervisor.start(&open_gate(), LIMITS);
    connect(&mut lab);
    let other = crate::acl_stateful::gate(stateful(crate::acl::to_port(81, Action::Accept)));
    let mut lab = supervisor.start(&other, LIMITS);
    assert_eq!(adopted(&mut lab), (2, 0));
    assert_eq!(out(&mut lab, there((101, 901), flag::ACK, 10)), 0);
    assert!(lab.dropped().iter().any(|(name, count)| name.starts_with("acl") && *count == 2));
}

#[test]
fn nothing_is_adopted_where_flows_are_not_followed() {
    let mut supervisor = Supervisor::new();
    let mut lab = supervisor.start(&open_gate(), LIMITS);
    connect(&mut lab);
    let mut lab = supervisor.start(&Setup::three_ports(), LIMITS);
    assert_eq!((adopted(&mut lab), flows(&mut lab).len()), ((0, 0), 0));
    // Nor later: the former ones are let go.
    let mut lab = supervisor.start(&open_gate(), LIMITS);
    assert_eq!(adopted(&mut lab), (0, 0));
}

#[test]
fn translated_flows_keep_their_external_ports() {
    for mapping in [Mapping::EndpointDependent, Mapping::EndpointIndependent] {
        let of = translated(policy(mapping));
        let mut supervisor = Supervisor::new();
        let mut lab = supervisor.start(&of, LIMITS);
        // Two hosts with one port: one of them gets another one.
        let port =
            |lab: &mut Lab, host| passed(lab, host, &ask(host, 5001, 53), "east").ports.unwrap().0;
        let ports = [port(&mut lab, 1), port(&mut lab, 3)];
        let syn = segment((host4(1), host4(2)), (6000, 80), (100, 0), flag::SYN, 0);
        passed(&mut lab, 1, &syn, "east");
        let before = lasting_all(&mut lab);
        let mut lab = supervisor.start(&of, LIMITS);
        assert_eq!(adopted(&mut lab), (3, 0), "{mapping:?}");
        assert_eq!(lasting_all(&mut lab), before);
        // Answers come first.
        for (port, home) in ports.into_iter().zip(["west", "north"]) {
            let answer = udp_ports(host4(2), our4(2), (53, port), b"answer");
            assert_eq!(passed(&mut lab, 2, &answer, home).ports, Some((53, 5001)));
        }
        let syn_ack =
            segment((host4(2), our4(2)), (80, 6000), (500, 101), flag::SYN | flag::ACK, 0);
        let back = passed(&mut lab, 2, &syn_ack, "west");
        assert_eq!(back.addresses(), (host4(2).to_string(), host4(1).to_string()));
        assert_eq!([port(&mut lab, 1), port(&mut lab, 3)], ports);
        // A new host cannot get a port that is taken, and mappings are those of before.
        let more = |lab: &mut Lab, host| {
            let other = udp_ports(Ipv4Addr::new(10, 0, 1, host), host4(2), (5001, 53), b"ask");
            passed(lab, 1, &other, "east").ports.unwrap().0
        };
        let fresh = more(&mut lab, 9);
        assert!(!ports.contains(&fresh), "{fresh} of {ports:?}");
        if mapping == Mapping::EndpointIndependent {
            let other = passed(&mut lab, 1, &ask(1, 5001, 54), "east");
            assert_eq!(other.ports, Some((ports[0], 54)));
            assert_eq!(lab.state().nat().policies[0].dynamic_mappings, 4);
        }
        // Nothing is held for ever.
        lab.state().clear_flows(&Default::default());
        await_flows(&mut lab, 0);
        await_mappings(&mut lab, 0);
    }
}

/// Address-dependent filtering lets in all ports of hosts to which a mapping has flows.
#[test]
fn hosts_of_adopted_mappings_are_let_in() {
    let of = NatPolicy { filtering: Filtering::Address, ..policy(Mapping::EndpointIndependent) };
    let mut supervisor = Supervisor::new();
    let mut lab = supervisor.start(&translated(of.clone()), LIMITS);
    passed(&mut lab, 1, &ask(1, 5000, 53), "east");
    let mut lab = supervisor.start(&translated(of), LIMITS);
    assert_eq!(adopted(&mut lab), (1, 0));
    let other = udp_ports(host4(2), our4(2), (99, 5000), b"x");
    assert_eq!(passed(&mut lab, 2, &other, "west").ports, Some((99, 5000)));
    let other_host = udp_ports(Ipv4Addr::new(10, 0, 2, 7), our4(2), (53, 5000), b"x");
    lab.send("east", [packet_from(2, &other_host)]);
    assert_eq!(lab.take("west"), Vec::<Vec<u8>>::new());
}

#[test]
fn blocks_and_quotas_balance() {
    const SIZE: u16 = 32;
    let blocks = NatBlocks {
        size: SIZE,
        limit: 2,
        timeout_s: 120,
        length: 32,
        is_deterministic: false,
        quotas: [None; 4],
    };
    for mapping in [Mapping::EndpointDependent, Mapping::EndpointIndependent] {
        let by_blocks = NatPolicy {
            pools: vec![net(POOL, 32)],
            ports: (1024, 1024 + 4 * SIZE - 1),
            blocks: Some(blocks.clone()),
            ..policy(mapping)
        };
        let by_quota = NatPolicy { quotas: [None, Some(40), None, None], ..policy(mapping) };
        for of in [by_blocks, by_quota] {
            let has_blocks = of.blocks.is_some();
            let mut supervisor = Supervisor::new();
            let mut lab = supervisor.start(&translated(of.clone()).workers(2), ROOMY);
            for port in 5000..5040 {
                passed(&mut lab, 1, &ask(1, port, 53), "east");
            }
            let use_of = |lab: &mut Lab| {
                let it = lab.state().nat().policies.remove(0);
                let mut blocks = lab.state().nat_blocks(&v1::NatBlockFilter::default());
                blocks.iter_mut().for_each(|it| (it.age_s, it.unused_s) = (0, 0));
                blocks.sort_by_key(|it| it.first_port);
                (it.subscribers, it.flows, it.dynamic_mappings, blocks)
            };
            lab.state().tick();
            let before = (use_of(&mut lab), lasting_all(&mut lab));
            let mut lab = supervisor.start(&translated(of).workers(2), ROOMY);
            lab.state().tick();
            assert_eq!(adopted(&mut lab), (40, 0));
            assert_eq!(
                (use_of(&mut lab), lasting_all(&mut lab)),
                before,
                "{mapping:?} {has_blocks}"
            );
            // As many as before are left.
            let left = if has_blocks { 24 } else { 0 };
            for port in 5040..5040 + left {
                passed(&mut lab, 1, &ask(1, port, 53), "east");
            }
            lab.send("west", [packet_from(1, &ask(1, 5100, 53))]);
            lab.assert_dropped(&[("nat44-quota", 1)]);
            lab.take("west");
            // All come back.
            lab.state().clear_flows(&Default::default());
            await_flows(&mut lab, 0);
            await_mappings(&mut lab, 0);
            for port in 6000..6040 {
                passed(&mut lab, 1, &ask(1, port, 53), "east");
            }
        }
    }
}

#[test]
fn flows_of_a_policy_that_is_another_one_are_left_out() {
    let of = policy(Mapping::EndpointIndependent);
    let mut supervisor = Supervisor::new();
    let mut lab = supervisor.start(&translated(of.clone()), LIMITS);
    passed(&mut lab, 1, &ask(1, 5000, 53), "east");
    let other = NatPolicy { ports: (2000, 3000), ..of.clone() };
    let mut lab = supervisor.start(&translated(other), LIMITS);
    assert_eq!((adopted(&mut lab), flows(&mut lab).len()), ((0, 1), 0));
    // Limits may differ.
    let mut lab = supervisor.start(&translated(of.clone()), LIMITS);
    passed(&mut lab, 1, &ask(1, 5000, 53), "east");
    let limited = NatPolicy { quotas: [None, None, None, Some(1)], ..of };
    let mut lab = supervisor.start(&translated(limited), LIMITS);
    assert_eq!(adopted(&mut lab), (1, 0));
    lab.send("west", [packet_from(1, &ask(1, 5001, 53))]);
    lab.assert_dropped(&[("nat44-quota", 1)]);
}

/// The former process alone knew which host has which stand-in.
#[test]
fn flows_of_nat64_are_left_out() {
    let mut supervisor = Supervisor::new();
    let setup = nat64::setup(nat64::nat64(Mapping::EndpointDependent));
    let mut lab = supervisor.start(&setup, ROOMY);
    let ask = udp_ports(host6(1), nat64::of(host4(2)), (5000, 53), b"ask");
    passed(&mut lab, 1, &ask, "east");
    let mut lab = supervisor.start(&setup, ROOMY);
    assert_eq!(adopted(&mut lab), (0, 1));
    let answer = udp_ports(host4(2), our4(2), (53, 5000), b"answer");
    lab.send("east", [packet_from(2, &answer)]);
    assert_eq!(lab.take("west"), Vec::<Vec<u8>>::new());
}

#[test]
fn flows_that_have_no_room_are_left_out() {
    let of = translated(policy(Mapping::EndpointIndependent));
    let mut supervisor = Supervisor::new();
    let mut lab = supervisor.start(&of, LIMITS);
    for port in 5000..5040 {
        passed(&mut lab, 1, &ask(1, port, 53), "east");
    }
    let few = Limits { nat_flows: 16, ..LIMITS };
    let mut lab = supervisor.start(&of, few);
    assert_eq!(adopted(&mut lab), (16, 24));
    // What was claimed for the others is free again.
    await_mappings(&mut lab, 16);
}

#[test]
fn vrfs_and_zones_have_the_numbers_of_this_process() {
    let zones = |setup: Setup, names: &[&str]| {
        let setup = list(setup, "any", &[("any", stateful(all(Action::Accept)))]);
        let mut setup = pair(setup, ("lan", "wan"), &["any"]);
        for name in names {
            setup = zone(setup, "north", name);
            setup = pair(setup, ("wan", name), &["any"]);
        }
        setup
    };
    let mut supervisor = Supervisor::new();
    let mut lab = supervisor.start(&zones(zoned(Setup::three_ports()), &[]), LIMITS);
    connect(&mut lab);
    let mut lab = supervisor.start(&zones(zoned(Setup::three_ports()), &["a-new-one"]), LIMITS);
    assert_eq!(adopted(&mut lab), (2, 0));
    assert_eq!(into(&mut lab, back((901, 101), flag::ACK, 10)), 2);
    assert_eq!(out(&mut lab, there((101, 911), flag::ACK, 10)), 2);
}
