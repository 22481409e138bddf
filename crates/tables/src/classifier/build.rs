//! Builds trees: for all rules, or below a leaf that has too many.

use std::collections::HashMap;

use super::arena::Item;
use super::layout::{Field, Word};
use super::pattern::Family;
use super::score::{Chooser, Cut, Node};
use super::store::Store;
use super::{BLOCK, ClassifierError, cut::Places};

/// How many leaves one packet can be compared with, blocks of one leaf not counted: the spills on its
/// way, and the spills on theirs.
pub(super) const VISITS: u32 = 16;
/// The most nodes on the way to a leaf, spills not counted.
const DEPTH: u32 = 12;

/// The least budget of a part, as a multiple of its rules: what cuts need that copy nearly nothing.
const LEAST_BUDGET: f32 = 1.25;

/// How many of its visits a node's spill may take.
pub(super) fn spill_visits(visits: u32) -> u32 {
    (visits * 5 / 8).max(visits.saturating_sub(5)).max(1)
}

/// Places for rules that a tree of so many may take, in blocks that may be partly empty.
pub(super) fn budget(rules: usize, generosity: f32) -> f32 {
    let rules = rules.max(BLOCK) as f32;
    generosity * rules * (1.0 + 1.5 * (1000.0 / rules).min(1.0))
}

/// Builds one tree.
pub(super) struct Builder<'a> {
    pub(super) store: &'a mut Store,
    pub(super) family: &'static Family,
    pub(super) chooser: &'a mut Chooser,
    /// In ascending order of entries.
    pub(super) items: &'a [Item],
}

/// What a subtree may take.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    pub(super) budget: f32,
    pub(super) visits: u32,
    depth: u32,
    /// Rather a large leaf than more memory.
    is_strict: bool,
}

impl Limits {
    pub(super) fn new(budget: f32, visits: u32, is_strict: bool) -> Self {
        Self { budget, visits, depth: DEPTH, is_strict }
    }
}

/// Rules by child.
struct Distribution {
    /// Where the rules of each child begin.
    starts: Vec<usize>,
    rules: Vec<u32>,
    spilled: Vec<u32>,
}

impl Builder<'_> {
    /// A tree of the rules at these positions, in ascending order.
    pub(super) fn tree(&mut self, list: &[u32], limits: Limits) -> Result<Word, ClassifierError> {
        if list.len() <= BLOCK || limits.depth == 0 {
            return self.leaf(list);
        }
        let node =
            Node { items: self.items, list, budget: limits.budget, can_spill: limits.visits > 1 };
        match self.chooser.choose(&node) {
            Some(cut) => self.node(list, cut, limits),
            None => self.leaf(list),
        }
    }

    fn leaf(&mut self, list: &[u32]) -> Result<Word, ClassifierError> {
        let items: Vec<_> = list.iter().map(|at| &self.items[*at as usize]).collect();
        self.store.leaf(self.family, &items)
    }

    fn node(&mut self, list: &[u32], cut: Cut, limits: Limits) -> Result<Word, ClassifierError> {
        let by_child = self.distribute(list, &cut);
        let spilled = &by_child.spilled;
        // A sample may have shown none that spills.
        let is_refused = !spilled.is_empty() && (limits.visits < 2 || spilled.len() == list.len());
        if is_refused {
            return self.leaf(list);
        }
        let visits = if spilled.is_empty() { 1 } else { spill_visits(limits.visits) };
        let below = limits.visits.saturating_sub(visits).max(1);
        let distinct: HashMap<&[u32], ()> =
            by_child.children().filter(|list| !list.is_empty()).map(|list| (list, ())).collect();
        let places = |rules: usize| rules.max(BLOCK) as f32;
        let all: f32 = distinct.keys().map(|list| places(list.len())).sum();
        let all = all + if spilled.is_empty() { 0.0 } else { places(spilled.len()) };
        if limits.is_strict && all > limits.budget.max(LEAST_BUDGET * list.len() as f32) {
            // The estimate was wrong. Parts of parts could take many times the memory.
            return self.leaf(list);
        }
        let limits_of = |rules: usize, visits: u32| Limits {
            budget: (limits.budget / all).max(LEAST_BUDGET) * places(rules),
            visits,
            depth: limits.depth - 1,
            is_strict: limits.is_strict,
        };
        let mut built: HashMap<&[u32], Word> = HashMap::with_capacity(distinct.len());
        let mut children = Vec::with_capacity(by_child.starts.len() - 1);
        for list in by_child.children() {
            let word = match built.get(list) {
                Some(word) => *word,
                None => {
                    let word = self.tree(list, limits_of(list.len(), below))?;
                    built.insert(list, word);
                    word
                }
            };
            children.push(word);
        }
        let spill = match spilled.first() {
            None => None,
            Some(first) => {
                let entry = self.items[*first as usize].entry;
                // Not a step down: this ends by the number of visits.
                let limits = Limits { depth: limits.depth, ..limits_of(spilled.len(), visits) };
                Some((self.tree(spilled, limits)?, entry, visits))
            }
        };
        self.store.node(cut.fields, &children, spill)
    }

    fn distribute(&self, list: &[u32], cut: &Cut) -> Distribution {
        let Cut { fields, widest } = *cut;
        let children = 1_usize << (fields[0].bits + fields[1].bits);
        let mut starts = vec![0; children + 1];
        let places = |at: &u32| places(&self.items[*at as usize], self.family, fields);
        let (mut spilled, mut count) = (Vec::new(), 0);
        for at in list {
            let places = places(at);
            if places.len() > widest {
                spilled.push(*at);
            } else {
                places.for_each(|child| starts[child + 1] += 1);
                count += places.len() as usize;
            }
        }
        for child in 0..children {
            starts[child + 1] += starts[child];
        }
        let (mut next, mut rules) = (starts.clone(), vec![0; count]);
        for at in list {
            let places = places(at);
            if places.len() <= widest {
                places.for_each(|child| {
                    rules[next[child]] = *at;
                    next[child] += 1;
                });
            }
        }
        Distribution { starts, rules, spilled }
    }
}

impl Distribution {
    fn children(&self) -> impl Iterator<Item = &[u32]> {
        self.starts.windows(2).map(|ends| &self.rules[ends[0]..ends[1]])
    }
}

fn places(item: &Item, family: &Family, fields: [Field; 2]) -> Places {
    Places::of(&item.pattern, family, fields)
}
