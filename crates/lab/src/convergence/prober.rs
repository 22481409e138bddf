//! Sends test packets to every prefix until each has arrived by the expected next hop.
//!
//! Only prefixes without an arrival are sent again. To keep the processor load of the probing low, each pass probes
//! one prefix per block, and the rest of the block follows once that one arrived.

use std::time::{Duration, Instant};

use super::frames::Arrival;
use super::hops::{Hop, OutPort};
use super::links::Links;
use super::table::Table;
use crate::{Result, interrupt};

/// Prefixes of a block.
const BLOCK: usize = 1024;
/// Between two passes; shorter while there are few blocks.
const PASS: Duration = Duration::from_millis(20);
const SHORT_PASS: Duration = Duration::from_millis(4);
/// Up to this many blocks, passes are short.
const FEW: usize = 64;

/// The expected next hop of packets to the prefixes.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExpectedHop {
    pub(super) peer: u8,
    pub(super) out: OutPort,
}

/// The result for a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Proof {
    /// When the last packet arrived.
    pub(super) last: Instant,
    /// Prefixes whose packet arrived.
    pub(super) arrived: usize,
}

/// The state of one proof.
struct Prober<'a> {
    table: &'a Table,
    expected: ExpectedHop,
    arrived: Vec<u64>,
    blocks: Vec<Block>,
    count: usize,
    last: Instant,
}

#[derive(Clone, Copy, Default)]
struct Block {
    /// The last probed prefix.
    probed: Option<usize>,
    missing: usize,
    /// Where the search for the next prefix starts.
    from: usize,
}

/// Sends until every prefix is verified, at most until `end`. `report` is called periodically with the number of
/// verified prefixes; its error ends the proof.
///
/// # Errors
///
/// The error of `report`; [`crate::LabError::Interrupted`] after Ctrl-C.
pub(super) fn prove(
    links: &mut Links,
    table: &Table,
    expected: ExpectedHop,
    end: Instant,
    mut report: impl FnMut(usize) -> Result<()>,
) -> Result<Proof> {
    let mut prober = Prober::new(table, expected);
    let provable = table.provable();
    let pass = if prober.blocks.len() <= FEW { SHORT_PASS } else { PASS };
    let mut announcers = Instant::now();
    while prober.count < provable && Instant::now() < end {
        let begun = Instant::now();
        let list = prober.pass();
        let packets = list.into_iter().filter_map(|at| Some((at as u32, table.address(at)?, 0)));
        links.send(packets, |arrival| prober.note(arrival));
        loop {
            links.receive(|arrival| prober.note(arrival));
            if prober.count == provable || begun.elapsed() >= pass {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        if announcers.elapsed() > Duration::from_millis(200) {
            interrupt::check()?;
            links.service();
            report(prober.count)?;
            announcers = Instant::now();
        }
    }
    Ok(Proof { last: prober.last, arrived: prober.count })
}

impl<'a> Prober<'a> {
    fn new(table: &'a Table, expected: ExpectedHop) -> Self {
        let blocks = (0..table.len()).step_by(BLOCK).map(|first| {
            let block = first..(first + BLOCK).min(table.len());
            let missing = block.filter(|at| table.address(*at).is_some()).count();
            Block { missing, ..Block::default() }
        });
        Self {
            table,
            expected,
            arrived: vec![0; table.len().div_ceil(64)],
            blocks: blocks.collect(),
            count: 0,
            last: Instant::now(),
        }
    }

    fn has(&self, at: usize) -> bool {
        self.arrived[at / 64] >> (at % 64) & 1 == 1
    }

    /// The prefixes to send to in this pass.
    fn pass(&mut self) -> Vec<usize> {
        let mut list = Vec::new();
        for number in 0..self.blocks.len() {
            let block = self.blocks[number];
            if block.missing == 0 {
                continue;
            }
            let first = number * BLOCK;
            let size = BLOCK.min(self.table.len() - first);
            let is_missing = |at: &usize| self.table.address(*at).is_some() && !self.has(*at);
            if block.probed.is_some_and(|at| self.has(at)) {
                list.extend((first..first + size).filter(is_missing));
                self.blocks[number].probed = None;
                continue;
            }
            let mut around = (0..size).map(|step| first + (block.from + step) % size);
            if let Some(at) = around.find(is_missing) {
                list.push(at);
                // Probe another prefix next time, so that a single late one does not block the others.
                self.blocks[number].probed = Some(at);
                self.blocks[number].from = (at - first + 1) % size;
            }
        }
        list
    }

    fn note(&mut self, arrival: Arrival) {
        let at = arrival.index as usize;
        let Some(depth) = self.table.depth(at) else { return };
        let hop = Hop { peer: self.expected.peer, out: self.expected.out, depth };
        let is_it = self.table.address(at) == Some(arrival.destination) && arrival.went_by(hop);
        if is_it && !self.has(at) {
            self.arrived[at / 64] |= 1 << (at % 64);
            self.blocks[at / BLOCK].missing -= 1;
            self.count += 1;
            self.last = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(table: &Table, at: usize, hop: Hop) -> Arrival {
        let destination = table.address(at).unwrap_or_default();
        Arrival { index: at as u32, sequence: 0, destination, mac: hop.mac() }
    }

    #[test]
    fn probes_one_prefix_per_block_until_one_arrives() {
        let table = Table::synthetic(3000);
        let expected = ExpectedHop { peer: 0, out: OutPort::First };
        let hop = Hop { peer: 0, out: OutPort::First, depth: 0 };
        let mut prober = Prober::new(&table, expected);
        assert_eq!(prober.pass(), [0, 1024, 2048]);
        prober.note(arrival(&table, 1024, Hop { peer: 1, ..hop }));
        prober.note(arrival(&table, 0, hop));
        let second = prober.pass();
        assert_eq!(second[..1023], (1..1024).collect::<Vec<_>>(), "the rest of the first block");
        assert_eq!(second[1023..], [1025, 2049]);
        (1..1024).for_each(|at| prober.note(arrival(&table, at, hop)));
        (0..2).for_each(|_| prober.note(arrival(&table, 5, hop)));
        assert_eq!(prober.count, 1024);
        assert_eq!(prober.pass(), [1026, 2050]);
    }

    /// All prefixes are verified in the end, whatever is lost and in whatever order routes arrive.
    #[test]
    fn resends_lost_packets() {
        let table = Table::four((0..5000).map(|at| ((20 << 24) + (at << 6), 26)).collect());
        let expected = ExpectedHop { peer: 2, out: OutPort::Second };
        let mut prober = Prober::new(&table, expected);
        let mut state = 9_u32;
        for pass in 0..100_000_usize {
            if prober.count == 5000 {
                return;
            }
            for at in prober.pass() {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let is_learned = (at * 7919) % 5000 <= pass * 50;
                if is_learned && state >> 30 != 0 {
                    let depth = table.depth(at).unwrap_or_default();
                    let hop = Hop { peer: 2, out: OutPort::Second, depth };
                    prober.note(arrival(&table, at, hop));
                }
            }
        }
        panic!("{} of 5000", prober.count);
    }
}
