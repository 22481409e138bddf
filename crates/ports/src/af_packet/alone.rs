//! Keeps Linux from processing frames that the port receives.
//!
//! A packet socket receives a copy: Linux processes the frame further, looks up a route, and drops
//! it or answers a second time. Two BPF instructions at the device's ingress, which frames reach
//! behind the sockets, prevent that. They are removed with their descriptor.

use std::ffi::c_int;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use netlink_packet_core::{
    NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{InfoKind, LinkAttribute, LinkInfo, LinkMessage};

use crate::device_opener::{self, SocketKind};
use crate::netdevice;
use crate::netns::Namespace;

/// What Linux does with the frames that a device receives.
pub(super) enum Linux {
    /// Linux receives none while this value lives.
    Blocked {
        /// Holds the program on the device.
        _link: OwnedFd,
    },
    /// Linux processes them as well, for this reason.
    Active(String),
}

impl Linux {
    /// Has the device's frames dropped behind the sockets, which are bound to it already, unless it has
    /// an address in Linux or another device of Linux is on it (a bridge, a bond, a VLAN):
    /// it may be in use, perhaps to reach this machine.
    pub fn keep_out(namespace: &Namespace, index: c_int) -> Self {
        let index = index as u32;
        // What is unknown counts as so.
        if has_address(namespace, index).unwrap_or(true) {
            return Self::Active("it has an address there".into());
        }
        if is_below_another(namespace, index).unwrap_or(true) {
            return Self::Active("another device there is on top of it".into());
        }
        match device_opener::flat(device_opener::drop_behind_sockets(namespace, index)) {
            Ok(link) => Self::Blocked { _link: link },
            Err(error) => Self::Active(format!("no BPF program at its ingress: {error}")),
        }
    }

    /// Text for the port's detail.
    pub fn words(&self) -> String {
        match self {
            Self::Blocked { .. } => String::new(),
            Self::Active(reason) => format!(", Linux processes the frames as well ({reason})"),
        }
    }
}

/// Whether a device of the namespace has a configured address in Linux.
fn has_address(namespace: &Namespace, index: u32) -> std::io::Result<bool> {
    let all = RouteNetlinkMessage::GetAddress(AddressMessage::default());
    any(namespace, all, |one| match one {
        RouteNetlinkMessage::NewAddress(one) => one.header.index == index && is_configured(one),
        _ => false,
    })
}

/// Whether somebody configured the address: a link-local one, Linux gives to a device by itself.
fn is_configured(address: &AddressMessage) -> bool {
    address.attributes.iter().any(|one| match one {
        AddressAttribute::Address(IpAddr::V6(ip)) => !ip.is_unicast_link_local(),
        AddressAttribute::Address(IpAddr::V4(_)) | AddressAttribute::Local(IpAddr::V4(_)) => true,
        _ => false,
    })
}

/// Whether a device of the namespace belongs to a bridge or a bond, or carries a VLAN or another device.
fn is_below_another(namespace: &Namespace, index: u32) -> std::io::Result<bool> {
    any(namespace, RouteNetlinkMessage::GetLink(LinkMessage::default()), |one| match one {
        RouteNetlinkMessage::NewLink(link) => stands_on(link, index),
        _ => false,
    })
}

/// Whether one of all messages that answer `request` in the namespace is such.
fn any(
    namespace: &Namespace,
    request: RouteNetlinkMessage,
    is_such: impl Fn(&RouteNetlinkMessage) -> bool,
) -> std::io::Result<bool> {
    let socket = device_opener::flat(device_opener::socket(namespace, SocketKind::Route))?;
    let socket = netdevice::to_kernel(socket)?;
    socket.set_non_blocking(false)?;
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    let mut request = NetlinkMessage::new(header, NetlinkPayload::from(request));
    request.finalize();
    let mut bytes = vec![0; request.buffer_len()];
    request.serialize(&mut bytes);
    socket.send(&bytes, 0)?;
    loop {
        // A dump ends with a message of its own: `recv` always returns.
        let (answer, _) = socket.recv_from_full()?;
        let mut rest = answer.as_slice();
        while !rest.is_empty() {
            let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest)
                .map_err(std::io::Error::other)?;
            match &message.payload {
                NetlinkPayload::Done(_) => return Ok(false),
                NetlinkPayload::Error(error) => return Err(error.to_io()),
                NetlinkPayload::InnerMessage(one) if is_such(one) => return Ok(true),
                _ => {}
            }
            let length = (message.header.length as usize).next_multiple_of(4);
            rest = rest.get(length.max(16)..).unwrap_or_default();
        }
    }
}

/// Whether this is the device itself with another one above it, or one above it.
fn stands_on(link: &LinkMessage, index: u32) -> bool {
    let is_veth = |info: &LinkInfo| matches!(info, LinkInfo::Kind(InfoKind::Veth));
    let is_pair = link
        .attributes
        .iter()
        .any(|one| matches!(one, LinkAttribute::LinkInfo(all) if all.iter().any(is_veth)));
    let is_elsewhere =
        link.attributes.iter().any(|one| matches!(one, LinkAttribute::LinkNetNsId(_)));
    link.attributes.iter().any(|one| match one {
        LinkAttribute::Controller(above) => link.header.index == index && *above != 0,
        // The ends of a pair name each other; an index of another namespace is another device.
        LinkAttribute::Link(below) => *below == index && !is_pair && !is_elsewhere,
        _ => false,
    })
}
