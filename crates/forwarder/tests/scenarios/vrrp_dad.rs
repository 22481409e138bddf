//! VRRP: virtual routers wait for DAD, and tracked networks lower the priority.

use std::time::Duration;

use crate::harness::*;
use crate::vrrp::{setup, states};

#[test]
fn no_advertisements_from_a_tentative_link_local_address() {
    let setup = setup(100, true).with("west", |west| {
        west.ip6.duplicate_detection = 1;
        for router in west.ip4.virtual_routers.iter_mut().chain(&mut west.ip6.virtual_routers) {
            router.interval_cs = 10;
        }
    });
    let mut lab = Lab::new(&setup);
    lab.state().stop_time();
    lab.plug("west", false);
    lab.plug("west", true);
    assert_eq!(states(&mut lab), ["backup", "initialize"]);
    lab.pass_time(Duration::from_millis(900));
    assert_eq!(states(&mut lab), ["master", "initialize"]);
    lab.pass_time(Duration::from_millis(200));
    assert_eq!(states(&mut lab), ["master", "backup"], "RFC 4862 5.4");
    lab.pass_time(Duration::from_millis(500));
    assert_eq!(states(&mut lab), ["master", "master"]);
}

#[test]
fn the_priority_drops_while_a_tracked_network_is_unreachable() {
    let net = ("192.0.2.0".parse().unwrap(), 24);
    let tracking = setup(120, true).with("west", |west| {
        west.ip4.virtual_routers[0].networks =
            vec![(net, 50), (("10.0.3.0".parse().unwrap(), 24), 5)];
    });
    let mut lab = Lab::new(&tracking);
    let priority = |lab: &mut Lab| {
        lab.pass_time(Duration::from_millis(100));
        let west = lab.state().list_interfaces().into_iter().find(|it| it.name == "west").unwrap();
        west.virtual_routers[0].priority
    };
    assert_eq!(priority(&mut lab), 70, "only a connected route");
    lab.learn_all(
        LearnedMessage::first().hop(1, &[("east", "10.0.2.2")]).run(1, &["192.0.0.0/16"]),
    );
    assert_eq!(priority(&mut lab), 70, "a shorter route does not count");
    lab.learn_all(LearnedMessage::more().run(1, &["192.0.2.0/24"]));
    assert_eq!(priority(&mut lab), 120);
    lab.plug("east", false);
    assert_eq!(priority(&mut lab), 70, "no usable path");
    lab.plug("east", true);
    assert_eq!(priority(&mut lab), 120);
    lab.learn_all(
        LearnedMessage::more()
            .special(2, stoa_api::v1::Special::Blackhole)
            .run(2, &["192.0.2.0/24"]),
    );
    assert_eq!(priority(&mut lab), 70);
    lab.apply(&tracking.clone().paths(net, &[("east", Some(host4(2).into()), 1)])).unwrap();
    assert_eq!(priority(&mut lab), 120);
    lab.plug("north", false);
    assert_eq!(priority(&mut lab), 115);
}
