//! Warnings about an MTU that is larger than that of the device: packets are not larger than the device allows.

use std::collections::HashMap;

use stoa_api::v1;

use crate::apply::ForwarderConnection;
use crate::configuration::Configuration;
use crate::warning::Warning;

/// An interface and its configured MTUs of IPv4, of IPv6 and of its port; 0: none.
type Mtus = (String, [u32; 3]);

/// The parts of an interface that have these MTUs.
const PARTS: [&str; 3] = ["ietf-ip:ipv4", "ietf-ip:ipv6", "stoa-interfaces:port"];

/// The interfaces with a configured MTU.
pub(super) fn desired(configuration: &Configuration) -> Vec<Mtus> {
    let known = Known::of(configuration);
    configuration.interfaces.iter().filter_map(|it| known.configured(it)).collect()
}

/// Those of which the MTU or the port is not as `held`.
pub(super) fn changed(held: &Configuration, new: &Configuration) -> Vec<Mtus> {
    let (before, after) = (Known::of(held), Known::of(new));
    let is_changed = |(name, mtus): &Mtus| {
        before.mtus(name) != Some(*mtus) || before.port(name) != after.port(name)
    };
    if held.desired.ports != new.desired.ports {
        return desired(new).into_iter().filter(is_changed).collect();
    }
    let [_, apart] = held.interfaces.apart(&new.interfaces);
    apart.into_iter().filter_map(|it| after.configured(it)).filter(is_changed).collect()
}

/// Those whose port is as `held`: of other devices, the forwarder knows nothing yet.
pub(super) fn on_held_ports(held: &Configuration, new: &Configuration) -> Vec<Mtus> {
    let mut all = desired(new);
    let (before, after) = (Known::of(held), Known::of(new));
    all.retain(|(name, _)| before.port(name) == after.port(name));
    all
}

/// The interfaces of a configuration, and its ports by name.
struct Known<'a> {
    configuration: &'a Configuration,
    ports: HashMap<&'a str, &'a v1::Port>,
}

impl<'a> Known<'a> {
    fn of(configuration: &'a Configuration) -> Known<'a> {
        let ports = &configuration.desired.ports;
        let ports = ports.iter().map(|it| (it.interface.as_str(), it)).collect();
        Known { configuration, ports }
    }

    /// An interface with its configured MTUs, if there are any.
    fn configured(&self, interface: &v1::Interface) -> Option<Mtus> {
        let mtus = self.of_interface(interface);
        (mtus != [0; 3]).then(|| (interface.name.clone(), mtus))
    }

    fn mtus(&self, name: &str) -> Option<[u32; 3]> {
        self.configuration.interfaces.named(name).map(|it| self.of_interface(it))
    }

    fn of_interface(&self, interface: &v1::Interface) -> [u32; 3] {
        let of = |family: &Option<v1::Family>| family.as_ref().map_or(0, |family| family.mtu);
        let port = self.ports.get(interface.name.as_str()).map_or(0, |port| port.mtu);
        [of(&interface.ip4), of(&interface.ip6), port]
    }

    /// The port of an interface, or of its parent.
    fn port(&self, name: &str) -> Option<&'a v1::Port> {
        let parent = self.configuration.interfaces.named(name).map(|it| it.parent.as_str());
        self.ports.get(parent.filter(|it| !it.is_empty()).unwrap_or(name)).copied()
    }
}

/// A warning for each interface that is up and whose device has a smaller MTU.
pub(super) async fn warnings(connection: &ForwarderConnection, mtus: &[Mtus]) -> Vec<Warning> {
    if mtus.is_empty() {
        return Vec::new();
    }
    // Not all interfaces because one was changed.
    let names = mtus.iter().map(|(name, _)| name.clone()).collect();
    let listed = connection.client().list_interfaces(v1::ListInterfacesRequest { names }).await;
    let states = listed.map(|reply| reply.into_inner().interfaces).unwrap_or_default();
    compare(mtus, &states)
}

fn compare(mtus: &[Mtus], states: &[v1::InterfaceState]) -> Vec<Warning> {
    let up = states.iter().filter(|state| state.up).map(|state| (state.name.as_str(), state));
    let up: HashMap<&str, &v1::InterfaceState> = up.collect();
    let warning = |(name, mtus): &Mtus| {
        // The largest of them as far as the device allows.
        let state = up.get(name.as_str())?;
        let largest = mtus.iter().copied().max().filter(|mtu| *mtu > state.mtu)?;
        let text = format!(
            "interface {name}: the MTU {largest} is above that of its device, which limits it to {}: raise the MTU of \
             the device, or configure at most {}",
            state.mtu, state.mtu
        );
        Some(Warning::of_interface(name, &PARTS, text))
    };
    mtus.iter().filter_map(warning).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configuration(interfaces: Vec<v1::Interface>, ports: Vec<v1::Port>) -> Configuration {
        let empty = Configuration::parse(std::path::Path::new("t"), "{}".to_owned()).unwrap();
        let desired = v1::Desired { ports, ..v1::Desired::default() };
        Configuration { desired, interfaces: interfaces.into(), ..empty }
    }

    #[test]
    fn an_mtu_above_that_of_the_device_is_a_warning() {
        let family = |mtu| Some(v1::Family { mtu, ..v1::Family::default() });
        let interface = |name: &str, mtu| v1::Interface {
            name: name.into(),
            ip4: family(mtu),
            ..v1::Interface::default()
        };
        let port = v1::Port { interface: "d".into(), mtu: 9001, ..v1::Port::default() };
        let names = [("a", 9000), ("b", 1500), ("c", 0), ("d", 0)];
        let interfaces = names.map(|(name, mtu)| interface(name, mtu)).to_vec();
        let mtus = desired(&configuration(interfaces, vec![port]));
        assert_eq!(mtus.len(), 3);
        let state = |name: &str, up| v1::InterfaceState {
            name: name.into(),
            up,
            mtu: 1500,
            ..v1::InterfaceState::default()
        };
        let found = compare(&mtus, &[state("a", true), state("b", true), state("d", true)]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].text.starts_with("interface a: the MTU 9000 is above that of its device"));
        assert!(found[1].text.contains("interface d: the MTU 9001"), "of its port: {found:?}");
        assert!(compare(&mtus, &[state("a", false)]).is_empty(), "its device may be missing");
    }

    #[test]
    fn changed_mtus_and_ports_are_found() {
        let desired = |mtu, port_mtu| {
            let port =
                |name: &str, mtu| v1::Port { interface: name.into(), mtu, ..v1::Port::default() };
            let interface = |name: &str, parent: &str, mtu| v1::Interface {
                name: name.into(),
                parent: parent.into(),
                ip6: Some(v1::Family { mtu, ..v1::Family::default() }),
                ..v1::Interface::default()
            };
            let interfaces = vec![
                interface("a", "", mtu),
                interface("b", "", 9000),
                interface("b.1", "b", 9000),
                interface("c", "", 9000),
            ];
            configuration(interfaces, vec![port("a", 0), port("b", port_mtu), port("c", 0)])
        };
        let names = |all: Vec<Mtus>| all.into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        let held = desired(1500, 1500);
        assert!(changed(&held, &held).is_empty());
        assert_eq!(names(changed(&held, &desired(1600, 1500))), ["a"]);
        assert_eq!(names(changed(&held, &desired(1500, 1600))), ["b", "b.1"]);
        assert!(names(changed(&held, &desired(0, 1500))).is_empty(), "it has none");
        let none = configuration(Vec::new(), Vec::new());
        assert_eq!(names(changed(&none, &held)), ["a", "b", "c", "b.1"]);
        assert_eq!(names(on_held_ports(&held, &desired(1600, 1600))), ["a", "c"]);
    }
}
