//! Connections that prove nothing, and what comes again without packets.

use std::net::TcpStream;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, bind, connect as connect_to, socket,
};

use super::*;

/// A connection from the address of a partner.
fn dial(from: SocketAddr, to: SocketAddr) -> TcpStream {
    let descriptor: OwnedFd =
        socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
    let own = SockaddrStorage::from(SocketAddr::new(from.ip(), 0));
    bind(descriptor.as_raw_fd(), &own).unwrap();
    connect_to(descriptor.as_raw_fd(), &SockaddrStorage::from(to)).unwrap();
    TcpStream::from(descriptor)
}

#[test]
fn who_proves_nothing_takes_no_place() {
    let [first, second] = settings();
    let mut lab = Lab::new(&with(open_gate(), &first));
    await_state(&mut lab, |it| it.status() == v1::FlowSyncStatus::FlowSyncListening);
    // It has connected, and says hello later than others that have connected meanwhile.
    let stream = dial(second.ends.local, first.ends.local);
    stream.set_nonblocking(true).unwrap();
    let silent = [(); 2].map(|()| dial(second.ends.local, first.ends.local));
    let refused = dial(first.ends.local, first.ends.local);
    await_state(&mut lab, |it| it.refused_connections == 1);
    let connection = Connection::new(stream, true, SECRET, Instant::now());
    let mut partner = Liar(connection).greet(false);
    partner.send(|items| put_flow(&udp(5), 0, items));
    await_state(&mut lab, |it| it.created_flows == 1);
    // More of them end nothing, and say nothing about the one that there is.
    let more = dial(second.ends.local, first.ends.local);
    drop((silent, refused));
    partner.send(|items| put_flow(&udp(6), 0, items));
    await_state(&mut lab, |it| it.created_flows == 2);
    let it = state(&mut lab);
    assert_eq!((it.connections, it.error.as_str()), (1, ""), "{it:?}");
    drop(more);
}

/// The policy comes later: without a packet, the flow comes again.
#[test]
fn what_was_refused_comes_again() {
    let mut moved = policy(Mapping::EndpointDependent);
    moved.pools = vec![net(Ipv4Addr::new(203, 0, 113, 16), 28)];
    let [first, second] = settings();
    let setup = || translated(policy(Mapping::EndpointDependent));
    let mut one = Lab::new(&with(setup(), &first));
    let mut other = Lab::new(&with(translated(moved), &second));
    await_state(&mut other, |it| it.is_bulk_sent && it.is_bulk_received);
    passed(&mut one, 1, &udp_ports(host4(1), host4(2), (5000, 53), b"ask"), "east");
    await_state(&mut other, |it| it.refused_translation >= 1);
    other.apply(&with(setup(), &second)).unwrap();
    await_state(&mut other, |it| it.created_flows == 1);
    assert_eq!(flows(&mut other).len(), 1);
}

#[test]
fn counters_begin_with_the_settings() {
    let [first, mut second] = settings();
    let listener = TcpListener::bind(first.ends.local).unwrap();
    let mut lab = Lab::new(&with(open_gate(), &second));
    let mut partner = Liar::meet(&listener, false);
    partner.send(|items| put_flow(&udp(5), 0, items));
    await_state(&mut lab, |it| (it.connections, it.created_flows) == (1, 1));
    second.age_s = 9;
    lab.apply(&with(open_gate(), &second)).unwrap();
    let _partner = Liar::meet(&listener, false);
    await_state(&mut lab, |it| it.connections > 0);
    let it = state(&mut lab);
    assert_eq!((it.connections, it.received_records, it.created_flows), (1, 0, 0), "{it:?}");
}
