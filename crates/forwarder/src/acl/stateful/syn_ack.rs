//! SYN-ACKs with a cookie in place of SYNs. A flood has nothing else: so they are written over the SYNs, one behind the
//! other, when nobody reads the fields of their lanes any more.

use stoa_engine::Vector;
use stoa_engine::vector::flags;
use stoa_wire::syn_ack::{LONGEST4, answer4};
use stoa_wire::tcp_options::SynOptions;
use stoa_wire::{ipv4, ipv6, tcp};

use super::seen;
use crate::acl::keys::Family;
use crate::acl::node::AclNode;
use crate::flow::cookie;
use crate::flow::splice::OUR_SCALE;

/// The answer to the SYN of a lane.
pub(super) struct SynAnswer {
    pub(super) lane: u8,
    pub(super) cookie: u32,
    pub(super) ours: SynOptions,
}

/// The version and the length of an IPv4 header without options.
const PLAIN: u8 = 0x45;

impl<F: Family> AclNode<F> {
    /// Whether a lane with a whole SYN can be answered in its own bytes: over IPv4, without options of that.
    #[inline(always)]
    pub(super) fn is_plain(vector: &Vector, lane: usize) -> bool {
        let has_room = usize::from(vector.offset[lane]) + LONGEST4 <= vector.capacity(lane);
        F::IS_IP4 && has_room && vector.bytes(lane).first() == Some(&PLAIN)
    }

    /// Writes the answers to the SYNs that wait for them. [`Self::is_plain`] has found that there is room.
    pub(super) fn answer_plain(&mut self, vector: &mut Vector) {
        for SynAnswer { lane, cookie, ours } in self.tracking.syns.drain(..) {
            let (lane, start) = (usize::from(lane), usize::from(vector.offset[usize::from(lane)]));
            let packet = vector.buffer_mut(lane).get_mut(start..);
            if let Some(packet) = packet.and_then(|it| it.first_chunk_mut()) {
                vector.length[lane] = answer4(packet, cookie, &ours) as u16;
            }
            vector.make_own(lane);
            // No rule concerns what keeps a connection that rules have admitted.
            vector.flags[lane] |= flags::ADMITTED;
        }
    }

    /// The cookie for the SYN of a lane, and the options of the answer.
    #[inline(always)]
    pub(super) fn offer(&self, vector: &Vector, lane: usize) -> Option<(u32, SynOptions)> {
        let fields = vector.known_fields()?;
        let view = seen(vector, fields, lane).view()?;
        let key = F::flow_key(fields, lane, self.vrf_of(vector, lane));
        let syn = SynOptions::of(&view);
        let (keys, clock) = (self.shared.flows.syn_cookies().keys(), self.tracking.now.ms);
        let number = view.header().sequence.get();
        let (cookie, timestamps) = cookie::make(keys, &key, number, &syn, clock);
        let mtu = self.shared.adjacencies.get(vector.adjacency[lane])?.head().mtu();
        let headers = tcp::LENGTH + if F::IS_IP4 { ipv4::LENGTH } else { ipv6::LENGTH };
        let ours = SynOptions {
            segment_size: Some(mtu.saturating_sub(headers as u16)),
            scale: syn.scale.and(timestamps).map(|_| OUR_SCALE),
            sack: syn.sack && timestamps.is_some(),
            timestamps,
        };
        Some((cookie, ours))
    }
}
