//! The rules of a classifier's entries, in pieces that it shares with the classifiers that it was changed from.

use std::sync::Arc;

use super::Rule;

/// Entries of a piece. A change copies the pieces that it touches.
const PIECE: usize = 256;

/// The rules of entries, by entry.
#[derive(Clone, Debug, Default)]
pub struct EntryRules {
    /// All of [`PIECE`] entries but the last one.
    pieces: Vec<Arc<[Rule]>>,
}

impl EntryRules {
    /// The rule of an entry, if there is one.
    #[inline]
    pub fn get(&self, entry: usize) -> Option<&Rule> {
        self.pieces.get(entry / PIECE)?.get(entry % PIECE)
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.pieces.last().map_or(0, |last| (self.pieces.len() - 1) * PIECE + last.len())
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// All of them, in the order of entries.
    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.pieces.iter().flat_map(|piece| piece.iter())
    }

    /// Gives an entry another rule.
    pub(super) fn replace(&mut self, entry: usize, rule: Rule) {
        let Some(piece) = self.pieces.get_mut(entry / PIECE) else { return };
        if let Some(place) = Arc::make_mut(piece).get_mut(entry % PIECE) {
            *place = rule;
        }
    }
}

impl Extend<Rule> for EntryRules {
    fn extend<T: IntoIterator<Item = Rule>>(&mut self, rules: T) {
        let mut rules = rules.into_iter().peekable();
        let is_open = self.pieces.last().is_some_and(|last| last.len() < PIECE);
        let mut open = if is_open { self.pieces.pop() } else { None };
        while open.is_some() || rules.peek().is_some() {
            let begun = open.take().map_or_else(Vec::new, |piece| piece.to_vec());
            let missing = PIECE - begun.len();
            self.pieces.push(begun.into_iter().chain(rules.by_ref().take(missing)).collect());
        }
    }
}

impl From<Vec<Rule>> for EntryRules {
    fn from(rules: Vec<Rule>) -> Self {
        let mut all = Self::default();
        all.extend(rules);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acl::Action;
    use crate::acl::hits::{HitTable, Hits};

    #[test]
    fn changes_copy_the_pieces_that_they_touch() {
        let table = HitTable::new(1, 2_000).unwrap();
        let rule = || Rule {
            action: Action::Accept,
            tracks: None,
            limit: None,
            log: None,
            hits: Arc::new(Hits::new(&table)),
        };
        let all: Vec<Rule> = std::iter::repeat_with(rule).take(2 * PIECE + 3).collect();
        let place = |rule: &Rule| rule.hits.place();
        let mut expected: Vec<u32> = all.iter().map(place).collect();
        let former = EntryRules::from(all);
        let mut changed = former.clone();
        let added: Vec<Rule> = std::iter::repeat_with(rule).take(PIECE).collect();
        let other = rule();
        let before = expected.clone();
        expected[PIECE + 1] = place(&other);
        expected.extend(added.iter().map(place));
        changed.replace(PIECE + 1, other);
        changed.extend(added);
        for (rules, expected) in [(&former, &before), (&changed, &expected)] {
            assert_eq!(rules.iter().map(place).collect::<Vec<_>>(), *expected);
            assert_eq!(rules.len(), expected.len());
            for entry in 0..expected.len() + 2 {
                assert_eq!(rules.get(entry).map(place), expected.get(entry).copied());
            }
        }
        assert!(Arc::ptr_eq(&former.pieces[0], &changed.pieces[0]), "what stays is shared");
        assert!(!Arc::ptr_eq(&former.pieces[1], &changed.pieces[1]));
        let (mut none, mut full) = (EntryRules::default(), EntryRules::default());
        none.extend([]);
        full.extend(std::iter::repeat_with(rule).take(PIECE));
        assert_eq!((none.len(), none.is_empty(), full.len()), (0, true, PIECE));
        full.extend([rule()]);
        assert_eq!((full.len(), full.get(PIECE).is_some()), (PIECE + 1, true));
    }
}
