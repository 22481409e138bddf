//! Publication without locks: a writer swaps a pointer, and frees the old value
//! after every worker has passed a quiescent point.
//!
//! A worker passes one per main loop iteration, for the price of one load and one store.
//! While it sleeps it is *offline* and no writer waits for it.

mod slots;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicPtr;

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicU64, Ordering, fence};
pub use slots::Slots;

const OFFLINE: u64 = u64::MAX;

/// The epochs of one writer and its workers.
pub struct Quiescence {
    epoch: AtomicU64,
    observed: Box<[CachePadded<AtomicU64>]>,
}

impl Quiescence {
    /// For so many workers, all offline at first.
    pub fn new(workers: usize) -> Arc<Self> {
        Arc::new(Self {
            epoch: AtomicU64::new(1),
            observed: (0..workers).map(|_| CachePadded::new(AtomicU64::new(OFFLINE))).collect(),
        })
    }

    /// The number of workers.
    pub fn workers(&self) -> usize {
        self.observed.len()
    }

    /// Worker `worker` holds no reference to a published value.
    #[inline(always)]
    pub(crate) fn pass(&self, worker: usize) {
        // Acquire: what was unpublished before the epoch rose is not reachable after this.
        let now = self.epoch.load(Ordering::Acquire);
        self.observed[worker].store(now, Ordering::Release);
    }

    /// The worker begins to read.
    pub(crate) fn online(&self, worker: usize) {
        let now = self.epoch.load(Ordering::Acquire);
        self.observed[worker].store(now, Ordering::SeqCst);
        // Either the writer sees us online, or we see what it published: see `safe`.
        fence(Ordering::SeqCst);
    }

    /// The worker reads nothing until it is online again.
    pub(crate) fn offline(&self, worker: usize) {
        self.observed[worker].store(OFFLINE, Ordering::Release);
    }

    /// Opens a new epoch, to be called after something was unpublished. It may be
    /// freed when [`Self::safe`] has reached the returned epoch.
    pub fn advance(&self) -> u64 {
        self.epoch.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// The epoch that every worker has reached.
    pub fn safe(&self) -> u64 {
        fence(Ordering::SeqCst);
        self.observed
            .iter()
            .map(|observed| observed.load(Ordering::Acquire))
            .min()
            .unwrap_or(OFFLINE)
    }
}

/// Proof that the holder is between two quiescent points of its worker.
pub struct Reader(*const Quiescence);

impl Reader {
    /// # Safety
    /// The holder's worker is online, and the value does not live on when the
    /// worker passes its next quiescent point.
    pub(crate) unsafe fn new(quiescence: &Quiescence) -> Self {
        Self(quiescence)
    }
}

/// A value that workers read and one writer replaces.
pub struct Published<T> {
    current: AtomicPtr<T>,
    quiescence: Arc<Quiescence>,
}

// SAFETY: readers on other threads get `&T` (T: Sync); the value is freed by the writer (T: Send).
unsafe impl<T: Send + Sync> Sync for Published<T> {}
// SAFETY: owns a `T` behind the pointer.
unsafe impl<T: Send> Send for Published<T> {}

impl<T: Send + Sync + 'static> Published<T> {
    /// Publishes the first value to the workers of `quiescence`.
    pub fn new(value: T, quiescence: &Arc<Quiescence>) -> Self {
        let current = AtomicPtr::new(Box::into_raw(Box::new(value)));
        Self { current, quiescence: quiescence.clone() }
    }

    /// The value now, until the reader's next quiescent point.
    ///
    /// # Panics
    /// For a reader of other workers.
    #[inline(always)]
    pub fn read<'r>(&'r self, reader: &'r Reader) -> &'r T {
        assert!(std::ptr::eq(reader.0, Arc::as_ptr(&self.quiescence)), "a foreign reader");
        // SAFETY: the pointer came from a box. The writer frees it only after every
        // worker passed a quiescent point, and `Reader` does not outlive this one's.
        unsafe { &*self.current.load(Ordering::Acquire) }
    }

    /// Replaces the value; the old one goes to `graveyard` until it is safe to free.
    ///
    /// # Panics
    /// For a graveyard of other workers.
    pub fn publish(&self, value: T, graveyard: &mut Graveyard) {
        assert!(Arc::ptr_eq(&self.quiescence, &graveyard.quiescence), "a foreign graveyard");
        let old = self.current.swap(Box::into_raw(Box::new(value)), Ordering::AcqRel);
        graveyard.bury(Buried { value: old.cast(), free: free::<T> });
    }
}

impl<T> Drop for Published<T> {
    fn drop(&mut self) {
        // SAFETY: `&mut self`: there are no readers; the pointer came from a box.
        drop(unsafe { Box::from_raw(*self.current.get_mut()) });
    }
}

/// An unpublished value. It stays a bare pointer until it is freed: a `Box` would
/// assert exclusive access to what readers may still use.
struct Buried {
    value: *mut (),
    free: unsafe fn(*mut ()),
}

// SAFETY: made only by `Published<T>::publish`, where `T: Send`, and by `Slots<T>::set`, where `T: Send + Sync`: what
// is freed on another thread is a `T`, or a count of an `Arc<T>`.
unsafe impl Send for Buried {}

/// # Safety
/// `value` came from a `Box<T>`, and no reader uses it any more.
unsafe fn free<T>(value: *mut ()) {
    // SAFETY: the caller's promise.
    drop(unsafe { Box::from_raw(value.cast::<T>()) });
}

/// What was unpublished and waits until no worker can see it.
pub struct Graveyard {
    quiescence: Arc<Quiescence>,
    buried: VecDeque<(u64, Buried)>,
}

impl Graveyard {
    /// An empty one.
    pub fn new(quiescence: Arc<Quiescence>) -> Self {
        Self { quiescence, buried: VecDeque::new() }
    }

    /// Keeps a value, already unpublished, until it is safe to free.
    fn bury(&mut self, value: Buried) {
        self.buried.push_back((self.quiescence.advance(), value));
    }

    /// Drops what no worker can see any more; returns how much is left.
    pub fn sweep(&mut self) -> usize {
        let safe = self.quiescence.safe();
        while self.buried.front().is_some_and(|(epoch, _)| *epoch <= safe) {
            if let Some((_, buried)) = self.buried.pop_front() {
                // SAFETY: unpublished before its epoch began, and every worker has
                // passed a quiescent point since.
                unsafe { (buried.free)(buried.value) };
            }
        }
        self.buried.len()
    }
}

impl Drop for Graveyard {
    fn drop(&mut self) {
        self.sweep();
        // Readers may still use the rest: leak it rather than free it in use.
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn a_value_lives_until_the_worker_passes() {
        let quiescence = Quiescence::new(1);
        let published = Published::new(vec![1], &quiescence);
        let mut graveyard = Graveyard::new(quiescence.clone());
        quiescence.online(0);
        // SAFETY: worker 0 is online and passes no quiescent point while `reader` lives.
        let reader = unsafe { Reader::new(&quiescence) };
        let observed = published.read(&reader);
        published.publish(vec![2], &mut graveyard);
        assert_eq!(graveyard.sweep(), 1);
        assert_eq!(observed, &[1]);
        quiescence.pass(0);
        assert_eq!(graveyard.sweep(), 0);
        published.publish(vec![3], &mut graveyard);
        assert_eq!(graveyard.sweep(), 1);
        quiescence.offline(0);
        assert_eq!(graveyard.sweep(), 0);
    }

    #[test]
    fn readers_never_see_a_freed_value() {
        let rounds = if cfg!(miri) { 30 } else { 20_000 };
        let quiescence = Quiescence::new(2);
        let published = Arc::new(Published::new([0u64; 4], &quiescence));
        let stop = Arc::new(AtomicBool::new(false));
        let readers: Vec<_> = (0..2)
            .map(|worker| {
                let (quiescence, published, stop) =
                    (quiescence.clone(), published.clone(), stop.clone());
                std::thread::spawn(move || {
                    quiescence.online(worker);
                    while !stop.load(Ordering::Relaxed) {
                        // SAFETY: dropped before `pass` below.
                        let reader = unsafe { Reader::new(&quiescence) };
                        let value = published.read(&reader);
                        assert!(value.iter().all(|word| *word == value[0]));
                        quiescence.pass(worker);
                    }
                    quiescence.offline(worker);
                })
            })
            .collect();
        let mut graveyard = Graveyard::new(quiescence);
        for round in 0..rounds {
            published.publish([round; 4], &mut graveyard);
            graveyard.sweep();
        }
        stop.store(true, Ordering::Relaxed);
        for reader in readers {
            reader.join().unwrap();
        }
        assert_eq!(graveyard.sweep(), 0);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::sync::AtomicU32;
    use loom::sync::Arc;

    /// The value 1 is freed (set to 0) by the writer when it is safe; the reader,
    /// which picks it through the published index, must never see it freed.
    #[test]
    fn nothing_is_freed_under_a_reader() {
        loom::model(|| {
            let quiescence = Arc::new(Quiescence {
                epoch: AtomicU64::new(1),
                observed: Box::new([CachePadded::new(AtomicU64::new(OFFLINE))]),
            });
            let cells = Arc::new([AtomicU32::new(1), AtomicU32::new(1)]);
            let current = Arc::new(AtomicU32::new(0));
            let reader = {
                let (quiescence, cells, current) =
                    (quiescence.clone(), cells.clone(), current.clone());
                loom::thread::spawn(move || {
                    quiescence.online(0);
                    let at = current.load(Ordering::Acquire) as usize;
                    assert_eq!(cells[at].load(Ordering::Relaxed), 1);
                    quiescence.pass(0);
                    let at = current.load(Ordering::Acquire) as usize;
                    assert_eq!(cells[at].load(Ordering::Relaxed), 1);
                    quiescence.offline(0);
                })
            };
            current.store(1, Ordering::Release);
            let epoch = quiescence.advance();
            if quiescence.safe() >= epoch {
                cells[0].store(0, Ordering::Relaxed);
            }
            reader.join().unwrap();
        });
    }
}
