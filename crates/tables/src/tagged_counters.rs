//! Exact counters for names that come and go, which several threads share without a lock: how many flows a host has, or
//! how many ports a subscriber.
//!
//! A place is a word with the tag of a name and a count, changed by compare-and-swap. Whoever is counted keeps the
//! number of the place, which belongs to the name until the last one is given back, and is then free for another name.
//! A name has two buckets of places by a hash with a secret, so that nobody can fill the buckets of others, and takes a
//! place of the emptier one: with twice as many places as names, one is free.
//!
//! ```text
//! 63              BITS                 0
//! +---------------+--------------------+
//! | tag           | count; 0: free     |
//! +---------------+--------------------+
//! ```

use core::sync::atomic::Ordering;

use crate::flow_hash::fold_product;
use crate::sync::{AtomicU64, fence};

/// Places of a bucket.
pub const BUCKET: usize = if cfg!(loom) { 2 } else { 8 };
/// How often a place is looked for that other threads take or free meanwhile. A name that has a place needs one turn.
const TURNS: usize = 16;
/// What the secret is mixed into: one of few bits, as in tests, spreads as well.
const FACTORS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xd6e8_feb8_6659_fd93];

/// Something with a word of tag and count.
pub trait Place {
    /// The word; 0: never used.
    fn word(&self) -> &AtomicU64;
}

/// Where a name is counted: its buckets, and its tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    /// The first places of the two buckets, which differ.
    buckets: [usize; 2],
    tag: u64,
}

/// One that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The number of the place.
    pub place: usize,
    /// Whether it is the first one of the name.
    pub is_first: bool,
    /// Whether the place had another name before.
    pub is_other: bool,
}

/// Why none is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotTaken {
    /// The name has as many as it may have.
    Most,
    /// All places of the buckets have other names, or there are no places.
    Full,
    /// Other threads took or freed each place that was found. It does not happen to a name that has a place.
    Contended,
}

/// How words are read, and places found. `BITS`: those of a word that count.
#[derive(Clone, Copy, Debug)]
pub struct TaggedCounters<const BITS: u32> {
    keys: [u64; 2],
}

impl<const BITS: u32> TaggedCounters<BITS> {
    /// The bits of a word that count; the others are the tag.
    pub const COUNT: u64 = (1 << BITS) - 1;

    /// `keys`: random, and known to this router only.
    pub const fn new(keys: [u64; 2]) -> Self {
        Self { keys }
    }

    /// How many places so many names need: a power of two, at most `most`, which is one as well.
    pub fn places(names: u64, most: usize) -> usize {
        let places = usize::try_from(names).unwrap_or(most).saturating_mul(2).min(most);
        places.next_power_of_two().clamp(2 * BUCKET, most)
    }

    /// The count in a word.
    #[inline(always)]
    pub const fn count(word: u64) -> u64 {
        word & Self::COUNT
    }

    /// A name of two words, among so many places. Another name has the same tag with a chance of one in 2^(64 - BITS).
    #[inline]
    pub fn name(&self, places: usize, words: [u64; 2]) -> Name {
        let [first, second] = self.keys;
        let (buckets, hash) = self.buckets(places, words);
        let tag = fold_product(hash ^ first, (FACTORS[0] ^ second.rotate_left(17)) | 1);
        Name { buckets, tag: tag & !Self::COUNT }
    }

    /// A name that is its own tag: the bits that count are 0.
    #[inline]
    pub fn exact(&self, places: usize, tag: u64) -> Name {
        let tag = tag & !Self::COUNT;
        Name { buckets: self.buckets(places, [tag, 0]).0, tag }
    }

    fn buckets(&self, places: usize, [name, context]: [u64; 2]) -> ([usize; 2], u64) {
        let [first, second] = self.keys;
        // Twice: one product of neighbouring addresses, or of networks, does not spread them.
        let hash = fold_product(name ^ first, (FACTORS[0] ^ second) | 1);
        let hash = fold_product(hash ^ second ^ context, (FACTORS[1] ^ first.rotate_left(32)) | 1);
        let mask = (places / BUCKET).saturating_sub(1);
        let bucket = hash as usize & mask;
        let other = bucket ^ ((hash >> 32) as usize | 1) & mask;
        ([bucket * BUCKET, other * BUCKET], hash)
    }

    /// Place and word of a name; otherwise of a free place, of the emptier bucket. One that had the name last comes
    /// first. The flag says whether the place has the name, or had it last.
    pub fn find<P: Place>(&self, places: &[P], name: Name) -> Option<(usize, u64, bool)> {
        let mut best: Option<((bool, usize), (usize, u64))> = None;
        for first in name.buckets {
            let (mut used, mut free) = (0, None);
            for (at, place) in (first..).zip(places.get(first..first + BUCKET)?) {
                let word = place.word().load(Ordering::Acquire);
                let is_same = word & !Self::COUNT == name.tag;
                if Self::is_of(word, name) {
                    return Some((at, word, true));
                } else if Self::count(word) > 0 {
                    used += 1;
                } else if free.is_none() || is_same {
                    free = Some((!is_same, (at, word)));
                }
            }
            if let Some((is_other, free)) = free
                && best.is_none_or(|(least, _)| (is_other, used) < least)
            {
                best = Some(((is_other, used), free));
            }
        }
        best.map(|((is_other, _), (at, word))| (at, word, !is_other))
    }

    /// Counts one of a name that has fewer than `most`.
    ///
    /// Two threads that begin with a name at the same moment find each other's places, and use one. A third one that
    /// counts at the other place meanwhile leaves the name with two of them until that is given back.
    ///
    /// # Errors
    /// [`NotTaken`]. Nothing is counted then.
    pub fn take<P: Place>(&self, places: &[P], name: Name, most: u64) -> Result<Taken, NotTaken> {
        let most = most.min(Self::COUNT);
        for _ in 0..TURNS {
            let (place, word, is_known) = self.find(places, name).ok_or(NotTaken::Full)?;
            let counted = places.get(place).ok_or(NotTaken::Full)?.word();
            if Self::count(word) > 0 {
                match Self::take_more(counted, name, most) {
                    Ok(_) => return Ok(Taken { place, is_first: false, is_other: false }),
                    Err(word) if Self::is_of(word, name) => return Err(NotTaken::Most),
                    // The last one was given back meanwhile.
                    Err(_) => continue,
                }
            }
            if most == 0 {
                return Err(NotTaken::Most);
            }
            if self.take_first(places, name, (place, word)) {
                return Ok(Taken { place, is_first: true, is_other: !is_known });
            }
        }
        Err(NotTaken::Contended)
    }

    /// Whether a word counts some of a name.
    const fn is_of(word: u64, name: Name) -> bool {
        Self::count(word) > 0 && word & !Self::COUNT == name.tag
    }

    /// Counts one more at a place of a name. It tries until the place has another name, or as many as it may have:
    /// each time that it is too late, another thread has counted.
    ///
    /// # Errors
    /// The word that lets none be counted.
    fn take_more(counted: &AtomicU64, name: Name, most: u64) -> Result<u64, u64> {
        let may_be = |word| Self::is_of(word, name) && Self::count(word) < most;
        let more = |word: u64| may_be(word).then(|| word + 1);
        counted.fetch_update(Ordering::AcqRel, Ordering::Acquire, more)
    }

    /// Counts the first one of a name at a free place, as long as it has this word; `false`: none is counted.
    fn take_first<P: Place>(&self, places: &[P], name: Name, (place, word): (usize, u64)) -> bool {
        let Some(counted) = places.get(place).map(P::word) else { return false };
        let (taken, free) = (name.tag | 1, name.tag);
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        if counted.compare_exchange(word, taken, success, failure).is_err() {
            return false;
        }
        // Of two threads that begin, one sees the other's place at least.
        fence(Ordering::SeqCst);
        // One at which others count already stays.
        !self.has_other(places, name, place)
            || counted.compare_exchange(taken, free, success, failure).is_err()
    }

    /// Whether a name has another place than this one.
    fn has_other<P: Place>(&self, places: &[P], name: Name, place: usize) -> bool {
        let mut all = name.buckets.into_iter().flat_map(|first| {
            let bucket = places.get(first..first + BUCKET).unwrap_or_default();
            (first..).zip(bucket)
        });
        all.any(|(at, it)| at != place && Self::is_of(it.word().load(Ordering::Acquire), name))
    }

    /// Gives one back, if any is counted; the word before.
    pub fn give_back(word: &AtomicU64) -> Option<u64> {
        let less = |word: u64| (Self::count(word) > 0).then(|| word - 1);
        word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, less).ok()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;

    use super::*;

    struct Word(AtomicU64);

    impl Place for Word {
        fn word(&self) -> &AtomicU64 {
            &self.0
        }
    }

    /// Two threads that begin with a name, while another name comes and goes at a place before.
    #[test]
    fn a_name_has_one_place() {
        type Counters = TaggedCounters<16>;
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(|| {
            let all = Counters::new([1, 2]);
            let places: Arc<Vec<Word>> =
                Arc::new((0..2 * BUCKET).map(|_| Word(AtomicU64::new(0))).collect());
            let name = all.exact(2 * BUCKET, 7 << 16);
            let other = all.exact(2 * BUCKET, 9 << 16);
            let before = all.take(&places, other, 9).unwrap().place;
            let thread = {
                let places = places.clone();
                loom::thread::spawn(move || {
                    Counters::give_back(places[before].word());
                    all.take(&places, name, 9)
                })
            };
            let mine = all.take(&places, name, 9);
            let theirs = thread.join().unwrap();
            assert_eq!(mine.unwrap().place, theirs.unwrap().place);
            let words = places.iter().map(|it| it.word().load(Ordering::Relaxed));
            assert_eq!(words.map(Counters::count).sum::<u64>(), 2);
        });
    }

    #[test]
    fn the_last_one_is_taken_once() {
        type Counters = TaggedCounters<16>;
        loom::model(|| {
            let all = Counters::new([1, 2]);
            let places: Arc<Vec<Word>> =
                Arc::new((0..2 * BUCKET).map(|_| Word(AtomicU64::new(0))).collect());
            let name = all.exact(2 * BUCKET, 7 << 16);
            all.take(&places, name, 2).unwrap();
            let thread = {
                let places = places.clone();
                loom::thread::spawn(move || all.take(&places, name, 2).is_ok())
            };
            let mine = all.take(&places, name, 2).is_ok();
            assert!(mine != thread.join().unwrap());
        });
    }

    /// All that is taken at a known place counts, whatever is given back there meanwhile.
    #[test]
    fn a_known_place_counts_all() {
        type Counters = TaggedCounters<16>;
        loom::model(|| {
            let all = Counters::new([1, 2]);
            let places: Arc<Vec<Word>> =
                Arc::new((0..2 * BUCKET).map(|_| Word(AtomicU64::new(0))).collect());
            let name = all.exact(2 * BUCKET, 7 << 16);
            let known = all.take(&places, name, 9).unwrap().place;
            let thread = {
                let places = places.clone();
                loom::thread::spawn(move || {
                    assert_eq!(all.take(&places, name, 9).unwrap().place, known);
                    assert!(Counters::give_back(places[known].word()).is_some());
                })
            };
            assert_eq!(all.take(&places, name, 9).map(|it| it.place), Ok(known));
            thread.join().unwrap();
            assert_eq!(Counters::count(places[known].word().load(Ordering::Relaxed)), 2);
        });
    }

    /// A thread that begins with a name stalls, while another place becomes free, and two others begin as well: all of
    /// them count, at no more than two places.
    #[test]
    fn a_stalled_thread_makes_two_places_at_most() {
        type Counters = TaggedCounters<16>;
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(|| {
            let all = Counters::new([1, 2]);
            let places: Arc<Vec<Word>> =
                Arc::new((0..2 * BUCKET).map(|_| Word(AtomicU64::new(0))).collect());
            let name = all.exact(2 * BUCKET, 7 << 16);
            let other = all.exact(2 * BUCKET, 9 << 16);
            let before = all.take(&places, other, 9).unwrap().place;
            let threads = [false, true].map(|gives_back| {
                let places = places.clone();
                loom::thread::spawn(move || {
                    if gives_back {
                        Counters::give_back(places[before].word());
                    }
                    all.take(&places, name, 9).unwrap();
                })
            });
            all.take(&places, name, 9).unwrap();
            threads.into_iter().for_each(|it| it.join().unwrap());
            let words = places.iter().map(|it| it.word().load(Ordering::Relaxed));
            let counts: Vec<u64> = words.map(Counters::count).filter(|it| *it > 0).collect();
            assert!(counts.len() <= 2 && counts.iter().sum::<u64>() == 3, "{counts:?}");
        });
    }
}
