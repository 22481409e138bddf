//! Interfaces of ports, and their VLAN sub-interfaces.

use std::collections::HashMap;
use std::net::IpAddr;

use stoa_api::text::ip_bytes;
use stoa_api::v1;
use stoa_yang::error::ValidationErrors;

use crate::config::addresses::{self, Addressing};
use crate::config::blocks::{Blocks, Keyed};
use crate::config::data_path::interface_path;
use crate::config::mac;
use crate::config::model::{Interface, SubInterface, Tag, Tpid};
use crate::config::others::Others;
use crate::config::ports::{self, DeviceLocks};

const ETHERNET: &str = "iana-if-type:ethernetCsmacd";
const TUNNEL: &str = "iana-if-type:tunnel";
const VLAN: &str = "iana-if-type:l2vlan";

/// Longest name of an interface, in bytes.
const NAME_LIMIT: usize = 63;

/// Interfaces by name, those of ports before sub-interfaces.
pub type Interfaces = Blocks<v1::Interface>;

impl Keyed for v1::Interface {
    type Key<'a> = (bool, &'a str);

    fn key(&self) -> (bool, &str) {
        (!self.parent.is_empty(), &self.name)
    }
}

/// Whether an address is one of an interface.
pub fn has_address(interface: &v1::Interface, address: IpAddr) -> bool {
    let family = if address.is_ipv4() { &interface.ip4 } else { &interface.ip6 };
    let bytes = ip_bytes(address);
    let has = |family: &v1::Family| family.addresses.iter().any(|own| own.address == bytes);
    family.as_ref().is_some_and(|family| family.enabled && has(family))
}

impl Blocks<v1::Interface> {
    /// The interface of this name.
    pub fn named(&self, name: &str) -> Option<&v1::Interface> {
        [false, true].iter().find_map(|is_sub| self.find(|it| it.key().cmp(&(*is_sub, name))))
    }

    /// Removes the interface of this name, if there is one.
    pub fn remove_named(&mut self, name: &str) {
        for is_sub in [false, true] {
            self.remove(|it| it.key().cmp(&(is_sub, name)));
        }
    }
}

/// Ports, interfaces, and the subnets and neighbours of their addresses.
#[derive(Debug, Default)]
pub(crate) struct Desired {
    pub ports: Vec<v1::Port>,
    pub interfaces: Vec<v1::Interface>,
    pub addressing: Addressing,
}

/// The desired ports and interfaces; parents precede their sub-interfaces.
pub(crate) fn desired(
    interfaces: &[Interface],
    (others, addressing): (&Others<'_>, Addressing),
    errors: &mut ValidationErrors,
) -> Desired {
    let by_name: HashMap<&str, &Interface> =
        interfaces.iter().map(|interface| (interface.name.as_str(), interface)).collect();
    let mut desired = Desired { addressing, ..Desired::default() };
    let mut device_locks = DeviceLocks::of(others.ports());
    let mut tags = HashMap::new();
    for interface in interfaces {
        let path = interface_path(&interface.name);
        check_name(interface, &path, errors);
        if let Some(port) = &interface.port {
            match port.tunnel {
                Some(_) => check_type(interface, TUNNEL, "a tunnel", &path, errors),
                None => {
                    check_type(interface, ETHERNET, "the interface of a port", &path, errors);
                }
            }
            let port = ports::desired(&interface.name, &path, port, &mut device_locks, errors);
            desired.ports.push(port);
        } else if let Some(sub) = &interface.sub_interface {
            check_type(interface, VLAN, "a sub-interface", &path, errors);
            check_sub(interface, sub, &by_name, &mut tags, &path, errors);
        } else {
            errors.add(
                &path,
                "the interface has neither a port nor a parent",
                "Add stoa-interfaces:port with a driver (auto, af-xdp, af-packet, tap, memif, dpdk, \
                 pcap, generator, tunnel, null), or stoa-interfaces:sub-interface with parent and outer.",
            );
        }
        if !interface.vrf.is_empty() {
            desired.addressing.set_vrf(&interface.name, &interface.vrf);
        }
        let one = one(interface, &path, &mut desired.addressing, errors);
        desired.interfaces.push(one);
    }
    address_generators(&mut desired);
    desired.interfaces.sort_by_key(|interface| !interface.parent.is_empty());
    desired
}

/// Sets the destination MAC address of generators without one: that of the interface that receives their packets, or
/// empty for that of the port.
fn address_generators(desired: &mut Desired) {
    for port in &mut desired.ports {
        let Some(v1::port::Driver::Generator(generator)) = &mut port.driver else { continue };
        if !generator.destination_mac.is_empty() {
            continue;
        }
        let receives = |interface: &&v1::Interface| {
            let is_plain = |tag: &v1::Tag| tag.tpid == 0x8100 && tag.vid == generator.vlan;
            interface.parent == port.interface
                && interface.inner.is_none()
                && interface.outer.as_ref().is_some_and(is_plain)
        };
        let all = &desired.interfaces;
        let by_tag = all.iter().find(receives).filter(|interface| !interface.mac.is_empty());
        let own = all.iter().find(|interface| interface.name == port.interface);
        if let Some(interface) = by_tag.or(own) {
            generator.destination_mac.clone_from(&interface.mac);
        }
    }
}

fn one(
    interface: &Interface,
    path: &str,
    addressing: &mut Addressing,
    errors: &mut ValidationErrors,
) -> v1::Interface {
    let mut mac = Vec::new();
    if let Some(text) = &interface.mac {
        match mac::individual(text) {
            Some(bytes) => mac = bytes,
            None => errors.add(
                format!("{path}/stoa-interfaces:mac-address"),
                format!("{text} is not a unicast MAC address"),
                "Use a unicast address that is not all zero; 02:xx:xx:xx:xx:xx is locally administered.",
            ),
        }
    }
    let sub = interface.sub_interface.as_ref();
    let mut family = |family: &Option<_>, name: &str| {
        family.as_ref().map(|family| {
            let path = format!("{path}/ietf-ip:{name}");
            addresses::desired(&interface.name, &path, family, addressing, errors)
        })
    };
    v1::Interface {
        name: interface.name.clone(),
        parent: sub.map(|sub| sub.parent.clone()).unwrap_or_default(),
        outer: sub.map(|sub| tag(sub.outer)),
        inner: sub.and_then(|sub| sub.inner).map(tag),
        enabled: interface.enabled,
        mac,
        description: interface.description.clone(),
        ip4: family(&interface.ip4, "ipv4"),
        ip6: family(&interface.ip6, "ipv6"),
        vrf: interface.vrf.clone(),
        host_interface: None,
        cross_connect: String::new(),
        bfd: Vec::new(),
        plugins: Vec::new(),
        acls: None,
        zone: String::new(),
        zone_syn_cookies: None,
        login: None,
    }
}

fn tag(tag: Tag) -> v1::Tag {
    let tpid = match tag.tpid {
        Tpid::CVlan => 0x8100,
        Tpid::SVlan => 0x88a8,
    };
    v1::Tag { tpid, vid: tag.vid }
}

fn check_name(interface: &Interface, path: &str, errors: &mut ValidationErrors) {
    let name = &interface.name;
    let is_invalid = |letter: char| letter.is_whitespace() || letter.is_control() || letter == '/';
    if name.is_empty() || name.len() > NAME_LIMIT || name.contains(is_invalid) {
        errors.add(
            format!("{path}/name"),
            format!("\"{}\" is not a valid interface name", name.escape_debug()),
            format!("Use 1 to {NAME_LIMIT} bytes without white space and slash."),
        );
    }
}

fn check_type(
    interface: &Interface,
    right: &str,
    what: &str,
    path: &str,
    errors: &mut ValidationErrors,
) {
    if interface.kind != right {
        errors.add(
            format!("{path}/type"),
            format!("{what} is not of type {}", interface.kind),
            format!("Set type to {right}."),
        );
    }
}

/// Parent and tags of a sub-interface, which must be unique.
type Tags = (String, (bool, u32), Option<(bool, u32)>);

fn check_sub<'a>(
    interface: &'a Interface,
    sub: &SubInterface,
    by_name: &HashMap<&str, &Interface>,
    tags: &mut HashMap<Tags, &'a str>,
    path: &str,
    errors: &mut ValidationErrors,
) {
    let path = format!("{path}/stoa-interfaces:sub-interface");
    match by_name.get(sub.parent.as_str()) {
        Some(parent) if parent.sub_interface.is_some() => errors.add_about(
            format!("{path}/parent"),
            format!("\"{}\" is a sub-interface itself", sub.parent),
            "Use the interface of a port as parent; for two tags set outer and inner.",
            &[&sub.parent],
        ),
        Some(_) => {}
        None => errors.add_about(
            format!("{path}/parent"),
            format!("there is no interface \"{}\"", sub.parent),
            "Define the parent, or use one that is defined.",
            &[&sub.parent],
        ),
    }
    let key = |tag: Tag| (matches!(tag.tpid, Tpid::SVlan), tag.vid);
    let both = (sub.parent.clone(), key(sub.outer), sub.inner.map(key));
    if let Some(other) = tags.insert(both, &interface.name) {
        errors.add_about(
            format!("{path}/outer"),
            format!("\"{other}\" has the same VLAN of \"{}\"", sub.parent),
            "Use different tags for each sub-interface of a parent.",
            &[&other, &sub.parent],
        );
    }
}
