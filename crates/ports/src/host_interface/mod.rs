//! `host_interface`: the end in Linux of one of our interfaces. A TAP device with the same MAC address and
//! MTU, through which programs of this machine speak as that interface.
//!
//! ```text
//! wire -> graph -> host-interface-output -> Sender -> device -> Linux
//! Linux -> device -> Receiver -> host-interface-input -> port-output -> wire
//! ```
//! The device is persistent: it outlives a forwarder that was killed, with the addresses and the
//! sockets on it, and the next forwarder takes it over. It knows its own by the device's alias. A
//! host interface that is closed in order takes its device along. The controller holds a [`spare()`] queue of
//! the device, so that it keeps its carrier until the next forwarder is there.

mod alias;
pub(crate) mod device_settings;
mod spare;

use std::io::Error;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use stoa_engine::port::Followed;
use stoa_engine::{Doze, PoolCache, Port, PortEvent, Queues, RxQueue, Vector, clock};

use crate::config::HostInterfaceConfig;
use crate::error::OpenError;
use crate::netdevice::{self, Device, system};
use crate::netns::Namespace;
use crate::tap::{self, Shared, queue::Receiver, queue::Sender, sys};
use crate::{device_opener, ethtool, link};

pub use spare::spare;

/// How often a device that was deleted is made anew.
const MAKE_AGAIN: Duration = Duration::from_secs(1);

/// How long the interface of a forwarder that begins may take until its port is up: so long a
/// host interface keeps the carrier that it had.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long an empty queue is not polled: each poll is a system call, and a busy worker
/// turns every few microseconds.
const PAUSE_US: u64 = 50;

/// The device as we have it.
struct Held {
    watch: OwnedFd,
    queues: Vec<Arc<OwnedFd>>,
    device: Device,
    /// The namespace: another one of the same name is not where we are.
    home: Namespace,
    /// Settings that Linux did not take.
    refused: usize,
    /// It was taken over with a carrier, and its interface was not up yet.
    had_carrier: bool,
}

/// A host interface.
pub struct HostInterface {
    config: HostInterfaceConfig,
    held: Held,
    made_at: Instant,
    up: bool,
    /// The reported reason why the host interface is down.
    down: Option<String>,
    followed: Option<Followed>,
    shared: Arc<Shared>,
}

/// Makes the device in its namespace, or takes over the one that an earlier forwarder has left.
///
/// # Errors
/// A device of that name is there and is not ours; no CAP_NET_ADMIN; no such namespace; no
/// `/dev/net/tun`; more than 64 queues.
pub fn open(config: &HostInterfaceConfig) -> Result<HostInterface, OpenError> {
    link::queues("queues", config.queues, link::QUEUES_MAX)?;
    netdevice::check_name(&config.device)?;
    let held = hold(config)?;
    let (config, made_at) = (config.clone(), Instant::now());
    let (followed, shared) = (None, Arc::default());
    Ok(HostInterface { config, held, made_at, up: false, down: None, followed, shared })
}

fn hold(config: &HostInterfaceConfig) -> Result<Held, OpenError> {
    let name = config.device.as_str();
    let home = Namespace::find(config.netns.as_deref())?;
    let watch = device_opener::watch(&home)?.map_err(system("watch network devices"))?;
    let (first, had_carrier) = match sys::open(&home, name, true) {
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
            take_over(config, &home, &watch)?
        }
        first => (first.map_err(|error| tap::refused(name, error))?, false),
    };
    let refused = device_opener::apply_settings(&home, name)?;
    let refused = refused.map_err(system("set what Linux must not do on a TAP device"))?;
    let index = netdevice::device(&watch, name).map_err(system("query a TAP device"))?;
    let index = index.map_or(0, |device| device.index);
    alias::set(&home, index, &config.alias).map_err(system("mark a TAP device as ours"))?;
    let mut queues = vec![Arc::new(first)];
    for _ in 1..config.queues.max(1) {
        let queue = sys::open(&home, name, false).map_err(|error| tap::refused(name, error))?;
        queues.push(Arc::new(queue));
    }
    let device = netdevice::device(&watch, name).map_err(system("query a TAP device"))?;
    let gone = || OpenError::NoDevice { device: name.into(), netns: config.netns.clone() };
    let device = device.ok_or_else(gone)?;
    // Last of all: what was not finished goes with us, and what stays bears our mark.
    sys::persist(&queues[0], true).map_err(system("keep a TAP device"))?;
    Ok(Held { watch, queues, device, home, refused, had_carrier })
}

/// Opens the device of an earlier forwarder, but no other. Returns whether it has a carrier.
fn take_over(
    config: &HostInterfaceConfig,
    home: &Namespace,
    watch: &OwnedFd,
) -> Result<(OwnedFd, bool), OpenError> {
    let name = config.device.as_str();
    let place = config.netns.as_ref().map(|name| format!(" in network namespace {name}"));
    let busy = || OpenError::Busy {
        what: format!("device name {name}{} for a host interface", place.unwrap_or_default()),
    };
    let device = netdevice::device(watch, name).map_err(system("query a TAP device"))?;
    let Some(device) = device else { return Err(busy()) };
    let found =
        alias::get(home, device.index).map_err(system("query the owner of a TAP device"))?;
    if config.alias.is_empty() || found != config.alias {
        return Err(busy());
    }
    let queue = sys::open(home, name, false).map_err(|error| tap::refused(name, error))?;
    Ok((queue, device.running))
}

impl HostInterface {
    /// Queries the device's present state, and makes a deleted one anew.
    fn refresh(&mut self, events: &mut Vec<PortEvent>) -> Option<Device> {
        let name = &self.config.device;
        let now = netdevice::device(&self.held.watch, name).ok().flatten();
        let ours = now.filter(|device| device.index == self.held.device.index);
        let is_home = self.held.home.is_current();
        if ours.is_some() && is_home {
            return ours;
        }
        if self.up {
            let what = match &self.config.netns {
                Some(netns) if !is_home => format!("network namespace {netns}"),
                _ => format!("device {}", self.config.device),
            };
            self.go_down(format!("{what} is gone"), events);
        }
        if self.made_at.elapsed() < MAKE_AGAIN {
            return None;
        }
        self.made_at = Instant::now();
        match hold(&self.config) {
            Ok(held) => {
                // A renamed device is not left behind.
                self.let_go();
                self.held = held;
                let followed = self.followed.take();
                if let Some(followed) = followed {
                    self.follow(&followed);
                }
                netdevice::device(&self.held.watch, &self.config.device).ok().flatten()
            }
            Err(error) => {
                self.go_down(error.to_string(), events);
                None
            }
        }
    }

    /// The device ends with its last queue, and at once: the controller may have one.
    fn let_go(&self) {
        for queue in &self.held.queues {
            // A device that is gone already needs no more.
            let _ = sys::persist(queue, false);
        }
        if !self.config.alias.is_empty() {
            // Somebody else may have deleted it, or its namespace, to which nobody can go then.
            let _ = alias::delete(&self.held.home, self.held.device.index, &self.config.alias);
        }
    }

    /// The state that the device gets. It keeps its carrier while a forwarder starts: the interface is about to
    /// come up, and what programs configure on a device is lost with its carrier.
    fn patient(&mut self, followed: &Followed) -> Followed {
        let is_late = self.made_at.elapsed() > PATIENCE;
        self.held.had_carrier &= !followed.is_up && !is_late;
        Followed { is_up: followed.is_up || self.held.had_carrier, ..followed.clone() }
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
        for queue in &self.held.queues {
            // The MTU may grow while the queue is there; Linux sends nothing that is longer.
            let longest = link::longest(link::MTU_MAX);
            let inner = Receiver::new(queue.clone(), longest, self.shared.clone());
            queues.rx.push(Box::new(Patient { inner, after: 0 }));
            queues.tx.push(Box::new(Sender::new(queue.clone(), self.shared.clone())));
        }
        queues
    }

    fn set(&mut self, followed: &Followed) -> Result<(), Error> {
        let (watch, name) = (&self.held.watch, self.config.device.as_str());
        let before = self.followed.as_ref();
        // One that was taken over has them, and Linux would forget its neighbours.
        let (mac, mtu) = before.map_or_else(
            || (self.held.device.mac, self.held.device.mtu),
            |before| (before.mac, before.mtu),
        );
        if mac != followed.mac {
            netdevice::set_mac(watch, name, followed.mac)?;
        }
        if mtu != followed.mtu {
            netdevice::set_mtu(watch, name, followed.mtu)?;
        }
        if before.is_none() {
            netdevice::set_up(watch, name)?;
        }
        if before.is_none_or(|before| before.is_up != followed.is_up) {
            sys::set_carrier(&self.held.queues[0], followed.is_up)?;
            ethtool::tell_link(watch, name)?;
        }
        Ok(())
    }
}

impl Port for HostInterface {
    fn driver(&self) -> &'static str {
        "tap"
    }

    fn mac(&self) -> [u8; 6] {
        self.held.device.mac
    }

    fn mtu(&self) -> u32 {
        self.held.device.mtu
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.held.watch.as_fd()]
    }

    fn service(&mut self) -> Vec<PortEvent> {
        netdevice::hush(&self.held.watch);
        let mut events = Vec::new();
        let Some(device) = self.refresh(&mut events) else { return events };
        self.held.device = device;
        // We set its carrier, so only the operator's setting counts.
        if !device.admin_up && self.followed.is_some() {
            let name = &self.config.device;
            self.go_down(format!("device {name} is down: ip link set {name} up"), &mut events);
        } else if !self.up {
            (self.up, self.down) = (true, None);
            events.push(PortEvent::Up(self.queues()));
        }
        events
    }

    fn follow(&mut self, followed: &Followed) {
        let followed = self.patient(followed);
        if self.followed.as_ref() == Some(&followed) {
            return;
        }
        match self.set(&followed) {
            Ok(()) => {
                self.followed = Some(followed);
                if self.up {
                    self.down = None;
                }
            }
            // The device is gone, or busy for a moment: the next refresh tries again.
            Err(error) => self.down = Some(format!("device {}: {error}", self.config.device)),
        }
    }

    fn missed(&self) -> u64 {
        self.shared.missed.load(Ordering::Relaxed)
    }

    fn detail(&self) -> String {
        let place = self.config.netns.as_ref().map(|netns| format!("{netns}/"));
        let name = format!("{}{}", place.unwrap_or_default(), self.config.device);
        match (&self.down, self.held.refused) {
            (Some(reason), _) => format!("{name} down: {reason}"),
            (None, 0) => format!("{name} up"),
            (None, refused) => {
                format!("{name} up, {refused} settings refused by Linux (is /proc/sys read-only?)")
            }
        }
    }
}

impl Drop for HostInterface {
    /// Closed in order: the device goes with its last queue.
    fn drop(&mut self) {
        self.let_go();
    }
}

/// A receive queue that is not polled again at once when it was empty.
struct Patient {
    inner: Receiver,
    after: u64,
}

impl RxQueue for Patient {
    fn receive(&mut self, vector: &mut Vector, pool: &mut PoolCache) -> usize {
        let now = clock::tsc();
        if now < self.after {
            return 0;
        }
        let received = self.inner.receive(vector, pool);
        if received == 0 {
            self.after = now + clock::tsc_hz() / 1_000_000 * PAUSE_US;
        }
        received
    }

    fn doze(&mut self) -> Doze {
        self.inner.doze()
    }

    fn wake(&mut self) {
        self.after = 0;
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inner.descriptor()
    }
}
