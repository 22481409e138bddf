//! Counts received frames, and discards them.
//!
//! `packet_counter SOCKET [master]`: connects to (or listens on) SOCKET, and prints each second.
use std::time::{Duration, Instant};

use stoa_memif::{Config, Event, Memif, Role, wait};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let socket = arguments.next().ok_or("usage: packet_counter SOCKET [master]")?;
    let role = match arguments.next().as_deref() {
        None => Role::Slave,
        Some("master") => Role::Master,
        Some(other) => return Err(format!("{other}: give master, or nothing").into()),
    };
    let mut memif = Memif::open(&Config { socket, role, ..Config::default() })?;
    let mut receivers = Vec::new();
    let (mut packets, mut bytes, mut since) = (0_u64, 0_usize, Instant::now());
    loop {
        match memif.service() {
            Some(Event::Up(rings)) => receivers = rings.receivers,
            Some(Event::Down(_)) => receivers.clear(),
            None => {}
        }
        for receiver in &mut receivers {
            packets += receiver.receive(|frame| bytes += frame.len()) as u64;
        }
        if since.elapsed() >= Duration::from_secs(1) {
            println!("{}: {packets} packets, {bytes} bytes", memif.detail());
            (packets, bytes, since) = (0, 0, Instant::now());
        }
        wait(&memif, &mut receivers, Duration::from_millis(100))?;
    }
}
