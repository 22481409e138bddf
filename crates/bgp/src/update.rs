//! UPDATE messages (RFC 4271, section 4.3; RFC 4760; RFC 7606), parsed into calls of a [`SessionHandler`].

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::attributes::{self, Multiprotocol, ParsedAttributes};
use crate::message::ProtocolError;
use crate::nlri::{Address, Nlri};
use crate::open::Negotiated;
use crate::session::{SessionCounters, SessionHandler};
use crate::{Attributes, Family};

const UNICAST: u8 = 1;

/// Parses the body of an UPDATE message and calls `handler`.
///
/// # Errors
/// When its prefixes cannot be located: the session has to be reset.
pub(crate) fn read(
    body: &[u8],
    negotiated: &Negotiated,
    counts: &mut SessionCounters,
    handler: &mut impl SessionHandler,
) -> Result<(), ProtocolError> {
    let bad = || ProtocolError::new(3, 1, "the fields of the UPDATE exceed the message");
    let (withdrawn, rest) = field(body).ok_or_else(bad)?;
    let (attribute_bytes, announced) = field(rest).ok_or_else(bad)?;
    counts.updates += 1;
    let has_ids = negotiated.ip4.is_some_and(|negotiated| negotiated.add_paths);
    let withdrawn = Nlri::<u32>::check(withdrawn, has_ids)?;
    let announced = Nlri::<u32>::check(announced, has_ids)?;
    let parsed = attributes::read(attribute_bytes)?;
    let prefixes = Prefixes { negotiated, withdrawn, announced };
    if prefixes.process_end_of_rib(&parsed, attribute_bytes, handler) {
        return Ok(());
    }
    prefixes.process(&parsed, counts, handler)
}

/// Splits off a field with its length in front.
fn field(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<2>()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))
}

/// The family of a multiprotocol attribute, if the session carries it.
fn family(of: &Multiprotocol<'_>, negotiated: &Negotiated) -> Option<Family> {
    match (of.afi, of.safi) {
        (1, UNICAST) if negotiated.ip4.is_some() => Some(Family::Ip4),
        (2, UNICAST) if negotiated.ip6.is_some() => Some(Family::Ip6),
        _ => None,
    }
}

struct Prefixes<'a> {
    negotiated: &'a Negotiated,
    withdrawn: Nlri<'a, u32>,
    announced: Nlri<'a, u32>,
}

impl<'a> Prefixes<'a> {
    /// Handles End-of-RIB (RFC 4724, section 2); returns whether the message was one.
    fn process_end_of_rib(
        &self,
        parsed: &ParsedAttributes<'_>,
        attribute_bytes: &[u8],
        handler: &mut impl SessionHandler,
    ) -> bool {
        if !self.withdrawn.is_empty() || !self.announced.is_empty() || parsed.error.is_some() {
            return false;
        }
        if attribute_bytes.is_empty() {
            if self.negotiated.ip4.is_some() {
                handler.end_of_rib(Family::Ip4);
            }
            return true;
        }
        match &parsed.unreach {
            // MP_UNREACH_NLRI is the only attribute: 3 bytes of value after a header of 3 or 4.
            Some(unreach) if unreach.nlri.is_empty() && attribute_bytes.len() <= 7 => {
                if let Some(family) = family(unreach, self.negotiated) {
                    handler.end_of_rib(family);
                }
                true
            }
            _ => false,
        }
    }

    fn process(
        self,
        parsed: &ParsedAttributes<'a>,
        counts: &mut SessionCounters,
        handler: &mut impl SessionHandler,
    ) -> Result<(), ProtocolError> {
        let Self { negotiated, withdrawn, announced } = self;
        let is_empty = withdrawn.is_empty() && announced.is_empty();
        if parsed.is_truncated && is_empty && parsed.reach.is_none() && parsed.unreach.is_none() {
            // The truncated part may contain prefixes (RFC 7606, section 3 j).
            return Err(ProtocolError::new(3, 1, "the attributes are truncated before any prefix"));
        }
        if negotiated.ip4.is_some() && !withdrawn.is_empty() {
            handler.unreach4(withdrawn);
        }
        if let Some(unreach) = &parsed.unreach {
            process_withdrawn(unreach, negotiated, handler)?;
        }
        let mut error = parsed.error;
        if let Some(reach) = &parsed.reach {
            error = error.or(process_announced(reach, parsed, negotiated, handler)?);
        }
        if negotiated.ip4.is_some() && !announced.is_empty() {
            let next_hop = parsed.next_hop.ok_or("no NEXT_HOP");
            match next_hop.and_then(|hop| valid_attributes(parsed, IpAddr::V4(hop))) {
                Ok(set) => handler.reach4(&set, announced),
                Err(reason) => {
                    handler.unreach4(announced);
                    error = error.or(Some(reason));
                }
            }
        }
        if let Some(reason) = error {
            counts.treated_as_withdrawn += 1;
            counts.last_error = Some(reason);
        }
        Ok(())
    }
}

/// The attributes of announced routes, unless there is an error.
fn valid_attributes(
    parsed: &ParsedAttributes<'_>,
    next_hop: IpAddr,
) -> Result<Attributes, &'static str> {
    match parsed.error {
        Some(reason) => Err(reason),
        None => parsed.to_attributes(next_hop),
    }
}

/// Prefixes of MP_UNREACH_NLRI.
fn process_withdrawn(
    of: &Multiprotocol<'_>,
    negotiated: &Negotiated,
    handler: &mut impl SessionHandler,
) -> Result<(), ProtocolError> {
    match family(of, negotiated) {
        Some(Family::Ip4) => handler.unreach4(check(of.nlri, negotiated, Family::Ip4)?),
        Some(Family::Ip6) => handler.unreach6(check(of.nlri, negotiated, Family::Ip6)?),
        None => {}
    }
    Ok(())
}

fn check<'a, A: Address>(
    nlri: &'a [u8],
    negotiated: &Negotiated,
    of: Family,
) -> Result<Nlri<'a, A>, ProtocolError> {
    Nlri::check(nlri, negotiated.family(of).is_some_and(|family| family.add_paths))
}

/// Prefixes of MP_REACH_NLRI; returns the error if they are treated as withdrawn.
fn process_announced(
    of: &Multiprotocol<'_>,
    parsed: &ParsedAttributes<'_>,
    negotiated: &Negotiated,
    handler: &mut impl SessionHandler,
) -> Result<Option<&'static str>, ProtocolError> {
    let Some(family) = family(of, negotiated) else { return Ok(None) };
    // RFC 7606, section 7.11.
    let next_hop = next_hop(of.next_hop, family).ok_or_else(|| {
        ProtocolError::new(3, 9, "the next hop of MP_REACH_NLRI has a bad length")
    })?;
    let set = valid_attributes(parsed, next_hop);
    match family {
        Family::Ip4 => {
            let prefixes = check(of.nlri, negotiated, family)?;
            match &set {
                Ok(set) => handler.reach4(set, prefixes),
                Err(_) => handler.unreach4(prefixes),
            }
        }
        Family::Ip6 => {
            let prefixes = check(of.nlri, negotiated, family)?;
            match &set {
                Ok(set) => handler.reach6(set, prefixes),
                Err(_) => handler.unreach6(prefixes),
            }
        }
    }
    Ok(set.err())
}

/// The next hop of MP_REACH_NLRI (RFC 4760, section 3; RFC 2545, section 3: a link-local address may follow).
fn next_hop(bytes: &[u8], family: Family) -> Option<IpAddr> {
    match family {
        Family::Ip4 => Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).into()),
        Family::Ip6 if bytes.len() == 16 || bytes.len() == 32 => {
            let global = bytes.first_chunk::<16>()?;
            Some(Ipv6Addr::from(*global).into())
        }
        Family::Ip6 => None,
    }
}
