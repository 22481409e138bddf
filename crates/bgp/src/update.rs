//! UPDATE messages (RFC 4271, section 4.3; RFC 4760; RFC 7606): who is told what of them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::attributes::{self, Found, Multiprotocol};
use crate::message::Fault;
use crate::nlri::{Address, Nlri};
use crate::open::Terms;
use crate::session::{Counts, Listener};
use crate::{Attributes, Family};

const UNICAST: u8 = 1;

/// Reads the body of an UPDATE message and tells `listener` what it says.
///
/// # Errors
/// When its prefixes cannot be found: the session cannot go on.
pub(crate) fn read(
    body: &[u8],
    terms: &Terms,
    counts: &mut Counts,
    listener: &mut impl Listener,
) -> Result<(), Fault> {
    let bad = || Fault::new(3, 1, "the fields of an UPDATE are longer than the message");
    let (withdrawn, rest) = field(body).ok_or_else(bad)?;
    let (listed, announced) = field(rest).ok_or_else(bad)?;
    counts.updates += 1;
    let has_ids = terms.ip4.is_some_and(|terms| terms.add_paths);
    let withdrawn = Nlri::<u32>::check(withdrawn, has_ids)?;
    let announced = Nlri::<u32>::check(announced, has_ids)?;
    let found = attributes::read(listed)?;
    let prefixes = Prefixes { terms, withdrawn, announced };
    if prefixes.end(&found, listed, listener) {
        return Ok(());
    }
    prefixes.tell(&found, counts, listener)
}

/// A field with its length before it, and what is behind it.
fn field(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<2>()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))
}

/// The family of a multiprotocol attribute, when the session has it.
fn family(of: &Multiprotocol<'_>, terms: &Terms) -> Option<Family> {
    match (of.afi, of.safi) {
        (1, UNICAST) if terms.ip4.is_some() => Some(Family::Ip4),
        (2, UNICAST) if terms.ip6.is_some() => Some(Family::Ip6),
        _ => None,
    }
}

struct Prefixes<'a> {
    terms: &'a Terms,
    withdrawn: Nlri<'a, u32>,
    announced: Nlri<'a, u32>,
}

impl<'a> Prefixes<'a> {
    /// Whether this is the end of the routes of a family (RFC 4724, section 2).
    fn end(&self, found: &Found<'_>, listed: &[u8], listener: &mut impl Listener) -> bool {
        if !self.withdrawn.is_empty() || !self.announced.is_empty() || found.wrong.is_some() {
            return false;
        }
        if listed.is_empty() {
            if self.terms.ip4.is_some() {
                listener.end_of_rib(Family::Ip4);
            }
            return true;
        }
        match &found.unreach {
            // Nothing else is in the attributes: 3 bytes of value behind a header of 3 or 4.
            Some(unreach) if unreach.nlri.is_empty() && listed.len() <= 7 => {
                if let Some(family) = family(unreach, self.terms) {
                    listener.end_of_rib(family);
                }
                true
            }
            _ => false,
        }
    }

    fn tell(
        self,
        found: &Found<'a>,
        counts: &mut Counts,
        listener: &mut impl Listener,
    ) -> Result<(), Fault> {
        let Self { terms, withdrawn, announced } = self;
        let is_empty = withdrawn.is_empty() && announced.is_empty();
        if found.is_cut && is_empty && found.reach.is_none() && found.unreach.is_none() {
            // There may be prefixes that cannot be found (RFC 7606, section 3 j).
            return Err(Fault::new(3, 1, "attributes are cut off before any prefix"));
        }
        if terms.ip4.is_some() && !withdrawn.is_empty() {
            listener.unreach4(withdrawn);
        }
        if let Some(unreach) = &found.unreach {
            gone(unreach, terms, listener)?;
        }
        let mut wrong = found.wrong;
        if let Some(reach) = &found.reach {
            wrong = wrong.or(reached(reach, found, terms, listener)?);
        }
        if terms.ip4.is_some() && !announced.is_empty() {
            let next_hop = found.next_hop.ok_or("no NEXT_HOP");
            match next_hop.and_then(|hop| whole(found, IpAddr::V4(hop))) {
                Ok(set) => listener.reach4(&set, announced),
                Err(reason) => {
                    listener.unreach4(announced);
                    wrong = wrong.or(Some(reason));
                }
            }
        }
        if let Some(reason) = wrong {
            counts.treated_as_withdrawn += 1;
            counts.last_wrong = Some(reason);
        }
        Ok(())
    }
}

/// What announced routes have, when nothing is wrong with it.
fn whole(found: &Found<'_>, next_hop: IpAddr) -> Result<Attributes, &'static str> {
    match found.wrong {
        Some(reason) => Err(reason),
        None => found.with(next_hop),
    }
}

/// Prefixes of MP_UNREACH_NLRI.
fn gone(of: &Multiprotocol<'_>, terms: &Terms, listener: &mut impl Listener) -> Result<(), Fault> {
    match family(of, terms) {
        Some(Family::Ip4) => listener.unreach4(check(of.nlri, terms, Family::Ip4)?),
        Some(Family::Ip6) => listener.unreach6(check(of.nlri, terms, Family::Ip6)?),
        None => {}
    }
    Ok(())
}

fn check<'a, A: Address>(nlri: &'a [u8], terms: &Terms, of: Family) -> Result<Nlri<'a, A>, Fault> {
    Nlri::check(nlri, terms.family(of).is_some_and(|family| family.add_paths))
}

/// Prefixes of MP_REACH_NLRI; what is wrong with them, when they were taken as withdrawn.
fn reached(
    of: &Multiprotocol<'_>,
    found: &Found<'_>,
    terms: &Terms,
    listener: &mut impl Listener,
) -> Result<Option<&'static str>, Fault> {
    let Some(family) = family(of, terms) else { return Ok(None) };
    // RFC 7606, section 7.11.
    let next_hop = next_hop(of.next_hop, family)
        .ok_or_else(|| Fault::new(3, 9, "a next hop of MP_REACH_NLRI with a wrong length"))?;
    let set = whole(found, next_hop);
    match family {
        Family::Ip4 => {
            let prefixes = check(of.nlri, terms, family)?;
            match &set {
                Ok(set) => listener.reach4(set, prefixes),
                Err(_) => listener.unreach4(prefixes),
            }
        }
        Family::Ip6 => {
            let prefixes = check(of.nlri, terms, family)?;
            match &set {
                Ok(set) => listener.reach6(set, prefixes),
                Err(_) => listener.unreach6(prefixes),
            }
        }
    }
    Ok(set.err())
}

/// A next hop of MP_REACH_NLRI (RFC 4760, section 3; RFC 2545, section 3: a link-local address may follow).
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
