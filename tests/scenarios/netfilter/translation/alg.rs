//! Scripts for gateways of FTP and TFTP.

/// A control connection from inside, and one from outside: steps 1 to 6. Commands begin behind a line of either side:
/// netfilter does not read the first one.
const OPEN: &str = "a:40000 > b:21 S 1000; re 1 SA 5000 ~; re 2 A ~ ~; re 3 PA ~ ~ \"220 Ready/\";
    re 4 PA ~ ~ \"USER guest/\"; re 5 A ~ ~";
const SERVE: &str = "b:40000 > f:21 S 1000; re 1 SA 5000 ~; re 2 A ~ ~; re 3 PA ~ ~ \"220 Ready/\";
    re 4 PA ~ ~ \"USER guest/\"; re 5 A ~ ~";

/// The steps of a script.
pub fn steps(text: &str) -> Vec<String> {
    let text = text.replace("OPEN", OPEN).replace("SERVE", SERVE);
    text.split(';').map(|step| step.trim().to_owned()).collect()
}

/// All scripts. 156,64 is port 40000.
pub const CASES: &[(&str, &str)] = &[
    (
        "active",
        "OPEN; re 6 PA ~ ~ \"PORT {a,},156,65/\"; re 7 PA ~ ~ \"200 OK/\"; b:20 > !7 S 70; re 9 SA 90 ~; re 10 A ~ ~ d100; re 11 A ~ ~; re 11 FA ~ ~; re 13 A ~ ~; re 8 PA ~ ~ \"QUIT/\"; re 15 FA ~ ~; re 16 FA ~ ~; re 17 A ~ ~",
    ),
    (
        "active, extended",
        "OPEN; re 6 PA ~ ~ \"EPRT |1|{a.}|40001|/\"; re 7 A ~ ~; b:20 > !7 S 70; re 9 SA 90 ~; re 8 PA ~ ~ \"NOOP/\"; re 11 A ~ ~",
    ),
    (
        "active, twice",
        "OPEN; re 6 PA ~ ~ \"PORT {a,},156,65/\"; re 7 A ~ ~; re 8 PA ~ ~ \"PORT {a,},156,66/\"; re 9 A ~ ~; b:20 > !9 S 70; re 11 SA 90 ~; re 10 PA ~ ~ \"NOOP/\"; re 13 A ~ ~; b:20 > !7 S 70",
    ),
    (
        "active, again",
        "OPEN; a:40000 > b:21 PA 1013 5012 \"PORT {a,},156,65/\"; a:40000 > b:21 PA 1013 5012 \"PORT {a,},156,65/\"; re 8 A ~ ~; re 9 PA ~ ~ \"NOOP/\"; re 10 A ~ ~; b:20 > !7 S 70",
    ),
    (
        "active, the acknowledgement is late",
        "OPEN; re 6 PA ~ ~ \"PORT {a,},156,65/\"; re 5 A ~ ~; re 7 A ~ ~; re 9 PA ~ ~ \"NOOP/\"; re 10 A ~ ~",
    ),
    (
        "active, of another port",
        "OPEN; re 6 PA ~ ~ \"PORT {a,},156,65/\"; b:2020 > !7 S 70; b:20 > !7 S 70; re 9 SA 90 ~",
    ),
    (
        "active, from another host",
        "OPEN; re 6 PA ~ ~ \"PORT {a,},156,65/\"; b2:20 > !7 S 70; b:20 > !7 S 70; re 9 SA 90 ~",
    ),
    (
        "active, one data connection",
        "OPEN; re 6 PA ~ ~ \"PORT {a,},156,65/\"; b:20 > !7 S 70; b:22 > !7 S 70",
    ),
    (
        "active, not by TCP",
        "OPEN; re 6 PA ~ ~ \"PORT {a,},156,65/\"; b:20 > !7 udp; b:20 > !7 A 1 1",
    ),
    ("active, lower case", "OPEN; re 6 PA ~ ~ \"port {a,},156,65/\"; b:20 > !7 S 70"),
    (
        "active, for another host",
        "OPEN; re 6 PA ~ ~ \"PORT {b2,},156,65/\"; re 7 A ~ ~; re 8 PA ~ ~ \"PORT {a2,},156,65/\"; b:20 > p:40001 S 70",
    ),
    ("active, to a low port", "OPEN; re 6 PA ~ ~ \"PORT {a,},0,80/\"; b:20 > !7 S 70"),
    ("active, too few numbers", "OPEN; re 6 PA ~ ~ \"PORT {a,},156/\"; re 7 A ~ ~"),
    ("active, a number beyond a byte", "OPEN; re 6 PA ~ ~ \"PORT {a,},256,65/\"; re 7 A ~ ~"),
    (
        "active, extended, of an unknown family",
        "OPEN; re 6 PA ~ ~ \"EPRT |9|{a.}|40001|/\"; re 7 A ~ ~",
    ),
    (
        "active, split",
        "OPEN; re 6 PA ~ ~ \"PORT 198,18\"; re 7 A ~ ~; re 8 PA ~ ~ \",64,1,156,65/\"; re 9 A ~ ~; b:20 > p:40001 S 70",
    ),
    (
        "active, by the server",
        "OPEN; re 6 A ~ ~ \"NOOP/\"; re 7 PA ~ ~ \"PORT {b,},156,65/\"; re 8 A ~ ~",
    ),
    ("active, a wrong checksum", "OPEN; re 6 PA ~ ~ x \"PORT {a,},156,65/\""),
    (
        "passive, server outside",
        "OPEN; re 6 PA ~ ~ \"PASV/\"; re 7 PA ~ ~ \"227 Entering Passive Mode ({b,},156,65)/\"; re 8 A ~ ~; a:40002 > !8 S 70; re 10 SA 90 ~; re 11 A ~ ~",
    ),
    (
        "extended passive, server outside",
        "OPEN; re 6 PA ~ ~ \"EPSV/\"; re 7 PA ~ ~ \"229 Extended (|||40001|)/\"; re 8 A ~ ~; a:40002 > !8 S 70; re 10 SA 90 ~",
    ),
    (
        "passive, server inside",
        "SERVE; re 6 PA ~ ~ \"PASV/\"; re 7 PA ~ ~ \"227 Entering Passive Mode ({c,},156,65)/\"; re 8 A ~ ~; b:40002 > !8 S 70; re 10 SA 90 ~; re 11 A ~ ~ d9; re 9 PA ~ ~ \"226 Done/\"; re 13 A ~ ~",
    ),
    (
        "extended passive, server inside",
        "SERVE; re 6 PA ~ ~ \"EPSV/\"; re 7 PA ~ ~ \"229 Extended (|||40001|)/\"; re 8 A ~ ~; b:40002 > !8 S 70; re 10 SA 90 ~; b2:40002 > !8 S 70",
    ),
    (
        "active, server inside",
        "SERVE; re 6 PA ~ ~ \"PORT {b,},156,65/\"; re 7 PA ~ ~ \"200 OK/\"; c:20 > !7 S 70; re 9 SA 90 ~; re 10 A ~ ~ d9",
    ),
    (
        "errors about a changed text",
        "OPEN; re 6 PA ~ ~ \"PORT {a,},156,65/\"; error too-big on 7; re 7 A ~ ~; re 9 PA ~ ~ \"NOOP/\"; error too-big on 10",
    ),
    (
        "TFTP",
        "a:40000 > b:69 udp \"_\u{1}file_octet_\"; $1 > ^1 udp d9; b:5000 > ^1 udp d100; re 3 udp d4; b:5000 > ^1 udp d100; b:5001 > ^1 udp d100; b2:5000 > ^1 udp d100",
    ),
    (
        "TFTP, from another host",
        "a:40000 > b:69 udp \"_\u{1}file_octet_\"; b2:5000 > ^1 udp d9; b:5000 > ^1 udp d100; re 3 udp d4",
    ),
    (
        "TFTP, two requests",
        "a:40000 > b:69 udp \"_\u{1}file_octet_\"; a:40000 > b:69 udp \"_\u{2}other_octet_\"; b:5000 > ^2 udp d100; re 3 udp d4; b:5001 > ^2 udp d9",
    ),
    (
        "TFTP of two clients",
        "a:40000 > b:69 udp \"_\u{1}file_octet_\"; a2:40000 > b:69 udp \"_\u{1}file_octet_\"; b:5000 > ^1 udp d100; b:5001 > ^2 udp d100; re 3 udp d4; re 4 udp d4",
    ),
    ("no request of TFTP", "a:40000 > b:69 udp \"_\u{4}no_\"; b:5000 > ^1 udp d100"),
];
