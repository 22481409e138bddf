//! Warnings about an MTU that is larger than that of the device: packets are not larger than the device allows.

use stoa_api::v1;

use crate::apply::ForwarderConnection;

/// An interface and its configured MTUs of IPv4 and IPv6; 0: none.
type Mtus = (String, [u32; 2]);

/// The interfaces with a configured MTU.
pub(super) fn desired(desired: &v1::Desired) -> Vec<Mtus> {
    let of = |family: &Option<v1::Family>| family.as_ref().map_or(0, |family| family.mtu);
    let all = desired.interfaces.iter();
    let all = all.map(|it| (it.name.clone(), [of(&it.ip4), of(&it.ip6)]));
    all.filter(|(_, mtus)| *mtus != [0, 0]).collect()
}

/// A warning for each interface that is up and whose device has a smaller MTU.
pub(super) async fn warnings(connection: &ForwarderConnection, mtus: &[Mtus]) -> Vec<String> {
    if mtus.is_empty() {
        return Vec::new();
    }
    let listed = connection.client().list_interfaces(v1::ListInterfacesRequest {}).await;
    let states = listed.map(|reply| reply.into_inner().interfaces).unwrap_or_default();
    compare(mtus, &states)
}

fn compare(mtus: &[Mtus], states: &[v1::InterfaceState]) -> Vec<String> {
    let warning = |(name, mtus): &Mtus| {
        // The larger of both families as far as the device allows.
        let state = states.iter().find(|state| state.name == *name && state.up)?;
        let largest = mtus.iter().copied().max().filter(|mtu| *mtu > state.mtu)?;
        Some(format!(
            "interface {name}: the MTU {largest} is above that of its device, which limits it to {}: raise the MTU of \
             the device, or configure at most {}",
            state.mtu, state.mtu
        ))
    };
    mtus.iter().filter_map(warning).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_mtu_above_that_of_the_device_is_a_warning() {
        let family = |mtu| Some(v1::Family { mtu, ..v1::Family::default() });
        let interface = |name: &str, mtu| v1::Interface {
            name: name.into(),
            ip4: family(mtu),
            ..v1::Interface::default()
        };
        let interfaces = vec![interface("a", 9000), interface("b", 1500), interface("c", 0)];
        let mtus = desired(&v1::Desired { interfaces, ..v1::Desired::default() });
        assert_eq!(mtus.len(), 2);
        let state = |name: &str, up| v1::InterfaceState {
            name: name.into(),
            up,
            mtu: 1500,
            ..v1::InterfaceState::default()
        };
        let found = compare(&mtus, &[state("a", true), state("b", true)]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("interface a: the MTU 9000 is above that of its device"));
        assert!(compare(&mtus, &[state("a", false)]).is_empty(), "its device may be missing");
    }
}
