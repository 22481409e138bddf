//! Echo requests as packets, and packets as answers.

use std::net::IpAddr;

use stoa_api::v1;
use stoa_wire::checksum::Pseudo;
use stoa_wire::echo::{self, Answer, Kind};
use stoa_wire::icmp4::Echo;
use stoa_wire::{icmp4, icmp6, ipv4, ipv6, protocol};

/// The TTL unless the operator chooses one (RFC 1700, default TTL).
pub(super) const DEFAULT_TTL: u8 = 64;

/// An echo request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    pub(super) identifier: u16,
    pub(super) sequence: u16,
    pub(super) ttl: u8,
    /// Bytes of data.
    pub(super) size: usize,
    /// Has no effect on IPv6.
    pub(super) dont_fragment: bool,
}

impl Request {
    /// Bytes of the IP packet.
    pub(super) fn length(&self) -> usize {
        let header = if self.source.is_ipv4() { ipv4::LENGTH } else { ipv6::LENGTH };
        header + icmp4::LENGTH + self.size
    }

    /// The packet; `None`: the families differ, or it is longer than an IP packet.
    pub(super) fn build(&self) -> Option<Vec<u8>> {
        let mut packet = vec![0; self.length()];
        // Recognisable in captures.
        let data: Vec<u8> = (0..self.size).map(|at| at as u8).collect();
        let echo = Echo { identifier: self.identifier, sequence: self.sequence, data: &data };
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let header = ipv4::Builder {
                    time_to_live: self.ttl,
                    flags_fragment: if self.dont_fragment { ipv4::DONT_FRAGMENT } else { 0 },
                    ..ipv4::Builder::new(source, destination, protocol::ICMP4)
                };
                header.build(&mut packet, icmp4::LENGTH + self.size).ok()?;
                icmp4::build_echo_request(&mut packet[ipv4::LENGTH..], &echo).ok()?;
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let header = ipv6::Builder {
                    hop_limit: self.ttl,
                    ..ipv6::Builder::new(source, destination, protocol::ICMP6)
                };
                header.build(&mut packet, icmp6::LENGTH + self.size).ok()?;
                let pseudo = Pseudo::Ip6 { source, destination };
                icmp6::build_echo_request(&mut packet[ipv6::LENGTH..], &pseudo, &echo).ok()?;
            }
            _ => return None,
        }
        Some(packet)
    }
}

/// A packet that answers a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arrival {
    pub(super) answer: Answer,
    pub(super) from: IpAddr,
    pub(super) ttl: u8,
    /// Bytes of the ICMP message.
    pub(super) size: usize,
    pub(super) received_unix_us: u64,
}

impl Arrival {
    /// Whether it is about a request to this destination: its reply, or an error that quotes it. Others can guess
    /// identifier and sequence number.
    pub(super) fn is_about(&self, destination: IpAddr) -> bool {
        match self.answer.kind {
            Kind::Reply { .. } => self.from == destination,
            Kind::Error { destination: quoted, .. } => quoted == destination,
        }
    }
}

/// Reads a punted packet; `None`: it answers no echo request.
pub(super) fn arrival(packet: &v1::PuntedPacket) -> Option<Arrival> {
    let received_unix_us = packet.received_unix_us;
    if let Ok(view) = ipv4::check(&packet.payload) {
        let message = icmp4::check(view.payload()).ok()?;
        let (from, ttl) = (view.source().into(), view.header().time_to_live);
        let (answer, size) = (echo::of_icmp4(&message)?, message.message().len());
        return Some(Arrival { answer, from, ttl, size, received_unix_us });
    }
    let view = ipv6::check(&packet.payload).ok()?;
    let upper = view.upper().ok().filter(|upper| upper.protocol == protocol::ICMP6)?;
    let message = icmp6::check(upper.payload, &view.pseudo()).ok()?;
    let (from, ttl) = (view.source().into(), view.header().hop_limit);
    let (answer, size) = (echo::of_icmp6(&message)?, message.message().len());
    Some(Arrival { answer, from, ttl, size, received_unix_us })
}

/// What an answer says, for people: RFC 792, RFC 1812 5.2.7, RFC 4443 3.
pub(super) fn reason(arrival: &Arrival) -> String {
    let Kind::Error { kind, code, mtu, .. } = arrival.answer.kind else { return String::new() };
    let text = match (arrival.from.is_ipv4(), kind, code) {
        (true, icmp4::kind::UNREACHABLE, 0) => "network unreachable",
        (true, icmp4::kind::UNREACHABLE, 1) | (false, icmp6::kind::UNREACHABLE, 3) => {
            "host unreachable"
        }
        (true, icmp4::kind::UNREACHABLE, 2) => "protocol unreachable",
        (true, icmp4::kind::UNREACHABLE, 3) | (false, icmp6::kind::UNREACHABLE, 4) => {
            "port unreachable"
        }
        (true, icmp4::kind::UNREACHABLE, 4) | (false, icmp6::kind::PACKET_TOO_BIG, _) => {
            return match mtu {
                Some(mtu) if mtu > 0 => format!("packet too big: the MTU is {mtu}"),
                _ => "packet too big".to_owned(),
            };
        }
        (true, icmp4::kind::UNREACHABLE, 9 | 10 | 13) | (false, icmp6::kind::UNREACHABLE, 1) => {
            "administratively prohibited"
        }
        (false, icmp6::kind::UNREACHABLE, 0) => "no route to the destination",
        (true, icmp4::kind::TIME_EXCEEDED, 0) | (false, icmp6::kind::TIME_EXCEEDED, 0) => {
            "time to live exceeded"
        }
        (true, icmp4::kind::TIME_EXCEEDED, 1) | (false, icmp6::kind::TIME_EXCEEDED, 1) => {
            "fragments did not arrive in time"
        }
        _ => return format!("ICMP type {kind}, code {code}"),
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(source: &str, destination: &str) -> Request {
        Request {
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
            identifier: 0x5a5a,
            sequence: 3,
            ttl: 9,
            size: 56,
            dont_fragment: true,
        }
    }

    #[test]
    fn requests_are_valid_and_their_replies_are_read() {
        for (source, destination, length) in
            [("192.0.2.1", "198.51.100.7", 84), ("2001:db8::1", "2001:db8:9::7", 104)]
        {
            let request = request(source, destination);
            let mut packet = request.build().unwrap();
            assert_eq!((packet.len(), request.length()), (length, length));
            let payload = packet.clone();
            let punted = v1::PuntedPacket { payload, received_unix_us: 5, ..Default::default() };
            assert_eq!(arrival(&punted), None, "a request is no answer");
            let header = packet.len() - 64;
            assert!(match request.source.is_ipv4() {
                true => icmp4::reply_in_place(&mut packet[header..]),
                false => icmp6::reply_in_place(&mut packet[header..]),
            });
            let punted = v1::PuntedPacket { payload: packet, ..punted };
            let arrival = arrival(&punted).unwrap();
            assert_eq!((arrival.answer.identifier, arrival.answer.sequence), (0x5a5a, 3));
            assert_eq!(arrival.answer.kind, Kind::Reply { data: 56 });
            assert_eq!((arrival.size, arrival.ttl, arrival.received_unix_us), (64, 9, 5));
            assert_eq!(reason(&arrival), "");
            // The addresses are still those of the request.
            assert!(arrival.is_about(request.source));
            assert!(!arrival.is_about(request.destination), "a reply of another host");
        }
        let other = Request { size: 70_000, ..request("192.0.2.1", "198.51.100.7") };
        assert_eq!(other.build(), None);
        assert_eq!(request("192.0.2.1", "2001:db8::7").build(), None);
    }

    #[test]
    fn errors_are_about_the_request_that_they_quote() {
        let request = request("192.0.2.1", "198.51.100.7");
        let mut packet = vec![0; 600];
        let error = icmp4::Error::TimeExceeded;
        let quoted = request.build().unwrap();
        let length = icmp4::build_error(&mut packet[ipv4::LENGTH..], error, &quoted).unwrap();
        packet.truncate(ipv4::LENGTH + length);
        let router = std::net::Ipv4Addr::new(203, 0, 113, 9);
        let header = ipv4::Builder::new(router, "192.0.2.1".parse().unwrap(), protocol::ICMP4);
        header.build(&mut packet, length).unwrap();
        let arrival = arrival(&v1::PuntedPacket { payload: packet, ..Default::default() }).unwrap();
        assert_eq!((arrival.from, arrival.answer.identifier), (router.into(), 0x5a5a));
        assert!(arrival.is_about(request.destination));
        assert!(!arrival.is_about("198.51.100.8".parse().unwrap()));
        assert!(!arrival.is_about(router.into()));
    }

    #[test]
    fn errors_have_words() {
        let error = |from: &str, kind, code, mtu| {
            let destination = "198.51.100.7".parse().unwrap();
            let kind = Kind::Error { kind, code, mtu, destination };
            let answer = Answer { identifier: 1, sequence: 1, kind };
            let from = from.parse().unwrap();
            reason(&Arrival { answer, from, ttl: 64, size: 36, received_unix_us: 0 })
        };
        assert_eq!(error("192.0.2.1", 3, 1, None), "host unreachable");
        assert_eq!(error("192.0.2.1", 3, 4, Some(1400)), "packet too big: the MTU is 1400");
        assert_eq!(error("192.0.2.1", 3, 4, Some(0)), "packet too big");
        assert_eq!(error("2001:db8::1", 2, 0, Some(1280)), "packet too big: the MTU is 1280");
        assert_eq!(error("2001:db8::1", 3, 0, None), "time to live exceeded");
        assert_eq!(error("192.0.2.1", 3, 14, None), "ICMP type 3, code 14");
    }
}
