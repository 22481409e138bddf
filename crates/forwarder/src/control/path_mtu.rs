//! Path MTUs of tunnels: a router on the path to the other end reports that an outer packet is too big
//! (RFC 1191, RFC 8201). The MTU of the tunnel is lowered for a while, and reported to senders of inner
//! packets (RFC 2003 4 and 5.1, RFC 2473 7).

use std::collections::BTreeMap;
use std::net::IpAddr;

use stoa_engine::Packet;
use stoa_ports::{Encapsulation, TunnelConfig};
use stoa_wire::{gre, icmp4, icmp6, ipv4, ipv6};

use super::capability::{Capability, Punted, Start, Verbs};
use super::forwarder_state::ForwarderState;
use super::punts::is_ip4;
use crate::drops::Drop;
use crate::flow;
use crate::neighbor::entry::Millis;
use crate::punt::Class;
use crate::tunnel::too_big;

/// How long a report is believed (RFC 1191 6.3, RFC 8201 4).
const TIMEOUT_MS: Millis = 600_000;
/// The time between two changes of the MTU of a tunnel, and between two looks for reports that have expired: a change
/// costs the control thread far more than a packet costs its sender.
const INTERVAL_MS: Millis = 1000;
/// The bits of a flow label (RFC 8200 3).
const FLOW_LABEL: u32 = 0xf_ffff;
/// The least path MTU that is believed for outer IPv4: whoever forges a report does not get a lower one.
const LEAST4: u32 = 576;

/// What was reported.
#[derive(Default)]
pub(super) struct PathMtus {
    /// By the interface of the tunnel.
    by_interface: BTreeMap<u32, PathMtu>,
    /// When to look for those that have expired.
    next_look: Millis,
}

struct PathMtu {
    /// Local and remote address of the tunnel.
    ends: (IpAddr, IpAddr),
    /// Bytes of an inner packet.
    inner: u16,
    /// When it was reported.
    since: Millis,
}

impl Capability for PathMtus {
    const VERBS: Verbs = Verbs {
        remove_interface: |state, index| {
            state.capabilities.path_mtus.by_interface.remove(&index);
        },
        punts: &[Punted {
            class: Class::Icmp,
            takes: |_| true,
            receive: |state, _, packet| state.receive_too_big(&packet),
        }],
        tick: ForwarderState::expire_path_mtus,
        ..Verbs::NONE
    };

    fn start(_: &Start<'_>) -> Self {
        Self::default()
    }
}

/// The path MTU that a message reports, in bytes of an outer packet, and the outer packet: checksums are
/// right.
fn read(bytes: &[u8]) -> Result<(u32, &[u8]), Drop> {
    if is_ip4(bytes) {
        let view = ipv4::check(bytes).map_err(|_| Drop::Ip4Truncated)?;
        let message = icmp4::check(view.payload()).map_err(|_| Drop::Icmp4Malformed)?;
        let (mtu, quoted) =
            message.next_hop_mtu().zip(message.quoted()).ok_or(Drop::Icmp4Ignored)?;
        // A router that does not know of path MTUs reports 0 (RFC 1191 5).
        return Ok((u32::from(mtu).max(LEAST4), quoted));
    }
    let view = ipv6::check(bytes).map_err(|_| Drop::Ip6Truncated)?;
    let upper = view.upper().map_err(|_| Drop::Ip6Extension)?;
    let message = icmp6::check(upper.payload, &view.pseudo()).map_err(|_| Drop::Icmp6Malformed)?;
    let (mtu, quoted) = message.mtu().zip(message.quoted()).ok_or(Drop::Icmp6Ignored)?;
    // No IPv6 path carries less (RFC 8201 4).
    Ok((mtu.max(ipv6::LEAST_MTU as u32), quoted))
}

/// The bytes of the quoted packet before it was cut; `ends` have been read.
fn whole_length(quoted: &[u8]) -> Option<u32> {
    let (at, before) = if is_ip4(quoted) { (2, 0) } else { (4, ipv6::LENGTH as u32) };
    let length = quoted.get(at..at + 2)?.first_chunk::<2>()?;
    Some(u32::from(u16::from_be_bytes(*length)) + before)
}

/// Whether the quoted packet may be one that this router sent through the tunnel. IPv6 errors quote enough (RFC 4443
/// 2.4 c) to compute the flow label, which depends on the router's hash seed.
fn is_of_tunnel(quoted: &[u8], config: &TunnelConfig, seed: u32) -> bool {
    if too_big::ends(quoted).map(|(ends, _)| ends) != Some((config.local, config.remote)) {
        return false;
    }
    if is_ip4(quoted) {
        return true;
    }
    let has_gre = config.encapsulation == Encapsulation::Gre;
    let inner = quoted.get(ipv6::LENGTH + if has_gre { gre::LENGTH } else { 0 }..);
    let inner = inner.filter(|inner| inner.len() >= ipv6::LENGTH);
    let label = quoted.first_chunk::<4>().map(|word| u32::from_be_bytes(*word) & FLOW_LABEL);
    inner.is_some_and(|inner| label == Some(flow::label(inner, seed)))
}

impl ForwarderState {
    /// The MTUs of an interface, IPv4 and IPv6, within what its path carries if it is a tunnel.
    pub(super) fn within_path_mtu(&self, index: u32, (ip4, ip6): (u16, u16)) -> (u16, u16) {
        match self.capabilities.path_mtus.by_interface.get(&index) {
            // Senders of IPv6 ignore less than the least MTU.
            Some(path) => (ip4.min(path.inner), ip6.min(path.inner.max(ipv6::LEAST_MTU as u16))),
            None => (ip4, ip6),
        }
    }

    /// Handles a report about an outer packet; the worker has found its tunnel.
    fn receive_too_big(&mut self, packet: &Packet) {
        let index = packet.arg;
        let (mtu, quoted) = match read(packet.bytes()) {
            Ok(read) => read,
            Err(reason) => return self.count_drop(reason),
        };
        let ignored = if is_ip4(packet.bytes()) { Drop::Icmp4Ignored } else { Drop::Icmp6Ignored };
        let state = self.interface(index);
        let tunnel = state.and_then(|state| Some((state, self.tunnel_of(&state.name)?)));
        let Some((state, config)) = tunnel else { return self.count_drop(ignored) };
        let (ends, overhead, now) = ((config.local, config.remote), config.overhead(), self.now());
        let inner = mtu.saturating_sub(overhead).min(u16::MAX.into()) as u16;
        // Only such packets are sent, and only larger ones than the MTU are reported.
        let longest = u32::from(state.mtu.0.max(state.mtu.1)) + overhead;
        let is_too_big = whole_length(quoted).is_some_and(|it| it > mtu && it <= longest);
        let last = self.capabilities.path_mtus.by_interface.get(&index);
        let is_early = last.is_some_and(|it| it.ends == ends && now < it.since + INTERVAL_MS);
        let is_about_us = is_of_tunnel(quoted, config, self.shared.seeds.paths());
        if !is_about_us || !is_too_big || is_early || inner >= state.mtu.0 {
            // It may have passed others that reported the same.
            return self.count_drop(ignored);
        }
        tracing::debug!(interface = %state.name, mtu = inner, "the path of the tunnel carries less");
        let path = PathMtu { ends, inner, since: now };
        self.capabilities.path_mtus.by_interface.insert(index, path);
        self.reconfigure_port(index);
    }

    /// Forgets what was reported long ago, or of tunnels with other ends.
    fn expire_path_mtus(&mut self) {
        let now = self.now();
        let paths = &mut self.capabilities.path_mtus;
        if paths.by_interface.is_empty() || now < paths.next_look {
            return;
        }
        paths.next_look = now + INTERVAL_MS;
        let is_valid = |(index, path): (&u32, &PathMtu)| {
            let config = self.interface(*index).and_then(|state| self.tunnel_of(&state.name));
            now < path.since + TIMEOUT_MS
                && config.is_some_and(|it| (it.local, it.remote) == path.ends)
        };
        let all = &self.capabilities.path_mtus.by_interface;
        let expired = all.iter().filter(|(index, path)| !is_valid((*index, *path)));
        let expired: Vec<u32> = expired.map(|(index, _)| *index).collect();
        for index in expired {
            self.capabilities.path_mtus.by_interface.remove(&index);
            self.reconfigure_port(index);
        }
    }
}
