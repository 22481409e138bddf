//! What drivers open in other network namespaces, and the process that does it for a forwarder.
//!
//! ```text
//! forwarder, without CAP_SYS_ADMIN                  device opener
//! driver -> socket(), tun(), ... -> Request  ---->  checks it, enters the namespace on a short-lived thread,
//!           descriptors         <-  Answer   <----  performs one Operation
//! ```
//! To enter a namespace takes CAP_SYS_ADMIN. [`start`] begins the process that keeps it, before the forwarder gives it
//! up; [`serve`] is what that process does until the forwarder ends. A descriptor stays in the namespace in which it
//! was opened, so drivers do the rest themselves. Without the process, a program enters namespaces by itself.
//!
//! All requests for a device carry the identity of the namespace in which it was found: one of the same name that was
//! made in between is refused.

mod channel;
mod client;
pub mod message;
mod operation;
mod server;

use std::io;
use std::os::fd::OwnedFd;

use crate::af_xdp::Program;
use crate::config::XdpAttach;
use crate::error::OpenError;
use crate::netdevice;
use crate::netns::Namespace;
use operation::{HAS_TAG_FUNCTION, IS_NATIVE, Outcome};

pub use client::{end, newly_ended, start};
pub use operation::{Operation, SocketKind};
pub use server::{Trouble, end_with_parent, inherited_socket, serve};

/// What was opened; the outer error is about the namespace, or the way there.
type Opened<T> = Result<io::Result<T>, OpenError>;

/// Both errors as one.
pub(crate) fn flat<T>(opened: Opened<T>) -> io::Result<T> {
    opened.map_err(io::Error::other)?
}

/// Performs an operation in that namespace.
fn perform(namespace: &Namespace, operation: Operation) -> Opened<Outcome> {
    match namespace.named() {
        Some((name, expected)) if client::is_in_charge() => client::ask(name, expected, operation),
        _ => namespace.within(|| operation.perform()),
    }
}

fn one(namespace: &Namespace, operation: Operation) -> Opened<OwnedFd> {
    Ok(perform(namespace, operation)?.and_then(Outcome::descriptor))
}

/// A socket of that namespace that neither blocks nor is inherited.
pub(crate) fn socket(namespace: &Namespace, kind: SocketKind) -> Opened<OwnedFd> {
    one(namespace, Operation::Socket(kind))
}

/// A socket that becomes readable when a device of that namespace changes.
pub(crate) fn watch(namespace: &Namespace) -> Opened<OwnedFd> {
    Ok(socket(namespace, SocketKind::Route)?.and_then(|socket| {
        netdevice::subscribe(&socket)?;
        Ok(socket)
    }))
}

/// `/dev/net/tun`: the devices that are made by this descriptor are in that namespace.
pub(crate) fn tun(namespace: &Namespace) -> Opened<OwnedFd> {
    one(namespace, Operation::Tun)
}

/// Attaches our XDP program to the device `index` of that namespace (`af_xdp/attach.rs`).
pub(crate) fn attach_xdp(
    namespace: &Namespace,
    index: u32,
    attach: XdpAttach,
    is_virtual: bool,
    fragments: bool,
) -> Opened<Program> {
    let operation = Operation::AttachXdp { index, attach, is_virtual, fragments };
    Ok(perform(namespace, operation)?.and_then(|outcome| {
        let Outcome { descriptors, value, text } = outcome;
        let [map, link] = <[OwnedFd; 2]>::try_from(descriptors)
            .map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        let (native, puts_back) = (value & IS_NATIVE != 0, value & HAS_TAG_FUNCTION != 0);
        let reason_generic = (!text.is_empty()).then_some(text);
        Ok(Program { map, link, native, puts_back, reason_generic })
    }))
}

/// Drops what the device `index` of that namespace receives, when its packet sockets have it, until the answer
/// is closed.
pub(crate) fn drop_behind_sockets(namespace: &Namespace, index: u32) -> Opened<OwnedFd> {
    one(namespace, Operation::DropBehindSockets { index })
}

/// Sets what Linux must not do on the host interface `device` of that namespace; returns how many settings it
/// did not take.
pub(crate) fn apply_settings(namespace: &Namespace, device: &str) -> Opened<usize> {
    let outcome = perform(namespace, Operation::Settings { device: device.to_owned() })?;
    Ok(outcome.map(|outcome| outcome.value as usize))
}
