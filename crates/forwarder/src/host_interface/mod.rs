//! Host interfaces: TAP devices in Linux, each paired with an interface of the router. Packets for
//! local addresses of an interface with a host interface go to Linux with their Ethernet header;
//! frames that Linux sends leave by the paired interface unchanged. The forwarder does not route
//! between the two.

pub mod host_interface_input;
pub mod host_interface_output;
mod traffic;

pub use traffic::{is_for_host4, is_for_host6};

/// The payload of a frame as determined by the previous node; the bytes alone are not trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Payload {
    /// Not IP: a frame with a length, or LLDP.
    Link,
    /// A validated IPv4 packet.
    Ip4,
    /// A validated IPv6 packet.
    Ip6,
}

impl Payload {
    /// The payload from the value that [`to_host`] stored.
    fn of(code: u32) -> Self {
        [Self::Ip4, Self::Ip6].into_iter().find(|it| *it as u32 == code).unwrap_or(Self::Link)
    }
}

/// Sends a packet to the host interface: stores its index in `tx_if` and the payload type in `arg`.
#[cold]
#[inline(never)]
pub(crate) fn to_host(
    vector: &mut stoa_engine::Vector,
    lane: usize,
    (host_device, carried): (u32, Payload),
    edge: u16,
) -> u16 {
    (vector.tx_if[lane], vector.arg[lane]) = (host_device, carried as u32);
    edge
}
