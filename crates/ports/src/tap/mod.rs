//! `tap`: a Linux network device that the port makes; what Linux sends to it, we receive.
//!
//! ```text
//! Linux -> device -> readv: packet ------------------> packets
//!                    readv: super-frame -> Staging --> packets
//! packets -> coalesce -> writev -> device -> Linux
//! ```
//! The device lives as long as the port: addresses that Linux gives to it stay while it is
//! set down and up. When someone deletes it, or its namespace, it is made anew.

pub(crate) mod queue;
pub(crate) mod sys;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use stoa_engine::{Port, PortEvent, Queues};

use crate::config::TapConfig;
use crate::error::OpenError;
use crate::netdevice::{self, Device, system};
use crate::netns::Namespace;
use crate::{device_opener, link};
use queue::{Receiver, Sender};

/// How often a device that was deleted is made anew.
const MAKE_AGAIN: Duration = Duration::from_secs(1);

/// What queues report to the port.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// Received frames that could not become packets.
    pub(crate) missed: AtomicU64,
    /// Frames that the device refused.
    pub(crate) refused: AtomicU64,
}

/// The device as we made it.
struct Made {
    /// Queries the device and receives its changes.
    watch: OwnedFd,
    /// The queues; the device goes when the last one is closed.
    queues: Vec<Arc<OwnedFd>>,
    /// The device's properties.
    device: Device,
    /// The namespace that it is in.
    home: Namespace,
}

/// A port on a TAP device.
pub struct Tap {
    name: String,
    netns: Option<String>,
    count: u16,
    /// What the device gets when it is made; Linux may change it.
    mtu: u32,
    mac: [u8; 6],
    /// `None`: its namespace is gone. The queues were closed, because a queue keeps it alive.
    made: Option<Made>,
    last: Device,
    made_at: Instant,
    up: bool,
    /// The reported reason why the port is down.
    down: Option<String>,
    shared: Arc<Shared>,
}

/// Makes the device in its namespace, sets it up, and opens the port.
///
/// # Errors
/// A device of that name is there; no CAP_NET_ADMIN; no such namespace; no `/dev/net/tun`; more
/// than 64 queues.
pub fn open(config: &TapConfig) -> Result<Tap, OpenError> {
    let count = link::queues("queues", config.queues, link::QUEUES_MAX)?;
    netdevice::check_name(&config.device)?;
    let mtu = link::mtu(config.mtu, link::MTU)?;
    let made = make(&config.device, config.netns.as_deref(), count, mtu)?;
    // Linux's end has an address of its own.
    let mut mac = link::mac(None);
    if mac == made.device.mac {
        mac[5] ^= 1;
    }
    Ok(Tap {
        name: config.device.clone(),
        netns: config.netns.clone(),
        count,
        mtu,
        mac,
        last: made.device,
        made: Some(made),
        made_at: Instant::now(),
        up: false,
        down: None,
        shared: Arc::default(),
    })
}

/// Why there is no TAP device of that name.
pub(crate) fn refused(name: &str, source: std::io::Error) -> OpenError {
    match source.raw_os_error() {
        Some(libc::EBUSY | libc::EINVAL) => OpenError::Busy { what: format!("device name {name}") },
        Some(libc::EPERM | libc::EACCES) => OpenError::Permission {
            what: format!("to make TAP device {name}"),
            capability: "CAP_NET_ADMIN",
        },
        Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => OpenError::NoTun { source },
        _ => system("make a TAP device")(source),
    }
}

fn make(name: &str, netns: Option<&str>, count: u16, mtu: u32) -> Result<Made, OpenError> {
    let home = Namespace::find(netns)?;
    let watch = device_opener::watch(&home)?.map_err(system("watch network devices"))?;
    let mut queues = Vec::new();
    for number in 0..count {
        let queue = sys::open(&home, name, number == 0).map_err(|error| refused(name, error))?;
        queues.push(Arc::new(queue));
    }
    netdevice::set_mtu(&watch, name, mtu).map_err(system("set the MTU of a TAP device"))?;
    netdevice::set_up(&watch, name).map_err(system("set a TAP device up"))?;
    let device = netdevice::device(&watch, name).map_err(system("query a TAP device"))?;
    let gone = || OpenError::NoDevice { device: name.into(), netns: netns.map(Into::into) };
    Ok(Made { watch, queues, device: device.ok_or_else(gone)?, home })
}

impl Tap {
    /// Queries the device's present state, and makes a deleted one anew.
    fn refresh(&mut self, events: &mut Vec<PortEvent>) -> Option<Device> {
        if let Some(made) = &self.made {
            netdevice::hush(&made.watch);
            let now = netdevice::device(&made.watch, &self.name).ok().flatten();
            let ours = now.filter(|device| device.index == made.device.index);
            let is_home = made.home.is_current();
            if ours.is_some() && is_home {
                return ours;
            }
            let what = match &self.netns {
                Some(netns) if !is_home => format!("network namespace {netns}"),
                _ => format!("device {}", self.name),
            };
            self.made = None;
            self.go_down(format!("{what} is gone"), events);
        }
        if self.made_at.elapsed() < MAKE_AGAIN {
            return None;
        }
        self.made_at = Instant::now();
        match make(&self.name, self.netns.as_deref(), self.count, self.mtu) {
            Ok(made) => {
                let device = made.device;
                self.made = Some(made);
                Some(device)
            }
            Err(error) => {
                self.go_down(error.to_string(), events);
                None
            }
        }
    }

    fn go_down(&mut self, reason: String, events: &mut Vec<PortEvent>) {
        self.up = false;
        if self.down.as_ref() != Some(&reason) {
            self.down = Some(reason.clone());
            events.push(PortEvent::Down(reason));
        }
    }

    fn queues(&self) -> Queues {
        let mut queues = Queues::default();
        let longest = link::longest(self.mtu());
        for queue in self.made.iter().flat_map(|made| &made.queues) {
            queues.rx.push(Box::new(Receiver::new(queue.clone(), longest, self.shared.clone())));
            queues.tx.push(Box::new(Sender::new(queue.clone(), self.shared.clone())));
        }
        queues
    }
}

impl Port for Tap {
    fn driver(&self) -> &'static str {
        "tap"
    }

    fn mac(&self) -> [u8; 6] {
        self.mac
    }

    /// The device's, as far as a buffer holds it.
    fn mtu(&self) -> u32 {
        self.last.mtu.min(link::MTU_MAX)
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.made.iter().map(|made| made.watch.as_fd()).collect()
    }

    fn service(&mut self) -> Vec<PortEvent> {
        let mut events = Vec::new();
        let Some(device) = self.refresh(&mut events) else { return events };
        let mtu = self.mtu();
        self.last = device;
        match netdevice::obstacle(&self.name, Some(&device)) {
            Some(reason) => self.go_down(reason, &mut events),
            // Another MTU: new queues for frames of that size, without a notice to Linux.
            None if !self.up || self.mtu() != mtu => {
                (self.up, self.down) = (true, None);
                events.push(PortEvent::Up(self.queues()));
            }
            None => {}
        }
        events
    }

    fn missed(&self) -> u64 {
        self.shared.missed.load(Ordering::Relaxed)
    }

    fn detail(&self) -> String {
        let place = self.netns.as_ref().map(|name| format!(" in {name}")).unwrap_or_default();
        let state = match &self.down {
            Some(reason) => reason.clone(),
            None => format!("index {}", self.last.index),
        };
        let refused = match self.shared.refused.load(Ordering::Relaxed) {
            0 => String::new(),
            frames => format!(", {frames} frames refused by the device"),
        };
        format!("{}{place}: {state}, {} queues{refused}", self.name, self.count)
    }
}
