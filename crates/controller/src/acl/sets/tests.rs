//! What sets have, and those that are refused.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// Expands sets; returns errors as "path: cause".
fn expanded(given: Value) -> (Sets, Vec<String>) {
    let given: DefinedSets = serde_json::from_value(given).unwrap();
    let mut errors = ValidationErrors::default();
    let sets = Sets::new(&given, &mut errors);
    let errors = errors.into_vec().into_iter().map(|it| format!("{}: {}", it.path, it.cause));
    (sets, errors.collect())
}

fn nets(sets: &Sets, is_ip4: bool, name: &str) -> String {
    let nets = sets.prefixes(is_ip4, name).unwrap().iter();
    nets.map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

fn ports(sets: &Sets, name: &str) -> String {
    stoa_api::acl::ranges_text(sets.ports(name).unwrap())
}

#[test]
fn a_set_has_the_values_of_those_that_it_includes() {
    let (sets, errors) = expanded(json!({
        "ipv4-prefix-sets": { "prefix-set": [
            { "name": "all", "include": ["sites", "partners"] },
            { "name": "sites", "prefix": ["10.1.0.0/16"], "include": ["labs"] },
            { "name": "labs", "prefix": ["10.9.0.7/24", "192.0.2.1/32"] },
            { "name": "partners", "prefix": ["198.51.100.0/24"], "include": ["labs"] },
            { "name": "none" },
        ] },
        "ipv6-prefix-sets": { "prefix-set": [{ "name": "all", "prefix": ["2001:db8::/32"] }] },
        "port-sets": { "port-set": [
            { "name": "web", "port": [443, 80], "include": ["proxies"] },
            { "name": "proxies", "port": ["8000-8080", 3128] },
        ] },
        "protocol-sets": { "protocol-set": [
            { "name": "vpn", "protocol": [50, 47, 51], "include": ["gre"] },
            { "name": "gre", "protocol": [47] },
        ] },
    }));
    assert_eq!(errors, [""; 0]);
    assert_eq!(nets(&sets, true, "all"), "10.1.0.0/16 10.9.0.0/24 192.0.2.1/32 198.51.100.0/24");
    assert_eq!(nets(&sets, true, "none"), "");
    assert_eq!(nets(&sets, false, "all"), "2001:db8::/32");
    assert_eq!(ports(&sets, "web"), "80, 443, 3128, 8000-8080");
    assert_eq!(sets.protocols("vpn").unwrap(), [47, 50, 51]);
    assert!(sets.prefixes(false, "sites").is_none(), "it is of the other family");
}

#[test]
fn values_are_joined_into_as_few_as_possible() {
    let (sets, errors) = expanded(json!({
        "ipv4-prefix-sets": { "prefix-set": [
            { "name": "a", "prefix": ["10.0.0.0/25", "10.0.0.128/25", "10.0.0.9/32", "10.0.1.0/24"] },
            { "name": "all", "prefix": ["0.0.0.0/1", "128.0.0.0/1"] },
        ] },
        "ipv6-prefix-sets": { "prefix-set": [
            { "name": "all", "prefix": ["::/0", "2001:db8::/32"] },
            { "name": "last", "prefix": ["8000::/1", "ffff::/16", "4000::/2"] },
        ] },
        "port-sets": { "port-set": [
            { "name": "a", "port": [80, 81, "82-90", "85-88", "92-65535", 65535, 0] },
        ] },
    }));
    assert_eq!(errors, [""; 0]);
    assert_eq!(nets(&sets, true, "a"), "10.0.0.0/23");
    assert_eq!(nets(&sets, true, "all"), "0.0.0.0/0");
    assert_eq!(nets(&sets, false, "all"), "::/0");
    assert_eq!(nets(&sets, false, "last"), "4000::/2 8000::/1");
    assert_eq!(ports(&sets, "a"), "0, 80-90, 92-65535");
}

#[test]
fn circles_are_named_once() {
    let (sets, errors) = expanded(json!({
        "port-sets": { "port-set": [
            { "name": "a", "port": [1], "include": ["b"] },
            { "name": "b", "port": [2], "include": ["free", "c"] },
            { "name": "c", "port": [3], "include": ["a"] },
            { "name": "outside", "include": ["b"] },
            { "name": "own", "include": ["own"] },
            { "name": "free", "port": [4] },
        ] },
    }));
    let sets_of = "/ietf-access-control-list:acls/stoa-acl:defined-sets/port-sets/port-set";
    assert_eq!(
        errors,
        [
            format!(
                "{sets_of}[name='a']/include: sets include each other in a circle: a -> b -> c -> a"
            ),
            format!(
                "{sets_of}[name='own']/include: sets include each other in a circle: own -> own"
            ),
        ]
    );
    assert_eq!(ports(&sets, "free"), "4");
    assert!(sets.ports("outside").is_none());
}

#[test]
fn wrong_ranges_and_too_many_values_are_refused() {
    let (_, errors) = expanded(json!({ "port-sets": { "port-set": [
        { "name": "web", "port": ["90-80", "80-70000", "1-2"] },
    ] } }));
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert!(
        errors[0].ends_with("the first port of 90-80 is greater than the last one"),
        "{errors:?}"
    );
    assert!(errors[1].ends_with("70000 is no port: the greatest is 65535"), "{errors:?}");
    // Every second address.
    let hosts = |count: usize| -> Vec<String> {
        (0..count as u32).map(|n| format!("{}/32", std::net::Ipv4Addr::from(n << 1))).collect()
    };
    let one = |name: &str, count: usize| json!({ "name": name, "prefix": hosts(count) });
    let sets = |all: Vec<Value>| json!({ "ipv4-prefix-sets": { "prefix-set": all } });
    assert_eq!(expanded(sets(vec![one("most", ENTRIES)])).1, [""; 0]);
    let (_, errors) = expanded(sets(vec![one("more", ENTRIES + 1)]));
    let refused = format!("the set has {} values, more than {ENTRIES}", ENTRIES + 1);
    assert!(errors[0].ends_with(&refused), "{errors:?}");
    let included = (0..16).map(|n| json!({ "name": n.to_string(), "include": ["most"] }));
    let all: Vec<Value> = included.chain([one("most", ENTRIES)]).collect();
    let (_, errors) = expanded(sets(all));
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].contains(&format!("more than {} values", 4 * VALUES)), "{errors:?}");
}

proptest! {
    /// Joined values have the addresses and ports of the given ones, and no two of them touch.
    #[test]
    fn joining_changes_no_member(
        given in prop::collection::vec((0..64_u32, 26..=32_u8), 0..12),
        ranges in prop::collection::vec((0..40_u32, 0..6_u32), 0..12),
    ) {
        let prefixes: Vec<String> = given
            .iter()
            .map(|(address, length)| format!("{}/{length}", std::net::Ipv4Addr::from(*address)))
            .collect();
        let texts: Vec<String> =
            ranges.iter().map(|(first, more)| format!("{first}-{}", first + more)).collect();
        let (sets, errors) = expanded(json!({
            "ipv4-prefix-sets": { "prefix-set": [{ "name": "a", "prefix": prefixes }] },
            "port-sets": { "port-set": [{ "name": "a", "port": texts }] },
        }));
        prop_assert_eq!(errors, [""; 0]);
        let nets: Vec<IpNet> = prefixes.iter().map(|it| it.parse().unwrap()).collect();
        let joined = sets.prefixes(true, "a").unwrap();
        prop_assert!(joined.is_sorted());
        for address in 0..128_u32 {
            let ip: std::net::IpAddr = std::net::Ipv4Addr::from(address).into();
            let count = joined.iter().filter(|net| net.contains(&ip)).count();
            prop_assert_eq!(count, usize::from(nets.iter().any(|net| net.contains(&ip))));
        }
        let joined = sets.ports("a").unwrap();
        prop_assert!(joined.windows(2).all(|two| two[0].last + 1 < two[1].first));
        for port in 0..50 {
            let is_in = ranges.iter().any(|(first, more)| (*first..=first + more).contains(&port));
            prop_assert_eq!(joined.iter().any(|it| it.first <= port && port <= it.last), is_in);
        }
    }
}
