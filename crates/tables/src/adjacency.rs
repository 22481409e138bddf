//! Adjacencies: where a packet goes out and the link-layer header that it gets.
//!
//! One adjacency is one 64-byte line, written before its id is published and never changed after
//! (but for the kind, which one aligned store can turn into a drop), so that a worker may read it with
//! plain loads. The header (the *rewrite*) ends at the end of
//! the line: the forwarding node stores its last 14 (Ethernet), 18 or 22 bytes (with VLAN
//! tags) so that they end where the L3 header begins. Whole words may be stored when there are
//! tags; without tags nothing is stored before the frame, which would touch another cache line.
//!
//! ```text
//! word 0  transmit interface (32) | IP MTU (16) | rewrite length (8) | kind (8)
//!         the highest bit of the kind: the interface has output features
//! word 1  context: the owner's data (neighbour, counter; not interpreted)
//! word 2  the line of a rewrite that is longer than SHORT_REWRITE
//! word 3  unused
//! word 4..8  32 bytes that end with the rewrite, in memory order
//! ```
//!
//! A longer rewrite (PPPoE behind two tags, VXLAN) takes one more line of the table, whose 64 bytes
//! end with it. No adjacency has the id of that line.

#[cfg(all(target_arch = "x86_64", not(loom)))]
mod kernel;
mod line;
mod reader;

use std::sync::Arc;

use crate::grace::{Reclaim, Retired};
use crate::sync::{Cells, zeroed};
pub use line::{AdjacencyHead, AdjacencyLine};
pub use reader::AdjacencyReader;

/// The longest rewrite, in bytes: a line. Ethernet with two VLAN tags and PPPoE takes 30, VXLAN over
/// IPv4 with an inner Ethernet header 64.
pub const MAX_REWRITE: usize = 64;
/// The longest rewrite without a line of its own: the forwarding node writes three words before the
/// IP header. Ethernet with two VLAN tags takes 22.
pub const SHORT_REWRITE: usize = 24;
/// 64-bit words that hold the rewrite.
pub const REWRITE_WORDS: usize = 4;
const REWRITE_BYTES: usize = REWRITE_WORDS * 8;
const FIRST_REWRITE_WORD: usize = 4;
const LONG_WORD: usize = 2;

/// A bit of the kind byte: the transmit interface has output features. A node that compares the byte
/// with a kind sends no packet past them.
pub const OUTPUT_FEATURES: u8 = 0x80;

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
    /// Without [`OUTPUT_FEATURES`].
    fn from_bits(bits: u8) -> Self {
        match bits & !OUTPUT_FEATURES {
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
    /// Whether the interface has output features.
    pub has_output_features: bool,
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

/// The 64 bytes that end with the rewrite of an adjacency.
fn rewrite_of(lines: &[AdjacencyLine], line: &AdjacencyLine) -> [u8; MAX_REWRITE] {
    if line.head().rewrite_len() > SHORT_REWRITE {
        // Its writer has stored the id of a line.
        return lines.get(line.long() as usize).map_or([0; MAX_REWRITE], AdjacencyLine::bytes);
    }
    let mut bytes = [0; MAX_REWRITE];
    bytes[MAX_REWRITE - REWRITE_BYTES..].copy_from_slice(&line.rewrite_bytes());
    bytes
}

/// All adjacencies: the writer's side. To change one, add the new one, redirect the next hops that
/// use the old one ([`NextHops::replace_adjacency`](crate::next_hop::NextHops::replace_adjacency))
/// and retire the old one.
#[derive(Debug)]
pub struct Adjacencies {
    lines: Arc<Cells<AdjacencyLine>>,
    is_used: Vec<bool>,
    used: usize,
    /// Ids below this were given out before.
    fresh: u32,
    free: Vec<u32>,
    retired: Retired<u32>,
}

impl Adjacencies {
    /// Space for `capacity` adjacencies (64 bytes each, touched when used); id 0 is one of them. One
    /// with a rewrite longer than [`SHORT_REWRITE`] counts twice.
    pub fn new(capacity: usize) -> Self {
        let capacity = capacity.min(u32::MAX as usize);
        // Without address space there is no line, and each addition is refused.
        let lines = Arc::new(Cells(zeroed(capacity).unwrap_or_default()));
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
        let is_long = adjacency.rewrite.len() > SHORT_REWRITE;
        if self.free.len() + self.lines.len() - (self.fresh as usize) < 1 + usize::from(is_long) {
            return Err(AdjacencyError::Full(self.lines.len()));
        }
        let id = self.take_line();
        let long = is_long.then(|| self.take_line());
        if let Some(long) = long {
            self.lines[long as usize].write_rewrite(&adjacency.rewrite, 0);
        }
        self.lines[id as usize].write(adjacency, long);
        self.is_used[id as usize] = true;
        self.used += 1;
        Ok(id)
    }

    /// Takes one of the free lines, of which there is at least one.
    fn take_line(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.fresh += 1;
            self.fresh - 1
        })
    }

    /// What is stored under an id.
    ///
    /// # Errors
    /// [`AdjacencyError::Absent`].
    pub fn get(&self, id: u32) -> Result<Adjacency, AdjacencyError> {
        self.check(id)?;
        let line = &self.lines[id as usize];
        let head = line.head();
        let start = MAX_REWRITE - head.rewrite_len().min(MAX_REWRITE);
        Ok(Adjacency {
            interface: head.interface(),
            mtu: head.mtu(),
            kind: head.kind(),
            has_output_features: head.has_output_features(),
            context: line.context(),
            rewrite: rewrite_of(&self.lines, line)[start..].to_vec(),
        })
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
        let line = &self.lines[id as usize];
        if line.head().rewrite_len() > SHORT_REWRITE {
            self.retired.push(line.long());
        }
        Ok(())
    }

    /// Has an adjacency drop packets from now on, in its place: for a change that finds no space. All else
    /// of it stays as it is.
    ///
    /// # Errors
    /// [`AdjacencyError::Absent`].
    pub fn set_drop(&mut self, id: u32) -> Result<(), AdjacencyError> {
        self.check(id)?;
        self.lines[id as usize].set_drop();
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
mod tests;
