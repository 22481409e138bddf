//! The frame that a generator writes: made once, then copied and patched with
//! destination and checksum for each packet.
//!
//! ```text
//! Ethernet 14 | VLAN 4, 8? | IPv4 20, GRE 4? | IPv4 20 or IPv6 40 | UDP 8 or TCP 24 | zeros
//! ```

use std::net::IpAddr;

use stoa_engine::Vector;
use stoa_engine::pool::{FRAME_MAX, HEADROOM, JUMBO_FRAME_MAX, SLOT};

use crate::config::GeneratorConfig;
use crate::error::OpenError;

/// Bytes that are copied at once: a cache line, which holds all headers of the small frames.
const LINE: usize = 64;
/// Source port: the first dynamic one (RFC 6335, section 6).
const SOURCE_PORT: u16 = 49_152;
/// Destination port: discard (RFC 863).
const DESTINATION_PORT: u16 = 9;
/// Initial TTL and hop limit.
const TTL: u8 = 64;
/// Bytes of the headers of a tunnel.
const OUTER: usize = 24;
const UDP: usize = 8;
/// Protocol number.
const TCP: u8 = 6;
/// With the option of the segment size (RFC 9293, section 3.7.1).
const SYN: usize = 24;

/// A frame without its destination.
pub(crate) struct Template {
    line: [u8; LINE],
    frame: Vec<u8>,
    destination_at: usize,
    checksum_at: usize,
    /// Whether the first line is all that is written: the frame has no more, or what is behind it
    /// does not matter.
    is_line: bool,
    /// Bytes that are written otherwise: the headers, or all that fits a plain buffer.
    copied: usize,
    /// Where the header of UDP or TCP begins.
    upper_at: usize,
    /// Of TCP over IPv4: where its checksum is, and the sum of what it covers, destination left out.
    syn: Option<(usize, u64)>,
    is_ip4: bool,
    /// Where the outer header begins, if there is one.
    outer_at: usize,
    /// Ones' complement sum of what the checksum covers, destination left out, in native order.
    sum: u64,
}

impl Template {
    /// Makes the frame that `config` describes; `mac` is the receiver when none is given.
    pub(crate) fn new(config: &GeneratorConfig, mac: [u8; 6]) -> Result<Self, OpenError> {
        let depth = config.senders.as_ref().map_or(config.vlan.min(1), |it| it.depth.into());
        let outer_at = 14 + 4 * usize::from(depth.min(2));
        let tunnels = config.senders.as_ref().and_then(|senders| senders.tunnels.as_ref());
        let outer = if tunnels.is_some() { OUTER } else { 0 };
        let ip = outer_at + outer;
        let upper = if config.syn { SYN } else { UDP };
        let headers = ip + upper + if config.source.is_ipv4() { 20 } else { 40 };
        let size = usize::from(config.frame) + outer;
        if size < headers || size > JUMBO_FRAME_MAX {
            let reason = format!("{size} bytes: give {headers} to {JUMBO_FRAME_MAX}");
            return Err(OpenError::Config { field: "frame", reason });
        }
        if config.syn && !config.source.is_ipv4() {
            let reason = "SYNs are packets of IPv4: give a source of it".to_owned();
            return Err(OpenError::Config { field: "syn", reason });
        }
        if config.vlan > 4094 {
            let reason = format!("{}: give 1 to 4094, or 0 for untagged", config.vlan);
            return Err(OpenError::Config { field: "vlan", reason });
        }
        let mut frame = vec![0; size.max(LINE)];
        frame[..6].copy_from_slice(&config.destination_mac.unwrap_or(mac));
        frame[6..12].copy_from_slice(&sender(mac));
        if depth > 1 {
            frame[12..14].copy_from_slice(&[0x88, 0xa8]);
        }
        if depth > 0 {
            frame[outer_at - 6..outer_at - 4].copy_from_slice(&[0x81, 0x00]);
            frame[outer_at - 4..outer_at - 2].copy_from_slice(&config.vlan.to_be_bytes());
        }
        if let Some(tunnels) = tunnels {
            // The ethertype at the end of the GRE header is written below.
            frame[outer_at - 2..outer_at].copy_from_slice(&[0x08, 0x00]);
            write_outer(&mut frame[outer_at..ip], tunnels.destination, (size - ip) as u16);
        }
        let udp = (size - headers + UDP) as u16;
        let mut syn = None;
        let (destination_at, checksum_at, sum) = match config.source {
            IpAddr::V4(source) if config.syn => {
                frame[ip - 2..ip].copy_from_slice(&[0x08, 0x00]);
                // What is behind it pads the frame.
                ip4(&mut frame[ip..], source.octets(), SYN as u16);
                frame[ip + 9] = TCP;
                write_syn(&mut frame[ip + 20..]);
                let pseudo = u64::from(u16::from(TCP).to_be()) + u64::from((SYN as u16).to_be());
                let covered = sum(&frame[ip + 12..ip + 20 + SYN]) + pseudo;
                syn = Some((ip + 36, covered));
                (ip + 16, ip + 10, sum(&frame[ip..ip + 20]))
            }
            IpAddr::V4(source) => {
                frame[ip - 2..ip].copy_from_slice(&[0x08, 0x00]);
                ip4(&mut frame[ip..], source.octets(), udp);
                // UDP over IPv4 may go without a checksum (RFC 768).
                write_udp(&mut frame[ip + 20..], udp);
                frame[ip + 26..ip + 28].copy_from_slice(&config.udp_checksum.to_be_bytes());
                (ip + 16, ip + 10, sum(&frame[ip..ip + 20]))
            }
            IpAddr::V6(source) => {
                frame[ip - 2..ip].copy_from_slice(&[0x86, 0xdd]);
                ip6(&mut frame[ip..], source.octets(), udp);
                write_udp(&mut frame[ip + 40..], udp);
                // Source, payload and the pseudo-header of RFC 8200, section 8.1.
                let pseudo = u64::from(17_u16.to_be()) + u64::from(udp.to_be());
                let covered = sum(&frame[ip + 8..ip + 24]) + sum(&frame[ip + 40..size]);
                (ip + 24, ip + 46, covered + pseudo)
            }
        };
        let mut line = [0; LINE];
        line.copy_from_slice(&frame[..LINE]);
        frame.truncate(size);
        let (is_ip4, upper_at) = (config.source.is_ipv4(), headers - upper);
        let copied = if config.mix.is_some() { headers } else { size.min(FRAME_MAX) };
        let is_line = size.min(copied) <= LINE;
        Ok(Self {
            line,
            frame,
            destination_at,
            checksum_at,
            is_line,
            copied,
            upper_at,
            syn,
            is_ip4,
            outer_at,
            sum,
        })
    }

    /// Bytes of a frame.
    pub(crate) fn size(&self) -> usize {
        self.frame.len()
    }

    /// Whether a frame needs a jumbo buffer.
    pub(crate) fn is_jumbo(&self) -> bool {
        self.frame.len() > FRAME_MAX
    }

    /// Writes what of a frame lies behind a plain buffer into the jumbo buffer of a lane.
    #[cold]
    pub(crate) fn write_tail(&self, vector: &mut Vector, lane: usize) {
        if let Some(tail) = self.frame.get(FRAME_MAX..) {
            vector.buffer_mut(lane)[SLOT..SLOT + tail.len()].copy_from_slice(tail);
        }
    }

    #[inline(always)]
    fn copy(&self, slot: &mut [u8; SLOT]) {
        if self.is_line {
            slot[HEADROOM..HEADROOM + LINE].copy_from_slice(&self.line);
        } else {
            let head = &self.frame[..self.copied];
            slot[HEADROOM..HEADROOM + head.len()].copy_from_slice(head);
        }
    }

    /// Writes a frame to an IPv4 destination into a buffer, after the headroom.
    #[inline(always)]
    pub(crate) fn write_ip4(&self, slot: &mut [u8; SLOT], destination: u32) {
        self.copy(slot);
        let destination = destination.to_be();
        let checksum = !fold(self.sum + u64::from(destination));
        put(slot, self.destination_at, destination.to_ne_bytes());
        put(slot, self.checksum_at, checksum.to_ne_bytes());
        if let Some((at, covered)) = self.syn {
            let checksum = !fold(covered + u64::from(destination));
            put(slot, at, checksum.to_ne_bytes());
        }
    }

    /// Writes a frame to an IPv6 destination into a buffer, after the headroom.
    #[inline(always)]
    pub(crate) fn write_ip6(&self, slot: &mut [u8; SLOT], destination: u128) {
        self.copy(slot);
        let destination = destination.to_be();
        let words = [0, 32, 64, 96].map(|shift| u64::from((destination >> shift) as u32));
        let checksum = match !fold(self.sum + words.iter().sum::<u64>()) {
            // Zero means no checksum (RFC 8200, section 8.1).
            0 => 0xffff,
            checksum => checksum,
        };
        put(slot, self.destination_at, destination.to_ne_bytes());
        put(slot, self.checksum_at, checksum.to_ne_bytes());
    }
}

/// Flows of one source address: as many as there are dynamic ports (RFC 6335, section 6).
const PORTS: u32 = 1 << 14;

impl Template {
    /// Whether so many flows have source addresses in the last 16 bits.
    pub(crate) fn has_room_for(&self, flows: u32) -> bool {
        let low = [self.frame[self.destination_at - 2], self.frame[self.destination_at - 1]];
        u32::from(u16::from_be_bytes(low)) + flows / PORTS <= u16::MAX.into()
    }

    /// Makes a frame that was written one of that flow: another source port, another source
    /// address, and a checksum that fits (RFC 1624, equation 3).
    pub(crate) fn vary(&self, slot: &mut [u8; SLOT], flow: u32) {
        let address_at = self.destination_at - 2;
        let address = word(slot, address_at);
        let varied = (u16::from_be(address) + (flow / PORTS) as u16).to_be();
        let port = (SOURCE_PORT + (flow % PORTS) as u16).to_be();
        let of_port = u64::from(!word(slot, self.upper_at)) + u64::from(port);
        let of_address = u64::from(!address) + u64::from(varied);
        let mut sum = u64::from(!word(slot, self.checksum_at)) + of_address;
        if !self.is_ip4 {
            sum += of_port;
        }
        self.correct_syn(slot, of_address + of_port);
        let checksum = match !fold(sum) {
            0 if !self.is_ip4 => 0xffff,
            checksum => checksum,
        };
        put(slot, address_at, varied.to_ne_bytes());
        put(slot, self.upper_at, port.to_ne_bytes());
        put(slot, self.checksum_at, checksum.to_ne_bytes());
    }

    /// Adds to the sum of a TCP segment over IPv4, if the frame has one.
    #[inline(always)]
    fn correct_syn(&self, slot: &mut [u8; SLOT], changed: u64) {
        if let Some((at, _)) = self.syn {
            let checksum = !fold(u64::from(!word(slot, at)) + changed);
            put(slot, at, checksum.to_ne_bytes());
        }
    }
}

impl Template {
    /// Writes the VLAN IDs of the outermost tags into a frame that was written.
    #[inline(always)]
    pub(crate) fn write_tags(&self, slot: &mut [u8; SLOT], vlans: &[u16]) {
        for (at, vlan) in vlans.iter().enumerate() {
            put(slot, 14 + 4 * at, vlan.to_be_bytes());
        }
    }

    /// Gives a frame that was written another source of the same family, and a checksum that fits
    /// (RFC 1624, equation 3).
    #[inline(always)]
    pub(crate) fn write_source<const N: usize>(&self, slot: &mut [u8; SLOT], source: [u8; N]) {
        let source_at = self.destination_at - N;
        let mut changed = 0;
        for (at, two) in source.chunks_exact(2).enumerate() {
            let new = u16::from_ne_bytes([two[0], two[1]]);
            changed += u64::from(!word(slot, source_at + 2 * at)) + u64::from(new);
        }
        self.correct_syn(slot, changed);
        let checksum = match !fold(u64::from(!word(slot, self.checksum_at)) + changed) {
            0 if !self.is_ip4 => 0xffff,
            checksum => checksum,
        };
        put(slot, source_at, source);
        put(slot, self.checksum_at, checksum.to_ne_bytes());
    }

    /// Gives a frame that was written, with the outer source 0, another one, and a checksum that fits.
    #[inline(always)]
    pub(crate) fn write_outer_source(&self, slot: &mut [u8; SLOT], source: u32) {
        let checksum_at = self.outer_at + 10;
        let sum = u64::from(!word(slot, checksum_at)) + u64::from(source.to_be());
        put(slot, self.outer_at + 12, source.to_be_bytes());
        put(slot, checksum_at, (!fold(sum)).to_ne_bytes());
    }
}

/// Two bytes of a frame, in native order.
#[inline(always)]
fn word(slot: &[u8; SLOT], at: usize) -> u16 {
    u16::from_ne_bytes([slot[HEADROOM + at], slot[HEADROOM + at + 1]])
}

#[inline(always)]
fn put<const N: usize>(slot: &mut [u8; SLOT], at: usize, bytes: [u8; N]) {
    slot[HEADROOM + at..][..N].copy_from_slice(&bytes);
}

/// The host that seems to send: the port's address with another last byte.
fn sender(mut mac: [u8; 6]) -> [u8; 6] {
    mac[5] ^= 1;
    mac
}

fn ip4(header: &mut [u8], source: [u8; 4], udp: u16) {
    header[0] = 0x45;
    header[2..4].copy_from_slice(&(20 + udp).to_be_bytes());
    // An atomic datagram: identification 0 and "don't fragment" (RFC 6864, section 4).
    header[6] = 0x40;
    header[8] = TTL;
    header[9] = 17;
    header[12..16].copy_from_slice(&source);
}

/// Writes an IPv4 header, still without source, and an empty GRE header.
fn write_outer(header: &mut [u8], destination: u32, payload: u16) {
    ip4(header, [0; 4], payload + (OUTER - 20) as u16);
    header[9] = 47;
    header[16..20].copy_from_slice(&destination.to_be_bytes());
    let checksum = !fold(sum(&header[..20]));
    header[10..12].copy_from_slice(&checksum.to_ne_bytes());
}

fn ip6(header: &mut [u8], source: [u8; 16], udp: u16) {
    header[0] = 0x60;
    header[4..6].copy_from_slice(&udp.to_be_bytes());
    header[6] = 17;
    header[7] = TTL;
    header[8..24].copy_from_slice(&source);
}

/// Writes a SYN, still without checksum, with a segment size of 1,460 bytes.
fn write_syn(header: &mut [u8]) {
    header[..2].copy_from_slice(&SOURCE_PORT.to_be_bytes());
    header[2..4].copy_from_slice(&DESTINATION_PORT.to_be_bytes());
    header[4..8].copy_from_slice(&1_u32.to_be_bytes());
    header[12..16].copy_from_slice(&[(SYN as u8 / 4) << 4, 0x02, 0xff, 0xff]);
    header[20..24].copy_from_slice(&[2, 4, 0x05, 0xb4]);
}

fn write_udp(header: &mut [u8], length: u16) {
    header[..2].copy_from_slice(&SOURCE_PORT.to_be_bytes());
    header[2..4].copy_from_slice(&DESTINATION_PORT.to_be_bytes());
    header[4..6].copy_from_slice(&length.to_be_bytes());
}

/// Sum of 16-bit words in native order (RFC 1071, section 2(B): the order does not matter).
fn sum(bytes: &[u8]) -> u64 {
    bytes.chunks(2).map(|w| u64::from(u16::from_ne_bytes([w[0], *w.get(1).unwrap_or(&0)]))).sum()
}

#[inline(always)]
fn fold(sum: u64) -> u16 {
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    ((sum >> 16) + (sum & 0xffff)) as u16
}
