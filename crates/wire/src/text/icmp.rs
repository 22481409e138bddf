//! ICMP and ICMPv6 messages in words (RFC 792, RFC 4443, RFC 4861).

use std::fmt;

use super::layer::ip6_at;
use super::{half, word};

fn echo(message: &[u8], name: &str, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(out, "{name}, id {}, sequence {}", half(message, 4), half(message, 6))
}

/// An ICMP message of eight bytes or more.
pub(super) fn four(message: &[u8], out: &mut fmt::Formatter<'_>) -> fmt::Result {
    out.write_str("ICMP ")?;
    let code = message[1];
    let words = match (message[0], code) {
        (0, _) => return echo(message, "echo reply", out),
        (8, _) => return echo(message, "echo request", out),
        (3, 0) => "network unreachable",
        (3, 1) => "host unreachable",
        (3, 2) => "protocol unreachable",
        (3, 3) => "port unreachable",
        (3, 4) => return write!(out, "fragmentation needed, MTU {}", half(message, 6)),
        (3, 9 | 10 | 13) => "prohibited",
        (3, _) => return write!(out, "unreachable, code {code}"),
        (5, _) => "redirect",
        (11, 0) => "time exceeded in transit",
        (11, _) => "reassembly time exceeded",
        (12, _) => return write!(out, "parameter problem at byte {}", message[4]),
        (9, _) => "router advertisement",
        (10, _) => "router solicitation",
        (13, _) => "timestamp request",
        (14, _) => "timestamp reply",
        (kind, _) => return write!(out, "type {kind}, code {code}"),
    };
    out.write_str(words)
}

/// An ICMPv6 message of eight bytes or more.
pub(super) fn six(message: &[u8], out: &mut fmt::Formatter<'_>) -> fmt::Result {
    out.write_str("ICMPv6 ")?;
    let code = message[1];
    let words = match (message[0], code) {
        (128, _) => return echo(message, "echo request", out),
        (129, _) => return echo(message, "echo reply", out),
        (1, 0) => "no route to the destination",
        (1, 1) => "prohibited",
        (1, 2) => "beyond the scope of the source",
        (1, 3) => "address unreachable",
        (1, 4) => "port unreachable",
        (1, _) => return write!(out, "unreachable, code {code}"),
        (2, _) => return write!(out, "packet too big, MTU {}", word(message, 4)),
        (3, 0) => "hop limit exceeded in transit",
        (3, _) => "reassembly time exceeded",
        (4, _) => return write!(out, "parameter problem at byte {}", word(message, 4)),
        (133, _) => "router solicitation",
        (134, _) => "router advertisement",
        (135, _) => return write!(out, "neighbour solicitation for {}", ip6_at(message, 8)),
        (136, _) => return write!(out, "neighbour advertisement of {}", ip6_at(message, 8)),
        (137, _) => return write!(out, "redirect to {}", ip6_at(message, 8)),
        (130, _) => "MLD query",
        (131 | 143, _) => "MLD report",
        (132, _) => "MLD done",
        (kind, _) => return write!(out, "type {kind}, code {code}"),
    };
    out.write_str(words)
}
