//! Cross-connects of the contract, checked.

use stoa_ports::PortConfig;

use super::held::Held;
use super::{Interface, ValidationErrors};

impl Held {
    /// A cross-connect joins two ports; nothing else handles their frames.
    pub(super) fn check_cross_connect(
        &self,
        (name, interface): (&String, &Interface),
        errors: &mut ValidationErrors,
    ) {
        let Some(across) = &interface.cross_connect else { return };
        let mut add = |cause: String, fix: &str| {
            errors.add(format!("interface {name:?}"), cause, fix);
        };
        for end in [name, across] {
            if end == across && across == name {
                add("is cross-connected to itself".into(), "Set another interface.");
                break;
            }
            let is_tunnel = |port: &PortConfig| matches!(port, PortConfig::Tunnel(_));
            if self.desired().ports.get(end).is_none_or(is_tunnel) {
                let cause = format!("is cross-connected, but {end:?} has no port with frames");
                add(cause, "Cross-connect interfaces of Ethernet ports.");
            }
        }
        let has_ip = interface.ip4.enabled || interface.ip6.enabled;
        if has_ip || interface.host_interface.is_some() {
            let cause = "is cross-connected, but has IP or a host interface".to_owned();
            add(cause, "Remove IP and the host interface: no packet stays in the router.");
        }
        if self.references().subs_of(name).next().is_some() {
            let cause = "is cross-connected, but has sub-interfaces".to_owned();
            add(cause, "Remove the sub-interfaces: tagged frames are cross-connected as well.");
        }
    }
}

#[cfg(test)]
mod tests {
    use stoa_api::v1;
    use stoa_api::v1::port::Driver;

    use super::super::DesiredState;

    fn interface(name: &str, across: &str) -> v1::Interface {
        let (name, cross_connect) = (name.to_owned(), across.to_owned());
        v1::Interface { name, cross_connect, enabled: true, ..v1::Interface::default() }
    }

    fn port(interface: &str, driver: Driver) -> v1::Port {
        let interface = interface.to_owned();
        v1::Port { interface, driver: Some(driver), ..v1::Port::default() }
    }

    /// The errors of a cross-connect between "a" and "b" after `change`.
    fn refused(change: impl FnOnce(&mut v1::Desired)) -> String {
        let mut desired = v1::Desired {
            ports: ["a", "b"].map(|name| port(name, Driver::Null(v1::Null {}))).into(),
            interfaces: vec![interface("a", "b"), interface("b", "a")],
            ..v1::Desired::default()
        };
        change(&mut desired);
        let errors = DesiredState::parse(&desired).err().unwrap_or_default();
        let texts = errors.iter().map(|error| format!("{} {}", error.path, error.cause));
        texts.collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn invalid_cross_connects_are_refused() {
        assert_eq!(refused(|_| {}), "");
        let to = |across: &'static str| {
            refused(move |desired| desired.interfaces[0].cross_connect = across.to_owned())
        };
        assert_eq!(to("a"), "interface \"a\" is cross-connected to itself");
        let nowhere = "interface \"a\" is cross-connected, but \"c\" has no port with frames";
        assert_eq!(to("c"), nowhere);
        let tunnel = refused(|desired| {
            let (local, remote) = (vec![192, 0, 2, 1], vec![192, 0, 2, 2]);
            let tunnel = v1::Tunnel { local, remote, ..v1::Tunnel::default() };
            desired.ports[1] = port("b", Driver::Tunnel(tunnel));
        });
        assert!(tunnel.contains("\"b\" has no port with frames"), "{tunnel}");
        let with_ip = refused(|desired| {
            let ip4 = v1::Family { enabled: true, ..v1::Family::default() };
            desired.interfaces[0].ip4 = Some(ip4);
        });
        assert_eq!(with_ip, "interface \"a\" is cross-connected, but has IP or a host interface");
        let sub = refused(|desired| {
            let (parent, outer) = ("a".to_owned(), Some(v1::Tag { tpid: 0x8100, vid: 7 }));
            desired.interfaces.push(v1::Interface { parent, outer, ..interface("a.7", "") });
        });
        assert_eq!(sub, "interface \"a\" is cross-connected, but has sub-interfaces");
    }
}
