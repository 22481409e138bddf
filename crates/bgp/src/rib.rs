//! The Adj-RIB-In of a session; it emits runs of prefixes with the same next hops.
//!
//! Without add-path a prefix has one path, which the RIB relays and does not store. With add-path it stores all paths.

use std::net::{IpAddr, Ipv4Addr};

use hashbrown::HashMap;

use crate::Family;
use crate::attribute_sets::AttributeSets;
use crate::attributes::Attributes;
use crate::nlri::{Address, Nlri};
use crate::open::{Negotiated, NegotiatedFamily};
use crate::paths::{Inserted, MAX_PATHS, Paths};
use crate::selection::{self, PathVec, Selection};
use crate::session::SessionHandler;

/// Prefixes with the same next hops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The next hops; [`Selection::Unreachable`] withdraws the prefixes.
    pub selection: Selection,
    /// IPv4 prefixes: address without host bits, length.
    pub ip4: Vec<(u32, u8)>,
    /// IPv6 prefixes.
    pub ip6: Vec<(u128, u8)>,
}

/// Counters of stored and of rejected paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathCounts {
    /// Stored prefixes: those of families with add-path.
    pub prefixes: usize,
    /// Their paths.
    pub paths: usize,
    /// Distinct attribute sets of these paths.
    pub sets: usize,
    /// Allocated bytes.
    pub bytes: usize,
    /// Paths rejected because the prefix has 64, or the chain index (26 bits; IPv6: 24 bits) is exhausted.
    pub refused: u64,
    /// Ignored prefixes: multicast and link-local.
    pub ignored_prefixes: u64,
    /// Paths with an unusable next hop, without the daemon's own.
    pub unusable_next_hops: u64,
    /// The next hop of the last of them.
    pub last_unusable_next_hop: Option<IpAddr>,
}

/// The prefixes of one family.
#[derive(Debug)]
struct Table<A> {
    paths: Paths<A>,
    /// Prefixes whose selection changed since the last [`Rib::drain`], possibly repeated.
    changed: Vec<(A, u8)>,
}

impl<A: Address> Table<A> {
    fn new() -> Self {
        Self { paths: Paths::new(), changed: Vec::new() }
    }
}

#[derive(Debug)]
struct Shared {
    sets: AttributeSets,
    /// Maximum next hops of a prefix, at least 1.
    multipath: usize,
    counts: PathCounts,
    scratch: Vec<(u32, u32)>,
    /// The latest current and previous selection: neighbouring prefixes mostly have the same paths.
    recent: [(Vec<(u32, u32)>, Selection); 2],
}

#[derive(Clone, Copy)]
enum Slot {
    Current,
    Previous,
}

impl Shared {
    fn select<A: Address>(&mut self, paths: &Paths<A>, address: A, length: u8) -> Selection {
        self.scratch.clear();
        paths.paths_of(address, length, &mut self.scratch);
        self.select_from_scratch(Slot::Current)
    }

    fn select_from_scratch(&mut self, when: Slot) -> Selection {
        let (paths, selection) = &mut self.recent[when as usize];
        if *paths != self.scratch {
            let scratch = self.scratch.iter().take(MAX_PATHS);
            let scratch: PathVec<'_> =
                scratch.map(|(id, set)| (*id, self.sets.get(*set))).collect();
            *selection = selection::select(&scratch, self.multipath);
            paths.clone_from(&self.scratch);
        }
        selection.clone()
    }

    /// The index of an attribute set. The index may be reused, so the recent selections are discarded.
    fn intern(&mut self, set: &Attributes) -> u32 {
        for (paths, selection) in &mut self.recent {
            paths.clear();
            *selection = Selection::Unreachable;
        }
        self.sets.intern(set)
    }

    /// Adds paths with one attribute set.
    fn reach<A: Address>(&mut self, table: &mut Table<A>, set: &Attributes, prefixes: Nlri<'_, A>) {
        let index = self.intern(set);
        for (id, address, length) in prefixes {
            if !address.is_routable(length) {
                self.counts.ignored_prefixes += 1;
                continue;
            }
            match table.paths.insert(address, length, id, index) {
                Inserted::First => {
                    self.sets.acquire(index);
                    if set.has_gateway() {
                        table.changed.push((address, length));
                    }
                }
                Inserted::Additional => {
                    self.sets.acquire(index);
                    self.mark_if_changed(table, (address, length), id, None);
                }
                Inserted::Replaced(old) if old == index => {}
                Inserted::Replaced(old) => {
                    self.sets.acquire(index);
                    self.mark_if_changed(table, (address, length), id, Some(old));
                    self.sets.release(old);
                }
                Inserted::Full => self.counts.refused += 1,
            }
        }
        self.sets.free_if_unused(index);
    }

    fn unreach<A: Address>(&mut self, table: &mut Table<A>, prefixes: Nlri<'_, A>) {
        for (id, address, length) in prefixes {
            if let Some(old) = table.paths.remove(address, length, id) {
                self.mark_if_changed(table, (address, length), id, Some(old));
                self.sets.release(old);
            }
        }
    }

    /// Marks the prefix as changed if its selection differs from the one when path `id` had the set `old`.
    fn mark_if_changed<A: Address>(
        &mut self,
        table: &mut Table<A>,
        (address, length): (A, u8),
        id: u32,
        old: Option<u32>,
    ) {
        let now = self.select(&table.paths, address, length);
        self.scratch.retain(|(one, _)| *one != id);
        self.scratch.extend(old.map(|old| (id, old)));
        let before = self.select_from_scratch(Slot::Previous);
        if now != before {
            table.changed.push((address, length));
        }
    }
}

/// The Adj-RIB-In of a session.
#[derive(Debug)]
pub struct Rib {
    shared: Shared,
    ip4: Table<u32>,
    ip6: Table<u128>,
    stores_paths4: bool,
    stores_paths6: bool,
    /// Runs of families without add-path, in the order of arrival.
    runs: Vec<Run>,
    pending: usize,
    /// Families that have not sent End-of-RIB.
    awaiting_end_of_rib: Vec<Family>,
    daemon: Option<IpAddr>,
}

impl Rib {
    /// Creates an empty RIB. With add-path, up to `multipath` (1..=64) equally good next hops share the traffic of a
    /// prefix. The daemon's own routes have its session address, `daemon`, as next hop.
    #[must_use]
    pub fn new(multipath: u8, daemon: Option<IpAddr>) -> Self {
        let nothing = || (Vec::new(), Selection::Unreachable);
        let shared = Shared {
            sets: AttributeSets::default(),
            multipath: usize::from(multipath.clamp(1, 64)),
            counts: PathCounts::default(),
            scratch: Vec::new(),
            recent: [nothing(), nothing()],
        };
        Self {
            shared,
            ip4: Table::new(),
            ip6: Table::new(),
            stores_paths4: false,
            stores_paths6: false,
            runs: Vec::new(),
            pending: 0,
            awaiting_end_of_rib: vec![Family::Ip4, Family::Ip6],
            daemon,
        }
    }

    /// Approximate number of prefixes that [`Rib::drain`] would return.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.pending + self.ip4.changed.len() + self.ip6.changed.len()
    }

    /// Whether every family has sent End-of-RIB since the session was established.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.awaiting_end_of_rib.is_empty()
    }

    /// Whether this family has sent End-of-RIB since the session was established. A family that the session does not
    /// carry has nothing to send.
    #[must_use]
    pub fn has_ended(&self, family: Family) -> bool {
        !self.awaiting_end_of_rib.contains(&family)
    }

    /// Counters.
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
            ..self.shared.counts
        }
    }

    /// Returns the changes since the last call, to be applied in this order.
    pub fn drain(&mut self) -> Vec<Run> {
        self.pending = 0;
        let mut runs = std::mem::take(&mut self.runs);
        // Each stored prefix has one current selection: group these runs by selection.
        let mut gathered = HashMap::<Selection, usize>::new();
        let mut recent: Option<usize> = None;
        let mut run_index = |runs: &mut Vec<Run>, selection: Selection| {
            if let Some(recent) = recent
                && runs[recent].selection == selection
            {
                return recent;
            }
            let index = *gathered.entry(selection).or_insert_with_key(|selection| {
                runs.push(Run { selection: selection.clone(), ip4: Vec::new(), ip6: Vec::new() });
                runs.len() - 1
            });
            recent = Some(index);
            index
        };
        for (address, length) in std::mem::take(&mut self.ip4.changed) {
            let selection = self.shared.select(&self.ip4.paths, address, length);
            let index = run_index(&mut runs, selection);
            runs[index].ip4.push((address, length));
        }
        for (address, length) in std::mem::take(&mut self.ip6.changed) {
            let selection = self.shared.select(&self.ip6.paths, address, length);
            let index = run_index(&mut runs, selection);
            runs[index].ip6.push((address, length));
        }
        runs
    }

    /// A copy of the attributes in which the daemon's own routes are unreachable.
    fn own_routes_unreachable(&self, set: &Attributes) -> Attributes {
        let mut set = *set;
        if self.daemon == Some(set.next_hop) {
            set.next_hop = Ipv4Addr::UNSPECIFIED.into();
        }
        set
    }

    /// Counts unusable next hops other than those of the daemon's own routes.
    fn count_unusable<A: Address>(&mut self, set: &Attributes, prefixes: &Nlri<'_, A>) {
        if self.daemon == Some(set.next_hop) || set.next_hop.is_loopback() || set.has_gateway() {
            return;
        }
        let routes = prefixes.clone().filter(|(_, address, length)| address.is_routable(*length));
        let counts = &mut self.shared.counts;
        counts.unusable_next_hops += routes.count() as u64;
        counts.last_unusable_next_hop = (counts.unusable_next_hops > 0).then_some(set.next_hop);
    }

    /// The run to which relayed prefixes with this selection are appended.
    fn run(&mut self, selection: Selection) -> &mut Run {
        let is_same = self.runs.last().is_some_and(|run| run.selection == selection);
        if !is_same {
            self.runs.push(Run { selection, ip4: Vec::new(), ip6: Vec::new() });
        }
        let recent = self.runs.len() - 1;
        &mut self.runs[recent]
    }

    fn relay4(&mut self, selection: Selection, prefixes: Nlri<'_, u32>) {
        let run = self.run(selection);
        let (before, mut unroutable) = (run.ip4.len(), 0);
        run.ip4.extend(routable(prefixes, &mut unroutable));
        self.pending += run.ip4.len() - before;
        self.shared.counts.ignored_prefixes += unroutable;
    }

    fn relay6(&mut self, selection: Selection, prefixes: Nlri<'_, u128>) {
        let run = self.run(selection);
        let (before, mut unroutable) = (run.ip6.len(), 0);
        run.ip6.extend(routable(prefixes, &mut unroutable));
        self.pending += run.ip6.len() - before;
        self.shared.counts.ignored_prefixes += unroutable;
    }
}

fn routable<A: Address>(
    prefixes: Nlri<'_, A>,
    unroutable: &mut u64,
) -> impl Iterator<Item = (A, u8)> {
    prefixes.filter_map(move |(_, address, length)| {
        let is_routable = address.is_routable(length);
        *unroutable += u64::from(!is_routable);
        is_routable.then_some((address, length))
    })
}

fn single_path(set: &Attributes) -> Selection {
    if set.has_gateway() { Selection::Single(set.next_hop, None) } else { Selection::Unreachable }
}

impl SessionHandler for Rib {
    fn up(&mut self, negotiated: &Negotiated) {
        let adds = |family: Option<NegotiatedFamily>| {
            family.is_some_and(|negotiated| negotiated.add_paths)
        };
        (self.stores_paths4, self.stores_paths6) = (adds(negotiated.ip4), adds(negotiated.ip6));
        let families = [Family::Ip4, Family::Ip6];
        self.awaiting_end_of_rib =
            families.into_iter().filter(|one| negotiated.family(*one).is_some()).collect();
    }

    fn reach4(&mut self, set: &Attributes, prefixes: Nlri<'_, u32>) {
        self.count_unusable(set, &prefixes);
        let set = self.own_routes_unreachable(set);
        if self.stores_paths4 {
            self.shared.reach(&mut self.ip4, &set, prefixes);
        } else {
            self.relay4(single_path(&set), prefixes);
        }
    }

    fn reach6(&mut self, set: &Attributes, prefixes: Nlri<'_, u128>) {
        self.count_unusable(set, &prefixes);
        let set = self.own_routes_unreachable(set);
        if self.stores_paths6 {
            self.shared.reach(&mut self.ip6, &set, prefixes);
        } else {
            self.relay6(single_path(&set), prefixes);
        }
    }

    fn unreach4(&mut self, prefixes: Nlri<'_, u32>) {
        if self.stores_paths4 {
            self.shared.unreach(&mut self.ip4, prefixes);
        } else {
            self.relay4(Selection::Unreachable, prefixes);
        }
    }

    fn unreach6(&mut self, prefixes: Nlri<'_, u128>) {
        if self.stores_paths6 {
            self.shared.unreach(&mut self.ip6, prefixes);
        } else {
            self.relay6(Selection::Unreachable, prefixes);
        }
    }

    fn end_of_rib(&mut self, family: Family) {
        self.awaiting_end_of_rib.retain(|one| *one != family);
    }
}
