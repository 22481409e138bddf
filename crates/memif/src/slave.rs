//! The slave's part of the handshake: it makes the memory and describes it, one
//! message after each ACK (see `master.rs` for the order).
//!
//! ```text
//! region 0:  | ring s2m 0 | ... | ring m2s 0 | ... | buffers of each ring in turn |
//! ```

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use nix::sys::eventfd::{EfdFlags, EventFd};

use super::messages::{AddRing, Hello, Init, Message, VERSION};
use super::region::Region;
use super::ring::{DESCRIPTOR, HEADER, LOG2_MAX, Link, Ring, RingLayout};
use super::rx::Receiver;
use super::slots::Slots;
use super::socket::{Channel, Ended};
use super::tx::Sender;
use crate::config::Settings;
use crate::cursor::Side;
use crate::endpoint::{Established, Rings};

/// The state of a handshake with a master.
pub(crate) struct Handshake {
    pub(crate) channel: Channel,
    settings: Settings,
    pending: VecDeque<(Message, Option<OwnedFd>)>,
    prepared: Option<Prepared>,
}

/// Rings that the master may use once it sends CONNECTED.
struct Prepared {
    link: Arc<Link>,
    s2m: Vec<(Ring, Slots)>,
    m2s: Vec<(Ring, Slots)>,
    detail: String,
}

/// How rings and buffers lie in the region.
#[derive(Debug)]
pub(crate) struct Layout {
    s2m: u16,
    m2s: u16,
    log2_size: u8,
    buffer: u32,
    stride: u32,
    pub(crate) total: u64,
}

impl Layout {
    pub(crate) fn new(s2m: u16, m2s: u16, log2_size: u8, buffer: u32) -> Self {
        // An odd number of lines, so that the first lines of the buffers do not
        // all fall into the same few cache sets.
        let stride = if (buffer / 64).is_multiple_of(2) { buffer + 64 } else { buffer };
        let mut layout = Self { s2m, m2s, log2_size, buffer, stride, total: 0 };
        layout.total = layout.buffers(s2m + m2s);
        layout
    }

    fn ring(&self, number: u16) -> u64 {
        (HEADER + (DESCRIPTOR << self.log2_size)) * u64::from(number)
    }

    fn buffers(&self, number: u16) -> u64 {
        let first = self.ring(self.s2m + self.m2s).next_multiple_of(4096);
        first + u64::from(number) * (u64::from(self.stride) << self.log2_size)
    }

    fn place(&self, number: u16) -> RingLayout {
        RingLayout { region: 0, offset: self.ring(number) as u32, log2_size: self.log2_size }
    }

    fn slots(&self, number: u16) -> Slots {
        Slots { first: self.buffers(number) as u32, stride: self.stride, bytes: self.buffer }
    }
}

impl Handshake {
    /// Waits for the master's HELLO.
    pub(crate) fn begin(channel: Channel, settings: &Settings) -> Self {
        Self { channel, settings: settings.clone(), pending: VecDeque::new(), prepared: None }
    }

    /// Processes one message; `None` until the link is up.
    pub(crate) fn handle(
        &mut self,
        message: Message,
        file: Option<OwnedFd>,
    ) -> Result<Option<Established>, Ended> {
        match message {
            Message::Hello(hello) if self.prepared.is_none() && file.is_none() => {
                self.prepare(&hello)?;
                self.send_next()?;
                Ok(None)
            }
            Message::Ack if !self.pending.is_empty() => {
                self.send_next()?;
                Ok(None)
            }
            Message::Connected { .. } if self.pending.is_empty() && self.prepared.is_some() => {
                Ok(self.prepared.take().map(Prepared::establish))
            }
            message => Err(Ended::unexpected(&message, file.as_ref())),
        }
    }

    fn send_next(&mut self) -> Result<(), Ended> {
        match self.pending.pop_front() {
            Some((message, file)) => self.channel.send(&message, file.as_ref().map(OwnedFd::as_fd)),
            None => Ok(()),
        }
    }

    /// Makes memory, rings and messages.
    fn prepare(&mut self, hello: &Hello) -> Result<(), Ended> {
        if !(hello.version_min..=hello.version_max).contains(&VERSION) {
            return Err(Ended::refused("the master does not support memif 2.0"));
        }
        let settings = &self.settings;
        let s2m = settings.tx_queues.min(hello.s2m_max.saturating_add(1));
        let m2s = settings.rx_queues.min(hello.m2s_max.saturating_add(1));
        let log2_size = settings.log2_size.min(hello.log2_size_max).clamp(1, LOG2_MAX);
        let layout = Layout::new(s2m, m2s, log2_size, settings.buffer_size);
        let (region, file) = Region::create(layout.total).map_err(Ended::refused)?;
        let regions: Arc<[Region]> = [region].into();
        let link = Link::new(settings.longest);
        let init = Init {
            version: VERSION,
            id: settings.id,
            mode: 0,
            secret: settings.secret,
            name: settings.name.clone(),
        };
        self.pending.push_back((Message::Init(init), None));
        let share = Message::AddRegion { index: 0, size: layout.total };
        self.pending.push_back((share, Some(file)));
        let (mut to_master, mut from_master) = (Vec::new(), Vec::new());
        for number in 0..s2m + m2s {
            let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
            let doorbell = OwnedFd::from(EventFd::from_value_and_flags(0, flags)?);
            let theirs = doorbell.try_clone().map_err(Ended::refused)?;
            let place = layout.place(number);
            let ring = Ring::new(&regions, place, Side::Producer, doorbell, &link)
                .map_err(Ended::refused)?;
            let is_s2m = number < s2m;
            let rings = if is_s2m { &mut to_master } else { &mut from_master };
            rings.push((ring, layout.slots(number)));
            let described = Message::AddRing(AddRing {
                s2m: is_s2m,
                index: if is_s2m { number } else { number - s2m },
                region: 0,
                offset: place.offset,
                log2_size,
                private_header: 0,
            });
            self.pending.push_back((described, Some(theirs)));
        }
        self.pending.push_back((Message::Connect { name: settings.name.clone() }, None));
        let size = 1_u32 << log2_size;
        let detail = format!(
            "slave of {}: rings: {m2s} in, {s2m} out; {size} buffers of {} bytes each",
            hello.name, settings.buffer_size,
        );
        self.prepared = Some(Prepared { link, s2m: to_master, m2s: from_master, detail });
        Ok(())
    }
}

impl Prepared {
    /// Begins to use the rings. Not earlier: a master may set all indexes to zero
    /// when it connects, and would lose what was offered before.
    fn establish(self) -> Established {
        let mut rings = Rings::default();
        for (ring, slots) in self.s2m {
            rings.senders.push(Sender::new(ring, Some(slots)));
        }
        for (ring, slots) in self.m2s {
            rings.receivers.push(Receiver::new(ring, Some(slots)));
        }
        Established { rings, link: self.link, detail: self.detail }
    }
}
