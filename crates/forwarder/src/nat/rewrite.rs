//! Writes other addresses and ports into IPv4 packets, and corrects their checksums by the difference (RFC 1624): a
//! wrong one stays wrong.

use stoa_tables::flow_table::Ends;
use stoa_wire::protocol::{AH, DCCP, GRE, ICMP4, TCP, UDP, UDP_LITE};
use stoa_wire::{checksum, icmp_query, ipv4, pptp};

use crate::flow::alg::CALL;
use crate::flow::fields::{Kind, Place, of_ip4};

/// Bytes of an ICMP error before the packet that it quotes.
const ICMP_HEADER: usize = 8;

/// Whether the ports of a protocol can be others: SCTP has a checksum over all of its packet (RFC 9260).
pub fn has_free_ports(protocol: u8) -> bool {
    matches!(protocol, TCP | UDP | ICMP4 | UDP_LITE | DCCP)
}

/// Whether an authentication header (RFC 4302) is in front of the upper layer: nothing of that may change, nor may
/// ports.
pub fn is_authenticated(bytes: &[u8]) -> bool {
    bytes.get(9) == Some(&AH)
}

/// A packet whose fields are known.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    /// As in the column of this name.
    pub kind: Kind,
    /// As in the column of this name.
    pub place: Place,
    /// Its addresses, and its ports as keys of flows have them.
    pub ends: Ends,
}

impl Header {
    /// The fields of a packet without its options: those of a quoted one may be cut.
    pub fn of(bytes: &[u8]) -> Self {
        let fields = of_ip4(bytes);
        let ends = Ends {
            source: fields.source[0],
            destination: fields.destination[0],
            ports: fields.kind.flow_ports(fields.ports),
        };
        Self { kind: fields.kind, place: fields.place, ends }
    }
}

/// The sum of what goes and of what comes (RFC 1624 equation 3).
fn difference(old: u32, new: u32) -> u32 {
    (!old >> 16) + (!old & 0xffff) + (new >> 16) + (new & 0xffff)
}

/// What a checksum of 0 is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Zero {
    /// A checksum as any other one.
    Value,
    /// No checksum; that of 0 is written as 0xffff (UDP, RFC 768).
    Absent,
    /// Wrong, and that of 0 is written as 0xffff (UDP-Lite, RFC 3828 section 3.1).
    Invalid,
}

/// Corrects a checksum at `at`, if the bytes have one there.
fn correct(bytes: &mut [u8], at: usize, by: u32, zero: Zero) {
    let Some(field) = bytes.get_mut(at..).and_then(|it| it.first_chunk_mut::<2>()) else { return };
    let old = u16::from_be_bytes(*field);
    if old == 0 && zero != Zero::Value {
        // There is none, or it is wrong and stays so.
        return;
    }
    // The sum of 9 words fits.
    let new = checksum::finish(u32::from(!old) + by);
    *field = if new == 0 && zero != Zero::Value { u16::MAX } else { new }.to_be_bytes();
}

fn write32(bytes: &mut [u8], at: usize, value: u32) {
    if let Some(field) = bytes.get_mut(at..).and_then(|it| it.first_chunk_mut::<4>()) {
        *field = value.to_be_bytes();
    }
}

/// Gives a packet other ends. Later fragments have no ports. The packet is not malformed, and its protocol has free
/// ports if these change.
#[inline]
pub fn apply(bytes: &mut [u8], packet: &Header, new: Ends) {
    let (old, upper) = (packet.ends, usize::from(packet.place.upper()));
    let addresses =
        difference(old.source, new.source) + difference(old.destination, new.destination);
    correct(bytes, 10, addresses, Zero::Value);
    write32(bytes, 12, new.source);
    write32(bytes, 16, new.destination);
    if packet.kind.0 & Kind::LATER == 0
        && !is_authenticated(bytes)
        && let Some(upper) = bytes.get_mut(upper..)
    {
        apply_upper(upper, packet.kind.protocol(), addresses, (old.ports, new.ports));
    }
}

/// The same for the header of the upper layer, which may be cut.
#[inline]
fn apply_upper(upper: &mut [u8], protocol: u8, addresses: u32, (old, new): (u32, u32)) {
    let by = addresses + difference(old, new);
    match protocol {
        TCP => correct(upper, 16, by, Zero::Value),
        UDP => correct(upper, 6, by, Zero::Absent),
        UDP_LITE => correct(upper, 6, by, Zero::Invalid),
        DCCP => correct(upper, 6, by, Zero::Value),
        ICMP4 => return apply_query(upper, (old, new)),
        GRE => return apply_call(upper, new),
        _ => return,
    }
    write32(upper, 0, new);
}

/// Gives a packet of enhanced GRE another call ID. Flows of calls have the ID of the receiving end as destination port;
/// those of hosts have no ports. Apart, so that what other packets need stays small enough to be inlined.
#[cold]
#[inline(never)]
fn apply_call(upper: &mut [u8], new: u32) {
    if (new >> 16) as u16 == CALL {
        pptp::set_call_id(upper, new as u16);
    }
}

/// Gives an ICMP query another identifier. Its checksum covers no addresses.
fn apply_query(upper: &mut [u8], (old, new): (u32, u32)) {
    let Some((_, is_reply)) = upper.first().and_then(|kind| icmp_query::of(false, *kind)) else {
        return;
    };
    // The identifier is the port of the end that asks.
    let identifier = |ports: u32| (if is_reply { ports } else { ports >> 16 }) as u16;
    let [old, new] = [old, new].map(identifier);
    correct(upper, 2, difference(old.into(), new.into()), Zero::Value);
    if let Some(field) = upper.get_mut(4..6) {
        field.copy_from_slice(&new.to_be_bytes());
    }
}

/// Gives an ICMP error, and the packet that it quotes, other ends: `quoted` are those of the quoted packet; the error
/// goes to its source. Whether it could be done: otherwise nothing has changed.
///
/// An error from inside, about a packet whose destination is translated, comes from this destination: so hosts outside
/// see no router inside (RFC 5508 section 4.2, REQ-4).
pub fn apply_error(bytes: &mut [u8], packet: &Header, quoted: Ends) -> bool {
    let at = usize::from(packet.place.upper());
    let Some(message) = bytes.get_mut(at..) else { return false };
    let Some((header, inner)) = message.split_at_mut_checked(ICMP_HEADER) else { return false };
    let of_inner = Header::of_quoted(inner);
    let Some(of_inner) = of_inner else { return false };
    let before = checksum::sum(inner.get(..inner.len() & !1).unwrap_or(&[]));
    apply(inner, &of_inner, quoted);
    let after = checksum::sum(inner.get(..inner.len() & !1).unwrap_or(&[]));
    correct(header, 2, difference(before, after), Zero::Value);
    let old = packet.ends;
    let hides = quoted.destination != of_inner.ends.destination;
    let source = if hides { quoted.destination } else { old.source };
    let new = Ends { source, destination: quoted.source, ports: old.ports };
    let by = difference(old.source, new.source) + difference(old.destination, new.destination);
    correct(bytes, 10, by, Zero::Value);
    write32(bytes, 12, new.source);
    write32(bytes, 16, new.destination);
    true
}

impl Header {
    /// The header of a quoted packet, of which 8 bytes of the upper layer are enough. `None`: it has fewer, or it is a
    /// later fragment.
    pub fn of_quoted(inner: &[u8]) -> Option<Self> {
        let header = inner.first_chunk::<{ ipv4::LENGTH }>()?;
        let word = |at: usize| {
            let it = inner.get(at..)?.first_chunk::<4>()?;
            Some(u32::from_be_bytes(*it))
        };
        let upper = usize::from(header[0] & 0xf).max(5) * 4;
        if header[0] >> 4 != 4 || word(4)? & 0x1fff != 0 {
            return None;
        }
        let [protocol, first] = [header[9], *inner.get(upper)?];
        let (ports, rest) = (word(upper)?, word(upper + 4)?);
        let kind = Kind(protocol.into());
        let ports = match protocol {
            ICMP4 => kind.flow_ports(u32::from(first) << 24 | rest >> 16),
            _ if stoa_wire::protocol::has_ports(protocol) => ports,
            _ => 0,
        };
        let ends = Ends { source: word(12)?, destination: word(16)?, ports };
        let length = u16::from_be_bytes([header[2], header[3]]);
        let place = Place((upper as u32) << 16 | u32::from(length));
        Some(Self { kind, place, ends })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use stoa_wire::checksum::{is_valid, pseudo4, sum};

    use super::*;

    /// A packet of a protocol with right checksums; UDP without one if `is_bare`.
    fn packet(protocol: u8, ends: Ends, data: &[u8], is_bare: bool) -> Vec<u8> {
        let (header, at): (usize, Option<usize>) = match protocol {
            TCP => (20, Some(16)),
            UDP | UDP_LITE => (8, Some(6)),
            ICMP4 => (8, Some(2)),
            _ => (4, None),
        };
        let mut upper = vec![0; header];
        upper[..4].copy_from_slice(&ends.ports.to_be_bytes());
        match protocol {
            TCP => upper[12] = 0x50,
            UDP | UDP_LITE => {
                upper[4..6].copy_from_slice(&((8 + data.len()) as u16).to_be_bytes());
            }
            ICMP4 => {
                upper[..4].copy_from_slice(&[8, 0, 0, 0]);
                upper[4..6].copy_from_slice(&((ends.ports >> 16) as u16).to_be_bytes());
            }
            _ => {}
        }
        upper.extend(data);
        let length = (20 + upper.len()) as u16;
        let mut bytes = vec![0x45, 0, 0, 0, 0, 1, 0, 0, 64, protocol, 0, 0];
        bytes[2..4].copy_from_slice(&length.to_be_bytes());
        bytes.extend(ends.source.to_be_bytes());
        bytes.extend(ends.destination.to_be_bytes());
        let checksum = checksum::ones_complement(&bytes);
        bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
        if let Some(at) = at.filter(|_| !is_bare) {
            let value = checksum::finish(sum(&upper) + pseudo_of(protocol, ends, upper.len()));
            let value =
                if value == 0 && [UDP, UDP_LITE].contains(&protocol) { u16::MAX } else { value };
            upper[at..at + 2].copy_from_slice(&value.to_be_bytes());
        }
        [bytes, upper].concat()
    }

    fn pseudo_of(protocol: u8, ends: Ends, length: usize) -> u32 {
        if protocol == ICMP4 {
            return 0;
        }
        pseudo4(ends.source.into(), ends.destination.into(), protocol, length as u16)
    }

    fn ends() -> impl Strategy<Value = Ends> {
        any::<[u32; 3]>().prop_map(|[source, destination, ports]| Ends {
            source,
            destination,
            ports,
        })
    }

    fn protocols() -> impl Strategy<Value = u8> {
        prop::sample::select(vec![TCP, UDP, UDP_LITE, ICMP4, 47])
    }

    /// What the ends of a protocol can be.
    fn of_protocol(protocol: u8, ends: Ends) -> Ends {
        let ports = match protocol {
            ICMP4 => ends.ports & 0xffff_0000 | 8,
            47 => 0,
            _ => ends.ports,
        };
        Ends { ports, ..ends }
    }

    #[test]
    fn a_checksum_of_zero_is_written_as_its_protocol_wants_it() {
        // The sum of what comes makes the checksum 0.
        let corrected = |old: u16, zero| {
            let mut bytes = old.to_be_bytes();
            correct(&mut bytes, 0, u32::from(old), zero);
            u16::from_be_bytes(bytes)
        };
        assert_eq!(corrected(5, Zero::Value), 0);
        assert_eq!([Zero::Absent, Zero::Invalid].map(|zero| corrected(5, zero)), [u16::MAX; 2]);
        assert_eq!([Zero::Absent, Zero::Invalid].map(|zero| corrected(0, zero)), [0; 2]);
    }

    proptest! {
        #[test]
        fn a_translated_packet_is_that_of_the_other_ends(
            protocol in protocols(),
            (old, new) in (ends(), ends()),
            data in prop::collection::vec(any::<u8>(), 20..60),
            (is_bare, wrong) in (any::<bool>(), any::<u16>()),
        ) {
            let is_bare = is_bare && protocol == UDP;
            let [old, new] = [old, new].map(|it| of_protocol(protocol, it));
            let mut bytes = packet(protocol, old, &data, is_bare);
            let header = Header::of(&bytes);
            prop_assert_eq!(header.ends, old);
            apply(&mut bytes, &header, new);
            prop_assert_eq!(&bytes, &packet(protocol, new, &data, is_bare));
            prop_assert!(is_valid(sum(&bytes[..20])));
            // A wrong checksum is as wrong as before.
            if protocol == TCP {
                let mut bytes = packet(protocol, old, &data, false);
                bytes[40] ^= (wrong >> 8) as u8;
                let header = Header::of(&bytes);
                apply(&mut bytes, &header, new);
                let mut expected = packet(protocol, new, &data, false);
                expected[40] ^= (wrong >> 8) as u8;
                prop_assert_eq!(bytes, expected);
            }
        }

        #[test]
        fn an_error_quotes_what_its_receiver_has_sent(
            protocol in protocols(),
            (old, new) in (ends(), ends()),
            data in prop::collection::vec(any::<u8>(), 20..60),
            (cut, reporter) in (any::<prop::sample::Index>(), any::<u32>()),
        ) {
            let [old, new] = [old, new].map(|it| of_protocol(protocol, it));
            let (sent, received) =
                (packet(protocol, new, &data, false), packet(protocol, old, &data, false));
            // A checksum that is cut in its middle stays as it is.
            let length = (28 + cut.index(sent.len() - 27)) & !1;
            let error = |quoted: &[u8], source, destination| {
                let mut message = [&[11, 0, 0, 0, 0, 0, 0, 0], quoted].concat();
                let checksum = checksum::ones_complement(&message);
                message[2..4].copy_from_slice(&checksum.to_be_bytes());
                let ends = Ends { source, destination, ports: 0 };
                let header = packet(1, ends, &[0; 20], false);
                let mut bytes = [&header[..20], &message].concat();
                let length = bytes.len() as u16;
                bytes[2..4].copy_from_slice(&length.to_be_bytes());
                bytes[10..12].fill(0);
                let checksum = checksum::ones_complement(&bytes[..20]);
                bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
                bytes
            };
            let mut bytes = error(&received[..length], reporter, old.source);
            let header = Header::of(&bytes);
            let quoted = Header::of_quoted(&bytes[28..]).unwrap();
            prop_assert_eq!(quoted.ends, old);
            prop_assert!(apply_error(&mut bytes, &header, new));
            let hides = old.destination != new.destination;
            let source = if hides { new.destination } else { reporter };
            let expected = error(&sent[..length], source, new.source);
            prop_assert!(is_valid(sum(&bytes[20..])) && is_valid(sum(&bytes[..20])));
            prop_assert_eq!(bytes, expected);
        }

        #[test]
        fn hostile_packets_do_not_panic(
            mut bytes in prop::collection::vec(any::<u8>(), 0..90),
            new in ends(),
        ) {
            let header = Header::of(&bytes);
            apply(&mut bytes, &header, new);
            let _ = Header::of_quoted(&bytes);
            let _ = apply_error(&mut bytes, &header, new);
        }
    }
}
