//! The calls of a control connection of PPTP (RFC 2637): the IDs that both ends have chosen for each, and those by
//! which the other end knows them.
//!
//! Packets of enhanced GRE have the ID of the end to which they go, and nothing of the other end. So each direction of
//! a call is a flow of its own, whose key has this ID as destination port, and [`CALL`] as source port. Other packets
//! of GRE have no ports.

use stoa_tables::flow_hash::Flow;
use stoa_tables::flow_table::{Direction, FlowKey, Tuple};
use stoa_wire::protocol::GRE;

/// The source port in keys of packets of a call, and an ID that no call has: packets of one direction never have the
/// key of the other one.
pub const CALL: u16 = u16::MAX;
/// Calls of a control connection.
pub const CALLS: usize = 4;
/// Words of a call, and of all.
const OF_CALL: usize = 2;
pub(super) const WORDS: usize = OF_CALL * CALLS;

/// The key of packets of a call: between the hosts of another key, to the end that has this ID.
pub fn call_key(key: &FlowKey, id: u16) -> FlowKey {
    gre_key(key, (CALL, id))
}

/// The key of other packets of GRE between the hosts of another key.
pub fn hosts_key(key: &FlowKey) -> FlowKey {
    gre_key(key, (0, 0))
}

fn gre_key(key: &FlowKey, (source_port, destination_port): (u16, u16)) -> FlowKey {
    let protocol = GRE;
    let tuple = match key.tuple {
        Tuple::Ip4(it) => Tuple::Ip4(Flow { source_port, destination_port, protocol, ..it }),
        Tuple::Ip6(it) => Tuple::Ip6(Flow { source_port, destination_port, protocol, ..it }),
    };
    FlowKey { tuple, vrf: key.vrf }
}

/// The numbers of one end: IDs of a call, or ports; [`CALL`]: it has none yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The one that the end has chosen.
    pub own: u16,
    /// The one by which the other end knows it.
    pub seen: u16,
}

impl End {
    pub(super) fn word(self) -> u32 {
        u32::from(self.own ^ CALL) << 16 | u32::from(self.seen ^ CALL)
    }

    pub(super) fn of_word(word: u32) -> Self {
        Self { own: (word >> 16) as u16 ^ CALL, seen: word as u16 ^ CALL }
    }
}

impl Default for End {
    fn default() -> Self {
        Self { own: CALL, seen: CALL }
    }
}

/// A call: the end that has begun the control connection, and the other one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Call {
    ends: [End; 2],
    /// It is over. Its IDs are still known: messages are repeated.
    pub is_over: bool,
}

impl Call {
    /// The end that sends in a direction of the control connection.
    pub fn end(&self, direction: Direction) -> End {
        let [original, reply] = self.ends;
        if direction == Direction::Original { original } else { reply }
    }

    /// Sets it.
    pub fn set_end(&mut self, direction: Direction, end: End) {
        let [original, reply] = &mut self.ends;
        *(if direction == Direction::Original { original } else { reply }) = end;
    }
}

/// All calls of a control connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls([Call; CALLS]);

impl Calls {
    /// The call whose end that sends in a direction has these IDs, by one of them. Those that go on come first.
    pub fn find(&mut self, direction: Direction, is: impl Fn(End) -> bool) -> Option<&mut Call> {
        let at = |is_over: bool| {
            let mut all = self.0.iter();
            all.position(|it| it.is_over == is_over && is(it.end(direction)))
        };
        let at = at(false).or_else(|| at(true))?;
        self.0.get_mut(at)
    }

    /// Room for another call: an empty one. `None`: all go on.
    pub fn add(&mut self) -> Option<&mut Call> {
        let at = self.0.iter().position(|it| *it == Call::default());
        let at = at.or_else(|| self.0.iter().position(|it| it.is_over))?;
        let call = self.0.get_mut(at)?;
        *call = Call::default();
        Some(call)
    }

    /// Those that go on.
    pub fn live(&self) -> impl Iterator<Item = &Call> {
        self.0.iter().filter(|it| !it.is_over && **it != Call::default())
    }

    /// All are over.
    pub fn end_all(&mut self) {
        self.0.iter_mut().filter(|it| **it != Call::default()).for_each(|it| it.is_over = true);
    }

    /// Which of them are over, as bits.
    pub(super) fn over(&self) -> u32 {
        self.0.iter().rev().fold(0, |all, it| all << 1 | u32::from(it.is_over))
    }

    pub(super) fn words(&self) -> [u32; WORDS] {
        let mut words = [0; WORDS];
        let ends = self.0.iter().flat_map(|it| it.ends);
        for (to, it) in words.iter_mut().zip(ends) {
            *to = it.word();
        }
        words
    }

    pub(super) fn of_words(words: &[u32], over: u32) -> Self {
        let mut calls = Self::default();
        for (at, (call, words)) in
            calls.0.iter_mut().zip(words.as_chunks::<OF_CALL>().0).enumerate()
        {
            *call = Call { ends: words.map(End::of_word), is_over: over >> at & 1 != 0 };
        }
        calls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THERE: Direction = Direction::Original;

    #[test]
    fn calls_that_go_on_stay() {
        let mut calls = Calls::default();
        for own in 1..=CALLS as u16 {
            calls.add().unwrap().set_end(THERE, End { own, seen: own + 10 });
        }
        assert!(calls.add().is_none());
        assert_eq!(calls.live().count(), CALLS);
        calls.find(THERE, |it| it.seen == 12).unwrap().is_over = true;
        assert_eq!(calls.live().count(), CALLS - 1);
        // What is repeated still finds it.
        assert!(calls.find(THERE, |it| it.own == 2).is_some_and(|it| it.is_over));
        calls.add().unwrap().set_end(THERE, End { own: 2, seen: 9 });
        assert_eq!(calls.find(THERE, |it| it.own == 2).unwrap().end(THERE).seen, 9);
        assert_eq!(calls.find(Direction::Reply, |it| it.own == 2), None);
        calls.end_all();
        assert_eq!(calls.live().count(), 0);
        assert_eq!(Calls::of_words(&calls.words(), calls.over()), calls);
    }
}
