//! Changes of single rules: copies of the leaves that they touch, and of the nodes above.
//!
//! A node whose memory is replaced hands what is below it to its copy. Where others lead to the same
//! place (alike children are stored once), it stays, and both lead to what is below.

use std::collections::HashMap;

use super::BLOCK;
use super::ClassifierError;
use super::arena::Item;
use super::build::{Builder, Limits, VISITS, budget};
use super::cut::Places;
use super::layout::Word;
use super::pattern::Family;
use super::score::Chooser;
use super::store::Store;

/// Places for rules, as a multiple of them, in a part of a tree that is built anew.
const GENEROSITY: f32 = 2.0;
/// Rules that belong to more children than this go to the spill, if there may be one.
const WIDE: u32 = 16;

/// What happens to a rule.
#[derive(Clone, Copy)]
pub(super) enum Change<'a> {
    Insert(&'a Item),
    Remove(&'a Item),
}

impl Change<'_> {
    fn item(&self) -> &Item {
        match self {
            Self::Insert(item) | Self::Remove(item) => item,
        }
    }
}

/// Changes one tree.
pub(super) struct Updater<'a> {
    pub(super) store: &'a mut Store,
    pub(super) family: &'static Family,
    pub(super) chooser: &'a mut Chooser,
}

impl Updater<'_> {
    /// The root after a change.
    pub(super) fn change(&mut self, root: Word, change: Change) -> Result<Word, ClassifierError> {
        let new = self.at(root, change, VISITS, true)?;
        Ok(new.unwrap_or(root))
    }

    /// What replaces a word, if anything does. `is_own`: nothing else leads there, so that it is
    /// released.
    fn at(
        &mut self,
        word: Word,
        change: Change,
        visits: u32,
        is_own: bool,
    ) -> Result<Option<Word>, ClassifierError> {
        if word.is_node() {
            return self.node(word, change, visits, is_own);
        }
        let mut items = match word {
            Word::EMPTY => Vec::new(),
            leaf => self.store.arena.read_leaf(self.family, leaf),
        };
        let place = items.binary_search_by_key(&change.item().entry, |item| item.entry);
        match (change, place) {
            (Change::Insert(item), Err(at)) => items.insert(at, *item),
            (Change::Remove(_), Ok(at)) => drop(items.remove(at)),
            _ => return Ok(None),
        }
        if is_own {
            self.store.release(self.family, word);
        }
        self.leaf(&items, change, visits).map(Some)
    }

    /// A leaf, or a node in its place when it has grown much.
    fn leaf(
        &mut self,
        items: &[Item],
        change: Change,
        visits: u32,
    ) -> Result<Word, ClassifierError> {
        // Rules that nothing tells apart are not tried again each time.
        let has_grown = items.len() > BLOCK && (items.len() - 1).is_power_of_two();
        if has_grown && matches!(change, Change::Insert(_)) {
            let list: Vec<u32> = (0..items.len() as u32).collect();
            let limits = Limits::new(budget(items.len(), GENEROSITY), visits, true);
            let (store, family, chooser) = (&mut *self.store, self.family, &mut *self.chooser);
            return Builder { store, family, chooser, items }.tree(&list, limits);
        }
        self.store.leaf(self.family, &items.iter().collect::<Vec<_>>())
    }

    fn node(
        &mut self,
        node: Word,
        change: Change,
        visits: u32,
        is_own: bool,
    ) -> Result<Option<Word>, ClassifierError> {
        let item = change.item();
        let places = Places::of(&item.pattern, self.family, node.fields());
        let former_spill = self.store.spill(node);
        let may_spill = former_spill.map_or(visits > 1, |_| true);
        let is_wide = places.len() > WIDE.max(node.children() as u32 / 8);
        let (mut children, mut spill) = (self.store.children(node), former_spill);
        let spilled = former_spill.map_or(1, |(_, _, visits)| visits);
        let is_insert = matches!(change, Change::Insert(_));
        let to_spill = if is_insert { is_wide && may_spill } else { former_spill.is_some() };
        let to_children = !(is_insert && to_spill);
        let mut has_changed = false;
        if to_spill {
            let (word, least, _) = former_spill.unwrap_or((Word::EMPTY, u64::MAX, 1));
            if let Some(new) = self.replace(word, change, spilled, is_own)? {
                spill = Some((new, least.min(item.entry), spilled));
                has_changed = true;
            }
        }
        if to_children {
            let below = visits.saturating_sub(spilled).max(1);
            has_changed |= self.children(&mut children, &places, change, (below, is_own))?;
        }
        if !has_changed {
            return Ok(None);
        }
        let new = self.store.node(node.fields(), &children, spill)?;
        if is_own {
            self.store.release(self.family, node);
        } else {
            self.share_below(node, new);
        }
        Ok(Some(new))
    }

    /// Changes the children at these places; whether any has changed.
    fn children(
        &mut self,
        children: &mut [Word],
        places: &Places,
        change: Change,
        (visits, is_own): (u32, bool),
    ) -> Result<bool, ClassifierError> {
        // Alike children that all change stay alike.
        let mut changed: HashMap<Word, Vec<usize>> = HashMap::new();
        places.for_each(|at| changed.entry(children[at]).or_default().push(at));
        let mut elsewhere: HashMap<Word, usize> = HashMap::new();
        for child in children.iter().filter(|child| changed.contains_key(child)) {
            *elsewhere.entry(*child).or_default() += 1;
        }
        let mut has_changed = false;
        for (word, places) in changed {
            let is_last = is_own && elsewhere[&word] == places.len();
            if let Some(new) = self.replace(word, change, visits, is_last)? {
                places.into_iter().for_each(|at| children[at] = new);
                has_changed = true;
            }
        }
        Ok(has_changed)
    }

    /// What replaces a word below a node. `is_last`: the node's memory is replaced, and its copy does
    /// not lead to the word.
    fn replace(
        &mut self,
        word: Word,
        change: Change,
        visits: u32,
        is_last: bool,
    ) -> Result<Option<Word>, ClassifierError> {
        let is_shared = self.store.is_shared(word);
        let new = self.at(word, change, visits, is_last && !is_shared)?;
        if new.is_some() && is_last && is_shared {
            self.store.unshare(word);
        }
        Ok(new)
    }

    /// A copy and the node that it was made of lead to what both have.
    fn share_below(&mut self, node: Word, copy: Word) {
        let both = self.store.below(node);
        for word in self.store.below(copy) {
            if both.contains(&word) {
                self.store.share(word);
            }
        }
    }
}
