//! Rules as their owner states them, and what makes one invalid.

/// A prefix of an address. Addresses are in host byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefix {
    /// IPv4.
    Ip4 {
        /// The address, without bits beyond the length.
        address: u32,
        /// 0 to 32.
        len: u8,
    },
    /// IPv6.
    Ip6 {
        /// The address, without bits beyond the length.
        address: u128,
        /// 0 to 128.
        len: u8,
    },
}

/// All numbers from the first to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first one.
    pub first: u16,
    /// The last one.
    pub last: u16,
}

impl Range {
    /// All numbers.
    pub const ANY: Self = Self { first: 0, last: u16::MAX };

    /// One number.
    pub const fn one(number: u16) -> Self {
        Self { first: number, last: number }
    }
}

/// Which part of a fragmented packet a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fragment {
    /// It is whole.
    No,
    /// The first fragment, which has ports.
    First,
    /// A later one, which has none.
    Later,
}

impl Fragment {
    /// Its bit in [`Rule::fragments`].
    pub const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// What flow tracking says of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowState {
    /// Flows are not tracked, or this one is exempt.
    Untracked,
    /// It would begin a flow.
    New,
    /// It belongs to a flow.
    Established,
    /// It belongs to no flow, but to one that a flow announced, or is an error about a flow.
    Related,
    /// It cannot belong to its flow.
    Invalid,
}

impl FlowState {
    /// Its bit in [`Rule::states`].
    pub const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// The bits of all [`Fragment`]s.
pub(super) const ALL_FRAGMENTS: u8 = 0b111;
/// The bits of all [`FlowState`]s.
pub(super) const ALL_STATES: u8 = 0b1_1111;

/// What a packet must have to meet a rule. The default is a rule that all packets of both families
/// meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Source address; `None`: any. A rule with a prefix is of the prefix's family, others are of both.
    pub source: Option<Prefix>,
    /// Destination address; `None`: any.
    pub destination: Option<Prefix>,
    /// Protocol, or the last next header of IPv6; `None`: any.
    pub protocol: Option<u8>,
    /// Source port; the type of ICMP and ICMPv6 messages. Requires [`Self::protocol`].
    pub source_ports: Range,
    /// Destination port; the code of ICMP and ICMPv6 messages. Requires [`Self::protocol`].
    pub destination_ports: Range,
    /// TCP flags (RFC 9293, section 3.1: FIN is bit 0, CWR bit 7) under [`Self::tcp_flags_mask`].
    pub tcp_flags: u8,
    /// The TCP flags that matter. Requires protocol 6.
    pub tcp_flags_mask: u8,
    /// DSCP, 0 to 63; `None`: any.
    pub dscp: Option<u8>,
    /// The bits of the [`Fragment`]s that meet the rule. Later fragments never meet a rule with ports
    /// or TCP flags, whatever this says: they have none.
    pub fragments: u8,
    /// Total length of the packet in bytes.
    pub lengths: Range,
    /// The interface that received the packet; `None`: any.
    pub interface: Option<u16>,
    /// The interface that sends the packet; `None`: any.
    pub output: Option<u16>,
    /// VLAN ID, 0 to 4095; 0: untagged; `None`: any.
    pub vlan: Option<u16>,
    /// The bits of the [`FlowState`]s that meet the rule.
    pub states: u8,
}

impl Default for Rule {
    fn default() -> Self {
        Self {
            source: None,
            destination: None,
            protocol: None,
            source_ports: Range::ANY,
            destination_ports: Range::ANY,
            tcp_flags: 0,
            tcp_flags_mask: 0,
            dscp: None,
            fragments: ALL_FRAGMENTS,
            lengths: Range::ANY,
            interface: None,
            output: None,
            vlan: None,
            states: ALL_STATES,
        }
    }
}

/// Why a rule is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// The prefix has bits set beyond its length.
    #[error("host bits are set beyond the prefix length; clear them or use a longer prefix")]
    HostBitsSet,
    /// The prefix is longer than an address.
    #[error("prefix length {0} is out of range; the greatest is 32, of IPv6 128")]
    LengthOutOfRange(u8),
    /// Source and destination are of different families.
    #[error("source and destination are of different address families; no packet meets this rule")]
    MixedFamilies,
    /// A range that ends before it begins.
    #[error("the range {first} to {last} is upside down; swap its ends")]
    UpsideDown {
        /// Its first number.
        first: u16,
        /// Its last number.
        last: u16,
    },
    /// Ports (or ICMP type and code) of any protocol.
    #[error("ports, ICMP type and code require a protocol that has them; set the protocol")]
    PortsWithoutProtocol,
    /// TCP flags of another protocol.
    #[error("TCP flags require protocol 6; set the protocol or remove the flags")]
    FlagsWithoutTcp,
    /// TCP flags that the mask excludes.
    #[error("the mask excludes TCP flags that are set; add them to the mask")]
    FlagsBeyondMask,
    /// A DSCP beyond 63.
    #[error("DSCP {0} is out of range; the greatest is 63")]
    DscpOutOfRange(u8),
    /// A VLAN ID beyond 4095.
    #[error("VLAN ID {0} is out of range; the greatest is 4095")]
    VlanOutOfRange(u16),
    /// No kind of packet is left that could meet the rule.
    #[error("the rule admits no fragment state or no flow state (later fragments have no ports)")]
    NothingMeets,
}

impl Rule {
    /// Whether packets of IPv4, and of IPv6, can meet the rule.
    pub fn families(&self) -> [bool; 2] {
        let is_ip4 = |prefix: Option<Prefix>| matches!(prefix, None | Some(Prefix::Ip4 { .. }));
        let is_ip6 = |prefix: Option<Prefix>| matches!(prefix, None | Some(Prefix::Ip6 { .. }));
        [
            is_ip4(self.source) && is_ip4(self.destination),
            is_ip6(self.source) && is_ip6(self.destination),
        ]
    }

    /// Whether the rule looks at what later fragments lack.
    fn reads_transport(&self) -> bool {
        self.has_ports() || self.tcp_flags_mask != 0
    }

    fn has_ports(&self) -> bool {
        self.source_ports != Range::ANY || self.destination_ports != Range::ANY
    }

    /// The bits of the fragments that can meet the rule.
    pub(super) fn possible_fragments(&self) -> u8 {
        let later = if self.reads_transport() { Fragment::Later.bit() } else { 0 };
        self.fragments & ALL_FRAGMENTS & !later
    }

    /// Whether a packet can meet the rule.
    ///
    /// # Errors
    ///
    /// The first contradiction in it.
    pub fn check(&self) -> Result<(), RuleError> {
        for prefix in [self.source, self.destination].into_iter().flatten() {
            check_prefix(prefix)?;
        }
        if self.families() == [false; 2] {
            return Err(RuleError::MixedFamilies);
        }
        for Range { first, last } in [self.source_ports, self.destination_ports, self.lengths] {
            if first > last {
                return Err(RuleError::UpsideDown { first, last });
            }
        }
        if self.has_ports() && self.protocol.is_none() {
            return Err(RuleError::PortsWithoutProtocol);
        }
        if self.tcp_flags_mask != 0 && self.protocol != Some(6) {
            return Err(RuleError::FlagsWithoutTcp);
        }
        if self.tcp_flags & !self.tcp_flags_mask != 0 {
            return Err(RuleError::FlagsBeyondMask);
        }
        if let Some(dscp) = self.dscp.filter(|dscp| *dscp > 63) {
            return Err(RuleError::DscpOutOfRange(dscp));
        }
        if let Some(vlan) = self.vlan.filter(|vlan| *vlan > 4095) {
            return Err(RuleError::VlanOutOfRange(vlan));
        }
        if self.possible_fragments() == 0 || self.states & ALL_STATES == 0 {
            return Err(RuleError::NothingMeets);
        }
        Ok(())
    }
}

fn check_prefix(prefix: Prefix) -> Result<(), RuleError> {
    let (len, most, host_bits) = match prefix {
        Prefix::Ip4 { address, len } => {
            (len, 32, address & u32::MAX.checked_shr(len.into()).unwrap_or(0) != 0)
        }
        Prefix::Ip6 { address, len } => {
            (len, 128, address & u128::MAX.checked_shr(len.into()).unwrap_or(0) != 0)
        }
    };
    if len > most {
        return Err(RuleError::LengthOutOfRange(len));
    }
    if host_bits { Err(RuleError::HostBitsSet) } else { Ok(()) }
}
