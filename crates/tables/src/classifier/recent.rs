//! The results of look-ups of a moment ago, by their whole keys: packets of one flow need one look-up among many.
//!
//! Nobody may rely on it: keys that all differ find nothing here. Then it is asked for a few vectors in a hundred only,
//! so that such packets pay next to nothing for it. Keys that repeat get the time to be stored all before that.
//!
//! A result that is in a second-level cache costs as much as a look-up among few rules. Of few rules, it keeps as many
//! results as the first level has for it, and is asked only while it has most of them.

use zerocopy::{FromZeros, Immutable, KnownLayout};

use super::columns::{COLUMNS, Columns};
use super::{LANES, NO_RULE};

/// Buckets; a power of two.
const BUCKETS: usize = 4096;
/// Results of a bucket: for IPv4, they are one cache line.
const WAYS: usize = 2;
/// The buckets that results of few rules have; a power of two.
const NEAR_BUCKETS: usize = 32;
/// The most rules that are few.
const FEW_RULES: usize = 2_000;
/// After so many batches of which too little was found: a quarter, or three of few rules ...
const VAIN: u32 = 128;
/// ... the next ones are not looked for.
const PAUSE: u32 = 4_000;

/// The bits of the words of keys that some rule looks at.
pub type RelevantBits = [u32; COLUMNS];

/// Whose results are kept.
#[derive(Clone, Copy, Debug)]
pub struct Owner<'a> {
    /// A number above 0 that no classifier with other rules ever has.
    pub number: u32,
    /// The bits of its rules.
    pub relevant: &'a RelevantBits,
    /// How many rules it has.
    pub rules: usize,
}

impl Owner<'_> {
    /// The buckets that it uses, and of four keys those that must be found for it to be worth while.
    #[inline(always)]
    fn share(&self) -> (usize, usize) {
        if self.rules <= FEW_RULES { (NEAR_BUCKETS, 3) } else { (BUCKETS, 1) }
    }
}

/// A key as far as rules look at it: two words in each element.
type Pairs<const PAIRS: usize> = [u64; PAIRS];

/// A result.
#[derive(Clone, Copy, FromZeros, Immutable, KnownLayout)]
#[repr(C)]
struct Entry<const PAIRS: usize> {
    key: Pairs<PAIRS>,
    /// The number of the classifier; 0: there is none.
    owner: u32,
    id: u32,
}

impl<const PAIRS: usize> Entry<PAIRS> {
    /// Whether it is the result for a key. No branch depends on a part of it.
    #[inline(always)]
    fn is_of(&self, owner: u32, key: &Pairs<PAIRS>) -> bool {
        let mut differ = u64::from(self.owner ^ owner);
        for (at, pair) in key.iter().enumerate() {
            differ |= self.key[at] ^ pair;
        }
        differ == 0
    }
}

#[derive(FromZeros, Immutable, KnownLayout)]
#[repr(C, align(64))]
struct Bucket<const PAIRS: usize>([Entry<PAIRS>; WAYS]);

/// Recent results of classifiers for IPv4 keys.
pub type RecentIp4Keys = RecentKeys<6, 3>;
/// Recent results of classifiers for IPv6 keys.
pub type RecentIp6Keys = RecentKeys<12, 6>;

/// Recent results of classifiers for keys of so many words, which are twice as many as pairs. Of one worker.
pub struct RecentKeys<const WORDS: usize, const PAIRS: usize> {
    buckets: Box<[Bucket<PAIRS>]>,
    /// Batches in a row of which little was found.
    vain: u32,
    /// Batches that are not looked for.
    pause: u32,
    /// Results that were kept, modulo 2^32: it chooses what gives way.
    turn: u32,
    /// Keys that were not found.
    rest: Box<Columns<WORDS>>,
}

impl<const WORDS: usize, const PAIRS: usize> RecentKeys<WORDS, PAIRS> {
    /// Without results. Memory is touched when it is used; without memory nothing is ever found.
    pub fn new() -> Self {
        const { assert!(WORDS == 2 * PAIRS && WORDS <= COLUMNS) };
        let buckets = Bucket::new_vec_zeroed(BUCKETS).map(Vec::into_boxed_slice);
        let buckets = buckets.unwrap_or_default();
        Self { buckets, vain: 0, pause: 0, turn: 0, rest: Box::default() }
    }

    /// Classifies the first `lanes` keys as `walk` does, which is asked about those that are not found.
    #[inline]
    pub fn look_up(
        &mut self,
        owner: Owner<'_>,
        (keys, lanes): (&Columns<WORDS>, usize),
        ids: &mut [u32; LANES],
        walk: impl FnOnce(&Columns<WORDS>, usize, &mut [u32; LANES]),
    ) {
        let Some(entries) = self.buckets.first_chunk::<BUCKETS>().filter(|_| self.pause == 0)
        else {
            self.pause = self.pause.saturating_sub(1);
            return walk(keys, lanes, ids);
        };
        let (lanes, bits, (buckets, worth)) =
            (lanes.min(LANES), pairs_of(owner.relevant), owner.share());
        let (mut missed, mut misses) = ([0_u8; LANES], 0);
        for (lane, id) in ids.iter_mut().enumerate().take(lanes) {
            let key = key(&keys.0, &bits, lane);
            let Bucket([first, second]) = &entries[place(&key, buckets) % BUCKETS];
            let (is_first, is_second) =
                (first.is_of(owner.number, &key), second.is_of(owner.number, &key));
            *id = if is_first { first.id } else { second.id };
            missed[misses % LANES] = lane as u8;
            misses += usize::from(!(is_first | is_second));
        }
        self.vain = if (lanes - misses) * 4 < lanes * worth { self.vain + 1 } else { 0 };
        if self.vain >= VAIN {
            (self.vain, self.pause) = (0, PAUSE);
        }
        if misses > 0 {
            let missed = &missed[..misses.min(LANES)];
            self.walk_missed((owner.number, &bits, buckets), keys, missed, ids, walk);
        }
    }

    /// Asks about lanes that were not found, and keeps their results.
    #[inline(never)]
    fn walk_missed(
        &mut self,
        (owner, bits, buckets): (u32, &Pairs<PAIRS>, usize),
        keys: &Columns<WORDS>,
        missed: &[u8],
        ids: &mut [u32; LANES],
        walk: impl FnOnce(&Columns<WORDS>, usize, &mut [u32; LANES]),
    ) {
        for (to, from) in self.rest.0.iter_mut().zip(&keys.0).take(WORDS) {
            for (to, lane) in to.iter_mut().zip(missed) {
                *to = from[usize::from(*lane) % LANES];
            }
        }
        let mut found = [NO_RULE; LANES];
        walk(&self.rest, missed.len(), &mut found);
        for (lane, id) in missed.iter().zip(found) {
            let lane = usize::from(*lane) % LANES;
            ids[lane] = id;
            let key = key(&keys.0, bits, lane);
            if let Some(Bucket(entries)) = self.buckets.get_mut(place(&key, buckets)) {
                // Not the oldest one: keys that come in turn would always replace the next.
                self.turn = self.turn.wrapping_add(1);
                entries[self.turn as usize % WAYS] = Entry { key, owner, id };
            }
        }
    }
}

impl<const WORDS: usize, const PAIRS: usize> Default for RecentKeys<WORDS, PAIRS> {
    fn default() -> Self {
        Self::new()
    }
}

#[inline(always)]
fn pairs_of<const PAIRS: usize>(words: &[u32; COLUMNS]) -> Pairs<PAIRS> {
    let mut pairs = [0; PAIRS];
    for (at, pair) in pairs.iter_mut().enumerate() {
        *pair = u64::from(words[2 * at % COLUMNS]) | u64::from(words[(2 * at + 1) % COLUMNS]) << 32;
    }
    pairs
}

/// What rules look at in the key of a lane.
#[inline(always)]
fn key<const PAIRS: usize>(
    columns: &[[u32; LANES]; COLUMNS],
    bits: &Pairs<PAIRS>,
    lane: usize,
) -> Pairs<PAIRS> {
    let (mut key, lane) = ([0; PAIRS], lane % LANES);
    for (at, pair) in key.iter_mut().enumerate() {
        let (lower, upper) = (&columns[2 * at % COLUMNS], &columns[(2 * at + 1) % COLUMNS]);
        *pair = (u64::from(lower[lane]) | u64::from(upper[lane]) << 32) & bits[at];
    }
    key
}

/// The bucket of a key, of so many. Whoever finds keys of one bucket has them looked up as if this was not there.
#[inline(always)]
fn place<const PAIRS: usize>(key: &Pairs<PAIRS>, buckets: usize) -> usize {
    let mut hash = 0_u64;
    for pair in key {
        hash = (hash.rotate_left(29) ^ pair).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    (hash >> 40) as usize & (buckets - 1)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What a naive classifier says: the sum of what it looks at.
    fn sum(keys: &Columns<6>, relevant: &RelevantBits, owner: u32, lane: usize) -> u32 {
        let key: Pairs<3> = key(&keys.0, &pairs_of(relevant), lane);
        key.iter().fold(owner, |sum, pair| sum.wrapping_mul(31) ^ (pair ^ pair >> 32) as u32)
    }

    proptest! {
        #[test]
        fn results_are_those_of_the_classifier(
            batches in prop::collection::vec((1..=2_u32, 1..=LANES, prop::collection::vec(0..40_u32, LANES)), 1..40),
            bits: [u32; 6],
            rules in prop::sample::select(vec![1, FEW_RULES + 1]),
        ) {
            let mut recent = RecentIp4Keys::new();
            let mut relevant = [0; COLUMNS];
            relevant[..6].copy_from_slice(&bits);
            for (number, lanes, values) in batches {
                let mut keys = Columns::<6>::default();
                for (lane, value) in values.iter().enumerate() {
                    for word in 0..6 {
                        keys.0[word][lane] = value.wrapping_mul(0x0101_0101) >> word;
                    }
                }
                let mut ids = [7; LANES];
                let owner = Owner { number, relevant: &relevant, rules };
                recent.look_up(owner, (&keys, lanes), &mut ids, |keys, lanes, ids| {
                    for (lane, id) in ids.iter_mut().enumerate().take(lanes) {
                        *id = sum(keys, &relevant, number, lane);
                    }
                });
                for (lane, id) in ids.iter().enumerate().take(lanes) {
                    prop_assert_eq!(*id, sum(&keys, &relevant, number, lane));
                }
            }
        }
    }

    /// Look-ups of `distinct` keys in turn; how many of the last batches asked the classifier about all lanes.
    fn asked(distinct: u32, rules: usize) -> usize {
        let (mut recent, mut next, mut asked) = (RecentIp4Keys::new(), 0_u32, 0);
        let owner = Owner { number: 1, relevant: &[u32::MAX; COLUMNS], rules };
        for batch in 0..20_000 {
            let mut keys = Columns::<6>::default();
            for lane in 0..LANES {
                keys.0[1][lane] = next % distinct;
                next += 1;
            }
            let mut ids = [0; LANES];
            recent.look_up(owner, (&keys, LANES), &mut ids, |_, lanes, ids| {
                asked += if batch >= 10_000 { lanes } else { 0 };
                ids.fill(5);
            });
            assert_eq!(ids, [5; LANES]);
        }
        asked / LANES
    }

    #[test]
    fn few_keys_are_found_and_many_are_not_looked_for() {
        let many = FEW_RULES + 1;
        assert_eq!(asked(1, many), 0);
        assert!(asked(4_096, many) < 3_500, "{}", asked(4_096, many));
        assert!(asked(1_000_000, many) > 9_990);
    }

    #[test]
    fn results_of_few_rules_are_kept_of_a_few_flows_only() {
        assert_eq!(asked(1, FEW_RULES), 0);
        assert!(asked(16, FEW_RULES) < 2_500, "{}", asked(16, FEW_RULES));
        assert!(asked(4_096, FEW_RULES) > 9_600, "{}", asked(4_096, FEW_RULES));
    }
}
