//! Messages about next-hop objects: `RTM_NEWNEXTHOP` and `RTM_DELNEXTHOP` (linux/nexthop.h).

use stoa_api::v1;

use super::{Attribute, Attributes, FAMILY_ANY, FAMILY_IP4, FAMILY_IP6, MessageError, NextHop, ip};

/// Size of `struct nhmsg`.
const HEADER_SIZE: usize = 8;
/// Size of `struct nexthop_grp`.
const MEMBER_SIZE: usize = 8;

/// Attribute types.
mod attribute {
    pub const ID: u16 = 1;
    pub const GROUP: u16 = 2;
    pub const GROUP_TYPE: u16 = 3;
    pub const BLACKHOLE: u16 = 4;
    pub const DEVICE: u16 = 5;
    pub const GATEWAY: u16 = 6;
    pub const ENCAP_TYPE: u16 = 7;
    pub const ENCAP: u16 = 8;
}

/// A next-hop object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextHopObject<'a> {
    /// Its id, never 0.
    pub id: u32,
    /// What it does; `None` in a deletion.
    pub action: Option<Action<'a>>,
}

/// What a next-hop object does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action<'a> {
    /// One next hop.
    NextHop(NextHop),
    /// A weighted group of other objects; see [`NextHopObject::members`].
    Group(&'a [u8]),
    /// A blackhole.
    Special(v1::Special),
}

impl<'a> NextHopObject<'a> {
    /// Parses the body of a message.
    ///
    /// # Errors
    /// When it is malformed or unsupported.
    pub fn read(body: &'a [u8]) -> Result<NextHopObject<'a>, MessageError> {
        let Some((header, rest)) = body.split_at_checked(HEADER_SIZE) else {
            return Err(MessageError::Malformed("a next hop is shorter than its header"));
        };
        if !matches!(header[0], FAMILY_ANY | FAMILY_IP4 | FAMILY_IP6) {
            return Err(MessageError::Unsupported(
                "a next hop of another family than IPv4 and IPv6",
            ));
        }
        let (mut id, mut group, mut is_blackhole) = (0, None, false);
        let (mut device, mut gateway) = (None, None);
        for one in Attributes::of(rest) {
            let one: Attribute<'_> = one?;
            match one.kind {
                attribute::ID => id = one.word()?,
                attribute::GROUP => group = Some(checked_group(one.value)?),
                // NEXTHOP_GRP_TYPE_MPATH is 0; a resilient group (1) distributes flows differently but has
                // the same members.
                attribute::GROUP_TYPE => {}
                attribute::BLACKHOLE => is_blackhole = true,
                attribute::DEVICE => device = Some(one.word()?),
                attribute::GATEWAY => {
                    let malformed = MessageError::Malformed("a gateway has a wrong length");
                    gateway = Some(ip(one.value).ok_or(malformed)?);
                }
                attribute::ENCAP | attribute::ENCAP_TYPE => {
                    return Err(MessageError::Unsupported(
                        "a next hop that encapsulates (MPLS, SRv6, a tunnel)",
                    ));
                }
                _ => {}
            }
        }
        if id == 0 {
            return Err(MessageError::Malformed("a next hop without a number"));
        }
        let next_hop = (device.is_some() || gateway.is_some()).then(|| NextHop {
            device: device.unwrap_or(0),
            gateway,
            weight: 1,
        });
        let action = match (group, is_blackhole, next_hop) {
            (Some(group), ..) => Some(Action::Group(group)),
            (None, true, _) => Some(Action::Special(v1::Special::Blackhole)),
            (None, false, next_hop) => next_hop.map(Action::NextHop),
        };
        Ok(NextHopObject { id, action })
    }

    /// Ids and weights (1 to 65,536) of the members, if it is a group.
    pub fn members(&self) -> impl Iterator<Item = (u32, u32)> + use<'a> {
        let bytes = if let Some(Action::Group(bytes)) = self.action { bytes } else { &[] };
        bytes.as_chunks::<MEMBER_SIZE>().0.iter().map(|&[a, b, c, d, low, high, ..]| {
            // The high byte is 0 before Linux 6.12.
            (u32::from_ne_bytes([a, b, c, d]), u32::from(low) + 256 * u32::from(high) + 1)
        })
    }
}

fn checked_group(value: &[u8]) -> Result<&[u8], MessageError> {
    match value.len() % MEMBER_SIZE {
        0 => Ok(value),
        _ => Err(MessageError::Malformed("a group of next hops has a wrong length")),
    }
}
