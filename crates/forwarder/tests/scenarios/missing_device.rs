//! A port without its device: rejected in a change, awaited at a start.

use crate::harness::*;

fn setup() -> Setup {
    Setup::new().port("west", 1).host("west", 1).port("late", 2).host("late", 2)
}

fn interface(lab: &mut Lab, name: &str) -> stoa_api::v1::InterfaceState {
    let all = lab.state().list_interfaces();
    all.into_iter().find(|interface| interface.name == name).expect("an interface")
}

/// Lets the control thread work until the interface is up or down.
fn until(lab: &mut Lab, name: &str, up: bool) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while interface(lab, name).up != up {
        lab.state().poll();
        assert!(std::time::Instant::now() < deadline, "{:?}", interface(lab, name));
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    lab.settle();
    lab.forget();
}

/// A forwarder without the wire "late".
fn start() -> Lab {
    let mut lab = Lab::new(&Setup::new().port("west", 1));
    let wires = lab.wires();
    lab.forwarder = stoa_forwarder::control::Forwarder::new(LIMITS, wire::opener(&wires));
    lab
}

#[test]
fn a_start_succeeds_without_the_device() {
    let mut lab = start();
    lab.apply(&setup()).expect("the other ports are enough");
    lab.settle();
    let late = interface(&mut lab, "late");
    assert!(!late.up && late.detail.contains("no device \"late\""), "{late:?}");
    assert_eq!(lab.apply(&setup()).unwrap(), stoa_api::v1::Applied::default());
    lab.forget();
    // Packets to it are dropped with an ICMP error.
    lab.send("west", [packet_from(1, &udp(host4(1), host4(2), b""))]);
    assert_eq!(lab.take("west").len(), 1, "an ICMP error");
    lab.forget();
    lab.add_wire("late", Wire::new(1, 1));
    until(&mut lab, "late", true);
    assert_eq!(interface(&mut lab, "late").mac, our_mac(2));
    for (from, n, to, m) in [("west", 1, "late", 2), ("late", 2, "west", 1)] {
        lab.send(from, [packet_from(n, &udp(host4(n), host4(m), b""))]);
        assert_eq!(lab.only(to).destination, host_mac(m));
    }
    lab.plug("late", false);
    until(&mut lab, "late", false);
    assert_eq!(interface(&mut lab, "late").detail, "unplugged");
}

#[test]
fn a_change_is_refused_and_the_rollback_waits_for_the_device() {
    let mut lab = Lab::new(&Setup::new().port("west", 1).host("west", 1));
    let refused = lab.apply(&setup()).unwrap_err();
    assert_eq!(refused.errors[0].path, "port \"late\"");
    lab.add_wire("late", Wire::new(1, 1));
    let mut alone = setup();
    alone.0.ports.insert("late".to_owned(), wire::alone("late", our_mac(2)));
    lab.apply(&alone).expect("it is there");
    lab.settle();
    // The change fails half-way, and the previous device has disappeared meanwhile.
    lab.remove_wire("late");
    let mut worse = setup();
    worse.0.ports.insert("late".to_owned(), wire::alone("ghost", our_mac(2)));
    assert!(lab.apply(&worse).is_err());
    lab.settle();
    assert!(interface(&mut lab, "late").detail.contains("no device \"late\""));
    lab.add_wire("late", Wire::new(1, 1));
    until(&mut lab, "late", true);
}
