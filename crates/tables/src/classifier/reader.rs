//! Look-ups while a writer changes the rules, and the scalar kernel.

use std::sync::Arc;

use super::arena::Arena;
use super::build::VISITS;
use super::columns::{Ip4Columns, Ip6Columns};
use super::layout::{LINE, NO_ENTRY, Word, block_lines};
use super::pattern::{Family, IP4, IP6};
use super::{BLOCK, LANES};
use crate::lpm::Kernel;

/// Look-ups in a [`Classifier`](super::Classifier). Cheap to clone; give one to each worker.
///
/// A worker may use an id until its next quiescent point; see [`crate::grace`].
#[derive(Clone, Debug)]
pub struct ClassifierReader {
    arena: Arc<Arena>,
    kernel: Kernel,
}

impl ClassifierReader {
    pub(super) fn new(arena: Arc<Arena>) -> Self {
        Self { arena, kernel: Kernel::detect() }
    }

    /// This reader with another kernel; `None` when the machine lacks it.
    pub fn with_kernel(mut self, kernel: Kernel) -> Option<Self> {
        self.kernel = kernel;
        kernel.is_available().then_some(self)
    }

    /// Classifies the first `lanes` (at most 64) of IPv4 packets: `ids` has the id of the first rule
    /// that each meets, or [`NO_RULE`](super::NO_RULE). All lanes see the rules of one publication.
    #[inline]
    pub fn lookup_ip4(&self, keys: &Ip4Columns, lanes: usize, ids: &mut [u32; LANES]) {
        let (root, lanes) = (self.arena.root(0), lanes.min(LANES));
        match self.kernel {
            #[cfg(all(target_arch = "x86_64", not(loom)))]
            Kernel::Avx512 | Kernel::Avx2 => {
                super::avx2_kernel::lookup_ip4(&self.arena, root, &keys.0, lanes, ids);
            }
            _ => lookup_scalar(&self.arena, &IP4, root, &keys.0, &mut ids[..lanes]),
        }
    }

    /// The same for IPv6 packets.
    #[inline]
    pub fn lookup_ip6(&self, keys: &Ip6Columns, lanes: usize, ids: &mut [u32; LANES]) {
        let (root, lanes) = (self.arena.root(1), lanes.min(LANES));
        match self.kernel {
            #[cfg(all(target_arch = "x86_64", not(loom)))]
            Kernel::Avx512 | Kernel::Avx2 => {
                super::avx2_kernel::lookup_ip6(&self.arena, root, &keys.0, lanes, ids);
            }
            _ => lookup_scalar(&self.arena, &IP6, root, &keys.0, &mut ids[..lanes]),
        }
    }
}

/// The scalar kernel: one lane after the other.
pub(super) fn lookup_scalar(
    arena: &Arena,
    family: &Family,
    root: Word,
    keys: &[[u32; LANES]],
    ids: &mut [u32],
) {
    for (lane, id) in ids.iter_mut().enumerate() {
        // The id is the lower half of an entry; that of no entry is `NO_RULE`.
        *id = find(arena, family, root, |word| keys[word][lane]) as u32;
    }
}

/// The first entry that a key meets.
fn find(arena: &Arena, family: &Family, root: Word, key: impl Fn(usize) -> u32) -> u64 {
    let mut best = NO_ENTRY;
    // The positions of nodes whose spills are left to visit.
    let (mut spills, mut left) = ([0; VISITS as usize], 0);
    let mut word = root;
    loop {
        while word.is_node() {
            if word.has_spill() {
                debug_assert!(left < spills.len());
                spills[left % spills.len()] = word.header();
                left += 1;
            }
            word = Word(arena.get(word.child(&key)));
        }
        while word.is_leaf() {
            let lines = block_lines(family, word.is_extended());
            let found = find_in_block(arena, family, word.position(), lines, &key);
            best = best.min(found);
            word = if found == NO_ENTRY { word.after_block(lines) } else { Word::EMPTY };
        }
        loop {
            if left == 0 {
                return best;
            }
            left -= 1;
            let header = spills[left % spills.len()];
            if arena.get(header + 1) < best {
                word = Word(arena.get(header));
                break;
            }
        }
    }
}

/// The first entry in a block that a key meets.
fn find_in_block(
    arena: &Arena,
    family: &Family,
    block: usize,
    lines: usize,
    key: &impl Fn(usize) -> u32,
) -> u64 {
    let meets = |lane: &usize| {
        (0..lines - 1).all(|word| {
            let (value, mask) = arena.pattern_word(block, word, *lane);
            family.matches(word, (value, mask), key(word))
        })
    };
    let found = (0..BLOCK).find(meets);
    found.map_or(NO_ENTRY, |lane| arena.get(block + (lines - 1) * LINE + lane))
}
