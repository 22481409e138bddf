//! Standby flows that the partner has no more: those that its bulk does not name.

use stoa_forwarder::flow_sync::message::{put_complete, put_known};

use super::*;
use crate::adoption::{Supervisor, adopted};

fn ports(lab: &mut Lab) -> Vec<u32> {
    let mut ports: Vec<_> = flows(lab).iter().map(|it| it.source_port).collect();
    ports.sort_unstable();
    ports
}

/// A packet of the flow with this port.
fn send(lab: &mut Lab, port: u16) {
    let [packet, _] = udp_there((port, 53));
    assert_eq!(out(lab, [packet]), 1);
}

fn known(port: u16, items: &mut Vec<u8>) {
    put_known(&udp(port).key(), items);
}

#[test]
fn what_a_bulk_does_not_name_has_ended() {
    let [first, second] = settings();
    let listener = TcpListener::bind(first.ends.local).unwrap();
    let mut lab = Lab::new(&with(open_gate(), &second));
    let mut partner = Liar::meet(&listener, false);
    for port in 5..10 {
        partner.send(|items| put_flow(&udp(port), 0, items));
    }
    await_state(&mut lab, |it| it.created_flows == 5);
    // This one is of this router from now on.
    send(&mut lab, 9);
    partner.send(put_complete);
    drop(partner);
    // Without an end, a bulk ends nothing.
    let mut partner = Liar::meet(&listener, false);
    await_state(&mut lab, |it| it.connections == 2 && it.is_bulk_sent);
    partner.send(|items| put_flow(&udp(10), 0, items));
    await_state(&mut lab, |it| it.created_flows == 6);
    assert_eq!(ports(&mut lab), [5, 6, 7, 8, 9, 10]);
    drop(partner);
    // Nor does that of one that has lost its flows.
    let mut partner = Liar::meet(&listener, true);
    partner.send(put_complete);
    await_state(&mut lab, |it| it.connections == 3 && it.is_bulk_sent && it.is_bulk_received);
    partner.send(|items| put_flow(&udp(11), 0, items));
    await_state(&mut lab, |it| it.created_flows == 7);
    assert_eq!(ports(&mut lab), [5, 6, 7, 8, 9, 10, 11]);
    drop(partner);
    let mut partner = Liar::meet(&listener, false);
    await_state(&mut lab, |it| it.connections == 4);
    partner.send(|items| put_flow(&udp(5), 0, items));
    partner.send(|items| known(6, items));
    partner.send(put_complete);
    await_state(&mut lab, |it| it.ended_flows == 4);
    assert_eq!(ports(&mut lab), [5, 6, 9]);
    // What comes behind the bulk stays, however often its walks come by.
    partner.send(|items| put_flow(&udp(12), 0, items));
    await_state(&mut lab, |it| it.created_flows == 8);
    partner.send(|items| put_end(&udp(5).key(), items));
    await_state(&mut lab, |it| it.ended_flows == 5);
    assert_eq!(ports(&mut lab), [6, 9, 12]);
}

/// A process that was killed has had flows in standby, and flows with packets.
#[test]
fn adopted_flows_stay_what_they_were() {
    let [first, second] = settings();
    let listener = TcpListener::bind(first.ends.local).unwrap();
    let setup = with(open_gate(), &second);
    let mut supervisor = Supervisor::new();
    let mut killed = supervisor.start(&setup, LIMITS);
    let mut partner = Liar::meet(&listener, false);
    for port in 5..8 {
        partner.send(|items| put_flow(&udp(port), 0, items));
    }
    await_state(&mut killed, |it| it.created_flows == 3);
    await_flows(&mut killed, 3);
    send(&mut killed, 7);
    let mut lab = supervisor.start(&setup, LIMITS);
    assert_eq!(adopted(&mut lab), (3, 0));
    let mut partner = Liar::meet(&listener, false);
    for port in [5, 7] {
        partner.send(|items| put_end(&udp(port).key(), items));
    }
    await_state(&mut lab, |it| it.ended_flows == 1 && it.ignored_records == 1);
    // The partner has ended it while there was no connection.
    partner.send(put_complete);
    await_state(&mut lab, |it| it.ended_flows == 2);
    assert_eq!(ports(&mut lab), [7]);
    drop(killed);
}
