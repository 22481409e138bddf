//! Routes and permanent neighbours of the contract, checked.

use std::net::IpAddr;

use stoa_api::v1;

use super::change::{DesiredChange, add_once};
use super::{Action, Path, Prefix, Route, ValidationErrors, address, bits, network};
use crate::shared::SpecialNextHop;

/// The prefix of a route and its path in errors.
pub(super) fn prefix(
    prefix: Option<&v1::Prefix>,
    vrf: &str,
    errors: &mut ValidationErrors,
) -> Option<(Prefix, String)> {
    let Some(ip) = prefix.and_then(|prefix| address(&prefix.address)) else {
        errors.add("route".to_owned(), "has no prefix of 4 or 16 bytes", "Send a prefix.");
        return None;
    };
    let length = prefix.map_or(0, |prefix| prefix.length);
    let in_vrf = if vrf.is_empty() { String::new() } else { format!(" of VRF {vrf}") };
    let error_path = format!("route {ip}/{length}{in_vrf}");
    let longest = u32::from(bits(ip));
    if length > longest {
        let cause = format!("has a prefix length out of range; the maximum is {longest}");
        errors.add(error_path, cause, "Use a length that fits the address.");
        return None;
    }
    if network(ip, length as u8) != ip {
        let fix = "Clear the host bits, or use a longer prefix.";
        errors.add(error_path, "has host bits set", fix);
        return None;
    }
    Some(((ip, length as u8), error_path))
}

impl DesiredChange {
    pub(super) fn add_route(&mut self, route: &v1::Route, errors: &mut ValidationErrors) {
        let Some((prefix, error_path)) = prefix(route.prefix.as_ref(), &route.vrf, errors) else {
            return;
        };
        let action = match &route.action {
            Some(v1::route::Action::Special(special)) => match v1::Special::try_from(*special) {
                Ok(v1::Special::Local) => Action::Special(SpecialNextHop::Local),
                Ok(v1::Special::Blackhole) => Action::Special(SpecialNextHop::Blackhole),
                Ok(v1::Special::Unreachable) => Action::Special(SpecialNextHop::Unreachable),
                Ok(v1::Special::Prohibit) => Action::Special(SpecialNextHop::Prohibited),
                Err(_) => {
                    return errors.add(
                        error_path,
                        "has an unknown action",
                        "Use a newer forwarder.",
                    );
                }
            },
            Some(v1::route::Action::Paths(paths)) if !paths.paths.is_empty() => {
                Action::Paths(checked_paths(&paths.paths, prefix.0, &error_path, errors))
            }
            _ => return errors.add(error_path, "has no path", "Set a path or a special action."),
        };
        let new = (prefix, Some(Route { protocol: route.protocol, action }));
        let routes = match self.routes.get_mut(&route.vrf) {
            Some(routes) => routes,
            None => self.routes.entry(route.vrf.clone()).or_default(),
        };
        add_once(routes, new, || error_path, "Send each prefix once.", errors);
    }

    pub(super) fn add_neighbor(&mut self, neighbor: &v1::Neighbor, errors: &mut ValidationErrors) {
        let ip = address(&neighbor.address);
        let mac = <[u8; 6]>::try_from(neighbor.mac.as_slice()).ok().filter(|mac| mac[0] & 1 == 0);
        let error_path = format!("neighbor on {:?}", neighbor.interface);
        match (ip, mac) {
            (Some(ip), Some(mac)) => {
                self.neighbors.insert((neighbor.interface.clone(), ip), Some(mac));
            }
            _ => errors.add(error_path, "has no address or no unicast MAC address", "Set both."),
        }
    }
}

fn checked_paths(
    paths: &[v1::Path],
    ip: IpAddr,
    error_path: &str,
    errors: &mut ValidationErrors,
) -> Vec<Path> {
    let mut checked = Vec::new();
    for path in paths {
        let next_hop = address(&path.next_hop);
        let fits = next_hop.is_none_or(|next_hop| next_hop.is_ipv4() == ip.is_ipv4());
        if !fits || (next_hop.is_none() && !path.next_hop.is_empty()) {
            errors.add(
                error_path.to_owned(),
                "has a next hop of another family",
                "Use a next hop of the prefix's family.",
            );
        }
        let weight = path.weight.clamp(1, u16::MAX.into()) as u16;
        checked.push(Path { interface: path.interface.clone(), next_hop, weight });
    }
    checked.sort();
    checked.dedup();
    checked
}

#[cfg(test)]
mod tests {
    use super::super::DesiredState;
    use super::*;

    /// The errors of a route to `address/length` through interface "a" after `change`.
    fn refused(address: &[u8], length: u32, change: impl FnOnce(&mut v1::Route)) -> Vec<String> {
        let path = v1::Path { interface: "a".to_owned(), ..v1::Path::default() };
        let mut route = v1::Route {
            prefix: Some(v1::Prefix { address: address.to_vec(), length }),
            action: Some(v1::route::Action::Paths(v1::Paths { paths: vec![path] })),
            ..v1::Route::default()
        };
        change(&mut route);
        let port = v1::Port {
            interface: "a".to_owned(),
            driver: Some(v1::port::Driver::Null(v1::Null {})),
            ..v1::Port::default()
        };
        let interface = v1::Interface { name: "a".to_owned(), ..v1::Interface::default() };
        let desired = v1::Desired {
            ports: vec![port],
            interfaces: vec![interface],
            routes: vec![route],
            ..v1::Desired::default()
        };
        let errors = DesiredState::parse(&desired).err().unwrap_or_default();
        assert!(errors.iter().all(|error| !error.fix.is_empty()), "each error has a fix");
        errors.into_iter().map(|error| format!("{} {}", error.path, error.cause)).collect()
    }

    #[test]
    fn invalid_prefixes_are_refused() {
        let asis = |_: &mut v1::Route| {};
        assert!(refused(&[10, 0, 0, 0], 8, asis).is_empty());
        assert!(refused(&[0; 16], 0, asis).is_empty());
        for (address, length, cause) in [
            (&[10, 0, 0, 1][..], 8, "route 10.0.0.1/8 has host bits set"),
            (
                &[10, 0, 0, 0],
                33,
                "route 10.0.0.0/33 has a prefix length out of range; the maximum is 32",
            ),
            (&[0; 16], 300, "route ::/300 has a prefix length out of range; the maximum is 128"),
            (&[0; 5], 0, "route has no prefix of 4 or 16 bytes"),
        ] {
            assert_eq!(refused(address, length, asis), [cause]);
        }
    }

    #[test]
    fn missing_objects_are_named() {
        let to = |change: fn(&mut v1::Route)| refused(&[10, 0, 0, 0], 8, change);
        let path = |change: fn(&mut v1::Path)| {
            refused(&[10, 0, 0, 0], 8, |route| {
                let Some(v1::route::Action::Paths(paths)) = &mut route.action else { return };
                change(&mut paths.paths[0]);
            })
        };
        assert_eq!(
            to(|route| route.vrf = "red".to_owned()),
            ["route 10.0.0.0/8 of VRF red is in the VRF \"red\", which does not exist"]
        );
        assert_eq!(
            path(|path| path.interface = "b".to_owned()),
            ["route 10.0.0.0/8 leads through \"b\", which does not exist"]
        );
        assert_eq!(
            path(|path| path.next_hop = vec![0; 16]),
            ["route 10.0.0.0/8 has a next hop of another family"]
        );
        assert_eq!(to(|route| route.action = None), ["route 10.0.0.0/8 has no path"]);
    }
}
