//! The advertised configuration of an interface, checked: IPv6 router advertisements (RFC 4861 6.2) and IPv4
//! router discovery (RFC 1256).

use std::net::{IpAddr, Ipv6Addr};

use stoa_api::login::is_redirect;
use stoa_api::v1;
use stoa_wire::checksum::Pseudo;
use stoa_wire::ipv6;
use stoa_wire::ndp::{
    self, AdvertisedPrefix, AdvertisementOptions, Nat64Prefix, prefix_flag, router_flag,
};
use stoa_wire::zerocopy::network_endian::{U16, U32};

use super::{ValidationErrors, address};

/// Longest interval between two advertisements, in seconds (RFC 8319; RFC 1256 3.2 allows 1,800).
const INTERVAL_MAX_S: u32 = 65_535;
/// Bytes for the message in a packet of the IPv6 minimum MTU.
pub(in crate::control) const MAX_MESSAGE: usize = ipv6::LEAST_MTU - ipv6::LENGTH;

/// An IPv6 router advertisement and its intervals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advertisement {
    /// Shortest and longest interval, in milliseconds.
    pub interval_ms: (u64, u64),
    /// The fixed fields; the lifetime is 0 in the final one.
    pub fixed: ndp::RouterAdvertisement,
    /// The link's MTU; 0: no option.
    pub mtu: u32,
    /// Prefixes of the link.
    pub prefixes: Vec<AdvertisedPrefix>,
    /// Name servers, and their lifetime in seconds.
    pub name_servers: (Vec<Ipv6Addr>, u32),
    /// Search domains, and their lifetime in seconds.
    pub search: (Vec<String>, u32),
    /// Prefixes of NAT64.
    pub nat64: Vec<Nat64Prefix>,
    /// The URI of the API of a captive portal; "": there is none.
    pub captive_portal: String,
}

/// IPv4 router discovery on an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discovery {
    /// Shortest and longest interval, in milliseconds.
    pub interval_ms: (u64, u64),
    /// Lifetime of the addresses, in seconds.
    pub lifetime_s: u16,
    /// Sent to 255.255.255.255 and not to the multicast group.
    pub broadcast: bool,
    /// Preference of all our addresses on the link.
    pub preference: i32,
}

impl Advertisement {
    /// Writes the message between the addresses of `pseudo`; returns 0 when it does not fit.
    pub fn build(&self, out: &mut [u8], pseudo: &Pseudo, mac: [u8; 6], is_last: bool) -> usize {
        let names: Vec<&str> = self.search.0.iter().map(String::as_str).collect();
        let prefix_config = AdvertisementOptions {
            mac: Some(stoa_wire::ethernet::Mac(mac)),
            mtu: self.mtu,
            prefixes: &self.prefixes,
            name_servers: (&self.name_servers.0, self.name_servers.1),
            search: (&names, self.search.1),
            nat64: &self.nat64,
            captive_portal: &self.captive_portal,
        };
        let mut fixed = self.fixed;
        if is_last {
            fixed.lifetime = U16::ZERO;
        }
        if fixed.lifetime == U16::ZERO {
            // A router that is not a default router has no preference (RFC 4191 2.2).
            fixed.flags &= !router_flag::LOW;
        }
        ndp::build_router_advertisement(out, pseudo, &fixed, &prefix_config).unwrap_or(0)
    }
}

fn intervals(min: u32, max: u32, path: &str, errors: &mut ValidationErrors) -> (u64, u64) {
    if !(1..=max).contains(&min) || max > INTERVAL_MAX_S {
        let cause = format!("advertises every {min} to {max} seconds");
        let fix = "Use 1 to 65,535 seconds, and a minimum of at most the maximum.";
        errors.add(path.to_owned(), cause, fix);
    }
    (u64::from(min.max(1)) * 1000, u64::from(max.max(min).max(1)) * 1000)
}

fn ip6(bytes: &[u8]) -> Option<Ipv6Addr> {
    match address(bytes)? {
        IpAddr::V6(ip) => Some(ip),
        IpAddr::V4(_) => None,
    }
}

pub(super) fn advertisement(
    config: &v1::RouterAdvertising,
    path: &str,
    errors: &mut ValidationErrors,
) -> Advertisement {
    let mut wrong = |cause: &str| errors.add(path.to_owned(), cause, "Use IPv6 addresses.");
    let mut prefixes = Vec::new();
    for prefix_config in &config.prefixes {
        let known =
            prefix_config.prefix.as_ref().and_then(|it| Some((ip6(&it.address)?, it.length)));
        let Some((prefix, length)) = known.filter(|(_, length)| *length <= 128) else {
            wrong("advertises an invalid prefix");
            continue;
        };
        let bit = |on: bool, bit: u8| if on { bit } else { 0 };
        prefixes.push(AdvertisedPrefix {
            prefix,
            length: length as u8,
            flags: bit(prefix_config.on_link, prefix_flag::ON_LINK)
                | bit(prefix_config.autonomous, prefix_flag::AUTONOMOUS),
            valid_s: prefix_config.valid_s,
            preferred_s: prefix_config.preferred_s,
        });
    }
    let servers: Vec<Ipv6Addr> = config.name_servers.iter().filter_map(|it| ip6(it)).collect();
    if servers.len() != config.name_servers.len() {
        wrong("advertises a name server without an IPv6 address");
    }
    let nat64: Vec<Nat64Prefix> = config.nat64_prefixes.iter().filter_map(nat64_prefix).collect();
    if nat64.len() != config.nat64_prefixes.len() {
        let cause = "advertises a NAT64 prefix whose length or lifetime no option can have";
        let fix = "Use an IPv6 prefix of 96, 64, 56, 48, 40 or 32 bits, and a multiple of 8 up to 65,528 seconds.";
        errors.add(path.to_owned(), cause, fix);
    }
    if !config.captive_portal.is_empty() && !is_redirect(&config.captive_portal) {
        let cause = "advertises a captive portal whose address is wrong";
        let fix = "Use https:// with at most 255 visible ASCII characters.";
        errors.add(path.to_owned(), cause, fix);
    }
    let preference = match config.preference() {
        v1::RouterPreference::Medium => 0,
        v1::RouterPreference::High => router_flag::HIGH,
        v1::RouterPreference::Low => router_flag::LOW,
    };
    let flags = if config.managed { router_flag::MANAGED } else { 0 }
        | if config.other { router_flag::OTHER } else { 0 };
    let fixed = ndp::RouterAdvertisement {
        kind: 0,
        code: 0,
        checksum: U16::ZERO,
        hop_limit: config.hop_limit.min(u8::MAX.into()) as u8,
        flags: flags | preference,
        lifetime: U16::new(config.lifetime_s.min(u16::MAX.into()) as u16),
        reachable_time: U32::new(config.reachable_ms),
        retransmit_time: U32::new(config.retransmit_ms),
    };
    let message = Advertisement {
        interval_ms: intervals(config.min_interval_s, config.max_interval_s, path, errors),
        fixed,
        mtu: config.mtu,
        prefixes,
        name_servers: (servers, config.name_servers_s),
        search: (config.search.clone(), config.search_s),
        nat64,
        captive_portal: config.captive_portal.clone(),
    };
    let nobody = Ipv6Addr::UNSPECIFIED;
    let pseudo = Pseudo::Ip6 { source: nobody, destination: nobody };
    if message.build(&mut [0; MAX_MESSAGE], &pseudo, [0; 6], false) == 0 {
        let cause = "has an invalid router advertisement, or one longer than 1,280 bytes";
        let fix = "Advertise fewer prefixes, name servers or domains, and only valid domain names.";
        errors.add(path.to_owned(), cause, fix);
    }
    message
}

/// A prefix of NAT64; `None`: it has no option (RFC 8781 section 4).
fn nat64_prefix(given: &v1::AdvertisedNat64) -> Option<Nat64Prefix> {
    let of = given.prefix.as_ref()?;
    let prefix = ip6(&of.address)?;
    let lifetime_s = u16::try_from(given.lifetime_s).ok().filter(|it| it.is_multiple_of(8))?;
    let host_bits = u128::MAX.checked_shr(of.length).unwrap_or(0);
    let is_right = Nat64Prefix::is_length(of.length) && prefix.to_bits() & host_bits == 0;
    is_right.then_some(Nat64Prefix { prefix, length: of.length as u8, lifetime_s })
}

pub(super) fn discovery(
    config: &v1::RouterDiscovery,
    path: &str,
    errors: &mut ValidationErrors,
) -> Discovery {
    Discovery {
        interval_ms: intervals(config.min_interval_s, config.max_interval_s, path, errors),
        lifetime_s: config.lifetime_s.min(u16::MAX.into()) as u16,
        broadcast: config.broadcast,
        preference: config.preference,
    }
}

#[cfg(test)]
mod tests {
    use super::super::DesiredState;
    use stoa_api::v1;

    fn refused(advertising: v1::RouterAdvertising) -> Vec<String> {
        let ip6 = v1::Family { advertising: Some(advertising), ..v1::Family::default() };
        let interface =
            v1::Interface { name: "a".into(), ip6: Some(ip6), ..v1::Interface::default() };
        let port = v1::Port {
            interface: "a".into(),
            driver: Some(v1::port::Driver::Null(v1::Null {})),
            ..v1::Port::default()
        };
        let desired = v1::Desired {
            ports: vec![port],
            interfaces: vec![interface],
            ..v1::Desired::default()
        };
        let errors = DesiredState::parse(&desired).err().unwrap_or_default();
        errors.into_iter().map(|error| error.cause).collect()
    }

    #[test]
    fn invalid_advertisements_are_refused() {
        let good = || v1::RouterAdvertising {
            max_interval_s: 600,
            min_interval_s: 200,
            ..v1::RouterAdvertising::default()
        };
        assert_eq!(refused(good()), Vec::<String>::new());
        let hasty = v1::RouterAdvertising { min_interval_s: 601, ..good() };
        assert!(refused(hasty)[0].contains("601 to 600"));
        let server = v1::RouterAdvertising { name_servers: vec![vec![1; 4]], ..good() };
        assert!(refused(server)[0].contains("name server"));
        let prefix = v1::Prefix { address: vec![0; 16], length: 129 };
        let prefix_config = v1::AdvertisedPrefix { prefix: Some(prefix), ..Default::default() };
        assert!(
            refused(v1::RouterAdvertising { prefixes: vec![prefix_config], ..good() })[0]
                .contains("prefix")
        );
        let prefix = v1::Prefix { address: vec![0; 16], length: 64 };
        let prefix_config = v1::AdvertisedPrefix { prefix: Some(prefix), ..Default::default() };
        let many = v1::RouterAdvertising { prefixes: vec![prefix_config; 40], ..good() };
        assert!(refused(many)[0].contains("1,280"));
        for (length, lifetime_s, is_right) in [
            (96, 1800, true),
            (32, 65_528, true),
            (95, 8, false),
            (64, 9, false),
            (64, 65_536, false),
        ] {
            let mut address = vec![0; 16];
            address[0] = 0x20;
            let prefix = Some(v1::Prefix { address, length });
            let nat64_prefixes = vec![v1::AdvertisedNat64 { prefix, lifetime_s }];
            let causes = refused(v1::RouterAdvertising { nat64_prefixes, ..good() });
            assert_eq!(causes.is_empty(), is_right, "{length} {lifetime_s}: {causes:?}");
        }
        let name = v1::RouterAdvertising { search: vec!["a..b".into()], ..good() };
        assert!(refused(name)[0].contains("invalid"));
    }
}
