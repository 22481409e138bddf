//! Later fragments follow the first one of their packet, which has the ports: whether its flow has admitted it.

use stoa_wire::ipv6;
use stoa_wire::ipv6_extensions::Fragment;
use stoa_wire::protocol::FRAGMENT;
use zerocopy::FromBytes;

use stoa_tables::flow_table::Match;

use super::Seen;
use crate::flow::fragments::{Fate, Fragments, Key, PACKETS, Piece, Refusal};
use crate::flow::random::random;
use crate::flow::tcp::Direction;

/// Seconds that a packet is remembered: no shorter than where fragments are put in order
/// ([`fragment_order`](crate::flow::fragment_order)), as the clock may begin in the middle of a second.
const LIFETIME_S: u64 = 7;

/// What becomes of a later fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Later {
    /// Rules decide: its first one was of no flow, or has not come.
    Rules,
    /// Its first one went to the worker with this number.
    Foreign(u8),
    /// It belongs to the flow of its first one; whether that has admitted it. If the flow is not translated, only the
    /// id and the direction of the match mean something.
    Follows(Match, bool),
    /// It overlaps what has passed.
    Overlaps,
}

/// The flow of a first fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Passed {
    pub(super) id: u32,
    /// When it began: another flow may have its id by now.
    pub(super) start: u32,
    pub(super) direction: Direction,
}

/// Where the first fragment of a packet went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// To a flow of this worker.
    Here(Passed),
    /// To the worker with this number, which has its flow.
    Elsewhere(u8),
}

/// What is known of a later fragment.
pub(super) enum Known {
    Nothing,
    Flow(Passed),
    Foreign(u8),
    Overlaps,
}

/// The packets of which fragments have passed.
pub(super) struct Pieces(Fragments<Place>);

impl Pieces {
    pub(super) fn new() -> Self {
        // Only first fragments that have passed take a place, and the next ones take it from them: most are complete,
        // and what follows a first fragment comes at once.
        Self(Fragments::new(PACKETS, PACKETS as u16, LIFETIME_S, random()))
    }

    /// A first fragment has passed.
    pub(super) fn first(&mut self, (packet, vrf): (&Seen<'_>, u16), passed: Passed, tick: u32) {
        self.note((packet, vrf), Place::Here(passed), tick);
    }

    /// A first fragment goes to another worker, which has its flow.
    pub(super) fn first_goes(&mut self, (packet, vrf): (&Seen<'_>, u16), worker: u8, tick: u32) {
        self.note((packet, vrf), Place::Elsewhere(worker), tick);
    }

    /// Its packet begins anew: where fragments are put in order, repetitions and overlaps have been refused, and a
    /// packet is forgotten sooner than here. Without a place, those behind it are of no flow.
    fn note(&mut self, (packet, vrf): (&Seen<'_>, u16), place: Place, tick: u32) {
        if let Some((key, piece)) = part(packet, vrf) {
            self.0.forget(&key);
            let _ = self.0.first(&key, piece, place, tick.into());
        }
    }

    /// Another fragment comes in. One of a packet whose first one has not passed takes no place: whoever forges such
    /// fragments leaves those of a flow theirs.
    pub(super) fn later(&mut self, (packet, vrf): (&Seen<'_>, u16), tick: u32) -> Known {
        let Some((key, piece)) = part(packet, vrf) else { return Known::Nothing };
        match self.0.follow(&key, piece, tick.into()) {
            Some(Fate::Follow(Place::Here(passed))) => Known::Flow(passed),
            Some(Fate::Follow(Place::Elsewhere(worker))) => Known::Foreign(worker),
            Some(Fate::Drop(Refusal::Overlap)) => Known::Overlaps,
            Some(Fate::Wait { .. } | Fate::Drop(_)) | None => Known::Nothing,
        }
    }

    /// Another flow has taken the place of the one of a first fragment.
    pub(super) fn replace(&mut self, (packet, vrf): (&Seen<'_>, u16), passed: Passed) {
        if let Some((key, _)) = part(packet, vrf) {
            self.0.replace(&key, Place::Here(passed));
        }
    }

    fn place(&self, (packet, vrf): (&Seen<'_>, u16), tick: u32) -> Option<Place> {
        let (key, _) = part(packet, vrf)?;
        self.0.known(&key, tick.into())
    }

    /// The flow of a fragment that has come in.
    pub(super) fn known(&self, packet: (&Seen<'_>, u16), tick: u32) -> Option<Passed> {
        match self.place(packet, tick)? {
            Place::Here(passed) => Some(passed),
            Place::Elsewhere(_) => None,
        }
    }

    /// The worker to which the first fragment of the packet of one has gone.
    pub(super) fn elsewhere(&self, packet: (&Seen<'_>, u16), tick: u32) -> Option<u8> {
        match self.place(packet, tick)? {
            Place::Here(_) => None,
            Place::Elsewhere(worker) => Some(worker),
        }
    }

    /// Forgets some packets whose time is over.
    pub(super) fn sweep(&mut self, tick: u32) {
        self.0.sweep(tick.into(), PACKETS / 8, |_| {});
    }
}

/// Of which packet in a VRF a fragment is which part. `None`: its headers contradict each other.
pub fn part(packet: &Seen<'_>, vrf: u16) -> Option<(Key, Piece)> {
    let (bytes, end) = (packet.bytes, usize::from(packet.place.length()));
    let vrf = vrf.into();
    let (key, start, data, is_last) = if packet.kind.is_ip6() {
        let view = ipv6::check(bytes.get(..end)?).ok()?;
        let mut all = view.extensions().map_while(Result::ok);
        let extension = all.find(|extension| extension.kind == FRAGMENT)?;
        let header = Fragment::ref_from_bytes(extension.bytes).ok()?;
        let [source, destination] = [view.source(), view.destination()].map(u128::from);
        let identification = header.identification.get();
        let key = Key { vrf, source, destination, protocol: 0, identification };
        (key, header.offset() / 8, extension.offset + extension.bytes.len(), !header.more())
    } else {
        let header = bytes.first_chunk::<20>()?;
        let half = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let mapped = |at: usize| {
            let address = u128::from(half(at)) << 16 | u128::from(half(at + 2));
            0xffff_0000_0000 | address
        };
        let (fragment, identification) = (half(6), half(4).into());
        let (source, destination, protocol) = (mapped(12), mapped(16), header[9]);
        let key = Key { vrf, source, destination, protocol, identification };
        let offset = usize::from(fragment & 0x1fff);
        (key, offset, usize::from(header[0] & 0xf) * 4, fragment & 0x2000 == 0)
    };
    let units = end.checked_sub(data)?.div_ceil(8);
    let (start, end) = (u16::try_from(start).ok()?, u16::try_from(start + units).ok()?);
    Some((key, Piece { start, end, is_last }))
}
