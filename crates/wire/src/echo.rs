//! Answers to echo requests, as `ping` and `traceroute` read them: echo replies, and ICMP errors that quote a request
//! (RFC 792, RFC 4443 sections 3 and 4.2).

use core::net::IpAddr;

use crate::{icmp4, icmp6, ipv4, ipv6, ipv6_extensions, protocol};
use zerocopy::FromBytes;

/// A message that answers an echo request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Identifier of the request: which series of its sender.
    pub identifier: u16,
    /// Sequence number of the request.
    pub sequence: u16,
    /// What it says.
    pub kind: Kind,
}

/// What an [`Answer`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The host was reached. `data`: bytes that it repeated.
    Reply {
        /// Bytes behind the ICMP header.
        data: usize,
    },
    /// A router or the host could not deliver or answer it.
    Error {
        /// Type of the ICMP message: [`icmp4::kind`] or [`icmp6::kind`].
        kind: u8,
        /// Code of the ICMP message.
        code: u8,
        /// MTU of the link that the request does not fit, in bytes; 0: the router does not tell.
        mtu: Option<u32>,
        /// Destination of the quoted request.
        destination: IpAddr,
    },
}

/// The answer in an ICMP message for IPv4; `None`: it answers no echo request.
pub fn of_icmp4(message: &icmp4::View<'_>) -> Option<Answer> {
    let header = message.header();
    if header.kind == icmp4::kind::ECHO_REPLY {
        return message.echo().map(reply);
    }
    // A redirect is no answer: the request goes on.
    let quoted = message.quoted().filter(|_| header.kind != icmp4::kind::REDIRECT)?;
    // Cut to what the error has room for: `ipv4::check` would refuse it.
    let (packet, _) = ipv4::Header::ref_from_prefix(quoted).ok()?;
    let is_first = packet.version() == 4 && packet.fragment_offset() == 0;
    let request = quoted.get(packet.header_length().max(ipv4::LENGTH)..)?;
    let (request, _) = icmp4::Header::ref_from_prefix(request).ok()?;
    let is_request =
        packet.protocol == protocol::ICMP4 && request.kind == icmp4::kind::ECHO_REQUEST;
    let kind = Kind::Error {
        kind: header.kind,
        code: header.code,
        mtu: message.next_hop_mtu().map(u32::from),
        destination: packet.destination.into(),
    };
    (is_first && is_request).then_some(Answer {
        identifier: request.high.get(),
        sequence: request.low.get(),
        kind,
    })
}

/// The answer in an ICMP message for IPv6; `None`: it answers no echo request.
pub fn of_icmp6(message: &icmp6::View<'_>) -> Option<Answer> {
    let header = message.header();
    if header.kind == icmp6::kind::ECHO_REPLY {
        return message.echo().map(reply);
    }
    let quoted = message.quoted()?;
    let (packet, rest) = ipv6::Header::ref_from_prefix(quoted).ok()?;
    // A router's own requests have no extension header but that of fragments.
    let (next, request) = match packet.next_header {
        protocol::FRAGMENT => {
            let (fragment, rest) = ipv6_extensions::Fragment::ref_from_prefix(rest).ok()?;
            (fragment.offset() == 0).then_some((fragment.next_header, rest))?
        }
        next => (next, rest),
    };
    let (request, _) = icmp6::Header::ref_from_prefix(request).ok()?;
    let is_request = packet.version() == 6
        && next == protocol::ICMP6
        && request.kind == icmp6::kind::ECHO_REQUEST;
    let word = request.word.get();
    let kind = Kind::Error {
        kind: header.kind,
        code: header.code,
        mtu: message.mtu(),
        destination: packet.destination.into(),
    };
    is_request.then_some(Answer { identifier: (word >> 16) as u16, sequence: word as u16, kind })
}

fn reply(echo: icmp4::Echo<'_>) -> Answer {
    let icmp4::Echo { identifier, sequence, data } = echo;
    Answer { identifier, sequence, kind: Kind::Reply { data: data.len() } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::{self, Pseudo};
    use proptest::prelude::*;

    const ECHO: icmp4::Echo<'static> =
        icmp4::Echo { identifier: 0xbeef, sequence: 7, data: &[1, 2, 3, 4] };

    fn pseudo() -> Pseudo {
        let (source, destination) =
            ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
        Pseudo::Ip6 { source, destination }
    }

    fn request4() -> Vec<u8> {
        let mut bytes = vec![0; 20 + 12];
        let builder =
            ipv4::Builder::new([192, 0, 2, 1].into(), [192, 0, 2, 2].into(), protocol::ICMP4);
        builder.build(&mut bytes, 12).unwrap();
        icmp4::build_echo_request(&mut bytes[20..], &ECHO).unwrap();
        bytes
    }

    fn error4(quoted: &[u8]) -> Option<Answer> {
        let mut bytes = vec![0; 600];
        let error = icmp4::Error::FragmentationNeeded { mtu: 1400 };
        let length = icmp4::build_error(&mut bytes, error, quoted).unwrap();
        of_icmp4(&icmp4::check(&bytes[..length]).unwrap())
    }

    #[test]
    fn replies_and_errors_name_the_request() {
        let mut bytes = [0; 12];
        icmp4::build_echo_reply(&mut bytes, &ECHO).unwrap();
        let reply = Answer { identifier: 0xbeef, sequence: 7, kind: Kind::Reply { data: 4 } };
        assert_eq!(of_icmp4(&icmp4::check(&bytes).unwrap()), Some(reply));
        icmp4::build_echo_request(&mut bytes, &ECHO).unwrap();
        assert_eq!(of_icmp4(&icmp4::check(&bytes).unwrap()), None, "a request");
        let destination = "192.0.2.2".parse().unwrap();
        let kind = Kind::Error { kind: 3, code: 4, mtu: Some(1400), destination };
        assert_eq!(error4(&request4()), Some(Answer { kind, ..reply }));
        assert_eq!(error4(&request4()[..28]), Some(Answer { kind, ..reply }), "eight bytes");
        let changes: [(usize, u8); 4] = [(9, 17), (7, 1), (20, 0), (0, 0x65)];
        for (at, byte) in changes {
            let mut other = request4();
            other[at] = byte;
            assert_eq!(error4(&other), None, "byte {at}");
        }
    }

    #[test]
    fn those_of_ipv6_too() {
        let mut bytes = [0; 12];
        icmp6::build_echo_reply(&mut bytes, &pseudo(), &ECHO).unwrap();
        let reply = Answer { identifier: 0xbeef, sequence: 7, kind: Kind::Reply { data: 4 } };
        assert_eq!(of_icmp6(&icmp6::check(&bytes, &pseudo()).unwrap()), Some(reply));
        let mut request = [0; 12];
        icmp6::build_echo_request(&mut request, &pseudo(), &ECHO).unwrap();
        let error = |next: u8, between: &[u8]| {
            let mut quoted = vec![0; 40];
            quoted[0] = 0x60;
            quoted[6] = next;
            quoted[39] = 7;
            quoted.extend([between, &request].concat());
            let mut bytes = vec![0; 200];
            let error = icmp6::Error::PacketTooBig { mtu: 1300 };
            let length = icmp6::build_error(&mut bytes, &pseudo(), error, &quoted).unwrap();
            of_icmp6(&icmp6::check(&bytes[..length], &pseudo()).unwrap())
        };
        let destination = "::7".parse().unwrap();
        let kind = Kind::Error { kind: 2, code: 0, mtu: Some(1300), destination };
        assert_eq!(error(protocol::ICMP6, &[]), Some(Answer { kind, ..reply }));
        let fragment = [protocol::ICMP6, 0, 0, 1, 0, 0, 0, 9];
        assert_eq!(error(protocol::FRAGMENT, &fragment), Some(Answer { kind, ..reply }));
        assert_eq!(error(protocol::FRAGMENT, &[protocol::ICMP6, 0, 0, 9, 0, 0, 0, 9]), None);
        assert_eq!(error(protocol::UDP, &[]), None);
    }

    proptest! {
        /// Hostile messages name a request only where its identifier stands in them.
        #[test]
        fn no_message_panics(mut bytes in proptest::collection::vec(any::<u8>(), 8..128), kind in 0_u8..130) {
            bytes[0] = kind;
            bytes[2..4].fill(0);
            let mut of4 = bytes.clone();
            let sum = checksum::ones_complement(&of4);
            of4[2..4].copy_from_slice(&sum.to_be_bytes());
            let message = icmp4::check(&of4).unwrap();
            if let Some(answer) = of_icmp4(&message) {
                let identifier = answer.identifier.to_be_bytes();
                prop_assert!(of4.windows(2).any(|pair| pair == identifier));
                let is_reply = matches!(answer.kind, Kind::Reply { .. });
                prop_assert_eq!(is_reply, message.quoted().is_none());
            }
            let sum = checksum::sum(&bytes) + pseudo().sum(protocol::ICMP6, bytes.len());
            bytes[2..4].copy_from_slice(&checksum::finish(sum).to_be_bytes());
            let message = icmp6::check(&bytes, &pseudo()).unwrap();
            if let Some(answer) = of_icmp6(&message) {
                let identifier = answer.identifier.to_be_bytes();
                prop_assert!(bytes.windows(2).any(|pair| pair == identifier));
            }
        }
    }
}
