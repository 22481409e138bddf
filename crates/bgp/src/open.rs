//! OPEN messages (RFC 4271, section 4.2): Stoa's capabilities, and their negotiation.

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
use crate::message::{MAX_EXTENDED_MESSAGE_SIZE, MAX_MESSAGE_SIZE, ProtocolError};

/// Stands for an AS number that needs 4 octets (RFC 6793, section 9).
const AS_TRANS: u16 = 23_456;
const FAMILIES: [(Family, AddressType); 2] =
    [(Family::Ip4, AddressType::Ipv4Unicast), (Family::Ip6, AddressType::Ipv6Unicast)];

/// Configuration of Stoa's end of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalConfig {
    /// The AS of both ends.
    pub as_number: u32,
    /// Stoa's BGP identifier; must differ from the daemon's.
    pub router_id: Ipv4Addr,
    /// Hold time to propose, seconds; 0 (no keepalives) or at least 3.
    pub hold_time_s: u16,
    /// Restart time of graceful restart, seconds, up to 4,095: how long routes are retained after the session ends.
    pub restart_time_s: u16,
    /// Whether to request all paths (add-path).
    pub add_paths: bool,
}

/// What both ends negotiated for one address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NegotiatedFamily {
    /// Whether the daemon sends several paths per prefix, with path identifiers.
    pub add_paths: bool,
    /// The F bit of the daemon's graceful restart capability (RFC 4724, section 3), whether it preserved its
    /// forwarding state; `None`: the capability does not list the family.
    pub forwarding_state: Option<bool>,
}

/// What both ends negotiated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// The daemon's BGP identifier.
    pub router_id: Ipv4Addr,
    /// Negotiated hold time, seconds; 0: none.
    pub hold_time_s: u16,
    /// IPv4 unicast.
    pub ip4: Option<NegotiatedFamily>,
    /// IPv6 unicast.
    pub ip6: Option<NegotiatedFamily>,
    /// Whether the daemon supports graceful restart, and therefore sends End-of-RIB.
    pub sends_end_of_rib: bool,
    /// Whether graceful restart also applies after a NOTIFICATION (RFC 8538, the N bit of both ends).
    pub graceful_notification: bool,
    /// Largest message.
    pub(crate) max_message_size: usize,
}

impl Negotiated {
    /// What was negotiated for a family; `None`: the session does not carry it.
    #[must_use]
    pub fn family(&self, family: Family) -> Option<NegotiatedFamily> {
        match family {
            Family::Ip4 => self.ip4,
            Family::Ip6 => self.ip6,
        }
    }
}

/// Builds Stoa's OPEN message.
pub(crate) fn open_message(local: &LocalConfig) -> Vec<u8> {
    let families = FAMILIES.map(|(_, family)| family);
    let mut capabilities: Vec<BgpCapability> = families
        .map(|family| {
            BgpCapability::MultiProtocolExtensions(MultiProtocolExtensionsCapability::new(family))
        })
        .to_vec();
    capabilities.push(BgpCapability::FourOctetAs(FourOctetAsCapability::new(local.as_number)));
    capabilities.push(BgpCapability::RouteRefresh);
    capabilities.push(BgpCapability::ExtendedMessage);
    // Stoa preserves forwarding state whichever end restarts: the F bit of each family, and the N bit (RFC 8538).
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
    // The message is short, and a write to a vector cannot fail.
    let _ = BgpMessage::Open(open).write(&mut bytes);
    bytes
}

/// Parses the daemon's OPEN message, header included, and negotiates.
///
/// # Errors
/// When no session is possible; the error contains the fix.
pub(crate) fn negotiate(local: &LocalConfig, message: &[u8]) -> Result<Negotiated, ProtocolError> {
    let open = parse(message)?;
    let capabilities = open.capabilities();
    let number = capabilities.iter().find_map(|capability| match capability {
        BgpCapability::FourOctetAs(number) => Some(number.asn4()),
        _ => None,
    });
    let Some(number) = number else {
        let mut expected = vec![65, 4];
        expected.extend(local.as_number.to_be_bytes());
        let reason =
            "the daemon does not support 4-octet AS numbers (RFC 6793): use a newer version";
        return Err(ProtocolError::new(2, 7, reason).with_data(&expected));
    };
    if number != local.as_number {
        let reason = format!(
            "the daemon is in AS {number}, the route source in AS {}: set `as` of the route source to {number}",
            local.as_number
        );
        return Err(ProtocolError::new(2, 2, reason));
    }
    if open.bgp_id() == local.router_id {
        let reason = format!(
            "the daemon has the same router id {}: change `router-id` of the route source",
            local.router_id
        );
        return Err(ProtocolError::new(2, 3, reason));
    }
    let negotiated = negotiated(local, &open, &capabilities);
    if negotiated.ip4.is_none() && negotiated.ip6.is_none() {
        let reason = "the daemon offers neither IPv4 nor IPv6 unicast for this neighbour: activate one of them";
        return Err(ProtocolError::new(2, 7, reason).with_data(&[1, 4, 0, 1, 0, 1]));
    }
    Ok(negotiated)
}

fn negotiated(
    local: &LocalConfig,
    open: &BgpOpenMessage,
    capabilities: &[&BgpCapability],
) -> Negotiated {
    let (mut offered, mut sent) = (Vec::new(), Vec::new());
    let (mut restart, mut max_message_size) = (None, MAX_MESSAGE_SIZE);
    for capability in capabilities {
        match capability {
            BgpCapability::MultiProtocolExtensions(one) => offered.push(one.address_type()),
            BgpCapability::AddPath(paths) => {
                let sends = paths.address_families().iter().filter(|family| family.send());
                sent.extend(sends.map(AddPathAddressFamily::address_type));
            }
            // With several, the last one counts (RFC 4724, section 3).
            BgpCapability::GracefulRestartCapability(one) => restart = Some(one),
            BgpCapability::ExtendedMessage => max_message_size = MAX_EXTENDED_MESSAGE_SIZE,
            _ => {}
        }
    }
    if offered.is_empty() {
        // Without the capability the session carries IPv4 unicast (RFC 4271).
        offered.push(AddressType::Ipv4Unicast);
    }
    let family = |one: Family| {
        let kind = FAMILIES.iter().find(|(family, _)| *family == one)?.1;
        let add_paths = local.add_paths && sent.contains(&kind);
        let restarts = restart.iter().flat_map(|it| it.address_families());
        let forwarding_state = restarts
            .filter(|it| it.address_type() == kind)
            .map(GracefulRestartAddressFamily::forwarding_state)
            .next_back();
        offered.contains(&kind).then_some(NegotiatedFamily { add_paths, forwarding_state })
    };
    Negotiated {
        router_id: open.bgp_id(),
        hold_time_s: local.hold_time_s.min(open.hold_time()),
        ip4: family(Family::Ip4),
        ip6: family(Family::Ip6),
        sends_end_of_rib: restart.is_some(),
        graceful_notification: restart
            .is_some_and(GracefulRestartCapability::graceful_notification),
        max_message_size,
    }
}

/// Parses with the codec crate, which skips unknown and malformed capabilities (RFC 5492, section 3).
fn parse(message: &[u8]) -> Result<BgpOpenMessage, ProtocolError> {
    let mut context =
        BgpParsingContext::new(true, HashMap::new(), HashMap::new(), false, false, false, false);
    match BgpMessage::parse(&mut SliceReader::new(message), &mut context) {
        Ok(BgpMessage::Open(open)) => Ok(open),
        Ok(_) => Err(ProtocolError::new(2, 0, "not an OPEN message")),
        Err(BgpMessageParsingError::BgpOpenMessageParsingError(error)) => {
            let reason = format!("the daemon's OPEN message: {error}");
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
            Err(ProtocolError::new(2, subcode, reason).with_data(&data))
        }
        Err(error) => Err(ProtocolError::new(2, 0, format!("the daemon's OPEN message: {error}"))),
    }
}
