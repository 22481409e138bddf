//! Translation between IPv4 and IPv6 without state (SIIT: RFC 7915), with addresses of explicit mappings (RFC 7757) and
//! of a prefix (RFC 6052).
//!
//! `ip4-siit-input` makes IPv6 packets of received IPv4 packets to mapped addresses: the destination is that of the
//! mapping, the source is in the prefix. `ip6-siit-input` makes IPv4 packets of received IPv6 packets from mapped
//! addresses to the prefix. If their destination is mapped, too, they become IPv6 packets again (RFC 7757 section 4).
//! Headers are translated as those of NAT64. Both nodes are behind access lists, which see packets as they are on the
//! wire. Lanes have the flag [`STATELESS`](stoa_engine::vector::flags::STATELESS), so that an ICMP error about them is
//! made in the family in which they came.

mod errors;
mod input4;
mod input6;
mod lanes;
mod table;

pub use errors::turn_back;
pub use input4::make_input4;
pub use input6::make_input6;

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use stoa_tables::flow_table::Tuple;
use stoa_wire::siit::{Ends4, Ends6, Mapping, Prefix};
use table::ByMask;

use crate::nat64::is_host4;
use crate::nptv6::Traffic;

/// The node that makes IPv6 packets.
pub const INPUT4_NODE: &str = "ip4-siit-input";
/// The node that makes IPv4 packets.
pub const INPUT6_NODE: &str = "ip6-siit-input";

/// Next nodes of [`INPUT4_NODE`] besides those of the arc: the first edges of `ip6-input`, and others.
pub const EDGES4: &[&str] =
    &["ip6-rewrite", "ip6-local", "icmp6-error", "ip6-lookup", "icmp4-error"];
const TO_LOOKUP6: u16 = 3;
const ERROR4: u16 = 4;
/// Next nodes of [`INPUT6_NODE`] besides those of the arc.
pub const EDGES6: &[&str] = &["ip4-lookup", "icmp6-error", "ip6-lookup"];
const TO_LOOKUP4: u16 = 0;
const ERROR6: u16 = 1;
const TO_LOOKUP6_AGAIN: u16 = 2;

/// What is translated in a VRF.
#[derive(Debug)]
pub struct Domain {
    /// An id of [`crate::shared::vrf_id`].
    pub vrf: u32,
    /// Stands for all IPv4 addresses without a mapping.
    prefix: Prefix,
    /// Those of `by4` and of `by6`.
    mappings: Vec<Mapping>,
    /// By IPv4 address; behind the mappings are networks that stay IPv4.
    by4: ByMask,
    by6: ByMask,
    /// The source of ICMP errors of routers without a mapping.
    error_source: Option<Ipv4Addr>,
    /// Whether the prefix has hosts with IPv4-translatable addresses (RFC 6052 section 2).
    has_translatable: bool,
    /// By worker.
    traffic: Arc<[Traffic]>,
}

impl Domain {
    /// `kept`: IPv4 networks whose packets are not translated, with their masks.
    pub fn new(
        (vrf, prefix): (u32, Prefix),
        (mappings, kept): (Vec<Mapping>, &[(u32, u32)]),
        error_source: Option<Ipv4Addr>,
        traffic: Arc<[Traffic]>,
    ) -> Self {
        let of4 = mappings.iter().map(Mapping::ip4).chain(kept.iter().copied());
        // The same bits of a mapping and of a network that is kept: the latter counts.
        let mut of4: Vec<(u128, u128)> =
            of4.map(|(network, mask)| (network.into(), u128::from(mask) | HIGH)).collect();
        let (of_mappings, of_kept) = of4.split_at_mut(mappings.len());
        let of_kept: BTreeSet<_> = of_kept.iter().copied().collect();
        for it in of_mappings.iter_mut().filter(|it| of_kept.contains(it)) {
            // No address is in it.
            *it = (u128::MAX, u128::MAX);
        }
        let of6: Vec<(u128, u128)> = mappings.iter().map(Mapping::ip6).collect();
        let (by4, by6) = (ByMask::new(&of4), ByMask::new(&of6));
        let is_in = |network: u128| network & prefix.fixed() == prefix.network().to_bits();
        let has_translatable = of6.iter().any(|(network, _)| is_in(*network));
        Self { vrf, prefix, mappings, by4, by6, error_source, has_translatable, traffic }
    }

    /// The IPv6 address of a mapped IPv4 one.
    #[inline]
    fn mapped6(&self, address: u32) -> Option<u128> {
        let mapping = self.mappings.get(self.by4.find(address.into())?)?;
        mapping.may_have(address).then(|| mapping.to_ip6(address))
    }

    /// The IPv4 address of a mapped IPv6 one.
    #[inline]
    fn mapped4(&self, address: u128) -> Option<u32> {
        let mapping = self.mappings.get(self.by6.find(address)?)?;
        Some(mapping.to_ip4(address))
    }

    /// The IPv4 address of an IPv6 host that may send to IPv4 hosts: none that no host has, nor one of a network that
    /// stays IPv4, whose hosts would be impersonated.
    #[inline]
    fn sender4(&self, address: u128) -> Option<Ipv4Addr> {
        let source = Ipv4Addr::from_bits(self.mapped4(address)?);
        (is_host4(source) && self.mapped6(source.to_bits()).is_some()).then_some(source)
    }

    /// Whether an address in the prefix is that of an IPv6 host (RFC 6052 section 3.3).
    #[inline]
    fn is_host6(&self, address: u128) -> bool {
        let ip4 = || self.prefix.extract(Ipv6Addr::from_bits(address));
        self.has_translatable && ip4().is_some_and(|it| self.mapped6(it.to_bits()) == Some(address))
    }

    /// Ends of a packet that a mapped host has sent.
    fn sent4(&self, (source, destination): Ends6) -> Option<Ends4> {
        let source = self.mapped4(source.to_bits())?;
        Some((source.into(), self.prefix.extract(destination)?))
    }

    /// Ends of a packet to a mapped host, as it receives or was sent it.
    fn received4(&self, (source, destination): Ends6) -> Option<Ends4> {
        let destination = self.mapped4(destination.to_bits())?;
        Some((self.prefix.extract(source)?, destination.into()))
    }

    /// Ends of a packet that a mapped host has sent.
    fn sent6(&self, (source, destination): Ends4) -> Option<Ends6> {
        let source = self.mapped6(source.to_bits())?;
        Some((source.into(), self.prefix.embed(destination)))
    }

    /// Ends of a packet to a mapped host, as it receives or was sent it.
    fn received6(&self, (source, destination): Ends4) -> Option<Ends6> {
        let destination = self.mapped6(destination.to_bits())?;
        Some((self.prefix.embed(source), destination.into()))
    }

    /// Counts packets to mapped hosts (`is_in`) or from them, with bytes of these IP packets as they came.
    fn count(&self, worker: usize, is_in: bool, (packets, bytes): (u64, u64)) {
        let Some(traffic) = self.traffic.get(worker) else { return };
        let (of_packets, of_bytes) = match is_in {
            true => (&traffic.in_packets, &traffic.in_bytes),
            false => (&traffic.out_packets, &traffic.out_bytes),
        };
        of_packets.0.add(packets);
        of_bytes.0.add(bytes);
    }
}

/// What the mask of an IPv4 network has in a table of addresses of 128 bits.
const HIGH: u128 = u128::MAX << 32;

/// What is translated, in the order of VRFs: each has one domain at most.
#[derive(Debug, Default)]
pub struct Siit {
    /// In the order of their VRFs.
    pub domains: Vec<Arc<Domain>>,
}

impl Siit {
    /// That of a VRF.
    #[inline]
    fn of_vrf(&self, vrf: u32) -> Option<&Domain> {
        let at = self.domains.binary_search_by_key(&vrf, |it| it.vrf).ok()?;
        self.domains.get(at).map(|it| &**it)
    }

    /// Whether packets of a VRF with these ends are translated.
    #[inline]
    pub fn translates(&self, vrf: u32, ends: &Tuple) -> bool {
        let Some(domain) = self.of_vrf(vrf) else { return false };
        match ends {
            Tuple::Ip4(it) => domain.mapped6(it.destination).is_some(),
            Tuple::Ip6(it) => {
                let to = it.destination;
                domain.prefix.extract(Ipv6Addr::from_bits(to)).is_some() && !domain.is_host6(to)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domain(kept: &[(u32, u32)]) -> Domain {
        let explicit = |ip4: (&str, u8), ip6: (&str, u8)| {
            Mapping::explicit((ip4.0.parse().unwrap(), ip4.1), (ip6.0.parse().unwrap(), ip6.1))
                .unwrap()
        };
        let mappings = vec![
            explicit(("192.0.2.0", 24), ("2001:db8:a::", 64)),
            explicit(("192.0.2.7", 32), ("2001:db8:b::7", 128)),
            explicit(("192.0.2.8", 32), ("2001:db8:a:0:900::", 128)),
        ];
        let prefix = Prefix::new("2001:db8:46::".parse().unwrap(), 96).unwrap();
        Domain::new((0, prefix), (mappings, kept), None, Arc::new([]))
    }

    fn ip4(text: &str) -> u32 {
        text.parse::<Ipv4Addr>().unwrap().to_bits()
    }

    fn ip6(text: &str) -> u128 {
        text.parse::<Ipv6Addr>().unwrap().to_bits()
    }

    #[test]
    fn the_longest_mapping_counts_both_ways() {
        let domain = domain(&[]);
        assert_eq!(domain.mapped6(ip4("192.0.2.7")), Some(ip6("2001:db8:b::7")));
        assert_eq!(domain.mapped6(ip4("192.0.2.9")), Some(ip6("2001:db8:a:0:900::")));
        assert_eq!(domain.mapped6(ip4("192.0.3.9")), None);
        assert_eq!(domain.mapped4(ip6("2001:db8:a:0:900::")), Some(ip4("192.0.2.8")));
        assert_eq!(domain.mapped4(ip6("2001:db8:a:0:a00::")), Some(ip4("192.0.2.10")));
        assert_eq!(domain.mapped4(ip6("2001:db8:c::")), None);
    }

    #[test]
    fn nobody_sends_as_a_host_that_stays_ip4_or_as_none() {
        let all = Mapping::embedded((Ipv4Addr::UNSPECIFIED, 0), Prefix::WELL_KNOWN).unwrap();
        let prefix = Prefix::new("2001:db8:c1a7::".parse().unwrap(), 96).unwrap();
        let kept = [(ip4("198.41.1.0"), u32::MAX << 8)];
        let domain = Domain::new((0, prefix), (vec![all], &kept), None, Arc::new([]));
        let of = |text: &str| domain.sender4(ip6(text)).map(|it| it.to_string());
        assert_eq!(of("64:ff9b::198.41.0.4").as_deref(), Some("198.41.0.4"));
        for text in
            ["127.0.0.1", "224.0.0.1", "255.255.255.255", "0.0.0.0", "198.41.1.9", "10.5.0.1"]
        {
            assert_eq!(of(&format!("64:ff9b::{text}")), None, "{text}");
        }
        // The well-known prefix stands for no private network (RFC 6052 section 3.1).
        assert_eq!(domain.mapped6(ip4("10.5.0.1")), None);
        assert_eq!(domain.mapped6(ip4("198.41.0.4")), Some(ip6("64:ff9b::198.41.0.4")));
    }

    #[test]
    fn networks_that_are_kept_have_no_mapping() {
        let domain = domain(&[(ip4("192.0.2.7"), u32::MAX), (ip4("192.0.2.64"), u32::MAX << 6)]);
        for (address, is_mapped) in
            [("192.0.2.7", false), ("192.0.2.8", true), ("192.0.2.70", false)]
        {
            assert_eq!(domain.mapped6(ip4(address)).is_some(), is_mapped, "{address}");
        }
    }
}
