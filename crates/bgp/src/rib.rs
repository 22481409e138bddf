//! What a session has brought, as runs of prefixes that go the same way.
//!
//! Without add-path a prefix has one path, the daemon's choice: it is passed on, and nothing is kept. With add-path the paths
//! of each prefix are kept and chosen from when they change.

use std::net::{IpAddr, Ipv4Addr};

use hashbrown::HashMap;

use crate::Family;
use crate::attributes::Attributes;
use crate::choice::{self, Choice, Few};
use crate::nlri::{Address, Nlri};
use crate::open::{FamilyTerms, Terms};
use crate::paths::{PATHS, Paths, Put};
use crate::session::Listener;
use crate::sets::Sets;

/// Prefixes that go the same way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Where to; [`Choice::Nothing`]: they go.
    pub choice: Choice,
    /// IPv4: address without host bits, length.
    pub ip4: Vec<(u32, u8)>,
    /// IPv6.
    pub ip6: Vec<(u128, u8)>,
}

/// How much is kept, and what was not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathCounts {
    /// Prefixes whose paths are kept: those of families with add-path.
    pub prefixes: usize,
    /// Their paths.
    pub paths: usize,
    /// Sets of attributes that these have.
    pub sets: usize,
    /// Bytes of all that.
    pub bytes: usize,
    /// Paths that were not taken because a prefix has 64 already, or all have 67 million (IPv6: 16 million) beside their first.
    pub refused: u64,
    /// Prefixes that no route may lead to: multicast, or of one link.
    pub passed_over: u64,
    /// Paths that were said with a next hop to which nothing can be sent. Those of the daemon itself are none of them.
    pub unusable: u64,
    /// The next hop of the last of them.
    pub last_unusable: Option<IpAddr>,
}

/// The prefixes of one family.
#[derive(Debug)]
struct Table<A> {
    paths: Paths<A>,
    /// Whose paths changed since the last [`Rib::drain`], some more than once.
    changed: Vec<(A, u8)>,
}

impl<A: Address> Table<A> {
    fn new() -> Self {
        Self { paths: Paths::new(), changed: Vec::new() }
    }
}

/// What is common to both families.
#[derive(Debug)]
struct Shared {
    sets: Sets,
    /// Next hops that share packets at most, at least 1.
    multipath: usize,
    /// What was not kept.
    left: PathCounts,
    /// The paths that are looked at, kept for their memory.
    some: Vec<(u32, u32)>,
    /// The last choices, of what is and of what was: neighbouring prefixes mostly have the same paths.
    last: [(Vec<(u32, u32)>, Choice); 2],
}

/// Which of the last choices is asked.
#[derive(Clone, Copy)]
enum When {
    Now,
    Before,
}

impl Shared {
    fn choose<A: Address>(&mut self, paths: &Paths<A>, address: A, length: u8) -> Choice {
        self.some.clear();
        paths.of(address, length, &mut self.some);
        self.choose_of_some(When::Now)
    }

    fn choose_of_some(&mut self, when: When) -> Choice {
        let (paths, choice) = &mut self.last[when as usize];
        if *paths != self.some {
            let some = self.some.iter().take(PATHS);
            let some: Few<'_> = some.map(|(id, set)| (*id, self.sets.get(*set))).collect();
            *choice = choice::choose(&some, self.multipath);
            paths.clone_from(&self.some);
        }
        choice.clone()
    }

    /// The number of a set, which may have been another one's before.
    fn number(&mut self, set: &Attributes) -> u32 {
        for (paths, choice) in &mut self.last {
            paths.clear();
            *choice = Choice::Nothing;
        }
        self.sets.number(set)
    }

    /// Adds paths with one set.
    fn reach<A: Address>(&mut self, table: &mut Table<A>, set: &Attributes, prefixes: Nlri<'_, A>) {
        let number = self.number(set);
        for (id, address, length) in prefixes {
            if !address.is_routable(length) {
                self.left.passed_over += 1;
                continue;
            }
            match table.paths.put(address, length, id, number) {
                Put::First => {
                    self.sets.hold(number);
                    if set.has_gateway() {
                        table.changed.push((address, length));
                    }
                }
                Put::Another => {
                    self.sets.hold(number);
                    self.note(table, (address, length), id, None);
                }
                Put::Instead(old) if old == number => {}
                Put::Instead(old) => {
                    self.sets.hold(number);
                    self.note(table, (address, length), id, Some(old));
                    self.sets.release(old);
                }
                Put::Full => self.left.refused += 1,
            }
        }
        self.sets.tidy(number);
    }

    fn unreach<A: Address>(&mut self, table: &mut Table<A>, prefixes: Nlri<'_, A>) {
        for (id, address, length) in prefixes {
            if let Some(old) = table.paths.take(address, length, id) {
                self.note(table, (address, length), id, Some(old));
                self.sets.release(old);
            }
        }
    }

    /// Notes the prefix when its choice is another one than it was while the path `id` had the set `old`, or was not there.
    fn note<A: Address>(
        &mut self,
        table: &mut Table<A>,
        (address, length): (A, u8),
        id: u32,
        old: Option<u32>,
    ) {
        let now = self.choose(&table.paths, address, length);
        self.some.retain(|(one, _)| *one != id);
        self.some.extend(old.map(|old| (id, old)));
        let before = self.choose_of_some(When::Before);
        if now != before {
            table.changed.push((address, length));
        }
    }
}

/// What a session has brought.
#[derive(Debug)]
pub struct Rib {
    shared: Shared,
    ip4: Table<u32>,
    ip6: Table<u128>,
    keeps4: bool,
    keeps6: bool,
    /// Of families whose paths are not kept, in their order.
    runs: Vec<Run>,
    pending: usize,
    /// Prefixes of such families: announced, less those that were withdrawn.
    passed: usize,
    /// Families that have not said all yet.
    waits_for: Vec<Family>,
    /// The daemon's own address.
    daemon: Option<IpAddr>,
}

impl Rib {
    /// Empty. Up to `multipath` next hops (1..=64) share the packets of a prefix when add-path brings as many equally good paths.
    /// The daemon's own routes have its address of the session as next hop.
    #[must_use]
    pub fn new(multipath: u8, daemon: Option<IpAddr>) -> Self {
        let nothing = || (Vec::new(), Choice::Nothing);
        let shared = Shared {
            sets: Sets::default(),
            multipath: usize::from(multipath.clamp(1, 64)),
            left: PathCounts::default(),
            some: Vec::new(),
            last: [nothing(), nothing()],
        };
        Self {
            shared,
            ip4: Table::new(),
            ip6: Table::new(),
            keeps4: false,
            keeps6: false,
            runs: Vec::new(),
            pending: 0,
            passed: 0,
            waits_for: vec![Family::Ip4, Family::Ip6],
            daemon,
        }
    }

    /// About how many prefixes [`Rib::drain`] has.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.pending + self.ip4.changed.len() + self.ip6.changed.len()
    }

    /// How many prefixes the daemon has a path to. Without add-path about so many: what is announced twice counts twice.
    #[must_use]
    pub fn prefixes(&self) -> usize {
        self.passed + self.ip4.paths.len().0 + self.ip6.paths.len().0
    }

    /// Whether all was said since the session is up.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.waits_for.is_empty()
    }

    /// How much is kept.
    #[must_use]
    pub fn counts(&self) -> PathCounts {
        let ((prefixes4, paths4), (prefixes6, paths6)) =
            (self.ip4.paths.len(), self.ip6.paths.len());
        let tables = self.ip4.paths.memory() + self.ip6.paths.memory();
        PathCounts {
            prefixes: prefixes4 + prefixes6,
            paths: paths4 + paths6,
            sets: self.shared.sets.len(),
            bytes: tables + self.shared.sets.memory(),
            ..self.shared.left
        }
    }

    /// What changed since the last time, to be told in this order.
    pub fn drain(&mut self) -> Vec<Run> {
        self.pending = 0;
        let mut runs = std::mem::take(&mut self.runs);
        // Each prefix is in one state now, so that those that were not kept in order can be gathered by where they go.
        let mut gathered = HashMap::<Choice, usize>::new();
        let mut last: Option<usize> = None;
        let mut place = |runs: &mut Vec<Run>, choice: Choice| {
            if let Some(last) = last
                && runs[last].choice == choice
            {
                return last;
            }
            let place = *gathered.entry(choice).or_insert_with_key(|choice| {
                runs.push(Run { choice: choice.clone(), ip4: Vec::new(), ip6: Vec::new() });
                runs.len() - 1
            });
            last = Some(place);
            place
        };
        for (address, length) in std::mem::take(&mut self.ip4.changed) {
            let choice = self.shared.choose(&self.ip4.paths, address, length);
            let place = place(&mut runs, choice);
            runs[place].ip4.push((address, length));
        }
        for (address, length) in std::mem::take(&mut self.ip6.changed) {
            let choice = self.shared.choose(&self.ip6.paths, address, length);
            let place = place(&mut runs, choice);
            runs[place].ip6.push((address, length));
        }
        runs
    }

    /// Attributes of a path; one of the daemon's own leads nowhere.
    fn seen(&self, set: &Attributes) -> Attributes {
        let mut set = *set;
        if self.daemon == Some(set.next_hop) {
            set.next_hop = Ipv4Addr::UNSPECIFIED.into();
        }
        set
    }

    /// Counts paths that lead nowhere though they are of somebody else than the daemon.
    fn note_unusable<A: Address>(&mut self, set: &Attributes, prefixes: &Nlri<'_, A>) {
        if self.daemon == Some(set.next_hop) || set.next_hop.is_loopback() || set.has_gateway() {
            return;
        }
        let routes = prefixes.clone().filter(|(_, address, length)| address.is_routable(*length));
        let left = &mut self.shared.left;
        left.unusable += routes.count() as u64;
        left.last_unusable = (left.unusable > 0).then_some(set.next_hop);
    }

    /// The run in which prefixes that are not kept go next.
    fn run(&mut self, choice: Choice) -> &mut Run {
        let is_same = self.runs.last().is_some_and(|run| run.choice == choice);
        if !is_same {
            self.runs.push(Run { choice, ip4: Vec::new(), ip6: Vec::new() });
        }
        let last = self.runs.len() - 1;
        &mut self.runs[last]
    }

    fn passed(&mut self, count: usize, goes: bool) {
        self.pending += count;
        let less = self.passed.saturating_sub(count);
        self.passed = if goes { less } else { self.passed + count };
    }

    fn pass4(&mut self, choice: Choice, prefixes: Nlri<'_, u32>) {
        let goes = choice == Choice::Nothing;
        let run = self.run(choice);
        let (before, mut odd) = (run.ip4.len(), 0);
        run.ip4.extend(routable(prefixes, &mut odd));
        let count = run.ip4.len() - before;
        self.passed(count, goes);
        self.shared.left.passed_over += odd;
    }

    fn pass6(&mut self, choice: Choice, prefixes: Nlri<'_, u128>) {
        let goes = choice == Choice::Nothing;
        let run = self.run(choice);
        let (before, mut odd) = (run.ip6.len(), 0);
        run.ip6.extend(routable(prefixes, &mut odd));
        let count = run.ip6.len() - before;
        self.passed(count, goes);
        self.shared.left.passed_over += odd;
    }
}

fn routable<A: Address>(prefixes: Nlri<'_, A>, odd: &mut u64) -> impl Iterator<Item = (A, u8)> {
    prefixes.filter_map(move |(_, address, length)| {
        let is_routable = address.is_routable(length);
        *odd += u64::from(!is_routable);
        is_routable.then_some((address, length))
    })
}

/// Where the daemon's only path leads.
fn only(set: &Attributes) -> Choice {
    if set.has_gateway() { Choice::One(set.next_hop, None) } else { Choice::Nothing }
}

impl Listener for Rib {
    fn up(&mut self, terms: &Terms) {
        let adds = |family: Option<FamilyTerms>| family.is_some_and(|terms| terms.add_paths);
        (self.keeps4, self.keeps6) = (adds(terms.ip4), adds(terms.ip6));
        let families = [Family::Ip4, Family::Ip6];
        self.waits_for = families.into_iter().filter(|one| terms.family(*one).is_some()).collect();
    }

    fn reach4(&mut self, set: &Attributes, prefixes: Nlri<'_, u32>) {
        self.note_unusable(set, &prefixes);
        let set = self.seen(set);
        if self.keeps4 {
            self.shared.reach(&mut self.ip4, &set, prefixes);
        } else {
            self.pass4(only(&set), prefixes);
        }
    }

    fn reach6(&mut self, set: &Attributes, prefixes: Nlri<'_, u128>) {
        self.note_unusable(set, &prefixes);
        let set = self.seen(set);
        if self.keeps6 {
            self.shared.reach(&mut self.ip6, &set, prefixes);
        } else {
            self.pass6(only(&set), prefixes);
        }
    }

    fn unreach4(&mut self, prefixes: Nlri<'_, u32>) {
        if self.keeps4 {
            self.shared.unreach(&mut self.ip4, prefixes);
        } else {
            self.pass4(Choice::Nothing, prefixes);
        }
    }

    fn unreach6(&mut self, prefixes: Nlri<'_, u128>) {
        if self.keeps6 {
            self.shared.unreach(&mut self.ip6, prefixes);
        } else {
            self.pass6(Choice::Nothing, prefixes);
        }
    }

    fn end_of_rib(&mut self, family: Family) {
        self.waits_for.retain(|one| *one != family);
    }
}
