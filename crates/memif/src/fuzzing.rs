//! The fuzz targets: a port's end of the control channel, and the rings, with a peer
//! whose every word and byte is the input. Built for `fuzz/` only.

use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Instant;

use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, sendmsg, socketpair,
};

use super::config::Config;
use super::cursor::Side;
use super::endpoint::{Event, Handshake, Memif, Rings, Role, State};
use super::listener::Accepted;
use super::messages::{AddRing, Hello, Init, Message, SECRET, VERSION};
use super::region::Region;
use super::ring::{COOKIE, DESCRIPTOR, HEADER, Link, Ring, RingLayout};
use super::rx::{FrameSink, Receiver};
use super::slots::Slots;
use super::socket::{Channel, address};
use super::tx::{NoRoom, Sender};
use super::{master, slave};

/// Bytes of the longest frame.
const LONGEST: usize = 9022;

/// The input, read from the front; zeros when it ends.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn byte(&mut self) -> u8 {
        let first = self.0.split_off_first();
        first.copied().unwrap_or(0)
    }

    fn word(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    fn long(&mut self) -> u32 {
        u32::from_le_bytes([self.byte(), self.byte(), self.byte(), self.byte()])
    }

    fn bytes(&mut self, most: usize) -> &[u8] {
        let end = most.min(self.0.len());
        self.0.split_off(..end).unwrap_or_default()
    }
}

/// A sink with space for frames up to a length, which may be less than a line.
struct Picky {
    space: Vec<u8>,
    kept: usize,
}

impl FrameSink for Picky {
    fn place(&mut self, length: usize) -> Option<&mut [u8]> {
        self.space.get_mut(..).filter(|space| space.len() >= length)
    }

    fn keep(&mut self, length: usize) {
        assert!((1..=self.space.len()).contains(&length));
        self.kept += 1;
    }
}

fn receive(receiver: &mut Receiver, input: &mut Input<'_>) {
    let kind = input.byte();
    if kind & 1 == 0 {
        let mut sum = 0_u8;
        receiver.receive(|frame| {
            assert!((1..=LONGEST).contains(&frame.len()));
            sum = frame.iter().fold(sum, |sum, byte| sum.wrapping_add(*byte));
        });
        std::hint::black_box(sum);
    } else {
        let mut sink = Picky { space: vec![0; usize::from(kind) * 8], kept: 0 };
        let most = usize::from(input.byte() % 20);
        let got = receiver.receive_into(most, &mut sink);
        assert!(got == sink.kept && got <= most);
    }
}

fn transmit(sender: &mut Sender, input: &mut Input<'_>) {
    let mut batch = sender.batch();
    for lane in 0..input.byte() % 40 {
        let length = usize::from(input.word() % 9100);
        if batch.put(&vec![lane; length]) == Err(NoRoom::Now) {
            break;
        }
    }
}

fn drive(rings: &mut Rings, input: &mut Input<'_>) {
    for _ in 0..2 {
        for receiver in &mut rings.receivers {
            receive(receiver, input);
        }
        for sender in &mut rings.senders {
            transmit(sender, input);
        }
        for receiver in &mut rings.receivers {
            let _ = receiver.doze();
            receiver.wake();
        }
    }
}

/// The control channel of a master or a slave: any messages in any order, of any size, with
/// any files; and, once the link is up, any memory.
pub fn control(input: &[u8]) {
    let mut input = Input(input);
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let pair = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags);
    let (ours, theirs) = pair.expect("sockets");
    let kind = input.byte();
    let Some(mut memif) = memif(Channel::new(ours), &theirs, kind) else { return };
    let (mut rings, mut memory) = (Rings::default(), None);
    while !input.is_empty() {
        send_input(&theirs, &mut input, &mut memory);
        match memif.service() {
            Some(Event::Up(now)) => rings = now,
            Some(Event::Down(_)) => rings = Rings::default(),
            None => {}
        }
        drive(&mut rings, &mut input);
        let _ = (memif.detail(), memif.left_out());
        if matches!(memif.state, State::Alone(_)) {
            return;
        }
    }
}

/// An interface in a handshake over `channel`; `None`: it refuses at once.
fn memif(channel: Channel, theirs: &OwnedFd, kind: u8) -> Option<Memif> {
    let config = Config {
        socket: "@stoa-nobody-listens-here".into(),
        ring_size: 64,
        buffer_size: 256,
        rx_queues: 2,
        tx_queues: 1,
        secret: Some("hush".into()),
        frame_max: if kind & 2 == 0 { 2112 } else { LONGEST as u32 },
        ..Config::default()
    };
    let settings = config.check().expect("a good configuration");
    let talk = if kind & 1 == 0 {
        let mut secret = [0; SECRET];
        secret[..4].copy_from_slice(b"hush");
        let (version, mode) = (if kind & 4 == 0 { VERSION } else { 0 }, kind >> 7);
        let init = Init { version, id: 0, mode, secret, name: "fuzzer".into() };
        let accepted = Accepted { channel, init };
        Handshake::Master(master::Handshake::begin(accepted, &settings).ok()?)
    } else {
        if kind & 4 == 0 {
            raw(theirs, &hello().encode(), &[]);
        }
        Handshake::Slave(slave::Handshake::begin(channel, &settings))
    };
    let role = Role::Slave(address(&config.socket).expect("an address"));
    Some(Memif::talking(role, settings, State::Talking(talk, Instant::now())))
}

fn hello() -> Message {
    Message::Hello(Hello {
        name: "fuzzer".into(),
        version_min: VERSION,
        version_max: VERSION,
        region_max: 1,
        m2s_max: 1,
        s2m_max: 1,
        log2_size_max: 6,
    })
}

fn raw(to: &OwnedFd, bytes: &[u8], files: &[RawFd]) {
    let rights = [ControlMessage::ScmRights(files)];
    let rights: &[_] = if files.is_empty() { &[] } else { &rights };
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    // One that has hung up or does not read is no failure.
    let _ = sendmsg::<()>(to.as_raw_fd(), &[IoSlice::new(bytes)], rights, flags, None);
}

/// Sends a message that the input chooses, or writes into the shared memory.
fn send_input(to: &OwnedFd, input: &mut Input<'_>, memory: &mut Option<(Region, OwnedFd)>) {
    let place = |at: u16| RingLayout { region: 0, offset: u32::from(at) * 8, log2_size: 6 };
    let message = match input.byte() % 12 {
        0 => Message::Ack,
        1 => hello(),
        2 | 3 => Message::AddRegion { index: input.byte().into(), size: 65_536 },
        4 => Message::AddRegion { index: input.word(), size: input.long().into() },
        kind @ (5 | 6) => {
            let RingLayout { region, offset, log2_size } = place(input.word() & 0x7ff);
            let index = input.byte().into();
            let s2m = kind == 5;
            if let Some((memory, _)) = &*memory {
                put(memory, offset.into(), &COOKIE.to_ne_bytes());
            }
            Message::AddRing(AddRing { s2m, index, region, offset, log2_size, private_header: 0 })
        }
        7 => Message::Connect { name: "fuzzer".into() },
        8 => Message::Connected { name: "fuzzer".into() },
        9 => Message::Disconnect { code: input.long(), reason: "enough".into() },
        10 => {
            let length = usize::from(input.byte());
            let bytes = input.bytes(length).to_vec();
            let file = file(input, memory);
            return raw(to, &bytes, file.as_ref().map(AsRawFd::as_raw_fd).as_slice());
        }
        _ => {
            if let Some((memory, _)) = &*memory {
                let (at, length) = (input.word(), usize::from(input.byte()));
                put(memory, at.into(), input.bytes(length));
            }
            return;
        }
    };
    let file = file(input, memory);
    raw(to, &message.encode(), file.as_ref().map(AsRawFd::as_raw_fd).as_slice());
}

/// A file to send along.
fn file(input: &mut Input<'_>, memory: &mut Option<(Region, OwnedFd)>) -> Option<OwnedFd> {
    match input.byte() % 6 {
        0 => None,
        1 => {
            if memory.is_none() {
                *memory = Region::create(65_536).ok();
            }
            memory.as_ref().and_then(|(_, file)| file.try_clone().ok())
        }
        2 => {
            let event = EventFd::from_value_and_flags(input.byte().into(), EfdFlags::EFD_CLOEXEC);
            event.ok().map(OwnedFd::from)
        }
        3 => nix::unistd::pipe().ok().map(|(end, _)| end),
        4 => {
            let file = memfd_create(c"short", MFdFlags::MFD_ALLOW_SEALING).ok()?;
            nix::unistd::ftruncate(&file, input.word().into()).ok()?;
            Some(file)
        }
        _ => memfd_create(c"unsealed", MFdFlags::empty()).ok(),
    }
}

/// Writes into shared memory as a peer would, as far as it lies there.
fn put(memory: &Region, at: u64, bytes: &[u8]) {
    if let Some(to) = memory.at(at, bytes.len() as u64) {
        // SAFETY: so many bytes lie there in the mapping; no other thread accesses them.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.as_ptr(), bytes.len()) };
    }
}

/// The rings of either role, whose memory the input writes between any two calls.
pub fn rings(input: &[u8]) {
    const LOG2: u8 = 4;
    const MEMORY: u64 = 32_768;
    let mut input = Input(input);
    let kind = input.byte();
    let (memory, file) = Region::create(MEMORY).expect("memory");
    let theirs = Region::map(&file, MEMORY, false).expect("the same memory");
    let regions: Arc<[Region]> = [memory].into();
    let link = Link::new(if kind & 2 == 0 { 2112 } else { LONGEST });
    let bytes = (HEADER + (DESCRIPTOR << LOG2)) as u32;
    let ring = |number: u32, side| {
        let offset = number * bytes;
        put(&theirs, offset.into(), &COOKIE.to_ne_bytes());
        let doorbell =
            EventFd::from_value_and_flags(0, EfdFlags::EFD_NONBLOCK).expect("an event descriptor");
        let doorbell = doorbell.as_fd().try_clone_to_owned().expect("an event descriptor");
        let place = RingLayout { region: 0, offset, log2_size: LOG2 };
        Ring::new(&regions, place, side, doorbell, &link).expect("a ring")
    };
    let side = if kind & 1 == 0 { Side::Consumer } else { Side::Producer };
    let slots = |number: u32| {
        let first = 4096 + number * (512 << LOG2);
        (side == Side::Producer).then_some(Slots { first, stride: 512, bytes: 448 })
    };
    let mut rx = Receiver::new(ring(0, side), slots(0));
    let mut tx = Sender::new(ring(1, side), slots(1));
    while !input.is_empty() {
        match input.byte() % 6 {
            0 => receive(&mut rx, &mut input),
            1 => transmit(&mut tx, &mut input),
            2 => {
                let _ = rx.doze();
                rx.wake();
            }
            // An index of one of the two rings, near to where it may be.
            3 => {
                let (which, value) = (input.byte(), u16::from(input.byte()));
                let at = u64::from(which & 1) * u64::from(bytes);
                let at = at + if which & 2 == 0 { 6 } else { 64 };
                let value = if which & 4 == 0 { value } else { value.wrapping_neg() };
                put(&theirs, at, &value.to_ne_bytes());
            }
            // A descriptor.
            4 => {
                let which = input.byte();
                let at = u64::from(which & 1) * u64::from(bytes) + HEADER;
                let at = at + DESCRIPTOR * u64::from(which >> 1 & 15);
                put(&theirs, at, input.bytes(12));
            }
            _ => {
                let (at, length) = (input.word(), usize::from(input.byte()));
                put(&theirs, at.into(), input.bytes(length));
            }
        }
    }
}
