//! What is known of one packet of which fragments have come.

use super::{Key, Piece, RANGES, Refusal};

/// States of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State<V> {
    Free,
    Waiting(u8),
    Known(V),
    Poisoned,
    /// All of the packet has passed. Such an entry does not count for its source.
    Complete(V),
}

impl<V> State<V> {
    pub(super) const fn is_counted(&self) -> bool {
        !matches!(self, Self::Free | Self::Complete(_))
    }
}

/// What is known of one packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<V> {
    pub(super) key: Key,
    /// When it was made, or complete.
    pub(super) born: u64,
    pub(super) state: State<V>,
    /// What has passed, in order and apart from each other; the first `count` are in use.
    pub(super) ranges: [(u16, u16); RANGES],
    pub(super) count: u8,
    /// The end of the packet; 0: not known.
    pub(super) end: u16,
    pub(super) source: u32,
}

impl<V> Entry<V> {
    /// Notes what a fragment covers.
    pub(super) fn note(&mut self, piece: Piece) -> Result<(), Refusal> {
        let Piece { start, end, is_last } = piece;
        if matches!(self.state, State::Poisoned | State::Complete(_)) {
            return Err(Refusal::Overlap);
        }
        let used = usize::from(self.count);
        let ranges = &mut self.ranges[..used];
        if ranges.iter().any(|range| range.0 <= start && end <= range.1) {
            // A repetition, as far as can be seen.
            return Err(Refusal::Overlap);
        }
        if ranges.iter().any(|range| start < range.1 && range.0 < end) {
            self.state = State::Poisoned;
            return Err(Refusal::Overlap);
        }
        let covered = ranges.last().map_or(0, |range| range.1);
        let is_beyond = self.end != 0 && (end > self.end || is_last);
        if is_beyond || is_last && end < covered {
            self.state = State::Poisoned;
            return Err(Refusal::BadRange);
        }
        self.insert(start, end)?;
        self.end = if is_last { end } else { self.end };
        Ok(())
    }

    /// Adds a range that overlaps none, and joins those that touch.
    fn insert(&mut self, start: u16, end: u16) -> Result<(), Refusal> {
        let used = usize::from(self.count);
        let at = self.ranges[..used].iter().position(|range| range.0 > start).unwrap_or(used);
        let joins_left = at > 0 && self.ranges[at - 1].1 == start;
        let joins_right = at < used && self.ranges[at].0 == end;
        match (joins_left, joins_right) {
            (true, true) => {
                self.ranges[at - 1].1 = self.ranges[at].1;
                self.ranges.copy_within(at + 1..used, at);
                self.count -= 1;
            }
            (true, false) => self.ranges[at - 1].1 = end,
            (false, true) => self.ranges[at].0 = start,
            (false, false) if used == RANGES && start == 0 => {
                // Those behind it would follow, and nobody could see whether they overlap it.
                self.state = State::Poisoned;
                return Err(Refusal::Overlap);
            }
            (false, false) if used == RANGES => return Err(Refusal::Scattered),
            (false, false) => {
                self.ranges.copy_within(at..used, at + 1);
                self.ranges[at] = (start, end);
                self.count += 1;
            }
        }
        Ok(())
    }
}
