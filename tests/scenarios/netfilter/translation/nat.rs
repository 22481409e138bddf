//! Scripts for translation, in the words of [`super::script`].

/// A handshake from a client inside to a server outside: steps 1 to 3.
const OPEN: &str = "a:40000 > b:80 S 1000 mss1460; re 1 SA 5000 ~ mss1400; re 2 A ~ ~";
/// One from outside to the forward.
const FORWARD: &str = "b:40000 > f:8080 S 1000; re 1 SA 5000 ~; re 2 A ~ ~";

/// The steps of a script.
pub fn steps(text: &str) -> Vec<String> {
    let text = text.replace("OPEN", OPEN).replace("FORWARD", FORWARD);
    text.split(';').map(|step| step.trim().to_owned()).collect()
}

/// All scripts.
pub const CASES: &[(&str, &str)] = &[
    // Clients inside.
    ("UDP", "a:40000 > b:53 udp d10; re 1 udp d20; a:40000 > b:53 udp d11; re 3 udp d300"),
    ("UDP without payload", "a:40000 > b:53 udp; re 1 udp"),
    ("UDP with odd payloads", "a:40001 > b:53 udp d1; re 1 udp d3; a:40001 > b:53 udp d999"),
    ("class", "a:40000 > b:53 udp h46; re 1 udp h46"),
    ("a port within the range", "a:20100 > b:53 udp d4; re 1 udp d4"),
    ("a low port", "a:53 > b:53 udp d4; re 1 udp d4"),
    (
        "two clients with one port",
        "a:40000 > b:53 udp; a2:40000 > b:53 udp; re 1 udp; re 2 udp; a:40000 > b:53 udp",
    ),
    (
        "two servers",
        "a:40000 > b:53 udp; a:40000 > b2:53 udp; a:40000 > b:54 udp; re 1 udp; re 2 udp; re 3 udp",
    ),
    ("two ports of a client", "a:40000 > b:53 udp; a:40001 > b:53 udp; re 2 udp d2; re 1 udp d1"),
    ("another server answers", "a:40000 > b:53 udp; b2:53 > ^1 udp; b:54 > ^1 udp; re 1 udp"),
    (
        "nobody has asked",
        "b:53 > p:40000 udp; b:1 > p:0 echo; b > p p47; b:53 > p:40000 S 1; b:53 > p:40000 A 1 1",
    ),
    (
        "connection",
        "OPEN; re 2 A ~ ~ d100; re 4 A ~ ~ d1000; re 5 A ~ ~; re 5 FA ~ ~; re 7 A ~ ~; re 7 FA ~ ~; re 9 A ~ ~",
    ),
    (
        "connection that the server closes",
        "OPEN; re 3 FA ~ ~ d5; re 4 A ~ ~; re 4 FA ~ ~; re 6 A ~ ~",
    ),
    ("reset by the client", "OPEN; re 2 R ~; re 3 A ~ ~ d1; a:40000 > b:80 A 1001 5001 d1"),
    ("reset by the server", "OPEN; re 3 RA ~ ~; re 4 A ~ ~"),
    (
        "refused connection",
        "a:40000 > b:80 S 1000; re 1 RA 0 ~; a:40000 > b:80 S 2000; re 3 SA 5000 ~; re 4 A ~ ~",
    ),
    (
        "connection again from the same port",
        "OPEN; re 2 FA ~ ~; re 4 FA ~ ~; re 5 A ~ ~; a:40000 > b:80 S 90000; re 7 SA 70000 ~; re 8 A ~ ~",
    ),
    (
        "connections of two clients with one port",
        "a:40000 > b:80 S 1000; a2:40000 > b:80 S 1000; re 2 SA 7000 ~; re 1 SA 5000 ~; re 3 A ~ ~; re 4 A ~ ~ d9",
    ),
    (
        "simultaneous open",
        "a:40000 > b:80 S 1000; $1 > ^1 S 5000; a:40000 > b:80 SA 1000 5001; $1 > ^1 SA 5000 1001; a:40000 > b:80 A 1001 5001 d5",
    ),
    (
        "no connection",
        "a:40000 > b:80 A 1000 5000 d5; a:40000 > b:80 RA 1 1; a:40001 > b:80 SA 1 1; a:40002 > b:80 FA 1 1",
    ),
    (
        "options",
        "a:40000 > b:80 S 1000 mss1460 s7 sack ts100; re 1 SA 5000 ~ mss1400 s9 sack ts700; re 2 A ~ ~ ts101 d9",
    ),
    ("urgent data", "OPEN; re 2 UPA ~ ~ d7"),
    ("ping", "a:7 > b:0 echo d32; re 1 reply d32; a:7 > b:0 echo d32; re 3 reply d32"),
    (
        "pings of two clients with one identifier",
        "a:7 > b echo; a2:7 > b echo; re 2 reply; re 1 reply",
    ),
    ("a reply of another host", "a:7 > b echo; b2:7 > p:7 reply; re 1 reply; re 1 reply"),
    ("reply without request", "a:7 > b reply; b:7 > p:7 reply"),
    ("timestamps", "a:7 > b stamp; re 1 stamped"),
    ("TTL", "a:40000 > b:53 udp t2; a:40000 > b:53 udp t1; a:40000 > b:80 S 1 t1; a:7 > b echo t1"),
    (
        "protocols without ports",
        "a > b p50 d20; re 1 p50 d20; a > b p47 d20; re 3 p47 d9; b > p p51",
    ),
    ("one host for a protocol", "a > b p50 d20; a2 > b p50 d20; re 1 p50; a2 > b2 p50; re 4 p50"),
    // Checksums.
    (
        "UDP with a wrong checksum",
        "a:40000 > b:53 udp d5; re 1 udp d5 x; re 1 udp d5; a:40000 > b:53 udp d6 x",
    ),
    ("TCP with a wrong checksum", "OPEN; re 2 A ~ ~ d9 x; re 2 A ~ ~ d9"),
    ("first datagram with a wrong checksum", "a:40000 > b:53 udp d5 x; a:40000 > b:53 udp d5"),
    // Fragments in their order.
    (
        "UDP in fragments",
        "a:40000 > b:53 udp d64 i7 l24 m; a:40000 > b:53 udp d64 i7 o24 l24 m; a:40000 > b:53 udp d64 i7 o48; re 3 udp d80 i9 l40 m; re 3 udp d80 i9 o40",
    ),
    (
        "UDP in fragments of a known flow",
        "a:40000 > b:53 udp; a:40000 > b:53 udp d64 i7 l24 m; a:40000 > b:53 udp d64 i7 o24; re 1 udp d80 i9 l40 m; re 1 udp d80 i9 o40",
    ),
    ("TCP in fragments", "OPEN; re 2 A ~ ~ d100 i7 l64 m; re 2 A ~ ~ d100 i7 o64; re 5 A ~ ~"),
    (
        "ping in fragments",
        "a:7 > b echo d64 i7 l40 m; a:7 > b echo d64 i7 o40; re 2 reply d64 i8 l40 m; re 2 reply d64 i8 o40",
    ),
    (
        "fragments to a forward",
        "b:9 > f:6003 udp d64 i7 l24 m; b:9 > f:6003 udp d64 i7 o24; re 2 udp d64 i8 l24 m; re 2 udp d64 i8 o24",
    ),
    ("protocol without ports in fragments", "a > b p50 d64 i7 l40 m; a > b p50 d64 i7 o40"),
    // Forwards.
    ("forward", "FORWARD; re 2 A ~ ~ d10; re 4 A ~ ~ d500; re 5 FA ~ ~; re 6 FA ~ ~; re 7 A ~ ~"),
    (
        "ports of forwards",
        "b:9 > f:8081 S 1; b:9 > f:8080 udp; b:9 > f:6000 S 1; b:9 > f:5999 udp; b:9 > f:6010 udp; b > f echo; b > f p47",
    ),
    (
        "a range of forwards",
        "b:9 > f:6000 udp d1; b:9 > f:6009 udp d2; b2:9 > f:6005 udp d3; re 1 udp d4; re 2 udp d5; re 3 udp d6",
    ),
    (
        "two clients of a forward",
        "b:40000 > f:8080 S 1; b2:40000 > f:8080 S 1; re 2 SA 7 ~; re 1 SA 5 ~; re 3 A ~ ~; re 4 A ~ ~ d1",
    ),
    ("segments to a forward", "b:9 > f:8080 A 1 1; b:9 > f:8080 R 1; b:9 > f:8080 FA 1 1"),
    (
        "forward that refuses",
        "b:9 > f:8080 S 1000; re 1 RA 0 ~; b:9 > f:8080 S 2000; re 3 SA 1 ~; re 4 A ~ ~",
    ),
    ("a server that asks from its port", "c:7003 > b:53 udp d4; re 1 udp d5"),
    (
        "a server that asks from another port",
        "c:40000 > b:53 udp d4; re 1 udp d5; c:40001 > b:80 S 1; re 3 SA 5 ~; re 4 A ~ ~",
    ),
    ("forward with TTL 1", "b:9 > f:6000 udp t1; b:9 > f:8080 S 1 t1; b:9 > f:6000 udp t2"),
    ("forward by its inside address", "b:9 > c:7000 udp d3; re 1 udp d4"),
    ("client by its inside address", "b:9 > a:7000 udp d3; re 1 udp d4"),
    ("answers to the inside address", "a:40000 > b:53 udp; b:53 > a:40000 udp; re 1 udp"),
    // One for another.
    (
        "one for another from outside",
        "b:9 > o:53 udp d4; re 1 udp d5; b:9 > o:80 S 1; re 3 SA 5 ~; re 4 A ~ ~; b:7 > o echo d9; re 6 reply d9; b > o p50; re 8 p50",
    ),
    (
        "one for another from inside",
        "s:9 > b:53 udp d4; re 1 udp d5; s:9 > b:80 S 1; re 3 SA 5 ~; re 4 A ~ ~; s:7 > b echo d9; re 6 reply d9; s > b p50; re 8 p50",
    ),
    ("one for another, others answer", "s:9 > b:53 udp; b2:1 > o:9 udp; b:54 > o:9 udp; re 1 udp"),
    (
        "one for another, errors",
        "b:9 > o:53 udp d20; error port on 1; s:9 > b:53 udp d20; error port on 3; s:7 > b echo; error expired on 5 by b2",
    ),
    (
        "one for another in fragments",
        "s:9 > b:53 udp d64 i7 l24 m; s:9 > b:53 udp d64 i7 o24; b:9 > o:53 udp d64 i7 l24 m; b:9 > o:53 udp d64 i7 o24",
    ),
    // Hairpins.
    (
        "hairpin",
        "a:40000 > f:8080 S 1000; re 1 SA 5000 ~; re 2 A ~ ~; re 2 A ~ ~ d100; re 4 A ~ ~ d9; re 5 FA ~ ~; re 6 FA ~ ~; re 7 A ~ ~",
    ),
    (
        "hairpin by UDP",
        "a:40000 > f:6004 udp d4; re 1 udp d5; a:40000 > f:6004 udp d6; a:40000 > f:5999 udp",
    ),
    ("hairpin of the server itself", "c:40000 > f:8080 S 1000; re 1 SA 5000 ~; re 2 A ~ ~ d5"),
    (
        "hairpin to one for another",
        "a:40000 > o:53 udp d4; re 1 udp d5; a:7 > o echo d6; re 3 reply d6; a:40000 > o:80 S 1; re 5 SA 5 ~; re 6 A ~ ~",
    ),
    (
        "hairpin of one for another",
        "s:9 > f:6000 udp d4; re 1 udp d5; s:9 > f:8080 S 1; re 3 SA 5 ~; re 4 A ~ ~",
    ),
    ("hairpin to itself", "s:9 > o:10 udp d4; re 1 udp d5"),
    ("hairpin to a client", "a:40000 > b:53 udp; a2:9 > ^1 udp; a2:9 > p:1 udp; re 1 udp"),
    (
        "hairpin, errors",
        "a:40000 > f:6004 udp d4; error port on 1; re 1 udp d30; error port on 3; a:40000 > o:53 udp d4; error too-big on 5",
    ),
    (
        "hairpin in fragments",
        "a:9 > f:6003 udp d64 i7 l24 m; a:9 > f:6003 udp d64 i7 o24; re 2 udp d64 i8 l24 m; re 2 udp d64 i8 o24",
    ),
    ("hairpin with TTL 1", "a:9 > f:6000 udp t1; a:9 > f:6000 udp t2"),
    // ICMP errors.
    (
        "errors about UDP",
        "a:40000 > b:53 udp d20; error port on 1; error too-big on 1; error expired on 1 by b2; error parameter on 1; error prohibited on 1",
    ),
    (
        "errors about a connection",
        "OPEN; re 2 A ~ ~ d100; error too-big on 4; error expired on 4 by b2; error port on 4; re 4 A ~ ~",
    ),
    ("errors about a SYN", "a:40000 > b:80 S 1000; error port on 1; re 1 SA 5 ~"),
    (
        "errors about a ping",
        "a:7 > b echo d9; error expired on 1 by b2; error port on 1; re 1 reply d9",
    ),
    (
        "errors about other protocols",
        "a > b p47 d20; error too-big on 1; error port on 1 by b2; re 1 p47",
    ),
    (
        "errors of clients",
        "a:40000 > b:53 udp; re 1 udp d20; error port on 2; error too-big on 2; re 1 udp",
    ),
    ("errors of clients about TCP", "OPEN; re 3 A ~ ~ d100; error too-big on 4; error port on 4"),
    ("errors of clients about pings", "a:7 > b echo; re 1 reply d9; error port on 2"),
    (
        "errors of servers",
        "b:9 > f:6000 udp d20; error port on 1; b:9 > f:8080 S 7; error port on 3; error expired on 3 by c",
    ),
    (
        "errors about answers of servers",
        "b:9 > f:6000 udp; re 1 udp d30; error port on 2; error expired on 2 by b2",
    ),
    (
        "errors of routers inside",
        "a:40000 > b:53 udp; re 1 udp d30; error expired on 2 by a2; b:9 > f:6000 udp d9; error expired on 4 by s",
    ),
    (
        "short quotes",
        "a:40000 > b:53 udp d20; error port on 1 cut8; error port on 1 cut7; error port on 1 cut4; error port on 1 cut0",
    ),
    ("errors with a wrong checksum", "a:40000 > b:53 udp d20; error port on 1 x; error port on 1"),
    (
        "errors about nothing known",
        "a:40000 > b:53 udp; b:9 > p:40000 udp; re 1 udp d9; error port on 3; error redirect on 1; error quench on 1",
    ),
    (
        "errors about fragments",
        "a:9 > b:53 udp d64 i7 l24 m; a:9 > b:53 udp d64 i7 o24; error expired on 2 by b2; error too-big on 2",
    ),
    ("errors about a reset flow", "OPEN; re 3 RA ~ ~; re 2 R ~; error port on 1; error port on 3"),
];
