//! Both ends of a packet.

/// Addresses and ports of an IPv4 packet, in host byte order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ends {
    /// Source address.
    pub source: u32,
    /// Destination address.
    pub destination: u32,
    /// Source port above destination port.
    pub ports: u32,
}
