//! The writer's side of a classifier: the rules by id, and the trees of both families.

use std::collections::HashMap;
use std::sync::Arc;

use super::arena::{Arena, Item};
use super::build::{Builder, Limits, VISITS, budget};
use super::layout::{LINE, MAX_LINES, Word};
use super::pattern::{Family, IP4, IP6, Pattern};
use super::reader::ClassifierReader;
use super::recent::RelevantBits;
use super::rule::Rule;
use super::score::Chooser;
use super::store::Store;
use super::update::{Change, Updater};
use super::{ClassifierCapacity, ClassifierError, ClassifierLimit, NO_RULE};
use crate::aligned::Region;
use crate::grace::Reclaim;

const FAMILIES: [&Family; 2] = [&IP4, &IP6];
/// Places for rules, as a multiple of them: what is tried in turn while memory does not suffice. The last
/// one never takes much more than the rules themselves.
const GENEROSITIES: [f32; 3] = [4.0, 2.0, 1.0];

/// Bytes of a classifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassifierMemory {
    /// What look-ups read now.
    pub lookup_bytes: usize,
    /// All lines that were ever used.
    pub touched_bytes: usize,
    /// The writer's bookkeeping, roughly.
    pub bookkeeping_bytes: usize,
}

/// A rule as it was given.
#[derive(Clone, Copy, Debug)]
struct Stored {
    rank: u32,
    rule: Rule,
}

/// A classifier; see the [module](super).
///
/// Readers see changes after [`Self::publish`]. Memory that they replace is used again after a grace
/// period, see [`Reclaim`].
#[derive(Debug)]
pub struct Classifier {
    store: Store,
    choosers: [Chooser; 2],
    roots: [Word; 2],
    rules: HashMap<u32, Stored>,
    capacity: ClassifierCapacity,
    changes: usize,
}

impl Classifier {
    /// A classifier without rules; `None` when the system refuses the address space.
    pub fn new(capacity: ClassifierCapacity) -> Option<Self> {
        let lines = (capacity.lookup_bytes / (LINE * size_of::<u64>())).min(MAX_LINES);
        Some(Self {
            store: Store::new(Arena::new(lines)?, lines as u32),
            choosers: FAMILIES.map(Chooser::new),
            roots: [Word::EMPTY; 2],
            rules: HashMap::new(),
            capacity,
            changes: 0,
        })
    }

    /// A reader. It sees all that is published, now and later.
    pub fn reader(&self) -> ClassifierReader {
        ClassifierReader::new(Arc::clone(&self.store.arena))
    }

    /// Number of rules.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Rules that were inserted or removed since the trees were built from all rules. Changes cost
    /// look-ups some speed: after about as many as a quarter of the rules, [`Self::rebuild`].
    pub fn changes(&self) -> usize {
        self.changes
    }

    /// The rank and the rule with this id.
    pub fn get(&self, id: u32) -> Option<(u32, &Rule)> {
        self.rules.get(&id).map(|stored| (stored.rank, &stored.rule))
    }

    /// Replaces all rules: (id, rank, rule). A packet meets the rule with the smallest rank, and of
    /// equal ranks the one with the smallest id. Leave gaps between ranks for rules that come later.
    ///
    /// # Errors
    ///
    /// An invalid rule, an id that occurs twice, or a limit that is reached; nothing was changed.
    pub fn replace_all(
        &mut self,
        rules: impl IntoIterator<Item = (u32, u32, Rule)>,
    ) -> Result<(), ClassifierError> {
        let mut all = HashMap::new();
        for (id, rank, rule) in rules {
            check(id, &rule)?;
            if all.insert(id, Stored { rank, rule }).is_some() {
                return Err(ClassifierError::Present(id));
            }
            if all.len() > self.most_rules() {
                return Err(ClassifierError::Full(ClassifierLimit::Rules));
            }
        }
        let former = std::mem::replace(&mut self.rules, all);
        let built = self.rebuild();
        if built.is_err() {
            self.rules = former;
        }
        built
    }

    /// Builds the trees anew, which takes up to some seconds with 100,000s of rules. Readers go on with
    /// the former ones until the next publication; both need memory until the grace period ends.
    ///
    /// # Errors
    ///
    /// The look-up memory is exhausted; nothing was changed.
    pub fn rebuild(&mut self) -> Result<(), ClassifierError> {
        let mut result = Ok([Word::EMPTY; 2]);
        for generosity in GENEROSITIES {
            result = self.build(generosity);
            if result.is_ok() {
                break;
            }
            self.store.undo();
        }
        let roots = result?;
        for (family, root) in FAMILIES.into_iter().zip(self.roots) {
            self.store.release_tree(family, root);
        }
        self.store.finish();
        (self.roots, self.changes) = (roots, 0);
        Ok(())
    }

    fn build(&mut self, generosity: f32) -> Result<[Word; 2], ClassifierError> {
        let mut roots = [Word::EMPTY; 2];
        for (number, family) in FAMILIES.into_iter().enumerate() {
            let is_in = |stored: &&Stored| stored.rule.families()[number];
            let item = |(id, stored): (&u32, &Stored)| item(*id, stored, family);
            let mut items: Vec<Item> =
                self.rules.iter().filter(|(_, stored)| is_in(stored)).map(item).collect();
            items.sort_unstable_by_key(|item| item.entry);
            let list: Vec<u32> = (0..items.len() as u32).collect();
            let (store, chooser) = (&mut self.store, &mut self.choosers[number]);
            let mut builder = Builder { store, family, chooser, items: &items };
            let is_strict = generosity <= 1.0;
            let limits = Limits::new(budget(items.len(), generosity), VISITS, is_strict);
            roots[number] = builder.tree(&list, limits)?;
        }
        Ok(roots)
    }

    /// Adds a rule; see [`Self::replace_all`].
    ///
    /// # Errors
    ///
    /// As [`Self::replace_all`].
    pub fn insert(&mut self, id: u32, rank: u32, rule: &Rule) -> Result<(), ClassifierError> {
        check(id, rule)?;
        if self.rules.contains_key(&id) {
            return Err(ClassifierError::Present(id));
        }
        if self.rules.len() >= self.most_rules() {
            return Err(ClassifierError::Full(ClassifierLimit::Rules));
        }
        let new = Stored { rank, rule: *rule };
        self.change(id, None, Some(&new))?;
        self.rules.insert(id, new);
        Ok(())
    }

    /// Removes a rule.
    ///
    /// # Errors
    ///
    /// There is no such rule, or no memory for what must be copied; nothing was changed.
    pub fn remove(&mut self, id: u32) -> Result<(), ClassifierError> {
        let former = *self.rules.get(&id).ok_or(ClassifierError::Absent(id))?;
        self.change(id, Some(&former), None)?;
        self.rules.remove(&id);
        Ok(())
    }

    /// Changes the rank or the rule of an id.
    ///
    /// # Errors
    ///
    /// There is no such rule, and as [`Self::replace_all`].
    pub fn replace(&mut self, id: u32, rank: u32, rule: &Rule) -> Result<(), ClassifierError> {
        let former = *self.rules.get(&id).ok_or(ClassifierError::Absent(id))?;
        check(id, rule)?;
        let new = Stored { rank, rule: *rule };
        self.change(id, Some(&former), Some(&new))?;
        self.rules.insert(id, new);
        Ok(())
    }

    /// Makes a change in both trees, or in none.
    fn change(
        &mut self,
        id: u32,
        former: Option<&Stored>,
        new: Option<&Stored>,
    ) -> Result<(), ClassifierError> {
        let mut roots = self.roots;
        let mut all = || -> Result<(), ClassifierError> {
            for (number, family) in FAMILIES.into_iter().enumerate() {
                let (store, chooser) = (&mut self.store, &mut self.choosers[number]);
                let mut updater = Updater { store, family, chooser };
                let is_in = |stored: &&Stored| stored.rule.families()[number];
                if let Some(former) = former.filter(is_in) {
                    let item = item(id, former, family);
                    roots[number] = updater.change(roots[number], Change::Remove(&item))?;
                }
                if let Some(new) = new.filter(is_in) {
                    let item = item(id, new, family);
                    roots[number] = updater.change(roots[number], Change::Insert(&item))?;
                }
            }
            Ok(())
        };
        if let Err(error) = all() {
            self.store.undo();
            return Err(error);
        }
        self.store.finish();
        self.roots = roots;
        self.changes += 1;
        Ok(())
    }

    /// Shows all changes since the last publication to readers: each batch of look-ups sees all or none
    /// of those of its family. The next epoch may be marked then; see [`crate::grace`].
    pub fn publish(&mut self) {
        self.store.publish(self.roots);
    }

    /// The same, and a reader that sees the rules of this moment for ever. What later changes replace is used again
    /// after the reader and all earlier ones were dropped, at the publication or snapshot that follows.
    pub fn snapshot(&mut self) -> ClassifierReader {
        ClassifierReader::new(self.store.snapshot(self.roots))
    }

    /// The bits of IPv4 and of IPv6 keys that some rule looks at: keys that differ in others only meet the same rule.
    pub fn relevant_bits(&self) -> [RelevantBits; 2] {
        let mut all = [RelevantBits::default(); 2];
        self.rules.values().for_each(|stored| add_relevant_bits(&stored.rule, &mut all));
        all
    }

    /// Bytes in use.
    pub fn memory(&self) -> ClassifierMemory {
        let [lookup_bytes, touched_bytes, maps] = self.store.bytes();
        let bookkeeping_bytes = maps + self.rules.capacity() * size_of::<(u32, Stored)>();
        ClassifierMemory { lookup_bytes, touched_bytes, bookkeeping_bytes }
    }

    /// The look-up memory, to advise the system about huge pages.
    pub fn region(&self) -> Region {
        self.store.arena.region()
    }

    fn most_rules(&self) -> usize {
        self.capacity.rules.min(ClassifierCapacity::MAX_RULES)
    }
}

impl Reclaim for Classifier {
    fn retire_mark(&mut self, epoch: u64) {
        self.store.retire_mark(epoch);
    }

    fn reclaim(&mut self, safe_epoch: u64) {
        self.store.reclaim(safe_epoch);
    }

    fn pending(&self) -> usize {
        self.store.pending()
    }
}

/// Adds the bits of IPv4 and of IPv6 keys that a rule looks at.
pub fn add_relevant_bits(rule: &Rule, all: &mut [RelevantBits; 2]) {
    let is_in = rule.families();
    for (number, family) in FAMILIES.into_iter().enumerate().filter(|(at, _)| is_in[*at]) {
        Pattern::of(rule, family).add_relevant_bits(family, &mut all[number]);
    }
}

fn check(id: u32, rule: &Rule) -> Result<(), ClassifierError> {
    if id == NO_RULE {
        return Err(ClassifierError::IdOutOfRange);
    }
    rule.check().map_err(|error| ClassifierError::Rule { id, error })
}

fn item(id: u32, stored: &Stored, family: &Family) -> Item {
    let entry = u64::from(stored.rank) << 32 | u64::from(id);
    Item { entry, pattern: Pattern::of(&stored.rule, family) }
}
