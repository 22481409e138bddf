//! `memif`: shared memory with another program, memif 2.0, in both roles, by `stoa-memif`.
//!
//! Received frames are copied into buffers of the pool, sent ones into the shared buffers: the pool is
//! never shared, so a peer can read and change nothing else.

use std::os::fd::BorrowedFd;

use stoa_engine::pool::{FRAME_MAX, HEADROOM};
use stoa_engine::{Doze, PoolCache, Port, PortEvent, Queues, Refused, RxQueue, TxQueue, Vector};
use stoa_memif::{Config, Event, FrameSink, NoRoom, Receiver, Role, Sender};

use crate::config::{MemifConfig, MemifRole};
use crate::error::OpenError;
use crate::link;

/// What we call ourselves to peers.
const NAME: &str = "stoa";

/// A memif port.
pub struct Memif {
    memif: stoa_memif::Memif,
    mac: [u8; 6],
    mtu: u32,
}

/// Opens the port. A master listens from now on.
///
/// # Errors
/// An invalid configuration, or a socket that cannot be listened on.
pub fn open(config: &MemifConfig) -> Result<Memif, OpenError> {
    let mtu = link::mtu(config.mtu, link::MTU)?;
    let config_of_memif = Config {
        socket: config.socket.clone(),
        id: config.id,
        role: match config.role {
            MemifRole::Master => Role::Master,
            MemifRole::Slave => Role::Slave,
        },
        name: NAME.into(),
        secret: config.secret.clone(),
        ring_size: config.ring_size,
        buffer_size: config.buffer_size,
        rx_queues: config.rx_queues,
        tx_queues: config.tx_queues,
        frame_max: link::longest(mtu) as u32,
        peer_user: config.peer_user,
        trust_memory: config.trust_memory,
    };
    let memif = stoa_memif::Memif::open(&config_of_memif)?;
    Ok(Memif { memif, mac: link::mac(config.mac), mtu })
}

impl From<stoa_memif::OpenError> for OpenError {
    fn from(error: stoa_memif::OpenError) -> Self {
        match error {
            stoa_memif::OpenError::Config { field, reason } => Self::Config { field, reason },
            stoa_memif::OpenError::Busy { what } => Self::Busy { what },
            stoa_memif::OpenError::File { path, source } => Self::File { path, source },
            stoa_memif::OpenError::System { doing, source } => Self::System { doing, source },
        }
    }
}

impl Port for Memif {
    fn driver(&self) -> &'static str {
        "memif"
    }

    fn mac(&self) -> [u8; 6] {
        self.mac
    }

    fn mtu(&self) -> u32 {
        self.mtu
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.memif.descriptors()
    }

    fn service(&mut self) -> Vec<PortEvent> {
        let event = self.memif.service().map(|event| match event {
            Event::Up(rings) => {
                let mut queues = Queues::default();
                for receiver in rings.receivers {
                    queues.rx.push(Box::new(MemifRx { receiver }));
                }
                for sender in rings.senders {
                    queues.tx.push(Box::new(MemifTx { sender, refused: Refused::default() }));
                }
                PortEvent::Up(queues)
            }
            Event::Down(reason) => PortEvent::Down(reason),
        });
        event.into_iter().collect()
    }

    fn set_enabled(&mut self, enabled: bool) {
        self.memif.set_enabled(enabled);
    }

    fn missed(&self) -> u64 {
        self.memif.left_out()
    }

    fn detail(&self) -> String {
        self.memif.detail().into()
    }
}

/// A receive queue.
struct MemifRx {
    receiver: Receiver,
}

/// The lanes of a vector from `lane` on, each with a buffer.
struct Lanes<'a> {
    vector: &'a mut Vector,
    pool: &'a mut PoolCache,
    lane: usize,
}

impl FrameSink for Lanes<'_> {
    #[inline(always)]
    fn place(&mut self, length: usize) -> Option<&mut [u8]> {
        let lane = self.lane;
        if length <= FRAME_MAX {
            return self.vector.slot_mut(lane).get_mut(HEADROOM..);
        }
        let is_long = self.pool.enlarge(self.vector, lane);
        is_long.then(|| &mut self.vector.buffer_mut(lane)[HEADROOM..])
    }

    #[inline(always)]
    fn keep(&mut self, length: usize) {
        self.vector.length[self.lane] = length as u16;
        self.lane += 1;
    }
}

impl RxQueue for MemifRx {
    fn receive(&mut self, vector: &mut Vector, pool: &mut PoolCache) -> usize {
        let ready = self.receiver.ready();
        if ready == 0 {
            return 0;
        }
        let first = vector.len();
        let lanes = pool.fill(vector, ready);
        let mut sink = Lanes { vector, pool, lane: first };
        let kept = self.receiver.receive_into(lanes, &mut sink);
        pool.free_from(vector, first + kept);
        kept
    }

    fn doze(&mut self) -> Doze {
        match self.receiver.doze() {
            stoa_memif::Doze::Awake => Doze::Awake,
            stoa_memif::Doze::OnDescriptor => Doze::OnDescriptor,
            stoa_memif::Doze::Never => Doze::Never,
        }
    }

    fn wake(&mut self) {
        self.receiver.wake();
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.receiver.descriptor())
    }
}

/// A transmit queue.
struct MemifTx {
    sender: Sender,
    refused: Refused,
}

impl TxQueue for MemifTx {
    fn transmit(&mut self, vector: &mut Vector, _: &mut PoolCache) -> usize {
        let mut batch = self.sender.batch();
        for lane in 0..vector.len() {
            vector.prefetch(lane + 2);
            match batch.put(vector.bytes(lane)) {
                Ok(()) => {}
                // This one only.
                Err(NoRoom::Ever) => self.refused.add(vector, lane..lane + 1),
                Err(NoRoom::Now) => return lane,
            }
        }
        vector.len()
    }

    fn refused(&mut self) -> Refused {
        std::mem::take(&mut self.refused)
    }
}
