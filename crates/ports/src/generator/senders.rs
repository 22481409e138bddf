//! The senders of a generator's frames in turn: VLAN tags and source addresses.

use std::sync::Arc;

use stoa_engine::pool::SLOT;

use super::template::Template;
use crate::config::GeneratorConfig;
use crate::error::OpenError;

/// The greatest VLAN ID (IEEE 802.1Q).
const VLAN_MAX: u16 = 4094;

/// Where the frames of a generator seem to come from, in turn: for benchmarks with many
/// sub-interfaces, and for checks of the source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Senders {
    /// Tags of each frame: 0, 1 (0x8100), or 2 (0x88a8, then 0x8100).
    pub depth: u8,
    /// VLAN IDs in turn, outer and inner; those beyond `depth` do not matter. At least one entry.
    pub vlans: Vec<[u16; 2]>,
    /// IPv4 sources, one for each entry of `vlans`; empty: `source`.
    pub sources4: Vec<u32>,
    /// IPv6 sources, likewise. At most one of the two lists has entries.
    pub sources6: Vec<u128>,
    /// The tunnels that the frames come through, if they do.
    pub tunnels: Option<GreTunnels>,
}

/// GRE tunnels over IPv4 (RFC 2784): each frame is 24 bytes longer, for a header of each of the two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GreTunnels {
    /// The outer sources, one for each entry of [`Senders::vlans`].
    pub sources: Vec<u32>,
    /// The outer destination.
    pub destination: u32,
}

/// The senders, and the next of them.
pub(crate) struct SenderTurn {
    senders: Arc<Senders>,
    at: usize,
}

impl SenderTurn {
    /// Checks the senders of `config`; `share` is (queue, queues). `None`: it has no list.
    pub(crate) fn new(
        config: &GeneratorConfig,
        share: (u64, u64),
    ) -> Result<Option<Self>, OpenError> {
        let Some(senders) = config.senders.clone() else { return Ok(None) };
        let count = senders.vlans.len();
        let lists = [(senders.sources4.len(), true), (senders.sources6.len(), false)];
        let tunnels = senders.tunnels.as_ref().map(|tunnels| tunnels.sources.len());
        let fits = |(sources, is_ip4): &(usize, bool)| {
            *sources == 0 || *sources == count && config.source.is_ipv4() == *is_ip4
        };
        let depth = usize::from(senders.depth);
        let is_vlan =
            |vlans: &[u16; 2]| vlans.iter().take(depth).all(|vlan| (1..=VLAN_MAX).contains(vlan));
        let reason = if count == 0 || depth > 2 {
            "give at least one sender, and at most two tags"
        } else if !lists.iter().all(fits) {
            "give each sender one source, of the family of the destinations, or none"
        } else if tunnels.is_some_and(|tunnels| tunnels != count) {
            "give each sender one outer source, or none"
        } else if !senders.vlans.iter().all(is_vlan) {
            "give VLAN IDs from 1 to 4094"
        } else {
            // Queues begin at different places, as they do with destinations.
            let at = (count as u64 * share.0 / share.1) as usize;
            return Ok(Some(Self { senders, at }));
        };
        Err(OpenError::Config { field: "senders", reason: reason.to_owned() })
    }

    /// Makes a frame that was written one of the next sender.
    pub(crate) fn write(&mut self, template: &Template, slot: &mut [u8; SLOT]) {
        let (senders, at) = (&*self.senders, self.at);
        self.at = if at + 1 == senders.vlans.len() { 0 } else { at + 1 };
        template.write_tags(slot, &senders.vlans[at][..usize::from(senders.depth)]);
        if let Some(source) = senders.sources4.get(at) {
            template.write_source(slot, source.to_be_bytes());
        } else if let Some(source) = senders.sources6.get(at) {
            template.write_source(slot, source.to_be_bytes());
        }
        if let Some(source) = senders.tunnels.as_ref().and_then(|it| it.sources.get(at)) {
            template.write_outer_source(slot, *source);
        }
    }
}
