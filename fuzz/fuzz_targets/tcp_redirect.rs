//! The TCP server without state: each segment gets at most one, which is right and no longer than the answer.
#![no_main]

use std::net::Ipv6Addr;

use libfuzzer_sys::fuzz_target;
use stoa_wire::checksum::Pseudo;
use stoa_wire::tcp::{self, flag};
use stoa_wire::tcp_redirect::{LONGEST, Server};

fuzz_target!(|input: ([u32; 2], &[u8])| {
    let (numbers, bytes) = input;
    let Ok(view) = tcp::parse(bytes) else { return };
    let pseudo =
        Pseudo::Ip6 { source: Ipv6Addr::LOCALHOST, destination: Ipv6Addr::UNSPECIFIED };
    let server = Server { answer: b"HTTP/1.1 302 Found\r\n\r\n", numbers, segment_size: 1_220 };
    let mut out = [0; LONGEST];
    let Some(length) = server.reply(&mut out, &view, &pseudo) else { return };
    let reply = tcp::check(&out[..length.expect("it fits")], &pseudo).expect("a right segment");
    assert!(!view.has(flag::RST));
    assert!(reply.payload().is_empty() || reply.payload() == server.answer);
    assert_eq!(reply.destination_port(), view.source_port());
});
