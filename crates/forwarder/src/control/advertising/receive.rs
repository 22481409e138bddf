//! Receives router solicitations, and router advertisements of other routers that are inconsistent with ours
//! (RFC 4861 6.2.6 and 6.2.7, RFC 1256 5.2).

use std::net::Ipv6Addr;

use stoa_engine::Packet;
use stoa_wire::ndp::RouterAdvertisement;
use stoa_wire::ndp_options::{NdpOption, Options};
use stoa_wire::{ipv4, irdp};

use super::{AdvertisementConfig, random};
use crate::control::desired::Advertisement;
use crate::control::forwarder_state::ForwarderState;
use crate::drops::Drop;
use crate::neighbor::entry::Millis;

/// Shortest interval between two log messages about inconsistent routers.
const LOG_INTERVAL_MS: Millis = 60_000;

impl ForwarderState {
    /// Handles a router solicitation.
    pub(in crate::control) fn receive_router_solicitation(&mut self, interface: u32, is_ip6: bool) {
        let now = self.now();
        let is_advertiser =
            self.capabilities.advertising.change((interface, is_ip6), |advertiser| {
                advertiser.solicitations += 1;
                advertiser.schedule.solicited(now, &advertiser.config.intervals(), random());
            });
        if is_advertiser.is_none() {
            let reason = if is_ip6 { Drop::Icmp6Ignored } else { Drop::Icmp4Ignored };
            self.count_drop(reason);
        }
    }

    /// Handles an IPv4 router solicitation; its source is unspecified or a neighbour.
    pub(super) fn receive_router_discovery(&mut self, packet: &Packet) {
        let Ok(view) = ipv4::check(packet.bytes()) else { return };
        let source = view.source();
        let is_near = source.is_unspecified()
            || self.addresses.of(packet.rx_if).is_some_and(|own| own.is_on_link4(source));
        match irdp::check(view.payload()) {
            Ok(irdp::Message::Solicitation) if is_near => {
                self.receive_router_solicitation(packet.rx_if, false);
            }
            Ok(_) => self.count_drop(Drop::Icmp4Ignored),
            Err(_) => self.count_drop(Drop::Icmp4Malformed),
        }
    }

    /// Handles an advertisement of another router.
    pub(in crate::control) fn receive_router_advertisement(
        &mut self,
        interface: u32,
        source: Ipv6Addr,
        received: &RouterAdvertisement,
        options: Options<'_>,
    ) {
        if self.addresses.of(interface).is_some_and(|own| own.link_local == Some(source)) {
            return self.count_drop(Drop::LoopedBack);
        }
        let now = self.now();
        let name = self.interface(interface).map(|state| state.name.clone()).unwrap_or_default();
        let Some(advertiser) = self.capabilities.advertising.by_key.get_mut(&(interface, true))
        else {
            return self.count_drop(Drop::Icmp6Ignored);
        };
        let AdvertisementConfig::Ip6(config) = &advertiser.config else { return };
        let Some(what) = inconsistency(config, received, options) else { return };
        advertiser.inconsistent += 1;
        if advertiser.logged_at.is_none_or(|at| now >= at + LOG_INTERVAL_MS) {
            advertiser.logged_at = Some(now);
            tracing::warn!(interface = name, router = %source, what,
                "another router advertises a different value: configure the same on both");
        }
    }
}

/// The first value of another router's advertisement that is inconsistent with ours (RFC 4861 6.2.7). A value
/// that one of the two leaves unspecified is consistent.
fn inconsistency(
    config: &Advertisement,
    received: &RouterAdvertisement,
    options: Options<'_>,
) -> Option<&'static str> {
    let differ = |ours: u32, theirs: u32| ours != 0 && theirs != 0 && ours != theirs;
    let fixed = &config.fixed;
    if differ(fixed.hop_limit.into(), received.hop_limit.into()) {
        return Some("hop limit");
    }
    // The flags M and O.
    if (fixed.flags ^ received.flags) & 0xc0 != 0 {
        return Some("flags for DHCPv6");
    }
    if differ(fixed.reachable_time.get(), received.reachable_time.get()) {
        return Some("reachable time");
    }
    if differ(fixed.retransmit_time.get(), received.retransmit_time.get()) {
        return Some("retransmission time");
    }
    options.into_iter().find_map(|option| match option {
        NdpOption::Mtu(mtu) if differ(config.mtu, mtu) => Some("MTU"),
        NdpOption::Prefix(theirs) => {
            let is_it = |ours: &&stoa_wire::ndp::AdvertisedPrefix| {
                ours.prefix == theirs.prefix() && ours.length == theirs.prefix_length
            };
            let ours = config.prefixes.iter().find(is_it)?;
            let lifetimes = (theirs.valid_lifetime.get(), theirs.preferred_lifetime.get());
            (lifetimes != (ours.valid_s, ours.preferred_s)).then_some("lifetimes of a prefix")
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use stoa_wire::ndp::AdvertisedPrefix;
    use stoa_wire::zerocopy::network_endian::{U16, U32};

    fn ours() -> Advertisement {
        let fixed = RouterAdvertisement {
            kind: 0,
            code: 0,
            checksum: U16::ZERO,
            hop_limit: 64,
            flags: 0,
            lifetime: U16::new(1800),
            reachable_time: U32::ZERO,
            retransmit_time: U32::new(1000),
        };
        let prefix = AdvertisedPrefix {
            prefix: "2001:db8::".parse().unwrap(),
            length: 64,
            flags: 0xc0,
            valid_s: 7200,
            preferred_s: 3600,
        };
        Advertisement {
            interval_ms: (1, 1),
            fixed,
            mtu: 1500,
            prefixes: vec![prefix],
            name_servers: (Vec::new(), 0),
            search: (Vec::new(), 0),
            nat64: Vec::new(),
            captive_portal: String::new(),
        }
    }

    #[test]
    fn unspecified_values_are_consistent() {
        let say = |change: &dyn Fn(&mut RouterAdvertisement), options: &[u8]| {
            let mut received = ours().fixed;
            change(&mut received);
            inconsistency(&ours(), &received, Options::check(options).unwrap())
        };
        assert_eq!(say(&|_| {}, &[]), None);
        assert_eq!(say(&|it| (it.hop_limit, it.lifetime) = (0, U16::ZERO), &[]), None);
        assert_eq!(say(&|it| it.hop_limit = 32, &[]), Some("hop limit"));
        assert_eq!(say(&|it| it.flags = 0x18, &[]), None);
        assert_eq!(say(&|it| it.flags = 0x80, &[]), Some("flags for DHCPv6"));
        assert_eq!(say(&|it| it.reachable_time = U32::new(5), &[]), None);
        assert_eq!(say(&|it| it.retransmit_time = U32::new(5), &[]), Some("retransmission time"));
        assert_eq!(say(&|_| {}, &[5, 1, 0, 0, 0, 0, 5, 0xdc]), None);
        assert_eq!(say(&|_| {}, &[5, 1, 0, 0, 0, 0, 5, 0]), Some("MTU"));
        let prefix = |valid: u8, length: u8| {
            let mut option = [0; 32];
            option[..8].copy_from_slice(&[3, 4, length, 0xc0, 0, 0, 0x1c, valid]);
            option[8..12].copy_from_slice(&3600_u32.to_be_bytes());
            option[16..20].copy_from_slice(&[0x20, 1, 0x0d, 0xb8]);
            option
        };
        assert_eq!(say(&|_| {}, &prefix(0x20, 64)), None);
        assert_eq!(say(&|_| {}, &prefix(0x21, 64)), Some("lifetimes of a prefix"));
        assert_eq!(say(&|_| {}, &prefix(0x21, 56)), None);
    }
}
