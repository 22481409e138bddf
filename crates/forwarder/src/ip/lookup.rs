//! Route lookups of whole vectors, each lane in the table of its VRF.

use std::ops::Range;

use stoa_engine::VECTOR;
use stoa_engine::gather::gather_32;
use stoa_engine::quiescence::Reader;
use stoa_engine::vector::{Column, LaneSet};
use stoa_tables::lpm::{Key, LpmReader};

use crate::shared::Shared;

/// An address of either family.
pub trait Address: Key + Default + 'static {
    /// The routes of a VRF; `None` when it was deleted.
    fn table<'a>(shared: &'a Shared, vrf: u32, reader: &'a Reader) -> Option<&'a LpmReader<Self>>;
}

impl Address for u32 {
    #[inline(always)]
    fn table<'a>(shared: &'a Shared, vrf: u32, reader: &'a Reader) -> Option<&'a LpmReader<Self>> {
        shared.ip4_table(vrf, reader)
    }
}

impl Address for u128 {
    #[inline(always)]
    fn table<'a>(shared: &'a Shared, vrf: u32, reader: &'a Reader) -> Option<&'a LpmReader<Self>> {
        shared.ip6_table(vrf, reader)
    }
}

/// Which routes a lookup uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routes {
    /// All.
    All,
    /// All but the default route.
    BeyondDefault,
}

/// Looks up vectors; keeps the columns of lanes that are in several VRFs.
pub struct Lookup<K> {
    vrfs: Column<u32>,
    /// Keys and lanes by VRF, and the ranges of each.
    keys: [K; VECTOR],
    lanes: [u8; VECTOR],
    groups: [(u32, Range<u16>); VECTOR],
    found: [u32; VECTOR],
}

impl<K: Address> Lookup<K> {
    /// Without any lanes.
    pub fn new() -> Box<Self> {
        Box::new(Self {
            vrfs: Column::of(0),
            keys: [K::default(); VECTOR],
            lanes: [0; VECTOR],
            groups: std::array::from_fn(|_| (0, 0..0)),
            found: [0; VECTOR],
        })
    }

    /// Looks up `keys`: `values[lane]` is the route's value, 0 without a route. `interfaces` tells
    /// the VRF of each lane.
    #[inline(always)]
    pub fn run(
        &mut self,
        (shared, reader): (&Shared, &Reader),
        interfaces: &Column<u32>,
        keys: &[K],
        values: &mut [u32],
        routes: Routes,
    ) {
        let lanes = keys.len();
        match interfaces.uniform(lanes) {
            Some(interface) => {
                let vrf = shared.attributes.vrf_of(interface);
                look_up(K::table(shared, vrf, reader), keys, values, routes);
            }
            None => {
                gather_32(shared.attributes.vrf(), interfaces, lanes, &mut self.vrfs);
                match self.vrfs.uniform(lanes) {
                    Some(vrf) => look_up(K::table(shared, vrf, reader), keys, values, routes),
                    None => self.in_vrfs((shared, reader), keys, values, routes),
                }
            }
        }
    }

    /// Looks up the lanes of each VRF together.
    #[inline(never)]
    fn in_vrfs(
        &mut self,
        (shared, reader): (&Shared, &Reader),
        keys: &[K],
        values: &mut [u32],
        routes: Routes,
    ) {
        let (mut left, mut sorted, mut groups) = (LaneSet::first_of(keys.len()), 0, 0);
        // All tables first: their misses overlap.
        while let Some(first) = left.lowest() {
            let (vrf, start) = (self.vrfs[first], sorted);
            for lane in left.take_equal(&self.vrfs, vrf).iter() {
                (self.keys[sorted], self.lanes[sorted]) = (keys[lane], lane as u8);
                sorted += 1;
            }
            if let Some(table) = K::table(shared, vrf, reader) {
                table.prefetch(&self.keys[start..sorted]);
            }
            self.groups[groups] = (vrf, start as u16..sorted as u16);
            groups += 1;
        }
        for (vrf, range) in &self.groups[..groups] {
            let range = usize::from(range.start)..usize::from(range.end);
            let found = &mut self.found[range.clone()];
            look_up(K::table(shared, *vrf, reader), &self.keys[range], found, routes);
        }
        for (lane, found) in self.lanes[..sorted].iter().zip(&self.found) {
            values[usize::from(*lane)] = *found;
        }
    }
}

/// Looks up keys in one table; a VRF that was deleted has no routes.
#[inline(always)]
fn look_up<K: Address>(
    table: Option<&LpmReader<K>>,
    keys: &[K],
    values: &mut [u32],
    routes: Routes,
) {
    match (table, routes) {
        (None, _) => values.fill(0),
        (Some(table), Routes::All) => table.lookup_batch(keys, values),
        (Some(table), Routes::BeyondDefault) => table.lookup_batch_beyond_default(keys, values),
    }
}
