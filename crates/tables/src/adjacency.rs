//! Adjacencies: where a packet goes out and the link-layer header that it gets.
//!
//! One adjacency is one 64-byte line, written before its id is published and never changed after,
//! so that a worker may read it with plain loads. The header (the *rewrite*) ends at the end of
//! the line: the forwarding node stores its last 14 (Ethernet), 18 or 22 bytes (with VLAN
//! tags) so that they end where the L3 header begins. Whole words may be stored when there are
//! tags; without tags nothing is stored before the frame, which would touch another cache line.
//!
//! ```text
//! word 0  transmit interface (32) | IP MTU (16) | rewrite length (8) | kind (8)
//! word 1  context: the owner's data (neighbour, counter; not interpreted)
//! word 2  unused
//! word 3  unused
//! word 4..8  32 bytes that end with the rewrite, in memory order
//! ```

use core::sync::atomic::Ordering;
use std::sync::Arc;

use crate::grace::{Reclaim, Retired};
use crate::sync::AtomicU64;

/// The longest rewrite, in bytes: the forwarding node writes three words before the IP header.
/// Ethernet with two VLAN tags takes 22.
pub const MAX_REWRITE: usize = 24;
/// 64-bit words that hold the rewrite.
pub const REWRITE_WORDS: usize = 4;
const REWRITE_BYTES: usize = REWRITE_WORDS * 8;
const FIRST_REWRITE_WORD: usize = 4;

/// What a packet that meets an adjacency is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum AdjacencyKind {
    /// There is no such adjacency (an id that was never given out).
    Absent = 0,
    /// The rewrite is known: send.
    Complete = 1,
    /// The neighbour is not resolved yet: hold the packet and resolve it.
    Incomplete = 2,
    /// A subnet of an interface: the destination itself is the neighbour to resolve.
    Glean = 3,
    /// Drop.
    Drop = 4,
    /// A tunnel: the packet goes into another one first.
    Tunnel = 5,
}

impl AdjacencyKind {
    fn from_bits(bits: u8) -> Self {
        match bits {
            1 => Self::Complete,
            2 => Self::Incomplete,
            3 => Self::Glean,
            4 => Self::Drop,
            5 => Self::Tunnel,
            _ => Self::Absent,
        }
    }
}

/// An adjacency as it is given to the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adjacency {
    /// Interface to transmit on.
    pub interface: u32,
    /// Longest IP packet in bytes.
    pub mtu: u16,
    /// What to do.
    pub kind: AdjacencyKind,
    /// The owner's word, not interpreted.
    pub context: u64,
    /// The link-layer header, at most [`MAX_REWRITE`] bytes.
    pub rewrite: Vec<u8>,
}

/// Why a table of adjacencies refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdjacencyError {
    /// Every line is in use or waits for its grace period.
    #[error("no space: all {0} adjacencies are in use; raise the table's capacity")]
    Full(usize),
    /// The link-layer header is longer than [`MAX_REWRITE`].
    #[error("a link-layer header of {0} bytes is too long; at most {MAX_REWRITE} fit")]
    RewriteTooLong(usize),
    /// [`AdjacencyKind::Absent`] was to be added.
    #[error("an adjacency needs a kind")]
    NoKind,
    /// No adjacency has this id.
    #[error("there is no adjacency {0}")]
    Absent(u32),
}

/// One adjacency in shared memory; see the [module](self) for the words.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct AdjacencyLine([AtomicU64; 8]);

#[cfg(not(loom))]
const _: () = assert!(size_of::<AdjacencyLine>() == 64 && align_of::<AdjacencyLine>() == 64);

/// The first word of a line, unpacked for free: all a node needs to decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdjacencyHead(u64);

impl AdjacencyHead {
    /// Interface to transmit on.
    #[inline(always)]
    pub fn interface(self) -> u32 {
        self.0 as u32
    }

    /// Longest IP packet in bytes.
    #[inline(always)]
    pub fn mtu(self) -> u16 {
        (self.0 >> 32) as u16
    }

    /// Bytes of rewrite, 0 to [`MAX_REWRITE`].
    #[inline(always)]
    pub fn rewrite_len(self) -> usize {
        usize::from((self.0 >> 48) as u8)
    }

    /// What to do.
    #[inline(always)]
    pub fn kind(self) -> AdjacencyKind {
        AdjacencyKind::from_bits((self.0 >> 56) as u8)
    }

    /// Whether the packet can be sent as it is: one comparison.
    #[inline(always)]
    pub fn is_complete(self) -> bool {
        self.0 >> 56 == AdjacencyKind::Complete as u64
    }
}

impl AdjacencyLine {
    /// Interface, MTU, length and kind: one load.
    #[inline(always)]
    pub fn head(&self) -> AdjacencyHead {
        AdjacencyHead(self.0[0].load(Ordering::Relaxed))
    }

    /// The owner's word.
    #[inline(always)]
    pub fn context(&self) -> u64 {
        self.0[1].load(Ordering::Relaxed)
    }

    /// Word `index` (0..4) of the 32 bytes that end with the rewrite. Its `to_ne_bytes` belong
    /// `32 - 8 * index` bytes before the L3 header; words 2 and 3 cover Ethernet without tags.
    #[inline(always)]
    pub fn rewrite_word(&self, index: usize) -> u64 {
        self.0[FIRST_REWRITE_WORD + index % REWRITE_WORDS].load(Ordering::Relaxed)
    }

    /// The 32 bytes that end with the rewrite.
    #[inline(always)]
    pub fn rewrite_bytes(&self) -> [u8; REWRITE_BYTES] {
        let mut bytes = [0; REWRITE_BYTES];
        for (index, chunk) in bytes.chunks_exact_mut(8).enumerate() {
            chunk.copy_from_slice(&self.rewrite_word(index).to_ne_bytes());
        }
        bytes
    }

    /// The whole adjacency, for display; not for the fast path.
    pub fn to_adjacency(&self) -> Adjacency {
        let head = self.head();
        let start = REWRITE_BYTES - head.rewrite_len().min(REWRITE_BYTES);
        Adjacency {
            interface: head.interface(),
            mtu: head.mtu(),
            kind: head.kind(),
            context: self.context(),
            rewrite: self.rewrite_bytes()[start..].to_vec(),
        }
    }

    fn write(&self, adjacency: &Adjacency) {
        let mut bytes = [0; REWRITE_BYTES];
        bytes[REWRITE_BYTES - adjacency.rewrite.len()..].copy_from_slice(&adjacency.rewrite);
        for (word, chunk) in self.0[FIRST_REWRITE_WORD..].iter().zip(bytes.as_chunks::<8>().0) {
            word.store(u64::from_ne_bytes(*chunk), Ordering::Relaxed);
        }
        self.0[1].store(adjacency.context, Ordering::Relaxed);
        let head = u64::from(adjacency.interface)
            | u64::from(adjacency.mtu) << 32
            | (adjacency.rewrite.len() as u64) << 48
            | (adjacency.kind as u64) << 56;
        self.0[0].store(head, Ordering::Release);
    }
}

/// Adjacencies as workers read them. Cheap to clone; give one to each worker.
#[derive(Clone, Debug)]
pub struct AdjacencyReader(Arc<[AdjacencyLine]>);

impl AdjacencyReader {
    /// The line of an id; `None` when the id is beyond the table. The id must come from a word
    /// that was published after the adjacency was added (a next hop), and be used no longer than
    /// until the next quiescent point.
    #[inline(always)]
    pub fn get(&self, id: u32) -> Option<&AdjacencyLine> {
        self.0.get(id as usize)
    }

    /// All lines, for kernels that index themselves.
    #[inline(always)]
    pub fn lines(&self) -> &[AdjacencyLine] {
        &self.0
    }
}

/// All adjacencies: the writer's side. To change one, add the new one, redirect the next hops that
/// use the old one ([`NextHops::replace_adjacency`](crate::next_hop::NextHops::replace_adjacency))
/// and retire the old one.
#[derive(Debug)]
pub struct Adjacencies {
    lines: Arc<[AdjacencyLine]>,
    is_used: Vec<bool>,
    used: usize,
    /// Ids below this were given out before.
    fresh: u32,
    free: Vec<u32>,
    retired: Retired<u32>,
}

impl Adjacencies {
    /// Space for `capacity` adjacencies (64 bytes each, touched at once); id 0 is one of them.
    pub fn new(capacity: usize) -> Self {
        let capacity = capacity.min(u32::MAX as usize);
        let lines = (0..capacity).map(|_| AdjacencyLine::default()).collect();
        Self {
            lines,
            is_used: vec![false; capacity],
            used: 0,
            fresh: 0,
            free: Vec::new(),
            retired: Retired::new(),
        }
    }

    /// A reader for a worker.
    pub fn reader(&self) -> AdjacencyReader {
        AdjacencyReader(Arc::clone(&self.lines))
    }

    /// Adjacencies in use.
    pub fn len(&self) -> usize {
        self.used
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// The greatest number of adjacencies.
    pub fn capacity(&self) -> usize {
        self.lines.len()
    }

    /// Writes an adjacency and gives its id, which may then be published in a next hop.
    ///
    /// # Errors
    /// [`AdjacencyError::Full`], [`AdjacencyError::RewriteTooLong`], [`AdjacencyError::NoKind`].
    pub fn add(&mut self, adjacency: &Adjacency) -> Result<u32, AdjacencyError> {
        if adjacency.rewrite.len() > MAX_REWRITE {
            return Err(AdjacencyError::RewriteTooLong(adjacency.rewrite.len()));
        }
        if adjacency.kind == AdjacencyKind::Absent {
            return Err(AdjacencyError::NoKind);
        }
        let id = match self.free.pop() {
            Some(id) => id,
            None if (self.fresh as usize) < self.lines.len() => {
                self.fresh += 1;
                self.fresh - 1
            }
            None => return Err(AdjacencyError::Full(self.lines.len())),
        };
        self.lines[id as usize].write(adjacency);
        self.is_used[id as usize] = true;
        self.used += 1;
        Ok(id)
    }

    /// What is stored under an id.
    ///
    /// # Errors
    /// [`AdjacencyError::Absent`].
    pub fn get(&self, id: u32) -> Result<Adjacency, AdjacencyError> {
        self.check(id)?;
        Ok(self.lines[id as usize].to_adjacency())
    }

    /// Takes an adjacency that no next hop names any more out of use; its line stays readable
    /// until its grace period is over.
    ///
    /// # Errors
    /// [`AdjacencyError::Absent`].
    pub fn retire(&mut self, id: u32) -> Result<(), AdjacencyError> {
        self.check(id)?;
        self.is_used[id as usize] = false;
        self.used -= 1;
        self.retired.push(id);
        Ok(())
    }

    fn check(&self, id: u32) -> Result<(), AdjacencyError> {
        match self.is_used.get(id as usize) {
            Some(true) => Ok(()),
            _ => Err(AdjacencyError::Absent(id)),
        }
    }
}

impl Reclaim for Adjacencies {
    fn retire_mark(&mut self, epoch: u64) {
        self.retired.mark(epoch);
    }

    fn reclaim(&mut self, safe_epoch: u64) {
        while let Some(id) = self.retired.pop_safe(safe_epoch) {
            self.free.push(id);
        }
    }

    fn pending(&self) -> usize {
        self.retired.len()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn ethernet(last: u8, len: usize) -> Adjacency {
        Adjacency {
            interface: 7,
            mtu: 1500,
            kind: AdjacencyKind::Complete,
            context: 0xfeed,
            rewrite: (0..len).map(|at| if at + 1 == len { last } else { at as u8 + 1 }).collect(),
        }
    }

    #[test]
    fn the_rewrite_ends_at_the_end_of_the_line() {
        for len in 0..=MAX_REWRITE {
            let mut table = Adjacencies::new(2);
            let id = table.add(&ethernet(0xee, len)).unwrap();
            assert_eq!(table.get(id), Ok(ethernet(0xee, len)));
            let reader = table.reader();
            let line = reader.get(id).unwrap();
            assert!(line.head().is_complete());
            assert_eq!(line.head().rewrite_len(), len);
            assert_eq!(line.context(), 0xfeed);
            if len > 0 {
                assert_eq!(line.rewrite_word(3).to_ne_bytes()[7], 0xee);
            }
            assert!(line.rewrite_bytes()[..32 - len].iter().all(|&byte| byte == 0));
        }
    }

    #[test]
    fn limits_are_named_and_lines_wait_for_their_grace_period() {
        let mut table = Adjacencies::new(2);
        assert_eq!(
            table.add(&ethernet(1, MAX_REWRITE + 1)),
            Err(AdjacencyError::RewriteTooLong(MAX_REWRITE + 1))
        );
        let absent = Adjacency { kind: AdjacencyKind::Absent, ..ethernet(1, 14) };
        assert_eq!(table.add(&absent), Err(AdjacencyError::NoKind));
        let first = table.add(&ethernet(1, 14)).unwrap();
        let second = table.add(&ethernet(2, 14)).unwrap();
        assert_eq!(table.add(&ethernet(3, 14)), Err(AdjacencyError::Full(2)));
        table.retire(first).unwrap();
        assert_eq!(table.retire(first), Err(AdjacencyError::Absent(first)));
        assert_eq!(table.retire(99), Err(AdjacencyError::Absent(99)));
        assert_eq!(table.add(&ethernet(3, 14)), Err(AdjacencyError::Full(2)));
        assert!(table.reader().get(first).unwrap().head().is_complete(), "still readable");
        table.retire_mark(1);
        table.reclaim(0);
        assert_eq!(table.pending(), 1);
        table.reclaim(1);
        assert_eq!(table.add(&ethernet(3, 14)), Ok(first));
        assert_eq!(table.get(second).unwrap().rewrite[13], 2);
        assert_eq!(table.len(), 2);
        assert!(table.reader().get(2).is_none());
    }
}
