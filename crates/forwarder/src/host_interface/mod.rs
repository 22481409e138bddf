//! Host interfaces: the ends in Linux of our interfaces. What comes for ourselves on an interface with a
//! host interface goes to Linux as the frame that it was; what Linux sends into the host interface leaves by the
//! interface as it is. No packet is routed on the way between them.

pub mod host_interface_input;
pub mod host_interface_output;
mod traffic;

pub use traffic::{is_for_host4, is_for_host6};

/// What a frame carries, as the node knows that sends it here: its bytes may say anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Payload {
    /// No IP: a frame with a length, or LLDP.
    Link,
    /// A checked IPv4 packet.
    Ip4,
    /// A checked IPv6 packet.
    Ip6,
}

impl Payload {
    /// What [`to_host`] has noted.
    fn of(noted: u32) -> Self {
        [Self::Ip4, Self::Ip6].into_iter().find(|it| *it as u32 == noted).unwrap_or(Self::Link)
    }
}

/// What a packet for ourselves does on an interface that has a host interface. What it carries stands in
/// the `hash` column from here on.
#[cold]
#[inline(never)]
pub(crate) fn to_host(
    vector: &mut stoa_engine::Vector,
    lane: usize,
    (host_device, carried): (u32, Payload),
    edge: u16,
) -> u16 {
    (vector.tx_if[lane], vector.hash[lane]) = (host_device, carried as u32);
    edge
}
