//! `af-packet`: any Linux network device, ours alone while the port is open.
//!
//! ```text
//! device -> TPACKET_V2 ring -------------------------> packets
//!           too long for a slot: recvmsg -> Staging -> packets
//! packets -> coalesce -> sendmmsg -> device
//! ```
//! The port follows the device: down, up, deleted, made anew. Frames that the driver sends
//! itself are not received; nor are those that the kernel sends by the same device. Linux does not
//! process what we receive, unless it has an address there.

mod alone;
mod ring;
mod rx;
pub(crate) mod sys;
mod tx;

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use stoa_engine::{Port, PortEvent, Queues};

use crate::config::AfPacketConfig;
use crate::device_opener::{self, SocketKind};
use crate::error::OpenError;
use crate::follow::{Follower, Retry};
use crate::link;
use crate::netdevice::{Device, system};
use crate::netns::Namespace;
use alone::Linux;
use ring::Ring;
use rx::Receiver;
use tx::Sender;

/// Bytes of a socket's own queues: super-frames wait here.
const SOCKET_BUFFER: i32 = 32 << 20;
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
}

/// A port on a Linux network device.
pub struct AfPacket {
    follower: Follower,
    rx_queues: u16,
    tx_queues: u16,
    /// Bytes of an IP packet at most.
    mtu: u32,
    last: Device,
    /// The device's number while the port is up.
    up: Option<i32>,
    /// The reported reason why the port is down.
    down: Option<String>,
    /// The receiving sockets, for the kernel's count of drops.
    sockets: Vec<Arc<OwnedFd>>,
    /// What Linux does with our frames while the port is up.
    linux: Option<Linux>,
    retry: Retry,
    shared: Arc<Shared>,
}

/// What there is while the port is up.
type Opened = (Queues, Vec<Arc<OwnedFd>>, Linux);

/// Opens a port on the device that the configuration names.
///
/// # Errors
/// No such device or namespace; no CAP_NET_RAW; not an Ethernet device; more than 64 queues.
pub fn open(config: &AfPacketConfig) -> Result<AfPacket, OpenError> {
    let rx_queues = link::queues("rx-queues", config.rx_queues, link::QUEUES_MAX)?;
    let tx_queues = link::queues("tx-queues", config.tx_queues, link::QUEUES_MAX)?;
    let name = &config.device;
    let mtu = link::mtu(config.mtu, link::MTU_MAX)?;
    let namespace = Namespace::find(config.netns.as_deref())?;
    if let Err(error) = device_opener::socket(&namespace, SocketKind::Packet)? {
        return Err(match error.kind() {
            std::io::ErrorKind::PermissionDenied => OpenError::Permission {
                what: format!("a packet socket on {name}"),
                capability: "CAP_NET_RAW",
            },
            _ => system("open a packet socket")(error),
        });
    }
    let (follower, last) = Follower::new(name, namespace)?;
    Ok(AfPacket {
        follower,
        rx_queues,
        tx_queues,
        mtu,
        last,
        up: None,
        down: None,
        sockets: Vec::new(),
        linux: None,
        retry: Retry::new(),
        shared: Arc::default(),
    })
}

impl AfPacket {
    fn go_down(&mut self, reason: String, events: &mut Vec<PortEvent>) {
        self.settle();
        self.sockets.clear();
        self.linux = None;
        self.up = None;
        if self.down.as_ref() != Some(&reason) {
            self.down = Some(reason.clone());
            events.push(PortEvent::Down(reason));
        }
    }

    /// Opens the queues in the namespace of the device.
    fn go_up(&mut self, device: Device, events: &mut Vec<PortEvent>) {
        if !self.retry.is_due() {
            return;
        }
        match self.queues(device.index) {
            Ok((queues, sockets, linux)) => {
                (self.sockets, self.linux) = (sockets, Some(linux));
                self.up = Some(device.index);
                self.down = None;
                self.retry.reset();
                events.push(PortEvent::Up(queues));
            }
            Err(error) => {
                self.retry.failed();
                self.go_down(format!("cannot open {}: {error}", self.follower.name()), events);
            }
        }
    }

    fn queues(&self, index: i32) -> std::io::Result<Opened> {
        let mut queues = Queues::default();
        let mut sockets = Vec::new();
        let mut group = None;
        let longest = link::longest(self.mtu());
        let namespace = self.follower.home().map_err(std::io::Error::other)?;
        for number in 0..self.rx_queues {
            let socket = Arc::new(sys::packet_socket(namespace)?);
            sys::enlarge(&socket, SOCKET_BUFFER);
            for option in
                [libc::PACKET_VNET_HDR, libc::PACKET_AUXDATA, libc::PACKET_IGNORE_OUTGOING]
            {
                sys::set(&socket, option, &1i32)?;
            }
            let ring = Ring::new(&socket)?;
            sys::bind(&socket, index, true)?;
            if number == 0 {
                sys::promiscuous(&socket, index)?;
            }
            if self.rx_queues > 1 {
                group = Some(sys::fan_out(&socket, group)?);
            }
            sockets.push(socket.clone());
            queues.rx.push(Box::new(Receiver::new(socket, ring, longest, self.shared.clone())));
        }
        for _ in 0..self.tx_queues {
            let [plain, offload] = [sys::packet_socket(namespace)?, sys::packet_socket(namespace)?];
            sys::set(&offload, libc::PACKET_VNET_HDR, &1i32)?;
            for socket in [&plain, &offload] {
                sys::enlarge(socket, SOCKET_BUFFER);
                // Where the kernel cannot bypass its queueing, it is only slower.
                let _ = sys::set(socket, libc::PACKET_QDISC_BYPASS, &1i32);
                sys::bind(socket, index, false)?;
            }
            queues.tx.push(Box::new(Sender::new(plain, offload, self.shared.clone())));
        }
        Ok((queues, sockets, Linux::keep_out(namespace, index)))
    }

    /// Adds up what the kernel counted since the last time.
    fn settle(&self) {
        self.shared.miss(self.sockets.iter().map(|socket| sys::drops(socket)).sum());
    }
}

impl Port for AfPacket {
    fn driver(&self) -> &'static str {
        "af-packet"
    }

    fn mac(&self) -> [u8; 6] {
        self.last.mac
    }

    /// The device's, as far as a buffer holds it and the configuration lets it.
    fn mtu(&self) -> u32 {
        self.last.mtu.min(self.mtu)
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.follower.descriptors()
    }

    fn service(&mut self) -> Vec<PortEvent> {
        let mut events = Vec::new();
        let device = self.follower.refresh();
        let mtu = self.mtu();
        if let Some(device) = device {
            self.last = device;
        }
        let index = device.map(|device| device.index);
        if let Some(reason) = self.follower.obstacle(device.as_ref()) {
            self.retry.reset();
            if self.up.is_some() || self.down.as_ref() != Some(&reason) {
                self.go_down(reason, &mut events);
            }
        } else if self.up != index || self.mtu() != mtu {
            // Another MTU: new queues for frames of that size, without a notice to the peers.
            if self.up.is_some() && self.up != index {
                let name = self.follower.name();
                self.go_down(format!("device {name} was made anew"), &mut events);
            }
            if let Some(device) = device {
                self.go_up(device, &mut events);
            }
        }
        events
    }

    fn missed(&self) -> u64 {
        self.settle();
        self.shared.missed.load(Ordering::Relaxed)
    }

    fn detail(&self) -> String {
        let (name, place) = (self.follower.name(), self.follower.place());
        match &self.down {
            // Most reasons name the device.
            Some(reason) if place.is_empty() && reason.contains(name) => return reason.clone(),
            Some(reason) => return format!("{name}{place}: {reason}"),
            None => {}
        }
        let linux = self.linux.as_ref().map(Linux::words).unwrap_or_default();
        let refused = self.shared.refused.load(Ordering::Relaxed);
        let refused = match refused {
            0 => String::new(),
            frames => format!(", {frames} frames refused by the device"),
        };
        let index = self.last.index;
        format!("{name}{place}: index {index}{linux}, ring of {} frames{refused}", ring::SLOTS)
    }
}
