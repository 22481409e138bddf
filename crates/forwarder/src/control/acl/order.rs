//! Where the rules are that a small change of a list touches: behind the rules that they name.

use std::collections::{BTreeMap, BTreeSet};

use super::list::{GAP, List, Ranked};
use crate::control::desired::AclRule;

/// Rules of a list that a small change touches at most.
pub(super) const FEW: usize = 16;

/// A rule that a change touches: its name, and what it shall be; `None`: it is removed.
pub(super) type Touched<'a> = (&'a str, Option<&'a AclRule>);

/// What a change does with a list.
#[derive(Debug)]
pub(super) struct Moves<'a> {
    /// The touched rules that are there.
    pub(super) removed: Vec<Ranked>,
    /// Those that shall be there, with their ranks.
    pub(super) added: Vec<(u64, &'a str, &'a AclRule)>,
}

/// A list during its change: the touched rules are removed, and come back one after the other.
struct Draft<'a> {
    list: &'a List,
    touched: &'a [Touched<'a>],
    gone: BTreeSet<u64>,
    /// Numbers of touched rules by their new rank.
    placed: BTreeMap<u64, usize>,
}

/// A rule of a draft.
#[derive(Clone, Copy)]
struct Place<'a> {
    rank: u64,
    name: &'a str,
    /// The name of the rule that it shall be behind; "": it is the first.
    after: &'a str,
}

/// Where a rule is that others name.
enum Found {
    At(u64),
    /// It has no place yet.
    Later,
}

impl List {
    /// What a change of few rules does with the list. `None`: the list has to be read as a whole, as the rules are not
    /// in one row with it, other rules move with touched ones, there is no rank left, or more than [`FEW`] are touched.
    pub(super) fn moves<'a>(&self, touched: &[Touched<'a>]) -> Option<Moves<'a>> {
        if touched.len() > FEW || !self.has_names() {
            return None;
        }
        let removed: Vec<Ranked> =
            touched.iter().filter_map(|(name, _)| self.named(name)).cloned().collect();
        let gone = removed.iter().map(|it| it.rank).collect();
        let mut draft = Draft { list: self, touched, gone, placed: BTreeMap::new() };
        draft.place_all()?;
        let spots = draft.gone.iter().chain(draft.placed.keys());
        let is_row = spots.copied().all(|rank| draft.is_in_row(rank));
        let rule = |(rank, at): (&u64, &usize)| {
            let (name, rule) = *touched.get(*at)?;
            Some((*rank, name, rule?))
        };
        let added = draft.placed.iter().filter_map(rule).collect();
        is_row.then_some(Moves { removed, added })
    }
}

impl<'a> Draft<'a> {
    /// Gives all rules their places, each as soon as that of its predecessor is known.
    fn place_all(&mut self) -> Option<()> {
        let is_wanted = |at: &usize| self.touched[*at].1.is_some();
        let mut waiting: Vec<usize> = (0..self.touched.len()).filter(is_wanted).collect();
        while !waiting.is_empty() {
            let before = waiting.len();
            let mut later = Vec::new();
            for at in waiting {
                if !self.place(at)? {
                    later.push(at);
                }
            }
            if later.len() == before {
                return None;
            }
            waiting = later;
        }
        Some(())
    }

    /// Gives a rule its place; whether that of its predecessor is known.
    fn place(&mut self, at: usize) -> Option<bool> {
        let (name, rule) = self.touched[at];
        let lower = match self.find(&rule?.after)? {
            Found::At(rank) => rank,
            Found::Later => return Some(false),
        };
        let upper = self.next(lower).map(|it| it.rank);
        let former = self.list.named(name).map(|it| it.rank);
        let fits = |rank: &u64| *rank > lower && upper.is_none_or(|upper| *rank < upper);
        let rank = match former.filter(fits) {
            // It stays where it is.
            Some(rank) => rank,
            // A rule that is still to come may stay at its rank, too.
            None => match upper.into_iter().chain(self.next_gone(lower)).min() {
                Some(upper) => lower + (upper - lower) / 2,
                None => lower.checked_add(GAP)?,
            },
        };
        self.placed.insert(Some(rank).filter(fits)?, at);
        Some(true)
    }

    /// The rank of the rule with this name; 0 of "". `None`: there is no such rule.
    fn find(&self, name: &str) -> Option<Found> {
        if name.is_empty() {
            return Some(Found::At(0));
        }
        let Some(number) = self.touched.iter().position(|(other, _)| *other == name) else {
            return self.list.named(name).map(|it| Found::At(it.rank));
        };
        self.touched[number].1?;
        let placed = self.placed.iter().find(|(_, at)| **at == number);
        Some(placed.map_or(Found::Later, |(rank, _)| Found::At(*rank)))
    }

    /// The first rule behind a rank.
    fn next(&self, rank: u64) -> Option<Place<'_>> {
        let mut kept = self.list.next(rank);
        while let Some(it) = kept.filter(|it| self.gone.contains(&it.rank)) {
            kept = self.list.next(it.rank);
        }
        let behind = rank.checked_add(1)?;
        let placed = self.placed.range(behind..).next().and_then(|it| self.touched_place(it));
        let both = kept.map(kept_place).into_iter().chain(placed);
        both.min_by_key(|it| it.rank)
    }

    /// The last rule before a rank.
    fn before(&self, rank: u64) -> Option<Place<'_>> {
        let mut kept = self.list.before(rank);
        while let Some(it) = kept.filter(|it| self.gone.contains(&it.rank)) {
            kept = self.list.before(it.rank);
        }
        let placed = self.placed.range(..rank).next_back().and_then(|it| self.touched_place(it));
        let both = kept.map(kept_place).into_iter().chain(placed);
        both.max_by_key(|it| it.rank)
    }

    /// The first rank behind another one that a touched rule had.
    fn next_gone(&self, rank: u64) -> Option<u64> {
        self.gone.range(rank.checked_add(1)?..).next().copied()
    }

    fn touched_place(&self, (rank, at): (&u64, &usize)) -> Option<Place<'a>> {
        let (name, rule) = *self.touched.get(*at)?;
        Some(Place { rank: *rank, name, after: &rule?.after })
    }

    /// Whether the rules at a rank and next to it are behind the ones that they name.
    fn is_in_row(&self, rank: u64) -> bool {
        let mut last = self.before(rank).map_or("", |it| it.name);
        let here = self.placed.get_key_value(&rank).and_then(|it| self.touched_place(it));
        for it in here.into_iter().chain(self.next(rank)) {
            if it.after != last {
                return false;
            }
            last = it.name;
        }
        true
    }
}

fn kept_place(ranked: &Ranked) -> Place<'_> {
    Place { rank: ranked.rank, name: ranked.name(), after: &ranked.rule.rule.after }
}
