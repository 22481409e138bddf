//! Which field of the key a node should use: what the alternatives are estimated to cost.
//!
//! The gain of a bit is the share of rules that fix it, times how evenly they do. For each word and each
//! length, the run of bits with the greatest sum is a candidate. Candidates, and pairs of the best ones,
//! are tried on the rules: how many go to each child?

use super::BLOCK;
use super::arena::Item;
use super::cut::Places;
use super::layout::{Field, MAX_BITS, blocks};
use super::pattern::Family;

/// Rules that a large node's candidates are tried on.
const SAMPLE: usize = 4096;
/// Children that are counted for one rule; more are taken as spread over all.
const NARROW: u32 = 16;
/// Children of a node, as a multiple of its rules.
const WIDEST: usize = 8;
/// Lengths of fields to try.
const LENGTHS: [u8; 11] = [1, 2, 3, 4, 5, 6, 8, 9, 10, 12, 14];
/// Lengths of the two fields of a node to try.
const PAIRS: [(u8, u8); 12] = [
    (1, 1),
    (2, 2),
    (3, 3),
    (2, 4),
    (4, 2),
    (4, 4),
    (6, 3),
    (3, 6),
    (5, 5),
    (8, 4),
    (6, 6),
    (7, 7),
];
/// Estimated cycles of a step down, of a leaf, and of going to a spill.
const STEP: f32 = 12.0;
const LEAF: f32 = 12.0;
const SPILL: f32 = 12.0;
/// Of doubling the rules: there are more steps, and more spills.
const SEARCH: f32 = 13.0;
/// Of using up the memory, which nodes below need as well.
const MEMORY: f32 = 15.0;
/// Spills are visited unless an earlier rule was found: so often.
const VISITED: f32 = 0.75;
/// And of one more block of a leaf, of which half are compared if a rule is met.
const BLOCK_STEP: f32 = 8.0;

/// A node to be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    pub(super) fields: [Field; 2],
    /// Rules that belong to more children go to the spill.
    pub(super) widest: u32,
}

/// Chooses cuts; keeps its memory from one to the next.
#[derive(Debug)]
pub(super) struct Chooser {
    family: &'static Family,
    histogram: Vec<u32>,
}

/// The rules of a node and what it may take.
pub(super) struct Node<'a> {
    pub(super) items: &'a [Item],
    pub(super) list: &'a [u32],
    /// Places for rules in all leaves below: eight for each block.
    pub(super) budget: f32,
    pub(super) can_spill: bool,
}

/// Estimated cycles to search so many rules.
fn search(rules: f32) -> f32 {
    let blocks = rules / BLOCK as f32;
    if blocks <= 1.0 {
        return LEAF;
    }
    // The logarithm, near enough.
    let log = blocks.to_bits() as f32 / (1 << 23) as f32 - 127.0;
    (LEAF + STEP + SEARCH * log).min(LEAF + BLOCK_STEP * (blocks - 1.0))
}

/// Estimated cycles of a leaf of so many rules: a key that meets one is compared with half of the blocks.
fn leaf(rules: usize) -> f32 {
    LEAF + BLOCK_STEP * (blocks(rules) - 1) as f32
}

/// A run of bits that belongs together: a word, or one of two numbers in it.
fn dimensions(family: &Family) -> impl Iterator<Item = (usize, u8, u8)> {
    (0..family.words).flat_map(|word| {
        let halves: &[(u8, u8)] =
            if family.is_range(word) { &[(0, 16), (16, 32)] } else { &[(0, 32)] };
        halves.iter().map(move |(from, to)| (word, *from, *to))
    })
}

impl Chooser {
    pub(super) fn new(family: &'static Family) -> Self {
        Self { family, histogram: vec![0; 1 << MAX_BITS] }
    }

    /// The best cut; `None` if none is better than a leaf.
    pub(super) fn choose(&mut self, node: &Node) -> Option<Cut> {
        let step = node.list.len().div_ceil(SAMPLE);
        let sample: Vec<&Item> =
            node.list.iter().step_by(step).map(|at| &node.items[*at as usize]).collect();
        let gains = self.gains(&sample);
        let most = (WIDEST * node.list.len()).ilog2().min(MAX_BITS) as u8;
        let mut best: Option<(f32, Cut)> = None;
        // The best cost of each dimension that has any gain.
        let mut singles: Vec<(f32, (usize, u8, u8))> = Vec::new();
        for dimension in dimensions(self.family) {
            let mut cheapest = f32::MAX;
            for bits in LENGTHS.into_iter().filter(|bits| *bits <= most) {
                let Some(field) = window(&gains, dimension, bits) else { break };
                let tried = self.try_cut([field, Field::default()], &sample, node);
                cheapest = cheapest.min(tried.map_or(f32::MAX, |(cost, _)| cost));
                better(&mut best, tried);
            }
            if cheapest < f32::MAX {
                singles.push((cheapest, dimension));
            }
        }
        singles.sort_by(|one, other| one.0.total_cmp(&other.0));
        singles.truncate(3);
        for (at, (_, one)) in singles.iter().enumerate() {
            for (_, other) in &singles[at + 1..] {
                let fits = |(bits, more): &(u8, u8)| bits + more <= most;
                for (bits, more) in PAIRS.into_iter().filter(fits) {
                    let fields = (window(&gains, *one, bits), window(&gains, *other, more));
                    if let (Some(one), Some(other)) = fields {
                        better(&mut best, self.try_cut([one, other], &sample, node));
                    }
                }
            }
        }
        best.filter(|(cost, _)| *cost < leaf(node.list.len())).map(|(_, cut)| cut)
    }

    /// The gain of each bit of each word.
    fn gains(&self, sample: &[&Item]) -> Vec<[f32; 32]> {
        let one = |word: usize| {
            let (mut fixed, mut set) = ([0_u32; 32], [0_u32; 32]);
            let is_range = self.family.is_range(word);
            for item in sample {
                let (value, mask) = (item.pattern.values[word], item.pattern.masks[word]);
                let care = if is_range { common_bits(value, mask) } else { mask };
                if care == 0 {
                    continue;
                }
                for bit in 0..32 {
                    fixed[bit] += care >> bit & 1;
                    set[bit] += (care & value) >> bit & 1;
                }
            }
            let mut gains = [0.0; 32];
            for bit in 0..32 {
                let (fixed, set) = (fixed[bit] as f32, set[bit] as f32);
                if fixed > 0.0 {
                    gains[bit] = 4.0 * set * (fixed - set) / fixed / sample.len() as f32;
                }
            }
            gains
        };
        (0..self.family.words).map(one).collect()
    }

    /// The estimated cost of a cut, if it is possible and helps.
    fn try_cut(&mut self, fields: [Field; 2], sample: &[&Item], node: &Node) -> Option<(f32, Cut)> {
        let children = 1_usize << (fields[0].bits + fields[1].bits);
        let scale = node.list.len() as f32 / sample.len() as f32;
        let histogram = &mut self.histogram[..children];
        histogram.fill(0);
        // How many rules belong to up to 2^i children, and to how many children.
        let mut wide = [(0.0_f32, 0.0_f32); MAX_BITS as usize + 1];
        for item in sample {
            let places = Places::of(&item.pattern, self.family, fields);
            let len = places.len();
            if len <= NARROW && (len as usize) < children {
                places.for_each(|place| histogram[place] += 1);
            } else {
                let (count, sum) = &mut wide[len.next_power_of_two().ilog2() as usize];
                (*count, *sum) = (*count + scale, *sum + scale * len as f32);
            }
        }
        let mut spilled = 0.0;
        // Alike children are stored once.
        let most_entries = 3.0 * node.budget;
        let narrow = scale * histogram.iter().map(|count| *count as f32).sum::<f32>();
        let mut open: f32 = wide.iter().map(|(_, sum)| sum / children as f32).sum();
        // First all rules are copied to their children; then fewer and fewer of the widest.
        for class in (0..=MAX_BITS as usize).rev() {
            let (count, sum) = wide[class];
            if count > 0.0 {
                let entries = narrow + open * children as f32;
                let cost = estimate(histogram, scale, open, node);
                if let Some(cost) = cost.filter(|_| entries <= most_entries) {
                    return with_spill(cost, spilled, node)
                        .map(|cost| (cost, Cut { fields, widest: 1 << class }));
                }
                spilled += count;
                open -= sum / children as f32;
            }
        }
        // The narrow ones alone.
        let cost = estimate(histogram, scale, 0.0, node).filter(|_| narrow <= most_entries)?;
        let cut = Cut { fields, widest: NARROW.min(children as u32 - 1) };
        with_spill(cost, spilled, node).map(|cost| (cost, cut))
    }
}

/// The estimated cost with so many rules in a spill, if that is possible and helps.
fn with_spill(cost: f32, spilled: f32, node: &Node) -> Option<f32> {
    if spilled == 0.0 {
        return Some(cost);
    }
    let fits = node.can_spill && spilled < 0.95 * node.list.len() as f32;
    fits.then_some(cost + SPILL + VISITED * search(spilled))
}

/// The estimated cost of going to a child and searching it, weighted by the rules there; `None` if that
/// takes too much memory or does not help. `open` rules are in each child besides those counted.
fn estimate(histogram: &[u32], scale: f32, open: f32, node: &Node) -> Option<f32> {
    let open = open.max(0.0);
    let (mut cost, mut all, mut places, mut most) = (0.0_f32, 0.0_f32, 0.0_f32, 0.0_f32);
    for count in histogram.iter().filter(|count| **count > 0) {
        let rules = *count as f32 * scale + open;
        cost += rules * search(rules);
        all += rules;
        places += rules.max(BLOCK as f32);
        most = most.max(rules);
    }
    if open > 0.0 {
        // One child for all that have only these.
        cost += open * search(open);
        all += open;
        places += open.max(BLOCK as f32);
        most = most.max(open);
    }
    let n = node.list.len() as f32;
    // The array of children counts as well: five words are a line, as a rule is.
    let places = places + histogram.len() as f32 / 5.0;
    if all == 0.0 || most >= 0.95 * n || places > node.budget {
        return None;
    }
    let is_last = most <= BLOCK as f32;
    let share = (places / n).max(1.0).log2() / (node.budget / n).max(1.01).log2();
    Some(STEP + cost / all + if is_last { 0.2 } else { 1.0 } * MEMORY * share)
}

fn better(best: &mut Option<(f32, Cut)>, tried: Option<(f32, Cut)>) {
    if let Some((cost, _)) = tried
        && best.is_none_or(|(least, _)| cost < least)
    {
        *best = tried;
    }
}

/// The run of so many bits with the greatest gain; `None` if no bit has any.
fn window(gains: &[[f32; 32]], (word, from, to): (usize, u8, u8), bits: u8) -> Option<Field> {
    let sum = |shift: &u8| -> f32 {
        gains[word][usize::from(*shift)..usize::from(shift + bits)].iter().sum()
    };
    if bits > to - from {
        return None;
    }
    // Of equal ones the uppermost.
    let shift = (from..=to - bits).max_by(|one, other| sum(one).total_cmp(&sum(other)))?;
    (sum(&shift) > 0.01).then_some(Field { word: word as u8, shift, bits })
}

/// The bits that all numbers of both ranges have in common, from the top.
fn common_bits(firsts: u32, lengths: u32) -> u32 {
    let half = |shift: u32| {
        let (first, length) = ((firsts >> shift) as u16, (lengths >> shift) as u16);
        let differ = first ^ first.wrapping_add(length);
        let zeros = differ.leading_zeros();
        u32::from(!u16::MAX.checked_shr(zeros).unwrap_or(0)) << shift
    };
    half(0) | half(16)
}
