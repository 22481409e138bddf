//! The head of the memory of flow tables: what a later process must know to read them.
//!
//! ```text
//! 0     magic, version, flows of each kind, and two clocks at the same moment
//! 4096  VRFs by slot: number in keys (16 bits), hash of the name (48); 0: none
//! 6144  zones by number: hash of the name; 0: none
//! 8192  flow profiles by number: hash of the content
//! ```

use super::LeftOut;
use crate::flow::profiles::{PROFILES, Profile, profile_of, without_profile};
use crate::flow::timeouts::Class;
use nix::time::{ClockId, clock_gettime};
use stoa_engine::clock;
use stoa_tables::flow_table::{FlowCapacity, FlowKey, FormerFlow};
use stoa_warm_restart::{Arrays, FormerArrays};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

const MAGIC: u64 = u64::from_le_bytes(*b"stoaflow");
/// Changes when lines, records, counters, addresses or what their fields mean change.
const VERSION: u32 = 2;
const NAMES: u64 = 4096;

/// What does not change, but for the clocks.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Fixed {
    magic: u64,
    version: u32,
    /// Kinds of IPv4, then of IPv6.
    capacity: [u32; 8],
    reserved: u32,
    clocks: Clocks,
}

/// The clock of flow tables and that of the machine, in milliseconds, at the same moment.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Clocks {
    flows: u64,
    machine: u64,
}

const CLOCKS: u64 = (size_of::<Fixed>() - size_of::<Clocks>()) as u64;

/// VRFs by their slots, zones and flow profiles by their numbers.
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Names {
    vrfs: [u64; 256],
    zones: [u64; 256],
    profiles: [u64; PROFILES],
}

impl Default for Names {
    fn default() -> Self {
        Self { vrfs: [0; 256], zones: [0; 256], profiles: [0; PROFILES] }
    }
}

/// A hash that is the same in each process: FNV-1a.
pub fn stable_hash<'a>(bytes: impl IntoIterator<Item = &'a u8>) -> u64 {
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// A hash of a name that is not 0 in its upper 48 bits.
fn hash(name: &str) -> u64 {
    stable_hash(name.as_bytes()) | 1 << 16
}

impl Names {
    /// A VRF has a name and a number in keys.
    pub fn add_vrf(&mut self, vrf: u16, name: &str) {
        self.vrfs[usize::from(vrf & 0xff)] = u64::from(vrf) << 48 | hash(name) >> 16;
    }

    /// A zone has a name and a number.
    pub fn add_zone(&mut self, zone: u8, name: &str) {
        self.zones[usize::from(zone)] = hash(name);
    }

    /// A flow profile has a number.
    pub fn add_profile(&mut self, number: u8, profile: &Profile) {
        let timeouts = Class::ALL.map(|class| profile.timeouts.of(class).to_le_bytes());
        let options = [profile.options.loose, profile.options.liberal].map(u8::from);
        let hash = stable_hash(timeouts.as_flattened().iter().chain(&options));
        self.profiles[usize::from(number) % PROFILES] = hash;
    }

    /// All hashes, for another router.
    pub fn words(&self) -> impl Iterator<Item = &u64> {
        self.vrfs.iter().chain(&self.zones).chain(&self.profiles)
    }

    /// The same, to write them.
    pub fn words_mut(&mut self) -> impl Iterator<Item = &mut u64> {
        self.vrfs.iter_mut().chain(&mut self.zones).chain(&mut self.profiles)
    }

    /// A flow with the numbers that these names have in `now`. The zone to which it is half open, which this process
    /// has not counted, is left out.
    ///
    /// # Errors
    /// Its VRF does not exist any more.
    pub fn translate(&self, now: &Self, flow: &FormerFlow) -> Result<FormerFlow, LeftOut> {
        let in_vrf = |key: FlowKey| self.key_in(now, key).ok_or(LeftOut::Vrf);
        let zone = self.zone_in(now, (flow.zone_pair >> 8) as u8);
        Ok(FormerFlow {
            key: in_vrf(flow.key)?,
            reply_key: flow.reply_key.map(in_vrf).transpose()?,
            zone_pair: u16::from(zone) << 8,
            class: self.class_in(now, flow.class),
            ..*flow
        })
    }

    /// A key in the VRF that has this name in `now`.
    pub fn key_in(&self, now: &Self, key: FlowKey) -> Option<FlowKey> {
        self.vrf_in(now, key.vrf).map(|vrf| FlowKey { vrf, ..key })
    }

    /// A class with the number in `now` of its profile. One that is gone has the defaults, until rules judge the flow.
    pub(super) fn class_in(&self, now: &Self, class: u8) -> u8 {
        let profile = self.profiles[usize::from(profile_of(class)) % PROFILES];
        let found = now.profiles.iter().position(|it| *it == profile);
        without_profile(class) | (found.unwrap_or(0) as u8) << 4
    }

    /// The number in `now` of the VRF that has this number here.
    pub fn vrf_in(&self, now: &Self, vrf: u16) -> Option<u16> {
        let word = self.vrfs[usize::from(vrf & 0xff)];
        let name = |word: u64| word & ((1 << 48) - 1);
        if (word >> 48) as u16 != vrf || word == 0 {
            return None;
        }
        let found = now.vrfs.iter().find(|it| **it != 0 && name(**it) == name(word));
        found.map(|word| (word >> 48) as u16)
    }

    /// The number in `now` of the zone that has this number here; 0: it is in none, or that is gone.
    pub(super) fn zone_in(&self, now: &Self, zone: u8) -> u8 {
        let name = self.zones[usize::from(zone)];
        let found = now.zones.iter().position(|it| *it == name && name != 0);
        found.map_or(0, |number| number as u8)
    }
}

fn clocks(flows_ms: u64) -> Clocks {
    // Without this clock, the time between two processes does not count.
    let machine = clock_gettime(ClockId::CLOCK_BOOTTIME);
    let machine =
        machine.map_or(0, |it| it.tv_sec() as u64 * 1000 + it.tv_nsec() as u64 / 1_000_000);
    Clocks { flows: flows_ms, machine }
}

/// The milliseconds of flow tables now.
fn now_ms() -> u64 {
    clock::duration(clock::tsc()).as_millis() as u64
}

/// Writes the head of tables of these capacities.
///
/// # Errors
/// The system has no memory.
pub fn write(arrays: &Arrays, [four, six]: [&FlowCapacity; 2]) -> std::io::Result<()> {
    let of = |it: &FlowCapacity| [it.ip4, it.translated_ip4, it.ip6, it.translated_ip6];
    let mut capacity = [0; 8];
    let (first, second) = capacity.split_at_mut(4);
    first.copy_from_slice(&of(four));
    second.copy_from_slice(&of(six));
    let (version, reserved, clocks) = (VERSION, 0, clocks(now_ms()));
    let fixed = Fixed { magic: MAGIC, version, capacity, reserved, clocks };
    arrays.write_head(0, fixed.as_bytes())
}

/// Writes what VRFs and zones are called.
///
/// # Errors
/// As [`write`].
pub fn write_names(arrays: &Arrays, names: &Names) -> std::io::Result<()> {
    arrays.write_head(NAMES, names.as_bytes())
}

/// Writes the clocks again, which drift: the rate of the time stamp counter is measured by each process.
///
/// # Errors
/// As [`write`].
pub fn write_clocks(arrays: &Arrays) -> std::io::Result<()> {
    arrays.write_head(CLOCKS, clocks(now_ms()).as_bytes())
}

/// What the head of former tables says.
pub(super) struct Head {
    pub(super) capacities: [FlowCapacity; 2],
    pub(super) names: Names,
    /// The milliseconds of the former tables now.
    pub(super) now_ms: u64,
}

/// Reads the head of a former process; `None`: its tables are of another kind.
pub(super) fn read(former: &FormerArrays) -> Option<Head> {
    let mut fixed = Fixed::new_zeroed();
    let mut names = Names::default();
    former.read_head(0, fixed.as_mut_bytes()).ok()?;
    former.read_head(NAMES, names.as_mut_bytes()).ok()?;
    if (fixed.magic, fixed.version) != (MAGIC, VERSION) {
        return None;
    }
    let (kinds, _) = fixed.capacity.as_chunks::<4>();
    let capacity = |at: usize| {
        let [ip4, translated_ip4, ip6, translated_ip6] = kinds[at];
        FlowCapacity { ip4, translated_ip4, ip6, translated_ip6 }
    };
    let since = clocks(0).machine.saturating_sub(fixed.clocks.machine);
    let now_ms = fixed.clocks.flows.wrapping_add(since);
    Some(Head { capacities: [capacity(0), capacity(1)], names, now_ms })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::tcp::Options;

    #[test]
    fn names_lead_to_other_numbers() {
        let [mut before, mut now] = [Names::default(), Names::default()];
        before.add_vrf(0, "");
        before.add_vrf(0x0301, "blue");
        before.add_vrf(2, "gone");
        before.add_zone(3, "inside");
        before.add_zone(4, "gone");
        now.add_vrf(0, "");
        now.add_vrf(7, "blue");
        now.add_zone(9, "inside");
        assert_eq!((before.vrf_in(&now, 0), before.vrf_in(&now, 0x0301)), (Some(0), Some(7)));
        // Another generation, one without a name, and a name that is gone.
        assert!([1, 5, 2].iter().all(|vrf| before.vrf_in(&now, *vrf).is_none()));
        assert_eq!([3, 4, 5, 0].map(|zone| before.zone_in(&now, zone)), [9, 0, 0, 0]);
        assert_ne!(hash("") >> 16, 0);
    }

    #[test]
    fn profiles_lead_to_other_numbers() {
        let profile = |seconds| {
            let mut profile = Profile::default();
            profile.timeouts.set(Class::Icmp, seconds);
            profile
        };
        let loose =
            Profile { options: Options { loose: true, liberal: false }, ..Profile::default() };
        let names = |profiles: [Profile; 4]| {
            let mut names = Names::default();
            (0..).zip(&profiles).for_each(|(number, it)| names.add_profile(number, it));
            names
        };
        let before = names([Profile::default(), profile(5), profile(6), loose]);
        let now = names([Profile::default(), profile(7), loose, profile(5)]);
        let class = |number: u8| number << 4 | 2;
        let found = [0, 1, 2, 3].map(|number| before.class_in(&now, class(number)));
        assert_eq!(found, [0, 3, 0, 2].map(class));
    }
}
