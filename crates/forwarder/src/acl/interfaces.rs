//! What rules see of the interfaces of a packet: the one that has received it with its VLAN, and the one that sends it.
//!
//! An interface that rules name has a number; the control thread gives it. Numbers and VLANs of all interfaces are in
//! an array by index ([`Attributes::acl`]): so an interface that is removed and added again needs no other classifier,
//! and a VLAN matches all sub-interfaces that have it. Only classifiers with such rules read the array.

use stoa_engine::Vector;
use stoa_engine::column::Column;
use stoa_engine::gather::gather_32;
use stoa_engine::vector::flags;
use stoa_tables::classifier::{LANES, interfaces, vlan_and_length};

use super::Classifier;
use super::keys::Family;
use super::place::Place;
use crate::attributes::Attributes;

/// In place of the word of an interface: the packet is from the router itself. No rule has this VLAN.
const OWN: u32 = word(0, u16::MAX);

/// The word of an interface: its number, 0 if no rule names it, and the ID of its outer VLAN, 0 if it has none.
pub const fn word(number: u16, vlan: u16) -> u32 {
    interfaces(number, vlan)
}

/// Its number.
pub const fn number_of(word: u32) -> u16 {
    (word >> 16) as u16
}

/// Its VLAN.
pub const fn vlan_of(word: u32) -> u16 {
    word as u16
}

/// What rules see of the interfaces of one packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// The word of the receiving interface.
    pub received: u32,
    /// That of the sending one; 0: it is not known yet.
    pub sent: u32,
}

impl Ends {
    /// Of a packet between two interfaces. `is_own`: the router itself sends it.
    pub fn of(attributes: &Attributes, (received, sent): (u32, u32), is_own: bool) -> Self {
        let received = if is_own { OWN } else { attributes.acl_of(received) };
        Self { received, sent: attributes.acl_of(sent) }
    }

    /// Writes them into a lane of keys with a length.
    #[inline(always)]
    pub(super) fn write<F: Family>(self, columns: &mut [[u32; LANES]], lane: usize) {
        let (received, sent) = (number_of(self.received), number_of(self.sent));
        columns[F::INTERFACES][lane] = interfaces(received, sent);
        let length = &mut columns[F::LENGTH][lane];
        *length = vlan_and_length(vlan_of(self.received), *length as u16);
    }
}

/// Those of the packets of a vector.
pub(super) struct EndColumns {
    received: Column<u32>,
    sent: Column<u32>,
}

impl EndColumns {
    pub(super) fn new() -> Self {
        Self { received: Column::of(0), sent: Column::of(0) }
    }

    /// Reads those of all lanes, if rules of a classifier look at them.
    #[inline(always)]
    pub(super) fn read(
        &mut self,
        attributes: &Attributes,
        (classifier, place): (&Classifier, Place),
        vector: &Vector,
    ) {
        if classifier.traits.reads_interfaces {
            self.read_all(attributes, place, vector);
        }
    }

    #[inline(never)]
    fn read_all(&mut self, attributes: &Attributes, place: Place, vector: &Vector) {
        let lanes = vector.len();
        gather_32(attributes.acl(), &vector.rx_if, lanes, &mut self.received);
        if place.is_received() {
            self.sent[..lanes].fill(0);
            return;
        }
        gather_32(attributes.acl(), &vector.tx_if, lanes, &mut self.sent);
        for (received, flags) in self.received.iter_mut().zip(vector.flags.iter()).take(lanes) {
            if flags & flags::OWN != 0 {
                *received = OWN;
            }
        }
    }

    /// Writes those of some lanes into their keys, if rules of the classifier look at them.
    #[inline(always)]
    pub(super) fn load<F: Family>(
        &self,
        classifier: &Classifier,
        keys: &mut F::Keys,
        lanes: &[u8],
    ) {
        if classifier.traits.reads_interfaces {
            self.load_all::<F>(keys, lanes);
        }
    }

    #[inline(never)]
    fn load_all<F: Family>(&self, keys: &mut F::Keys, lanes: &[u8]) {
        let columns = F::columns(keys);
        for (at, lane) in lanes.iter().map(|lane| usize::from(*lane)).enumerate() {
            Ends { received: self.received[lane], sent: self.sent[lane] }.write::<F>(columns, at);
        }
    }
}
