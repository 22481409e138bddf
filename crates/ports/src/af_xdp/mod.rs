//! `af-xdp`: a Linux network device whose frames bypass the kernel's network stack.
//!
//! ```text
//! device -> our XDP program -> RX ring -> copy -> packets
//! packets -> copy -> TX ring -> system call -> device
//! ```
//! The program is on the device as long as the port is open; frames of queues without a socket
//! go to Linux. The sockets come and go with the link. The port follows the device: down, up,
//! renamed, deleted, made anew, its namespace, too.

mod attach;
pub(crate) mod bpf;
mod btf;
mod features;
mod layout;
mod program;
mod rights;
mod ring;
mod rx;
mod socket;
mod tx;
mod tx_tracker;

use std::io::Error;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use stoa_engine::{Port, PortEvent, Queues};

use crate::config::{AfXdpConfig, XdpBind};
use crate::device_opener::{self, SocketKind};
use crate::error::OpenError;
use crate::ethtool::{self, Driver};
use crate::follow::{Follower, Retry};
use crate::link;
use crate::netdevice::Device;
use crate::netns::Namespace;
use attach::{Attached, Tags};
pub(crate) use attach::{Program, attach_program};
use features::Features;
use layout::Layout;
use rights::{Rights, refusal};
use rx::Receiver;
use socket::{Parts, Socket};
use tx::Sender;

/// What queues report to the port.
#[derive(Debug, Default)]
struct Shared {
    /// Received frames that could not become packets.
    missed: AtomicU64,
    /// Frames that the device refused to send.
    refused: AtomicU64,
}

impl Shared {
    fn miss(&self, frames: u64) {
        if frames > 0 {
            self.missed.fetch_add(frames, Ordering::Relaxed);
        }
    }

    fn refuse(&self, frames: u64) {
        self.refused.fetch_add(frames, Ordering::Relaxed);
    }
}

/// The state while the port is up.
struct Up {
    index: i32,
    mtu: u32,
    sockets: Vec<Arc<Socket>>,
    zero_copy: bool,
    /// A frame may have several chunks.
    in_pieces: bool,
    /// Receive queues of the device.
    of: u32,
}

/// A port on a Linux network device.
pub struct AfXdp {
    config: AfXdpConfig,
    follower: Follower,
    last: Device,
    driver: Driver,
    attached: Option<Attached>,
    /// The MTU that the program was made for.
    fitted: u32,
    up: Option<Up>,
    /// The reported reason why the port is down.
    down: Option<String>,
    /// What the system refused when queues were opened last.
    refused: Option<String>,
    retry: Retry,
    shared: Arc<Shared>,
}

/// Opens a port on the device that the configuration names.
///
/// # Errors
/// No such device or namespace; not an Ethernet device; more than 64 queues; a kernel without
/// AF_XDP; CAP_NET_RAW, CAP_NET_ADMIN or CAP_BPF is missing; the device cannot do `attach` or
/// `bind` as configured, where the kernel (Linux 6.3) reports it.
pub fn open(config: &AfXdpConfig) -> Result<AfXdp, OpenError> {
    link::queues("rx-queues", config.queues, link::QUEUES_MAX)?;
    let mtu = link::mtu(config.mtu, link::MTU_MAX)?;
    let namespace = Namespace::find(config.netns.as_deref())?;
    may(&namespace, &config.device)?;
    let (follower, last) = Follower::new(&config.device, namespace.clone())?;
    let driver = match follower.watch() {
        Some(watch) => ethtool::driver(watch, &config.device),
        None => Driver::default(),
    };
    if let Some(features) = Features::of(&namespace, last.index as u32) {
        features.allow(config, &driver)?;
    }
    Ok(AfXdp {
        config: AfXdpConfig { mtu, ..config.clone() },
        follower,
        last,
        driver,
        attached: None,
        fitted: 0,
        up: None,
        down: None,
        refused: None,
        retry: Retry::new(),
        shared: Arc::default(),
    })
}

/// Whether this kernel and our rights allow what a port needs.
fn may(namespace: &Namespace, name: &str) -> Result<(), OpenError> {
    let refused = |what: &str| {
        let what = format!("{what} for {name}");
        move |error: Error| match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => {
                OpenError::Rights { what, source: error, reason: Rights::now().words() }
            }
            Some(libc::EAFNOSUPPORT | libc::ENOSYS | libc::EINVAL) => OpenError::Config {
                field: "af-xdp",
                reason: "this kernel was built without AF_XDP: use af-packet".into(),
            },
            _ => OpenError::System { doing: "open an AF_XDP socket", source: error },
        }
    };
    let map = bpf::socket_map(1).map_err(refused("a BPF map"))?;
    bpf::load(&program::plain(&map), 0, 0).map_err(refused("an XDP program"))?;
    device_opener::socket(namespace, SocketKind::Xdp)?.map_err(refused("an AF_XDP socket"))?;
    Ok(())
}

impl AfXdp {
    /// Why the device's queues could not be opened; `None`: they could, or it was not tried.
    pub fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    fn go_down(&mut self, reason: String, events: &mut Vec<PortEvent>) {
        if let Some(up) = self.up.take() {
            self.shared.miss(up.sockets.iter().map(|socket| socket.missed()).sum());
        }
        if self.down.as_ref() != Some(&reason) {
            self.down = Some(reason.clone());
            events.push(PortEvent::Down(reason));
        }
    }

    /// Attaches the program if necessary, and opens the queues.
    fn go_up(&mut self, device: Device, events: &mut Vec<PortEvent>) {
        if !self.retry.is_due() {
            return;
        }
        let is_other = |attached: &Attached| attached.index != device.index;
        if self.fitted != device.mtu || self.attached.as_ref().is_some_and(is_other) {
            self.attached = None;
        }
        let watch = self.follower.watch();
        let driver = watch.map(|watch| ethtool::driver(watch, &self.config.device));
        let driver = driver.unwrap_or_default();
        match self.queues(device, &driver) {
            Ok((attached, up, queues)) => {
                if let Some(attached) = attached {
                    (self.attached, self.fitted) = (Some(attached), device.mtu);
                }
                (self.up, self.down, self.refused) = (Some(up), None, None);
                self.driver = driver;
                self.retry.reset();
                events.push(PortEvent::Up(queues));
            }
            Err(reason) => {
                self.retry.failed();
                self.refused = Some(reason.clone());
                self.go_down(reason, events);
            }
        }
    }

    /// The program, when it is not on the device already, and the queues.
    fn queues(
        &self,
        device: Device,
        driver: &Driver,
    ) -> Result<(Option<Attached>, Up, Queues), String> {
        let (name, layout) = (&self.config.device, Layout::of(device.mtu));
        let namespace = self.follower.home().map_err(|error| error.to_string())?;
        let fragments = layout.in_pieces;
        let mut fresh = None;
        let attached = match &self.attached {
            Some(attached) => attached,
            None => fresh.insert(
                Attached::new(
                    namespace,
                    (name, device.index),
                    self.config.attach,
                    driver.is_virtual,
                    fragments,
                )
                .map_err(|error| refusal(name, "attach an XDP program", &error))?,
            ),
        };
        let of = self.follower.watch().map_or(1, |watch| ethtool::receive_queues(watch, name));
        let count = match self.config.queues {
            0 => of.min(link::QUEUES_MAX.into()),
            requested => of.min(requested.into()),
        };
        let mut queues = Queues::default();
        let (index, mtu, sockets) = (device.index, device.mtu, Vec::new());
        let mut up = Up { index, mtu, sockets, zero_copy: true, in_pieces: false, of };
        for queue in 0..count {
            let (parts, in_pieces) =
                self.socket(namespace, (device.index as u32, queue), &layout)?;
            let mtu = self.config.mtu.min(device.mtu);
            let [received, sent] = layout.longest(mtu, in_pieces).ok_or_else(|| {
                let most = layout.most();
                format!(
                    "cannot carry an MTU of {mtu} on {name}: this kernel (before Linux 6.6) or the \
                     device's driver has no AF_XDP frames in several buffers; use af-packet, or \
                     an MTU of {most} at most"
                )
            })?;
            up.in_pieces = in_pieces;
            bpf::put(&attached.map, queue, parts.socket.fd.as_fd())
                .map_err(|error| refusal(name, "join a socket to a queue", &error))?;
            let Parts { socket, rx, fill, tx, completion } = parts;
            up.zero_copy &= socket.is_zero_copy();
            up.sockets.push(socket.clone());
            let (how, shared) = ((sent, self.config.need_wakeup), self.shared.clone());
            let sender = Sender::new(socket.clone(), tx, completion, how, shared.clone());
            let how = (received, driver.is_virtual);
            queues.rx.push(Box::new(Receiver::new(socket, rx, fill, how, shared)));
            queues.tx.push(Box::new(sender));
        }
        Ok((fresh, up, queues))
    }

    /// A socket on one queue, and whether frames may have several chunks.
    fn socket(
        &self,
        namespace: &Namespace,
        (index, queue): (u32, u32),
        layout: &Layout,
    ) -> Result<(Parts, bool), String> {
        let name = &self.config.device;
        let parts = Parts::new(namespace, layout.chunk)
            .map_err(|error| refusal(name, "make an AF_XDP socket", &error))?;
        let mut flags = match self.config.bind {
            XdpBind::Auto => 0,
            XdpBind::Copy => libc::XDP_COPY,
            XdpBind::ZeroCopy => libc::XDP_ZEROCOPY,
        };
        if self.config.need_wakeup {
            flags |= libc::XDP_USE_NEED_WAKEUP;
        }
        // Linux before 6.6 does not know it, and some drivers do not.
        let in_pieces =
            layout.in_pieces && parts.socket.bind(index, queue, flags | libc::XDP_USE_SG).is_ok();
        if !in_pieces {
            let doing = || format!("bind to queue {queue}");
            let bound = parts.socket.bind(index, queue, flags);
            bound.map_err(|error| refusal(name, &doing(), &error))?;
        }
        Ok((parts, in_pieces))
    }

    /// The state in the driver's own words.
    fn words(&self, up: &Up) -> String {
        let mut words = vec![format!("index {}", up.index)];
        if let Some(attached) = &self.attached {
            words.push(match (&attached.reason_generic, attached.native) {
                (_, true) => "native attach".into(),
                (Some(reason), _) => format!("generic attach (native: {reason})"),
                (None, _) => "generic attach".into(),
            });
            if attached.tags == Tags::AtRisk {
                let peer = if self.driver.is_virtual { "the peer's txvlan" } else { "rxvlan" };
                words.push(format!("VLAN tags may be lost: switch {peer} off by ethtool -K"));
            }
            if self.driver.is_virtual && !attached.native {
                words.push("super-frames are lost: switch the peer's tso and gso off".into());
            }
        }
        words.push(if up.zero_copy { "zero-copy" } else { "copy" }.into());
        if up.in_pieces {
            words.push("long frames in several chunks".into());
        }
        if up.of > up.sockets.len() as u32 {
            let (ours, all) = (up.sockets.len(), up.of);
            words.push(format!("{ours} of {all} queues, frames of the others go to Linux"));
        }
        if !self.config.need_wakeup {
            words.push("without need-wakeup".into());
        }
        if self.driver.is_virtual {
            words.push("unfinished checksums are finished".into());
        }
        words.join(", ")
    }
}

impl Port for AfXdp {
    fn driver(&self) -> &'static str {
        "af-xdp"
    }

    fn mac(&self) -> [u8; 6] {
        self.last.mac
    }

    fn mtu(&self) -> u32 {
        self.last.mtu.min(self.config.mtu)
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.follower.descriptors()
    }

    fn service(&mut self) -> Vec<PortEvent> {
        let mut events = Vec::new();
        let device = self.follower.refresh();
        if let Some(device) = device {
            self.last = device;
        }
        let now = device.map(|device| (device.index, device.mtu));
        let was = self.up.as_ref().map(|up| (up.index, up.mtu));
        if let Some(reason) = self.follower.obstacle(device.as_ref()) {
            if now.is_none() {
                self.attached = None;
            }
            self.retry.reset();
            self.go_down(reason, &mut events);
        } else if was != now {
            if was.is_some() {
                // Frames of another size need another program and other memory.
                self.attached = None;
                self.go_down(format!("device {} has changed", self.config.device), &mut events);
                return events;
            }
            if let Some(device) = device {
                self.go_up(device, &mut events);
            }
        }
        events
    }

    fn missed(&self) -> u64 {
        let now = self.up.iter().flat_map(|up| &up.sockets).map(|socket| socket.missed());
        self.shared.missed.load(Ordering::Relaxed) + now.sum::<u64>()
    }

    fn detail(&self) -> String {
        let (name, place) = (&self.config.device, self.follower.place());
        let state = match (&self.down, &self.up) {
            (Some(reason), _) => reason.clone(),
            (None, Some(up)) => self.words(up),
            (None, None) => "not up yet".into(),
        };
        let refused = match self.shared.refused.load(Ordering::Relaxed) {
            0 => String::new(),
            frames => format!(", {frames} frames refused by the device"),
        };
        format!("{name}{place}: {state}{refused}")
    }
}
