//! Rows that are published one by one: security associations, sessions.

use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::{Buried, Graveyard, Quiescence, Reader};

/// A fixed number of places, each with a row that workers read and one writer replaces, or without one. Whoever writes
/// may keep a row, too.
pub struct Slots<T> {
    rows: Box<[AtomicPtr<T>]>,
    quiescence: Arc<Quiescence>,
}

// SAFETY: readers on other threads get `&T` (T: Sync); a row is freed by whoever drops its last `Arc` (T: Send).
unsafe impl<T: Send + Sync> Sync for Slots<T> {}
// SAFETY: as an `Arc<T>`.
unsafe impl<T: Send + Sync> Send for Slots<T> {}

impl<T: Send + Sync + 'static> Slots<T> {
    /// So many places without rows, for the workers of `quiescence`.
    pub fn new(capacity: usize, quiescence: &Arc<Quiescence>) -> Self {
        let rows = (0..capacity).map(|_| AtomicPtr::default()).collect();
        Self { rows, quiescence: quiescence.clone() }
    }

    /// Whether a place has a row now. It may be another one, or gone, for the next call of [`Self::get`].
    #[inline(always)]
    pub fn has(&self, at: u32) -> bool {
        self.rows.get(at as usize).is_some_and(|row| !row.load(Ordering::Relaxed).is_null())
    }

    /// The row of a place now, until the reader's next quiescent point.
    ///
    /// # Panics
    /// For a reader of other workers.
    #[inline(always)]
    pub fn get<'r>(&'r self, at: u32, reader: &'r Reader) -> Option<&'r T> {
        assert!(std::ptr::eq(reader.0, Arc::as_ptr(&self.quiescence)), "a foreign reader");
        let row = self.rows.get(at as usize)?.load(Ordering::Acquire);
        // SAFETY: the pointer is null or came from an `Arc`, of which the place owns a count. The writer gives it up
        // only after every worker passed a quiescent point, and `Reader` does not outlive this one's.
        unsafe { row.as_ref() }
    }

    /// Replaces or removes the row of a place; the old one goes to `graveyard` until it is safe to free. `false`: there
    /// is no such place.
    ///
    /// # Panics
    /// For a graveyard of other workers.
    pub fn set(&self, at: u32, row: Option<Arc<T>>, graveyard: &mut Graveyard) -> bool {
        assert!(Arc::ptr_eq(&self.quiescence, &graveyard.quiescence), "a foreign graveyard");
        let Some(place) = self.rows.get(at as usize) else { return false };
        let new = row.map_or(std::ptr::null(), Arc::into_raw).cast_mut();
        let old = place.swap(new, Ordering::AcqRel);
        if !old.is_null() {
            graveyard.bury(Buried { value: old.cast(), free: release::<T> });
        }
        true
    }
}

/// # Safety
/// `row` came from an `Arc<T>`, of which the place owned a count, and no reader uses it any more.
unsafe fn release<T>(row: *mut ()) {
    // SAFETY: the caller's promise.
    drop(unsafe { Arc::from_raw(row.cast::<T>()) });
}

impl<T> Drop for Slots<T> {
    fn drop(&mut self) {
        for row in &mut self.rows {
            let row = std::mem::take(row.get_mut());
            if !row.is_null() {
                // SAFETY: `&mut self`: there are no readers; the pointer came from an `Arc`.
                drop(unsafe { Arc::from_raw(row) });
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_row_lives_until_its_readers_have_passed() {
        let quiescence = Quiescence::new(1);
        let mut graveyard = Graveyard::new(quiescence.clone());
        let slots = Slots::new(2, &quiescence);
        let row = Arc::new(7);
        assert!(slots.set(1, Some(row.clone()), &mut graveyard));
        assert!(!slots.set(2, Some(row.clone()), &mut graveyard), "there is no third place");
        assert_eq!([0, 1, 2].map(|at| slots.has(at)), [false, true, false]);
        quiescence.online(0);
        {
            // SAFETY: the worker is online, and passes no quiescent point in this block.
            let reader = unsafe { Reader::new(&quiescence) };
            assert_eq!(slots.get(1, &reader), Some(&7));
            assert!(slots.get(0, &reader).is_none() && slots.get(9, &reader).is_none());
        }
        assert!(slots.set(1, None, &mut graveyard));
        assert_eq!((graveyard.sweep(), Arc::strong_count(&row)), (1, 2));
        quiescence.pass(0);
        assert_eq!((graveyard.sweep(), Arc::strong_count(&row)), (0, 1));
        slots.set(0, Some(row.clone()), &mut graveyard);
        drop(slots);
        assert_eq!(Arc::strong_count(&row), 1);
    }
}
