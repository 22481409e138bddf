//! The table against a naive model with a clock, and at its rated fill.

mod eviction;
mod former;
mod sources;

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::Reclaim;
use crate::flow_hash::Flow;

const CAPACITY: FlowCapacity =
    FlowCapacity { ip4: 6, translated_ip4: 5, ip6: 4, translated_ip6: 3 };

pub(super) fn secret(seed: u8) -> Secret {
    Secret(core::array::from_fn(|at| (at as u8).wrapping_mul(151) ^ seed.wrapping_mul(91)))
}

/// One of a few keys: both families, two hosts or many, and keys with two equal ends.
fn key(number: u8) -> FlowKey {
    let (source, destination) = (u32::from(number % 3), u32::from(number / 3 % 3));
    let (source_port, destination_port) = (u16::from(number / 9 % 2), u16::from(number / 18 % 2));
    let four = Flow { source, destination, source_port, destination_port, protocol: 6 };
    if number.is_multiple_of(2) {
        return FlowKey::ip4(four, u16::from(number / 36 % 2));
    }
    let [source, destination] = [source, destination].map(|end| u128::from(end) << 96 | 7);
    let six = Flow { source, destination, source_port, destination_port, protocol: 17 };
    FlowKey::ip6(six, u16::from(number / 36 % 2))
}

#[derive(Clone, Debug)]
enum Step {
    Create { key: u8, reply_key: Option<u8>, class: u8, eviction: Eviction },
    Find(u8),
    Refresh(u8),
    Keep(u8, Eviction),
    Class(u8, u8),
    Count(u8, u32),
    Remove(u8),
    Evict,
    Pass(u32),
    Grace,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (any::<u8>(), any::<Option<u8>>(), 0..4_u8, eviction::any()).prop_map(
            |(key, reply_key, class, eviction)| Step::Create { key, reply_key, class, eviction }
        ),
        4 => any::<u8>().prop_map(Step::Find),
        3 => any::<u8>().prop_map(Step::Refresh),
        2 => (any::<u8>(), eviction::any()).prop_map(|(flow, kept)| Step::Keep(flow, kept)),
        2 => (any::<u8>(), 0..4_u8).prop_map(|(flow, class)| Step::Class(flow, class)),
        2 => (any::<u8>(), any::<u32>()).prop_map(|(flow, bytes)| Step::Count(flow, bytes)),
        2 => any::<u8>().prop_map(Step::Remove),
        2 => Just(Step::Evict),
        3 => prop_oneof![1..20_u32, 1..9000_u32].prop_map(Step::Pass),
        3 => Just(Step::Grace),
    ];
    prop::collection::vec(step, 1..120)
}

#[derive(Clone, Debug)]
struct Expected {
    key: FlowKey,
    reply_key: Option<FlowKey>,
    seen: u32,
    class: u8,
    eviction: Eviction,
    packets: u64,
    bytes: u64,
}

impl Expected {
    /// What a packet with a key is to this flow.
    fn direction(&self, key: &FlowKey) -> Option<Direction> {
        let reply_key = self.reply_key.unwrap_or(self.key.reversed());
        match *key {
            key if key == self.key => Some(Direction::Original),
            key if key == reply_key || key == self.key.reversed() => Some(Direction::Reply),
            key if key == reply_key.reversed() => Some(Direction::Original),
            _ => None,
        }
    }

    fn kind(&self) -> Kind {
        match (self.key.is_ip6(), self.reply_key.map(|key| key.is_ip6())) {
            (false, None) => Kind::Ip4,
            (false, Some(false)) => Kind::TranslatedIp4,
            (true, None) => Kind::Ip6,
            _ => Kind::TranslatedIp6,
        }
    }
}

struct Model {
    table: FlowTable,
    owner: FlowOwner,
    flows: HashMap<u32, Expected>,
    timeouts: [u32; 256],
    now: u32,
    epoch: u64,
}

impl Model {
    fn new(seed: u8, now: u32, source_limit: u32) -> Self {
        let mut table = FlowTable::new(&CAPACITY, &secret(seed)).unwrap();
        table.limit_sources(source_limit);
        let owner = table.owner(3, now).unwrap();
        assert!(table.owner(3, now).is_none());
        let mut timeouts = [u32::MAX; 256];
        timeouts[..3].copy_from_slice(&[4, 300, 10_000]);
        Self { table, owner, flows: HashMap::new(), timeouts, now, epoch: 0 }
    }

    fn due(&self, seen: u32, class: u8) -> u32 {
        seen.wrapping_add(self.timeouts[usize::from(class)].min(1 << 20))
    }

    fn find(&self, key: &FlowKey) -> Option<(u32, Direction)> {
        let mut all = self.flows.iter();
        all.find_map(|(id, flow)| flow.direction(key).map(|direction| (*id, direction)))
    }

    /// A flow by any number.
    fn pick(&self, number: u8) -> Option<u32> {
        let mut ids: Vec<u32> = self.flows.keys().copied().collect();
        ids.sort_unstable();
        (!ids.is_empty()).then(|| ids[usize::from(number) % ids.len()])
    }

    fn create(&mut self, flow: Expected, reply_key: Option<FlowKey>) {
        let mut new = NewFlow::new(flow.key, reply_key);
        new.class = flow.class;
        new.flags = flow.eviction.flags();
        (new.epoch, new.rule, new.zone_pair) = (7, 70_000, 99);
        let existing = self.find(&flow.key);
        let taken = flow.reply_key.and_then(|key| self.find(&key));
        let available = self.owner.available(flow.kind());
        let is_limited = self.of_source(&flow.key) >= self.table.source_limit();
        let created = self.owner.create(&new, self.now, self.due(self.now, flow.class));
        match created {
            Ok(Created::New(id)) => {
                assert!(existing.is_none() && taken.is_none() && available > 0 && !is_limited);
                let entry = self.owner.entry(id);
                assert_eq!((entry.key(), entry.kind()), (flow.key, flow.kind()));
                assert_eq!(entry.reply_key(), flow.reply_key.unwrap_or(flow.key.reversed()));
                assert_eq!((entry.rule(), entry.owner(), entry.zone_pair()), (70_000, 3, 99));
                assert_eq!((entry.start(), entry.seen(), entry.epoch()), (self.now, self.now, 7));
                assert!(self.flows.insert(id, flow).is_none(), "an id of a live flow");
            }
            Ok(Created::Existing(found)) => {
                assert_eq!(found.id(), existing.map(|found| found.0));
                assert_eq!(Some(found.direction()), existing.map(|found| found.1));
            }
            Err(FlowError::Full { kind, .. }) => {
                assert_eq!((kind, available, existing), (flow.kind(), 0, None));
                assert!(!is_limited);
            }
            Err(FlowError::SourceLimit { .. }) => assert!(is_limited && existing.is_none()),
            Err(FlowError::ReplyKeyTaken) => assert!(taken.is_some() && existing.is_none()),
            Err(other) => panic!("{other}"),
        }
    }

    /// A reply key that is the first key in either direction counts as none.
    fn second_key(key: FlowKey, reply_key: Option<FlowKey>) -> Option<FlowKey> {
        reply_key.filter(|reply| *reply != key && *reply != key.reversed())
    }

    fn pass(&mut self, ticks: u32) {
        self.now = self.now.wrapping_add(ticks);
        let mut collected = Vec::new();
        let flows = &self.flows;
        while self.owner.expire(self.now, &self.timeouts, 3, |entry| {
            let flow = &flows[&entry.id()];
            let counters = entry.counters(Direction::Reply);
            assert_eq!((counters.packets, counters.bytes), (flow.packets, flow.bytes));
            collected.push(entry.id());
        }) {}
        let (timeouts, now) = (&self.timeouts, self.now);
        let is_dead = |flow: &Expected| {
            let timeout = timeouts[usize::from(flow.class)];
            timeout != u32::MAX && now.wrapping_sub(flow.seen) >= timeout
        };
        let mut expected: Vec<u32> =
            self.flows.iter().filter(|(_, flow)| is_dead(flow)).map(|(id, _)| *id).collect();
        collected.sort_unstable();
        expected.sort_unstable();
        assert_eq!(collected, expected);
        self.flows.retain(|_, flow| !is_dead(flow));
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Create { key: number, reply_key, class, eviction } => {
                let (key, given) = (key(number), reply_key.map(key));
                let reply_key = Self::second_key(key, given);
                let (seen, packets, bytes) = (self.now, 0, 0);
                let flow = Expected { key, reply_key, seen, class, eviction, packets, bytes };
                self.create(flow, given);
            }
            Step::Find(number) => self.check_key(&key(number)),
            Step::Pass(ticks) => self.pass(ticks),
            Step::Grace => {
                self.epoch += 1;
                self.owner.retire_mark(self.epoch);
                self.owner.reclaim(self.epoch.saturating_sub(1));
            }
            Step::Evict => [false, true].into_iter().for_each(|translated| self.evict(translated)),
            Step::Refresh(number)
            | Step::Keep(number, _)
            | Step::Class(number, _)
            | Step::Count(number, _)
            | Step::Remove(number) => {
                if let Some(id) = self.pick(number) {
                    self.change(step, id);
                }
            }
        }
    }

    fn change(&mut self, step: Step, id: u32) {
        let flow = self.flows.get_mut(&id).unwrap();
        match step {
            Step::Refresh(_) => {
                flow.seen = self.now;
                self.owner.entry(id).refresh(self.now);
            }
            Step::Keep(_, eviction) => {
                flow.eviction = eviction;
                let (seen, class) = (flow.seen, flow.class);
                self.owner.set_eviction(id, eviction, self.due(seen, class)).unwrap();
            }
            Step::Class(_, class) => {
                flow.class = class;
                let seen = flow.seen;
                self.owner.set_class_until(id, class, self.due(seen, class)).unwrap();
            }
            Step::Count(_, bytes) => {
                flow.packets += u64::from(bytes);
                flow.bytes += u64::from(bytes);
                self.owner.entry(id).count(Direction::Reply, bytes, bytes);
            }
            _ => {
                self.flows.remove(&id);
                self.owner.remove(id).unwrap();
                assert!(self.owner.remove(id).is_err());
            }
        }
    }

    fn check_key(&self, key: &FlowKey) {
        let found = self.table.reader().find(key);
        let expected = self.find(key);
        assert_eq!(found.id(), expected.map(|found| found.0));
        if let Some((_, direction)) = expected {
            assert_eq!(found.direction(), direction);
        }
    }

    fn check(&self) {
        (0..=u8::MAX).for_each(|number| self.check_key(&key(number)));
        assert_eq!(self.table.live(), self.flows.len() as u64);
        let is_evictable = |flow: &&Expected| flow.eviction != Eviction::Never;
        let evictable = self.flows.values().filter(is_evictable).count();
        assert_eq!(self.table.evictable(), evictable as u64);
        self.check_sources();
    }

    /// Removes everything; all ids come back.
    fn end(mut self) {
        for id in self.flows.keys() {
            self.owner.remove(*id).unwrap();
        }
        self.flows.clear();
        self.check();
        self.owner.retire_mark(u64::MAX);
        self.owner.reclaim(u64::MAX);
        assert_eq!(self.owner.pending(), 0);
        let available = Kind::ALL.map(|kind| self.owner.available(kind));
        assert_eq!(available, [6, 5, 4, 3]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 256 }))]
    #[test]
    fn the_table_does_what_a_naive_model_does(
        steps in steps(), seed: u8, now: u32, source_limit in sources::limit(),
    ) {
        let mut model = Model::new(seed, now, source_limit);
        for (number, step) in steps.into_iter().enumerate() {
            model.step(step);
            if number % 16 == 0 && !cfg!(miri) {
                model.check();
            }
        }
        model.end();
    }
}

/// A key that looks like those of many hosts behind a few servers.
pub(super) fn many(number: u32) -> FlowKey {
    let flow = Flow {
        source: 0x0a00_0000 + number % 65_536,
        destination: 0xc633_6400 + number / 65_536 % 16,
        source_port: 1024 + (number / 1_048_576) as u16,
        destination_port: 443,
        protocol: 6,
    };
    FlowKey::ip4(flow, 0)
}

#[test]
#[cfg_attr(miri, ignore)]
fn a_table_takes_as_many_flows_as_it_has_room_for() {
    let flows = 300_000;
    let capacity = FlowCapacity { ip4: flows, ..FlowCapacity::default() };
    let mut table = FlowTable::new(&capacity, &secret(9)).unwrap();
    let mut owner = table.owner(0, 0).unwrap();
    let reader = table.reader();
    // Filled, and with other flows in place of each after that: the last state of the index counts.
    for number in 0..3 * flows {
        if number >= flows {
            owner.remove(reader.find(&many(number - flows)).id().unwrap()).unwrap();
            owner.retire_mark(number.into());
            owner.reclaim(number.into());
        }
        let flow = NewFlow::new(many(number), None);
        let created = owner.create(&flow, 0, 100);
        assert!(matches!(created, Ok(Created::New(_))), "{number}: {created:?}");
    }
    let refused = owner.create(&NewFlow::new(many(3 * flows), None), 0, 100);
    assert_eq!(refused, Err(FlowError::Full { kind: Kind::Ip4, limit: flows }));
    for number in 2 * flows..3 * flows {
        assert!(reader.find(&many(number).reversed()).is_some());
        assert!(!reader.find(&many(number - flows)).is_some());
    }
    assert!(table.bytes() as u64 <= 96 * u64::from(flows));
}

#[test]
fn owners_take_what_others_give_back() {
    let capacity = FlowCapacity { ip4: 64, ..FlowCapacity::default() };
    let mut table = FlowTable::new(&capacity, &secret(1)).unwrap();
    let [mut one, mut two] = [0, 1].map(|number| table.owner(number, 0).unwrap());
    let create = |owner: &mut FlowOwner, number| {
        matches!(owner.create(&NewFlow::new(many(number), None), 0, 9), Ok(Created::New(_)))
    };
    assert!((0..64).all(|number| create(&mut one, number)));
    assert!(!create(&mut two, 64));
    assert_eq!(one.remove(64), Err(FlowError::NotOwned { id: 64, owner: 0 }));
    for id in 0..64 {
        assert!(two.remove(id).is_err());
        one.remove(id).unwrap();
    }
    one.retire_mark(1);
    one.reclaim(1);
    // A few runs at a time, of one id each here.
    let given = |two: &FlowOwner| two.available(Kind::Ip4);
    assert_eq!(given(&two), 4);
    (0..100).for_each(|_| one.reclaim(1));
    assert_eq!(given(&two), 62);
    assert_eq!((table.live(), table.evictable()), (0, 0));
    // All but two, which the first owner keeps.
    assert_eq!((0..64).filter(|number| create(&mut two, *number)).count(), 62);
    assert!(create(&mut one, 100) && create(&mut one, 101) && !create(&mut one, 102));
    assert_eq!(table.live(), 64);
}
