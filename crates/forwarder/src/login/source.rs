//! The MAC address of the host that has sent a packet: it lies in front of the IP header.

use stoa_engine::Vector;
use stoa_tables::exact_match::MAX_KEY;

use super::LoginInterface;
use crate::ethernet::mac_word;
use crate::shared::Shared;

/// No host has this key: that of the MAC address of zeros. It is one that a table can have, for look-ups of many keys.
const NO_KEY: u64 = 0;

/// The key of a host with this MAC address in [`LoginInterface::hosts`]: 47 bits. 0: it is none of a host.
#[inline(always)]
pub fn key(mac: &[u8; 6]) -> u64 {
    let word = mac_word(mac);
    let is_host = word & 1 == 0 && word >> 1 <= MAX_KEY;
    if is_host { word >> 1 } else { NO_KEY }
}

/// How the frames of an interface begin.
#[derive(Clone, Copy)]
pub(super) struct Framing {
    /// Bytes of VLAN tags.
    tags: usize,
    /// The MAC address of the interface, see [`mac_word`].
    own: u64,
}

impl Framing {
    /// That of an interface by its index.
    #[inline]
    pub(super) fn of(shared: &Shared, interface: u32, of: &LoginInterface) -> Self {
        Self { tags: of.tags, own: shared.attributes.mac_of(interface) }
    }

    /// The key of the sender of a lane, whose data begin at the IP header.
    #[inline(always)]
    pub(super) fn key(self, vector: &mut Vector, lane: usize) -> u64 {
        let start = usize::from(vector.offset[lane]);
        let front = vector.slot_mut(lane).get(..start).and_then(|it| it.last_chunk::<22>());
        let Some(front) = front else { return NO_KEY };
        let source = |tags: usize| {
            let at = 14_usize.saturating_sub(tags).min(14);
            [front[at], front[at + 1], front[at + 2], front[at + 3], front[at + 4], front[at + 5]]
        };
        // A priority tag (IEEE 802.1Q 6.9.1) in front of an interface without tags.
        let is_tag = front[16..18] == [0x81, 0x00] && front[18] & 0xf == 0 && front[19] == 0;
        if self.tags == 0 && is_tag {
            return key(&source(if self.is_to_us(front) { 4 } else { 0 }));
        }
        key(&source(self.tags))
    }

    /// Whether a frame with one tag is to the interface. Bytes of a MAC address may look like a tag.
    #[cold]
    fn is_to_us(self, front: &[u8; 22]) -> bool {
        front.get(4..).and_then(|it| it.first_chunk()).map(mac_word) == Some(self.own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_hosts() {
        assert_eq!(key(&[0; 6]), NO_KEY);
        assert_eq!(key(&[0xff; 6]), NO_KEY);
        assert_eq!(key(&[1, 0, 0x5e, 0, 0, 1]), NO_KEY);
        // The greatest one has no place in a table.
        assert_eq!(key(&[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff]), NO_KEY);
        for mac in [[0; 6], [0xff; 6], [1; 6], [2; 6], [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff]] {
            assert_eq!(key(&mac) != NO_KEY, stoa_api::login::is_host(&mac), "{mac:?}");
        }
        let keys = [[2, 0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 1], [4, 0, 0, 0, 0, 1]].map(|it| key(&it));
        assert!(keys.iter().all(|it| *it != NO_KEY && *it <= MAX_KEY));
        assert!(keys[0] != keys[1] && keys[1] != keys[2] && keys[0] != keys[2]);
    }
}
