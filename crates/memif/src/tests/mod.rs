//! Malicious and crashing peers: they lose their own frames or their link, and the
//! port serves the next one.

mod handshakes;
mod lives;
mod rings;
mod sockets;

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::sys::eventfd::{EfdFlags, EventFd};

use super::config::{Config, Role};
use super::endpoint::{Event, Memif, Rings};
use super::messages::{AddRing, Init, Message, SECRET, VERSION};
use super::region::Region;
use super::ring::COOKIE;
use super::socket::{Channel, Ended, address};

const DEADLINE: Duration = Duration::from_secs(20);

/// Descriptors of the villain's rings.
const SIZE: u16 = 64;
/// Where the villain's rings and buffers lie.
const S2M: u64 = 0;
const M2S: u64 = 2048;
const BUFFERS: u64 = 4096;
const MEMORY: u64 = 4096 + 128 * 2048;

fn until<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = attempt() {
            return value;
        }
        assert!(start.elapsed() < DEADLINE, "{what}: not within {DEADLINE:?}");
        std::thread::yield_now();
    }
}

/// An abstract socket that no other test uses.
fn socket() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("@stoa-memif-test-{}-{number}", std::process::id())
}

fn config(role: Role) -> Config {
    let secret = Some("hush".into());
    Config { socket: socket(), id: 3, role, secret, ..Config::default() }
}

/// Our interface with its rings.
struct Hero {
    memif: Memif,
    socket: String,
    rings: Option<Rings>,
    down: Option<String>,
}

impl Hero {
    fn new(config: &Config) -> Self {
        let memif = Memif::open(config).unwrap();
        Self { memif, socket: config.socket.clone(), rings: None, down: None }
    }

    fn service(&mut self) {
        match self.memif.service() {
            Some(Event::Up(rings)) => self.rings = Some(rings),
            Some(Event::Down(reason)) => (self.rings, self.down) = (None, Some(reason)),
            None => {}
        }
    }

    fn receive(&mut self) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        if let Some(rings) = &mut self.rings {
            rings.receivers[0].receive(|frame| frames.push(frame.to_vec()));
        }
        frames
    }

    fn send(&mut self, length: usize) -> usize {
        let Some(rings) = &mut self.rings else { return 0 };
        usize::from(rings.senders[0].batch().put(&vec![7; length]).is_ok())
    }

    /// Services until the link is down, and returns why.
    fn wait_down(&mut self) -> String {
        until("the link is down", || {
            self.service();
            self.down.take()
        })
    }
}

/// A peer whose every word and byte the test chooses.
struct Villain {
    channel: Channel,
    memory: Region,
    file: OwnedFd,
}

impl Villain {
    /// Connects to the hero and receives its HELLO.
    fn meet(hero: &mut Hero) -> Self {
        let channel = Channel::connect(&address(&hero.socket).unwrap()).unwrap();
        let (memory, file) = Region::create(MEMORY).unwrap();
        let villain = Self { channel, memory, file };
        for ring in [S2M, M2S] {
            villain.put32(ring, COOKIE);
            for slot in 0..u64::from(SIZE) {
                let number = if ring == S2M { slot } else { slot + u64::from(SIZE) };
                villain.describe(ring, slot, 0, 0, 2048, (BUFFERS + number * 2048) as u32);
            }
        }
        assert!(matches!(villain.receive(hero), Ok(Message::Hello(_))));
        villain
    }

    /// The hero's next message.
    fn receive(&self, hero: &mut Hero) -> Result<Message, Ended> {
        until("an answer", || {
            hero.service();
            self.channel.receive().transpose()
        })
        .map(|(message, _)| message)
    }

    /// Sends a message and returns the answer.
    fn exchange(
        &self,
        hero: &mut Hero,
        message: &Message,
        file: Option<&OwnedFd>,
    ) -> Result<Message, Ended> {
        self.channel.send(message, file.map(OwnedFd::as_fd))?;
        self.receive(hero)
    }

    /// Completes a valid handshake: the link is up.
    fn complete_handshake(&self, hero: &mut Hero) {
        assert_eq!(self.exchange(hero, &init(), None).unwrap(), Message::Ack);
        let region = Message::AddRegion { index: 0, size: MEMORY };
        assert_eq!(self.exchange(hero, &region, Some(&self.file)).unwrap(), Message::Ack);
        for s2m in [true, false] {
            assert_eq!(self.exchange(hero, &ring(s2m), Some(&doorbell())).unwrap(), Message::Ack);
        }
        let answer = self.exchange(hero, &Message::Connect { name: "villain".into() }, None);
        assert!(matches!(answer, Ok(Message::Connected { .. })), "{answer:?}");
        until("up", || {
            hero.service();
            hero.rings.is_some().then_some(())
        });
    }

    fn word(&self, at: u64) -> &AtomicU16 {
        let at = self.memory.at(at, 2).unwrap();
        // SAFETY: two bytes inside the mapping, which `self` holds, at an even address.
        unsafe { AtomicU16::from_ptr(at.as_ptr().cast()) }
    }

    fn put32(&self, at: u64, value: u32) {
        let [a, b, c, d] = value.to_ne_bytes();
        self.word(at).store(u16::from_ne_bytes([a, b]), Ordering::Relaxed);
        self.word(at + 2).store(u16::from_ne_bytes([c, d]), Ordering::Relaxed);
    }

    fn describe(&self, ring: u64, slot: u64, flags: u16, region: u16, length: u32, offset: u32) {
        let at = ring + 128 + 16 * slot;
        self.word(at).store(flags, Ordering::Relaxed);
        self.word(at + 2).store(region, Ordering::Relaxed);
        self.put32(at + 4, length);
        self.put32(at + 8, offset);
    }

    /// Describes a good frame of `length` bytes in a slot of the ring to the master.
    fn good(&self, slot: u64, length: u32) {
        self.describe(S2M, slot, 0, 0, length, (BUFFERS + slot * 2048) as u32);
    }

    fn head(&self, ring: u64) -> &AtomicU16 {
        self.word(ring + 6)
    }

    fn tail(&self, ring: u64) -> &AtomicU16 {
        self.word(ring + 64)
    }
}

fn init() -> Message {
    let mut secret = [0; SECRET];
    secret[..4].copy_from_slice(b"hush");
    Message::Init(Init { version: VERSION, id: 3, mode: 0, secret, name: "villain".into() })
}

fn ring(s2m: bool) -> Message {
    Message::AddRing(AddRing {
        s2m,
        index: 0,
        region: 0,
        offset: if s2m { S2M } else { M2S } as u32,
        log2_size: SIZE.trailing_zeros() as u8,
        private_header: 0,
    })
}

fn doorbell() -> OwnedFd {
    EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC).unwrap().into()
}
