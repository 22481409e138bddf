//! The master's part of the handshake: it maps what the slave shares and checks it.
//!
//! ```text
//! master                slave
//!   HELLO  --------------->          (listener)
//!          <---------------  INIT    (listener)
//!   ACK    --------------->
//!          <---------------  ADD_REGION + file    } each answered by ACK
//!          <---------------  ADD_RING + eventfd   }
//!          <---------------  CONNECT
//!   CONNECTED ------------>
//! ```

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use nix::fcntl::{FcntlArg, OFlag, fcntl};

use super::listener::Accepted;
use super::messages::{AddRing, Init, Message, VERSION};
use super::region::Region;
use super::ring::{Link, Ring, RingLayout};
use super::rx::Receiver;
use super::socket::{Channel, Ended};
use super::tx::Sender;
use crate::config::{QUEUES_MAX, Settings};
use crate::cursor::Side;
use crate::endpoint::{Established, Rings};

/// Regions that a slave may share.
pub(crate) const REGIONS_MAX: u16 = 256;
/// Bytes that a peer may share in all, unless it is trusted: pages that it never wrote
/// are allocated when we read them, and count as ours.
const SHARED_MAX: u64 = 1 << 30;

/// A ring that the slave described.
struct Offer {
    place: RingLayout,
    doorbell: OwnedFd,
}

/// The state of a handshake with a slave.
pub(crate) struct Handshake {
    pub(crate) channel: Channel,
    trust_memory: bool,
    longest: usize,
    name: String,
    peer: String,
    regions: Vec<Region>,
    s2m: Vec<Offer>,
    m2s: Vec<Offer>,
}

impl Handshake {
    /// Checks the slave's INIT and acknowledges it.
    pub(crate) fn begin(accepted: Accepted, settings: &Settings) -> Result<Self, Ended> {
        let Accepted { channel, init } = accepted;
        let accepted = check(&init, settings).and_then(|()| channel.send(&Message::Ack, None));
        if let Err(Ended::Refused(reason)) = &accepted {
            channel.disconnect(reason);
        }
        accepted?;
        let trust_memory = settings.trust_memory;
        let (longest, name) = (settings.longest, settings.name.clone());
        let (regions, s2m, m2s) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { channel, trust_memory, longest, name, peer: init.name, regions, s2m, m2s })
    }

    /// Processes one message; `None` until the link is up.
    pub(crate) fn handle(
        &mut self,
        message: Message,
        file: Option<OwnedFd>,
    ) -> Result<Option<Established>, Ended> {
        match (message, file) {
            (Message::AddRegion { index, size }, Some(file)) => {
                if usize::from(index) != self.regions.len() || index >= REGIONS_MAX {
                    return Err(Ended::refused(format!("region {index} is out of order")));
                }
                let bytes: u64 = self.regions.iter().map(|region| region.length() as u64).sum();
                if !self.trust_memory && size.saturating_add(bytes) > SHARED_MAX {
                    return Err(Ended::refused(format!(
                        "more than {SHARED_MAX} bytes shared in all"
                    )));
                }
                let region = Region::map(&file, size, self.trust_memory).map_err(Ended::refused)?;
                self.regions.push(region);
            }
            (Message::AddRing(ring), Some(doorbell)) => self.add_ring(&ring, doorbell)?,
            (Message::Connect { .. }, None) => {
                let established = self.establish()?;
                self.channel.send(&Message::Connected { name: self.name.clone() }, None)?;
                return Ok(Some(established));
            }
            (message, file) => return Err(Ended::unexpected(&message, file.as_ref())),
        }
        self.channel.send(&Message::Ack, None)?;
        Ok(None)
    }

    fn add_ring(&mut self, ring: &AddRing, doorbell: OwnedFd) -> Result<(), Ended> {
        let offers = if ring.s2m { &mut self.s2m } else { &mut self.m2s };
        if usize::from(ring.index) != offers.len() || ring.index >= QUEUES_MAX {
            return Err(Ended::refused(format!("ring {} is out of order", ring.index)));
        }
        check_doorbell(&doorbell)?;
        let AddRing { region, offset, log2_size, .. } = *ring;
        offers.push(Offer { place: RingLayout { region, offset, log2_size }, doorbell });
        Ok(())
    }

    fn establish(&mut self) -> Result<Established, Ended> {
        let regions: Arc<[Region]> = std::mem::take(&mut self.regions).into();
        let link = Link::new(self.longest);
        let open = |offer: Offer| {
            Ring::new(&regions, offer.place, Side::Consumer, offer.doorbell, &link)
                .map_err(Ended::refused)
        };
        let bytes: usize = regions.iter().map(Region::length).sum();
        let (s2m, m2s) = (std::mem::take(&mut self.s2m), std::mem::take(&mut self.m2s));
        let detail = format!(
            "master of {}: rings: {} in, {} out; {bytes} bytes shared",
            self.peer,
            s2m.len(),
            m2s.len(),
        );
        let mut rings = Rings::default();
        for offer in s2m {
            rings.receivers.push(Receiver::new(open(offer)?, None));
        }
        for offer in m2s {
            rings.senders.push(Sender::new(open(offer)?, None));
        }
        Ok(Established { rings, link, detail })
    }
}

fn check(init: &Init, settings: &Settings) -> Result<(), Ended> {
    if init.version != VERSION {
        return Err(Ended::refused(format!(
            "memif version {:#06x}: 2.0 is spoken here",
            init.version
        )));
    }
    if init.mode != 0 {
        return Err(Ended::refused(format!(
            "mode {}: only Ethernet (0) is spoken here",
            init.mode
        )));
    }
    // In constant time: how much of a guess is right stays unknown.
    let pairs = init.secret.iter().zip(&settings.secret);
    if pairs.fold(0, |mismatch, (theirs, ours)| mismatch | (theirs ^ ours)) != 0 {
        return Err(Ended::refused("wrong secret"));
    }
    Ok(())
}

/// A doorbell must be an eventfd, for a worker writes to it: a pipe or a file of the
/// peer's own file system could hold the worker up. What remains: the non-blocking
/// flag is shared with the peer, and one that clears it and fills the counter to its
/// end can stall the worker that rings. Linux has no write that forbids this.
fn check_doorbell(doorbell: &OwnedFd) -> Result<(), Ended> {
    let what = std::fs::read_link(format!("/proc/self/fd/{}", doorbell.as_raw_fd()));
    // Whole: a file may bear any name, but its path begins with a slash.
    if !what.is_ok_and(|what| what.as_os_str() == "anon_inode:[eventfd]") {
        return Err(Ended::refused("a ring's descriptor is not an eventfd"));
    }
    let flags = OFlag::from_bits_retain(fcntl(doorbell, FcntlArg::F_GETFL)?);
    fcntl(doorbell, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(())
}
