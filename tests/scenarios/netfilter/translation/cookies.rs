//! Scripts for connections that begin with cookies.

/// A handshake that reaches the server, with options of both: steps 1 to 3.
const OPEN: &str = "a:40000 > b:8000 S 1000 w29200 mss1460 s7 sack ts100; re 1 A ~ ~ w229 ts101;
    re 2 SA 5000 ~ w28960 mss1400 s8 sack ts700";
/// The same without options but the size of segments.
const PLAIN: &str = "a:40000 > b:8000 S 1000 mss1460; re 1 A ~ ~; re 2 SA 5000 ~ mss1460";

/// The steps of a script.
pub fn steps(text: &str) -> Vec<String> {
    let text = text.replace("OPEN", OPEN).replace("PLAIN", PLAIN);
    text.split(';').map(|step| step.trim().to_owned()).collect()
}

/// All scripts.
pub const CASES: &[(&str, &str)] = &[
    (
        "handshake",
        "OPEN; re 1 A ~ ~ w229 ts102 d100; re 4 A ~ ~ w113 ts701 d50; re 5 A ~ ~ w229 ts103",
    ),
    ("handshake without options", "PLAIN; re 1 A ~ ~ d100; re 4 A ~ ~ d50; re 5 A ~ ~"),
    (
        "close",
        "PLAIN; re 1 A ~ ~ d10; re 4 A ~ ~; re 1 FA ~10 ~; re 6 A ~ ~; re 6 FA ~ ~; re 8 A ~ ~",
    ),
    ("close by the server", "PLAIN; re 3b FA ~ ~; re 4 A ~ ~; re 4 FA ~ ~; re 6 A ~ ~"),
    (
        "only a SYN",
        "a:40000 > b:8000 S 1000 mss1460; a:40000 > b:8000 S 1000 mss1460; a:40000 > b:8000 S 2000 mss1460",
    ),
    (
        "a wrong cookie",
        "a:40000 > b:8000 S 1000 mss1460; re 1 A ~ ~ ; a:40001 > b:8000 A 1001 77; a:40001 > b:8000 A 1001 4294967295 d9",
    ),
    (
        "a wrong acknowledgement",
        "a:40000 > b:8000 S 1000 mss1460; a:40000 > b:8000 A 1001 12345; re 1 A ~ ~",
    ),
    ("another client's cookie", "a:40000 > b:8000 S 1000 mss1460; re 1 A ~ ~ @40001; re 1 A ~ ~"),
    ("a cookie again", "PLAIN; re 1 A ~ ~; re 1 A ~ ~"),
    (
        "no SYN",
        "a:40000 > b:8000 FA 1 1; a:40000 > b:8000 SA 1 1; a:40000 > b:8000 RA 1 1; a:40000 > b:8000 R 1; a:40000 > b:8000 FUP 1; a:40000 > b:8000 - 1",
    ),
    (
        "a SYN with other flags",
        "a:40000 > b:8000 SF 1; a:40000 > b:8000 SR 1; a:40000 > b:8000 SFRAUP 1",
    ),
    (
        "sizes of segments",
        "a:40000 > b:8000 S 1000; re 1 A ~ ~; a:40001 > b:8000 S 1000 mss536; re 3 A ~ ~; a:40002 > b:8000 S 1000 mss1300; re 5 A ~ ~; a:40003 > b:8000 S 1000 mss8960; re 7 A ~ ~",
    ),
    (
        "timestamps alone",
        "a:40000 > b:8000 S 1000 mss1460 ts100; re 1 A ~ ~ ts101; re 2 SA 5000 ~ mss1460 ts700; re 1 A ~ ~ ts102 d10",
    ),
    (
        "options without timestamps",
        "a:40000 > b:8000 S 1000 mss1460 s7 sack; re 1 A ~ ~; re 2 SA 5000 ~ mss1460 s8 sack; re 1 A ~ ~ d10",
    ),
    ("scale alone", "a:40000 > b:8000 S 1000 mss1460 s3; re 1 A ~ ~"),
    (
        "a server without options",
        "a:40000 > b:8000 S 1000 w29200 mss1460 s7 sack ts100; re 1 A ~ ~ w229 ts101; re 2 SA 5000 ~ mss1400; re 1 A ~ ~ w229 ts102 d10; re 4 A ~ ~ d5",
    ),
    ("refused by the server", "a:40000 > b:8000 S 1000 mss1460; re 1 A ~ ~; re 2 RA 0 ~"),
    (
        "a silent server",
        "a:40000 > b:8000 S 1000 mss1460; re 1 A ~ ~; re 1 A ~ ~; re 1 A ~ ~ d10; re 2 SA 5000 ~; re 1 A ~ ~ d10",
    ),
    (
        "data at once",
        "a:40000 > b:8000 S 1000 mss1460; re 1 A ~ ~ d10; re 2 SA 5000 ~ mss1460; re 1 A ~ ~ d10",
    ),
    ("reset by the client", "PLAIN; re 1 R ~; re 1 A ~ ~ d10"),
    ("reset by the server", "PLAIN; re 2 RA 5001 ~; re 1 A ~ ~ d10"),
    ("the server's SYN-ACK again", "PLAIN; re 2 SA 5000 ~ mss1460; re 1 A ~ ~ d10"),
    ("a wrong SYN-ACK", "a:40000 > b:8000 S 1000 mss1460; re 1 A ~ ~; re 2 SA 5000 77"),
    (
        "errors about the server's segments",
        "PLAIN; re 1 A ~ ~ d10; re 4 A ~ ~ d100; error too-big on 5; error too-big on 4",
    ),
    ("another number with a cookie", "a:40000 > b:8000 S 1000 mss1460; re 1 A ~1 ~"),
    (
        "another scale of the server",
        "a:40000 > b:8000 S 1000 w29200 mss1460 s7 sack ts100; re 1 A ~ ~ w229 ts101; re 2 SA 5000 ~ w28960 mss1400 s9 sack ts700; re 1 A ~ ~ w229 ts102 d100; re 4 A ~ ~ w57 ts701 d50",
    ),
    ("another port", "a:40000 > b:9000 udp; re 1 udp"),
];
