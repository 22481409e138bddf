//! BFD sessions with neighbours on the links of interfaces.

use serde_json::{Value, json};
use stoa_api::counters::BFD_SESSIONS;
use stoa_api::text::{ip, ip_text};
use stoa_api::{date, v1};
use stoa_yang::error::ValidationErrors;

use crate::capability::{
    Capability, InterfaceChange, Others, Settings, Translated, interface_path,
};
use crate::config::addresses::Addressing;
use crate::config::host_addresses;
use crate::config::model::Interface;
use crate::json::{number, object, text, with_counters};

/// The capability.
pub(crate) struct Bfd;

impl Capability for Bfd {
    fn is_by_interface(&self) -> bool {
        true
    }

    fn translate(
        &self,
        settings: &Settings<'_>,
        translated: &mut Translated,
        errors: &mut ValidationErrors,
    ) {
        let with_sessions =
            || settings.model.interfaces.interface.iter().filter(|it| !it.bfd.session.is_empty());
        with_sessions().for_each(|interface| check(interface, &translated.addressing, errors));
        for (given, desired) in translated.interfaces_of(with_sessions()) {
            desired.bfd.clone_from(&given.bfd.session);
        }
    }

    /// A neighbour must not be a local address.
    fn is_independent(&self, others: &Others<'_>, change: &InterfaceChange<'_>) -> bool {
        let has_session = |(vrf, address): (&str, &[u8])| {
            let has_it =
                |it: &v1::Interface| it.bfd.iter().any(|session| session.address == address);
            others.find(|it| has_it(it) && it.vrf == vrf).is_some()
        };
        !change.new_addresses().any(has_session)
    }

    fn interface_state(&self, state: &v1::InterfaceState) -> Option<(&'static str, Value)> {
        let sessions: Vec<Value> = state.bfd.iter().map(session_state).collect();
        (!sessions.is_empty()).then(|| ("stoa-bfd:bfd", json!({ "session": sessions })))
    }
}

/// Checks that each neighbour is on the link of its interface and not a local address.
fn check(interface: &Interface, addressing: &Addressing, errors: &mut ValidationErrors) {
    for session in &interface.bfd.session {
        let Some(peer) = ip(&session.address) else { continue };
        let place =
            format!("{}/stoa-bfd:bfd/session[dest-addr='{peer}']", interface_path(&interface.name));
        let table = addressing.table(&interface.vrf);
        if table.own.contains_key(&peer) {
            let cause = format!("{peer} is a local address");
            errors.add_about(place, cause, "Set the neighbour's address.", &[&peer]);
            continue;
        }
        let subnets = addressing.subnets(&interface.name, peer.is_ipv6());
        let is_there = match subnets {
            Some(_) if host_addresses::is_link_local(peer) && peer.is_ipv6() => true,
            Some(subnets) => subnets.iter().any(|subnet| subnet.contains(&peer)),
            None => false,
        };
        if !is_there {
            errors.add_about(
                place,
                format!("{peer} is in no subnet of \"{}\"", interface.name),
                "Use a neighbour on the link, or add an address of its subnet to the interface.",
                &[&peer, &interface.name],
            );
        }
    }
}

fn session_state(it: &v1::BfdSessionState) -> Value {
    let some = |value: u32| if value == 0 { Value::Null } else { json!(value) };
    let running = object([
        ("local-state", text(&it.state)),
        ("remote-state", text(&it.remote_state)),
        ("local-discriminator", json!(it.discriminator)),
        ("local-diagnostic", json!(it.diagnostic)),
        ("remote-diagnostic", json!(it.remote_diagnostic)),
        ("last-change", json!(date::of_unix_s(it.changed_unix_s))),
        ("negotiated-tx-interval", some(it.tx_us)),
        ("negotiated-rx-interval", some(it.rx_us)),
        ("remote-multiplier", some(it.remote_multiplier)),
        ("detection-time", number(it.detection_us)),
        ("failed", json!(it.has_failed)),
    ]);
    let running = with_counters(running, BFD_SESSIONS, it);
    object([("dest-addr", text(&ip_text(&it.address))), ("session-running", running)])
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
        let session = &configuration.interfaces.iter().next().unwrap().bfd[0];
        assert_eq!((session.multiplier, session.desired_min_tx_us), (5, 300_000));
        assert_eq!(parsed("10.0.0.1").err(), Some(vec!["10.0.0.1 is a local address".to_owned()]));
        for peer in ["10.0.1.9", "fe80::9", "2001:db8::9"] {
            let reason = format!("{peer} is in no subnet of \"wan\"");
            assert_eq!(parsed(peer).err(), Some(vec![reason]));
        }
    }
}
