//! Virtual routers that wait for an address to be sure, and that stand back while networks are gone.

use std::time::Duration;

use crate::harness::*;
use crate::vrrp::{states, world};

#[test]
fn nothing_is_said_from_a_link_local_address_that_is_not_sure() {
    let world = world(100, true).with("west", |west| {
        west.ip6.duplicate_detection = 1;
        for router in west.ip4.virtual_routers.iter_mut().chain(&mut west.ip6.virtual_routers) {
            router.interval_cs = 10;
        }
    });
    let mut lab = Lab::new(&world);
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
fn its_priority_falls_while_a_tracked_network_is_not_reached() {
    let net = ("192.0.2.0".parse().unwrap(), 24);
    let tracking = world(120, true).with("west", |west| {
        west.ip4.virtual_routers[0].networks =
            vec![(net, 50), (("10.0.3.0".parse().unwrap(), 24), 5)];
    });
    let mut lab = Lab::new(&tracking);
    let priority = |lab: &mut Lab| {
        lab.pass_time(Duration::from_millis(100));
        let west = lab.state().list_interfaces().into_iter().find(|it| it.name == "west").unwrap();
        west.virtual_routers[0].priority
    };
    assert_eq!(priority(&mut lab), 70, "connected, and not there");
    lab.learn_all(Said::anew().hop(1, &[("east", "10.0.2.2")]).run(1, &["192.0.0.0/16"]));
    assert_eq!(priority(&mut lab), 70, "a shorter route is another network's");
    lab.learn_all(Said::more().run(1, &["192.0.2.0/24"]));
    assert_eq!(priority(&mut lab), 120);
    lab.plug("east", false);
    assert_eq!(priority(&mut lab), 70, "it leads nowhere");
    lab.plug("east", true);
    assert_eq!(priority(&mut lab), 120);
    lab.learn_all(
        Said::more().special(2, stoa_api::v1::Special::Blackhole).run(2, &["192.0.2.0/24"]),
    );
    assert_eq!(priority(&mut lab), 70);
    lab.apply(&tracking.clone().paths(net, &[("east", Some(host4(2).into()), 1)])).unwrap();
    assert_eq!(priority(&mut lab), 120);
    lab.plug("north", false);
    assert_eq!(priority(&mut lab), 115);
}
