//! What is done inside another network namespace: a closed list, and each as little as must be done there.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Result};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;

use crate::af_xdp::{self, bpf};
use crate::config::XdpAttach;
use crate::{host_interface, netdevice, tap};

/// A family of sockets that drivers use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketKind {
    /// AF_PACKET, SOCK_RAW; it receives nothing yet.
    Packet,
    /// AF_XDP.
    Xdp,
    /// AF_NETLINK, NETLINK_ROUTE.
    Route,
    /// AF_NETLINK, NETLINK_GENERIC.
    Generic,
}

/// An operation in a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Opens a socket.
    Socket(SocketKind),
    /// Opens `/dev/net/tun`.
    Tun,
    /// Attaches the XDP program of `af_xdp` to a device.
    AttachXdp {
        /// The device.
        index: u32,
        /// Where.
        attach: XdpAttach,
        /// The device is no hardware: its program asks for VLAN tags.
        is_virtual: bool,
        /// Frames may be longer than a page.
        fragments: bool,
    },
    /// Has Linux drop what a device receives, behind its packet sockets.
    DropBehindSockets {
        /// The device.
        index: u32,
    },
    /// Sets what Linux must not do on a host interface.
    Settings {
        /// The name of the device.
        device: String,
    },
}

/// In [`Outcome::value`] of an attached program: it is in the device's driver.
pub(super) const IS_NATIVE: u32 = 1;
/// In [`Outcome::value`] of an attached program: it puts VLAN tags back.
pub(super) const HAS_TAG_FUNCTION: u32 = 2;

/// What an operation leads to.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// As many as [`Operation::descriptors`].
    pub descriptors: Vec<OwnedFd>,
    /// Of a program: its flags; of settings: how many Linux did not take.
    pub value: u32,
    /// Of a program: why it is not in the driver.
    pub text: String,
}

impl Outcome {
    /// The only descriptor.
    pub fn descriptor(mut self) -> Result<OwnedFd> {
        self.descriptors.pop().ok_or_else(|| ErrorKind::InvalidData.into())
    }
}

impl From<OwnedFd> for Outcome {
    fn from(descriptor: OwnedFd) -> Self {
        Self { descriptors: vec![descriptor], ..Self::default() }
    }
}

impl Operation {
    /// How many descriptors a successful operation has.
    pub fn descriptors(&self) -> usize {
        match self {
            Self::Socket(_) | Self::Tun | Self::DropBehindSockets { .. } => 1,
            Self::AttachXdp { .. } => 2,
            Self::Settings { .. } => 0,
        }
    }

    /// Performs it in the namespace of the calling thread.
    pub(super) fn perform(&self) -> Result<Outcome> {
        match self {
            Self::Socket(kind) => {
                let (family, protocol) = match kind {
                    SocketKind::Packet => (libc::AF_PACKET, 0),
                    SocketKind::Xdp => (libc::AF_XDP, 0),
                    SocketKind::Route => (libc::AF_NETLINK, libc::NETLINK_ROUTE),
                    SocketKind::Generic => (libc::AF_NETLINK, libc::NETLINK_GENERIC),
                };
                Ok(netdevice::socket(family, libc::SOCK_RAW, protocol)?.into())
            }
            Self::Tun => {
                let mut options = OpenOptions::new();
                options.read(true).write(true).custom_flags(libc::O_NONBLOCK);
                Ok(OwnedFd::from(options.open(tap::sys::CLONE)?).into())
            }
            Self::AttachXdp { index, attach, is_virtual, fragments } => {
                let program = af_xdp::attach_program(*index, *attach, *is_virtual, *fragments)?;
                let native = if program.native { IS_NATIVE } else { 0 };
                let puts_back = if program.puts_back { HAS_TAG_FUNCTION } else { 0 };
                Ok(Outcome {
                    descriptors: vec![program.map, program.link],
                    value: native | puts_back,
                    text: program.reason_generic.unwrap_or_default(),
                })
            }
            Self::DropBehindSockets { index } => Ok(bpf::drop_behind_sockets(*index)?.into()),
            Self::Settings { device } => {
                let refused = host_interface::device_settings::apply(device);
                Ok(Outcome { value: refused as u32, ..Outcome::default() })
            }
        }
    }
}
