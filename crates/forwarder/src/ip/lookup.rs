//! Route lookups of whole vectors, each lane in the table of its VRF.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use stoa_engine::gather::gather_32;
use stoa_engine::quiescence::Reader;
use stoa_engine::vector::{Column, LaneSet};
use stoa_engine::{VECTOR, Vector};
use stoa_tables::lpm::{Counted, Key, LpmReader, LpmTables};

use crate::shared::Shared;

/// An address of either family.
pub trait Address: Key + Default + 'static {
    /// The routes of a VRF; `None` when it was deleted.
    fn table<'a>(shared: &'a Shared, vrf: u32, reader: &'a Reader) -> Option<&'a LpmReader<Self>>;
    /// The routes of all VRFs.
    fn tables<'a>(shared: &'a Shared, reader: &'a Reader) -> &'a LpmTables<Self>;
    /// The address with its family.
    fn ip(self) -> IpAddr;
}

impl Address for u32 {
    #[inline(always)]
    fn table<'a>(shared: &'a Shared, vrf: u32, reader: &'a Reader) -> Option<&'a LpmReader<Self>> {
        shared.ip4_table(vrf, reader)
    }

    #[inline(always)]
    fn tables<'a>(shared: &'a Shared, reader: &'a Reader) -> &'a LpmTables<Self> {
        &shared.vrfs.read(reader).ip4
    }

    fn ip(self) -> IpAddr {
        Ipv4Addr::from_bits(self).into()
    }
}

impl Address for u128 {
    #[inline(always)]
    fn table<'a>(shared: &'a Shared, vrf: u32, reader: &'a Reader) -> Option<&'a LpmReader<Self>> {
        shared.ip6_table(vrf, reader)
    }

    #[inline(always)]
    fn tables<'a>(shared: &'a Shared, reader: &'a Reader) -> &'a LpmTables<Self> {
        &shared.vrfs.read(reader).ip6
    }

    fn ip(self) -> IpAddr {
        Ipv6Addr::from_bits(self).into()
    }
}

/// Looks up vectors; keeps the VRFs of lanes that are in several.
pub struct Lookup {
    vrfs: Column<u32>,
}

impl Lookup {
    /// Without any lanes.
    pub fn new() -> Box<Self> {
        Box::new(Self { vrfs: Column::of(0) })
    }

    /// Looks up `keys`: `values[lane]` is the route's value, 0 without a route. `interfaces` tells
    /// the VRF of each lane.
    #[inline(always)]
    pub fn run<K: Address>(
        &mut self,
        (shared, reader): (&Shared, &Reader),
        interfaces: &Column<u32>,
        keys: &[K],
        values: &mut [u32],
        counted: Counted,
    ) {
        let lanes = keys.len();
        match interfaces.uniform(lanes) {
            Some(interface) => {
                let vrf = shared.attributes.vrf_of(interface);
                look_up(K::table(shared, vrf, reader), keys, values, counted);
            }
            None => {
                gather_32(shared.attributes.vrf(), interfaces, lanes, &mut self.vrfs);
                match self.vrfs.uniform(lanes) {
                    Some(vrf) => look_up(K::table(shared, vrf, reader), keys, values, counted),
                    None => K::tables(shared, reader).lookup_batch(
                        &self.vrfs[..lanes],
                        keys,
                        counted,
                        values,
                    ),
                }
            }
        }
    }
}

/// Looks up some lanes of a vector: their keys lie side by side meanwhile, so that no lane is looked up twice
/// where lanes need different look-ups.
pub struct SomeLanes<K> {
    interfaces: Column<u32>,
    keys: [K; VECTOR],
    values: Column<u32>,
}

impl<K: Address> SomeLanes<K> {
    /// Without any lanes.
    pub fn new() -> Box<Self> {
        let keys = [K::default(); VECTOR];
        Box::new(Self { interfaces: Column::of(0), keys, values: Column::of(0) })
    }

    /// [`Lookup::run`] for the lanes `some`; the values of others stay.
    #[inline(never)]
    pub fn run(
        &mut self,
        lookup: &mut Lookup,
        tables: (&Shared, &Reader),
        vector: &Vector,
        (some, keys, counted): (&LaneSet, &[K], Counted),
        values: &mut [u32],
    ) {
        let mut count = 0;
        for lane in some.iter() {
            (self.keys[count], self.interfaces[count]) = (keys[lane], vector.rx_if[lane]);
            count += 1;
        }
        if count == 0 {
            return;
        }
        let (keys, found) = (&self.keys[..count], &mut self.values[..count]);
        lookup.run(tables, &self.interfaces, keys, found, counted);
        some.iter().zip(found).for_each(|(lane, found)| values[lane] = *found);
    }
}

/// Looks up keys in one table; a VRF that was deleted has no routes.
#[inline(always)]
fn look_up<K: Address>(
    table: Option<&LpmReader<K>>,
    keys: &[K],
    values: &mut [u32],
    counted: Counted,
) {
    match (table, counted) {
        (None, _) => values.fill(0),
        (Some(table), Counted::All) => table.lookup_batch(keys, values),
        (Some(table), Counted::BeyondDefault) => table.lookup_batch_beyond_default(keys, values),
    }
}
