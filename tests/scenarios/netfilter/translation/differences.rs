//! Where translation, gateways and cookies of Stoa and netfilter differ, and why: tables of the guide.

use super::setup::Plan;

/// A difference: of what, what each does, why, and the packets: script, and numbers from 1.
struct Difference {
    what: &'static str,
    stoa: &'static str,
    netfilter: &'static str,
    why: &'static str,
    packets: &'static [(&'static str, &'static [usize])],
}

const fn of(
    what: &'static str,
    [stoa, netfilter, why]: [&'static str; 3],
    packets: &'static [(&'static str, &'static [usize])],
) -> Difference {
    Difference { what, stoa, netfilter, why, packets }
}

/// Whatever external address clients have.
const TRANSLATION: &[Difference] = &[
    of(
        "TCP, UDP and ICMP with a wrong checksum",
        [
            "pass, and stay wrong",
            "are dropped as invalid",
            "Only the receiver verifies checksums of all packets; a translation changes them by what it changes.",
        ],
        &[
            ("UDP with a wrong checksum", &[2, 4]),
            ("TCP with a wrong checksum", &[4]),
            ("first datagram with a wrong checksum", &[1]),
            ("errors with a wrong checksum", &[2]),
        ],
    ),
    of(
        "A second client with a protocol without ports, to the same host",
        ["gets ICMP 3/13", "gets nothing", "It would wait for a timeout."],
        &[("one host for a protocol", &[2])],
    ),
    of(
        "What a server sends of its own accord from the port of a forward",
        [
            "has the external end of the forward",
            "has one of the pool",
            "An inside end has one external end (RFC 4787 REQ-1).",
        ],
        &[("a server that asks from its port", &[1])],
    ),
    of(
        "ICMP errors of the router about packets to a forward",
        [
            "come from the interface",
            "come from the external address of the forward",
            "Each router on a path has addresses of its own (RFC 1812 section 4.3.2.4).",
        ],
        &[("forward with TTL 1", &[1, 2]), ("hairpin with TTL 1", &[1])],
    ),
    of(
        "Answers to a neighbor outside that has sent to the inside address",
        [
            "are translated, as what the host sends of its own accord",
            "leave with the inside address",
            "No inside address leaves where a policy or a mapping matches.",
        ],
        &[("forward by its inside address", &[2]), ("client by its inside address", &[2])],
    ),
    of(
        "Answers of a server to the inside address of its client",
        [
            "are dropped",
            "pass, with another source port",
            "They do not belong to the connection that the client has begun.",
        ],
        &[("answers to the inside address", &[2])],
    ),
    of(
        "A client that sends to the external end of another one",
        [
            "reaches it",
            "does not",
            "Hosts of one side meet at their external ends (RFC 4787 REQ-9).",
        ],
        &[("hairpin to a client", &[2])],
    ),
    of(
        "Source quenches",
        ["are dropped", "pass", "They are deprecated (RFC 6633)."],
        &[("errors about nothing known", &[6])],
    ),
];

/// Where clients have a pool.
const WITH_POOL: &[Difference] = &[of(
    "The next connection between two ends, in place of one that was closed or refused",
    [
        "has the same external port",
        "has another one",
        "An inside end has one external end (RFC 4787 REQ-1). netfilter still knows the last connection.",
    ],
    &[("refused connection", &[3, 5]), ("connection again from the same port", &[7, 9])],
)];

/// Where clients have the address of the interface.
const WITH_INTERFACE: &[Difference] = &[
    of(
        "TCP to the external address, without a mapping",
        [
            "gets nothing",
            "gets a reset",
            "It is for the router, which has no host interface here: no Linux that would answer.",
        ],
        &[("nobody has asked", &[4, 5])],
    ),
    of(
        "ICMP errors of the router about packets of inside hosts to the external address",
        ["come from the inside interface", "come from the external address", "As above."],
        &[("hairpin to a client", &[3])],
    ),
];

const GATEWAYS: &[Difference] = &[
    of(
        "External ports of data connections",
        [
            "are those of the policy",
            "are those of the host, also beyond the range",
            "The range leaves out ports that others have.",
        ],
        &[
            ("active", &[10, 12, 13]),
            ("active, extended", &[10]),
            ("active, twice", &[12]),
            ("active, from another host", &[10]),
            ("passive, server outside", &[10, 12]),
            ("extended passive, server outside", &[10]),
        ],
    ),
    of(
        "An announced port below 1024",
        ["passes as it is; nothing is let in", "is let in", "RFC 2577 section 3."],
        &[("active, to a low port", &[7])],
    ),
    of(
        "An announced number above 255",
        [
            "passes as it is",
            "is cut to eight bits",
            "It announces nothing (RFC 959 section 4.1.2).",
        ],
        &[("active, a number beyond a byte", &[7])],
    ),
    of(
        "Announcements that end too early, in one segment or altogether, and of unknown families",
        [
            "pass as they are",
            "are dropped, again and again",
            "TCP may split a text anywhere, and the server answers to what is wrong.",
        ],
        &[
            ("active, too few numbers", &[7, 8]),
            ("active, extended, of an unknown family", &[7, 8]),
            ("active, split", &[7, 8, 9, 10]),
        ],
    ),
    of(
        "An announcement with a wrong checksum",
        ["passes as it is", "is dropped", "The receiver drops it. It is not read."],
        &[("active, a wrong checksum", &[7])],
    ),
    of(
        "Data connections of a server behind a forward to active clients",
        [
            "come from the address of the policy",
            "come from that of the forward",
            "Stoa does not read announcements of which nothing has to be changed. A policy whose pool is the address of \
             the forward serves clients that insist on it.",
        ],
        &[("active, server inside", &[9, 11])],
    ),
    of(
        "ICMP errors about segments behind a text of another length",
        [
            "quote the number of their sender",
            "quote the other one",
            "It must know its segment again.",
        ],
        &[("errors about a changed text", &[11])],
    ),
];

const COOKIES: &[Difference] = &[
    of(
        "The SYN to the server",
        [
            "has a window in bytes, and echoes no clock",
            "has the window in units of the scale, and echoes one",
            "The window of a SYN has no scale, and it echoes 0 (RFC 7323 sections 2.2, 3.2).",
        ],
        &[
            ("handshake", &[2]),
            ("timestamps alone", &[2]),
            ("a server without options", &[2]),
            ("another scale of the server", &[2]),
        ],
    ),
    of(
        "The acknowledgement to the server",
        [
            "echoes its clock",
            "echoes something else",
            "RFC 7323 section 3.2. Stoa remembers the window of the client in steps of 16 units.",
        ],
        &[("handshake", &[3]), ("timestamps alone", &[3]), ("another scale of the server", &[3])],
    ),
    of(
        "Windows of a server whose scale is not that of the SYN-ACK",
        [
            "are translated",
            "are not",
            "The client reads them in the scale of the SYN-ACK. `wscale` must be that of the server.",
        ],
        &[("another scale of the server", &[5])],
    ),
    of(
        "Windows of both with a server without scale",
        ["are translated", "are not", "Neither uses a scale then (RFC 7323 section 2.2)."],
        &[("a server without options", &[3, 4, 5])],
    ),
    of(
        "The window of a server to a client without scale",
        ["is that of the server", "is divided by the scale of the server", "As above."],
        &[("options without timestamps", &[3])],
    ),
    of(
        "SYN-ACKs from nowhere, and SYNs with FIN or RST",
        ["are dropped", "are answered by a SYN-ACK", "No host begins a connection with them."],
        &[("no SYN", &[2]), ("a SYN with other flags", &[1, 2, 3])],
    ),
    of(
        "The segment size in the answer to a SYN without one",
        ["is that of the link", "is missing", "Without it, the client sends 536 bytes at a time."],
        &[("sizes of segments", &[1])],
    ),
    of(
        "The client's segment size for the server",
        [
            "is the next lower one of eight, up to 8960",
            "is the next lower one of 536, 1300, 1440 and 1460",
            "Three bits of the cookie in place of two.",
        ],
        &[("sizes of segments", &[6, 8])],
    ),
    of(
        "A valid cookie with another number of the client",
        ["is dropped", "is accepted", "The cookie is made of the number, too."],
        &[("another number with a cookie", &[2])],
    ),
    of(
        "The server's SYN-ACK again",
        [
            "is acknowledged by the router",
            "goes to the client",
            "The acknowledgement of the router was lost. The client has another SYN-ACK.",
        ],
        &[("the server's SYN-ACK again", &[4])],
    ),
    of(
        "A SYN-ACK that acknowledges another number",
        ["gets a reset", "is accepted", "RFC 9293 section 3.10.7.3."],
        &[("a wrong SYN-ACK", &[3])],
    ),
    of(
        "ICMP errors of the client about segments of the server",
        ["quote the server's number", "are garbled", "The server must know its segment again."],
        &[("errors about the server's segments", &[6])],
    ),
];

/// The packets about which both differ.
pub fn known(plan: Plan) -> Vec<(&'static str, usize)> {
    let all = match plan {
        Plan::Pool => [TRANSLATION, WITH_POOL],
        Plan::Interface => [TRANSLATION, WITH_INTERFACE],
        Plan::Gateways => [GATEWAYS, &[]],
        Plan::Cookies => [COOKIES, &[]],
    };
    let packets = all.into_iter().flatten().flat_map(|one| one.packets);
    packets.flat_map(|(name, steps)| steps.iter().map(|step| (*name, *step))).collect()
}

/// The tables of the guide.
pub fn tables() -> [String; 3] {
    let all: [(&str, &[&[Difference]]); 3] = [
        ("translation", &[TRANSLATION, WITH_POOL, WITH_INTERFACE]),
        ("gateways", &[GATEWAYS]),
        ("SYN cookies", &[COOKIES]),
    ];
    all.map(|(name, all)| {
        let row = |one: &Difference| {
            format!("| {} | {} | {} | {} |\n", one.what, one.stoa, one.netfilter, one.why)
        };
        let rows: String = all.iter().copied().flatten().map(row).collect();
        format!("| {name} | Stoa | netfilter | why |\n|---|---|---|---|\n{rows}")
    })
}
