//! Messages about routes: `RTM_NEWROUTE` and `RTM_DELROUTE`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use stoa_api::v1;

use super::{Attribute, Attributes, FAMILY_IP4, FAMILY_IP6, MessageError, half, ip, word};

/// Size of `struct rtmsg`.
const HEADER_SIZE: usize = 12;
/// Size of `struct rtnexthop`.
const NEXT_HOP_HEADER: usize = 8;

/// Attribute types (linux/rtnetlink.h).
mod attribute {
    pub const DESTINATION: u16 = 1;
    pub const SOURCE: u16 = 2;
    pub const DEVICE: u16 = 4;
    pub const GATEWAY: u16 = 5;
    pub const PRIORITY: u16 = 6;
    pub const MULTIPATH: u16 = 9;
    pub const TABLE: u16 = 15;
    pub const VIA: u16 = 18;
    pub const NEW_DESTINATION: u16 = 19;
    pub const ENCAP_TYPE: u16 = 21;
    pub const ENCAP: u16 = 22;
    pub const NEXT_HOP: u16 = 30;
}

/// A destination prefix without host bits. IPv4 addresses are in the low 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Prefix {
    /// Whether it is an IPv6 prefix.
    pub is_ip6: bool,
    /// The address.
    pub bits: u128,
    /// The length, at most 32 or 128.
    pub length: u8,
}

impl Prefix {
    /// Builds a prefix, zeroing host bits. `None`: the length exceeds the address.
    pub fn of(address: IpAddr, length: u8) -> Option<Prefix> {
        let (is_ip6, bits, width) = match address {
            IpAddr::V4(four) => (false, u128::from(u32::from(four)), 32_u32),
            IpAddr::V6(six) => (true, u128::from(six), 128),
        };
        let host = width.checked_sub(u32::from(length))?;
        let bits = bits.checked_shr(host).unwrap_or(0).checked_shl(host).unwrap_or(0);
        Some(Prefix { is_ip6, bits, length })
    }
}

impl std::fmt::Display for Prefix {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match u32::try_from(self.bits) {
            Ok(bits) if !self.is_ip6 => write!(out, "{}/{}", Ipv4Addr::from(bits), self.length),
            _ => write!(out, "{}/{}", Ipv6Addr::from(self.bits), self.length),
        }
    }
}

/// A route, new or deleted, without allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route<'a> {
    /// Destination.
    pub prefix: Prefix,
    /// Kernel table.
    pub table: u32,
    /// Who added it: `rtm_protocol`.
    pub protocol: u8,
    /// Metric: lower wins.
    pub metric: u32,
    /// It applies to one type of service only, which Stoa does not support.
    pub has_service: bool,
    /// What happens to its packets.
    pub action: Action<'a>,
}

/// The action of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action<'a> {
    /// That of the next-hop object with this id.
    NextHopObject(u32),
    /// One next hop, or none: a deletion may omit it.
    NextHop(Option<NextHop>),
    /// Several: consecutive `struct rtnexthop`, checked; see [`Route::next_hops`].
    Multipath(&'a [u8]),
    /// A blackhole or similar.
    Special(v1::Special),
}

/// One next hop of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NextHop {
    /// Interface index; 0: only the gateway is given.
    pub device: u32,
    /// The gateway; `None`: on the link.
    pub gateway: Option<IpAddr>,
    /// Weight, 1 to 256.
    pub weight: u16,
}

impl<'a> Route<'a> {
    /// Parses the body of a message. `Ok(None)`: the kernel's own route (local, broadcast, multicast) or a
    /// cached clone.
    ///
    /// # Errors
    /// When it is malformed or unsupported.
    pub fn read(body: &'a [u8]) -> Result<Option<Route<'a>>, MessageError> {
        let Some((header, rest)) = body.split_at_checked(HEADER_SIZE) else {
            return Err(MessageError::Malformed("a route is shorter than its header"));
        };
        let [family, length, source_length, service, table, protocol, _, kind, ..] = *header else {
            return Err(MessageError::Malformed("a route is shorter than its header"));
        };
        let none = match family {
            FAMILY_IP4 => IpAddr::from([0; 4]),
            FAMILY_IP6 => IpAddr::from([0; 16]),
            _ => {
                return Err(MessageError::Unsupported(
                    "a route of another family than IPv4 and IPv6",
                ));
            }
        };
        let parsed = RouteAttributes::read(rest, family)?;
        let prefix = Prefix::of(parsed.destination.unwrap_or(none), length)
            .ok_or(MessageError::Malformed("a prefix is longer than its address"))?;
        // RTM_F_CLONED
        let is_copy = word(header, 8).is_some_and(|flags| flags & 0x200 != 0);
        let special = match kind {
            // RTN_LOCAL, RTN_BROADCAST, RTN_ANYCAST, RTN_MULTICAST
            2..=5 => return Ok(None),
            _ if is_copy => return Ok(None),
            // RTN_UNSPEC: a deletion may omit the type.
            0 | 1 => None,
            6 => Some(v1::Special::Blackhole),
            7 => Some(v1::Special::Unreachable),
            8 => Some(v1::Special::Prohibit),
            _ => return Err(MessageError::Unsupported("a route of type throw, nat or xresolve")),
        };
        if source_length != 0 || parsed.has_source {
            return Err(MessageError::Unsupported("a route for some sources only"));
        }
        let action = match (special, parsed.object_id, parsed.next_hops) {
            (Some(special), ..) => Action::Special(special),
            (None, Some(id), _) => Action::NextHopObject(id),
            (None, None, Some(next_hops)) => Action::Multipath(next_hops),
            (None, None, None) => Action::NextHop(parsed.next_hop()),
        };
        Ok(Some(Route {
            prefix,
            table: parsed.table.unwrap_or(table.into()),
            protocol,
            metric: parsed.metric,
            has_service: service != 0,
            action,
        }))
    }

    /// Its own next hops, if any.
    pub fn next_hops(&self) -> impl Iterator<Item = NextHop> + use<'a> {
        let (one, bytes) = match self.action {
            Action::NextHop(next_hop) => (next_hop, &[][..]),
            Action::Multipath(bytes) => (None, bytes),
            Action::NextHopObject(_) | Action::Special(_) => (None, &[][..]),
        };
        // They were checked when the route was parsed.
        let family = if self.prefix.is_ip6 { FAMILY_IP6 } else { FAMILY_IP4 };
        one.into_iter().chain(NextHopIter { rest: bytes, family }.map_while(Result::ok))
    }
}

/// Attributes of a route message.
#[derive(Default)]
struct RouteAttributes<'a> {
    destination: Option<IpAddr>,
    gateway: Option<IpAddr>,
    device: Option<u32>,
    next_hops: Option<&'a [u8]>,
    object_id: Option<u32>,
    table: Option<u32>,
    metric: u32,
    has_source: bool,
}

impl<'a> RouteAttributes<'a> {
    fn read(bytes: &'a [u8], family: u8) -> Result<Self, MessageError> {
        let mut parsed = RouteAttributes::default();
        for one in Attributes::of(bytes) {
            let one = one?;
            match one.kind {
                attribute::DESTINATION => parsed.destination = Some(one.address(family)?),
                attribute::DEVICE => parsed.device = Some(one.word()?),
                attribute::PRIORITY => parsed.metric = one.word()?,
                attribute::TABLE => parsed.table = Some(one.word()?),
                attribute::NEXT_HOP => parsed.object_id = Some(one.word()?).filter(|id| *id != 0),
                attribute::SOURCE => parsed.has_source = true,
                attribute::MULTIPATH => {
                    for next_hop in (NextHopIter { rest: one.value, family }) {
                        next_hop?;
                    }
                    parsed.next_hops = Some(one.value);
                }
                _ => parsed.gateway = gateway(&one, family)?.or(parsed.gateway),
            }
        }
        Ok(parsed)
    }

    fn next_hop(&self) -> Option<NextHop> {
        if self.device.is_none() && self.gateway.is_none() {
            return None;
        }
        Some(NextHop { device: self.device.unwrap_or(0), gateway: self.gateway, weight: 1 })
    }
}

/// The gateway in an attribute, of a route or of one of its next hops.
fn gateway(one: &Attribute<'_>, family: u8) -> Result<Option<IpAddr>, MessageError> {
    match one.kind {
        attribute::GATEWAY => {
            one.address(family).map(|it| Some(it).filter(|it| !it.is_unspecified()))
        }
        attribute::VIA => via(one.value, family).map(Some),
        attribute::ENCAP | attribute::ENCAP_TYPE | attribute::NEW_DESTINATION => {
            Err(MessageError::Unsupported("a route that encapsulates (MPLS, SRv6, a tunnel)"))
        }
        _ => Ok(None),
    }
}

/// `struct rtvia`: a family and an address of it.
fn via(value: &[u8], family: u8) -> Result<IpAddr, MessageError> {
    let malformed = MessageError::Malformed("a gateway with its family has a wrong length");
    let theirs = half(value, 0).ok_or(malformed)?;
    let address = value.get(2..).and_then(ip).ok_or(malformed)?;
    if theirs != u16::from(family) {
        return Err(MessageError::Unsupported("an IPv4 route with an IPv6 gateway (RFC 8950)"));
    }
    if address.is_ipv4() != (family == FAMILY_IP4) {
        return Err(malformed);
    }
    Ok(address)
}

/// The next hops of a multipath route. Ends after the first malformed one.
struct NextHopIter<'a> {
    rest: &'a [u8],
    family: u8,
}

impl Iterator for NextHopIter<'_> {
    type Item = Result<NextHop, MessageError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let all = std::mem::take(&mut self.rest);
        let parts = || {
            let length = usize::from(half(all, 0)?);
            let (hops, device) = (*all.get(3)?, word(all, 4)?);
            Some((hops, device, all.get(NEXT_HOP_HEADER..length)?, length.next_multiple_of(4)))
        };
        let Some((hops, device, attributes, end)) = parts() else {
            return Some(Err(MessageError::Malformed("a next hop has a bad length")));
        };
        let mut next_hop = NextHop { device, gateway: None, weight: u16::from(hops) + 1 };
        for one in Attributes::of(attributes) {
            match one.and_then(|one| gateway(&one, self.family)) {
                Ok(gateway) => next_hop.gateway = gateway.or(next_hop.gateway),
                Err(fault) => return Some(Err(fault)),
            }
        }
        self.rest = all.get(end..).unwrap_or_default();
        Some(Ok(next_hop))
    }
}

/// Maps `rtm_protocol` (linux/rtnetlink.h; FRR's numbers are in its rt_netlink.h).
pub fn protocol(number: u8) -> v1::Protocol {
    match number {
        // unspec, redirect, kernel, boot (`ip route` of an operator), router advertisement, DHCP
        0..=3 | 9 | 16 => v1::Protocol::Kernel,
        // static, and FRR's staticd
        4 | 196 => v1::Protocol::Static,
        // BIRD does not give the protocol.
        12 => v1::Protocol::Bird,
        42 => v1::Protocol::Babel,
        186 => v1::Protocol::Bgp,
        187 => v1::Protocol::Isis,
        188 => v1::Protocol::Ospf,
        // RIP, and FRR's RIPng
        189 | 190 => v1::Protocol::Rip,
        // zebra's own (11), and unknown ones
        _ => v1::Protocol::Other,
    }
}
