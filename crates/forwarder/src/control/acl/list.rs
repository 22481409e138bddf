//! The rules of a list in their order, in pieces that it shares with the lists that it was changed from.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::Installed;
use super::sums::Sums;

/// Rules of a piece of a new list. Changes let it grow to twice as many. Lists of tests have many pieces, too.
const PIECE: usize = if cfg!(test) { 4 } else { 256 };

/// Between the ranks of two rules of a new list. At least 31 rules find a place between them.
pub(super) const GAP: u64 = 1 << 32;

/// A rule at its place: rules with smaller ranks are before it.
#[derive(Clone, Debug)]
pub(super) struct Ranked {
    pub(super) rank: u64,
    pub(super) rule: Arc<Installed>,
}

impl Ranked {
    pub(super) fn name(&self) -> &str {
        &self.rule.key.1
    }
}

/// The rules of a list. The names of two rules differ.
#[derive(Clone, Debug, Default)]
pub(super) struct List {
    /// In the order of ranks. None is empty.
    pieces: Vec<Arc<Vec<Ranked>>>,
    len: usize,
    /// The rank of each rule, by the hash of its name. `None`: the hashes of two names are the same.
    ranks: Option<Arc<HashMap<u64, u64>>>,
    sums: Sums,
}

fn hash(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

impl List {
    /// Of these rules in their order.
    pub(super) fn new(rules: Vec<Arc<Installed>>) -> Self {
        let len = rules.len();
        let (mut sums, mut ranks) = (Sums::default(), HashMap::with_capacity(len));
        let mut all = (1..).zip(rules).map(|(at, rule)| Ranked { rank: at * GAP, rule });
        let mut pieces = Vec::with_capacity(len.div_ceil(PIECE));
        loop {
            let piece: Vec<Ranked> = all.by_ref().take(PIECE).collect();
            if piece.is_empty() {
                break;
            }
            for it in &piece {
                sums.count(&it.rule, true);
                ranks.insert(hash(it.name()), it.rank);
            }
            pieces.push(Arc::new(piece));
        }
        let ranks = (ranks.len() == len).then(|| Arc::new(ranks));
        Self { pieces, len, ranks, sums }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn sums(&self) -> &Sums {
        &self.sums
    }

    /// All rules in their order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Installed>> + Clone {
        self.ranked().map(|it| &it.rule)
    }

    /// The same, with their ranks.
    pub(super) fn ranked(&self) -> impl Iterator<Item = &Ranked> + Clone {
        self.pieces.iter().flat_map(|piece| piece.iter())
    }

    /// Whether [`Self::named`] finds rules.
    pub(super) fn has_names(&self) -> bool {
        self.ranks.is_some()
    }

    /// The rule of this name.
    pub(super) fn named(&self, name: &str) -> Option<&Ranked> {
        let rank = *self.ranks.as_ref()?.get(&hash(name))?;
        let piece = self.piece(self.piece_of(rank));
        let place = piece.binary_search_by_key(&rank, |it| it.rank).ok()?;
        piece.get(place).filter(|it| it.name() == name)
    }

    /// The first rule behind this rank.
    pub(super) fn next(&self, rank: u64) -> Option<&Ranked> {
        let at = self.piece_of(rank);
        let piece = self.piece(at);
        let place = piece.partition_point(|it| it.rank <= rank);
        piece.get(place).or_else(|| self.piece(at + 1).first())
    }

    /// The last rule before this rank.
    pub(super) fn before(&self, rank: u64) -> Option<&Ranked> {
        let piece = self.piece(self.piece_of(rank.checked_sub(1)?));
        piece.get(piece.partition_point(|it| it.rank < rank).checked_sub(1)?)
    }

    /// The number of the piece of a rank, whether a rule has it or not.
    fn piece_of(&self, rank: u64) -> usize {
        let begins = |piece: &Arc<Vec<Ranked>>| piece.first().is_some_and(|it| it.rank <= rank);
        self.pieces.partition_point(begins).saturating_sub(1)
    }

    fn piece(&self, at: usize) -> &[Ranked] {
        self.pieces.get(at).map_or(&[], |piece| piece.as_slice())
    }

    /// The list without some of its rules, and with others. `None`: the hashes of two names are the same.
    pub(super) fn changed(&self, removed: &[Ranked], added: &[Ranked]) -> Option<Self> {
        let mut list = self.clone();
        for it in removed {
            list.remove(it);
        }
        for it in added {
            list.insert(it.clone());
        }
        let place = |it: &Ranked| (hash(it.name()), it.rank);
        let [mut former, mut new] =
            [removed, added].map(|rules| rules.iter().map(place).collect::<Vec<_>>());
        former.sort_unstable();
        new.sort_unstable();
        let ranks = list.ranks.as_mut()?;
        if former != new {
            let ranks = Arc::make_mut(ranks);
            for (name, _) in &former {
                ranks.remove(name);
            }
            if new.into_iter().any(|(name, rank)| ranks.insert(name, rank).is_some()) {
                return None;
            }
        }
        Some(list)
    }

    fn remove(&mut self, ranked: &Ranked) {
        let at = self.piece_of(ranked.rank);
        let Some(piece) = self.pieces.get_mut(at) else { return };
        let Ok(place) = piece.binary_search_by_key(&ranked.rank, |it| it.rank) else { return };
        let piece = Arc::make_mut(piece);
        let former = piece.remove(place);
        if piece.is_empty() {
            self.pieces.remove(at);
        }
        self.sums.count(&former.rule, false);
        self.len -= 1;
    }

    fn insert(&mut self, ranked: Ranked) {
        self.sums.count(&ranked.rule, true);
        self.len += 1;
        let at = self.piece_of(ranked.rank);
        let Some(piece) = self.pieces.get_mut(at) else {
            self.pieces.push(Arc::new(vec![ranked]));
            return;
        };
        let piece = Arc::make_mut(piece);
        let place = piece.partition_point(|it| it.rank < ranked.rank);
        piece.insert(place, ranked);
        if piece.len() > 2 * PIECE {
            let rest = piece.split_off(PIECE);
            self.pieces.insert(at + 1, Arc::new(rest));
        }
    }
}
