//! VRRP advertisements: version 3 for IPv4 and IPv6 (RFC 9568 section 5) and version 2 for IPv4
//! (RFC 3768 section 5).

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::build_error::prefix_of;
use crate::checksum::{self, Pseudo};
use crate::ethernet::Mac;
use crate::{BuildError, protocol};

/// The group that IPv4 advertisements go to (RFC 9568 section 5.1.1.2).
pub const GROUP4: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 18);
/// The group that IPv6 advertisements go to (RFC 9568 section 5.1.2.2).
pub const GROUP6: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x12);
/// The time to live or hop limit that proves that an advertisement has passed no router.
pub const HOP_LIMIT: u8 = 255;
/// The priority of the router that owns the addresses.
pub const OWNER: u8 = 255;
/// The priority with which an active router resigns.
pub const RESIGNS: u8 = 0;
/// Longest interval of version 3, in centiseconds: 12 bits.
pub const INTERVAL_MAX_CS: u16 = 4095;
/// Most addresses in one advertisement.
pub const MOST: usize = 255;

/// Version, VRID, priority, count, interval, checksum.
const FIXED: usize = 8;
/// Authentication data behind the addresses in version 2; not checked (RFC 3768 section 5.3.6).
const AUTHENTICATION: usize = 8;
/// The only type there is.
const ADVERTISEMENT: u8 = 1;

causes! {
    /// Why an advertisement is not believed.
    VrrpError {
        Truncated = "vrrp-truncated", "the advertisement is shorter than its length field";
        BadHopLimit = "vrrp-bad-hop-limit", "the time to live is not 255: it passed a router";
        BadVersion = "vrrp-bad-version", "the version is neither 3 nor, for IPv4, 2";
        BadType = "vrrp-bad-type", "the type is no advertisement";
        BadChecksum = "vrrp-bad-checksum", "the checksum is wrong";
        NoAddress = "vrrp-no-address", "it contains no address";
        BadAuthentication = "vrrp-bad-authentication", "version 2 with authentication (RFC 3768 5.3.6)";
    }
}

/// Version 2 or 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Version {
    /// RFC 3768: IPv4 alone, intervals in whole seconds.
    Two = 2,
    /// RFC 9568.
    Three = 3,
}

/// The MAC address of a virtual router (RFC 9568 section 7.3).
pub const fn mac(vrid: u8, is_ip6: bool) -> Mac {
    Mac([0, 0, 0x5e, 0, if is_ip6 { 2 } else { 1 }, vrid])
}

/// The fields of an advertisement beside its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// Version.
    pub version: Version,
    /// Virtual router, from 1.
    pub vrid: u8,
    /// [`OWNER`], [`RESIGNS`], or between.
    pub priority: u8,
    /// Centiseconds between advertisements; in version 2 whole seconds of them.
    pub interval_cs: u16,
}

/// An advertisement that [`check`] has accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View<'a> {
    /// The fields.
    pub fields: Fields,
    addresses: &'a [u8],
    is_ip6: bool,
}

impl<'a> View<'a> {
    /// The addresses of the virtual router, as the sender has them.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> + use<'a> {
        let is_ip6 = self.is_ip6;
        self.addresses.chunks_exact(width(is_ip6)).filter_map(move |bytes| match is_ip6 {
            true => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
            false => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        })
    }
}

const fn width(is_ip6: bool) -> usize {
    if is_ip6 { 16 } else { 4 }
}

/// Checks a message between the addresses of `pseudo` that came with `hop_limit`, as RFC 9568
/// section 7.1 lists what needs no state. With version 3 over IPv4 the checksum may be made with
/// the pseudo header or without: senders do both.
///
/// # Errors
/// One cause per rule broken.
pub fn check<'a>(pseudo: &Pseudo, hop_limit: u8, message: &'a [u8]) -> Result<View<'a>, VrrpError> {
    if hop_limit != HOP_LIMIT {
        return Err(VrrpError::BadHopLimit);
    }
    let Some((head, rest)) = message.split_first_chunk::<FIXED>() else {
        return Err(VrrpError::Truncated);
    };
    let is_ip6 = pseudo.is_ip6();
    let version = match head[0] >> 4 {
        2 if !is_ip6 => Version::Two,
        3 => Version::Three,
        _ => return Err(VrrpError::BadVersion),
    };
    if head[0] & 0xf != ADVERTISEMENT {
        return Err(VrrpError::BadType);
    }
    let length = usize::from(head[3]) * width(is_ip6);
    let authentication = if version == Version::Two { AUTHENTICATION } else { 0 };
    let addresses = rest.get(..length).ok_or(VrrpError::Truncated)?;
    // What a link has filled up behind the message is not summed.
    let whole = message.get(..FIXED + length + authentication).ok_or(VrrpError::Truncated)?;
    let plain = checksum::sum(whole);
    let with_pseudo = plain + pseudo.sum(protocol::VRRP, whole.len());
    let is_right = match version {
        Version::Two => checksum::is_valid(plain),
        Version::Three if is_ip6 => checksum::is_valid(with_pseudo),
        Version::Three => checksum::is_valid(with_pseudo) || checksum::is_valid(plain),
    };
    if !is_right {
        return Err(VrrpError::BadChecksum);
    }
    if addresses.is_empty() {
        return Err(VrrpError::NoAddress);
    }
    let interval_cs = match version {
        Version::Two if head[4] != 0 => return Err(VrrpError::BadAuthentication),
        Version::Two => u16::from(head[5]) * 100,
        Version::Three => u16::from_be_bytes([head[4], head[5]]) & INTERVAL_MAX_CS,
    };
    let fields = Fields { version, vrid: head[1], priority: head[2], interval_cs };
    Ok(View { fields, addresses, is_ip6 })
}

/// Writes an advertisement of `addresses`, all of the family of `pseudo`; returns its length. Send
/// it with hop limit [`HOP_LIMIT`]. Version 3 sums the pseudo header in both families.
///
/// # Errors
/// [`BuildError::NoSpace`]; [`BuildError::TooLong`] for more than [`MOST`] addresses.
pub fn build(
    out: &mut [u8],
    pseudo: &Pseudo,
    fields: &Fields,
    addresses: &[IpAddr],
) -> Result<usize, BuildError> {
    let is_ip6 = pseudo.is_ip6();
    let is_old = fields.version == Version::Two;
    let of_family = addresses.iter().filter(|address| address.is_ipv6() == is_ip6);
    let count = u8::try_from(of_family.clone().count())
        .map_err(|_| BuildError::TooLong { length: addresses.len(), limit: MOST })?;
    let end = FIXED + usize::from(count) * width(is_ip6);
    let length = end + if is_old { AUTHENTICATION } else { 0 };
    let out = prefix_of(out, length)?;
    out[end..].fill(0);
    let interval = match is_old {
        // Authentication type 0, then seconds.
        true => (fields.interval_cs / 100).clamp(1, 255),
        false => fields.interval_cs.min(INTERVAL_MAX_CS),
    };
    let [high, low] = interval.to_be_bytes();
    let kind = (fields.version as u8) << 4 | ADVERTISEMENT;
    out[..FIXED].copy_from_slice(&[kind, fields.vrid, fields.priority, count, high, low, 0, 0]);
    for (place, address) in out[FIXED..end].chunks_exact_mut(width(is_ip6)).zip(of_family) {
        match address {
            IpAddr::V4(ip) => place.copy_from_slice(&ip.octets()),
            IpAddr::V6(ip) => place.copy_from_slice(&ip.octets()),
        }
    }
    let pseudo = if is_old { 0 } else { pseudo.sum(protocol::VRRP, length) };
    let sum = checksum::finish(checksum::sum(out) + pseudo);
    out[6..FIXED].copy_from_slice(&sum.to_be_bytes());
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pseudo(is_ip6: bool) -> Pseudo {
        match is_ip6 {
            true => Pseudo::Ip6 { source: "fe80::1".parse().unwrap(), destination: GROUP6 },
            false => Pseudo::Ip4 { source: Ipv4Addr::new(192, 0, 2, 1), destination: GROUP4 },
        }
    }

    fn fields(version: Version) -> Fields {
        Fields { version, vrid: 7, priority: 100, interval_cs: 100 }
    }

    /// VRID 51, priority 150, every second, for 192.168.7.1, from 192.168.7.3.
    #[test]
    fn version_3_over_ip4_sums_the_pseudo_header() {
        let pseudo = Pseudo::Ip4 { source: Ipv4Addr::new(192, 168, 7, 3), destination: GROUP4 };
        let addresses = [IpAddr::from([192, 168, 7, 1])];
        let fields = Fields { version: Version::Three, vrid: 51, priority: 150, interval_cs: 100 };
        let mut out = [0; 12];
        assert_eq!(build(&mut out, &pseudo, &fields, &addresses), Ok(12));
        assert_eq!(out[..6], [0x31, 51, 150, 1, 0, 100]);
        let whole: u32 = [0x3133, 0x9601, 100, 0xc0a8, 0x0701].iter().sum();
        let head: u32 = [0xc0a8, 0x0703, 0xe000, 0x0012, 112, 12].iter().sum();
        let folded = |sum: u32| !((sum >> 16) + (sum & 0xffff)) as u16;
        assert_eq!(out[6..8], folded(whole + head).to_be_bytes());
        let view = check(&pseudo, 255, &out).unwrap();
        assert_eq!(view.fields, fields);
        assert!(view.addresses().eq(addresses));
        // Without it, as others do.
        out[6..8].copy_from_slice(&folded(whole).to_be_bytes());
        assert!(check(&pseudo, 255, &out).is_ok());
        out[6] ^= 1;
        assert_eq!(check(&pseudo, 255, &out), Err(VrrpError::BadChecksum));
    }

    #[test]
    fn each_rule_has_its_cause() {
        let mut out = [0; 20];
        let addresses = [IpAddr::from([192, 0, 2, 254])];
        build(&mut out, &pseudo(false), &fields(Version::Two), &addresses).unwrap();
        assert_eq!(check(&pseudo(false), 255, &out).unwrap().fields, fields(Version::Two));
        assert_eq!(check(&pseudo(false), 254, &out), Err(VrrpError::BadHopLimit));
        assert_eq!(check(&pseudo(true), 255, &out), Err(VrrpError::BadVersion));
        for length in 0..20 {
            assert_eq!(check(&pseudo(false), 255, &out[..length]), Err(VrrpError::Truncated));
        }
        let with = |at: usize, value: u8| {
            let mut bytes = out;
            bytes[at] = value;
            bytes[6..8].fill(0);
            let sum = checksum::finish(checksum::sum(&bytes));
            bytes[6..8].copy_from_slice(&sum.to_be_bytes());
            check(&pseudo(false), 255, &bytes).map(drop)
        };
        assert_eq!(with(0, 0x22), Err(VrrpError::BadType));
        assert_eq!(with(0, 0x41), Err(VrrpError::BadVersion));
        assert_eq!(with(3, 3), Err(VrrpError::Truncated));
        assert_eq!(with(4, 1), Err(VrrpError::BadAuthentication));
        assert_eq!(with(5, 3), Ok(()));
        let mut none = [0; 8];
        build(&mut none, &pseudo(false), &fields(Version::Three), &[]).unwrap();
        assert_eq!(check(&pseudo(false), 255, &none), Err(VrrpError::NoAddress));
    }

    proptest! {
        #[test]
        fn what_is_built_is_read_back(
            is_ip6 in any::<bool>(),
            is_old in any::<bool>(),
            (vrid, priority, interval) in (any::<u8>(), any::<u8>(), 1_u16..=4095),
            octets in prop::collection::vec(any::<[u8; 16]>(), 1..=20),
            behind in 0_usize..4,
        ) {
            let version = if is_old && !is_ip6 { Version::Two } else { Version::Three };
            let interval_cs = if version == Version::Two { interval / 100 * 100 } else { interval };
            let interval_cs = interval_cs.max(if version == Version::Two { 100 } else { 1 });
            let fields = Fields { version, vrid, priority, interval_cs };
            let address = |octets: [u8; 16]| match octets {
                octets if is_ip6 => IpAddr::from(octets),
                [a, b, c, d, ..] => IpAddr::from([a, b, c, d]),
            };
            let addresses: Vec<IpAddr> = octets.into_iter().map(address).collect();
            let mut out = [0xaa; 400];
            let length = build(&mut out, &pseudo(is_ip6), &fields, &addresses).unwrap();
            let view = check(&pseudo(is_ip6), 255, &out[..length + behind]).unwrap();
            prop_assert_eq!(view.fields, fields);
            prop_assert!(view.addresses().eq(addresses));
            prop_assert_eq!(out[length], 0xaa);
        }

        #[test]
        fn any_bytes_are_safe(bytes in prop::collection::vec(any::<u8>(), 0..80), is_ip6 in any::<bool>()) {
            if let Ok(view) = check(&pseudo(is_ip6), 255, &bytes) {
                prop_assert_eq!(view.addresses().count(), usize::from(bytes[3]));
            }
        }
    }
}
