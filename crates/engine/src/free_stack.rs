//! The pool's common stock of free buffers: a lock-free stack that gives and
//! takes whole batches with one compare-and-swap.
//!
//! The stack is intrusive: `next[i]` is the buffer below buffer `i`. The head is
//! one word, `tag << 32 | index`; every change raises the tag, so a walker that
//! read stale links fails its compare-and-swap and walks again.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

const NIL: u32 = u32::MAX;

/// A stack of buffer ids `0..capacity`, shared by all threads.
pub struct FreeStack {
    head: AtomicU64,
    next: Box<[AtomicU32]>,
    depth: AtomicU64,
}

impl FreeStack {
    /// A stack that holds nothing yet and has space for ids below `capacity`.
    pub fn new(capacity: u32) -> Self {
        Self {
            head: AtomicU64::new(u64::from(NIL)),
            next: (0..capacity).map(|_| AtomicU32::new(NIL)).collect(),
            depth: AtomicU64::new(0),
        }
    }

    /// Ids that lie in the stack. Exact only while no thread moves any.
    pub fn len(&self) -> u64 {
        self.depth.load(Ordering::Relaxed)
    }

    /// Whether nothing is free (see [`Self::len`]).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts `ids` on the stack. The caller owns each of them, once.
    pub(crate) fn give(&self, ids: &[u32]) {
        let (Some(&first), Some(&last)) = (ids.first(), ids.last()) else { return };
        for pair in ids.windows(2) {
            self.next[pair[0] as usize].store(pair[1], Ordering::Relaxed);
        }
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            self.next[last as usize].store(head as u32, Ordering::Relaxed);
            let new = (head >> 32).wrapping_add(1) << 32 | u64::from(first);
            // Release: the thread that takes these ids sees the links, and all that the
            // giver wrote into the buffers.
            match self.head.compare_exchange_weak(head, new, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => head = now,
            }
        }
        self.depth.fetch_add(ids.len() as u64, Ordering::Relaxed);
    }

    /// Takes up to `out.len()` ids; returns how many. The caller owns them.
    pub(crate) fn take(&self, out: &mut [u32]) -> usize {
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            let mut at = head as u32;
            let mut taken = 0;
            while at != NIL && taken < out.len() {
                out[taken] = at;
                taken += 1;
                at = self.next[at as usize].load(Ordering::Relaxed);
            }
            if taken == 0 {
                return 0;
            }
            let new = (head >> 32).wrapping_add(1) << 32 | u64::from(at);
            match self.head.compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    self.depth.fetch_sub(taken as u64, Ordering::Relaxed);
                    return taken;
                }
                Err(now) => head = now,
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn gives_back_what_was_put_in() {
        let stack = FreeStack::new(10);
        stack.give(&[1, 2, 3]);
        stack.give(&[7]);
        assert_eq!(stack.len(), 4);
        let mut out = [0; 8];
        assert_eq!(stack.take(&mut out), 4);
        let mut got = out[..4].to_vec();
        got.sort_unstable();
        assert_eq!(got, [1, 2, 3, 7]);
        assert_eq!(stack.take(&mut out), 0);
    }

    #[test]
    fn no_id_is_owned_twice_by_threads() {
        const IDS: u32 = if cfg!(miri) { 16 } else { 1024 };
        const ROUNDS: usize = if cfg!(miri) { 20 } else { 20_000 };
        let stack = Arc::new(FreeStack::new(IDS));
        let owners: Arc<Vec<AtomicU32>> = Arc::new((0..IDS).map(|_| AtomicU32::new(0)).collect());
        stack.give(&(0..IDS).collect::<Vec<_>>());
        let threads: Vec<_> = (0..3)
            .map(|seed| {
                let (stack, owners) = (stack.clone(), owners.clone());
                std::thread::spawn(move || {
                    let mut out = [0; 7];
                    for round in 0..ROUNDS {
                        let n = stack.take(&mut out[..1 + (round + seed) % 7]);
                        for id in &out[..n] {
                            assert_eq!(owners[*id as usize].swap(1, Ordering::Relaxed), 0);
                        }
                        for id in &out[..n] {
                            owners[*id as usize].store(0, Ordering::Relaxed);
                        }
                        stack.give(&out[..n]);
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(stack.len(), u64::from(IDS));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;

    #[test]
    fn two_threads_never_hold_the_same_id() {
        loom::model(|| {
            let stack = Arc::new(FreeStack::new(3));
            let owned = Arc::new([AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0)]);
            stack.give(&[0, 1, 2]);
            let run = |count: usize| {
                let (stack, owned) = (stack.clone(), owned.clone());
                move || {
                    let mut out = [0; 2];
                    let n = stack.take(&mut out[..count]);
                    for id in &out[..n] {
                        assert_eq!(owned[*id as usize].fetch_add(1, Ordering::Relaxed), 0);
                    }
                    for id in &out[..n] {
                        owned[*id as usize].fetch_sub(1, Ordering::Relaxed);
                    }
                    stack.give(&out[..n]);
                }
            };
            let one = loom::thread::spawn(run(2));
            let two = loom::thread::spawn(run(1));
            one.join().unwrap();
            two.join().unwrap();
            let mut out = [0; 4];
            assert_eq!(stack.take(&mut out), 3);
        });
    }
}
