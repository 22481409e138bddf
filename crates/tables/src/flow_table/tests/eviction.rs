//! Which flow gives way: the model, floods, and flows that have packets all the time.

use super::*;

/// Any order.
pub(super) fn any() -> impl Strategy<Value = Eviction> {
    prop::sample::select(vec![Eviction::Unanswered, Eviction::Answered, Eviction::Never])
}

/// From which age on flows are told apart no more than this one: exactly below the first end, and within it after that.
fn end(age: u32) -> u32 {
    [4, 16, 64].into_iter().find(|end| age < *end).unwrap_or(u32::MAX)
}

impl Model {
    /// Evicts a flow with one key, or a translated one, if there is one that may be, and checks that no other one of
    /// these had to go before it.
    pub(super) fn evict(&mut self, is_translated: bool) {
        let is_of_kind = move |flow: &&Expected| flow.reply_key.is_some() == is_translated;
        let Some(id) = self.owner.evict_candidate(is_translated, &self.timeouts) else {
            let mut all = self.flows.values().filter(is_of_kind);
            assert!(all.all(|flow| flow.eviction == Eviction::Never));
            return;
        };
        let victim = self.flows.remove(&id).expect("a live flow");
        assert!(is_of_kind(&&victim));
        let of_kind = || self.flows.values().filter(is_of_kind);
        let others = |of| of_kind().filter(move |flow| flow.eviction == of);
        let age = |flow: &Expected| self.now.wrapping_sub(flow.seen);
        // Beyond a turn of the wheel all are equal.
        let left = |flow: &Expected| {
            let due = self.due(flow.seen, flow.class);
            due.wrapping_sub(self.now).cast_signed().clamp(0, 4000)
        };
        match victim.eviction {
            Eviction::Never => panic!("an assured flow"),
            Eviction::Answered => {
                assert_eq!(others(Eviction::Unanswered).count(), 0);
                assert!(others(Eviction::Answered).all(|other| left(&victim) <= left(other)));
            }
            Eviction::Unanswered => {
                for other in others(Eviction::Unanswered) {
                    assert!(age(other) < end(age(&victim)), "{victim:?} before {other:?}");
                    match age(&victim) {
                        0..4 => assert!(age(&victim) >= age(other)),
                        64.. if age(other) >= 64 => assert!(left(&victim) <= left(other)),
                        _ => {}
                    }
                }
            }
        }
        self.owner.remove(id).unwrap();
    }
}

const SHORT: u8 = 1;
const LONG: u8 = 2;
const PLACES: u32 = 64;

/// A full table of so many places, whose unanswered flows are of the class with the long timeout.
struct Full {
    table: FlowTable,
    owner: FlowOwner,
    timeouts: [u32; 256],
    now: u32,
    next: u32,
}

impl Full {
    fn new() -> Self {
        let capacity = FlowCapacity { ip4: PLACES, ..FlowCapacity::default() };
        let mut table = FlowTable::new(&capacity, &secret(5)).unwrap();
        let owner = table.owner(0, 0).unwrap();
        let mut timeouts = [u32::MAX; 256];
        (timeouts[usize::from(SHORT)], timeouts[usize::from(LONG)]) = (60, 300);
        let mut all = Self { table, owner, timeouts, now: 0, next: 0 };
        (0..PLACES).for_each(|_| assert!(all.create(LONG, Eviction::Unanswered).is_some()));
        all
    }

    /// Creates a flow, if there is a place.
    fn create(&mut self, class: u8, eviction: Eviction) -> Option<u32> {
        self.next += 1;
        let new = NewFlow { class, flags: eviction.flags(), ..NewFlow::new(many(self.next), None) };
        let look = self.now + self.timeouts[usize::from(class)];
        match self.owner.create(&new, self.now, look) {
            Ok(Created::New(id)) => Some(id),
            Err(FlowError::Full { .. }) => None,
            other => panic!("{other:?}"),
        }
    }

    /// Makes room; returns the flow that gave way.
    fn evict(&mut self) -> Option<u32> {
        let id = self.owner.evict_candidate(false, &self.timeouts)?;
        self.owner.remove(id).unwrap();
        self.owner.retire_mark(1);
        self.owner.reclaim(1);
        Some(id)
    }

    /// Creates so many flows of a class, each in the place of another one; returns which gave way.
    fn flood(&mut self, flows: u32, class: u8) -> Vec<u32> {
        let mut gone = Vec::new();
        for _ in 0..flows {
            gone.extend(self.evict());
            assert!(self.create(class, Eviction::Unanswered).is_some());
        }
        gone
    }

    fn pass(&mut self, ticks: u32) {
        for _ in 0..ticks {
            self.now += 1;
            while self.owner.expire(self.now, &self.timeouts, 7, |_| {}) {}
        }
    }
}

#[test]
fn a_flood_with_a_long_timeout_evicts_itself() {
    // However old the flood is, a new flow with a short timeout has all of its turn.
    for age in [0, 1, 3, 4, 9, 16, 50, 64, 200] {
        let mut all = Full::new();
        all.pass(age);
        all.evict();
        let handshake = all.create(SHORT, Eviction::Unanswered).unwrap();
        let gone = all.flood(PLACES - 1, LONG);
        assert!(!gone.contains(&handshake), "{age}");
        assert_eq!(all.evict(), Some(handshake), "{age}: now it is the oldest one");
    }
}

#[test]
fn a_flow_gives_way_to_those_of_its_kind_only() {
    let mut all = Full::new();
    assert_eq!(all.owner.evict_candidate(true, &all.timeouts), None, "none is translated");
    assert!(all.owner.evict_candidate(false, &all.timeouts).is_some());
}

#[test]
fn answered_flows_outlive_all_unanswered_ones() {
    let mut all = Full::new();
    all.evict();
    let asked = all.create(SHORT, Eviction::Unanswered).unwrap();
    all.evict();
    let open = all.create(SHORT, Eviction::Never).unwrap();
    all.pass(1);
    all.owner.set_eviction(asked, Eviction::Answered, all.now + 60).unwrap();
    let gone = all.flood(3 * PLACES, LONG);
    assert!(!gone.contains(&asked) && !gone.contains(&open));
    // None is left that is younger than these.
    for _ in 0..PLACES - 2 {
        let id = all.evict().unwrap();
        assert!(id != asked && id != open);
    }
    assert_eq!((all.evict(), all.evict()), (Some(asked), None));
    assert_eq!((all.table.live(), all.table.evictable()), (1, 0));
    // It is over, as after a reset.
    all.owner.set_eviction(open, Eviction::Unanswered, all.now + 60).unwrap();
    assert_eq!((all.table.evictable(), all.evict()), (1, Some(open)));
}

#[test]
fn flows_that_have_packets_all_the_time_stay() {
    let mut all = Full::new();
    let busy: Vec<u32> = (0..PLACES / 2).collect();
    for _ in 0..if cfg!(miri) { 3 } else { 100 } {
        all.pass(1);
        busy.iter().for_each(|id| all.owner.entry(*id).refresh(all.now));
        let gone = all.flood(PLACES / 4, SHORT);
        assert!(gone.iter().all(|id| !busy.contains(id)), "{gone:?}");
    }
    // All have had packets since they were scheduled: one goes all the same.
    let mut all = Full::new();
    all.pass(20);
    (0..PLACES).for_each(|id| all.owner.entry(id).refresh(all.now));
    assert!(all.evict().is_some());
}

#[test]
fn an_order_has_flags_of_its_own() {
    for order in [Eviction::Unanswered, Eviction::Answered, Eviction::Never] {
        assert_eq!(Eviction::of(order.flags()), order);
        assert_eq!(Eviction::of(order.flags() | 0x5f), order);
    }
    assert_eq!(Eviction::of(ASSURED | ANSWERED), Eviction::Never);
}
