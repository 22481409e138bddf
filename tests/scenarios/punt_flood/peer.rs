//! The other end of a memif link: a router with BFD, VRRP and a host that answers ARP requests late, and floods between
//! their packets.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use stoa_memif::{Config, Event, Memif, Receiver, Role, Sender};
use stoa_wire::bfd::{self, State};
use stoa_wire::checksum::Pseudo;
use stoa_wire::ethernet::{Mac, ethertype};
use stoa_wire::vrrp::{self, Fields, Version};
use stoa_wire::{arp, ipv4, protocol, udp};

/// MAC addresses of the router, of its neighbour, and of the hosts that it has to ask for.
pub const ROUTER: [u8; 6] = [2, 0xfe, 0, 0, 0, 1];
const OURS: [u8; 6] = [2, 0, 0, 0, 0, 2];
const HOST: [u8; 6] = [2, 0, 0, 0, 0, 3];
/// Addresses on the link.
pub const GATEWAY: Ipv4Addr = Ipv4Addr::new(198, 18, 1, 1);
pub const NEIGHBOR: Ipv4Addr = Ipv4Addr::new(198, 18, 1, 2);
pub const VIRTUAL: Ipv4Addr = Ipv4Addr::new(198, 18, 1, 254);
/// Frames at a time, so that a hello never waits for long.
const BATCH: usize = 128;

pub fn frame(to: [u8; 6], ethertype: u16, payload: &[u8]) -> Vec<u8> {
    [&to[..], &OURS, &ethertype.to_be_bytes(), payload].concat()
}

/// An IPv4 packet in a frame.
pub fn packet(to: [u8; 6], header: &ipv4::Builder<'_>, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; ipv4::LONGEST];
    let length = header.build(&mut bytes, payload.len()).expect("a header");
    bytes.truncate(length);
    bytes.extend(payload);
    frame(to, ethertype::IP4, &bytes)
}

/// A UDP packet in a frame to the router.
pub fn datagram(ends: (Ipv4Addr, Ipv4Addr), ports: (u16, u16), ttl: u8, data: &[u8]) -> Vec<u8> {
    let pseudo = Pseudo::Ip4 { source: ends.0, destination: ends.1 };
    let mut bytes = vec![0; udp::LENGTH + data.len()];
    udp::build(&mut bytes, &pseudo, ports.0, ports.1, data).expect("a datagram");
    let header =
        ipv4::Builder { time_to_live: ttl, ..ipv4::Builder::new(ends.0, ends.1, protocol::UDP) };
    packet(ROUTER, &header, &bytes)
}

/// A request of the neighbour for the router's MAC address.
pub fn arp_request() -> Vec<u8> {
    let mut payload = [0; arp::LENGTH];
    let request = arp::Packet::request(Mac(OURS), NEIGHBOR, GATEWAY);
    request.build(&mut payload).expect("a request");
    frame(Mac::BROADCAST.0, ethertype::ARP, &payload)
}

/// Whether the thread beside the test ends.
struct Ends(AtomicBool);

/// Ends it, also when the test fails.
struct Guard<'a>(&'a Ends);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

/// The peer.
pub struct Peer {
    memif: Memif,
    rings: Option<(Receiver, Sender)>,
    interval: Duration,
    hello_at: Instant,
    advertise_at: Instant,
    state: State,
    remote: bfd::Packet,
    /// How often the BFD session went down.
    pub downs: u64,
    /// The host that the router asks for, and when it answers.
    asked: Option<(Ipv4Addr, Instant)>,
    /// Packets that came for that host.
    pub arrived: u64,
}

impl Peer {
    pub fn open(socket: &str, interval: Duration) -> Self {
        let (socket, role) = (socket.to_owned(), Role::Slave);
        let config = Config { socket, role, ..Config::default() };
        let now = Instant::now();
        Self {
            memif: Memif::open(&config).expect("a socket"),
            rings: None,
            interval,
            hello_at: now,
            advertise_at: now,
            state: State::Down,
            remote: bfd::Packet::default(),
            downs: 0,
            asked: None,
            arrived: 0,
        }
    }

    /// Whether the BFD session is up.
    pub fn is_up(&self) -> bool {
        self.state == State::Up && self.remote.state == State::Up
    }

    /// VRRP's advertisement interval, in centiseconds.
    pub fn interval_cs(interval: Duration) -> u16 {
        (interval.as_millis() / 5).clamp(2, 4000) as u16
    }

    /// Only receives and sends what is due, while the test does something else.
    pub fn beside<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let ends = Ends(AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ends.0.load(Ordering::Relaxed) {
                    self.serve();
                    std::thread::sleep(Duration::from_micros(100));
                }
            });
            let _ends = Guard(&ends);
            work()
        })
    }

    /// Floods for a while, with `rate` frames a second in turn; 0: only hellos. The router sends a packet to a
    /// host that it does not know, which answers during the flood. Returns the number of frames.
    pub fn flood(&mut self, flood: &[Vec<u8>], rate: u64, time: Duration, host: Ipv4Addr) -> u64 {
        let begun = Instant::now();
        // The router asks three times, a second apart, and then drops the packet (RFC 4861, section 7.2.2).
        let answer = begun + (time / 2).min(Duration::from_millis(1_500));
        (self.arrived, self.asked) = (0, Some((host, answer)));
        self.put(&datagram((NEIGHBOR, host), (7, 7), 64, b"waits"));
        let mut sent = 0;
        while begun.elapsed() < time {
            self.serve();
            let due = (begun.elapsed().as_secs_f64() * rate as f64) as u64 - sent;
            if due == 0 || flood.is_empty() {
                std::thread::sleep(Duration::from_micros(100));
                continue;
            }
            let Some((_, sender)) = &mut self.rings else { continue };
            let mut batch = sender.batch();
            for _ in 0..due.min(BATCH as u64) {
                if batch.put(&flood[sent as usize % flood.len()]).is_err() {
                    break;
                }
                sent += 1;
            }
        }
        sent
    }

    /// Receives, and sends what is due.
    fn serve(&mut self) {
        match self.memif.service() {
            Some(Event::Up(rings)) => {
                let first = rings.receivers.into_iter().next();
                self.rings = first.zip(rings.senders.into_iter().next());
            }
            Some(Event::Down(_)) => self.rings = None,
            None => {}
        }
        let mut frames = Vec::new();
        if let Some((receiver, _)) = &mut self.rings {
            receiver.receive(|frame| frames.push(frame.to_vec()));
        }
        frames.iter().for_each(|frame| self.receive(frame));
        let now = Instant::now();
        if now >= self.hello_at {
            // RFC 5880 6.8.7: some are earlier.
            self.hello_at = now + self.interval * 9 / 10;
            self.send_hello();
        }
        if now >= self.advertise_at {
            self.advertise_at =
                now + Duration::from_millis(10) * Self::interval_cs(self.interval).into();
            self.send_advertisement();
        }
    }

    fn receive(&mut self, frame: &[u8]) {
        match frame.get(12..14) {
            Some([8, 6]) => self.answer(&frame[14..]),
            Some([8, 0]) if frame.starts_with(&HOST) => self.arrived += 1,
            Some([8, 0]) => {
                let Ok(view) = ipv4::check(&frame[14..]) else { return };
                let port = view.payload().get(2..4);
                if view.header().protocol == protocol::UDP && port == Some(&bfd::PORT.to_be_bytes())
                {
                    let data = view.payload().get(udp::LENGTH..).unwrap_or_default();
                    bfd::check(data).into_iter().for_each(|packet| self.receive_bfd(packet));
                }
            }
            _ => {}
        }
    }

    /// RFC 5880 6.8.6, without a detection time: the router's counts.
    fn receive_bfd(&mut self, packet: bfd::Packet) {
        let to = match (self.state, packet.state) {
            (State::Down, State::Down) => State::Init,
            (State::Down | State::Init, State::Init) | (State::Init, State::Up) => State::Up,
            (State::Up, State::Down) => State::Down,
            (state, _) => state,
        };
        self.downs += u64::from(self.state == State::Up && to == State::Down);
        (self.state, self.remote) = (to, packet);
        if packet.is_poll {
            self.send_hello();
        }
    }

    fn answer(&mut self, message: &[u8]) {
        let Ok(request) = arp::check(message) else { return };
        let Some((host, at)) = self.asked else { return };
        let is_due = Instant::now() >= at;
        if request.is_request() && request.target() == host && is_due {
            let mut payload = [0; arp::LENGTH];
            arp::Packet::reply(request, Mac(HOST)).build(&mut payload).expect("a reply");
            self.put(&frame(ROUTER, ethertype::ARP, &payload));
        }
    }

    fn send_hello(&mut self) {
        let us = self.interval.as_micros() as u32;
        let packet = bfd::Packet {
            state: self.state,
            multiplier: 3,
            mine: 7,
            yours: self.remote.mine,
            desired_min_tx: us,
            required_min_rx: us,
            is_final: self.remote.is_poll,
            ..bfd::Packet::default()
        };
        self.remote.is_poll = false;
        let mut data = [0; bfd::LENGTH];
        bfd::build(&mut data, &packet).expect("a packet");
        self.put(&datagram((NEIGHBOR, GATEWAY), (49_200, bfd::PORT), 255, &data));
    }

    fn send_advertisement(&mut self) {
        let interval_cs = Self::interval_cs(self.interval);
        let fields = Fields { version: Version::Three, vrid: 51, priority: 200, interval_cs };
        let pseudo = Pseudo::Ip4 { source: NEIGHBOR, destination: vrrp::GROUP4 };
        let mut message = [0; 100];
        let length = vrrp::build(&mut message, &pseudo, &fields, &[VIRTUAL.into()]).expect("fits");
        let header = ipv4::Builder {
            time_to_live: vrrp::HOP_LIMIT,
            ..ipv4::Builder::new(NEIGHBOR, vrrp::GROUP4, protocol::VRRP)
        };
        let group = Mac::of_ip4_group(vrrp::GROUP4).0;
        self.put(&packet(group, &header, &message[..length]));
    }

    /// Sends a frame. A ring full of the flood has space soon.
    fn put(&mut self, frame: &[u8]) {
        let Some((_, sender)) = &mut self.rings else { return };
        let begun = Instant::now();
        while sender.batch().put(frame).is_err() && begun.elapsed() < self.interval {
            std::thread::yield_now();
        }
    }
}
