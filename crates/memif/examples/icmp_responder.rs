//! Answers ARP requests and pings for an address.
//!
//! `icmp_responder SOCKET ADDRESS [master]`: connects to (or listens on) SOCKET.
use std::net::Ipv4Addr;
use std::time::Duration;

use stoa_memif::{Config, Event, Memif, Role, wait};

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// Turns a request for `ours` into its reply.
fn answer(frame: &mut [u8], ours: [u8; 4]) -> Option<()> {
    let sender = *frame.get(6..)?.first_chunk::<6>()?;
    match (frame.get(12..14)?, frame.get(14..)?) {
        // RFC 826: an Ethernet and IPv4 request for our address.
        ([8, 6], [0, 1, 8, 0, 6, 4, 0, 1, ..]) if frame.get(38..42)? == ours => {
            frame.copy_within(22..32, 32); // the sender becomes the target
            frame[21] = 2; // a reply
            frame[22..28].copy_from_slice(&MAC);
            frame[28..32].copy_from_slice(&ours);
        }
        // RFC 792: an echo request to us, in IPv4 without options.
        ([8, 0], [0x45, ..]) if frame.get(34)? == &8 && frame[23] == 1 && frame[30..34] == ours => {
            frame.copy_within(26..30, 30);
            frame[26..30].copy_from_slice(&ours);
            frame[34] = 0; // a reply; RFC 1624: the checksum grows by as much
            let sum = u32::from(u16::from_be_bytes([*frame.get(36)?, *frame.get(37)?])) + 0x0800;
            frame[36..38].copy_from_slice(&((sum + (sum >> 16)) as u16).to_be_bytes());
        }
        _ => return None,
    }
    frame[..6].copy_from_slice(&sender);
    frame[6..12].copy_from_slice(&MAC);
    Some(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (socket, ours) = arguments.next().zip(arguments.next()).ok_or("SOCKET ADDRESS?")?;
    let ours = ours.parse::<Ipv4Addr>()?.octets();
    let role = if arguments.next() == Some("master".into()) { Role::Master } else { Role::Slave };
    let mut memif = Memif::open(&Config { socket, role, ..Config::default() })?;
    let (mut receivers, mut senders) = (Vec::new(), Vec::new());
    loop {
        match memif.service() {
            Some(Event::Up(rings)) => (receivers, senders) = (rings.receivers, rings.senders),
            Some(Event::Down(_)) => (receivers, senders) = (Vec::new(), Vec::new()),
            None => {}
        }
        for (receiver, sender) in receivers.iter_mut().zip(&mut senders) {
            let mut batch = sender.batch();
            receiver.receive(|frame| {
                let mut frame = frame.to_vec();
                answer(&mut frame, ours).and_then(|()| batch.put(&frame).ok());
            });
        }
        wait(&memif, &mut receivers, Duration::from_secs(1))?;
    }
}
