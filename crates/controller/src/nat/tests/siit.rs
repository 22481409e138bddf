//! Instances without state: what they translate to, and what is refused.

use serde_json::{Value, json};

use super::*;

fn of(kind: &str, more: Value) -> Value {
    json!({ "id": 1, "type": kind, "policy": [policy(1, more)] })
}

fn siit(eam: &[(&str, &str)]) -> Value {
    let eam: Vec<Value> =
        eam.iter().map(|it| json!({ "ipv4-prefix": it.0, "ipv6-prefix": it.1 })).collect();
    let prefixes = json!([{ "nat64-prefix": "2001:db8:46::/96" }]);
    of("ietf-nat:siit", json!({ "nat64-prefixes": prefixes, "eam": eam }))
}

fn desired(instances: &Value) -> v1::Siit {
    let configuration = parsed(&whole(instances)).unwrap_or_else(|errors| panic!("{errors:#?}"));
    configuration.desired.siit.unwrap_or_default()
}

#[track_caller]
fn wrong(instances: &Value, path: &str, cause: &str) {
    let errors = parsed(&whole(instances)).map(drop).unwrap_err();
    let found = errors.iter().any(|it| it.0.ends_with(path) && it.1.contains(cause));
    assert!(found, "{path}: {cause}: {errors:#?}");
}

const MAPPING: (&str, &str) = ("192.0.2.1/32", "2001:db8:1::1/128");

#[test]
fn a_policy_has_its_prefix_and_mappings() {
    let mut given = siit(&[MAPPING, ("192.0.2.64/26", "2001:db8:2::/64")]);
    given["nat-pass-through"] = json!([{ "id": 1, "prefix": "192.0.2.65/32" }]);
    let found = desired(&json!([given]));
    let [one] = found.policies.as_slice() else { panic!("{found:?}") };
    assert_eq!((one.instance, one.policy, one.vrf.as_str()), (1, 1, ""));
    assert_eq!(
        (one.error_interface.as_str(), &one.prefix),
        ("wan", &Some(prefix("2001:db8:46::/96")))
    );
    let mappings: Vec<_> = one.mappings.iter().map(|it| (it.ip4.clone(), it.embedded)).collect();
    let expected = [Some(prefix("192.0.2.1/32")), Some(prefix("192.0.2.64/26"))];
    assert_eq!(mappings, expected.map(|it| (it, false)));
    assert_eq!(one.kept, [prefix("192.0.2.65/32")]);
    // Without an interface, in the default VRF.
    let mut bare = siit(&[MAPPING]);
    bare["policy"][0].as_object_mut().unwrap().remove("external-realm");
    assert_eq!(desired(&json!([bare])).policies[0].error_interface, "");
    let mut off = siit(&[MAPPING]);
    off["enable"] = json!(false);
    assert_eq!(desired(&json!([off])), v1::Siit::default());
}

/// RFC 8512: destinations of a prefix are IPv4-translatable addresses, or those that a CLAT reaches.
#[test]
fn prefixes_with_destinations_are_mappings() {
    let clat = json!({ "nat64-prefixes": [
        { "nat64-prefix": "2001:db8:c1a7::/96" },
        { "nat64-prefix": "64:ff9b::/96", "destination-ipv4-prefix": [{ "ipv4-prefix": "0.0.0.0/0" }] },
    ] });
    let found = desired(&json!([of("ietf-nat:siit", clat)]));
    let [one] = found.policies.as_slice() else { panic!("{found:?}") };
    assert_eq!(one.prefix, Some(prefix("2001:db8:c1a7::/96")));
    let [all] = one.mappings.as_slice() else { panic!("{one:?}") };
    assert_eq!((&all.ip4, &all.ip6), (&Some(prefix("0.0.0.0/0")), &Some(prefix("64:ff9b::/96"))));
    assert!(all.embedded);
    let one = json!({ "nat64-prefixes": [{
        "nat64-prefix": "2001:db8:46::/96", "stateless-enable": true,
        "destination-ipv4-prefix": [{ "ipv4-prefix": "198.51.100.0/25" }],
    }] });
    let found = desired(&json!([of("ietf-nat:eam", one)]));
    assert_eq!((found.policies.len(), found.policies[0].mappings.len()), (1, 1));
}

#[test]
fn wrong_mappings_are_refused() {
    let path = "policy[id='1']/eam[ipv4-prefix='192.0.2.0/24']/ipv6-prefix";
    wrong(&json!([siit(&[("192.0.2.0/24", "2001:db8::/121")])]), path, "7 bits behind its prefix");
    for prefix in ["fe80::/64", "fe00::/7", "::/0", "ff02::/32", "::ffff:0:0/96"] {
        wrong(&json!([siit(&[("192.0.2.0/24", prefix)])]), path, "no host can have");
    }
    wrong(
        &json!([siit(&[("192.0.2.0/24", "2001:db8::/32")])]),
        path,
        "has all of 2001:db8:46::/96",
    );
    let path = "policy[id='1']/eam[ipv4-prefix='127.0.0.0/8']";
    wrong(&json!([siit(&[("127.0.0.0/8", "2001:db8:1::/64")])]), path, "no host can have");
    let twice = siit(&[MAPPING, ("192.0.2.2/32", MAPPING.1)]);
    wrong(&json!([twice]), "eam[ipv4-prefix='192.0.2.2/32']/ipv6-prefix", "192.0.2.1/32, too");
    wrong(&json!([siit(&[])]), "policy[id='1']/eam", "no mapping");
    for network in ["169.254.0.0/16", "0.0.0.0/8", "224.0.0.0/4", "64.0.0.0/2"] {
        let path = format!("policy[id='1']/eam[ipv4-prefix='{network}']");
        wrong(&json!([siit(&[(network, "2001:db8:1::/64")])]), &path, "no host can have");
    }
    // The well-known prefix stands for no private address (RFC 6052 section 3.1).
    let path = "policy[id='1']/eam[ipv4-prefix='0.0.0.0/0']/ipv6-prefix";
    wrong(&json!([siit(&[("0.0.0.0/0", "64:ff9b::/96")])]), path, "global addresses alone");
    // A longer one inside of a shorter one is right.
    let inside = siit(&[("192.0.2.0/24", "2001:db8:2::/64"), MAPPING]);
    assert_eq!(desired(&json!([inside])).policies[0].mappings.len(), 2);
}

fn with_destination(prefix: &str, ip4: &str, eam: &[(&str, &str)]) -> Value {
    let mut given = siit(eam);
    let prefixes = given["policy"][0]["nat64-prefixes"].as_array_mut().unwrap();
    prefixes.retain(|it| it["nat64-prefix"] != prefix);
    let destinations = json!([{ "ipv4-prefix": ip4 }]);
    prefixes.push(json!({ "nat64-prefix": prefix, "destination-ipv4-prefix": destinations }));
    given
}

#[test]
fn wrong_destinations_are_refused() {
    let path = |prefix, ip4| {
        format!(
            "policy[id='1']/nat64-prefixes[nat64-prefix='{prefix}']/destination-ipv4-prefix[ipv4-prefix='{ip4}']"
        )
    };
    for (prefix, ip4, cause) in [
        ("2001:db8:46::/96", "0.0.0.0/0", "nobody would be one"),
        ("2001:db8:46::/96", "127.0.0.0/8", "no host can have"),
        ("64:ff9b::/96", "10.0.0.0/8", "global addresses alone"),
        ("::ffff:0.0.0.0/96", "198.51.100.0/25", "no host can have"),
        ("2001:db8::/32", "0.0.0.0/0", "has all of 2001:db8:46::/96"),
    ] {
        let given = with_destination(prefix, ip4, &[MAPPING]);
        wrong(&json!([given]), &path(prefix, ip4), cause);
    }
    // Both kinds of mappings have the same IPv6 addresses.
    let twice = ("192.0.2.0/25", "2001:db8:46::c633:6400/121");
    let given = with_destination("2001:db8:46::/96", "198.51.100.0/25", &[twice]);
    let at = "eam[ipv4-prefix='192.0.2.0/25']/ipv6-prefix";
    wrong(&json!([given]), at, "2001:db8:46::c633:6400/121 is that of 198.51.100.0/25, too");
}

#[test]
fn wrong_prefixes_are_refused() {
    let mut two = siit(&[MAPPING]);
    two["policy"][0]["nat64-prefixes"] = json!([
        { "nat64-prefix": "2001:db8:46::/96" }, { "nat64-prefix": "64:ff9b::/96" },
    ]);
    wrong(&json!([two]), "policy[id='1']/nat64-prefixes", "2 prefixes stand for all of IPv4");
    let mut none = siit(&[MAPPING]);
    none["policy"][0].as_object_mut().unwrap().remove("nat64-prefixes");
    wrong(&json!([none]), "policy[id='1']/nat64-prefixes", "0 prefixes");
    let mut long = siit(&[MAPPING]);
    long["policy"][0]["nat64-prefixes"][0]["nat64-prefix"] = json!("2001:db8:46::/97");
    wrong(&json!([long]), "nat64-prefix='2001:db8:46::/97']", "cannot hold IPv4 addresses");
}

#[test]
fn what_belongs_to_others_is_refused() {
    let mut with_pool = siit(&[MAPPING]);
    with_pool["policy"][0]["mapping-type"] = json!("edm");
    wrong(&json!([with_pool]), "policy[id='1']/mapping-type", "by its prefix and mappings alone");
    let mut of_nat44 = siit(&[MAPPING]);
    of_nat44["type"] = json!("ietf-nat:napt44");
    wrong(&json!([of_nat44]), "policy[id='1']/eam", "only instances of the types siit and eam");
    let mut second = siit(&[("203.0.113.1/32", "2001:db8:3::/128")]);
    second["id"] = json!(2);
    wrong(&json!([siit(&[MAPPING]), second]), "instance[id='2']/policy[id='1']", "in the same VRF");
    let pools = json!({ "id": 3, "policy": [policy(1, pool("192.0.2.0/28"))] });
    let path = "eam[ipv4-prefix='192.0.2.1/32']";
    wrong(&json!([siit(&[MAPPING]), pools]), path, "external addresses of policy 1 of instance 3");
    for external in ["192.0.2.1/32", "192.0.2.0/30"] {
        let entry = json!({
            "index": 1, "type": "static",
            "internal-src-address": external.replace("192.0.2", "10.0.0"), "external-src-address": external,
        });
        let forwards = json!({
            "id": 3, "policy": [policy(1, json!({}))], "mapping-table": { "mapping-entry": [entry] },
        });
        let cause = format!("external addresses of mapping 1 of instance 3: {external}");
        wrong(&json!([siit(&[MAPPING]), forwards.clone()]), path, &cause);
        // All of IPv4 is mapped but for what others have.
        let clat = with_destination("64:ff9b::/96", "0.0.0.0/0", &[]);
        assert_eq!(desired(&json!([clat, forwards])).policies.len(), 1);
    }
    let path = "eam[ipv4-prefix='198.51.100.2/32']";
    let own = siit(&[("198.51.100.2/32", "2001:db8:1::1/128")]);
    wrong(&json!([own.clone()]), path, "an address of the router, of interface \"wan\"");
    // One of VRRP is its address, too, while it is master.
    let mut with = whole(&json!([siit(&[("198.51.100.9/32", "2001:db8:1::1/128")])]));
    with["ietf-interfaces:interfaces"]["interface"][0]["ietf-ip:ipv4"]["ietf-vrrp:vrrp"] = json!({
        "vrrp-instance": [{
            "vrid": 1, "version": "ietf-vrrp:vrrp-v3",
            "virtual-ipv4-addresses": { "virtual-ipv4-address": [{ "ipv4-address": "198.51.100.9" }] },
        }],
    });
    let errors = parsed(&with).map(drop).unwrap_err();
    let path = "eam[ipv4-prefix='198.51.100.9/32']";
    let is_it = |it: &(String, String)| it.0.ends_with(path) && it.1.contains("interface \"wan\"");
    assert!(errors.iter().any(is_it), "{errors:#?}");
    let nat64 = json!({ "nat64-prefixes": [{ "nat64-prefix": "2001:db8:46::/64" }] });
    let nat64 = json!({ "id": 3, "type": "ietf-nat:nat64", "policy": [policy(1, nat64)] });
    wrong(&json!([siit(&[MAPPING]), nat64]), "policy[id='1']/nat64-prefixes", "with state");
}
