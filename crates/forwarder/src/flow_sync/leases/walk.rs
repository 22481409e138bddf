//! Reads leases in turns, and puts what the partner does not know yet into frames.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::{LEAST, Leases, Posted, Work};
use crate::flow_sync::message::{self, Lease};
use crate::flow_sync::walk::Moment;
use crate::pcp::lease::Key;

/// Leases that a turn looks at.
const SLICE: usize = 1_024;

/// What the partner knows of a lease.
#[derive(Clone, Copy)]
struct Sent {
    /// The bulk, by its number, that has looked at it.
    round: u8,
    /// As what it was posted.
    version: u32,
    /// It was standby: its end is that of the partner.
    is_standby: bool,
}

/// What is due about a lease.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Due {
    Nothing,
    /// Nothing is sent: the partner has it.
    Note,
    /// The partner keeps what it has.
    Known,
    Record,
}

/// What a turn has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Leases that were sent, with those that hosts have ended.
    pub leases: u64,
    /// Whether a walk over all leases has ended.
    pub is_done: bool,
}

/// The walk over all leases.
#[derive(Default)]
pub struct LeaseWalk {
    /// Where the next turn begins; `None`: at the first lease.
    next: Option<Key>,
    round: u8,
    sent: BTreeMap<Key, Sent>,
}

impl LeaseWalk {
    /// The partner knows nothing.
    pub fn restart(&mut self) {
        *self = Self::default();
    }

    /// All leases are to be sent once more, by another bulk. What the partner knows stays known.
    pub fn begin_again(&mut self) {
        (self.next, self.round) = (None, self.round.wrapping_add(1));
    }

    fn due(&self, key: &Key, (version, lease): (u32, &Posted), moment: Moment<'_>) -> Due {
        let sent = self.sent.get(key);
        let is_new = sent.is_none_or(|it| moment.is_bulk && it.round != self.round);
        let is_changed = sent.is_none_or(|it| it.version != version);
        match lease.named {
            None if is_new || is_changed || sent.is_some_and(|it| it.is_standby) => Due::Record,
            None => Due::Nothing,
            Some(_) if is_new && moment.is_bulk && moment.has_standby => Due::Record,
            Some(named) => {
                let is_theirs = named.is_theirs && named.connection == moment.connection;
                if is_new && moment.is_bulk && !is_theirs {
                    Due::Known
                } else if is_new || is_changed {
                    Due::Note
                } else {
                    Due::Nothing
                }
            }
        }
    }

    /// Looks at a slice of the leases, as long as there is room in the queue.
    pub fn turn(
        &mut self,
        leases: &Leases,
        moment: Moment<'_>,
        mut has_room: impl FnMut(&mut Vec<u8>) -> bool,
        to: &mut Vec<u8>,
    ) -> Turn {
        let (mut turn, board) = (Turn::default(), leases.board());
        let first = self.next.map_or(Bound::Unbounded, Bound::Included);
        let mut last = Bound::Unbounded;
        for (at, (key, (version, lease))) in board.all.range((first, Bound::Unbounded)).enumerate()
        {
            if at == SLICE || !has_room(to) {
                (last, self.next) = (Bound::Excluded(*key), Some(*key));
                break;
            }
            let named = lease.named;
            if moment.is_swept && named.is_some_and(|it| it.connection != moment.connection) {
                // If there is no room, the next walk does it.
                leases.hand(Work::Sweep(*key, moment.connection), LEAST);
            }
            let due = self.due(key, (*version, lease), moment);
            match due {
                Due::Nothing => continue,
                Due::Note => {}
                Due::Known => message::put_known_lease(key, to),
                Due::Record => {
                    let terms = lease.terms.clone();
                    let lease = Lease { key: *key, terms, is_standby: named.is_some() };
                    message::put_lease(&lease, moment.now, to);
                    turn.leases += 1;
                }
            }
            let is_standby = named.is_some();
            self.sent.insert(*key, Sent { round: self.round, version: *version, is_standby });
        }
        let gone: Vec<Key> = self
            .sent
            .range((first, last))
            .map(|(key, _)| *key)
            .filter(|key| !board.all.contains_key(key))
            .collect();
        for key in gone {
            if !has_room(to) {
                // The next walk finds the others.
                return turn;
            }
            let was_standby = self.sent.remove(&key).is_some_and(|it| it.is_standby);
            if !was_standby {
                message::put_lease_end(&key, to);
            }
        }
        turn.is_done = last == Bound::Unbounded;
        if turn.is_done {
            self.next = None;
        }
        turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow_sync::leases::Named;
    use crate::flow_sync::leases::tests::{key, terms};
    use crate::flow_sync::message::{Item, read};

    const NOW: u32 = 1_500;
    const NUMBER: u32 = 3;

    fn posted(port: u16, named: Option<Named>) -> Posted {
        Posted { terms: terms(port), named, is_ended: false }
    }

    fn named(connection: u32, is_theirs: bool) -> Option<Named> {
        Some(Named { connection, is_theirs })
    }

    struct Lab {
        leases: Leases,
        walk: LeaseWalk,
    }

    impl Lab {
        fn new(all: &[(u16, Option<Named>)]) -> Self {
            let leases = Leases::default();
            leases.set_used(true);
            all.iter().for_each(|(port, named)| leases.post(key(*port), posted(*port, *named)));
            Self { leases, walk: LeaseWalk::default() }
        }

        /// What a walk over all leases sends.
        fn walk(&mut self, change: impl Fn(&mut Moment<'_>)) -> Vec<Item> {
            let mut moment = Moment {
                now: NOW,
                age_s: 5,
                is_bulk: false,
                has_standby: false,
                connection: NUMBER,
                is_swept: false,
                timeouts: &[0; 256],
            };
            change(&mut moment);
            let (mut sent, mut items) = (Vec::new(), Vec::new());
            while !self.walk.turn(&self.leases, moment, |_| true, &mut sent).is_done {}
            read(&sent, NOW, |item| items.push(item)).unwrap();
            items
        }

        fn sends(&mut self) -> Vec<Item> {
            self.walk(|_| {})
        }
    }

    /// Ports of leases that are sent, and whether they are standby.
    fn records(items: &[Item]) -> Vec<(u16, bool)> {
        let of = |item: &Item| match item {
            Item::Lease(it) => (it.key.port, it.is_standby),
            other => panic!("{other:?}"),
        };
        items.iter().map(of).collect()
    }

    #[test]
    fn leases_are_sent_when_they_change_and_when_they_end() {
        let mut lab = Lab::new(&[(1, None), (2, None), (3, named(NUMBER, true))]);
        assert_eq!(records(&lab.sends()), [(1, false), (2, false)]);
        assert_eq!(lab.sends(), []);
        let mut renewed = posted(1, None);
        renewed.terms.end += 600;
        lab.leases.post(key(1), renewed);
        assert_eq!(records(&lab.sends()), [(1, false)]);
        [1, 3].iter().for_each(|port| lab.leases.remove(&key(*port)));
        assert_eq!(lab.sends(), [Item::LeaseEnd(key(1))], "the end of a standby one is theirs");
        // The host asks here now, and then there.
        lab.leases.post(key(2), posted(2, named(NUMBER, true)));
        assert_eq!(lab.sends(), []);
        lab.leases.post(key(2), posted(2, None));
        assert_eq!(records(&lab.sends()), [(2, false)]);
    }

    #[test]
    fn a_bulk_sends_own_leases_and_names_those_that_may_be_standby_at_both() {
        let theirs = named(NUMBER, true);
        let mut lab = Lab::new(&[(1, None), (2, named(NUMBER - 1, true)), (3, theirs)]);
        lab.leases.post(key(4), posted(4, named(NUMBER, false)));
        let items = lab.walk(|it| it.is_bulk = true);
        assert_eq!(records(&items[..1]), [(1, false)]);
        assert_eq!(items[1..], [2, 4].map(|port| Item::KnownLease(key(port))));
        lab.walk.begin_again();
        let items = lab.walk(|it| (it.is_bulk, it.has_standby) = (true, true));
        assert_eq!(records(&items), [(1, false), (2, true), (3, true), (4, true)]);
        assert_eq!(lab.walk(|it| (it.is_bulk, it.has_standby) = (true, true)), []);
    }

    #[test]
    fn what_the_partner_has_not_named_is_swept() {
        let all = [(1, None), (2, named(NUMBER - 1, true)), (3, named(NUMBER, false))];
        let mut lab = Lab::new(&all);
        lab.walk(|it| it.is_swept = true);
        assert_eq!(lab.leases.take(), Some(Work::Sweep(key(2), NUMBER)));
        assert_eq!(lab.leases.take(), None);
    }

    #[test]
    fn a_slow_partner_gets_all_in_parts() {
        let all: Vec<_> = (1..3_000).map(|port| (port, None)).collect();
        let mut lab = Lab::new(&all);
        let moment = Moment {
            now: NOW,
            age_s: 5,
            is_bulk: true,
            has_standby: false,
            connection: NUMBER,
            is_swept: false,
            timeouts: &[0; 256],
        };
        let (mut sent, mut turns) = (Vec::new(), 0);
        loop {
            let mut room = 500;
            let has_room = |_: &mut Vec<u8>| {
                room -= 1;
                room > 0
            };
            turns += 1;
            if lab.walk.turn(&lab.leases, moment, has_room, &mut sent).is_done {
                break;
            }
        }
        let mut items = Vec::new();
        read(&sent, NOW, |item| items.push(item)).unwrap();
        assert_eq!((items.len(), turns), (2_999, 7));
        // Ends wait for room as well.
        (1..3_000).for_each(|port| lab.leases.remove(&key(port)));
        let mut few = 10;
        let has_room = |_: &mut Vec<u8>| {
            few -= 1;
            few > 0
        };
        sent.clear();
        assert!(!lab.walk.turn(&lab.leases, moment, has_room, &mut sent).is_done);
        assert_eq!(lab.sends().len(), 2_999 - 9);
    }
}
