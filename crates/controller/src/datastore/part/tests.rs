//! Parts and the whole: a configuration that is made of a part equals the whole, validated and translated.

mod edits;
mod hidden;

use std::path::Path;

use stoa_api::v1;

use super::super::bulk::{self, Core};
use super::super::difference::between;
use super::super::edit::{self, Edit};
use edits::*;

use super::*;
use crate::config::blocks::BLOCK;
use crate::configuration::{Bulk, ChangedPart, Configuration};

const BULKS: [Bulk; 3] = [
    Bulk { interfaces: true, routes: true },
    Bulk { interfaces: true, routes: false },
    Bulk { interfaces: false, routes: true },
];

const TEXT: &str = r#"{
  "ietf-interfaces:interfaces": {"interface": [
    {"name": "lan", "type": "iana-if-type:ethernetCsmacd", "stoa-interfaces:port": {"null": {}},
     "stoa-interfaces:mac-address": "02:00:00:00:00:01",
     "stoa-bfd:bfd": {"session": [{"dest-addr": "192.0.2.9"}]},
     "ietf-ip:ipv4": {"forwarding": true, "address": [{"ip": "192.0.2.1", "prefix-length": 24}],
       "neighbor": [{"ip": "192.0.2.9", "link-layer-address": "02:00:00:00:00:09"}],
       "ietf-vrrp:vrrp": {"vrrp-instance": [{"vrid": 7, "version": "ietf-vrrp:vrrp-v3",
         "track": {"interfaces": {"interface": [{"interface": "wan", "priority-decrement": 5}]}},
         "virtual-ipv4-addresses": {"virtual-ipv4-address": [{"ipv4-address": "192.0.2.254"}]}}]}}},
    {"name": "wan", "type": "iana-if-type:ethernetCsmacd", "stoa-interfaces:port": {"null": {}},
     "ietf-ip:ipv4": {"address": [{"ip": "198.51.100.1", "prefix-length": 24}]},
     "ietf-ip:ipv6": {"forwarding": true, "address": [{"ip": "2001:db8::1", "prefix-length": 64}]}},
    {"name": "tun", "type": "iana-if-type:tunnel", "stoa-interfaces:port": {"tunnel": {
       "encapsulation": "gre", "local": "198.51.100.1", "remote": "203.0.113.9"}}},
    {"name": "lan.1", "type": "iana-if-type:l2vlan",
     "stoa-interfaces:sub-interface": {"parent": "lan", "outer": {"vid": 1}},
     "ietf-ip:ipv4": {"address": [{"ip": "10.1.0.1", "prefix-length": 24}]}},
    {"name": "lan.2", "type": "iana-if-type:l2vlan",
     "stoa-interfaces:sub-interface": {"parent": "lan", "outer": {"vid": 2}}},
    {"name": "host", "type": "iana-if-type:ethernetCsmacd", "stoa-interfaces:port": {"null": {}},
     "stoa-host-interface:host-interface": {"device": "h0", "netns": "space"}},
    {"name": "tap", "type": "iana-if-type:ethernetCsmacd",
     "stoa-interfaces:port": {"tap": {"device": "t0"}}},
    {"name": "red", "type": "iana-if-type:ethernetCsmacd", "stoa-interfaces:port": {"null": {}},
     "stoa-vrf:vrf": "red", "ietf-ip:ipv4": {"address": [{"ip": "192.0.2.1", "prefix-length": 24}]}},
    {"name": "one", "type": "iana-if-type:ethernetCsmacd", "stoa-interfaces:port": {"null": {}},
     "stoa-interfaces:cross-connect": "two"},
    {"name": "two", "type": "iana-if-type:ethernetCsmacd", "stoa-interfaces:port": {"null": {}},
     "stoa-interfaces:cross-connect": "one"}]},
  "stoa-vrf:vrfs": {"vrf": [{"name": "red"}, {"name": "blue"}]},
  "ietf-access-control-list:acls": {
    "acl": [{"name": "edge", "type": "ietf-access-control-list:ipv4-acl-type", "aces": {"ace": [
      {"name": "web", "matches": {"tcp": {"destination-port": {"port": 80}}},
       "actions": {"forwarding": "ietf-access-control-list:accept"}},
      {"name": "dns", "matches": {"udp": {"stoa-acl:destination-udp-port-set": "dns"}},
       "actions": {"forwarding": "ietf-access-control-list:accept"}}]}}],
    "stoa-acl:defined-sets": {"port-sets": {"port-set": [
      {"name": "dns", "include": ["more"]}, {"name": "more", "port": [53]}]}},
    "attachment-points": {"interface": [{"interface-id": "lan",
      "ingress": {"acl-sets": {"acl-set": [{"name": "edge"}]}}}]},
    "stoa-acl:zones": {"zone": [{"name": "inside", "interface": ["lan"]}]},
    "stoa-acl:zone-pairs": {"zone-pair": [{"from": "inside", "to": "router",
      "acl-sets": {"acl-set": [{"name": "edge"}]}}]}},
  "ietf-nat:nat": {"instances": {"instance": [{"id": 1,
    "policy": [{"id": 1, "external-realm": {"external-interface": "wan"}}],
    "mapping-table": {"mapping-entry": [{"index": 1, "external-src-address": "203.0.113.1/32",
      "internal-src-address": "192.0.2.9/32"}]}}]}},
  "ietf-routing:routing": {
    "stoa-policy:policy": {"rule": [{"vrf": "default", "address-family": "ipv4", "priority": 100,
      "match": {"interface": "wan"}, "table": "red"}]},
    "control-plane-protocols": {"control-plane-protocol": [
    {"type": "ietf-routing:static", "name": "s", "static-routes": {
      "ietf-ipv4-unicast-routing:ipv4": {"route": [
        {"destination-prefix": "10.9.0.0/16", "next-hop": {"next-hop-address": "192.0.2.9"}},
        {"destination-prefix": "10.8.0.0/16", "next-hop": {"outgoing-interface": "wan"}},
        {"destination-prefix": "10.7.0.0/16", "next-hop": {"special-next-hop": "blackhole"}},
        {"destination-prefix": "10.6.0.0/16", "stoa-routing:preference": 9,
         "next-hop": {"next-hop-address": "198.51.100.7"}}]},
      "ietf-ipv6-unicast-routing:ipv6": {"route": [
        {"destination-prefix": "2001:db8:9::/48", "next-hop": {"next-hop-address": "2001:db8::9"}}]}}},
    {"type": "ietf-routing:static", "name": "r", "stoa-vrf:vrf": "red", "static-routes": {
      "ietf-ipv4-unicast-routing:ipv4": {"route": [
        {"destination-prefix": "10.9.0.0/16", "next-hop": {"next-hop-address": "192.0.2.7"}}]}}},
    {"type": "stoa-routing:fpm", "name": "frr", "stoa-routing:route-source": {"netns": "space"}},
    {"type": "stoa-routing:bgp", "name": "bird", "stoa-routing:route-source":
      {"as": 65000, "router-id": "192.0.2.1"}}]}}}"#;

/// Running, and what it means.
struct Running {
    tree: Arc<DataTree<'static>>,
    configuration: Arc<Configuration>,
}

impl Running {
    fn new() -> Running {
        Running::of(TEXT)
    }

    fn of(text: &str) -> Running {
        let tree = stoa_yang::data::parse(text).unwrap();
        let configuration = whole(&tree).unwrap_or_else(|errors| panic!("{errors:#?}"));
        Running { tree: Arc::new(tree), configuration: Arc::new(configuration) }
    }

    /// The part with some edits, as the datastores make it; `None`: the edits need the whole, or one fails.
    fn part(&self, bulk: Bulk, edits: &[Edit]) -> Option<Part> {
        let entries = bulk::entries(edits, bulk)?;
        let core = Core::new(bulk, &self.tree).unwrap();
        let after = Arc::new(Snapshot::new(Arc::clone(&core.tree), 1));
        let part = Part { before: core.tree, entries: Vec::new(), after };
        let part = part.pull(&self.tree, entries).unwrap();
        let after = edit::apply(&part.after.tree, edits);
        let everywhere = edit::apply(&self.tree, edits);
        assert_eq!(after.is_ok(), everywhere.is_ok(), "{edits:?}: {after:?}");
        let (after, everywhere) = (after.ok()?, everywhere.ok()?);
        let same = with_changes(&self.tree, &part.before, &after).unwrap();
        let [same, everywhere] = [&same, &everywhere].map(|it| stoa_yang::data::print(it).unwrap());
        assert_eq!(same, everywhere, "{edits:?}");
        Some(part.with_after(Arc::new(Snapshot::new(after, 2))))
    }

    /// The configuration with a part, the short way.
    fn with_part(&self, bulk: Bulk, part: &Part) -> Option<Configuration> {
        let changes = between(&part.before, &part.after.tree).unwrap();
        let paths: Vec<&str> = changes.iter().map(|change| change.path.as_str()).collect();
        let referring = match bulk.interfaces {
            true => part.clone().with_references(&self.tree).unwrap()?,
            false => part.clone(),
        };
        let (before, after) = (&referring.before, &referring.after.tree);
        let changed = ChangedPart { before, after, paths: &paths };
        self.configuration.with_part(Path::new("t"), bulk, changed)
    }
}

fn whole(
    tree: &DataTree<'static>,
) -> Result<Configuration, Vec<stoa_yang::error::ValidationError>> {
    Configuration::of_data(Path::new("t"), "", tree)
}

/// In an order of its own: that of lists is of no meaning.
fn sorted(mut desired: v1::Desired) -> v1::Desired {
    desired.ports.sort_by(|one, other| one.interface.cmp(&other.interface));
    let key = |it: &v1::Neighbor| (it.interface.clone(), it.address.clone());
    desired.neighbors.sort_by_key(key);
    desired
}

fn assert_equal(made: &Configuration, expected: &Configuration, edits: &[Edit]) {
    let parents = made.interfaces.iter().map(|it| !it.parent.is_empty());
    assert!(parents.is_sorted(), "parents precede sub-interfaces: {edits:?}");
    assert_eq!(made.interfaces.to_vec(), expected.interfaces.to_vec(), "{edits:?}");
    let [one, other] = [made, expected].map(|it| sorted(it.desired.clone()));
    assert_eq!(one, other, "{edits:?}");
    assert_eq!(made.routes.to_vec(), expected.routes.to_vec(), "{edits:?}");
    assert_eq!(made.annotations, expected.annotations, "{edits:?}");
    assert_eq!(made.floating, expected.floating, "{edits:?}");
    assert_eq!(made.addressing, expected.addressing, "{edits:?}");
    assert_eq!(made.route_sources, expected.route_sources, "{edits:?}");
    assert_eq!(made.kernel_tables, expected.kernel_tables, "{edits:?}");
    assert_eq!(made.management, expected.management, "{edits:?}");
}

/// Each kind of leaf, alone, is validated and translated as a part.
#[test]
fn leafs_that_nothing_depends_on_take_the_part() {
    let running = Running::new();
    for bulk in BULKS {
        for edit in cheap() {
            let edits = [edit];
            let part = running.part(bulk, &edits).unwrap_or_else(|| panic!("{bulk:?}: {edits:?}"));
            let made = running.with_part(bulk, &part);
            let made = made.unwrap_or_else(|| panic!("{bulk:?}: {edits:?} takes the whole"));
            let tree = with_changes(&running.tree, &part.before, &part.after.tree).unwrap();
            let expected = whole(&tree).unwrap_or_else(|errors| panic!("{edits:?}: {errors:#?}"));
            assert_equal(&made, &expected, &edits);
        }
    }
}

/// The cost of a commit follows the change: what the part does not have is shared with the configuration before.
#[test]
fn a_part_shares_interfaces_and_addresses_with_the_configuration_before() {
    let sub = |at: usize| {
        format!(
            r#"{{"name": "lan.{at}", "type": "iana-if-type:l2vlan",
                 "stoa-interfaces:sub-interface": {{"parent": "lan", "outer": {{"vid": {}}}}},
                 "ietf-ip:ipv4": {{"address": [{{"ip": "10.{}.{}.1", "prefix-length": 24}}]}}}}"#,
            at + 1,
            at >> 8,
            at & 255
        )
    };
    let subs: Vec<String> = (0..2_000).map(sub).collect();
    let running = Running::of(&format!(
        r#"{{"ietf-interfaces:interfaces": {{"interface": [
            {{"name": "lan", "type": "iana-if-type:ethernetCsmacd", "stoa-interfaces:port": {{"null": {{}}}}}},
            {}]}}}}"#,
        subs.join(",")
    ));
    let place = |rest: &str| format!("{}/{rest}", interface("lan.7"));
    let edits = [
        set(place("description"), "another"),
        set(place("ietf-ip:ipv4/mtu"), "1400"),
        set(place("ietf-ip:ipv4/address[ip='192.0.2.1']/prefix-length"), "24"),
    ];
    for edit in edits {
        let edits = [edit];
        let part = running.part(BULKS[0], &edits).unwrap();
        let made = running.with_part(BULKS[0], &part).unwrap();
        let [gone, new] = running.configuration.interfaces.apart(&made.interfaces);
        assert!(gone.len() <= 2 * BLOCK && new.len() <= 2 * BLOCK, "{edits:?}");
        let [before, after] = [&running.configuration, &made].map(|it| it.addressing.table(""));
        assert!(after.own.own_entries(&before.own) <= 4 * BLOCK, "{edits:?}");
        assert!(after.connected.own_entries(&before.connected) <= 4 * BLOCK, "{edits:?}");
    }
}

/// Random edits one upon the other: a part is accepted only if the whole is valid, and gives the same.
#[test]
fn parts_equal_the_whole() {
    let all: Vec<Edit> = cheap().into_iter().chain(others()).collect();
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|it| it.parse::<usize>().ok());
    let rounds = 40 * cases.unwrap_or(256).max(256) / 256;
    let (mut random, mut by_part, mut refused) = (0x9E37_79B9_7F4A_7C15_u64, 0, 0);
    let mut below = |limit: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 20) as usize % limit
    };
    for _ in 0..rounds {
        let mut running = Running::new();
        for _ in 0..12 {
            let number = 1 + below(2);
            let edits: Vec<Edit> = (0..number).map(|_| all[below(all.len())].clone()).collect();
            let bulk = BULKS[below(BULKS.len())];
            let Some(part) = running.part(bulk, &edits) else { continue };
            let made = running.with_part(bulk, &part);
            let tree = with_changes(&running.tree, &part.before, &part.after.tree).unwrap();
            let expected = whole(&tree);
            let configuration = match (made, expected) {
                (Some(made), Ok(expected)) => {
                    by_part += 1;
                    assert_equal(&made, &expected, &edits);
                    made
                }
                (Some(_), Err(errors)) => panic!("{bulk:?} {edits:#?} is invalid: {errors:#?}"),
                (None, Ok(expected)) => expected,
                (None, Err(_)) => {
                    refused += 1;
                    continue;
                }
            };
            running = Running { tree: Arc::new(tree), configuration: Arc::new(configuration) };
        }
    }
    assert!(by_part > 2 * rounds && refused > rounds, "{by_part} parts, {refused} refused");
}

/// An address that comes into force with its family is new to the sessions of other interfaces.
#[test]
fn an_enabled_family_brings_its_addresses() {
    let held = r#"{"parent": "lan", "outer": {"vid": 2}}"#;
    let with_family = format!(
        r#"{held}, "ietf-ip:ipv4": {{"enabled": false,
            "address": [{{"ip": "192.0.2.9", "prefix-length": 32}}]}}"#
    );
    let running = Running::of(&TEXT.replace(held, &with_family));
    let bulk = BULKS[0];
    let edits = [set(format!("{}/ietf-ip:ipv4/enabled", interface("lan.2")), "true")];
    let part = running.part(bulk, &edits).unwrap();
    let tree = with_changes(&running.tree, &part.before, &part.after.tree).unwrap();
    assert!(whole(&tree).is_err(), "192.0.2.9 is a neighbour of lan by BFD");
    assert!(running.with_part(bulk, &part).is_none());
}

/// Northbound hides a text that tells about nodes that a user may not read: it goes by the names in the error.
#[test]
fn a_hint_has_the_names_of_its_interfaces() {
    let gateway = format!("{}/next-hop", route("s", "10.5.0.0/16"));
    let edits = [
        set(format!("{gateway}/next-hop-address"), "203.0.113.77"),
        set(format!("{gateway}/outgoing-interface"), "lan"),
    ];
    let tree = edit::apply(&Running::new().tree, &edits).unwrap();
    let errors = whole(&tree).err().unwrap();
    let error = errors.iter().find(|it| it.fix.contains("Connected: ")).unwrap();
    for name in ["lan", "wan", "lan.1"] {
        assert!(error.fix.contains(&format!("({name})")), "{error:?}");
        assert!(error.names.iter().any(|it| it == name), "{error:?}");
    }
}

/// Two texts of one path name one entry: the edits of the first stay.
#[test]
fn an_entry_is_pulled_once_whatever_its_quotes() {
    let (running, bulk) = (Running::new(), BULKS[0]);
    let first = set(format!("{}/description", interface("lan")), "first");
    let part = running.part(bulk, &[first]).unwrap();
    let second = "/ietf-interfaces:interfaces/interface[name=\"lan\"]".to_owned();
    let part = part.pull(&running.tree, vec![second]).unwrap();
    assert!(stoa_yang::data::print(&part.after.tree).unwrap().contains("first"));
}
