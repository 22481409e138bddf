//! Types, codes and second words of ICMP messages (RFC 7915 sections 4.2, 4.3, 5.2 and 5.3).

use super::{GROWTH, Refused};
use crate::ipv6;
use crate::protocol::{ICMP4, ICMP6};

/// Type, code and second word of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) kind: u8,
    pub(super) code: u8,
    pub(super) word: u32,
}

/// A message of the other family, and whether it quotes a packet.
pub(super) type Mapped = Result<(Head, bool), Refused>;

const fn error(kind: u8, code: u8, word: u32) -> Mapped {
    Ok((Head { kind, code, word }, true))
}

/// The MTUs of RFC 1191 section 7.1, for routers that say none.
const PLATEAUS: [u32; 11] =
    [65_535, 32_000, 17_914, 8_166, 4_352, 2_002, 1_492, 1_006, 508, 296, 68];

/// The ICMPv6 message of an ICMPv4 one. `length`: the total length of the packet that an error quotes. MTUs of this
/// router's interfaces do not count: if one is less, the router says so itself.
pub(super) fn of_icmp4(Head { kind, code, word }: Head, length: u16) -> Mapped {
    match (kind, code) {
        (8, _) => Ok((Head { kind: 128, code, word }, false)),
        (0, _) => Ok((Head { kind: 129, code, word }, false)),
        (3, 0 | 1 | 5..=8 | 11 | 12) => error(1, 0, 0),
        // The next header is what the receiver of the error does not know.
        (3, 2) => error(4, 1, 6),
        (3, 3) => error(1, 4, 0),
        (3, 4) => {
            let said = word & 0xffff;
            let plateau = || PLATEAUS.into_iter().find(|it| *it < u32::from(length)).unwrap_or(68);
            let mtu = if said == 0 { plateau() } else { said };
            error(2, 0, (mtu + GROWTH as u32).max(ipv6::LEAST_MTU as u32))
        }
        (3, 9 | 10 | 13 | 15) => error(1, 1, 0),
        (11, _) => error(3, code, 0),
        (12, 0 | 2) => {
            let pointer = match word >> 24 {
                at @ 0..=1 => at,
                2 | 3 => 4,
                8 => 7,
                9 => 6,
                12..=15 => 8,
                16..=19 => 24,
                _ => return Err(Refused::Icmp),
            };
            error(4, 0, pointer)
        }
        _ => Err(Refused::Icmp),
    }
}

/// The ICMPv4 message of an ICMPv6 one.
pub(super) fn of_icmp6(Head { kind, code, word }: Head) -> Mapped {
    match (kind, code) {
        (128, _) => Ok((Head { kind: 8, code, word }, false)),
        (129, _) => Ok((Head { kind: 0, code, word }, false)),
        (1, 0 | 2 | 3) => error(3, 1, 0),
        (1, 1) => error(3, 10, 0),
        (1, 4) => error(3, 3, 0),
        (2, _) => {
            let mtu = word.saturating_sub(GROWTH as u32).min(u16::MAX.into());
            error(3, 4, mtu)
        }
        (3, _) => error(11, code, 0),
        (4, 0) => {
            let pointer = match word {
                at @ 0..=1 => at,
                4 | 5 => 2,
                6 => 9,
                7 => 8,
                8..=23 => 12,
                24..=39 => 16,
                _ => return Err(Refused::Icmp),
            };
            error(12, 0, pointer << 24)
        }
        (4, 1) => error(3, 2, 0),
        _ => Err(Refused::Icmp),
    }
}

/// Protocol, and type and code, of a packet of IPv4 as those of an IPv6 packet: what IPv6 hosts see in records of
/// translated packets. Both are 0 of a message without a counterpart.
pub fn as_icmp6(protocol: u8, icmp: u16) -> (u8, u16) {
    if protocol != ICMP4 {
        return (protocol, icmp);
    }
    let [kind, code] = icmp.to_be_bytes();
    let new = of_icmp4(Head { kind, code, word: 0 }, 0);
    (ICMP6, new.map_or(0, |(it, _)| u16::from_be_bytes([it.kind, it.code])))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(kind: u8, code: u8, word: u32) -> Head {
        Head { kind, code, word }
    }

    /// What becomes of each type and code of RFC 7915 section 4.2.
    #[test]
    fn all_types_of_icmp4() {
        let of = |kind, code, word| {
            of_icmp4(head(kind, code, word), 1500).ok().map(|(it, _)| (it.kind, it.code))
        };
        assert_eq!([of(8, 0, 7), of(0, 0, 7)], [Some((128, 0)), Some((129, 0))]);
        let unreachable = [
            Some((1, 0)),
            Some((1, 0)),
            Some((4, 1)),
            Some((1, 4)),
            Some((2, 0)),
            Some((1, 0)),
            Some((1, 0)),
            Some((1, 0)),
            Some((1, 0)),
            Some((1, 1)),
            Some((1, 1)),
            Some((1, 0)),
            Some((1, 0)),
            Some((1, 1)),
            None,
            Some((1, 1)),
            None,
        ];
        for (code, expected) in unreachable.into_iter().enumerate() {
            assert_eq!(of(3, code as u8, 0), expected, "code {code}");
        }
        assert_eq!([of(11, 0, 0), of(11, 1, 0)], [Some((3, 0)), Some((3, 1))]);
        assert_eq!([of(12, 0, 0), of(12, 1, 0), of(12, 2, 0)], [Some((4, 0)), None, Some((4, 0))]);
        for kind in [4, 5, 6, 9, 10, 13, 14, 15, 16, 17, 18, 40, 255] {
            assert_eq!(of(kind, 0, 0), None, "type {kind}");
        }
    }

    /// The same of section 5.2.
    #[test]
    fn all_types_of_icmp6() {
        let of = |kind, code| of_icmp6(head(kind, code, 0)).ok().map(|(it, _)| (it.kind, it.code));
        assert_eq!([of(128, 0), of(129, 0)], [Some((8, 0)), Some((0, 0))]);
        let unreachable =
            [Some((3, 1)), Some((3, 10)), Some((3, 1)), Some((3, 1)), Some((3, 3)), None, None];
        for (code, expected) in unreachable.into_iter().enumerate() {
            assert_eq!(of(1, code as u8), expected, "code {code}");
        }
        assert_eq!([of(2, 0), of(3, 0), of(3, 1)], [Some((3, 4)), Some((11, 0)), Some((11, 1))]);
        assert_eq!([of(4, 0), of(4, 1), of(4, 2)], [Some((12, 0)), Some((3, 2)), None]);
        for kind in [0, 5, 100, 127, 130, 131, 132, 133, 137, 143, 255] {
            assert_eq!(of(kind, 0), None, "type {kind}");
        }
    }

    #[test]
    fn records_have_the_message_of_ip6_hosts() {
        for (protocol, icmp, expected) in [
            (ICMP4, 0x0800, (ICMP6, 0x8000)),
            (ICMP4, 0x0000, (ICMP6, 0x8100)),
            (ICMP4, 0x0303, (ICMP6, 0x0104)),
            (ICMP4, 0x0d00, (ICMP6, 0)),
            (17, 0, (17, 0)),
            (ICMP6, 0x8700, (ICMP6, 0x8700)),
        ] {
            assert_eq!(as_icmp6(protocol, icmp), expected, "{protocol} {icmp:#x}");
        }
    }

    #[test]
    fn pointers_lead_to_the_field_of_the_other_header() {
        let six = |at: u32| of_icmp4(head(12, 0, at << 24), 0).ok().map(|(it, _)| it.word);
        let expected = [
            Some(0),
            Some(1),
            Some(4),
            Some(4),
            None,
            None,
            None,
            None,
            Some(7),
            Some(6),
            None,
            None,
            Some(8),
            Some(8),
            Some(8),
            Some(8),
            Some(24),
            Some(24),
            Some(24),
            Some(24),
            None,
        ];
        for (at, expected) in expected.into_iter().enumerate() {
            assert_eq!(six(at as u32), expected, "{at}");
        }
        let four = |at: u32| of_icmp6(head(4, 0, at)).ok().map(|(it, _)| it.word >> 24);
        for at in 0..60 {
            let expected = match at {
                0 | 1 => Some(at),
                4 | 5 => Some(2),
                6 => Some(9),
                7 => Some(8),
                8..=23 => Some(12),
                24..=39 => Some(16),
                _ => None,
            };
            assert_eq!(four(at), expected, "{at}");
        }
    }

    #[test]
    fn mtus_leave_room_for_the_other_header() {
        let six = |mtu, length| of_icmp4(head(3, 4, mtu), length).map(|(it, _)| it.word);
        assert_eq!([six(1400, 1500), six(1500, 1500)], [Ok(1420), Ok(1520)]);
        assert_eq!([six(576, 1500), six(0xffff, 1500)], [Ok(1280), Ok(65_555)]);
        // The router says none: the plateau below the length.
        assert_eq!([six(0, 1500), six(0, 1492)], [Ok(1512), Ok(1280)]);
        let four = |mtu| of_icmp6(head(2, 0, mtu)).map(|(it, _)| it.word);
        assert_eq!([four(1400), four(1280)], [Ok(1380), Ok(1260)]);
        assert_eq!([four(u32::MAX), four(5)], [Ok(65_535), Ok(0)]);
    }
}
