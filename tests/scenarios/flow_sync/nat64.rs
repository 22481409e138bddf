//! The client has IPv6 alone: its connections go on through NAT64 of the other router, with the same external ports.

use super::*;

const PREFIX: &str = "2001:db8:64::/96";
/// The server (198.18.2.20) as IPv6 hosts see it.
const SERVER6: &str = "2001:db8:64::c612:214";
/// External addresses of IPv6 hosts.
const POOL6: &str = "203.0.113.48/28";
const CLIENT: &str = "2001:db8:1::20/64";
const GATEWAY: &str = "2001:db8:1::254";

/// Both routers share a gateway of IPv6 hosts, too.
fn configured(number: usize, priority: u8) -> Result<Value> {
    let mut whole = configuration(number, priority, SECRET)?;
    let interfaces = whole["ietf-interfaces:interfaces"]["interface"].as_array_mut();
    let interfaces = interfaces.expect("both are configured");
    // An instance of IPv6 tracks interfaces with IPv6 alone.
    let outside = interfaces.iter_mut().find(|it| it["name"] == "host-b");
    outside.expect("it is configured")["ietf-ip:ipv6"] = json!({ "forwarding": true });
    let inside = interfaces.iter_mut().find(|it| it["name"] == "host-a");
    let inside = inside.expect("it is configured");
    let own = format!("2001:db8:1::{}", 1 + 2 * number);
    let mut instance = inside["ietf-ip:ipv4"]["ietf-vrrp:vrrp"]["vrrp-instance"][0].clone();
    instance.as_object_mut().expect("an object").remove("virtual-ipv4-addresses");
    instance["virtual-ipv6-addresses"] = json!({
        "virtual-ipv6-address": [{ "ipv6-address": "fe80::51" }, { "ipv6-address": GATEWAY }],
    });
    inside["ietf-ip:ipv6"] = json!({
        "forwarding": true,
        "address": [{ "ip": own, "prefix-length": 64 }],
        "ietf-vrrp:vrrp": { "vrrp-instance": [instance] },
    });
    let policy = json!({
        "id": 1,
        "external-realm": { "external-interface": "host-b" },
        "external-ip-address-pool": [{ "pool-id": 1, "external-ip-pool": POOL6 }],
        "nat64-prefixes": [{ "nat64-prefix": PREFIX }],
    });
    let instance = json!({ "id": 64, "type": "ietf-nat:nat64", "policy": [policy] });
    let instances = whole["ietf-nat:nat"]["instances"]["instance"].as_array_mut();
    instances.expect("those of NAT44").push(instance);
    Ok(whole)
}

#[test]
fn connections_of_an_ip6_host_survive_a_fail_over() -> Result<()> {
    let lab = Lab::new()?;
    let address = format!("addr add {CLIENT} dev eth0 nodad");
    let route = format!("-6 route add default via {GATEWAY}");
    ip_all(&lab.client, &[&address, &route])?;
    survive(lab, SERVER6, configured)
}
