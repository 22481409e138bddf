//! Keeps Linux from processing frames that the port receives.
//!
//! A packet socket receives a copy: Linux processes the frame further, looks up a route, and drops
//! it or answers a second time. Two BPF instructions at the device's ingress, which frames reach
//! behind the sockets, prevent that. They are removed with their descriptor.

use std::ffi::c_int;
use std::net::Ipv6Addr;
use std::os::fd::OwnedFd;

use netlink_packet_core::{
    NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{InfoKind, LinkAttribute, LinkInfo, LinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use nix::ifaddrs::getifaddrs;

use crate::af_xdp::bpf;

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
    pub fn keep_out(index: c_int, name: &str) -> Self {
        if has_address(name) {
            return Self::Active("it has an address there".into());
        }
        if is_below_another(index as u32).unwrap_or(true) {
            return Self::Active("another device there is on top of it".into());
        }
        match bpf::drop_behind_sockets(index as u32) {
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

/// Whether a device of this thread's namespace has a configured address in Linux. When
/// this is unknown, it counts as one.
fn has_address(name: &str) -> bool {
    let Ok(mut all) = getifaddrs() else { return true };
    all.any(|one| {
        let Some(address) = one.address.filter(|_| one.interface_name == name) else {
            return false;
        };
        let is_given = |ip: Ipv6Addr| !ip.is_unicast_link_local();
        address.as_sockaddr_in().is_some()
            || address.as_sockaddr_in6().is_some_and(|six| is_given(six.ip()))
    })
}

/// Whether a device of this thread's namespace belongs to a bridge or a bond, or carries a VLAN or
/// another device.
fn is_below_another(index: u32) -> std::io::Result<bool> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    let request = RouteNetlinkMessage::GetLink(LinkMessage::default());
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
                NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link))
                    if stands_on(link, index) =>
                {
                    return Ok(true);
                }
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
