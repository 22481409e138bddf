//! VLAN tags (IEEE 802.1Q, 802.1ad): up to two of them between the MAC addresses and the payload.

use crate::ethernet::{EthernetError, ethertype};
use core::fmt;

/// Bytes that one tag takes.
pub const LENGTH: usize = 4;
/// Most tags that are read: a service tag and a customer tag.
pub const MOST: usize = 2;
/// The highest VLAN identifier in use; 4,095 is reserved.
pub const LAST_VID: u16 = 4094;

/// Tag control information: priority (3 bits), drop eligible (1 bit), VLAN identifier (12 bits).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tci(pub u16);

impl Tci {
    /// Makes one of `pcp` 0..=7, `dei` and `vid` 0..=4094; `None` when either is out of range.
    #[inline]
    pub const fn new(pcp: u8, dei: bool, vid: u16) -> Option<Self> {
        if pcp > 7 || vid > LAST_VID {
            return None;
        }
        Some(Self((pcp as u16) << 13 | (dei as u16) << 12 | vid))
    }

    /// Priority code point, 0..=7.
    #[inline]
    pub const fn pcp(self) -> u8 {
        (self.0 >> 13) as u8
    }

    /// Drop eligible indicator.
    #[inline]
    pub const fn dei(self) -> bool {
        self.0 & 0x1000 != 0
    }

    /// VLAN identifier, 0..=4095; 0 means "priority only, no VLAN" and 4,095 is reserved.
    #[inline]
    pub const fn vid(self) -> u16 {
        self.0 & 0x0fff
    }
}

/// One tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tag {
    /// Tag protocol identifier: [`ethertype::VLAN`] or [`ethertype::QINQ`].
    pub tpid: u16,
    /// Priority and VLAN.
    pub tci: Tci,
}

impl Tag {
    /// An 802.1Q tag of priority 0; `None` when `vid` is above 4,094.
    pub const fn customer(vid: u16) -> Option<Self> {
        match Tci::new(0, false, vid) {
            Some(tci) => Some(Self { tpid: ethertype::VLAN, tci }),
            None => None,
        }
    }

    /// An 802.1ad tag of priority 0; `None` when `vid` is above 4,094.
    pub const fn service(vid: u16) -> Option<Self> {
        match Tci::new(0, false, vid) {
            Some(tci) => Some(Self { tpid: ethertype::QINQ, tci }),
            None => None,
        }
    }
}

/// No tag, one or two, outermost first.
#[derive(Clone, Copy, Default)]
pub struct Stack {
    tags: [Tag; MOST],
    count: u8,
}

impl Stack {
    /// No tag.
    pub const EMPTY: Self = Self { tags: [Tag { tpid: 0, tci: Tci(0) }; MOST], count: 0 };

    /// Adds `tag` inside the others; `false` and no change when there are two already.
    #[inline]
    #[must_use]
    pub fn push(&mut self, tag: Tag) -> bool {
        match self.tags.get_mut(usize::from(self.count)) {
            Some(place) => {
                *place = tag;
                self.count += 1;
                true
            }
            None => false,
        }
    }

    /// The tags, outermost first.
    #[inline]
    pub fn as_slice(&self) -> &[Tag] {
        &self.tags[..usize::from(self.count)]
    }

    /// The tags, outermost first.
    #[inline]
    pub fn iter(&self) -> core::slice::Iter<'_, Tag> {
        self.as_slice().iter()
    }

    /// How many tags there are, 0..=2.
    #[inline]
    pub const fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there is no tag.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes that the tags take in the frame.
    #[inline]
    pub const fn bytes(&self) -> usize {
        self.len() * LENGTH
    }
}

impl PartialEq for Stack {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for Stack {}

impl fmt::Debug for Stack {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_list().entries(self.iter()).finish()
    }
}

/// Whether an EtherType announces a tag.
#[inline]
pub const fn is_tag(ethertype: u16) -> bool {
    matches!(ethertype, ethertype::VLAN | ethertype::QINQ)
}

/// Reads at most two tags from `rest`, the bytes behind an Ethernet header whose EtherType is
/// `ethertype`; returns them and the EtherType behind them.
///
/// # Errors
/// [`EthernetError::TagTruncated`] when `rest` ends inside a tag.
#[inline]
pub fn parse(ethertype: u16, rest: &[u8]) -> Result<(Stack, u16), EthernetError> {
    let mut tags = Stack::EMPTY;
    let (mut ethertype, mut rest) = (ethertype, rest);
    while is_tag(ethertype) && tags.len() < MOST {
        let ([a, b, c, d], behind) =
            rest.split_first_chunk::<LENGTH>().ok_or(EthernetError::TagTruncated)?;
        let tag = Tag { tpid: ethertype, tci: Tci(u16::from_be_bytes([*a, *b])) };
        let _fits = tags.push(tag);
        ethertype = u16::from_be_bytes([*c, *d]);
        rest = behind;
    }
    Ok((tags, ethertype))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ethernet::{self, Mac};
    use proptest::prelude::*;

    /// Service tag 100 (priority 5, drop eligible), customer tag 7, IPv4.
    const FRAME: [u8; 24] = [
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 0x88, 0xa8, 0xb0, 100, 0x81, 0x00,
        0x00, 7, 0x08, 0x00, 0x45, 0x00,
    ];

    #[test]
    fn parses_two_tags() {
        let view = ethernet::check(&FRAME).unwrap();
        let [outer, inner] = view.tags().as_slice() else { panic!("two tags") };
        assert_eq!((outer.tpid, outer.tci.vid()), (ethertype::QINQ, 100));
        assert_eq!((outer.tci.pcp(), outer.tci.dei()), (5, true));
        assert_eq!(*inner, Tag::customer(7).unwrap());
        assert_eq!(view.ethertype(), ethertype::IP4);
        assert_eq!(view.payload_range(), 22..24);
        for (tag, at) in [(outer, 14), (inner, 18)] {
            let oracle = etherparse::SingleVlanSlice::from_slice(&FRAME[at..]).unwrap();
            assert_eq!(oracle.vlan_identifier().value(), tag.tci.vid());
            assert_eq!(oracle.priority_code_point().value(), tag.tci.pcp());
            assert_eq!(oracle.drop_eligible_indicator(), tag.tci.dei());
        }
    }

    #[test]
    fn builds_what_it_parsed() {
        let view = ethernet::check(&FRAME).unwrap();
        let mut out = [0; 22];
        let length = ethernet::build(
            &mut out,
            Mac::BROADCAST,
            Mac([2, 0, 0, 0, 0, 1]),
            view.tags(),
            ethertype::IP4,
        );
        assert_eq!(length, Ok(22));
        assert_eq!(out, FRAME[..22]);
    }

    #[test]
    fn refuses_every_truncation() {
        for length in 14..22 {
            assert_eq!(ethernet::check(&FRAME[..length]).unwrap_err(), EthernetError::TagTruncated);
        }
    }

    #[test]
    fn leaves_a_third_tag_alone() {
        let mut frame = FRAME;
        frame[20..22].copy_from_slice(&ethertype::VLAN.to_be_bytes());
        let view = ethernet::check(&frame).unwrap();
        assert_eq!((view.tags().len(), view.ethertype()), (2, ethertype::VLAN));
    }

    #[test]
    fn limits() {
        assert_eq!(Tci::new(8, false, 1), None);
        assert_eq!(Tci::new(0, false, 4095), None);
        assert_eq!(Tag::customer(4095), None);
        assert_eq!(Tag::service(4096), None);
        let mut tags = Stack::EMPTY;
        assert!(tags.push(Tag::service(1).unwrap()));
        assert!(tags.push(Tag::customer(2).unwrap()));
        assert!(!tags.push(Tag::customer(3).unwrap()));
        assert_eq!((tags.len(), tags.bytes()), (2, 8));
    }

    proptest! {
        #[test]
        fn tci_round_trip(pcp in 0u8..8, dei: bool, vid in 0..=LAST_VID) {
            let tci = Tci::new(pcp, dei, vid).unwrap();
            prop_assert_eq!((tci.pcp(), tci.dei(), tci.vid()), (pcp, dei, vid));
        }
    }
}
