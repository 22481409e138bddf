//! The table of packets that are being put together: bounded in all and for each source. When
//! there is no room, the oldest makes it: who sends whole packets is done long before.
//!
//! The bytes lie in memory of the table's own, not in packet buffers: fragments that never
//! become whole take nothing from the packets of others.

use super::Piece;
use super::context::{Context, Fit, HEAD, LARGEST};
use crate::drops::Drop;

/// Which packet fragments belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Source address; an IPv4 address in the low bits.
    pub source: u128,
    /// Destination address.
    pub destination: u128,
    /// Identification.
    pub identification: u32,
    /// IPv4: the protocol (RFC 791); IPv6: 0 (RFC 8200 4.5).
    pub protocol: u8,
    /// Where the addresses mean something: see [`realm`].
    pub realm: u32,
}

/// Where addresses mean something: on the interface for those of the link, else in the VRF. What
/// comes from different customers never meets.
pub fn realm(is_on_link: bool, rx_if: u32, vrf: u32) -> u32 {
    if is_on_link { 1 << 31 | rx_if } else { vrf }
}

/// What became of a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It waits for the others.
    Kept,
    /// With it, the packet in this place is whole.
    Whole(usize),
    /// It is of no use.
    Refused(Drop),
}

/// Memory of one packet: headers, then data.
const SLOT: usize = HEAD + LARGEST;

/// See the module.
pub struct Table {
    /// `None`: the place is free.
    contexts: Vec<Option<Context>>,
    /// Zeroed memory that the system gives page by page, as it is used.
    memory: Box<[u8]>,
    capacity: usize,
    used: usize,
    losses: [(Drop, u64); 2],
}

impl Table {
    /// A table for at most `capacity` packets. What is not used takes no memory.
    pub fn new(capacity: usize) -> Self {
        Self {
            contexts: Vec::with_capacity(capacity),
            memory: vec![0; capacity * SLOT].into_boxed_slice(),
            capacity,
            used: 0,
            losses: [(Drop::FragmentOverlap, 0), (Drop::ReassemblyFull, 0)],
        }
    }

    /// Packets that are being put together.
    pub fn len(&self) -> usize {
        self.used
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// The packet in a place.
    ///
    /// # Panics
    /// When nothing is there: an error of the caller.
    pub fn context(&self, at: usize) -> Context {
        self.contexts[at].expect("the place is taken")
    }

    /// A place whose packet is older than `born`.
    pub fn older_than(&self, born: u64) -> Option<usize> {
        let is_old = |place: &Option<Context>| place.is_some_and(|context| context.born < born);
        if self.used == 0 { None } else { self.contexts.iter().position(is_old) }
    }

    /// Fragments that were given up since the last call, by reason.
    pub fn take_losses(&mut self) -> [(Drop, u64); 2] {
        let losses = self.losses;
        self.losses.iter_mut().for_each(|(_, count)| *count = 0);
        losses
    }

    /// Takes a fragment, with room for so many packets in all and of one source.
    pub fn take(
        &mut self,
        piece: &Piece<'_>,
        now: u64,
        (limit, per_source): (usize, usize),
    ) -> Outcome {
        let end = piece.offset + piece.data.len();
        if piece.data.is_empty() || (piece.more && !piece.data.len().is_multiple_of(8)) {
            return Outcome::Refused(Drop::FragmentMalformed);
        }
        if end > usize::from(u16::MAX) {
            return Outcome::Refused(Drop::FragmentBeyond);
        }
        if end > LARGEST || piece.head.len() > HEAD {
            return Outcome::Refused(Drop::FragmentTooLong);
        }
        let at = match self.find(&piece.key) {
            Some(at) => at,
            None => match self.open(piece, now, (limit, per_source)) {
                Some(at) => at,
                None => return Outcome::Refused(Drop::ReassemblyFull),
            },
        };
        self.put(at, piece)
    }

    fn find(&self, key: &Key) -> Option<usize> {
        self.contexts.iter().position(|place| place.as_ref().is_some_and(|c| c.key == *key))
    }

    fn put(&mut self, at: usize, piece: &Piece<'_>) -> Outcome {
        let Some(Some(context)) = self.contexts.get_mut(at) else {
            return Outcome::Refused(Drop::ReassemblyFull);
        };
        if context.is_poisoned() {
            return Outcome::Refused(Drop::FragmentOverlap);
        }
        let slot = &mut self.memory[at * SLOT..(at + 1) * SLOT];
        let data = HEAD + piece.offset..HEAD + piece.offset + piece.data.len();
        match context.fit(piece) {
            Fit::Fresh => {}
            Fit::Again if slot[data.clone()] == *piece.data => {
                return Outcome::Refused(Drop::FragmentDuplicate);
            }
            Fit::Again | Fit::Overlap => {
                self.losses[0].1 += context.poison();
                return Outcome::Refused(Drop::FragmentOverlap);
            }
        }
        context.note(piece);
        slot[data].copy_from_slice(piece.data);
        if piece.offset == 0 {
            slot[..piece.head.len()].copy_from_slice(piece.head);
        }
        if context.whole().is_some() { Outcome::Whole(at) } else { Outcome::Kept }
    }

    /// A place for a new packet.
    fn open(
        &mut self,
        piece: &Piece<'_>,
        now: u64,
        (limit, per_source): (usize, usize),
    ) -> Option<usize> {
        let limit = limit.min(self.capacity);
        let of_source = |context: &Context| context.key.source == piece.key.source;
        let same = self.contexts.iter().flatten().filter(|context| of_source(context)).count();
        if same >= per_source.max(1) {
            self.push_out(of_source);
        }
        while self.used >= limit.max(1) {
            self.push_out(|_| true);
        }
        let context = Some(Context::new(piece.key, now, piece.rx_if));
        self.used += 1;
        match self.contexts.iter().position(Option::is_none) {
            Some(at) => {
                self.contexts[at] = context;
                Some(at)
            }
            None if self.contexts.len() < self.capacity => {
                // The room was taken when the table was made.
                self.contexts.push(context);
                Some(self.contexts.len() - 1)
            }
            None => {
                self.used -= 1;
                None
            }
        }
    }

    /// Gives up the oldest of some packets.
    fn push_out(&mut self, of: impl Fn(&Context) -> bool) {
        let places = self.contexts.iter().enumerate();
        let known = places.filter_map(|(at, place)| Some((at, place.as_ref()?)));
        let oldest = known.filter(|(_, c)| of(c)).min_by_key(|(_, c)| (!c.is_poisoned(), c.born));
        if let Some((at, context)) = oldest {
            self.losses[1].1 += u64::from(context.fragments());
            self.remove(at);
        }
    }

    /// Frees a place.
    pub fn remove(&mut self, at: usize) {
        if self.contexts.get_mut(at).and_then(Option::take).is_some() {
            self.used -= 1;
        }
    }

    /// Headers and data of the fragment at offset 0, once it came.
    pub fn first_fragment(&self, at: usize) -> Option<(&[u8], &[u8])> {
        let (head, data) = self.contexts.get(at)?.as_ref()?.first()?;
        self.bytes(at, head, data)
    }

    /// Headers of the first fragment and all data of a whole packet.
    pub fn whole(&self, at: usize) -> Option<(&[u8], &[u8])> {
        let context = self.contexts.get(at)?.as_ref()?;
        self.bytes(at, context.first()?.0, context.whole()?)
    }

    fn bytes(&self, at: usize, head: usize, data: usize) -> Option<(&[u8], &[u8])> {
        let slot = self.memory.get(at * SLOT..(at + 1) * SLOT)?;
        Some((slot.get(..head)?, slot.get(HEAD..HEAD + data)?))
    }
}

#[cfg(test)]
mod tests;
