//! Packets of TCP and UDP without options, extension headers and fragments, which are nearly all: their header is
//! replaced in place, and the columns of their fields stay true. `lanes` translates all others.

#[cfg(test)]
mod tests;

use std::net::Ipv4Addr;

use stoa_engine::vector::{Column, LaneSet};
use stoa_engine::{VECTOR, Vector};
use stoa_wire::protocol::{TCP, UDP};
use stoa_wire::siit::{FRAGMENTED, GROWTH, Prefix};
use stoa_wire::{ipv4, ipv6};

use crate::flow::fields::{Kind, Place};
use crate::kernel::Kernel;
use crate::nat::goes_on;

/// Bits of [`Kind`] of fragments and malformed packets.
const OTHERS: u32 = Kind::FIRST | Kind::LATER | (7 * Kind::MALFORMED);
/// Where the checksum is in the header of TCP, and in that of UDP.
const TCP_CHECKSUM: usize = 16;
const UDP_CHECKSUM: usize = 6;
/// The DF bit, with the identification 0.
pub(crate) const WHOLE: u32 = ipv4::DONT_FRAGMENT as u32;

/// What lanes get as IPv4 packets.
pub(crate) struct New4 {
    pub(crate) sources: Column<u32>,
    pub(crate) destinations: Column<u32>,
    /// Below 0x10000.
    pub(crate) identifications: Column<u32>,
}

impl New4 {
    pub(crate) fn new() -> Box<Self> {
        let zero = || Column::of(0);
        Box::new(Self { sources: zero(), destinations: zero(), identifications: zero() })
    }
}

/// What lanes get as IPv6 packets.
pub(crate) struct New6 {
    /// The prefix of their sources.
    pub(crate) prefix: Prefix,
    /// Their destinations.
    pub(crate) hosts: [u128; VECTOR],
    /// The sums of the words of these.
    pub(crate) sums: Column<u32>,
}

impl New6 {
    pub(crate) fn new() -> Box<Self> {
        let prefix = Prefix::WELL_KNOWN;
        Box::new(Self { prefix, hosts: [0; VECTOR], sums: Column::of(0) })
    }

    /// The words of a prefix of 96 bits.
    pub(crate) fn prefix_words(&self) -> [u32; 3] {
        let network = self.prefix.network().to_bits();
        [96, 64, 32].map(|by| (network >> by) as u32)
    }

    /// Their sum in 16 bits.
    pub(crate) fn prefix_sum(&self) -> u32 {
        sum_of(self.prefix.network().to_bits())
    }
}

/// The sum of the words of an address, below 0x10000.
#[inline(always)]
pub(crate) fn sum_of(address: u128) -> u32 {
    let words = [address >> 96, address >> 64, address >> 32, address];
    folded(words.iter().map(|it| u64::from(*it as u32)).sum()).into()
}

/// The [plain](has_plain) lanes among some IPv6 lanes that go on along their arc; changes the column `others`.
#[inline(always)]
pub(crate) fn select_plain6(vector: &Vector, some: &LaneSet, others: &mut Column<u32>) -> LaneSet {
    let lanes = vector.len();
    let Some(fields) = vector.known_fields() else { return LaneSet::first_of(0) };
    let columns = fields.kind[..lanes].iter().zip(&fields.place[..lanes]);
    let columns = columns.zip(&vector.next[..lanes]);
    for (other, ((kind, place), next)) in others[..lanes].iter_mut().zip(columns) {
        let is_plain = has_plain(*kind, *place, ipv6::LENGTH) & goes_on(*next);
        *other = u32::from(!is_plain);
    }
    some.clone().take_equal(others, 0)
}

/// Makes IPv6 packets of [plain](has_plain) IPv4 lanes; returns those that it cannot, which stay as they are. Columns
/// of fields must be known, and are true no more.
pub(crate) fn grow_all(
    kernel: Kernel,
    vector: &mut Vector,
    lanes: &LaneSet,
    new: &New6,
) -> LaneSet {
    let mut left = match kernel {
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx2 | Kernel::Avx512 if new.prefix.length() == 96 => {
            LaneSet::from(super::grow_avx2::grow(vector, &lanes.bits(), new))
        }
        _ => lanes.clone(),
    };
    let mut done = LaneSet::first_of(0);
    for lane in left.iter() {
        let source = vector.known_fields().map_or(0, |it| it.source[0][lane]);
        let source = new.prefix.embed(Ipv4Addr::from_bits(source)).to_bits();
        if grow(vector, lane, (source, new.hosts[lane])) {
            done.insert(lane);
        }
    }
    left.remove_all(&done);
    left
}

/// Makes IPv4 packets of [plain](has_plain) IPv6 lanes; returns those that it cannot, which stay as they are. Columns
/// of fields must be known.
pub(crate) fn shrink_all(
    kernel: Kernel,
    vector: &mut Vector,
    lanes: &LaneSet,
    new: &New4,
) -> LaneSet {
    let mut left = match kernel {
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx2 | Kernel::Avx512 => {
            LaneSet::from(super::shrink_avx2::shrink(vector, &lanes.bits(), new))
        }
        _ => lanes.clone(),
    };
    let mut done = LaneSet::first_of(0);
    for lane in left.iter() {
        let ends = (new.sources[lane], new.destinations[lane]);
        if shrink(vector, lane, ends, new.identifications[lane] as u16) {
            done.insert(lane);
        }
    }
    left.remove_all(&done);
    left
}

/// Whether a lane with these values of the columns is TCP or UDP, whole, behind a header of so many bytes.
#[inline(always)]
pub(crate) fn has_plain(kind: u32, place: u32, header: usize) -> bool {
    let protocol = kind & 0xff;
    let is_known = (protocol == u32::from(TCP)) | (protocol == u32::from(UDP));
    is_known & (kind & OTHERS == 0) & (usize::from(Place(place).upper()) == header)
}

/// The sum of words in 16 bits.
#[inline(always)]
fn folded(sum: u64) -> u16 {
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 16 & 0xffff) + (sum & 0xffff) + (sum >> 32);
    let sum = (sum >> 16) + (sum & 0xffff);
    ((sum >> 16) + sum) as u16
}

/// Corrects the checksum of TCP or UDP, of whose pseudo-header the sum of words `old` goes and `new` comes (RFC 1624).
/// False: it has none, or is cut, and nothing has changed.
#[inline(always)]
fn correct(upper: &mut [u8], protocol: u8, (old, new): (u64, u64)) -> bool {
    let at = if protocol == TCP { TCP_CHECKSUM } else { UDP_CHECKSUM };
    let Some(field) = upper.get_mut(at..).and_then(|it| it.first_chunk_mut::<2>()) else {
        return false;
    };
    let former = u16::from_be_bytes(*field);
    if former == 0 && protocol == UDP {
        return false;
    }
    let sum = u64::from(!former) + u64::from(!folded(old)) + new;
    let value = match !folded(sum) {
        0 if protocol == UDP => u16::MAX,
        value => value,
    };
    *field = value.to_be_bytes();
    true
}

/// Makes an IPv4 packet of a [plain](has_plain) IPv6 lane; columns of fields must be known. False: nothing has changed.
#[inline(always)]
fn shrink(
    vector: &mut Vector,
    lane: usize,
    (source, destination): (u32, u32),
    identification: u16,
) -> bool {
    let Some(fields) = vector.known_fields() else { return false };
    let protocol = fields.kind[lane] as u8;
    let length = Place(fields.place[lane]).length();
    let words = fields.source.iter().chain(&fields.destination);
    let old = words.map(|it| u64::from(it[lane])).sum();
    let bytes = vector.bytes_mut(lane);
    let Some((header, upper)) = bytes.split_first_chunk_mut::<{ ipv6::LENGTH }>() else {
        return false;
    };
    let new = u64::from(source) + u64::from(destination);
    if !correct(upper, protocol, (old, new)) {
        return false;
    }
    let class = u32::from(header[0] & 0xf) << 4 | u32::from(header[1] >> 4);
    let total = length.saturating_sub(GROWTH as u16);
    let is_short = usize::from(total) <= FRAGMENTED;
    let fragment = if is_short { u32::from(identification) << 16 } else { WHOLE };
    let first = 0x4500_0000 | class << 16 | u32::from(total);
    let third = u32::from(header[7]) << 24 | u32::from(protocol) << 16;
    let sum = [first, fragment, third].iter().map(|it| u64::from(*it)).sum::<u64>() + new;
    let third = third | u32::from(!folded(sum));
    let words = [first, fragment, third, source, destination];
    let (_, place) = header.split_at_mut(GROWTH);
    for (place, word) in place.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_be_bytes());
    }
    if !vector.advance(lane, GROWTH as i32) {
        return false;
    }
    if let Some(fields) = vector.known_fields_mut() {
        (fields.source[0][lane], fields.destination[0][lane]) = (source, destination);
        fields.kind[lane] &= !Kind::IP6;
        fields.place[lane] = (ipv4::LENGTH as u32) << 16 | u32::from(total);
    }
    true
}

/// Makes an IPv6 packet of a [plain](has_plain) IPv4 lane; columns of fields must be known, and are true no more.
/// False: nothing has changed.
#[inline(always)]
pub(crate) fn grow(vector: &mut Vector, lane: usize, (source, destination): (u128, u128)) -> bool {
    let Some(fields) = vector.known_fields() else { return false };
    let protocol = fields.kind[lane] as u8;
    let payload = Place(fields.place[lane]).length().saturating_sub(ipv4::LENGTH as u16);
    let old = u64::from(fields.source[0][lane]) + u64::from(fields.destination[0][lane]);
    let words = |it: u128| {
        [it >> 96, it >> 64, it >> 32, it].map(|it| it as u32 as u64).iter().sum::<u64>()
    };
    if usize::from(vector.offset[lane]) < GROWTH {
        return false;
    }
    let bytes = vector.bytes_mut(lane);
    let Some((header, upper)) = bytes.split_first_chunk_mut::<{ ipv4::LENGTH }>() else {
        return false;
    };
    let (class, hop_limit) = (u32::from(header[1]), header[8]);
    let new = words(source) + words(destination);
    if !correct(upper, protocol, (old, new)) || !vector.advance(lane, -(GROWTH as i32)) {
        return false;
    }
    let head = u64::from(0x6000_0000 | class << 20) << 32
        | u64::from(payload) << 16
        | u64::from(protocol) << 8
        | u64::from(hop_limit);
    if let Some(header) = vector.bytes_mut(lane).first_chunk_mut::<{ ipv6::LENGTH }>() {
        header[..8].copy_from_slice(&head.to_be_bytes());
        header[8..24].copy_from_slice(&source.to_be_bytes());
        header[24..].copy_from_slice(&destination.to_be_bytes());
    }
    true
}
