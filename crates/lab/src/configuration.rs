//! The router's configuration file (RFC 7951 JSON) for the sides of a topology.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{Address, Side};

const ETHERNET: &str = "iana-if-type:ethernetCsmacd";
const VLAN: &str = "iana-if-type:l2vlan";

/// The packet kernel of scenarios that do not choose one themselves.
const KERNEL: &str = "STOA_KERNEL";

/// The next hop of a static route.
#[derive(Clone, Copy, Debug)]
pub enum NextHop<'a> {
    /// To one router.
    Via(&'a str),
    /// Several routers with weights, load-balanced by flow.
    Among(&'a [(&'a str, u16)]),
    /// `blackhole`, `unreachable`, `prohibit` or `receive`.
    Special(&'a str),
    /// The destination itself, on the link of this interface.
    Link(&'a str),
}

/// A configuration under construction.
#[derive(Clone, Debug)]
pub struct Configuration {
    interfaces: Vec<Value>,
    /// By VRF and family.
    routes: BTreeMap<String, [Vec<Value>; 2]>,
    vrfs: Vec<Value>,
    workers: Value,
}

impl Configuration {
    /// One packet-socket port for each side, with a sub-interface where the side is tagged; connected routes only.
    #[must_use]
    pub fn new(sides: &[Side]) -> Self {
        let (interfaces, routes, vrfs) = Default::default();
        let mut made = Self { interfaces, routes, vrfs, workers: Value::Null };
        for side in sides {
            made = made.port(&side.label, json!({ "af-packet": { "device": side.label } }));
            let addresses: Vec<Address> =
                side.addresses.iter().map(|(_, router)| *router).collect();
            let vlan_interface = interface_name(side);
            if let [outer, rest @ ..] = side.tags.as_slice() {
                let kind = |tpid| if tpid == 0x88a8 { "s-vlan" } else { "c-vlan" };
                let tag = |one: &crate::Tag| json!({ "tpid": kind(one.tpid), "vid": one.vid });
                let mut below = json!({ "parent": side.label, "outer": tag(outer) });
                if let [inner, ..] = rest {
                    below["inner"] = tag(inner);
                }
                made.interfaces.push(json!({
                    "name": vlan_interface, "type": VLAN, "stoa-interfaces:sub-interface": below,
                }));
            }
            made = made.addresses(&vlan_interface, &addresses);
        }
        made
    }

    /// Adds an interface with a port; `driver` as in the model, e.g. `{"tap": {}}`.
    #[must_use]
    pub fn port(mut self, name: &str, driver: Value) -> Self {
        self.interfaces.push(json!({
            "name": name, "type": ETHERNET, "stoa-interfaces:port": driver,
        }));
        self
    }

    /// Enables forwarding on an interface and sets its addresses.
    #[must_use]
    pub fn addresses(mut self, name: &str, addresses: &[Address]) -> Self {
        for (family, six) in [("ietf-ip:ipv4", false), ("ietf-ip:ipv6", true)] {
            let own = addresses.iter().filter(|one| one.ip.is_ipv6() == six);
            let list: Vec<Value> = own
                .map(|one| json!({ "ip": one.ip.to_string(), "prefix-length": one.prefix_length }))
                .collect();
            if !list.is_empty() {
                self.interface(name)[family] = json!({ "forwarding": true, "address": list });
            }
        }
        self
    }

    /// Adds a VRF with these interfaces.
    #[must_use]
    pub fn vrf(mut self, name: &str, interfaces: &[&str]) -> Self {
        self.vrfs.push(json!({ "name": name }));
        for interface in interfaces {
            self.interface(interface)["stoa-vrf:vrf"] = json!(name);
        }
        self
    }

    /// Adds a static route; the family is that of the prefix.
    #[must_use]
    pub fn route(self, prefix: &str, next_hop: NextHop<'_>) -> Self {
        self.route_in("", prefix, next_hop)
    }

    /// Adds a static route to a VRF.
    #[must_use]
    pub fn route_in(mut self, vrf: &str, prefix: &str, next_hop: NextHop<'_>) -> Self {
        let next_hop = match next_hop {
            NextHop::Via(router) => json!({ "next-hop-address": router }),
            NextHop::Link(interface) => json!({ "outgoing-interface": interface }),
            NextHop::Special(what) => json!({ "special-next-hop": what }),
            NextHop::Among(routers) => {
                let list: Vec<Value> = routers
                    .iter()
                    .map(|(router, weight)| {
                        json!({
                            "index": router,
                            "next-hop-address": router,
                            "stoa-routing:weight": weight,
                        })
                    })
                    .collect();
                json!({ "next-hop-list": { "next-hop": list } })
            }
        };
        let family = usize::from(prefix.contains(':'));
        let routes = self.routes.entry(vrf.to_owned()).or_default();
        routes[family].push(json!({ "destination-prefix": prefix, "next-hop": next_hop }));
        self
    }

    /// Sets the workers, e.g. `{"count": 2}`.
    #[must_use]
    pub fn workers(mut self, workers: Value) -> Self {
        self.workers = workers;
        self
    }

    /// The interface of this name, for changes.
    ///
    /// # Panics
    ///
    /// There is no such interface: an error in the scenario.
    pub fn interface(&mut self, name: &str) -> &mut Value {
        let found = self.interfaces.iter_mut().find(|one| one["name"] == name);
        found.unwrap_or_else(|| panic!("this configuration has no interface `{name}`"))
    }

    /// The configuration as JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        let mut whole = json!({ "ietf-interfaces:interfaces": { "interface": self.interfaces } });
        let mut workers = self.workers.clone();
        if let Some(kernel) = std::env::var(KERNEL).ok().filter(|_| workers["kernel"].is_null()) {
            workers["kernel"] = json!(kernel);
        }
        if !workers.is_null() {
            whole["stoa-system:system"] = json!({ "workers": workers });
        }
        if !self.vrfs.is_empty() {
            whole["stoa-vrf:vrfs"] = json!({ "vrf": self.vrfs });
        }
        let protocols: Vec<Value> =
            self.routes.iter().map(|(vrf, routes)| protocol(vrf, routes)).collect();
        if !protocols.is_empty() {
            whole["ietf-routing:routing"] =
                json!({ "control-plane-protocols": { "control-plane-protocol": protocols } });
        }
        whole
    }
}

/// The static routes of one VRF.
fn protocol(vrf: &str, routes: &[Vec<Value>; 2]) -> Value {
    let mut families = json!({});
    for (family, list) in ["ipv4", "ipv6"].into_iter().zip(routes) {
        if !list.is_empty() {
            families[format!("ietf-{family}-unicast-routing:{family}")] = json!({ "route": list });
        }
    }
    let name = if vrf.is_empty() { "main" } else { vrf };
    let mut made =
        json!({ "type": "ietf-routing:static", "name": name, "static-routes": families });
    if !vrf.is_empty() {
        made["stoa-vrf:vrf"] = json!(vrf);
    }
    made
}

/// The router's interface towards a side: the port's, or its sub-interface `PORT.OUTER[.INNER]`.
#[must_use]
pub fn interface_name(side: &Side) -> String {
    side.tags.iter().fold(side.label.clone(), |name, tag| format!("{name}.{}", tag.vid))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tag;

    #[test]
    fn a_tagged_side_is_a_port_and_a_sub_interface() -> crate::Result<()> {
        let side = Side::new("b", &[("198.18.2.2/24", "198.18.2.1/24")])?
            .tagged(&[Tag::service(200), Tag::customer(100)]);
        let mut configuration = Configuration::new(&[side]);
        assert_eq!(
            configuration.interface("b")["stoa-interfaces:port"]["af-packet"]["device"],
            "b"
        );
        let vlan_interface = configuration.interface("b.200.100");
        let below = &vlan_interface["stoa-interfaces:sub-interface"];
        assert_eq!(below["outer"], json!({ "tpid": "s-vlan", "vid": 200 }));
        assert_eq!(below["inner"], json!({ "tpid": "c-vlan", "vid": 100 }));
        assert_eq!(vlan_interface["ietf-ip:ipv4"]["address"][0]["ip"], "198.18.2.1");
        Ok(())
    }

    #[test]
    fn routes_are_listed_by_family() {
        let whole = Configuration::new(&[])
            .route("198.18.9.0/24", NextHop::Via("198.18.2.2"))
            .route("2001:db8:9::/48", NextHop::Special("prohibit"))
            .json();
        let protocol =
            &whole["ietf-routing:routing"]["control-plane-protocols"]["control-plane-protocol"];
        let routes = &protocol[0]["static-routes"];
        let four = &routes["ietf-ipv4-unicast-routing:ipv4"]["route"][0];
        assert_eq!(four["next-hop"]["next-hop-address"], "198.18.2.2");
        let six = &routes["ietf-ipv6-unicast-routing:ipv6"]["route"][0];
        assert_eq!(six["next-hop"]["special-next-hop"], "prohibit");
    }
}
