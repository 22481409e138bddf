//! Interfaces and workers of the contract, checked.

use std::collections::BTreeMap;

use stoa_api::v1;
use stoa_engine::INTERFACES;
use stoa_engine::pool::HugePages;
use stoa_engine::worker::Polling;

use super::advertising::{advertisement, discovery};
use super::virtual_router::virtual_routers;
use super::{
    BUFFERS, DesiredState, Family, HostInterface, Interface, Reasons, Workers, address, bits,
};
use crate::kernel::Kernel;

impl DesiredState {
    pub(super) fn add_interface(&mut self, interface: &v1::Interface, reasons: &mut Reasons) {
        let place = format!("interface {:?}", interface.name);
        let mac = match interface.mac.as_slice() {
            [] => None,
            &[a, b, c, d, e, f] if a & 1 == 0 => Some([a, b, c, d, e, f]),
            _ => {
                reasons.add(
                    place.clone(),
                    "has a MAC address that is no unicast address",
                    "Give six bytes, the first of them even.",
                );
                None
            }
        };
        let tags: Vec<_> = [&interface.outer, &interface.inner].into_iter().flatten().collect();
        for tag in &tags {
            let known = matches!(tag.tpid, 0x8100 | 0x88a8);
            if !known || !(1..=4094).contains(&tag.vid) {
                let reason = format!("has the VLAN tag {:#06x}/{}", tag.tpid, tag.vid);
                reasons.add(
                    place.clone(),
                    reason,
                    "Use 0x8100 or 0x88a8 and a VLAN id from 1 to 4094.",
                );
            }
        }
        let known = Interface {
            parent: (!interface.parent.is_empty()).then(|| interface.parent.clone()),
            tags: tags.iter().map(|tag| (tag.tpid as u16, tag.vid as u16)).collect(),
            enabled: interface.enabled,
            mac,
            ip4: family(interface.ip4.as_ref(), true, &place, reasons),
            ip6: family(interface.ip6.as_ref(), false, &place, reasons),
            vrf: interface.vrf.clone(),
            host_interface: interface.host_interface.as_ref().map(|host_interface| HostInterface {
                netns: host_interface.netns.clone(),
                device: host_interface.device.clone(),
            }),
            cross_connect: (!interface.cross_connect.is_empty())
                .then(|| interface.cross_connect.clone()),
            bfd: super::bfd::sessions(&interface.bfd, &place, reasons),
        };
        if !known.vrf.is_empty() && !self.vrfs.contains_key(&known.vrf) {
            let reason = format!("is in the VRF {:?}, which is none", known.vrf);
            reasons.add(place.clone(), reason, "Name a VRF that exists.");
        }
        if self.interfaces.insert(interface.name.clone(), known).is_some() {
            reasons.add(place, "is there twice", "Give each interface a name of its own.");
        }
    }

    /// Each host interface has a device of its own.
    pub(super) fn check_host_interfaces(&self, reasons: &mut Reasons) {
        let mut seen = BTreeMap::new();
        for (name, interface) in &self.interfaces {
            let Some(host_interface) = &interface.host_interface else { continue };
            let place = format!("interface {name:?}");
            if host_interface.device.is_empty() {
                reasons.add(place, "has a host interface without a device", "Name the device.");
            } else if let Some(other) = seen.insert(host_interface, name) {
                let reason = format!("has the same host interface device as {other:?}");
                reasons.add(place, reason, "Give each host interface a device of its own.");
            }
        }
    }

    pub(super) fn check_parents(&self, reasons: &mut Reasons) {
        if self.interfaces.len() > INTERFACES {
            let reason = format!("{} interfaces are more than {INTERFACES}", self.interfaces.len());
            reasons.add("interfaces".to_owned(), reason, "Spread them over several forwarders.");
        }
        let mut seen = BTreeMap::new();
        for (name, interface) in &self.interfaces {
            let place = format!("interface {name:?}");
            match &interface.parent {
                None if !interface.tags.is_empty() => {
                    reasons.add(
                        place,
                        "has VLAN tags but no parent",
                        "Name the parent, or leave the tags out.",
                    );
                }
                None if !self.ports.contains_key(name) => {
                    reasons.add(
                        place,
                        "has neither a port nor a parent",
                        "Give it a port, or make it a sub-interface.",
                    );
                }
                None => {}
                Some(parent) if !self.ports.contains_key(parent) => {
                    let reason = format!("has the parent {parent:?}, which is no port");
                    reasons.add(place, reason, "Name an interface that has a port.");
                }
                Some(_) if interface.tags.is_empty() => {
                    reasons.add(place, "has a parent but no VLAN tag", "Give it an outer tag.");
                }
                Some(parent) => {
                    if let Some(other) = seen.insert((parent, &interface.tags), name) {
                        let reason = format!("has the same tags as {other:?} on {parent:?}");
                        reasons.add(place, reason, "Give each sub-interface tags of its own.");
                    }
                }
            }
        }
    }
}

pub(super) fn workers(workers: Option<&v1::Workers>, reasons: &mut Reasons) -> Workers {
    let Some(given) = workers else { return Workers::default() };
    let place = || "workers".to_owned();
    let kernel = Kernel::choose(&given.kernel).unwrap_or_else(|error| {
        reasons.add(place(), error.to_string(), "Leave the kernel out for the best one.");
        Kernel::Scalar
    });
    let cpus: Vec<usize> = given.cpus.iter().map(|cpu| *cpu as usize).collect();
    let count = given.count.max(1) as usize;
    if count > 64 || (!cpus.is_empty() && cpus.len() != count) {
        let reason = format!("{count} workers on {} CPUs", cpus.len());
        reasons.add(place(), reason, "Give 1 to 64 workers, and one CPU for each of them or none.");
    }
    Workers {
        count,
        cpus,
        polling: match given.polling() {
            v1::Polling::Adaptive => Polling::Adaptive,
            v1::Polling::Polling => Polling::Always,
            v1::Polling::Interrupt => Polling::Interrupt,
        },
        buffers: if given.buffers == 0 { BUFFERS } else { given.buffers },
        huge_pages: match given.huge_pages() {
            v1::HugePages::WhenThere => HugePages::WhenThere,
            v1::HugePages::Never => HugePages::Never,
            v1::HugePages::Required => HugePages::Required,
        },
        kernel,
    }
}

fn family(family: Option<&v1::Family>, is_ip4: bool, place: &str, reasons: &mut Reasons) -> Family {
    let Some(given) = family else { return Family::default() };
    let mut addresses = Vec::new();
    for given in &given.addresses {
        let ip = address(&given.address).filter(|ip| ip.is_ipv4() == is_ip4);
        match ip {
            Some(ip) if given.prefix_length <= bits(ip).into() => {
                addresses.push((ip, given.prefix_length as u8));
            }
            _ => reasons.add(
                place.to_owned(),
                "has an address that is none of its family",
                "Give 4 or 16 bytes and a prefix length that fits.",
            ),
        }
    }
    Family {
        enabled: given.enabled,
        forwarding: given.forwarding,
        mtu: given.mtu.min(u16::MAX.into()) as u16,
        addresses,
        reverse_path: given.reverse_path as u32 & 3,
        redirects: given.redirects,
        directed_broadcast: given.directed_broadcast,
        neighbor_limit: given.neighbor_limit,
        proxy: given.proxy && is_ip4,
        duplicate_detection: given.duplicate_detection.min(u8::MAX.into()) as u8,
        advertisement: given
            .advertising
            .as_ref()
            .filter(|_| !is_ip4)
            .map(|given| advertisement(given, place, reasons)),
        virtual_routers: virtual_routers(&given.virtual_routers, is_ip4, place, reasons),
        discovery: given
            .discovery
            .as_ref()
            .filter(|_| is_ip4)
            .map(|given| discovery(given, place, reasons)),
    }
}
