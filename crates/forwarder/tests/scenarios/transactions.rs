//! A desired state is applied completely or not at all, and traffic continues.

use std::net::IpAddr;

use stoa_engine::worker::Polling;
use stoa_forwarder::control::{Forwarder, Limits};
use stoa_forwarder::shared::SpecialNextHop;

use crate::harness::*;

const FAR: (IpAddr, u8) = (IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 0)), 24);

fn far() -> Vec<u8> {
    packet_from(1, &udp(host4(1), "192.0.2.9".parse::<IpAddr>().unwrap(), b""))
}

#[track_caller]
fn assert_flows(lab: &mut Lab) {
    lab.settle();
    lab.forget();
    for (from, n, to, m) in [("west", 1, "east", 2), ("east", 2, "west", 1)] {
        let packets = [udp(host4(n), host4(m), b""), udp(host6(n), host6(m), b"")];
        lab.send(from, packets.map(|packet| packet_from(n, &packet)));
        let parsed = lab.parsed(to);
        assert_eq!(parsed.len(), 2, "from {from} to {to}");
        assert!(parsed.iter().all(|parsed| parsed.destination == host_mac(m)));
    }
    lab.assert_dropped(&[]);
}

fn names(lab: &mut Lab) -> Vec<String> {
    lab.state().list_interfaces().into_iter().map(|interface| interface.name).collect()
}

#[test]
fn the_same_state_changes_nothing() {
    let mut lab = Lab::new(&Setup::three_ports());
    let applied = lab.apply(&Setup::three_ports()).unwrap();
    assert_eq!(applied, stoa_api::v1::Applied::default());
    lab.settle();
    lab.assert_silent();
    assert_flows(&mut lab);
}

#[test]
fn one_invalid_port_rejects_the_whole_state() {
    let mut lab = Lab::new(&Setup::three_ports());
    let worse = Setup::three_ports().port("ghost", 9).special_route(
        FAR.0,
        FAR.1,
        SpecialNextHop::Blackhole,
    );
    let refused = lab.apply(&worse).unwrap_err();
    assert!(!refused.is_full);
    assert_eq!(refused.errors.len(), 1);
    assert_eq!(refused.errors[0].path, "port \"ghost\"");
    assert_eq!(names(&mut lab), ["east", "north", "west"]);
    assert_flows(&mut lab);
    lab.send("west", [far()]);
    lab.assert_dropped(&[("ip4-no-route", 1)]);
    // The device appears, and the same state is valid.
    lab.add_wire("ghost", Wire::new(1, 1));
    assert_eq!(lab.apply(&worse).unwrap().ports_opened, 1);
    assert_flows(&mut lab);
    lab.send("west", [far()]);
    lab.assert_dropped(&[("ip4-blackhole", 1)]);
}

/// Number of times that ports came up on these wires.
fn up_count<const N: usize>(lab: &Lab, names: [&str; N]) -> [usize; N] {
    names.map(|name| lab.wire(name).up_count.load(std::sync::atomic::Ordering::SeqCst))
}

#[test]
fn a_port_that_cannot_be_replaced_keeps_running() {
    let wires = ["east", "north", "west"];
    let mut lab = Lab::new(&Setup::three_ports());
    // The other changes are rolled back, too: a route, a replaced port, a new port, a deleted port.
    let mut worse = Setup::three_ports().special_route(FAR.0, FAR.1, SpecialNextHop::Blackhole);
    worse.0.ports.insert("east".to_owned(), wire::config("ghost", our_mac(2)));
    worse.0.ports.insert("west".to_owned(), wire::config("west", [2, 0, 0, 0, 0xee, 1]));
    worse.0.ports.remove("north");
    worse.0.interfaces.remove("north");
    let worse = worse.port("ghost", 9);
    for _ in 0..3 {
        let refused = lab.apply(&worse).unwrap_err();
        let places: Vec<_> = refused.errors.iter().map(|error| error.path.as_str()).collect();
        assert_eq!(places, ["port \"east\"", "port \"ghost\""], "all errors");
        assert_eq!(names(&mut lab), ["east", "north", "west"]);
        assert_flows(&mut lab);
        assert_eq!(up_count(&lab, wires), [1; 3], "no port was touched");
    }
}

#[test]
fn a_port_with_an_exclusive_device_is_restored() {
    let wires = ["east", "north", "west"];
    let mut setup = Setup::three_ports();
    setup.0.ports.insert("east".to_owned(), wire::alone("east", our_mac(2)));
    let mut lab = Lab::new(&setup);
    let mut worse = setup.clone();
    worse.0.ports.insert("east".to_owned(), wire::alone("ghost", our_mac(2)));
    worse.0.ports.insert("west".to_owned(), wire::config("west", [2, 0, 0, 0, 0xee, 1]));
    for round in 2..5 {
        let refused = lab.apply(&worse).unwrap_err();
        assert_eq!(refused.errors[0].path, "port \"east\"");
        assert_eq!(up_count(&lab, wires), [round, 1, 1], "only the port with the exclusive device");
        assert_flows(&mut lab);
    }
    // A valid change of it.
    let mut better = setup;
    better.0.ports.insert("east".to_owned(), wire::alone("east", [2, 0, 0, 0, 0xee, 1]));
    assert_eq!(lab.apply(&better).unwrap().ports_opened, 1);
    assert_eq!(up_count(&lab, wires), [5, 1, 1]);
}

/// Three ports with exclusive devices.
fn held(devices: [(&str, u8, &str); 3]) -> Setup {
    let mut setup = Setup::three_ports();
    for (name, n, device) in devices {
        setup.0.ports.insert(name.to_owned(), wire::holding(name, device, our_mac(n)));
    }
    setup
}

#[test]
fn ports_can_exchange_their_devices() {
    let of = |west, east, north| held([("west", 1, west), ("east", 2, east), ("north", 3, north)]);
    let mut lab = Lab::new(&of("one", "two", "three"));
    assert_flows(&mut lab);
    // One port moves to a free device, another takes its device: in both orders of their names. Then
    // two ports exchange devices, and three rotate them. Each comes up once more with each change.
    for (west, east, north, changed) in [
        ("one", "four", "two", 2),
        ("three", "one", "two", 2),
        ("one", "three", "two", 2),
        ("two", "one", "three", 3),
    ] {
        let applied = lab.apply(&of(west, east, north)).unwrap();
        assert_eq!((applied.ports_opened, applied.ports_closed), (changed, changed));
        assert_flows(&mut lab);
    }
    assert_eq!(up_count(&lab, ["west", "east", "north"]), [4, 5, 3]);
}

#[test]
fn a_renamed_port_keeps_its_device() {
    let all = held([("west", 1, "one"), ("east", 2, "two"), ("north", 3, "three")]);
    let mut lab = Lab::new(&all);
    let mut renamed = all.clone();
    renamed.0.ports.remove("north");
    renamed.0.interfaces.remove("north");
    renamed = renamed.port("south", 4);
    renamed.0.ports.insert("south".to_owned(), wire::holding("north", "three", our_mac(4)));
    let applied = lab.apply(&renamed).unwrap();
    assert_eq!((applied.ports_opened, applied.ports_closed), (1, 1));
    assert_eq!(names(&mut lab), ["east", "south", "west"]);
    assert_flows(&mut lab);
    lab.apply(&all).unwrap();
    assert_eq!(names(&mut lab), ["east", "north", "west"]);
    assert_flows(&mut lab);
}

#[test]
fn a_failed_exchange_is_rolled_back() {
    let all = held([("west", 1, "one"), ("east", 2, "two"), ("north", 3, "three")]);
    let mut lab = Lab::new(&all);
    let mut swapped = held([("west", 1, "two"), ("east", 2, "one"), ("north", 3, "three")]);
    // One of the two fails when the other one is already open, followed by a new port.
    swapped.0.ports.insert("west".to_owned(), wire::holding("ghost", "two", our_mac(1)));
    swapped = swapped.port("south", 4);
    lab.add_wire("south", Wire::new(1, 1));
    swapped.0.ports.insert("south".to_owned(), wire::holding("south", "two", our_mac(4)));
    for _ in 0..3 {
        let refused = lab.apply(&swapped).unwrap_err();
        assert!(!refused.errors.is_empty(), "{refused:?}");
        assert_eq!(names(&mut lab), ["east", "north", "west"]);
        assert_flows(&mut lab);
        assert_eq!(up_count(&lab, ["north"]), [1], "it is unaffected");
    }
    // A device of an unchanged port is rejected before anything is touched.
    let before = up_count(&lab, ["west", "east", "north"]);
    let refused =
        lab.apply(&held([("west", 1, "three"), ("east", 2, "one"), ("north", 3, "three")]));
    assert_eq!(refused.unwrap_err().errors[0].path, "port \"west\"");
    assert_eq!(up_count(&lab, ["west", "east", "north"]), before);
    assert_flows(&mut lab);
}

#[test]
fn a_port_is_replaced() {
    let mut lab = Lab::new(&Setup::three_ports());
    let mac = [2, 0, 0, 0, 0xee, 1];
    let mut other = Setup::three_ports();
    other.0.ports.insert("east".to_owned(), wire::config("east", mac));
    let applied = lab.apply(&other).unwrap();
    assert_eq!((applied.ports_opened, applied.ports_closed), (1, 1));
    lab.settle();
    lab.forget();
    lab.send("west", [packet_from(1, &udp(host4(1), host4(2), b""))]);
    assert_eq!(lab.only("east").source, mac);
    let back = udp(host4(2), host4(1), b"");
    lab.send("east", [packet_from(2, &back)]);
    lab.assert_dropped(&[("ethernet-mac-mismatch", 1)]);
    lab.send("east", [frame(mac, host_mac(2), &[], 0x0800, &back)]);
    assert_eq!(lab.take("west").len(), 1);
}

#[test]
fn the_first_state_can_be_refused() {
    let wires = Wires::default();
    let mut forwarder = stoa_forwarder::control::Forwarder::new(LIMITS, wire::opener(&wires));
    locked(&wires).insert("west".to_owned(), Wire::new(1, 1));
    assert!(forwarder.apply(Setup::new().port("west", 1).port("ghost", 2).0).is_err());
    assert!(forwarder.desired().is_none());
    // No state is applied: the next one can have other workers.
    forwarder.apply(Setup::new().workers(2).port("west", 1).0).unwrap();
    assert_eq!(forwarder.state().unwrap().list_workers().len(), 2);
}

#[test]
fn deleting_an_interface_deletes_its_routes() {
    let all = Setup::three_ports()
        .paths(FAR, &[("north", Some(host4(3).into()), 1)])
        .sub("north.5", 5, "north", &[(0x8100, 5)])
        .host("north.5", 5);
    let mut lab = Lab::new(&all);
    lab.send("west", [far(), packet_from(1, &udp(host4(1), host4(5), b""))]);
    assert_eq!(lab.take("north").len(), 2);
    // Only the sub-interface and its routes.
    let without = Setup::three_ports().paths(FAR, &[("north", Some(host4(3).into()), 1)]);
    lab.apply(&without).unwrap();
    lab.send("west", [far(), packet_from(1, &udp(host4(1), host4(5), b""))]);
    assert_eq!(lab.take("north").len(), 1);
    lab.assert_dropped(&[("ip4-no-route", 1)]);
    // The port as well.
    let two = Setup::new().port("west", 1).port("east", 2).host("west", 1).host("east", 2);
    let applied = lab.apply(&two).unwrap();
    assert_eq!(applied.ports_closed, 1);
    assert_eq!(names(&mut lab), ["east", "west"]);
    lab.send("west", [far(), packet_from(1, &udp(host4(1), host4(3), b""))]);
    lab.assert_dropped(&[("ip4-no-route", 2)]);
    assert_flows(&mut lab);
    // All are added again.
    lab.apply(&all).unwrap();
    assert_flows(&mut lab);
    lab.send("west", [far(), packet_from(1, &udp(host4(1), host4(5), b""))]);
    assert_eq!(lab.parsed("north").iter().map(|parsed| parsed.tags.len()).sum::<usize>(), 1);
}

#[test]
fn routes_are_replaced() {
    let mut lab = Lab::new(&Setup::three_ports());
    let via = |name, n| Setup::three_ports().paths(FAR, &[(name, Some(host4(n).into()), 1)]);
    for (setup, added, removed, out, drop) in [
        (via("east", 2), 1, 0, Some("east"), None),
        (via("north", 3), 1, 0, Some("north"), None),
        (
            Setup::three_ports().special_route(FAR.0, 24, SpecialNextHop::Blackhole),
            1,
            0,
            None,
            Some("ip4-blackhole"),
        ),
        (via("east", 2), 1, 0, Some("east"), None),
        (Setup::three_ports(), 0, 1, None, Some("ip4-no-route")),
    ] {
        let applied = lab.apply(&setup).unwrap();
        assert_eq!((applied.routes_added, applied.routes_removed), (added, removed));
        lab.send("west", [far()]);
        lab.assert_dropped(&drop.map(|drop| (drop, 1)).into_iter().collect::<Vec<_>>());
        if let Some(out) = out {
            assert_eq!(lab.take(out).len(), 1);
        }
        assert_flows(&mut lab);
    }
}

/// The interface of an opened port exists before another port fails.
#[test]
fn a_sub_interface_stays_when_a_port_of_its_name_is_refused() {
    let with_sub =
        || Setup::three_ports().sub("west.7", 10, "west", &[(0x8100, 7)]).host("west.7", 10);
    let mut lab = Lab::new(&with_sub());
    lab.add_wire("west.7", Wire::new(1, 1));
    let worse = Setup::three_ports().port("west.7", 9).port("zzz", 8);
    let refused = lab.apply(&worse).unwrap_err();
    assert_eq!(refused.errors[0].path, "port \"zzz\"");
    lab.apply(&with_sub().paths(FAR, &[("west.7", Some(host4(10).into()), 1)])).unwrap();
    lab.settle();
    lab.forget();
    lab.send("east", [packet_from(2, &udp(host4(2), "192.0.2.9".parse::<IpAddr>().unwrap(), b""))]);
    lab.assert_dropped(&[]);
    assert_eq!(lab.take("west").len(), 1);
}

#[test]
fn too_many_routes_reject_the_whole_state() {
    let limits = Limits { routes4: 30, ..LIMITS };
    let mut lab = Lab::with(&Setup::three_ports(), limits, |_| Wire::new(1, 1));
    let many = |n: u8| {
        let add = |setup: Setup, at| {
            let network = (IpAddr::from([192, 0, at, 0]), 24);
            setup.paths(network, &[("east", Some(host4(2).into()), 1)])
        };
        (0..n).fold(Setup::three_ports(), add)
    };
    let refused = lab.apply(&many(40)).unwrap_err();
    assert!(refused.is_full);
    assert_flows(&mut lab);
    // The number of routes is within the limit, but host routes of neighbours use the table, too.
    let refused = lab.apply(&many(24)).unwrap_err();
    assert!(refused.is_full, "{refused:?}");
    assert_flows(&mut lab);
    lab.send("west", [far()]);
    lab.assert_dropped(&[("ip4-no-route", 1)]);
    lab.take("west");
    lab.apply(&many(3)).unwrap();
    lab.send("west", [far()]);
    assert_eq!(lab.take("east").len(), 1);
}

#[test]
fn too_many_gateways_reject_the_whole_state() {
    let mut lab = Lab::new(&Setup::three_ports());
    let gateways = (0..80).fold(Setup::three_ports(), |setup, at| {
        let gateway = IpAddr::from([10, 0, 2, 10 + at]);
        setup.paths((IpAddr::from([192, 0, 2, at]), 32), &[("east", Some(gateway), 1)])
    });
    for _ in 0..3 {
        assert!(lab.apply(&gateways).unwrap_err().is_full);
        assert_flows(&mut lab);
    }
}

#[test]
fn polling_changes_without_new_workers() {
    let mut lab = Lab::new(&Setup::three_ports());
    let refused = lab.apply(&Setup::three_ports().workers(2)).unwrap_err();
    assert_eq!(refused.errors[0].path, "workers");
    for polling in [Polling::Always, Polling::Adaptive, Polling::Interrupt] {
        let mut setup = Setup::three_ports();
        setup.0.workers.polling = polling;
        lab.apply(&setup).unwrap();
        assert_eq!(lab.state().list_workers()[0].polling, polling.name());
        for _ in 0..20 {
            assert_flows(&mut lab);
        }
    }
}

#[test]
fn all_buffers_are_freed_when_all_ports_close() {
    let mut lab = Lab::new(&Setup::three_ports());
    lab.send("west", [packet_from(1, &udp(host4(1), IpAddr::from([10, 0, 2, 9]), b""))]);
    lab.apply(&Setup::new()).unwrap();
    let accounting = lab.state().conservation();
    assert_eq!(accounting.buffers_free, accounting.buffers);
    assert!(accounting.balanced);
    assert_eq!(names(&mut lab).len(), 0);
    assert!(lab.state().list_workers()[0].queues.is_empty());
    lab.assert_dropped(&[("link-down", 1)]);
    lab.apply(&Setup::three_ports()).unwrap();
    assert_flows(&mut lab);
}

/// The buffers of a refused first state are not leaked.
#[test]
fn the_buffers_of_a_refused_start_are_reused() {
    let wires = Wires::default();
    for name in ["west", "east", "north"] {
        locked(&wires).insert(name.to_owned(), Wire::new(1, 1));
    }
    let limits = Limits { next_hops: 40, ..LIMITS };
    let mut forwarder = Forwarder::new(limits, wire::opener(&wires));
    let greedy = (0..40).fold(Setup::three_ports(), |setup, at| {
        let gateway = IpAddr::from([10, 0, 2, 10 + at]);
        setup.paths((IpAddr::from([192, 0, 2, at]), 32), &[("east", Some(gateway), 1)])
    });
    assert!(forwarder.apply(greedy.0.clone()).unwrap_err().is_full);
    let pool = forwarder.state().expect("the workers run").pool();
    // Other workers, the same buffers.
    assert!(forwarder.apply(greedy.workers(2).0).unwrap_err().is_full);
    assert!(std::ptr::eq(forwarder.state().unwrap().pool(), pool));
    let mut other = Setup::three_ports();
    other.0.workers.buffers = 8192;
    forwarder.apply(other.0).unwrap();
    let now = forwarder.state().unwrap().pool();
    assert_eq!((now.count(), pool.free()), (8192, pool.count().into()));
}
