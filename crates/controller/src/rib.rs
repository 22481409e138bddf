//! The routing information base: what each source knows, and which of them wins.
//!
//! Sources today: the addresses of the interfaces (direct) and the static
//! routes. A direct route always wins over a static one to the same prefix.

use std::collections::BTreeMap;

use ipnet::IpNet;
use stoa_api::text::ip_bytes;
use stoa_api::v1;
use stoa_api::v1::route::Action;

use crate::addresses::Addressing;
use crate::routes::Static;

/// The routes that the forwarder shall hold, sorted by family and prefix.
///
/// A connected prefix has one path without a next hop on its interface; each
/// address of ours is a host route that is delivered locally. fe80::/64 is on
/// every link and stays out: the forwarder handles it by itself.
pub fn routes(addressing: &Addressing, routes: Static) -> Vec<v1::Route> {
    let mut rib: BTreeMap<IpNet, (v1::Protocol, Action)> = BTreeMap::new();
    for (prefix, action) in routes {
        rib.insert(prefix, (v1::Protocol::Static, action));
    }
    for (prefix, interface) in &addressing.connected {
        let path = v1::Path { interface: interface.clone(), next_hop: vec![], weight: 1 };
        let action = Action::Paths(v1::Paths { paths: vec![path] });
        rib.insert(*prefix, (v1::Protocol::Direct, action));
    }
    for address in addressing.own.keys() {
        let action = Action::Special(v1::Special::Local.into());
        rib.insert(IpNet::from(*address), (v1::Protocol::Direct, action));
    }
    rib.into_iter()
        .map(|(prefix, (protocol, action))| v1::Route {
            prefix: Some(v1::Prefix {
                address: ip_bytes(prefix.network()),
                length: u32::from(prefix.prefix_len()),
            }),
            protocol: protocol.into(),
            action: Some(action),
            vrf: String::new(),
        })
        .collect()
}
