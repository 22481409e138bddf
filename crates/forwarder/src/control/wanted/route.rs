//! Routes and fixed neighbours of the contract, checked.

use std::net::IpAddr;

use stoa_api::v1;

use super::{Action, Path, Reasons, Route, Wanted, address, bits, network};
use crate::shared::Verdict;

impl Wanted {
    pub(super) fn add_route(&mut self, route: &v1::Route, reasons: &mut Reasons) {
        let prefix = route.prefix.as_ref();
        let Some(ip) = prefix.and_then(|prefix| address(&prefix.address)) else {
            return reasons.add(
                "route".to_owned(),
                "has no prefix of 4 or 16 bytes",
                "Send a prefix.",
            );
        };
        let length = prefix.map_or(0, |prefix| prefix.length);
        let vrf = route.vrf.clone();
        let in_vrf = if vrf.is_empty() { String::new() } else { format!(" of VRF {vrf}") };
        let place = format!("route {ip}/{length}{in_vrf}");
        if length > u32::from(bits(ip)) || network(ip, length as u8) != ip {
            return reasons.add(
                place,
                "is no prefix: too long, or host bits are set",
                "Clear the host bits.",
            );
        }
        let action = match &route.action {
            Some(v1::route::Action::Special(special)) => match v1::Special::try_from(*special) {
                Ok(v1::Special::Local) => Action::Verdict(Verdict::Local),
                Ok(v1::Special::Blackhole) => Action::Verdict(Verdict::Blackhole),
                Ok(v1::Special::Unreachable) => Action::Verdict(Verdict::Unreachable),
                Ok(v1::Special::Prohibit) => Action::Verdict(Verdict::Prohibited),
                Err(_) => {
                    return reasons.add(place, "does something unknown", "Use a newer forwarder.");
                }
            },
            Some(v1::route::Action::Paths(paths)) if !paths.paths.is_empty() => {
                Action::Paths(self.paths(&paths.paths, ip, &place, reasons))
            }
            _ => return reasons.add(place, "leads nowhere", "Give it a path or a special action."),
        };
        let route = Route { protocol: route.protocol, action };
        let routes = if vrf.is_empty() { Some(&mut self.routes) } else { self.vrfs.get_mut(&vrf) };
        let Some(routes) = routes else {
            let why = format!("is in the VRF {vrf:?}, which is none");
            return reasons.add(place, why, "Name a VRF that exists.");
        };
        if routes.insert((ip, length as u8), route).is_some() {
            reasons.add(place, "is there twice", "Send each prefix once.");
        }
    }

    fn paths(
        &self,
        paths: &[v1::Path],
        ip: IpAddr,
        place: &str,
        reasons: &mut Reasons,
    ) -> Vec<Path> {
        let mut known = Vec::new();
        for path in paths {
            if !self.interfaces.contains_key(&path.interface) {
                let why = format!("leads through {:?}, which is no interface", path.interface);
                reasons.add(place.to_owned(), why, "Name an interface that exists.");
            }
            let next_hop = address(&path.next_hop);
            let fits = next_hop.is_none_or(|next_hop| next_hop.is_ipv4() == ip.is_ipv4());
            if !fits || (next_hop.is_none() && !path.next_hop.is_empty()) {
                reasons.add(
                    place.to_owned(),
                    "has a next hop of another family",
                    "Give one of the prefix's family.",
                );
            }
            let weight = path.weight.clamp(1, u16::MAX.into()) as u16;
            known.push(Path { interface: path.interface.clone(), next_hop, weight });
        }
        known.sort();
        known.dedup();
        known
    }

    pub(super) fn add_neighbor(&mut self, neighbor: &v1::Neighbor, reasons: &mut Reasons) {
        let ip = address(&neighbor.address);
        let mac = <[u8; 6]>::try_from(neighbor.mac.as_slice()).ok().filter(|mac| mac[0] & 1 == 0);
        let place = format!("neighbor on {:?}", neighbor.interface);
        match (ip, mac, self.interfaces.contains_key(&neighbor.interface)) {
            (Some(ip), Some(mac), true) => {
                self.neighbors.insert((neighbor.interface.clone(), ip), mac);
            }
            (_, _, false) => {
                reasons.add(place, "is on no interface", "Name an interface that exists.")
            }
            _ => reasons.add(place, "has no address or no unicast MAC address", "Give both."),
        }
    }
}
