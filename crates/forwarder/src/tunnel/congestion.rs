//! ECN through a tunnel (RFC 6040): decapsulation carries the congestion mark of the outer header over
//! to the inner header. DSCP follows the pipe model on decapsulation: encapsulation copies the inner
//! DSCP, decapsulation keeps it (RFC 2983 section 3).

use stoa_wire::checksum;

use crate::drops::Drop;

/// The ECN bits of the IPv4 type of service or IPv6 traffic class (RFC 3168 section 5).
const ECN: u8 = 3;
/// Not-ECT: the transport is not ECN-capable.
const NOT_ECT: u8 = 0;
/// ECT(1).
const ECT_1: u8 = 1;
/// CE: congestion experienced.
const CE: u8 = 3;

/// Whether the mark of an outer header with this class may change the inner one (RFC 6040, figure 4).
#[inline(always)]
pub(crate) fn has_mark(outer_class: u8) -> bool {
    outer_class & ECT_1 != 0
}

/// The type of service or traffic class of an IP packet.
#[inline]
pub(crate) fn class(packet: &[u8]) -> u8 {
    match packet {
        [first, second, ..] if first >> 4 == 6 => first << 4 | second >> 4,
        [_, second, ..] => *second,
        _ => 0,
    }
}

/// Carries the ECN mark of an outer header with this class over to the inner packet (RFC 6040,
/// figure 4).
///
/// # Errors
/// CE on the outer header of a packet that is not ECN-capable.
pub(crate) fn decapsulate(outer_class: u8, packet: &mut [u8]) -> Result<(), Drop> {
    let (outer, inner) = (outer_class & ECN, class(packet) & ECN);
    let mark = match (inner, outer) {
        (NOT_ECT, CE) => return Err(Drop::TunnelCongestion),
        (NOT_ECT | CE, _) => return Ok(()),
        (_, CE) => CE,
        (_, ECT_1) => ECT_1,
        _ => return Ok(()),
    };
    match packet {
        [first, second, ..] if *first >> 4 == 6 => *second = *second & !(ECN << 4) | mark << 4,
        [first, second, _, _, _, _, _, _, _, _, high, low, ..] => {
            let old = u16::from_be_bytes([*first, *second]);
            *second = *second & !ECN | mark;
            let new = u16::from_be_bytes([*first, *second]);
            // Incremental update (RFC 1624): a wrong checksum stays wrong.
            let sum = checksum::update16(u16::from_be_bytes([*high, *low]), old, new);
            [*high, *low] = sum.to_be_bytes();
        }
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use stoa_wire::{ipv4, ipv6, protocol};

    fn ip4(mark: u8) -> Vec<u8> {
        let ends = ([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
        let mut packet = vec![0; 20];
        let builder = ipv4::Builder {
            dscp_ecn: 0xb8 | mark,
            ..ipv4::Builder::new(ends.0, ends.1, protocol::UDP)
        };
        builder.build(&mut packet, 0).unwrap();
        packet
    }

    fn ip6(mark: u8) -> Vec<u8> {
        let mut packet = vec![0; 40];
        let any = std::net::Ipv6Addr::LOCALHOST;
        let builder = ipv6::Builder {
            traffic_class: 0xb8 | mark,
            flow_label: 0xabcde,
            ..ipv6::Builder::new(any, any, protocol::UDP)
        };
        builder.build(&mut packet, 0).unwrap();
        packet
    }

    #[test]
    fn a_broken_header_stays_broken() {
        let mut packet = ip4(2);
        packet[16] ^= 1;
        assert_eq!(decapsulate(3, &mut packet), Ok(()));
        assert!(ipv4::check(&packet).is_err());
    }

    #[test]
    fn marks_are_those_of_figure_4() {
        // By inner mark: the results for outer marks 0 (Not-ECT), 2 (ECT(0)), 1 (ECT(1)) and 3 (CE).
        let table: [(u8, [Option<u8>; 4]); 4] = [
            (0, [Some(0), Some(0), Some(0), None]),
            (2, [Some(2), Some(2), Some(1), Some(3)]),
            (1, [Some(1), Some(1), Some(1), Some(3)]),
            (3, [Some(3), Some(3), Some(3), Some(3)]),
        ];
        for (inner, row) in table {
            for (outer, expected) in [0, 2, 1, 3].into_iter().zip(row) {
                for mut packet in [ip4(inner), ip6(inner)] {
                    let before = packet.clone();
                    match (decapsulate(0xb8 | outer, &mut packet), expected) {
                        (Ok(()), Some(mark)) => assert_eq!(class(&packet), 0xb8 | mark),
                        (Err(reason), None) => {
                            assert_eq!((reason, &packet), (Drop::TunnelCongestion, &before));
                        }
                        (left, _) => panic!("inner {inner}, outer {outer}: {left:?}"),
                    }
                    assert!(packet == before || has_mark(outer));
                    let is_right = ipv4::check(&packet).is_ok() || ipv6::check(&packet).is_ok();
                    assert!(is_right, "inner {inner}, outer {outer}");
                }
            }
        }
    }
}
