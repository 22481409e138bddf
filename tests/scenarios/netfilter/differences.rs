//! Where Stoa and netfilter differ, and why: a table of the guide.

use Families::{Both, Four, Six};
use Who::{Netfilter, Stoa};

/// Which router lets packets pass, or answers them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Who {
    Stoa,
    Netfilter,
}

/// The families in which it is so.
#[derive(Clone, Copy)]
pub enum Families {
    Both,
    Four,
    Six,
}

impl Families {
    /// Their numbers.
    pub fn numbers(self) -> &'static [u8] {
        match self {
            Both => &[4, 6],
            Four => &[4],
            Six => &[6],
        }
    }
}

/// A difference: what passes (or is answered), by whom, why, and the packets: script, families, and numbers from 1.
pub struct Difference {
    pub what: &'static str,
    pub by: Who,
    pub why: &'static str,
    pub packets: &'static [(&'static str, Families, &'static [usize])],
}

const fn of(
    what: &'static str,
    by: Who,
    why: &'static str,
    packets: &'static [(&'static str, Families, &'static [usize])],
) -> Difference {
    Difference { what, by, why, packets }
}

/// All differences.
pub const DIFFERENCES: &[Difference] = &[
    of(
        "TCP, UDP and ICMP with a wrong checksum",
        Stoa,
        "Only the receiver verifies checksums of all packets. Stoa verifies those that open or end a TCP connection: a \
         wrong one changes nothing. UDP and pings with one begin flows.",
        &[
            ("SYN with a wrong checksum", Both, &[1]),
            ("SYN-ACK with a wrong checksum", Both, &[2]),
            ("segments with a wrong checksum", Both, &[4, 5, 6]),
            ("UDP with a wrong checksum", Both, &[1, 2, 4]),
            ("ping with a wrong checksum", Both, &[1, 2, 4]),
            ("errors with a wrong checksum", Both, &[2]),
        ],
    ),
    of(
        "ICMP answers to rejected UDP with a wrong checksum, and to a rejected first fragment",
        Stoa,
        "netfilter answers no packet whose checksum it cannot verify. Stoa verifies it of TCP only.",
        &[("rejected datagram", Both, &[2]), ("rejected fragment", Both, &[1])],
    ),
    of(
        "First fragments of packets that never become whole, or whose fragments overlap",
        Stoa,
        "Stoa forwards fragments as they come. The receiver never completes such a packet.",
        &[
            ("UDP in incomplete fragments", Both, &[2]),
            ("UDP in overlapping fragments", Both, &[2]),
        ],
    ),
    of(
        "IPv4 fragments that cut the TCP header",
        Netfilter,
        "Rules cannot see the flags (RFC 1858, RFC 3128, RFC 7112). netfilter reassembles TCP over IPv4 first, or does \
         not look at the header.",
        &[
            ("tiny fragments", Four, &[4, 5, 6, 7]),
            ("tiny fragments to a rule without state", Four, &[1, 2]),
        ],
    ),
    of(
        "A SYN in fragments",
        Netfilter,
        "No host sends one, and its checksum could not be verified without reassembly.",
        &[("SYN in fragments", Both, &[1, 2, 3])],
    ),
    of(
        "TCP headers that are cut or have an impossible length, by rules without state",
        Netfilter,
        "Rules cannot decide about them (RFC 7112). netfilter checks them only where it tracks connections.",
        &[("impossible TCP lengths", Both, &[3, 4]), ("truncated headers", Both, &[6])],
    ),
    of(
        "Data up to one more window beyond the window",
        Netfilter,
        "No correct host sends it. netfilter works around hosts that ignore windows.",
        &[("data beyond the window", Both, &[7])],
    ),
    of(
        "Segments and acknowledgements from any time before",
        Netfilter,
        "netfilter does not judge them. Stoa lets pass what can be late: four windows, and at least 64 KiB.",
        &[("far away", Both, &[5, 7])],
    ),
    of(
        "An old acknowledgement in place of the last one of a handshake",
        Netfilter,
        "The server would answer it with a reset (RFC 9293 section 3.10.7.4). netfilter does not judge it.",
        &[("wrong last ACK", Both, &[3, 5])],
    ),
    of(
        "Resets shortly before the window",
        Stoa,
        "They change nothing: the receiver ignores them, and may have moved on less far than what has passed tells \
         (RFC 5961 section 3).",
        &[("reset outside of the window", Both, &[5, 8])],
    ),
    of(
        "A SYN-ACK behind a reset that does not acknowledge the SYN, and such resets",
        Stoa,
        "The client ignores these resets (RFC 9293 section 3.10.7.3), so that nobody ends an opening by guessing. \
         netfilter ends it.",
        &[("refused opening by a wrong number", Both, &[3, 4, 5, 6, 7])],
    ),
    of(
        "A SYN from the server in a connection",
        Stoa,
        "The client answers it by a challenge acknowledgement (RFC 5961 section 4), and the connection stays as it is. \
         A client that has forgotten it may be asked anew.",
        &[("forged SYN from the other side", Both, &[4])],
    ),
    of(
        "The answer to a SYN in place of an open connection, at once",
        Netfilter,
        "The SYN may be forged. Stoa believes it when it was repeated and nobody has answered as one that knows the \
         connection: the new one opens some seconds later.",
        &[("reuse of an open connection that the server forgot", Both, &[5, 6, 7])],
    ),
    of(
        "The answer to a SYN with an older number in place of a closed connection, at once",
        Netfilter,
        "The same. A SYN with a higher number opens the connection at once (RFC 9293 section 3.6.1).",
        &[("reuse by an older number", Both, &[11, 12])],
    ),
    of(
        "Acknowledgements without SYN in a simultaneous open",
        Stoa,
        "Hosts send SYN-ACKs then (RFC 9293 section 3.5), which both pass. Stoa takes an acknowledgement for one whose \
         SYN-ACK went lost.",
        &[("simultaneous open with ACKs", Both, &[3, 5])],
    ),
    of(
        "ICMP errors about TCP whose sequence number is not under way, or is not quoted",
        Netfilter,
        "They are blind attacks (RFC 5927 section 4.1).",
        &[
            ("errors about TCP", Four, &[6, 9]),
            ("errors about a SYN", Both, &[3]),
            ("errors about a SYN-ACK", Both, &[4]),
            ("short quotes", Both, &[10, 11]),
        ],
    ),
    of(
        "ICMP redirects and source quenches about a flow",
        Netfilter,
        "Redirects come from a router of the same link (RFC 1812 section 5.2.7.2), and quenches are deprecated \
         (RFC 6633): they need a rule.",
        &[("redirects and quenches", Four, &[2, 3]), ("redirects and quenches", Six, &[3])],
    ),
    of(
        "Packet too big, time exceeded and parameter problem of ICMPv6 without a flow",
        Stoa,
        "Links and paths need them (RFC 4890): they pass unless a rule drops them.",
        &[("errors about a ping", Six, &[3]), ("errors about a fragment", Six, &[4])],
    ),
];

/// The table of the guide.
pub fn table() -> String {
    let row = |one: &Difference| {
        let words = |who| if one.by == who { "yes" } else { "no" };
        format!("| {} | {} | {} | {} |\n", one.what, words(Stoa), words(Netfilter), one.why)
    };
    let rows: String = DIFFERENCES.iter().map(row).collect();
    format!("| what passes or is answered | Stoa | netfilter | why |\n|---|---|---|---|\n{rows}")
}
