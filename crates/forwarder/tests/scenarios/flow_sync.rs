//! Two forwarders that have each other's flows, and partners that send what they should not.

mod connections;
mod ends;
mod leases;
mod left;
mod nat64;
mod swept;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use stoa_api::flow_sync::Ends;
use stoa_api::v1;
use stoa_forwarder::flow::adoption::head::{Names, stable_hash};
use stoa_forwarder::flow_sync::connection::Connection;
use stoa_forwarder::flow_sync::message::{Record, put_end, put_flow, put_names};
use stoa_forwarder::flow_sync::{Settings, Snapshot};
use stoa_forwarder::nat::Mapping;
use stoa_tables::flow_hash::Flow;
use stoa_tables::flow_table::{FlowKey, FormerFlow, Past};
use stoa_wire::protocol;
use stoa_wire::tcp::flag;

use crate::acl_stateful::{
    LONG, await_flows, back, clear, connect, flows, into, open_gate, out, there, udp_back,
    udp_there,
};
use crate::harness::*;
use crate::nat44::{masquerade, net, passed, policy, translated};

const SECRET: &str = "a secret of enough bytes";

/// A port at which nobody listens.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The settings of both ends: the first one waits for the connection.
fn settings() -> [Settings; 2] {
    let end = |last, port| SocketAddr::from((Ipv4Addr::new(127, 0, 0, last), port));
    let (one, other) = (end(1, free_port()), end(2, free_port()));
    let of = |local, partner| Settings {
        ends: Ends { local, partner },
        secret: SECRET.to_owned(),
        age_s: 0,
    };
    [of(one, other), of(other, one)]
}

fn with(mut setup: Setup, sync: &Settings) -> Setup {
    setup.0.flow_sync = Some(sync.clone());
    setup
}

/// Two forwarders that are connected.
fn pair(setups: [Setup; 2]) -> [Lab; 2] {
    let mut settings = settings().into_iter();
    let mut labs = setups.map(|setup| Lab::new(&with(setup, &settings.next().unwrap())));
    for lab in &mut labs {
        await_state(lab, |it| it.is_bulk_sent && it.is_bulk_received);
    }
    labs
}

fn state(lab: &mut Lab) -> Snapshot {
    lab.state().flow_sync().state.unwrap()
}

#[track_caller]
fn await_state(lab: &mut Lab, is: impl Fn(&Snapshot) -> bool) {
    let deadline = Instant::now() + LONG;
    while !is(&state(lab)) {
        assert!(Instant::now() < deadline, "{:?}", state(lab));
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn connections_go_on_at_the_partner_and_come_back() {
    let [mut one, mut other] = pair([open_gate(), open_gate()]);
    connect(&mut one);
    await_state(&mut other, |it| it.created_flows == 2);
    await_flows(&mut other, 2);
    // Replies pass, although the partner has seen none of the connection, and more has passed than it knows.
    assert_eq!(into(&mut other, back((9_901, 101), flag::ACK, 10)), 2);
    other.state().skip(Duration::from_secs(2));
    assert_eq!(out(&mut other, there((8_101, 9_911), flag::ACK, 10)), 2);
    // What cannot belong to them does not.
    let far = 1_u32 << 31;
    assert_eq!(into(&mut other, back((far, far), flag::ACK, 10)), 0);
    other.dropped();
    // The first one has had no packets for a while: the flows are those of the other one now.
    one.state().skip(Duration::from_secs(10));
    other.state().skip(Duration::from_secs(2));
    assert_eq!(out(&mut other, there((8_111, 9_911), flag::ACK, 10)), 2);
    await_state(&mut one, |it| it.refreshed_flows >= 2);
    assert_eq!(flows(&mut one).len(), 2);
    // When they end there, they end here.
    clear(&mut other, &v1::FlowFilter::default());
    await_state(&mut one, |it| it.ended_flows == 2);
    await_flows(&mut one, 0);
    assert_eq!(state(&mut one).refused_damaged, 0);
}

#[test]
fn translated_flows_keep_their_external_ports() {
    for mapping in [Mapping::EndpointDependent, Mapping::EndpointIndependent] {
        let setup = || translated(policy(mapping));
        let [mut one, mut other] = pair([setup(), setup()]);
        let sent = udp_ports(host4(1), host4(2), (5000, 53), b"ask");
        let ports = passed(&mut one, 1, &sent, "east").ports.unwrap();
        await_state(&mut other, |it| it.created_flows == 1);
        let reply = udp_ports(host4(2), our4(2), (53, ports.0), b"answer");
        let got = passed(&mut other, 2, &reply, "west");
        assert_eq!((got.addresses().1, got.ports), (host4(1).to_string(), Some((53, 5000))));
        assert_eq!(passed(&mut other, 1, &sent, "east").ports, Some(ports));
        // Nothing is held once it is over.
        clear(&mut one, &v1::FlowFilter::default());
        clear(&mut other, &v1::FlowFilter::default());
        await_flows(&mut other, 0);
    }
}

#[test]
fn flows_of_this_router_are_not_those_of_the_partner() {
    let [mut one, mut other] = pair([open_gate(), open_gate()]);
    assert_eq!(out(&mut other, udp_there((5000, 53))), 2);
    assert_eq!(into(&mut other, udp_back((53, 5000))), 2);
    await_state(&mut one, |it| it.created_flows == 2);
    // Both have packets of it.
    one.state().skip(Duration::from_secs(3));
    assert_eq!(out(&mut one, udp_there((5000, 53))), 2);
    await_state(&mut other, |it| it.ignored_records >= 2);
    clear(&mut one, &v1::FlowFilter::default());
    await_state(&mut other, |it| it.received_ends == 2 && it.ignored_records >= 4);
    assert_eq!(state(&mut other).ended_flows, 0);
    assert_eq!(into(&mut other, udp_back((53, 5000))), 2);
}

#[test]
fn a_partner_with_another_configuration_refuses_records() {
    let mut moved = policy(Mapping::EndpointDependent);
    moved.pools = vec![net(Ipv4Addr::new(203, 0, 113, 16), 28)];
    let [mut one, mut other] = pair([masquerade(), translated(moved)]);
    passed(&mut one, 1, &udp_ports(host4(1), host4(2), (5000, 53), b"ask"), "east");
    await_state(&mut other, |it| it.refused_translation == 1);
    assert_eq!(flows(&mut other).len(), 0);
}

#[test]
fn a_partner_that_starts_again_gets_all_flows_again() {
    let [first, second] = settings();
    let mut one = Lab::new(&with(open_gate(), &first));
    connect(&mut one);
    // It has lost them, as if it had not outlived the last one.
    for round in 1..3 {
        let mut other = Lab::new(&with(open_gate(), &second));
        await_state(&mut other, |it| it.created_flows == 2 && it.is_bulk_received);
        await_state(&mut one, |it| it.connections == round);
        if round == 2 {
            assert_eq!(into(&mut other, back((901, 101), flag::ACK, 10)), 2);
        }
    }
    one.apply(&open_gate()).unwrap();
    assert!(one.state().flow_sync().settings.is_none());
    assert_eq!(out(&mut one, there((101, 901), flag::ACK, 10)), 2, "its own flows stay");
}

/// A partner that sends what a test says.
struct Liar(Connection);

impl Liar {
    /// With the lab whose partner it is.
    fn of(setup: Setup) -> (Self, Lab) {
        let [first, second] = settings();
        let listener = TcpListener::bind(first.ends.local).unwrap();
        let mut lab = Lab::new(&with(setup, &second));
        let liar = Self::meet(&listener, false);
        await_state(&mut lab, |it| it.connections == 1);
        (liar, lab)
    }

    /// As one that lacks flows which the lab has in standby, or not.
    fn meet(listener: &TcpListener, lacks_flows: bool) -> Self {
        let (stream, _) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        Self(Connection::new(stream, false, SECRET, Instant::now())).greet(lacks_flows)
    }

    /// Proves itself, and says what its numbers mean.
    fn greet(self, lacks_flows: bool) -> Self {
        let mut liar = self;
        let deadline = Instant::now() + LONG;
        while !liar.0.is_proven() {
            assert!(Instant::now() < deadline);
            liar.serve();
        }
        let mut names = Names::default();
        names.add_vrf(0, "");
        liar.send(|items| put_names(lacks_flows, &names, items));
        liar
    }

    fn serve(&mut self) {
        let _ = self.0.service((Instant::now(), 1), || true, |_| {});
    }

    fn send(&mut self, put: impl FnOnce(&mut Vec<u8>)) {
        let mut items = Vec::new();
        put(&mut items);
        self.0.send(&items).unwrap();
        self.serve();
    }
}

/// Numbers that follow from two others.
fn word(number: u32, at: u32) -> u32 {
    let bytes = [number.to_le_bytes(), at.to_le_bytes()];
    (stable_hash(bytes.as_flattened()) >> 16) as u32
}

/// A flow as the number says.
fn record(number: u32, key: FlowKey, reply_key: Option<FlowKey>) -> Record {
    let flow = FormerFlow {
        key,
        reply_key,
        class: (word(number, 1) % 14) as u8,
        flags: word(number, 2) as u8,
        owner: word(number, 3) as u8,
        zone_pair: word(number, 4) as u16,
        tcp: std::array::from_fn(|at| word(number, 5 + at as u32)),
        past: Past::default(),
        spare: [word(number, 11), 1],
    };
    Record { flow, is_standby: number.is_multiple_of(7) }
}

fn key4(from: (Ipv4Addr, u16), to: (Ipv4Addr, u16), protocol: u8) -> FlowKey {
    let ((source, source_port), (destination, destination_port)) = (from, to);
    let (source, destination) = (source.to_bits(), destination.to_bits());
    FlowKey::ip4(Flow { source, destination, source_port, destination_port, protocol }, 0)
}

/// Records of which something became.
fn sum(it: &Snapshot) -> u64 {
    let refused = it.refused_translation + it.refused_room + it.refused_damaged;
    it.created_flows + it.refreshed_flows + refused + it.refused_vrf + it.ignored_records
}

#[test]
fn a_lying_partner_keeps_nobody_from_anything() {
    let (mut liar, mut lab) = Liar::of(open_gate());
    for number in 0..3_000 {
        let at = |which: u32| word(number, 20 + which);
        let host = |which: u32| Ipv4Addr::from_bits(at(which));
        let protocol = if number % 2 == 0 { protocol::TCP } else { at(0) as u8 };
        let key = key4((host(1), at(2) as u16), (host(3), at(4) as u16), protocol);
        let reply = key4((host(3), at(4) as u16), (host(5), at(6) as u16), protocol);
        let reply = number.is_multiple_of(3).then_some(reply);
        liar.send(|items| put_flow(&record(number, key, reply), 0, items));
        if number % 5 == 0 {
            liar.send(|items| put_end(&key.into(), items));
        }
    }
    await_state(&mut lab, |it| it.received_records == 3_000);
    await_state(&mut lab, |it| sum(it) + it.ended_flows >= 3_000);
    let it = state(&mut lab);
    assert!(it.created_flows > 0 && it.refused_damaged > 0 && it.refused_translation > 0, "{it:?}");
    assert_eq!(it.refused_connections, 0, "{it:?}");
    // Some places are left, and what others send there passes.
    assert!(flows(&mut lab).len() <= 60);
    connect(&mut lab);
    assert_eq!(into(&mut lab, back((901, 101), flag::ACK, 10)), 2);
    // All of its flows end, as none has packets.
    lab.state().skip(Duration::from_secs(9_000));
    await_flows(&mut lab, 0);
}

#[test]
fn a_lying_partner_has_no_inside_address_leave() {
    let (mut liar, mut lab) = Liar::of(masquerade());
    let (inside, server) = ((host4(1), 5000), (host4(2), 53));
    let key = key4(inside, server, protocol::UDP);
    for source in [inside, (host4(3), 5000), (our4(2), 80)] {
        let reply = key4(server, source, protocol::UDP);
        for number in 0..20 {
            let mut lie = record(number, key, Some(reply).filter(|it| *it != key.reversed()));
            lie.flow.class = 7;
            liar.send(|items| put_flow(&lie, 0, items));
        }
    }
    await_state(&mut lab, |it| sum(it) >= 60);
    let sent = passed(&mut lab, 1, &udp_ports(host4(1), host4(2), (5000, 53), b"ask"), "east");
    assert_eq!(sent.addresses().0, our4(2).to_string());
}

#[test]
fn what_is_no_record_ends_the_connection() {
    let (mut liar, mut lab) = Liar::of(open_gate());
    liar.send(|items| items.push(99));
    await_state(&mut lab, |it| it.refused_connections == 1 && it.error.contains("no record"));
    connect(&mut lab);
}

/// A partner that has lost its connection has ended what it does not send again. One that has started again has lost
/// it.
#[test]
fn standby_flows_return_to_a_partner_that_lacks_them() {
    let [first, second] = settings();
    let listener = TcpListener::bind(first.ends.local).unwrap();
    let mut lab = Lab::new(&with(open_gate(), &second));
    for (round, (lacks_flows, sent)) in (1..).zip([(false, 0), (false, 0), (true, 1)]) {
        let mut partner = Liar::meet(&listener, lacks_flows);
        await_state(&mut lab, |it| it.connections == round && it.is_bulk_sent);
        assert_eq!(state(&mut lab).sent_records, sent);
        if round == 1 {
            partner.send(|items| put_flow(&udp(5), 0, items));
            await_state(&mut lab, |it| it.created_flows == 1);
        }
    }
}

/// What host 1 has sent from this port to port 53 of host 2, and what that has answered.
fn udp(port: u16) -> Record {
    let key = key4((host4(1), port), (host4(2), 53), protocol::UDP);
    let mut record = record(1, key, None);
    record.flow.class = 7;
    record
}
