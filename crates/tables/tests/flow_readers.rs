//! Owners of a flow table and readers at once: a flow that stays is found at any moment, no look-up returns
//! another flow than that of the key, and nothing leaks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use stoa_tables::Reclaim;
use stoa_tables::flow_hash::Flow;
use stoa_tables::flow_table::{
    Columns4, Created, Direction, FlowCapacity, FlowError, FlowKey, FlowOwner, FlowReader,
    FlowTable, Kind, Match, NewFlow, Secret,
};

const OWNERS: usize = 2;
const READERS: usize = 2;
const ROUNDS: u32 = if cfg!(miri) { 30 } else { 20_000 };
/// Flows of each owner that stay, and keys that come and go.
const STABLE: u32 = if cfg!(miri) { 6 } else { 60 };
const CHANGING: u32 = if cfg!(miri) { 8 } else { 80 };
/// Keys that both owners create.
const SHARED: u32 = 3;
const CAPACITY: u32 = OWNERS as u32 * (STABLE + CHANGING) + 40;

/// Which epoch each thread has seen while it held no id.
struct Epochs {
    now: AtomicU64,
    seen: [AtomicU64; OWNERS + READERS],
}

impl Epochs {
    fn pass(&self, thread: usize) {
        self.seen[thread].store(self.now.load(Ordering::Acquire), Ordering::Release);
    }

    fn leave(&self, thread: usize) {
        self.seen[thread].store(u64::MAX, Ordering::Release);
    }

    fn safe(&self) -> u64 {
        self.seen.iter().map(|seen| seen.load(Ordering::Acquire)).min().unwrap_or(0)
    }
}

/// Counts a thread as gone even when it panics, so that a failure is a failure and no hang.
struct Gone<'a>(&'a Epochs, usize);

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        self.0.leave(self.1);
    }
}

fn key(number: u32) -> FlowKey {
    let (source, destination) = (0x0a00_0000 + number, 0xc000_0201);
    let (source_port, destination_port) = (1024, 443);
    FlowKey::ip4(Flow { source, destination, source_port, destination_port, protocol: 6 }, 1)
}

fn stable(owner: usize, number: u32) -> FlowKey {
    key(1000 * (1 + owner as u32) + number)
}

fn own(epochs: &Epochs, number: usize, owner: &mut FlowOwner, reader: &FlowReader) {
    let _gone = Gone(epochs, number);
    let mut live: Vec<(u32, u32)> = Vec::new();
    for round in 0..ROUNDS {
        epochs.pass(number);
        owner.reclaim(epochs.safe());
        let at = round.wrapping_mul(0x9e37_79b9) >> 16;
        let changing = if at % 8 == 0 {
            at / 8 % SHARED
        } else {
            100_000 * (1 + number as u32) + at % CHANGING
        };
        if let Some(place) = live.iter().position(|(key, _)| *key == changing) {
            let (_, id) = live.swap_remove(place);
            match owner.remove(id) {
                Ok(()) => {}
                Err(refused) => {
                    assert_eq!(refused, FlowError::Contended);
                    live.push((changing, id));
                }
            }
        } else {
            match owner.create(&NewFlow::new(key(changing), None), round, round + 100) {
                Ok(Created::New(id)) => {
                    assert_eq!(reader.find(&key(changing)).id(), Some(id));
                    live.push((changing, id));
                }
                Ok(Created::Existing(found)) => {
                    assert!(changing < SHARED);
                    assert_eq!(reader.entry(found.id().unwrap()).key(), key(changing));
                }
                Err(FlowError::Contended | FlowError::Full { .. } | FlowError::IndexFull) => {}
                Err(other) => panic!("{other}"),
            }
        }
        let epoch = epochs.now.fetch_add(1, Ordering::AcqRel) + 1;
        owner.retire_mark(epoch);
        if round % 64 == 0 {
            thread::yield_now();
        }
    }
    for (_, id) in live {
        while let Err(refused) = owner.remove(id) {
            assert_eq!(refused, FlowError::Contended);
        }
    }
}

fn read(epochs: &Epochs, thread: usize, reader: &FlowReader) {
    let _gone = Gone(epochs, thread);
    let numbers = (0..STABLE).flat_map(|number| [stable(0, number), stable(1, number)]);
    let changing = (0..CHANGING).flat_map(|number| [key(100_000 + number), key(200_000 + number)]);
    let mut keys: Vec<FlowKey> = numbers.chain(changing).chain((0..SHARED).map(key)).collect();
    // Every other packet is a reply.
    keys.iter_mut().skip(1).step_by(2).for_each(|key| *key = key.reversed());
    let column = |of: fn(Flow<u32>) -> u32| -> Vec<u32> {
        let flow = |key: &FlowKey| match key.tuple {
            stoa_tables::flow_table::Tuple::Ip4(flow) => of(flow),
            stoa_tables::flow_table::Tuple::Ip6(_) => 0,
        };
        keys.iter().map(flow).collect()
    };
    let (sources, destinations) = (column(|flow| flow.source), column(|flow| flow.destination));
    let ports = column(|flow| u32::from(flow.source_port) << 16 | u32::from(flow.destination_port));
    let contexts = column(|flow| u32::from(flow.protocol) << 16 | 1);
    let columns = Columns4 {
        sources: &sources,
        destinations: &destinations,
        ports: &ports,
        contexts: &contexts,
    };
    let mut found = vec![Match::NONE; keys.len()];
    while (0..OWNERS).any(|owner| epochs.seen[owner].load(Ordering::Relaxed) != u64::MAX) {
        epochs.pass(thread);
        reader.lookup_ip4(&columns, &mut found);
        for (at, (key, found)) in keys.iter().zip(&found).enumerate() {
            let found = if found.is_some() { *found } else { reader.find(key) };
            let Some(id) = found.id() else {
                assert!(at >= 2 * STABLE as usize, "a stable flow is missed");
                continue;
            };
            let own = reader.entry(id).key();
            let expected = if at % 2 == 0 { Direction::Original } else { Direction::Reply };
            assert_eq!(found.direction(), expected);
            assert!(own == *key || own.reversed() == *key, "the flow of another key");
        }
    }
}

#[test]
fn owners_and_readers_at_once() {
    let capacity = FlowCapacity { ip4: CAPACITY, ..FlowCapacity::default() };
    let secret = Secret(std::array::from_fn(|at| (at as u8).wrapping_mul(37)));
    let mut table = FlowTable::new(&capacity, &secret).unwrap();
    let mut owners: Vec<FlowOwner> =
        (0..OWNERS).map(|number| table.owner(number as u8, 0).unwrap()).collect();
    for (number, owner) in owners.iter_mut().enumerate() {
        for at in 0..STABLE {
            let created = owner.create(&NewFlow::new(stable(number, at), None), 0, 1000);
            assert!(matches!(created, Ok(Created::New(_))));
        }
    }
    let epochs =
        Epochs { now: AtomicU64::new(0), seen: std::array::from_fn(|_| AtomicU64::new(0)) };
    let reader = table.reader();
    thread::scope(|scope| {
        let (epochs, reader) = (&epochs, &reader);
        for (number, owner) in owners.iter_mut().enumerate() {
            scope.spawn(move || own(epochs, number, owner, reader));
        }
        for number in 0..READERS {
            scope.spawn(move || read(epochs, OWNERS + number, reader));
        }
    });
    assert_eq!(table.live(), u64::from(OWNERS as u32 * STABLE));
    assert_eq!(table.counted_by_source(), table.live());
    for owner in &mut owners {
        let epoch = epochs.now.load(Ordering::Relaxed) + 1;
        owner.retire_mark(epoch);
        // Each call gives back a few runs of ids.
        (0..CAPACITY).for_each(|_| owner.reclaim(epoch));
        assert_eq!(owner.pending(), 0);
    }
    // All ids that are free can be used, whoever had them.
    let mut free = 0;
    for at in 0..CAPACITY {
        let created = owners[0].create(&NewFlow::new(key(900_000 + at), None), 0, 1000);
        free += u32::from(matches!(created, Ok(Created::New(_))));
    }
    let kept = owners[1].available(Kind::Ip4);
    assert_eq!(free + kept, CAPACITY - OWNERS as u32 * STABLE);
    assert!(kept <= 2);
}
