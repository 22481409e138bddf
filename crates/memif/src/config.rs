//! The configuration of an interface, and its check.

use crate::error::OpenError;
use crate::messages::SECRET;
use crate::region::REGION_MAX;
use crate::slave::Layout;

/// Rings in each direction.
pub(crate) const QUEUES_MAX: u16 = 16;
/// Bytes of a name.
const NAME_MAX: usize = 31;
/// The largest configurable frame, in bytes.
const FRAME_MAX: u32 = 65_535;

/// The side that listens, and the side that owns the memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Listens, and uses the memory of the slave that connects.
    #[default]
    Master,
    /// Connects, and shares memory of its own.
    Slave,
}

/// A shared-memory interface. 0 means the default.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Config {
    /// The Unix socket; a name that begins with `@` is an abstract one.
    pub socket: String,
    /// Distinguishes interfaces that share a socket.
    pub id: u32,
    /// The side that listens, and the side that owns the memory.
    pub role: Role,
    /// The name sent to the peer, at most 31 bytes; empty: `stoa-memif`.
    pub name: String,
    /// The shared secret, 24 bytes at most.
    pub secret: Option<String>,
    /// Descriptors of each ring: a power of two, 64 to 16,384; 0: 1,024. Slave only.
    pub ring_size: u32,
    /// Bytes of each buffer, 256 to 65,536, a multiple of 64; 0: 2,048. Slave only.
    pub buffer_size: u32,
    /// Queues towards us, 1 to 16; 0: one. Slave only: the master takes what the slave brings.
    pub rx_queues: u16,
    /// Queues towards the peer, 1 to 16; 0: one. Slave only.
    pub tx_queues: u16,
    /// Bytes of the longest frame, 64 to 65,535; 0: 2,048. A longer one is left out. One that is
    /// longer than a buffer takes several.
    pub frame_max: u32,
    /// The number of the user that the peer must run as. `None`: any user who may open the socket.
    pub peer_user: Option<u32>,
    /// Accept memory that the peer could take away (a DPDK zero-copy client cannot
    /// seal its huge pages); such a peer can end this program. Master only.
    pub trust_memory: bool,
}

/// The configuration, checked.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) secret: [u8; SECRET],
    pub(crate) log2_size: u8,
    pub(crate) buffer_size: u32,
    pub(crate) rx_queues: u16,
    pub(crate) tx_queues: u16,
    pub(crate) trust_memory: bool,
    pub(crate) peer_user: Option<u32>,
    /// Bytes of the longest frame that is received or sent.
    pub(crate) longest: usize,
}

/// The secret stays one.
impl core::fmt::Debug for Config {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Config")
            .field("socket", &self.socket)
            .field("id", &self.id)
            .field("role", &self.role)
            .field("name", &self.name)
            .field("has_secret", &self.secret.is_some())
            .field("ring_size", &self.ring_size)
            .field("buffer_size", &self.buffer_size)
            .field("queues", &(self.rx_queues, self.tx_queues))
            .field("frame_max", &self.frame_max)
            .field("peer_user", &self.peer_user)
            .field("trust_memory", &self.trust_memory)
            .finish()
    }
}

impl Config {
    pub(crate) fn check(&self) -> Result<Settings, OpenError> {
        let refuse = |field, reason: String| Err(OpenError::Config { field, reason });
        let mut secret = [0; SECRET];
        let given = self.secret.as_deref().unwrap_or_default().as_bytes();
        match secret.get_mut(..given.len()) {
            Some(place) => place.copy_from_slice(given),
            None => {
                return refuse("secret", format!("{} bytes: give at most {SECRET}", given.len()));
            }
        }
        if self.name.len() > NAME_MAX {
            let reason = format!("{} bytes: give at most {NAME_MAX}", self.name.len());
            return refuse("name", reason);
        }
        let ring_size = if self.ring_size == 0 { 1024 } else { self.ring_size };
        if !ring_size.is_power_of_two() || !(64..=16_384).contains(&ring_size) {
            return refuse("ring-size", format!("{ring_size}: give a power of two, 64 to 16384"));
        }
        let buffer_size = if self.buffer_size == 0 { 2048 } else { self.buffer_size };
        if !buffer_size.is_multiple_of(64) || !(256..=65_536).contains(&buffer_size) {
            let reason = format!("{buffer_size}: give a multiple of 64, 256 to 65536");
            return refuse("buffer-size", reason);
        }
        let rx_queues = queues("rx-queues", self.rx_queues)?;
        let tx_queues = queues("tx-queues", self.tx_queues)?;
        let log2_size = ring_size.trailing_zeros() as u8;
        if Layout::new(tx_queues, rx_queues, log2_size, buffer_size).total > REGION_MAX {
            let reason =
                "more than 4 GiB in all: give smaller buffers, smaller rings or fewer queues";
            return refuse("buffer-size", reason.into());
        }
        let longest = if self.frame_max == 0 { 2048 } else { self.frame_max };
        if !(64..=FRAME_MAX).contains(&longest) {
            return refuse("frame-max", format!("{longest}: give 64 to {FRAME_MAX}"));
        }
        let name = if self.name.is_empty() { "stoa-memif".into() } else { self.name.clone() };
        let (id, trust_memory, longest) = (self.id, self.trust_memory, longest as usize);
        let peer_user = self.peer_user;
        Ok(Settings {
            id,
            name,
            secret,
            log2_size,
            buffer_size,
            rx_queues,
            tx_queues,
            trust_memory,
            peer_user,
            longest,
        })
    }
}

/// The configured number of queues; 0 means one.
fn queues(field: &'static str, requested: u16) -> Result<u16, OpenError> {
    if requested > QUEUES_MAX {
        let reason = format!("{requested} queues requested: configure 1 to {QUEUES_MAX}");
        return Err(OpenError::Config { field, reason });
    }
    Ok(requested.max(1))
}
