//! What each router translates, lets in, or answers by cookies: for Stoa and for nftables.

use std::net::Ipv4Addr;

use serde_json::{Value, json};

use super::ends::{INTERFACE, POOL, PORTS, address};
use super::view::Describer;

const MODULE: &str = "ietf-access-control-list";
/// The port of servers, by way of which connections begin with cookies.
const WEB: u16 = 8000;

/// Forwards from an external address to a server: protocol, external ports, inside ports.
const FORWARDS: [(&str, u8, [u16; 2], [u16; 2]); 3] = [
    ("tcp", 6, [8080, 8080], [WEB, WEB]),
    ("tcp", 6, [21, 21], [21, 21]),
    ("udp", 17, [6000, 6009], [7000, 7009]),
];

/// What a router does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Plan {
    /// Clients have an external address with a range of ports.
    Pool,
    /// Clients have the address of the external interface.
    Interface,
    /// The first with gateways for FTP and TFTP.
    Gateways,
    /// Connections from host-a to host-b begin with cookies.
    Cookies,
}

impl Plan {
    /// Tells what arrives.
    pub fn describer(self) -> Describer {
        Describer::new(self.external(), matches!(self, Self::Pool | Self::Gateways))
    }

    /// The external address of clients.
    pub fn external(self) -> Option<Ipv4Addr> {
        match self {
            Self::Pool | Self::Gateways => Some(POOL),
            Self::Interface => Some(INTERFACE),
            Self::Cookies => None,
        }
    }

    /// The parts of Stoa's configuration, for so many scripts.
    pub fn stoa(self, scripts: u8) -> (&'static str, Value) {
        match self {
            Self::Cookies => ("ietf-access-control-list:acls", zones()),
            _ => ("ietf-nat:nat", self.nat(scripts)),
        }
    }

    fn nat(self, scripts: u8) -> Value {
        let mut policy = json!({
            "id": 1,
            "external-realm": { "external-interface": "host-b" },
        });
        if self != Self::Interface {
            policy["external-ip-address-pool"] =
                json!([{ "pool-id": 1, "external-ip-pool": format!("{POOL}/32") }]);
            policy["port-set-restrict"] =
                json!({ "start-port-number": PORTS[0], "end-port-number": PORTS[1] });
        }
        if self == Self::Gateways {
            policy["algs"] = json!([
                { "name": "ftp", "transport-protocol": 6 },
                { "name": "tftp", "transport-protocol": 17 },
            ]);
        }
        let mut entries = vec![json!({
            "index": 1, "type": "static",
            "external-src-address": format!("{}/24", address("o", 0)),
            "internal-src-address": format!("{}/24", address("s", 0)),
        })];
        let range = |[first, last]: [u16; 2]| match first == last {
            true => json!({ "start-port-number": first }),
            false => json!({ "start-port-number": first, "end-port-number": last }),
        };
        for script in 1..=scripts {
            for (_, protocol, external, inside) in FORWARDS {
                entries.push(json!({
                    "index": entries.len() + 1, "type": "static", "transport-protocol": protocol,
                    "external-src-address": format!("{}/32", address("f", script)),
                    "external-src-port": range(external),
                    "internal-src-address": format!("{}/32", address("c", script)),
                    "internal-src-port": range(inside),
                }));
            }
        }
        json!({ "instances": { "instance": [{
            "id": 1, "policy": [policy], "mapping-table": { "mapping-entry": entries },
        }] } })
    }

    /// The same for `nft -f`.
    pub fn nftables(self, scripts: u8) -> String {
        if self == Self::Cookies {
            return format!(
                "table ip reference {{\n  \
                 chain before {{\n    type filter hook prerouting priority raw; policy accept;\n    \
                 tcp dport {WEB} tcp flags & (fin|syn|rst|ack) == syn notrack\n  }}\n  \
                 chain forward {{\n    type filter hook forward priority 0; policy accept;\n    \
                 tcp dport {WEB} ct state invalid,untracked synproxy mss 1460 wscale 8 timestamp sack-perm\n    \
                 ct state invalid drop\n  }}\n}}\n"
            );
        }
        let source = match self {
            Self::Interface => ["masquerade".to_owned(), "masquerade".to_owned()],
            _ => [format!("snat to {POOL}:{}-{}", PORTS[0], PORTS[1]), format!("snat to {POOL}")],
        };
        let helpers = match self {
            Self::Gateways => {
                "  ct helper files { type \"ftp\" protocol tcp; }\n  \
                 ct helper boot { type \"tftp\" protocol udp; }\n  \
                 chain helpers {\n    type filter hook prerouting priority 0; policy accept;\n    \
                 tcp dport 21 ct helper set \"files\"\n    udp dport 69 ct helper set \"boot\"\n  }\n"
            }
            _ => "",
        };
        let [own, external] = [address("s", 0), address("o", 0)];
        let [tcp, udp] = ["tcp", "udp"].map(|name| forwards(name, scripts));
        let [ported, plain] = &source;
        // Behind the dnat of a hairpin, the interface is another one.
        let interface = [format!("snat to {INTERFACE}"), format!("snat to {INTERFACE}")];
        let [ported_back, plain_back] = if self == Self::Interface { &interface } else { &source };
        format!(
            "table ip reference {{\n{helpers}  \
             chain hairpin {{\n    \
             snat ip prefix to ip saddr map {{ {own}/24 : {external}/24 }}\n    \
             meta l4proto {{ tcp, udp }} {ported_back}\n    {plain_back}\n  }}\n  \
             chain before {{\n    type nat hook prerouting priority -100; policy accept;\n    \
             dnat ip to ip daddr . tcp dport map {{ {tcp} }}\n    \
             dnat ip to ip daddr . udp dport map {{ {udp} }}\n    \
             dnat ip prefix to ip daddr map {{ {external}/24 : {own}/24 }}\n  }}\n  \
             chain behind {{\n    type nat hook postrouting priority 100; policy accept;\n    \
             ip saddr 198.18.128.0/18 return\n    \
             oifname != host-b ct status dnat goto hairpin\n    oifname != host-b return\n    \
             snat ip prefix to ip saddr map {{ {own}/24 : {external}/24 }}\n    \
             meta l4proto {{ tcp, udp }} {ported}\n    {plain}\n  }}\n  \
             chain forward {{\n    type filter hook forward priority 0; policy accept;\n    \
             ct state invalid drop\n  }}\n}}\n"
        )
    }
}

/// The elements of the map from external ends to servers.
fn forwards(of: &str, scripts: u8) -> String {
    let mut all = vec![];
    for script in 1..=scripts {
        let [external, inside] = ["f", "c"].map(|name| address(name, script));
        for (_, _, from, to) in FORWARDS.iter().filter(|(name, ..)| *name == of) {
            let ports = (from[0]..=from[1]).zip(to[0]..);
            all.extend(ports.map(|(from, to)| format!("{external} . {from} : {inside} . {to}")));
        }
    }
    all.join(", ")
}

/// Stateful rules between two zones, the second with cookies for all connections.
fn zones() -> Value {
    let rule = |name: &str, matches: Value| {
        let actions =
            json!({ "forwarding": format!("{MODULE}:accept"), "stoa-acl:stateful": true });
        json!({ "name": name, "matches": matches, "actions": actions })
    };
    let rules = [
        rule("web", json!({ "tcp": { "destination-port": { "port": WEB } } })),
        rule(
            "datagrams",
            json!({ "udp": { "destination-port": { "lower-port": 1, "upper-port": 65535 } } }),
        ),
    ];
    let zone = |name: &str| json!({ "name": name, "interface": [name] });
    let mut servers = zone("host-b");
    servers["syn-cookies"] = json!({ "threshold": 0 });
    let all = ["host-a", "host-b", "host-c"];
    let pairs = all.iter().flat_map(|from| {
        let others = all.iter().filter(move |to| *to != from);
        others.map(move |to| {
            json!({ "from": from, "to": to, "acl-sets": { "acl-set": [{ "name": "all" }] } })
        })
    });
    json!({
        "acl": [{ "name": "all", "aces": { "ace": rules } }],
        "stoa-acl:zones": { "zone": [zone("host-a"), servers, zone("host-c")] },
        "stoa-acl:zone-pairs": { "zone-pair": pairs.collect::<Vec<_>>() },
    })
}
