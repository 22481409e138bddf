//! Processes that follow each other, with the supervisor's store between them.

use super::*;
use crate::descriptor_store::{DescriptorStore, Taken};

struct Sequences;

impl State for Sequences {
    const NAME: &'static str = "sequences";
    const VERSION: u32 = 1;
    type Key = u32;
    type Value = u64;

    fn is_valid(_: &u32, value: &u64) -> bool {
        *value < 1000
    }
}

/// The next version of the capability.
struct NewSequences;

impl State for NewSequences {
    const NAME: &'static str = "sequences";
    const VERSION: u32 = 2;
    type Key = u32;
    type Value = u64;

    fn is_valid(_: &u32, _: &u64) -> bool {
        true
    }
}

/// A supervisor, and the socket of the running child.
pub(crate) struct Supervisor {
    store: DescriptorStore,
    socket: Option<OwnedFd>,
}

impl Supervisor {
    pub(crate) fn new() -> Self {
        Self { store: DescriptorStore::of("test"), socket: None }
    }

    /// The child, after the end of the last one.
    pub(crate) fn start(&mut self) -> Regions {
        if let Some(socket) = self.socket.take() {
            receive_all(&mut self.store, &socket);
        }
        let (of_child, ours) = self.store.connect().unwrap();
        self.socket = Some(ours);
        let (holder, inherited) = Holder::child(of_child);
        Regions::with(holder, inherited)
    }

    pub(crate) fn names(&mut self) -> Vec<String> {
        if let Some(socket) = &self.socket {
            receive_all(&mut self.store, socket);
        }
        self.store.held().map(|(name, _)| name.to_owned()).collect()
    }
}

fn receive_all(store: &mut DescriptorStore, socket: &OwnedFd) {
    while store.receive(socket) == Taken::Part {}
}

fn values(opened: &Opened<Sequences>) -> Vec<(u32, u64)> {
    opened.entries.iter().map(|(slot, value)| (*slot.key(), *value)).collect()
}

#[test]
fn entries_survive_many_processes() {
    let mut supervisor = Supervisor::new();
    let mut first = supervisor.start().open::<Sequences>(4).unwrap();
    assert_eq!(first.report.adopted, 0);
    let mut slot = first.region.insert(7, &1).unwrap();
    for life in 2..10 {
        slot.write(&life);
        drop((slot, first.region));
        let mut next = supervisor.start().open::<Sequences>(4).unwrap();
        assert_eq!(values(&next), [(7, life)]);
        slot = next.entries.pop().unwrap().0;
        first = next;
    }
    assert_eq!(supervisor.names(), ["sequences.1"], "the memory stays the same");
}

#[test]
fn another_capacity_moves_the_entries() {
    let mut supervisor = Supervisor::new();
    let mut first = supervisor.start().open::<Sequences>(2).unwrap();
    first.region.insert(1, &10).unwrap();
    first.region.insert(2, &20).unwrap();
    let mut larger = supervisor.start().open::<Sequences>(3).unwrap();
    assert_eq!((values(&larger), larger.region.room()), (vec![(1, 10), (2, 20)], 1));
    larger.region.insert(3, &30).unwrap();
    assert_eq!(supervisor.names(), ["sequences.2"]);
    let smaller = supervisor.start().open::<Sequences>(1).unwrap();
    assert_eq!((values(&smaller), smaller.report.without_room), (vec![(1, 10)], 2));
    assert_eq!(supervisor.names(), ["sequences.3"]);
}

#[test]
fn entries_that_are_left_out_leave_the_memory_behind() {
    let mut supervisor = Supervisor::new();
    let mut first = supervisor.start().open::<Sequences>(2).unwrap();
    first.region.insert(1, &10).unwrap();
    first.region.insert(2, &2000).unwrap();
    let second = supervisor.start().open::<Sequences>(2).unwrap();
    assert_eq!((second.report.left_out, values(&second)), (1, vec![(1, 10)]));
    assert_eq!(second.region.room(), 1, "its slot is free in new memory");
    assert_eq!(supervisor.names(), ["sequences.2"]);
}

#[test]
fn of_two_regions_the_newest_is_adopted() {
    let mut supervisor = Supervisor::new();
    let mut regions = supervisor.start();
    for (serial, value) in [(1, 10), (3, 30), (2, 20)] {
        let (mut region, file) = Region::<Sequences>::create(1, regions.boot).unwrap();
        region.insert(5, &value).unwrap();
        regions.hold("sequences", serial, &file);
    }
    assert_eq!(supervisor.names().len(), 3, "killed before the old ones were released");
    let opened = supervisor.start().open::<Sequences>(1).unwrap();
    assert_eq!(values(&opened), [(5, 30)]);
    assert_eq!(supervisor.names(), ["sequences.3"]);
    regions = supervisor.start();
    regions.discard::<Sequences>();
    assert!(supervisor.names().is_empty());
    assert_eq!(supervisor.start().open::<Sequences>(1).unwrap().report.adopted, 0);
}

#[test]
fn nothing_older_is_adopted_than_a_damaged_region() {
    let mut supervisor = Supervisor::new();
    let regions = supervisor.start();
    for (serial, value) in [(1, 10), (2, 20)] {
        let (mut region, file) = Region::<Sequences>::create(1, regions.boot).unwrap();
        region.insert(5, &value).unwrap();
        if serial == 2 {
            // Its capacity.
            assert_eq!(nix::sys::uio::pwrite(&file, &[9], 24), Ok(1));
        }
        regions.hold("sequences", serial, &file);
    }
    let opened = supervisor.start().open::<Sequences>(1).unwrap();
    assert!(matches!(opened.report.discarded[..], [Unusable::Damaged]));
    assert!(values(&opened).is_empty(), "the number 10 may have been used before");
    assert_eq!(supervisor.names(), ["sequences.3"]);
}

#[test]
fn an_older_region_is_adopted_when_another_version_made_the_newest() {
    let mut supervisor = Supervisor::new();
    let regions = supervisor.start();
    let (mut region, file) = Region::<Sequences>::create(1, regions.boot).unwrap();
    region.insert(5, &10).unwrap();
    regions.hold("sequences", 1, &file);
    let (_, file) = Region::<NewSequences>::create(1, regions.boot).unwrap();
    regions.hold("sequences", 2, &file);
    let opened = supervisor.start().open::<Sequences>(1).unwrap();
    assert!(matches!(opened.report.discarded[..], [Unusable::Version { .. }]));
    assert_eq!(values(&opened), [(5, 10)], "the other version was killed before it used its own");
    assert_eq!(supervisor.names(), ["sequences.1"]);
}

#[test]
fn a_region_is_opened_once_and_again_after_it_was_discarded() {
    let mut supervisor = Supervisor::new();
    let mut regions = supervisor.start();
    let opened = regions.open::<Sequences>(1).unwrap();
    assert!(regions.open::<Sequences>(1).is_err());
    regions.discard::<Sequences>();
    assert!(supervisor.names().is_empty());
    regions.open::<Sequences>(1).unwrap();
    assert_eq!(supervisor.names(), ["sequences.2"]);
    drop(opened);
}

#[test]
fn a_second_start_in_one_process_finds_the_entries_of_the_first() {
    let mut supervisor = Supervisor::new();
    let mut regions = supervisor.start();
    let mut first = regions.open::<Sequences>(2).unwrap();
    let mut slot = first.region.insert(7, &10).unwrap();
    drop(first);
    let in_use = regions.open::<Sequences>(2).map(drop).unwrap_err();
    assert_eq!(in_use.kind(), std::io::ErrorKind::AlreadyExists, "a worker still has a slot");
    slot.write(&11);
    drop(slot);
    let mut second = regions.open::<Sequences>(2).unwrap();
    assert_eq!((values(&second), supervisor.names()), (vec![(7, 11)], vec!["sequences.1".into()]));
    // It is checked as that of another process.
    second.region.insert(8, &2000).unwrap();
    drop(second);
    let third = regions.open::<Sequences>(2).unwrap();
    assert_eq!((third.report.left_out, values(&third)), (1, vec![(7, 11)]));
    assert_eq!(supervisor.names(), ["sequences.2"]);
    drop(third);
    // No memory for so many: the entries stay where they are.
    assert!(regions.open::<Sequences>(usize::MAX).is_err());
    assert_eq!(values(&regions.open::<Sequences>(2).unwrap()), [(7, 11)]);
    assert_eq!(values(&supervisor.start().open::<Sequences>(2).unwrap()), [(7, 11)]);
}

#[test]
fn foreign_memory_is_discarded_with_a_reason() {
    let mut supervisor = Supervisor::new();
    let regions = supervisor.start();
    let file = OwnedFd::from(tempfile::tempfile().unwrap());
    regions.hold("sequences", 1, &file);
    regions.hold("others", 1, &file);
    let mut next = supervisor.start();
    let opened = next.open::<Sequences>(1).unwrap();
    assert_eq!(opened.report.discarded.len(), 1);
    assert_eq!(supervisor.names(), ["others.1", "sequences.2"]);
}

#[test]
fn without_a_supervisor_state_ends_with_the_process() {
    let mut opened = Regions::in_this_process().open::<Sequences>(1).unwrap();
    opened.region.insert(1, &1).unwrap();
    assert!(Regions::in_this_process().open::<Sequences>(1).unwrap().entries.is_empty());
}

#[test]
fn a_child_has_a_limited_number_of_descriptors() {
    let mut supervisor = Supervisor::new();
    let regions = supervisor.start();
    let (_, file) = Region::<Sequences>::create(1, regions.boot).unwrap();
    (0..100).for_each(|serial| regions.hold("sequences", serial, &file));
    assert_eq!(supervisor.names().len(), 64);
    assert_eq!(supervisor.start().inherited.len(), 64, "all of them wait for the child");
}
