//! Our program on a device: its attach mode, and the link that holds it.
//!
//! The hold is a BPF link: it ends with its descriptor, however this program ends.

use std::io::{Error, Result};
use std::os::fd::OwnedFd;

use super::{bpf, btf, program};
use crate::config::XdpAttach;
use crate::netns::Namespace;
use crate::{af_packet, device_opener, ethtool, netdevice};

/// Queues that the map has places for.
const QUEUES: u32 = 64;
/// `XDP_FLAGS_SKB_MODE`: before the network stack, on any device.
const GENERIC: u32 = 1 << 1;
/// `XDP_FLAGS_DRV_MODE`: in the device's driver.
const NATIVE: u32 = 1 << 2;

/// How VLAN tags come through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tags {
    /// The device leaves them in the frame.
    InFrame,
    /// The program puts back those that come beside the frame.
    PutBack,
    /// Those that come beside the frame are lost.
    AtRisk,
}

/// A program that is attached as long as this lives.
pub(super) struct Attached {
    /// The device.
    pub index: i32,
    /// In the driver, else before the network stack.
    pub native: bool,
    /// Why it is not native although that was tried.
    pub reason_generic: Option<String>,
    /// What becomes of tags.
    pub tags: Tags,
    /// From queue to socket.
    pub map: OwnedFd,
    _link: OwnedFd,
    /// The device takes frames for every address as long as this socket is open.
    _promiscuous: OwnedFd,
    /// Gives tags back to the device when the port ends.
    stripped: Option<OwnedFd>,
}

/// A program on a device.
pub(crate) struct Program {
    /// From queue to socket.
    pub map: OwnedFd,
    /// Holds the program there.
    pub link: OwnedFd,
    /// In the driver, else before the network stack.
    pub native: bool,
    /// It puts back the VLAN tags that come beside the frame.
    pub puts_back: bool,
    /// Why it is not native although that was tried.
    pub reason_generic: Option<String>,
}

/// Attaches our program to a device of this thread's namespace; `fragments`: frames may be longer than a page.
pub(crate) fn attach_program(
    index: u32,
    how: XdpAttach,
    is_virtual: bool,
    fragments: bool,
) -> Result<Program> {
    let map = bpf::socket_map(QUEUES)?;
    let mut reason_generic = None;
    if how != XdpAttach::Generic {
        match native(&map, index, is_virtual, fragments) {
            Ok((link, puts_back)) => {
                return Ok(Program { map, link, native: true, puts_back, reason_generic });
            }
            Err(error) if how == XdpAttach::Native || is_taken(&error) => return Err(error),
            Err(error) => reason_generic = Some(error.to_string()),
        }
    }
    let program = bpf::load(&program::plain(&map), 0, 0)?;
    let link = bpf::attach(&program, index, GENERIC)?;
    Ok(Program { map, link, native: false, puts_back: false, reason_generic })
}

impl Attached {
    /// Attaches to a device of that namespace; `fragments`: frames may be longer than a page.
    pub fn new(
        namespace: &Namespace,
        (name, index): (&str, i32),
        how: XdpAttach,
        is_virtual: bool,
        fragments: bool,
    ) -> Result<Self> {
        let promiscuous = af_packet::sys::packet_socket(namespace)?;
        af_packet::sys::promiscuous(&promiscuous, index)?;
        let attached =
            device_opener::attach_xdp(namespace, index as u32, how, is_virtual, fragments);
        let Program { map, link, native, puts_back, reason_generic } =
            device_opener::flat(attached)?;
        let watch = device_opener::flat(device_opener::watch(namespace))?;
        let left = ethtool::keep_tags(&watch, name, true);
        let tags = match &left {
            _ if puts_back => Tags::PutBack,
            // Of a virtual device the sender's end decides.
            Ok(_) if !is_virtual => Tags::InFrame,
            _ => Tags::AtRisk,
        };
        let stripped = matches!(left, Ok(true)).then_some(watch);
        let (_link, _promiscuous) = (link, promiscuous);
        Ok(Self { index, native, reason_generic, tags, map, _link, _promiscuous, stripped })
    }
}

/// Attaches in the driver; whether the program puts tags back.
fn native(
    map: &OwnedFd,
    device: u32,
    is_virtual: bool,
    fragments: bool,
) -> Result<(OwnedFd, bool)> {
    let flags = if fragments { bpf::HAS_FRAGS } else { 0 };
    // A card leaves tags in the frame when configured so.
    if is_virtual && let Some(tag_of) = btf::kernel_function(program::TAG_OF) {
        let program = program::with_tags(map, tag_of);
        let attached = bpf::load(&program, flags | bpf::DEVICE_BOUND, device)
            .and_then(|program| bpf::attach(&program, device, NATIVE));
        match attached {
            Ok(link) => return Ok((link, true)),
            Err(error) if is_taken(&error) => return Err(error),
            // A driver that does not report tags.
            Err(_) => {}
        }
    }
    let program = bpf::load(&program::plain(map), flags, 0)?;
    Ok((bpf::attach(&program, device, NATIVE)?, false))
}

/// Whether another program is on the device.
pub(super) fn is_taken(error: &Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EEXIST))
}

impl Drop for Attached {
    fn drop(&mut self) {
        // It may have another name by now, and another device its own. A device that is gone has
        // nothing to be given back.
        if let Some(watch) = &self.stripped
            && let Ok(name) = netdevice::name(watch, self.index)
        {
            let _ = ethtool::keep_tags(watch, &name, false);
        }
    }
}
