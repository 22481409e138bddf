//! A spare queue of a host interface's device, for a process that outlives the forwarder. Linux takes a TAP device's
//! carrier away with the last queue that is open, and routing daemons drop their neighbours then. A detached queue
//! counts as open, and no packet goes to it (`tun_attach` and `__tun_detach` in `drivers/net/tun.c`).

use std::io::{Error, ErrorKind, Result};
use std::os::fd::OwnedFd;

use crate::netns::Namespace;
use crate::tap::sys;
use crate::{device_opener, netdevice};

/// Opens a detached queue of the device `device` with number `index` in the network namespace `netns`; "" is our own.
/// The device keeps its carrier for as long as the queue is open, or until it is deleted; the queue is of no other use.
///
/// # Errors
/// There is no such device any more, or it is no TAP device of several queues; no CAP_NET_ADMIN; no such namespace.
pub fn spare(netns: &str, device: &str, index: u32) -> Result<OwnedFd> {
    let gone = || Error::new(ErrorKind::NotFound, format!("device {device} is gone"));
    let namespace = Namespace::find((!netns.is_empty()).then_some(netns)).map_err(Error::other)?;
    let watch = device_opener::flat(device_opener::watch(&namespace))?;
    let is_it = || {
        let found = netdevice::device(&watch, device)?;
        Ok::<_, Error>(found.is_some_and(|found| found.index.cast_unsigned() == index))
    };
    if !is_it()? {
        return Err(gone());
    }
    let queue = sys::attach(&namespace, device, false)?;
    sys::detach(&queue)?;
    // If the device was deleted meanwhile, this call made a new one; it goes with the queue.
    if is_it()? { Ok(queue) } else { Err(gone()) }
}
