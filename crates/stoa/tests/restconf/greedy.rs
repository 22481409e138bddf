//! Slow and greedy clients: each has limits, and others are served meanwhile.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use base64::Engine;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, connect, socket};
use serde_json::{Value, json};

use crate::https::Router;
use crate::testbed::{JSON, LAN, ROOT, router};

/// Maximum response time for a normal client: less than any limit that a greedy one could make it wait for, and enough
/// for a busy machine.
const SOON: Duration = Duration::from_secs(8);

fn who() -> String {
    base64::engine::general_purpose::STANDARD.encode(ROOT)
}

/// What the server sends until it closes; empty when it only closes.
fn rest(stream: &mut impl Read) -> String {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A normal client with a cached password, at another address of this machine, gets a response in time.
fn answers(router: &Router) {
    let begun = Instant::now();
    let mut stream = router.connect_over(from_host(2, router.port));
    write!(
        stream,
        "GET {LAN} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic {}\r\n\
         Connection: close\r\n\r\n",
        who()
    )
    .unwrap();
    stream.flush().unwrap();
    let response = rest(&mut stream);
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
}

#[test]
fn slow_clients_are_disconnected() {
    let router = router();
    // The password is cached from here on, so that argon2 is not measured.
    assert_eq!(router.ask(ROOT, "GET", LAN, &[], "").status, 200);
    let begun = Instant::now();
    let mut head = router.connect();
    head.sock.set_read_timeout(Some(Duration::from_secs(90))).unwrap();
    write!(head, "GET {LAN} HTTP/1.1\r\nHost: loc").unwrap();
    head.flush().unwrap();
    let mut body = router.connect();
    body.sock.set_read_timeout(Some(Duration::from_secs(90))).unwrap();
    write!(
        body,
        "PUT {LAN}/description HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic {}\r\n\
         Content-Type: application/yang-data+json\r\nContent-Length: 1000\r\n\r\n{{\"ietf",
        who()
    )
    .unwrap();
    body.flush().unwrap();
    let mut silent = TcpStream::connect(("127.0.0.1", router.port)).unwrap();
    silent.set_read_timeout(Some(Duration::from_secs(90))).unwrap();
    answers(&router);
    assert_eq!(rest(&mut silent), "", "TLS handshake timed out");
    let response = rest(&mut body);
    assert!(
        response.starts_with("HTTP/1.1 408") && response.contains("ietf-restconf:errors"),
        "{response}"
    );
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    let response = rest(&mut head);
    assert!(response.is_empty() || response.starts_with("HTTP/1.1 408"), "{response}");
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    assert_eq!(router.ask(ROOT, "GET", &format!("{LAN}/description"), &[], "").status, 404);
}

#[test]
fn too_large_requests_are_refused() {
    let router = router();
    let limits = "/restconf/data/stoa-management:management/limits";
    let small = json!({ "stoa-management:limits": { "body-bytes": 2_048 } }).to_string();
    assert_eq!(router.ask(ROOT, "PATCH", limits, &[JSON], &small).status, 204);
    let large = json!({ "ietf-interfaces:description": "x".repeat(4_096) }).to_string();
    let refused = router.ask(ROOT, "PUT", &format!("{LAN}/description"), &[JSON], &large);
    assert_eq!((refused.status, refused.tag().as_str()), (413, "too-big"), "{refused:?}");
    assert_eq!(router.ask(ROOT, "GET", &format!("{LAN}/description"), &[], "").status, 404);
    // Headers: too many fields, a field that is too long, a URL that is too long.
    let many: String = (0..200).map(|it| format!("x-{it}: y\r\n")).collect();
    let heads = [
        format!("GET {LAN} HTTP/1.1\r\nHost: localhost\r\n{many}\r\n"),
        format!("GET {LAN} HTTP/1.1\r\nHost: localhost\r\nx: {}\r\n\r\n", "y".repeat(1 << 20)),
        format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "y".repeat(1 << 20)),
    ];
    for head in heads {
        let mut stream = router.connect();
        // The server may close before the request is sent.
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.flush());
        let response = rest(&mut stream);
        let status = response.split(' ').nth(1).unwrap_or_default();
        assert!(["", "400", "414", "431"].contains(&status), "{response}");
    }
    // Queries of quadratic cost are refused.
    let nested = format!("{LAN}?fields={}", vec!["a(b;c(d;e))"; 3_000].join(";"));
    let begun = Instant::now();
    assert_eq!(router.ask(ROOT, "GET", &nested, &[], "").status, 400);
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    answers(&router);
}

/// Whether the peer has closed.
fn is_closed(stream: &TcpStream) -> bool {
    let mut byte = [0];
    match stream.peek(&mut byte) {
        Ok(count) => count == 0,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    }
}

/// A connection from an address of this machine: 127.0.0.HOST.
fn from_host(host: u8, port: u16) -> TcpStream {
    let fd = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
    bind(fd.as_raw_fd(), &SockaddrIn::new(127, 0, 0, host, 0)).unwrap();
    connect(fd.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, port)).unwrap();
    TcpStream::from(fd)
}

#[test]
fn one_client_cannot_use_all_connections() {
    let router = router();
    assert_eq!(router.ask(ROOT, "GET", LAN, &[], "").status, 200);
    let flood: Vec<TcpStream> =
        (0..300).map(|_| TcpStream::connect(("127.0.0.1", router.port)).unwrap()).collect();
    flood.iter().for_each(|stream| stream.set_nonblocking(true).unwrap());
    let open = || flood.iter().filter(|stream| !is_closed(stream)).count();
    // A quarter of the 256; they are closed as well without a TLS handshake.
    router.wait("the others are closed", || open() <= 64);
    answers(&router);
    drop(flood);
    router.wait("it is let in again", || {
        let mut byte = [0];
        let stream = TcpStream::connect(("127.0.0.1", router.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        // The server sends nothing before TLS: silence means an open connection.
        stream.peek(&mut byte).is_err()
    });
}

#[test]
fn four_clients_cannot_keep_an_operator_out() {
    let router = router();
    assert_eq!(router.ask(ROOT, "GET", LAN, &[], "").status, 200);
    let flood: Vec<TcpStream> = (0..4 * 64)
        .map(|number| from_host(100 + (number % 4) as u8, router.port))
        .inspect(|stream| stream.set_nonblocking(true).unwrap())
        .collect();
    let open = || flood.iter().filter(|stream| !is_closed(stream)).count();
    // They have all of the 256, also the reserve, because they are on this machine.
    answers(&router);
    router.wait("the oldest makes room", || open() < 256);
    // Later ones do not replace a connection over which somebody has logged in.
    let ask = |more: &str| {
        let head = format!("GET {LAN} HTTP/1.1\r\nHost: localhost\r\n{more}");
        format!("{head}Authorization: Basic {}\r\n\r\n", who())
    };
    let mut own = router.connect_over(from_host(2, router.port));
    let mut status = [0; 12];
    own.write_all(ask("").as_bytes()).and_then(|()| own.flush()).unwrap();
    own.read_exact(&mut status).unwrap();
    let more: Vec<TcpStream> =
        (0..500).map(|number| from_host(104 + (number % 40) as u8, router.port)).collect();
    answers(&router);
    own.write_all(ask("Connection: close\r\n").as_bytes()).and_then(|()| own.flush()).unwrap();
    let both = rest(&mut own);
    assert!(both.contains("HTTP/1.1 200"), "{both}");
    drop((flood, more));
}

/// A frame of HTTP/2 (RFC 9113, section 4.1).
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = length[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

#[test]
fn requests_that_are_reset_at_once_are_bounded() {
    let router = router();
    assert_eq!(router.ask(ROOT, "GET", LAN, &[], "").status, 200);
    let before = resident_kib(&router);
    let mut stream = router.connect();
    // A server that stops reading has also given up.
    stream.sock.set_write_timeout(Some(Duration::from_secs(5))).unwrap();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    stream.write_all(&frame(4, 0, 0, &[])).unwrap();
    // GET https / of "a", by the static table of HPACK and one literal.
    let head = [0x82, 0x87, 0x84, 0x01, 0x01, b'a'];
    let mut sent = 0;
    for turn in 0..20_000_u32 {
        let id = 2 * turn + 1;
        let mut both = frame(1, 0x4 | 0x1, id, &head);
        both.extend(frame(3, 0, id, &8_u32.to_be_bytes()));
        // The server closes such a connection.
        if stream.write_all(&both).and_then(|()| stream.flush()).is_err() {
            break;
        }
        sent += 1;
        if turn % 5_000 == 0 {
            answers(&router);
        }
    }
    assert!(sent > 10, "{sent}");
    answers(&router);
    // An endless header block is refused as well.
    let mut stream = router.connect();
    // A server that stops reading has also given up.
    stream.sock.set_write_timeout(Some(Duration::from_secs(5))).unwrap();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    stream.write_all(&frame(4, 0, 0, &[])).unwrap();
    stream.write_all(&frame(1, 0x1, 1, &head)).unwrap();
    let field = [vec![0x00, 0x01, b'x', 0x7f, 0x80, 0x7e], vec![b'y'; 16_255]].concat();
    let cut = (0..1_000).any(|_| {
        let more = frame(9, 0, 1, &field[..field.len().min(16_384)]);
        stream.write_all(&more).and_then(|()| stream.flush()).is_err()
    });
    assert!(cut, "16 MiB of a head were taken");
    answers(&router);
    let grown = resident_kib(&router).saturating_sub(before);
    assert!(grown < 100 << 10, "{grown} KiB more");
}

/// Memory of the controller.
fn resident_kib(router: &Router) -> u64 {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_stoa"))
        .args(["status", "--json", "--socket"])
        .arg(router.path("stoa.sock"))
        .output()
        .unwrap();
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    let pid = status["controller_pid"].as_u64().unwrap_or_else(|| panic!("{status}"));
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn event_streams_have_limits() {
    let router = router();
    let mut streams = Vec::new();
    let mut statuses = Vec::new();
    for _ in 0..40 {
        let mut stream = router.connect();
        write!(
            stream,
            "GET /restconf/streams/configuration/json HTTP/1.1\r\nHost: localhost\r\n\
             Authorization: Basic {}\r\n\r\n",
            who()
        )
        .unwrap();
        stream.flush().unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        statuses.push(String::from_utf8_lossy(&head[9..]).into_owned());
        streams.push(stream);
    }
    let count = |status: &str| statuses.iter().filter(|one| *one == status).count();
    assert_eq!((count("200"), count("429")), (32, 8), "{statuses:?}");
    let before = resident_kib(&router);
    // Nobody reads these events: 2 MiB each of old and new value, for each of 32 streams.
    let comment = "/restconf/data/ietf-netconf-acm:nacm/rule-list=ops/rule=texts/comment";
    for turn in 0..8 {
        let text = format!("{turn}").repeat(2 << 20);
        let body = json!({ "ietf-netconf-acm:comment": text }).to_string();
        let put = router.ask(ROOT, "PUT", comment, &[JSON], &body);
        assert!([201, 204].contains(&put.status), "{put:?}");
    }
    let grown = resident_kib(&router).saturating_sub(before);
    assert!(grown < 300 << 10, "{grown} KiB more");
    drop(streams);
}
