//! Interfaces: the room behind each port, and the sub-interfaces of its VLANs.

use std::collections::HashMap;

use stoa_api::v1;

use crate::addresses::{self, Addressing};
use crate::error::ValidationErrors;
use crate::mac;
use crate::model::{Interface, SubInterface, Tag, Tpid};
use crate::ports::{self, Claims};
use crate::{advertising, bfd, cross_connects, host_interfaces, tunnels, vrrp};

const ETHERNET: &str = "iana-if-type:ethernetCsmacd";
const TUNNEL: &str = "iana-if-type:tunnel";
const VLAN: &str = "iana-if-type:l2vlan";

/// Longest name of an interface, in bytes.
const NAME_LIMIT: usize = 63;

/// Ports, interfaces, and what their addresses make known.
#[derive(Debug, Default)]
pub(crate) struct Desired {
    pub ports: Vec<v1::Port>,
    pub interfaces: Vec<v1::Interface>,
    pub addressing: Addressing,
}

/// Where an interface stands in the configuration.
pub fn place(name: &str) -> String {
    let quote = if name.contains('\'') { '"' } else { '\'' };
    format!("/ietf-interfaces:interfaces/interface[name={quote}{name}{quote}]")
}

/// The desired ports and interfaces; parents stand before their sub-interfaces.
pub(crate) fn desired(interfaces: &[Interface], errors: &mut ValidationErrors) -> Desired {
    let by_name: HashMap<&str, &Interface> =
        interfaces.iter().map(|interface| (interface.name.as_str(), interface)).collect();
    let mut desired = Desired::default();
    let mut claims = Claims::default();
    let mut tags = HashMap::new();
    for interface in interfaces {
        let place = place(&interface.name);
        check_name(interface, &place, errors);
        if let Some(port) = &interface.port {
            match port.tunnel {
                Some(_) => check_type(interface, TUNNEL, "a tunnel", &place, errors),
                None => {
                    check_type(interface, ETHERNET, "the interface of a port", &place, errors);
                }
            }
            let port = ports::desired(&interface.name, &place, port, &mut claims, errors);
            desired.ports.push(port);
        } else if let Some(sub) = &interface.sub_interface {
            check_type(interface, VLAN, "a sub-interface", &place, errors);
            check_sub(interface, sub, &by_name, &mut tags, &place, errors);
        } else {
            errors.add(
                &place,
                "the interface stands on nothing: it has no port and is no sub-interface",
                "Give it stoa-interfaces:port with a driver (auto, af-xdp, af-packet, tap, memif, dpdk, \
                 pcap, generator, tunnel, null), or stoa-interfaces:sub-interface with parent and outer.",
            );
        }
        if !interface.vrf.is_empty() {
            desired.addressing.put(&interface.name, &interface.vrf);
        }
        advertising::check(interface, &place, errors);
        vrrp::check(interface, &place, errors);
        let one = one(interface, &place, &mut desired.addressing, errors);
        desired.interfaces.push(one);
    }
    host_interfaces::check(interfaces, errors);
    tunnels::check(interfaces, errors);
    cross_connects::check(interfaces, errors);
    bfd::check(interfaces, &desired.addressing, errors);
    address_generators(&mut desired);
    desired.interfaces.sort_by_key(|interface| !interface.parent.is_empty());
    desired
}

/// Generators send to the interface that takes their packets, unless they are told whom to
/// send to. Where that has no address of its own, the port knows its own.
fn address_generators(desired: &mut Desired) {
    for port in &mut desired.ports {
        let Some(v1::port::Driver::Generator(made)) = &mut port.driver else { continue };
        if !made.destination_mac.is_empty() {
            continue;
        }
        let takes = |interface: &&v1::Interface| {
            let is_plain = |tag: &v1::Tag| tag.tpid == 0x8100 && tag.vid == made.vlan;
            interface.parent == port.interface
                && interface.inner.is_none()
                && interface.outer.as_ref().is_some_and(is_plain)
        };
        let all = &desired.interfaces;
        let by_tag = all.iter().find(takes).filter(|interface| !interface.mac.is_empty());
        let own = all.iter().find(|interface| interface.name == port.interface);
        if let Some(interface) = by_tag.or(own) {
            made.destination_mac.clone_from(&interface.mac);
        }
    }
}

fn one(
    interface: &Interface,
    place: &str,
    addressing: &mut Addressing,
    errors: &mut ValidationErrors,
) -> v1::Interface {
    let mut mac = Vec::new();
    if let Some(text) = &interface.mac {
        match mac::station(text) {
            Some(bytes) => mac = bytes,
            None => errors.add(
                format!("{place}/stoa-interfaces:mac-address"),
                format!("{text} is not the MAC address of a station"),
                "Give a unicast address that is not all zero; 02:xx:xx:xx:xx:xx is free for own \
                 use.",
            ),
        }
    }
    let sub = interface.sub_interface.as_ref();
    let mut family = |family: &Option<_>, name: &str| {
        family.as_ref().map(|family| {
            let place = format!("{place}/ietf-ip:{name}");
            addresses::desired(&interface.name, &place, family, addressing, errors)
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
        host_interface: host_interfaces::desired(interface),
        cross_connect: interface.cross_connect.clone(),
        bfd: bfd::desired(interface),
    }
}

fn tag(tag: Tag) -> v1::Tag {
    let tpid = match tag.tpid {
        Tpid::CVlan => 0x8100,
        Tpid::SVlan => 0x88a8,
    };
    v1::Tag { tpid, vid: tag.vid }
}

fn check_name(interface: &Interface, place: &str, errors: &mut ValidationErrors) {
    let name = &interface.name;
    let odd = |letter: char| letter.is_whitespace() || letter.is_control() || letter == '/';
    if name.is_empty() || name.len() > NAME_LIMIT || name.contains(odd) {
        errors.add(
            format!("{place}/name"),
            format!("\"{}\" cannot be the name of an interface", name.escape_debug()),
            format!("Give 1 to {NAME_LIMIT} bytes without white space and slash."),
        );
    }
}

fn check_type(
    interface: &Interface,
    right: &str,
    what: &str,
    place: &str,
    errors: &mut ValidationErrors,
) {
    if interface.kind != right {
        errors.add(
            format!("{place}/type"),
            format!("{what} is not of type {}", interface.kind),
            format!("Set type to {right}."),
        );
    }
}

/// The tags of a sub-interface, as a key that two may not share.
type Tags = (String, (bool, u32), Option<(bool, u32)>);

fn check_sub<'a>(
    interface: &'a Interface,
    sub: &SubInterface,
    by_name: &HashMap<&str, &Interface>,
    tags: &mut HashMap<Tags, &'a str>,
    place: &str,
    errors: &mut ValidationErrors,
) {
    let place = format!("{place}/stoa-interfaces:sub-interface");
    match by_name.get(sub.parent.as_str()) {
        Some(parent) if parent.sub_interface.is_some() => errors.add(
            format!("{place}/parent"),
            format!("\"{}\" is a sub-interface itself", sub.parent),
            "Name the interface of a port as parent; for two tags give outer and inner.",
        ),
        Some(_) => {}
        None => errors.add(
            format!("{place}/parent"),
            format!("there is no interface \"{}\"", sub.parent),
            "Define the parent, or name one that is defined.",
        ),
    }
    let key = |tag: Tag| (matches!(tag.tpid, Tpid::SVlan), tag.vid);
    let both = (sub.parent.clone(), key(sub.outer), sub.inner.map(key));
    if let Some(other) = tags.insert(both, &interface.name) {
        errors.add(
            format!("{place}/outer"),
            format!("\"{other}\" takes the same VLAN of \"{}\" already", sub.parent),
            "Give each sub-interface of a parent tags of its own.",
        );
    }
}
