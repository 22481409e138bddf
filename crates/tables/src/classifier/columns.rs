//! The header fields of up to 64 packets, in columns of 32 bits.
//!
//! ```text
//! word of IPv4   word of IPv6   contents
//! 0              0, 1, 6, 7     source address, the most significant word first
//! 1              2, 3, 8, 9     destination address
//! 2              4              source port (type of ICMP) << 16 | destination port (code of ICMP)
//! 3              5              protocol | TCP flags << 8 | DSCP << 16 | fragment << 22 | state << 25
//! 4              10             receiving interface << 16 | sending interface
//! 5              11             VLAN ID << 16 | total length in bytes; longer packets: 65535
//! ```
//!
//! Words that few rules look at come last, so that most leaves need not store them. Fragment and state
//! have one bit for each value: a rule that admits several masks out the others.

use super::LANES;
use super::rule::{FlowState, Fragment};

/// What a rule looks at in one packet; addresses in host byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key<A> {
    /// Source address.
    pub source: A,
    /// Destination address.
    pub destination: A,
    /// Protocol, or the last next header of IPv6.
    pub protocol: u8,
    /// Source port, or the type of ICMP and ICMPv6; 0 where the packet has none.
    pub source_port: u16,
    /// Destination port, or the code of ICMP and ICMPv6; 0 where the packet has none.
    pub destination_port: u16,
    /// TCP flags; 0 for other protocols.
    pub tcp_flags: u8,
    /// DSCP, 0 to 63.
    pub dscp: u8,
    /// Which part of a fragmented packet it is.
    pub fragment: Fragment,
    /// Total length in bytes; longer packets: 65535.
    pub length: u16,
    /// The interface that received the packet.
    pub interface: u16,
    /// The interface that sends it.
    pub output: u16,
    /// VLAN ID; 0: untagged.
    pub vlan: u16,
    /// What flow tracking says.
    pub state: FlowState,
}

/// The word of source and destination port; see the [module](self).
#[inline(always)]
pub const fn ports(source: u16, destination: u16) -> u32 {
    (source as u32) << 16 | destination as u32
}

/// The word of protocol, TCP flags, DSCP, fragment and flow state.
#[inline(always)]
pub const fn attributes(
    protocol: u8,
    tcp_flags: u8,
    dscp: u8,
    fragment: Fragment,
    state: FlowState,
) -> u32 {
    protocol as u32
        | (tcp_flags as u32) << 8
        | (dscp as u32 & 63) << 16
        | (fragment.bit() as u32) << 22
        | (state.bit() as u32) << 25
}

/// The word of the receiving and the sending interface.
#[inline(always)]
pub const fn interfaces(received: u16, sent: u16) -> u32 {
    (received as u32) << 16 | sent as u32
}

/// The word of VLAN ID and length.
#[inline(always)]
pub const fn vlan_and_length(vlan: u16, length: u16) -> u32 {
    (vlan as u32) << 16 | length as u32
}

/// Columns of a family: more than it has words, so that a kernel need not check which one it reads.
pub(super) const COLUMNS: usize = 16;

/// The columns of `WORDS` words of the keys; those beyond are not used. A graph node fills them column
/// by column.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct Columns<const WORDS: usize>(pub [[u32; LANES]; COLUMNS]);

/// Keys of IPv4 packets.
pub type Ip4Columns = Columns<6>;
/// Keys of IPv6 packets.
pub type Ip6Columns = Columns<12>;

impl<const WORDS: usize> Default for Columns<WORDS> {
    fn default() -> Self {
        Self([[0; LANES]; COLUMNS])
    }
}

impl<const WORDS: usize> Columns<WORDS> {
    fn set_lane(&mut self, lane: usize, words: [u32; WORDS]) {
        for (column, word) in self.0.iter_mut().zip(words) {
            column[lane] = word;
        }
    }
}

impl Ip4Columns {
    /// Sets the key of one lane.
    ///
    /// # Panics
    ///
    /// For a lane beyond [`LANES`].
    pub fn set(&mut self, lane: usize, key: &Key<u32>) {
        let [ports, attributes, interfaces, length] = rest(key);
        self.set_lane(lane, [key.source, key.destination, ports, attributes, interfaces, length]);
    }
}

impl Ip6Columns {
    /// Sets the key of one lane.
    ///
    /// # Panics
    ///
    /// For a lane beyond [`LANES`].
    pub fn set(&mut self, lane: usize, key: &Key<u128>) {
        let [ports, attributes, interfaces, length] = rest(key);
        let (source, destination) = (ip6_words(key.source), ip6_words(key.destination));
        let words = [
            source[0],
            source[1],
            destination[0],
            destination[1],
            ports,
            attributes,
            source[2],
            source[3],
            destination[2],
            destination[3],
            interfaces,
            length,
        ];
        self.set_lane(lane, words);
    }
}

fn rest<A>(key: &Key<A>) -> [u32; 4] {
    [
        ports(key.source_port, key.destination_port),
        attributes(key.protocol, key.tcp_flags, key.dscp, key.fragment, key.state),
        interfaces(key.interface, key.output),
        vlan_and_length(key.vlan, key.length),
    ]
}

/// The words of an IPv6 address, the most significant first.
pub(super) fn ip6_words(address: u128) -> [u32; 4] {
    [(address >> 96) as u32, (address >> 64) as u32, (address >> 32) as u32, address as u32]
}
