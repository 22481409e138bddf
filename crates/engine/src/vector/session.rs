//! The `session` column: the subscriber session, security association or the like that a packet belongs to.
//! Sessions have numbers of their own, from 1 on, apart from interfaces; 0 is none.
//!
//! A feature that receives packets of sessions writes the column; one that sends packets into sessions writes it for
//! all lanes that it handles, so that features behind it find the sending session. The number stays with the packet:
//! from node to node, to other workers, while it waits for a neighbour, in its copies and fragments. It ends at the
//! port, and when a lane becomes a packet of the router itself ([`Vector::make_own`]).

use super::Vector;
use super::beside::SESSION;
use crate::column::Column;

impl Vector {
    /// The session of a lane; 0: none.
    #[inline]
    pub fn session(&self, lane: usize) -> u32 {
        if self.beside.known & SESSION == 0 { 0 } else { self.beside.sessions[lane] }
    }

    /// The sessions of all lanes; `None`: no lane has one.
    #[inline]
    pub fn sessions(&self) -> Option<&Column<u32>> {
        (self.beside.known & SESSION != 0).then_some(&*self.beside.sessions)
    }

    /// The sessions of all lanes, to be written by a feature that knows them.
    #[inline]
    pub fn sessions_mut(&mut self) -> &mut Column<u32> {
        if self.beside.known & SESSION == 0 {
            self.beside.known |= SESSION;
            let lanes = self.len;
            self.beside.sessions[..lanes].fill(0);
        }
        &mut self.beside.sessions
    }

    /// Sets the session of the last lane, a packet that came from outside of the vector.
    #[inline(always)]
    pub(super) fn push_session(&mut self, session: u32) {
        self.add_beside(self.len - 1);
        if session != 0 {
            self.set_session(self.len - 1, session);
        }
    }

    #[cold]
    #[inline(never)]
    fn set_session(&mut self, lane: usize, session: u32) {
        self.sessions_mut()[lane] = session;
    }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;
    use crate::column::{Here, Width};
    use crate::pool::{HugePages, Pool, PoolCache};
    use crate::vector::{Lanes, flags};

    fn sessions(vector: &Vector) -> Vec<u32> {
        (0..vector.len()).map(|lane| vector.session(lane)).collect()
    }

    /// Lanes whose sessions begin at `first`.
    fn filled(pool: &'static Pool, lanes: usize, first: u32) -> Box<Vector> {
        let mut vector = Vector::new(pool);
        assert_eq!(PoolCache::new(pool).fill(&mut vector, lanes), lanes);
        (first..).zip(&mut vector.sessions_mut()[..lanes]).for_each(|(at, it)| *it = at);
        vector
    }

    #[test]
    fn a_session_stays_with_its_packet() {
        let pool = Pool::leak(1024, HugePages::Never).unwrap();
        for width in [Width::Plain, Width::Avx2, Width::Avx512] {
            let here = Here::at_most(width);
            let mut from = filled(pool, 100, 1000);
            let (mut to, mut none) = (Vector::new(pool), Vector::new(pool));
            PoolCache::new(pool).fill(&mut none, 2);
            assert_eq!((none.sessions().is_none(), none.session(1)), (true, 0));
            let mut some = Lanes::first_of(100);
            some.remove_all(&Lanes::first_of(97));
            from.move_by(here, &some, &mut to);
            // Lanes without a session join those with one, and the other way round.
            none.move_by(here, &Lanes::first_of(1), &mut to);
            assert_eq!(sessions(&to), [1097, 1098, 1099, 0], "{width:?}");
            let mut last = Lanes::first_of(2);
            last.remove_all(&Lanes::first_of(1));
            let mut other = Vector::new(pool);
            none.move_by(here, &last, &mut other);
            to.move_all(&mut other);
            assert_eq!(sessions(&other), [0, 1097, 1098, 1099, 0]);
            // As a packet to elsewhere and back.
            let packet = other.take(2).unwrap();
            assert_eq!(packet.session, 1098);
            PoolCache::new(pool).fill(&mut to, 1);
            assert!(to.push(packet).is_ok());
            PoolCache::new(pool).fill(&mut to, 1);
            assert_eq!(sessions(&to), [0, 1098, 0], "{width:?}");
            to.make_own(1);
            assert_eq!((sessions(&to), to.flags[1]), (vec![0; 3], flags::OWN));
            (0..97).filter_map(|lane| from.release_lane(lane)).for_each(|id| pool.give_back(&[id]));
            from.forget_lanes();
            none.forget_lanes();
            // An empty vector that is used again.
            PoolCache::new(pool).fill(&mut from, 3);
            assert!(from.sessions().is_none() || sessions(&from) == [0; 3]);
        }
    }

    #[test]
    fn flows_and_sessions_are_known_apart_from_each_other() {
        let pool = Pool::leak(1024, HugePages::Never).unwrap();
        let (mut one, mut two) = (filled(pool, 4, 1), Vector::new(pool));
        one.flow(|_, flows| flows.fill(7));
        one.move_all(&mut two);
        assert_eq!(two.flow(|_, flows| flows.fill(8))[..4], [7; 4]);
        two.forget_flow();
        assert_eq!(sessions(&two), [1, 2, 3, 4]);
        assert_eq!(two.flow(|_, flows| flows.fill(8))[..4], [8; 4]);
    }
}
