//! OPEN messages (RFC 4271, section 4.2): what we offer, and what both sides agree on.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use netgauze_bgp_pkt::BgpMessage;
use netgauze_bgp_pkt::capabilities::{
    AddPathAddressFamily, AddPathCapability, BgpCapability, FourOctetAsCapability,
    GracefulRestartAddressFamily, GracefulRestartCapability, MultiProtocolExtensionsCapability,
};
use netgauze_bgp_pkt::notification::OpenMessageError;
use netgauze_bgp_pkt::open::{BgpOpenMessage, BgpOpenMessageParameter};
use netgauze_bgp_pkt::wire::deserializer::{BgpMessageParsingError, BgpParsingContext};
use netgauze_iana::address_family::AddressType;
use netgauze_parse_utils::WritablePdu as _;
use netgauze_parse_utils::reader::SliceReader;
use netgauze_parse_utils::traits::ParseFromWithOneInput as _;

use crate::Family;
use crate::message::{Fault, LARGEST, LARGEST_EXTENDED};

/// What stands in the place of an AS number that needs 4 octets (RFC 6793, section 9).
const AS_TRANS: u16 = 23_456;
const FAMILIES: [(Family, AddressType); 2] =
    [(Family::Ip4, AddressType::Ipv4Unicast), (Family::Ip6, AddressType::Ipv6Unicast)];

/// Our side of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Local {
    /// The AS of both sides.
    pub as_number: u32,
    /// Our BGP identifier, another one than the daemon's.
    pub router_id: Ipv4Addr,
    /// How long the daemon may be silent, seconds; 0, or at least 3.
    pub hold_time_s: u16,
    /// How long routes stay when the session ends, seconds, up to 4,095: what graceful restart promises.
    pub restart_time_s: u16,
    /// Whether all paths are asked for.
    pub add_paths: bool,
}

/// What both sides agreed on for one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FamilyTerms {
    /// Whether prefixes come with path identifiers, several paths of each.
    pub add_paths: bool,
    /// What the daemon says of graceful restart in this family (RFC 4724, section 3): `None`: nothing, else the F bit, whether its
    /// routes were forwarded on while it was away.
    pub forwarded: Option<bool>,
}

/// What both sides agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The daemon's BGP identifier.
    pub router_id: Ipv4Addr,
    /// How long a side may be silent, seconds; 0: for ever.
    pub hold_time_s: u16,
    /// IPv4 unicast.
    pub ip4: Option<FamilyTerms>,
    /// IPv6 unicast.
    pub ip6: Option<FamilyTerms>,
    /// Whether the daemon knows graceful restart, and so says when it has said all.
    pub says_end: bool,
    /// Whether a NOTIFICATION ends a session as a connection that is lost does (RFC 8538, the N bit of both sides).
    pub outlives_notification: bool,
    /// Bytes of a message at most.
    pub(crate) largest: usize,
}

impl Terms {
    /// What was agreed on for a family; `None`: it is not spoken of.
    #[must_use]
    pub fn family(&self, family: Family) -> Option<FamilyTerms> {
        match family {
            Family::Ip4 => self.ip4,
            Family::Ip6 => self.ip6,
        }
    }
}

/// Our OPEN message.
pub(crate) fn offer(local: &Local) -> Vec<u8> {
    let families = FAMILIES.map(|(_, family)| family);
    let mut capabilities: Vec<BgpCapability> = families
        .map(|family| {
            BgpCapability::MultiProtocolExtensions(MultiProtocolExtensionsCapability::new(family))
        })
        .to_vec();
    capabilities.push(BgpCapability::FourOctetAs(FourOctetAsCapability::new(local.as_number)));
    capabilities.push(BgpCapability::RouteRefresh);
    capabilities.push(BgpCapability::ExtendedMessage);
    // Forwarding goes on whoever restarts: the F bit of each family, and the N bit (RFC 8538).
    let kept = families.map(|family| GracefulRestartAddressFamily::new(true, family));
    let time = local.restart_time_s.min(0xfff);
    let restart = GracefulRestartCapability::new(false, true, time, kept);
    capabilities.push(BgpCapability::GracefulRestartCapability(restart));
    if local.add_paths {
        let receive = families.map(|family| AddPathAddressFamily::new(family, false, true));
        capabilities.push(BgpCapability::AddPath(AddPathCapability::new(receive)));
    }
    let short = u16::try_from(local.as_number).unwrap_or(AS_TRANS);
    let parameters = [BgpOpenMessageParameter::new_capabilities(capabilities)];
    let open = BgpOpenMessage::new(short, local.hold_time_s, local.router_id, parameters);
    let mut bytes = Vec::new();
    // Fixed and short; a vector takes all.
    let _ = BgpMessage::Open(open).write(&mut bytes);
    bytes
}

/// Reads the daemon's OPEN message, header and all, and says what both agree on.
///
/// # Errors
/// When no session is possible, with what has to be changed.
pub(crate) fn agree(local: &Local, message: &[u8]) -> Result<Terms, Fault> {
    let open = parse(message)?;
    let capabilities = open.capabilities();
    let number = capabilities.iter().find_map(|capability| match capability {
        BgpCapability::FourOctetAs(number) => Some(number.asn4()),
        _ => None,
    });
    let Some(number) = number else {
        let mut wanted = vec![65, 4];
        wanted.extend(local.as_number.to_be_bytes());
        let reason = "the daemon does not know AS numbers of 4 octets (RFC 6793): take a newer one";
        return Err(Fault::new(2, 7, reason).with(&wanted));
    };
    if number != local.as_number {
        let reason = format!(
            "the daemon is in AS {number} and the route source in AS {}: set `as` of the route source to {number}",
            local.as_number
        );
        return Err(Fault::new(2, 2, reason));
    }
    if open.bgp_id() == local.router_id {
        let reason = format!(
            "the daemon's router id is {} as well: set `router-id` of the route source to another one",
            local.router_id
        );
        return Err(Fault::new(2, 3, reason));
    }
    let terms = terms(local, &open, &capabilities);
    if terms.ip4.is_none() && terms.ip6.is_none() {
        let reason =
            "the daemon offers neither IPv4 nor IPv6 unicast for this neighbour: activate one";
        return Err(Fault::new(2, 7, reason).with(&[1, 4, 0, 1, 0, 1]));
    }
    Ok(terms)
}

fn terms(local: &Local, open: &BgpOpenMessage, capabilities: &[&BgpCapability]) -> Terms {
    let (mut offered, mut sent) = (Vec::new(), Vec::new());
    let (mut restart, mut largest) = (None, LARGEST);
    for capability in capabilities {
        match capability {
            BgpCapability::MultiProtocolExtensions(one) => offered.push(one.address_type()),
            BgpCapability::AddPath(paths) => {
                let sends = paths.address_families().iter().filter(|family| family.send());
                sent.extend(sends.map(AddPathAddressFamily::address_type));
            }
            // With several of them the last one counts (RFC 4724, section 3).
            BgpCapability::GracefulRestartCapability(one) => restart = Some(one),
            BgpCapability::ExtendedMessage => largest = LARGEST_EXTENDED,
            _ => {}
        }
    }
    if offered.is_empty() {
        // Without the capability there is IPv4 unicast (RFC 4271).
        offered.push(AddressType::Ipv4Unicast);
    }
    let family = |wanted: Family| {
        let kind = FAMILIES.iter().find(|(family, _)| *family == wanted)?.1;
        let add_paths = local.add_paths && sent.contains(&kind);
        let restarts = restart.iter().flat_map(|it| it.address_families());
        let forwarded = restarts
            .filter(|it| it.address_type() == kind)
            .map(GracefulRestartAddressFamily::forwarding_state)
            .next_back();
        offered.contains(&kind).then_some(FamilyTerms { add_paths, forwarded })
    };
    Terms {
        router_id: open.bgp_id(),
        hold_time_s: local.hold_time_s.min(open.hold_time()),
        ip4: family(Family::Ip4),
        ip6: family(Family::Ip6),
        says_end: restart.is_some(),
        outlives_notification: restart
            .is_some_and(GracefulRestartCapability::graceful_notification),
        largest,
    }
}

/// The codec's reading of it; capabilities that it does not know or cannot read are passed over (RFC 5492, section 3).
fn parse(message: &[u8]) -> Result<BgpOpenMessage, Fault> {
    let mut context =
        BgpParsingContext::new(true, HashMap::new(), HashMap::new(), false, false, false, false);
    match BgpMessage::parse(&mut SliceReader::new(message), &mut context) {
        Ok(BgpMessage::Open(open)) => Ok(open),
        Ok(_) => Err(Fault::new(2, 0, "no OPEN message")),
        Err(BgpMessageParsingError::BgpOpenMessageParsingError(error)) => {
            let reason = format!("its OPEN message: {error}");
            let (subcode, data) = match OpenMessageError::from(error) {
                OpenMessageError::UnsupportedVersionNumber { value } => (1, value),
                OpenMessageError::BadPeerAs { value } => (2, value),
                OpenMessageError::BadBgpIdentifier { value } => (3, value),
                OpenMessageError::UnsupportedOptionalParameter { value } => (4, value),
                OpenMessageError::UnacceptableHoldTime { value } => (6, value),
                OpenMessageError::UnsupportedCapability { value } => (7, value),
                OpenMessageError::Unspecific { value }
                | OpenMessageError::RoleMismatch { value } => (0, value),
            };
            Err(Fault::new(2, subcode, reason).with(&data))
        }
        Err(error) => Err(Fault::new(2, 0, format!("its OPEN message: {error}"))),
    }
}
