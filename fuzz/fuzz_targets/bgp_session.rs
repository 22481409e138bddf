//! BGP sessions with arbitrary bytes: no panic, no reads beyond the buffer, and the reported routes match the RIB.
#![no_main]

use std::net::Ipv4Addr;
use std::time::Instant;

use libfuzzer_sys::fuzz_target;
use stoa_bgp::{Selection, LocalConfig, Rib, Session};

/// OPEN of AS 65000 with IPv4, IPv6 and add-path for both, then KEEPALIVE: most code needs an established session.
const BEGIN: &[u8] = &[
    255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 0, 59, 1, 4, 253, 232,
    0, 90, 198, 51, 100, 1, 30, 2, 28, 1, 4, 0, 1, 0, 1, 1, 4, 0, 2, 0, 1, 65, 4, 0, 0, 253, 232, 69, 8, 0,
    1, 1, 3, 0, 2, 1, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 0,
    19, 4,
];

/// Feeds bytes in chunks, as a socket returns them; returns whether the session stays up.
fn feed(session: &mut Session, rib: &mut Rib, bytes: &[u8], piece: usize) -> bool {
    let now = Instant::now();
    let (mut buffer, mut ends) = (Vec::new(), false);
    for piece in bytes.chunks(piece.max(1)) {
        buffer.extend(piece);
        match session.receive(&buffer, now, rib) {
            Ok(read) => drop(buffer.drain(..read)),
            Err(_) => ends = true,
        }
        for run in rib.drain() {
            assert!(!run.ip4.is_empty() || !run.ip6.is_empty() || run.selection == Selection::Unreachable || rib.counts().paths == 0);
        }
        if ends {
            assert!(!session.is_established() && session.deadline().is_none());
            return false;
        }
    }
    true
}

fuzz_target!(|data: (bool, bool, u8, &[u8])| {
    let (begun, add_paths, piece, bytes) = data;
    let local = LocalConfig {
        as_number: 65_000,
        router_id: Ipv4Addr::LOCALHOST,
        hold_time_s: 90,
        restart_time_s: 120,
        add_paths,
    };
    let (mut session, mut rib) = (Session::new(local, Instant::now()), Rib::new(piece, None));
    if begun {
        assert!(feed(&mut session, &mut rib, BEGIN, BEGIN.len()));
        assert!(session.is_established());
    }
    // Message headers are hard to guess: the bytes are raw or the bodies of UPDATE messages.
    if piece % 2 == 0 {
        feed(&mut session, &mut rib, bytes, usize::from(piece));
        return;
    }
    for body in bytes.chunks(usize::from(piece) + 40) {
        let length = u16::try_from(19 + body.len()).expect("short");
        let message = [&[0xff; 16][..], &length.to_be_bytes(), &[2], body].concat();
        if !feed(&mut session, &mut rib, &message, message.len()) {
            return;
        }
    }
});
