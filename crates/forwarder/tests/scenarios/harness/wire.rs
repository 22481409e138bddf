//! A port in memory: tests insert received frames and read sent frames.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use nix::sys::eventfd::{EfdFlags, EventFd};
use stoa_engine::pool::{FRAME_MAX, HEADROOM};
use stoa_engine::{
    Doze, Pool, PoolCache, Port, PortEvent, Queues, Refused, RxQueue, TxQueue, Vector,
};
use stoa_forwarder::control::PortOpener;
use stoa_ports::{OpenError, PcapConfig, PortConfig};

/// The test side of a port.
pub struct Wire {
    inboxes: Vec<Inbox>,
    outbox: Mutex<Vec<Vec<u8>>>,
    /// Number of transmit queues.
    pub tx_queues: usize,
    /// The most frames that one call of transmit accepts.
    pub tx_limit: AtomicUsize,
    /// Whether the link is up.
    pub is_up: AtomicBool,
    /// The IP MTU of the link.
    pub mtu: AtomicU32,
    /// The longest frame that the device accepts.
    pub longest: AtomicUsize,
    /// Number of times that a port came up on it.
    pub up_count: AtomicUsize,
}

struct Inbox {
    frames: Mutex<VecDeque<Vec<u8>>>,
    wakeup: EventFd,
}

pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Wire {
    /// A wire with this number of queues in each direction.
    pub fn new(rx_queues: usize, tx_queues: usize) -> Arc<Self> {
        let inbox = |_| Inbox {
            frames: Mutex::default(),
            wakeup: EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC).unwrap(),
        };
        Arc::new(Self {
            inboxes: (0..rx_queues).map(inbox).collect(),
            outbox: Mutex::default(),
            tx_queues,
            tx_limit: AtomicUsize::new(usize::MAX),
            is_up: AtomicBool::new(true),
            mtu: AtomicU32::new(1500),
            longest: AtomicUsize::new(usize::MAX),
            up_count: AtomicUsize::new(0),
        })
    }

    /// Adds frames to a receive queue.
    pub fn put(&self, queue: usize, frames: impl IntoIterator<Item = Vec<u8>>) -> u64 {
        let inbox = &self.inboxes[queue];
        let mut waiting = locked(&inbox.frames);
        let before = waiting.len();
        waiting.extend(frames);
        let added = waiting.len() - before;
        drop(waiting);
        inbox.wakeup.write(1).unwrap();
        added as u64
    }

    /// The frames sent since the last call.
    pub fn take(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut locked(&self.outbox))
    }

    pub fn is_read(&self) -> bool {
        self.inboxes.iter().all(|inbox| locked(&inbox.frames).is_empty())
    }
}

/// The wires of a forwarder by port.
pub type Wires = Arc<Mutex<BTreeMap<String, Arc<Wire>>>>;

/// The configuration of a port on the wire of that name.
pub fn config(name: &str, mac: [u8; 6]) -> PortConfig {
    PortConfig::Pcap(PcapConfig {
        input: Some(name.into()),
        mac: Some(mac),
        ..PcapConfig::default()
    })
}

/// The same for a wire that only one port can open at a time.
pub fn alone(name: &str, mac: [u8; 6]) -> PortConfig {
    holding(name, "alone", mac)
}

/// The same for a port with exclusive use of `device`.
pub fn holding(name: &str, device: &str, mac: [u8; 6]) -> PortConfig {
    PortConfig::Pcap(PcapConfig {
        input: Some(name.into()),
        output: Some(device.into()),
        mac: Some(mac),
        ..PcapConfig::default()
    })
}

/// Opens wires. A missing wire is a configuration error, or a missing device if its name begins with
/// `late`. An exclusive device cannot be opened twice.
pub fn opener(wires: &Wires) -> PortOpener {
    let wires = wires.clone();
    let devices = Mutex::new(BTreeMap::<PathBuf, Weak<()>>::new());
    Arc::new(move |config: &PortConfig, pool: &'static Pool| {
        let refused = |reason: &str| OpenError::Config { field: "wire", reason: reason.to_owned() };
        let mut device = None;
        let (name, mac) = match config {
            PortConfig::Pcap(PcapConfig { input: Some(name), output, mac, .. }) => {
                device = output.clone();
                (name.to_string_lossy().into_owned(), mac)
            }
            PortConfig::HostInterface(config) => (config.device.clone(), &None),
            PortConfig::Tunnel(_) => return stoa_ports::open(config, pool),
            _ => return Err(refused("none")),
        };
        let wire = locked(&wires).get(&name).cloned();
        let missing = || match &name {
            name if name.starts_with("late") => {
                OpenError::NoDevice { device: name.clone(), netns: None }
            }
            _ => refused("no such wire"),
        };
        let wire = wire.ok_or_else(missing)?;
        let held = Arc::new(());
        if let Some(device) = device {
            let mut devices = locked(&devices);
            if devices.get(&device).is_some_and(|held| held.strong_count() > 0) {
                return Err(OpenError::Busy { what: device.display().to_string() });
            }
            devices.insert(device, Arc::downgrade(&held));
        }
        let mac = mac.unwrap_or_default();
        Ok(Box::new(WirePort { wire, mac, reported: false, _held: held }) as Box<dyn Port>)
    })
}

struct WirePort {
    wire: Arc<Wire>,
    mac: [u8; 6],
    reported: bool,
    /// The lock of its exclusive device.
    _held: Arc<()>,
}

impl Port for WirePort {
    fn driver(&self) -> &'static str {
        "pcap"
    }

    fn mac(&self) -> [u8; 6] {
        self.mac
    }

    fn mtu(&self) -> u32 {
        self.wire.mtu.load(Ordering::SeqCst)
    }

    fn service(&mut self) -> Vec<PortEvent> {
        let is_up = self.wire.is_up.load(Ordering::SeqCst);
        if std::mem::replace(&mut self.reported, is_up) == is_up {
            return Vec::new();
        }
        if !is_up {
            return vec![PortEvent::Down("unplugged".to_owned())];
        }
        self.wire.up_count.fetch_add(1, Ordering::SeqCst);
        let rx = |queue| Box::new(Rx { wire: self.wire.clone(), queue }) as Box<dyn RxQueue>;
        let tx = |_| {
            Box::new(Tx { wire: self.wire.clone(), refused: Refused::default() })
                as Box<dyn TxQueue>
        };
        let rx = (0..self.wire.inboxes.len()).map(rx).collect();
        vec![PortEvent::Up(Queues { rx, tx: (0..self.wire.tx_queues).map(tx).collect() })]
    }
}

struct Rx {
    wire: Arc<Wire>,
    queue: usize,
}

impl Rx {
    fn inbox(&self) -> &Inbox {
        &self.wire.inboxes[self.queue]
    }
}

impl RxQueue for Rx {
    fn receive(&mut self, vector: &mut Vector, pool: &mut PoolCache) -> usize {
        let mut frames = locked(&self.inbox().frames);
        let first = vector.len();
        let came = pool.fill(vector, frames.len().min(vector.room()));
        for (lane, frame) in (first..first + came).zip(frames.drain(..came)) {
            if frame.len() > FRAME_MAX {
                assert!(pool.enlarge(vector, lane), "no jumbo buffer is free");
            }
            vector.buffer_mut(lane)[HEADROOM..HEADROOM + frame.len()].copy_from_slice(&frame);
            vector.length[lane] = frame.len() as u16;
        }
        came
    }

    fn doze(&mut self) -> Doze {
        let _ = self.inbox().wakeup.read();
        if locked(&self.inbox().frames).is_empty() { Doze::OnDescriptor } else { Doze::Awake }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.inbox().wakeup.as_fd())
    }
}

struct Tx {
    wire: Arc<Wire>,
    refused: Refused,
}

impl TxQueue for Tx {
    fn transmit(&mut self, vector: &mut Vector, _: &mut PoolCache) -> usize {
        let tx_limit = self.wire.tx_limit.load(Ordering::SeqCst).min(vector.len());
        let longest = self.wire.longest.load(Ordering::SeqCst);
        for lane in 0..tx_limit {
            match vector.bytes(lane) {
                frame if frame.len() <= longest => locked(&self.wire.outbox).push(frame.to_vec()),
                _ => self.refused.add(vector, lane..lane + 1),
            }
        }
        tx_limit
    }

    fn refused(&mut self) -> Refused {
        std::mem::take(&mut self.refused)
    }
}
