//! BFD sessions with neighbours on the links of interfaces.

use std::net::IpAddr;

use stoa_api::text::ip_bytes;
use stoa_api::v1;
use stoa_yang::error::ValidationErrors;

use crate::config::addresses::Addressing;
use crate::config::data_path::interface_path;
use crate::config::host_addresses;
use crate::config::model::Interface;

/// The desired sessions of an interface.
pub fn desired(interface: &Interface) -> Vec<v1::BfdSession> {
    let session = |session: &crate::config::model::BfdSession| {
        let peer: IpAddr = session.dest_addr.parse().ok()?;
        Some(v1::BfdSession {
            address: ip_bytes(peer),
            desired_min_tx_us: session.desired_min_tx_interval,
            required_min_rx_us: session.required_min_rx_interval,
            multiplier: session.local_multiplier.into(),
        })
    };
    interface.bfd.session.iter().filter_map(session).collect()
}

/// Checks that each neighbour is on the link of its interface and not a local address.
pub fn check(interfaces: &[Interface], addressing: &Addressing, errors: &mut ValidationErrors) {
    for interface in interfaces {
        for session in &interface.bfd.session {
            let Ok(peer) = session.dest_addr.parse::<IpAddr>() else { continue };
            let place = format!(
                "{}/stoa-bfd:bfd/session[dest-addr='{peer}']",
                interface_path(&interface.name)
            );
            let table = addressing.table(&interface.vrf);
            if table.own.contains_key(&peer) {
                errors.add(
                    place,
                    format!("{peer} is a local address"),
                    "Set the neighbour's address.",
                );
                continue;
            }
            let subnets = addressing.subnets(&interface.name, peer.is_ipv6());
            let is_there = match subnets {
                Some(_) if host_addresses::is_link_local(peer) && peer.is_ipv6() => true,
                Some(subnets) => subnets.iter().any(|subnet| subnet.contains(&peer)),
                None => false,
            };
            if !is_there {
                errors.add(
                    place,
                    format!("{peer} is in no subnet of \"{}\"", interface.name),
                    "Use a neighbour on the link, or add an address of its subnet to the interface.",
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::configuration::Configuration;

    fn parsed(peer: &str) -> Result<Configuration, Vec<String>> {
        let text = serde_json::json!({
            "ietf-interfaces:interfaces": { "interface": [{
                "name": "wan", "type": "iana-if-type:ethernetCsmacd",
                "stoa-interfaces:port": { "null": {} },
                "stoa-bfd:bfd": { "session": [{ "dest-addr": peer, "local-multiplier": 5 }] },
                "ietf-ip:ipv4": { "address": [{ "ip": "10.0.0.1", "prefix-length": 24 }] },
            }] },
        });
        let parsed = Configuration::parse(Path::new("test"), text.to_string());
        parsed.map_err(|errors| errors.into_iter().map(|error| error.cause).collect())
    }

    #[test]
    fn sessions_are_with_neighbours() {
        let configuration = parsed("10.0.0.9").unwrap();
        let session = &configuration.desired.interfaces[0].bfd[0];
        assert_eq!((session.multiplier, session.desired_min_tx_us), (5, 300_000));
        assert_eq!(parsed("10.0.0.1").err(), Some(vec!["10.0.0.1 is a local address".to_owned()]));
        for peer in ["10.0.1.9", "fe80::9", "2001:db8::9"] {
            let reason = format!("{peer} is in no subnet of \"wan\"");
            assert_eq!(parsed(peer).err(), Some(vec![reason]));
        }
    }
}
