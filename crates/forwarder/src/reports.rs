//! What workers report to another thread: values of a fixed size, in a ring for each worker. Nobody waits: what finds
//! no room is counted.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stoa_engine::counters::Counter;

/// The end of a worker.
pub struct Reporter<T> {
    ring: rtrb::Producer<T>,
    lost: Arc<Counter>,
}

impl<T> Reporter<T> {
    /// Reports something, or counts it if there is no room; whether there was.
    #[inline]
    pub fn push(&mut self, report: T) -> bool {
        let has_room = self.try_push(report);
        if !has_room {
            self.lost.add(1);
        }
        has_room
    }

    /// Reports something; whether there was room.
    #[inline]
    pub fn try_push(&mut self, report: T) -> bool {
        self.ring.push(report).is_ok()
    }
}

/// The ends of the thread that takes what workers report.
pub struct Reports<T> {
    rings: Mutex<Vec<(rtrb::Consumer<T>, Arc<Counter>)>>,
    room: usize,
}

impl<T> Reports<T> {
    /// With room for so many reports of each worker. Memory that was never used takes no room.
    pub fn new(room: usize) -> Self {
        Self { rings: Mutex::default(), room }
    }

    fn rings(&self) -> MutexGuard<'_, Vec<(rtrb::Consumer<T>, Arc<Counter>)>> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The end of one more worker.
    pub fn writer(&self) -> Reporter<T> {
        let (ring, reader) = rtrb::RingBuffer::new(self.room);
        let lost = Arc::new(Counter::default());
        self.rings().push((reader, lost.clone()));
        Reporter { ring, lost }
    }

    /// Takes what workers have reported, at most as much of each as it has room for; returns how many reports have
    /// found no room so far.
    pub fn drain(&self, mut each: impl FnMut(T)) -> u64 {
        let mut lost = 0;
        for (ring, of_worker) in &mut *self.rings() {
            for _ in 0..self.room {
                let Ok(report) = ring.pop() else { break };
                each(report);
            }
            lost += of_worker.get();
        }
        lost
    }

    /// Reports that have found no room so far.
    pub fn lost(&self) -> u64 {
        self.rings().iter().map(|(_, lost)| lost.get()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_room_is_counted() {
        let reports = Reports::new(8);
        let (mut one, mut other) = (reports.writer(), reports.writer());
        assert_eq!((0..11).filter(|at| one.push(*at)).count(), 8);
        other.push(90);
        let mut taken = Vec::new();
        assert_eq!(reports.drain(|it| taken.push(it)), 3);
        assert_eq!(taken, [0, 1, 2, 3, 4, 5, 6, 7, 90]);
        one.push(20);
        assert_eq!((reports.drain(|it| taken.push(it)), reports.lost()), (3, 3));
        assert_eq!(taken.last(), Some(&20));
    }
}
