//! Both halves against a naive model: whatever is changed, lost, refused and restarted, at the end both hold the same.
#![allow(missing_docs)]

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;
use stoa_delta::{Message, Receiver, Refusal, Reply, Sender, Store, Table, Update, Window, digest};

type Row = [u8; 2];

/// A capability that keeps rows in a map.
#[derive(Default)]
struct Rows {
    held: BTreeMap<u64, Row>,
    /// Each row that was ever desired: nothing else may arrive.
    desired_once: BTreeSet<(u64, Row)>,
}

/// Most rows, which the context of the capability limits.
struct Limit(usize);

impl Store for Rows {
    type Key = u64;
    type Row = Row;
    type Context = Limit;

    fn set(&mut self, limit: &mut Limit, key: &u64, row: Row) -> Result<(), Refusal> {
        assert!(self.desired_once.contains(&(*key, row)), "{key} {row:?} was never sent");
        if row[0] == 255 {
            let (reason, fix) = ("255".to_owned(), "Use less.".to_owned());
            return Err(Refusal { reason, fix, is_full: false });
        }
        if self.held.len() >= limit.0 && !self.held.contains_key(key) {
            let (reason, fix) = ("no room".to_owned(), "Raise the limit.".to_owned());
            return Err(Refusal { reason, fix, is_full: true });
        }
        self.held.insert(*key, row);
        Ok(())
    }

    fn remove(&mut self, _: &mut Limit, key: &u64) {
        self.held.remove(key);
    }

    fn get(&self, _: &Limit, key: &u64) -> Option<Row> {
        self.held.get(key).copied()
    }

    fn rows(&self, _: &Limit) -> u64 {
        self.held.len() as u64
    }

    fn room(&self, limit: &Limit) -> u64 {
        limit.0.saturating_sub(self.held.len()) as u64
    }
}

#[derive(Clone, Debug)]
enum Step {
    Set(u64, Row),
    Remove(u64),
    /// The sender's next message goes into the connection.
    Send,
    /// The receiver takes a message or runs its next batch.
    Receive,
    /// A reply arrives.
    Reply,
    Break,
    Connect,
    RestartSender,
    RestartReceiver,
    Complete,
    Limit(usize),
    /// A bug of the capability: it loses a row.
    Lose(u64),
    /// An audit lists a row that the sender does not know.
    Repair(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = || 0..24_u64;
    let row = (prop_oneof![8 => 0..3_u8, 1 => Just(255)], 0..2_u8).prop_map(|(a, b)| [a, b]);
    let step = prop_oneof![
        12 => (key(), row).prop_map(|(key, row)| Step::Set(key, row)),
        5 => key().prop_map(Step::Remove),
        10 => Just(Step::Send),
        16 => Just(Step::Receive),
        10 => Just(Step::Reply),
        1 => Just(Step::Break),
        3 => Just(Step::Connect),
        1 => Just(Step::RestartSender),
        1 => Just(Step::RestartReceiver),
        2 => Just(Step::Complete),
        1 => (0..30_usize).prop_map(Step::Limit),
        1 => key().prop_map(Step::Lose),
        1 => key().prop_map(Step::Repair),
    ];
    prop::collection::vec(step, 0..300)
}

const WINDOW: Window =
    Window { message_rows: 4, message_bytes: 64, messages: 3, bytes: 1 << 10, waiting: 8 };

struct World {
    sender: Sender<u64, Row>,
    receiver: Receiver<Rows>,
    limit: Limit,
    /// What the sender should have.
    desired: BTreeMap<u64, Row>,
    messages: VecDeque<Message>,
    replies: VecDeque<Reply>,
    caller: u64,
    /// The message that the receiver works on, and whether its caller still listens.
    update: Option<(Update, u64)>,
}

impl World {
    fn new() -> Self {
        Self {
            sender: Sender::new(WINDOW),
            receiver: Receiver::new(Rows::default()).with_batches_of(2),
            limit: Limit(20),
            desired: BTreeMap::new(),
            messages: VecDeque::new(),
            replies: VecDeque::new(),
            caller: 0,
            update: None,
        }
    }

    fn set(&mut self, key: u64, row: Row) {
        self.receiver.store_mut().desired_once.insert((key, row));
        self.desired.insert(key, row);
        self.sender.set(key, row).unwrap();
    }

    fn disconnect(&mut self) {
        self.sender.disconnect();
        self.messages.clear();
        self.replies.clear();
    }

    fn connect(&mut self) {
        self.disconnect();
        self.caller += 1;
        self.sender.connect();
    }

    fn send(&mut self) -> bool {
        let Some(message) = self.sender.next_message() else { return false };
        self.messages.push_back(message);
        assert!(self.messages.len() + self.replies.len() <= WINDOW.messages, "no back-pressure");
        true
    }

    fn receive(&mut self) -> bool {
        if self.update.is_none() {
            let Some(message) = self.messages.pop_front() else { return false };
            let update = Update::new(self.caller, message).unwrap();
            self.update = Some((update, self.caller));
        }
        let Some((mut update, caller)) = self.update.take() else { return false };
        match self.receiver.step(&mut self.limit, &mut update) {
            Ok(false) => self.update = Some((update, caller)),
            Ok(true) if caller == self.caller && self.sender.is_connected() => {
                self.replies.push_back(update.into_reply());
            }
            // Nobody listens any more.
            Ok(true) | Err(_) => {}
        }
        true
    }

    fn reply(&mut self) -> bool {
        let Some(reply) = self.replies.pop_front() else { return false };
        self.sender.acknowledge(&reply).unwrap();
        true
    }

    fn restart_sender(&mut self) {
        self.disconnect();
        self.sender = Sender::new(WINDOW);
        for (key, row) in &self.desired {
            self.sender.set(*key, *row).unwrap();
        }
    }

    fn restart_receiver(&mut self) {
        self.disconnect();
        self.update = None;
        let desired_once = std::mem::take(&mut self.receiver.store_mut().desired_once);
        let store = Rows { desired_once, ..Rows::default() };
        self.receiver = Receiver::new(store).with_batches_of(2);
    }

    /// The list of an audit has a key that the sender has forgotten.
    fn repair_unknown(&mut self, key: u64) {
        if self.desired.contains_key(&key) || !self.sender.is_connected() {
            return;
        }
        let (slice, listed) = listed(key);
        self.sender.repair(&[slice], &listed).unwrap();
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Set(key, row) => self.set(key, row),
            Step::Remove(key) => {
                self.desired.remove(&key);
                self.sender.remove(&key);
            }
            Step::Send => drop(self.send()),
            Step::Receive => drop(self.receive()),
            Step::Reply => drop(self.reply()),
            Step::Break => self.disconnect(),
            Step::Connect if !self.sender.is_connected() => self.connect(),
            Step::Connect => {}
            Step::RestartSender => self.restart_sender(),
            Step::RestartReceiver => self.restart_receiver(),
            Step::Complete => self.sender.complete(),
            Step::Limit(rows) => self.limit.0 = rows,
            Step::Repair(key) => self.repair_unknown(key),
            Step::Lose(key) => drop(self.receiver.store_mut().held.remove(&key)),
        }
    }

    /// Everything that is under way arrives.
    fn settle(&mut self) {
        for _ in 0..100_000 {
            if !(self.send() | self.receive() | self.reply()) {
                return;
            }
        }
        panic!("the halves do not come to rest");
    }

    /// Compares and repairs; whether both sides were equal.
    fn audit(&mut self) -> bool {
        assert!(self.sender.is_synced());
        let audited = |receiver: &Receiver<Rows>, slices: &[u32], limit: &Limit| {
            let mut audit = receiver.begin_audit(slices);
            while !receiver.audit_step(limit, &mut audit) {}
            audit.into_result()
        };
        let found = audited(&self.receiver, &[], &self.limit);
        assert!(!found.is_changing);
        assert_eq!(found.unknown, 0);
        let slices = self.sender.expected().differing(&found.digests);
        let listed = audited(&self.receiver, &slices, &self.limit).listed;
        let different = self.sender.repair(&slices, &listed).unwrap();
        assert_eq!(different > 0, !slices.is_empty());
        different == 0
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn both_sides_are_equal_in_the_end(steps in steps()) {
        let mut world = World::new();
        for step in steps {
            world.run(step);
            prop_assert_eq!(world.sender.iter().count(), world.desired.len());
        }
        if !world.sender.is_connected() {
            world.connect();
        }
        world.sender.complete();
        world.settle();
        if !world.audit() {
            world.settle();
            prop_assert!(world.audit(), "a repair did not repair");
        }
        // With room for all, only what can never be in force is missing.
        world.limit.0 = 100;
        world.sender.retry_refused();
        world.settle();
        prop_assert!(world.audit());
        let mut possible = world.desired.clone();
        possible.retain(|_, row| row[0] != 255);
        prop_assert_eq!(&world.receiver.store().held, &possible);
        prop_assert_eq!(world.sender.refused(), world.desired.len() - possible.len());
        let summary = world.receiver.summary();
        prop_assert_eq!((summary.rows, summary.stale), (possible.len() as u64, 0));
        prop_assert_eq!(summary.digest, world.sender.expected().total());
    }
}

/// The list of an audit with one row.
fn listed(key: u64) -> (u32, Vec<u8>) {
    let bytes = key.to_be_bytes();
    let slice = digest::slice(digest::key(&bytes)) as u32;
    (slice, [&[bytes.len() as u8][..], &bytes, &[0; 8]].concat())
}

#[test]
fn a_row_that_an_audit_found_may_be_desired_again() {
    let mut world = World::new();
    world.connect();
    world.sender.complete();
    world.settle();
    world.repair_unknown(7);
    world.set(7, [1, 0]);
    world.run(Step::Remove(7));
    world.settle();
    assert!(world.audit(), "the digest of the row was removed from another slice");
}

#[test]
fn a_restart_of_the_sender_takes_no_row_out_of_force() {
    let mut world = World::new();
    world.limit.0 = 1_000;
    (0..200).for_each(|key| world.set(key, [1, 0]));
    world.connect();
    world.sender.complete();
    world.settle();
    world.desired.remove(&7);
    world.restart_sender();
    world.connect();
    while world.send() | world.receive() | world.reply() {
        let held = world.receiver.store().held.len();
        assert_eq!(held, 200, "nothing is swept before the sender has sent everything");
    }
    assert_eq!(world.receiver.summary().stale, 1);
    world.sender.complete();
    world.settle();
    assert_eq!(world.receiver.store().held, world.desired);
    assert!(world.receiver.summary().is_complete && world.audit());
}

#[test]
fn changes_of_a_waiting_key_are_one_change() {
    let mut world = World::new();
    world.connect();
    world.settle();
    for round in 0..100 {
        world.set(1, [round, 0]);
        world.set(2, [round, 0]);
    }
    assert_eq!(world.sender.waiting(), 2);
    world.sender.remove(&2);
    let message = world.sender.next_message().unwrap();
    assert_eq!(stoa_delta::codec::check(&message.changes), Ok(2));
    assert!(world.sender.next_message().is_none());
}

#[test]
fn a_newer_caller_supersedes_the_older_between_two_batches() {
    let mut world = World::new();
    world.connect();
    (0..4).for_each(|key| world.set(key, [1, 0]));
    world.send();
    world.receive();
    assert_eq!(world.receiver.summary().rows, 2, "the first batch");
    let (mut older, _) = world.update.take().unwrap();
    world.connect();
    world.send();
    world.receive();
    assert!(world.receiver.step(&mut world.limit, &mut older).is_err());
    world.update = None;
    world.connect();
    world.sender.complete();
    world.settle();
    assert_eq!(world.receiver.store().held, world.desired);
}

#[test]
fn a_refused_row_comes_back_when_there_is_room() {
    let mut world = World::new();
    world.limit.0 = 2;
    world.connect();
    world.sender.complete();
    (0..3).for_each(|key| world.set(key, [1, 0]));
    world.settle();
    assert_eq!((world.sender.refused(), world.receiver.store().held.len()), (1, 2));
    assert!(world.audit(), "a refused row is not expected");
    world.run(Step::Remove(0));
    world.settle();
    assert_eq!((world.sender.refused(), &world.receiver.store().held), (0, &world.desired));
}

#[test]
fn a_reply_that_nothing_asked_for_breaks_the_connection() {
    let mut world = World::new();
    world.connect();
    assert!(world.sender.acknowledge(&Reply { number: 1, ..Reply::default() }).is_err());
    world.send();
    assert!(world.sender.acknowledge(&Reply { number: 2, ..Reply::default() }).is_err());
    assert!(world.sender.acknowledge(&Reply { number: 1, ..Reply::default() }).is_ok());
}
