//! What a port driver is: queues that workers own, and a control side that the
//! forwarder's control thread owns.

use std::ops::{AddAssign, Range};
use std::os::fd::BorrowedFd;

use crate::pool::{Pool, PoolCache};
use crate::vector::{Vector, flags};

/// A receive queue; belongs to one worker at a time.
pub trait RxQueue: Send {
    /// Appends received frames to `vector`, at most as many as it has space for, and
    /// returns how many. Lanes come from [`PoolCache::fill`]; the driver writes the
    /// frame (from the destination MAC on, tags included, without FCS) and sets
    /// `length`. It must not block.
    fn receive(&mut self, vector: &mut Vector, pool: &mut PoolCache) -> usize;

    /// The worker has received no packets and is about to sleep: enable the peer's
    /// interrupts and return how the worker is notified of new packets.
    fn doze(&mut self) -> Doze;

    /// The worker polls again.
    fn wake(&mut self) {}

    /// What to sleep on after [`Doze::OnDescriptor`]; readable means packets.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// How a sleeping worker is notified of packets of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doze {
    /// Packets wait already, or may come unannounced: do not sleep.
    Awake,
    /// The queue's descriptor becomes readable.
    OnDescriptor,
    /// No notification: poll again after so many microseconds.
    After(u32),
    /// Nothing will ever come.
    Never,
}

/// A transmit queue; belongs to one worker at a time.
pub trait TxQueue: Send {
    /// Sends the first lanes of `vector` in order and returns how many were taken;
    /// the worker drops the rest with a reason. Lanes whose buffer the driver did
    /// not [`Vector::take`] are freed by the worker. It must not block.
    fn transmit(&mut self, vector: &mut Vector, pool: &mut PoolCache) -> usize;

    /// What a device behind the port refused for good of the lanes that
    /// [`Self::transmit`] ever took ([`Refused::add`] for those of the burst), since the last
    /// call; the worker calls it after each `transmit` and about ten times a second, and counts it
    /// as dropped. Drivers whose peer takes every frame leave it as it is.
    fn refused(&mut self) -> Refused {
        Refused::default()
    }

    /// The queue is about to be dropped: what it has taken and not brought to a device, and will
    /// not any more. Nothing is sent by it afterwards. It must not block.
    fn close(&mut self) -> Refused {
        Refused::default()
    }
}

/// Frames that a device would not have: longer than its MTU, or malformed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// Frames.
    pub packets: u64,
    /// Their bytes, without FCS.
    pub bytes: u64,
}

impl Refused {
    /// Adds `lanes` of a vector, and marks them, so that a trace and a capture distinguish them from
    /// those that were sent.
    pub fn add(&mut self, vector: &mut Vector, lanes: Range<usize>) {
        self.packets += lanes.len() as u64;
        vector.flags[lanes.clone()].iter_mut().for_each(|flags| *flags |= flags::REFUSED);
        self.bytes += vector.length[lanes].iter().map(|length| u64::from(*length)).sum::<u64>();
    }

    /// Takes out what can be counted against so many packets and bytes; the rest stays.
    #[inline]
    #[must_use]
    pub fn settle(&mut self, packets: u64, bytes: u64) -> Self {
        let now = Self { packets: self.packets.min(packets), bytes: self.bytes.min(bytes) };
        self.packets -= now.packets;
        self.bytes -= now.bytes;
        now
    }
}

impl AddAssign for Refused {
    fn add_assign(&mut self, more: Self) {
        self.packets += more.packets;
        self.bytes += more.bytes;
    }
}

/// The queues of a port that came up.
#[derive(Default)]
pub struct Queues {
    /// Receive queues, distributed over the workers.
    pub rx: Vec<Box<dyn RxQueue>>,
    /// Transmit queues; workers beyond their number hand packets over.
    pub tx: Vec<Box<dyn TxQueue>>,
}

/// What a port reports to the forwarder's control thread.
pub enum PortEvent {
    /// The link is up; these queues replace all earlier ones.
    Up(Queues),
    /// The link is down; the workers' queues are taken away and dropped.
    Down(String),
}

/// The interface that a host interface belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Followed {
    /// Its MAC address.
    pub mac: [u8; 6],
    /// Bytes of its IP packets.
    pub mtu: u32,
    /// Whether its link is up.
    pub is_up: bool,
}

/// The control side of a port.
pub trait Port: Send {
    /// The driver's name, as in `stoa show interfaces`.
    fn driver(&self) -> &'static str;

    /// The port's own MAC address.
    fn mac(&self) -> [u8; 6];

    /// Bytes that one IP packet may have (the frame less 14 bytes).
    fn mtu(&self) -> u32;

    /// Descriptors that the control thread watches for this port.
    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }

    /// Called when a descriptor is readable and about ten times a second, as long as
    /// [`Self::needs_service`]. Must not block. The first call usually answers [`PortEvent::Up`].
    fn service(&mut self) -> Vec<PortEvent>;

    /// Whether [`Self::service`] may have anything more to report. A port without a link and without
    /// descriptors does not once it is up: a router may have tens of thousands of them, tunnels above all,
    /// which must not cost the control thread time.
    fn needs_service(&self) -> bool {
        true
    }

    /// The pool of all vectors that its queues fill and send; `None`: any. Only workers of this pool get
    /// its queues.
    fn pool(&self) -> Option<&'static Pool> {
        None
    }

    /// The operator sets the port up (as it is when it was opened) or down. Down, it gives its
    /// link up and takes none; the next [`Self::service`] reports it. A port that does not share its link
    /// stays as it is: nothing is sent or received by an interface that is down.
    fn set_enabled(&mut self, enabled: bool) {
        let _ = enabled;
    }

    /// The port is a host interface: apply the state of the interface that it belongs to. Called at
    /// the start and after each change. Other ports do nothing.
    fn follow(&mut self, _interface: &Followed) {}

    /// Frames that the port dropped before we received them, since it was opened.
    fn missed(&self) -> u64 {
        0
    }

    /// The driver's own text on its state: peer, rings, modes.
    fn detail(&self) -> String {
        String::new()
    }
}
