//! Leases of hosts at the partner: ports that they have opened stay open.

use stoa_forwarder::control::desired::{NatPolicy, PortControl};
use stoa_forwarder::flow_sync::message::{Item, Lease, put_lease, put_lease_end};
use stoa_forwarder::pcp::lease::{Holder, Key, Origin, Terms};

use super::*;
use crate::nat44::{POOL, ends, net, refused, with_nat};
use crate::nat44_pcp::{Ask, ask, control, inward, map, mappings, pool_policy, result};

const UDP: u8 = 17;
const TCP: u8 = 6;
const SUCCESS: u8 = 0;
const NOT_AUTHORIZED: u8 = 2;

fn setup(control: PortControl) -> Setup {
    translated(pool_policy(control))
}

/// Two routers that give leases by the same policy.
fn routers() -> [Lab; 2] {
    pair([(); 2].map(|()| setup(control())))
}

/// Lets the control thread work until something holds.
#[track_caller]
fn until(lab: &mut Lab, holds: impl Fn(&mut Lab) -> bool) {
    let deadline = Instant::now() + LONG;
    while !holds(lab) {
        assert!(Instant::now() < deadline, "{:?} {:?}", state(lab), mappings(lab));
        lab.state().tick();
        lab.take("west");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[track_caller]
fn until_state(lab: &mut Lab, is: impl Fn(&Snapshot) -> bool) {
    until(lab, |lab| is(&state(lab)));
}

/// Asks for a lease; the external end.
#[track_caller]
fn lease(lab: &mut Lab, asked: &Ask) -> (Ipv4Addr, u16) {
    lab.take("west");
    let answer = ask(lab, asked);
    assert_eq!(answer.result, SUCCESS);
    answer.external
}

#[track_caller]
fn result_of(lab: &mut Lab, asked: &Ask) -> u8 {
    lab.take("west");
    result(lab, asked)
}

/// Seconds that are left of each lease.
fn left(lab: &mut Lab) -> Vec<u32> {
    mappings(lab).iter().flat_map(|it| &it.leases).map(|it| it.left_s).collect()
}

fn skip(labs: [&mut Lab; 2], seconds: u64) {
    labs.into_iter().for_each(|it| it.state().skip(Duration::from_secs(seconds)));
}

#[test]
fn a_port_stays_open_at_the_partner_and_its_host_renews_it_there() {
    for protocol in [UDP, TCP] {
        let [mut one, mut other] = routers();
        let external = lease(&mut one, &map(protocol, 4000));
        until_state(&mut other, |it| it.created_leases == 1);
        let came = match protocol {
            UDP => passed(&mut other, 2, &inward(9, external), "west"),
            _ => {
                let (there, numbers) = ((host4(2), external.0), (1, 0));
                let syn = crate::nat44::segment(there, (9, external.1), numbers, flag::SYN, 0);
                passed(&mut other, 2, &syn, "west")
            }
        };
        assert_eq!(came.addresses().1, host4(1).to_string());
        // Its nonce is that of the lease, and no other one.
        skip([&mut one, &mut other], 2);
        let other_nonce = Ask { nonce: [8; 12], ..map(protocol, 4000) };
        assert_eq!(result_of(&mut other, &other_nonce), NOT_AUTHORIZED);
        let shorter = Ask { lifetime: 600, ..map(protocol, 4000) };
        assert_eq!(lease(&mut other, &shorter), external);
        // It is one of the other router now, and ends at both when its host ends it there.
        until(&mut one, |lab| left(lab)[0] <= 600);
        skip([&mut one, &mut other], 2);
        assert_eq!(result_of(&mut other, &Ask { lifetime: 0, ..shorter }), SUCCESS);
        until_state(&mut one, |it| it.ended_leases == 1);
        assert_eq!((left(&mut one), left(&mut other)), (vec![], vec![]));
    }
}

/// The host asks the other router once, and ends what is standby there.
#[test]
fn a_lease_that_is_standby_is_ended_by_its_host() {
    let [mut one, mut other] = routers();
    lease(&mut one, &map(UDP, 4000));
    until_state(&mut other, |it| it.created_leases == 1);
    skip([&mut one, &mut other], 2);
    assert_eq!(result_of(&mut other, &Ask { lifetime: 0, ..map(UDP, 4000) }), SUCCESS);
    until_state(&mut one, |it| it.ended_leases == 1);
    assert_eq!((left(&mut one), left(&mut other)), (vec![], vec![]));
}

#[test]
fn what_ends_here_ends_there() {
    let [mut one, mut other] = routers();
    let external = lease(&mut one, &map(UDP, 4000));
    lease(&mut one, &map(UDP, 4001));
    until_state(&mut other, |it| it.created_leases == 2);
    assert_eq!(result_of(&mut one, &Ask { lifetime: 0, ..map(UDP, 4000) }), SUCCESS);
    until_state(&mut other, |it| it.ended_leases == 1);
    until(&mut other, |lab| mappings(lab).len() == 1);
    refused(&mut other, 2, &inward(9, external), "nat44-no-mapping");
    // Time is over at both.
    skip([&mut one, &mut other], 3_601);
    for lab in [&mut one, &mut other] {
        until(lab, |lab| left(lab).is_empty());
    }
}

#[test]
fn remote_ends_are_those_of_the_lease() {
    let [mut one, mut other] = routers();
    let external = lease(&mut one, &map(UDP, 4000).filter(128, host4(2), 9));
    until_state(&mut other, |it| it.created_leases == 1);
    let came = passed(&mut other, 2, &inward(9, external), "west");
    assert_eq!(ends(&came), ("10.0.2.2:9".into(), "10.0.1.2:4000".into()));
    refused(&mut other, 2, &inward(10, external), "nat44-no-mapping");
    // The host lets another port in.
    lease(&mut one, &map(UDP, 4000).filter(128, host4(2), 10));
    until(&mut other, |lab| mappings(lab)[0].leases[0].peers.len() == 2);
    passed(&mut other, 2, &inward(10, external), "west");
}

#[test]
fn a_partner_gives_what_its_policy_gives() {
    let none = translated(NatPolicy { port_control: None, ..pool_policy(control()) });
    let elsewhere = PortControl { interfaces: vec!["north".to_owned()], ..control() };
    for other in [none, setup(elsewhere)] {
        let [mut one, mut other] = pair([setup(control()), other]);
        lease(&mut one, &map(UDP, 4000));
        until_state(&mut other, |it| it.refused_translation >= 1);
        assert_eq!((mappings(&mut other).len(), state(&mut other).created_leases), (0, 0));
    }
    // For a shorter time, and for fewer ports.
    let few = PortControl { lifetimes_s: (120, 400), host_leases: 2, ..control() };
    let [mut one, mut other] = pair([setup(control()), setup(few)]);
    for port in 4000..4003 {
        lease(&mut one, &map(UDP, port));
    }
    until_state(&mut other, |it| it.created_leases == 2 && it.refused_room >= 1);
    assert!(left(&mut other).iter().all(|it| *it <= 400));
}

/// As a request has the first policy that answers at the interface and translates the host.
#[test]
fn a_lease_by_a_policy_that_comes_second_is_refused() {
    let pools = vec![net(Ipv4Addr::from_bits(POOL.to_bits() + 1), 32)];
    let second = NatPolicy { policy: 2, pools, ..pool_policy(control()) };
    let of = |policies| with_nat(Setup::three_ports(), policies, Vec::new());
    let both = vec![pool_policy(control()), second.clone()];
    for (policies, is_given) in [(vec![second.clone()], true), (both, false)] {
        let [mut one, mut other] = pair([of(vec![second.clone()]), of(policies)]);
        lease(&mut one, &map(UDP, 4000));
        until_state(&mut other, |it| it.created_leases + it.refused_translation >= 1);
        assert_eq!(mappings(&mut other).len(), usize::from(is_given));
    }
}

/// A router that starts again gets leases back that are standby at the other one.
#[test]
fn standby_leases_return_to_a_router_that_lacks_them() {
    let [first, second] = settings();
    let mut one = Lab::new(&with(setup(control()), &second));
    let mut other = Lab::new(&with(setup(control()), &first));
    await_state(&mut other, |it| it.is_bulk_sent && it.is_bulk_received);
    let external = lease(&mut one, &map(UDP, 4000));
    until_state(&mut other, |it| it.created_leases == 1);
    drop(one);
    let mut one = Lab::new(&with(setup(control()), &second));
    until_state(&mut one, |it| it.created_leases == 1);
    passed(&mut one, 2, &inward(9, external), "west");
    // Neither has had a request since: both name it, and it ends at none.
    until_state(&mut other, |it| it.is_bulk_received);
    for lab in [&mut one, &mut other] {
        (0..50).for_each(|_| lab.state().tick());
        assert_eq!(left(lab).len(), 1);
    }
    lab_ends(&mut one, &mut other);
}

/// Its host ends a lease that is standby at both.
fn lab_ends(one: &mut Lab, other: &mut Lab) {
    skip([&mut *one, &mut *other], 2);
    assert_eq!(result_of(one, &Ask { lifetime: 0, ..map(UDP, 4000) }), SUCCESS);
    until_state(other, |it| it.ended_leases == 1);
}

/// Serves a liar until the lab has sent it a lease.
fn first_lease(liar: &mut Liar) -> Lease {
    let (deadline, mut found) = (Instant::now() + LONG, None);
    loop {
        let each = |item| {
            if let Item::Lease(it) = item {
                found = Some(it);
            }
        };
        liar.0.service((Instant::now(), 1), || true, each).unwrap();
        if let Some(it) = found.take() {
            return *it;
        }
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_lying_partner_opens_no_port_that_a_host_could_not_open() {
    let few = PortControl { host_leases: 9, has_nat_pmp: false, ..control() };
    let (mut liar, mut lab) = Liar::of(setup(few));
    let own = lease(&mut lab, &map(UDP, 4000));
    let Lease { key, terms, .. } = first_lease(&mut liar);
    assert_eq!((key.port, terms.external.port), (4000, own.1));
    let with = |port: u16, change: fn(&mut Key, &mut Terms)| {
        let (mut key, mut terms) = (Key { port, ..key }, terms.clone());
        (terms.external.port, terms.renewed, terms.end) = (port, 0, 900);
        change(&mut key, &mut terms);
        Lease { key, terms, is_standby: false }
    };
    let lies = [
        with(5000, |key, _| key.policy ^= 1),
        with(5001, |key, _| key.address = host4(2).to_bits()),
        with(5002, |key, _| key.address = POOL.to_bits()),
        with(5003, |key, _| key.address = 0x7f00_0001),
        with(5004, |key, terms| (key.protocol, terms.external.protocol) = (47, 47)),
        with(5005, |_, terms| terms.external.address = host4(2).to_bits()),
        with(5006, |_, terms| terms.external.address += 1),
        with(5007, |_, terms| terms.external.port = 80),
        with(5008, |_, terms| terms.origin = Origin { interface: 1, ..terms.origin }),
        with(5009, |_, terms| terms.origin.address += 1),
        with(5010, |_, terms| terms.holder = Holder::NatPmp),
        with(5013, |key, _| key.remote = Some((host4(2).to_bits(), 9))),
        with(0, |_, _| {}),
    ];
    for lie in &lies {
        liar.send(|items| put_lease(lie, 0, items));
    }
    until_state(&mut lab, |it| it.received_leases == lies.len() as u64);
    until_state(&mut lab, |it| it.refused_translation >= lies.len() as u64);
    assert_eq!((mappings(&mut lab).len(), state(&mut lab).created_leases), (1, 0));
    // Another one has the external end, or the internal one; what is over; and the end of a lease of this router.
    let taken = with(5011, |_, terms| terms.external.port = 4000);
    let over = with(5012, |_, terms| terms.end = 0);
    liar.send(|items| put_lease(&taken, 0, items));
    liar.send(|items| put_lease(&over, 0, items));
    liar.send(|items| put_lease_end(&key, items));
    until_state(&mut lab, |it| it.refused_room >= 1 && it.ignored_records >= 2);
    passed(&mut lab, 2, &inward(9, own), "west");
    // As many as a host may have.
    for port in 6000..6100 {
        liar.send(|items| put_lease(&with(port, |_, _| {}), 0, items));
    }
    until_state(&mut lab, |it| it.created_leases == 8 && it.refused_room >= 90);
    assert_eq!(state(&mut lab).refused_connections, 0);
    assert_eq!(left(&mut lab).len(), 9);
}
