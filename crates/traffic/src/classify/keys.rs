//! Headers to classify: those that meet a rule of a set, or any.

use stoa_tables::classifier::{FlowState, Fragment, Key, Prefix, Range, Rule};

use crate::random::Random;

/// An address of a family.
pub trait Address: Copy {
    /// Whether this is IPv6.
    const IS_IP6: bool;
    /// An address with the bits of a prefix and these others.
    fn within(prefix: Option<Prefix>, bits: u128) -> Self;
}

impl Address for u32 {
    const IS_IP6: bool = false;

    fn within(prefix: Option<Prefix>, bits: u128) -> Self {
        match prefix {
            Some(Prefix::Ip4 { address, len }) => {
                address | bits as u32 & u32::MAX.checked_shr(len.into()).unwrap_or(0)
            }
            _ => bits as u32,
        }
    }
}

impl Address for u128 {
    const IS_IP6: bool = true;

    fn within(prefix: Option<Prefix>, bits: u128) -> Self {
        match prefix {
            Some(Prefix::Ip6 { address, len }) => {
                address | bits & u128::MAX.checked_shr(len.into()).unwrap_or(0)
            }
            _ => bits,
        }
    }
}

fn bits(random: &mut Random) -> u128 {
    u128::from(random.next()) << 64 | u128::from(random.next())
}

fn number(range: Range, random: &mut Random) -> u16 {
    range.first + random.below(usize::from(range.last - range.first) + 1) as u16
}

/// A key that nothing chooses but frequency: most packets are TCP or UDP, whole, and untagged.
pub fn random<A: Address>(random: &mut Random) -> Key<A> {
    within(&Rule::default(), random)
}

/// A key that meets a rule, if no earlier one hides it.
pub fn within<A: Address>(rule: &Rule, random: &mut Random) -> Key<A> {
    let frequent = [6, 6, 6, 17, 17, if A::IS_IP6 { 58 } else { 1 }, 50, 47][random.below(8)];
    let protocol = rule.protocol.unwrap_or(frequent);
    let has_ports = matches!(protocol, 6 | 17 | 1 | 58);
    let (source_port, destination_port) = if has_ports {
        (number(rule.source_ports, random), number(rule.destination_ports, random))
    } else {
        (0, 0)
    };
    let flags = [0x10, 0x18, 0x02, 0x12, 0x11][random.below(5)];
    let flags = flags & !rule.tcp_flags_mask | rule.tcp_flags;
    let fragment =
        if rule.fragments & Fragment::No.bit() != 0 { Fragment::No } else { Fragment::Later };
    let states = [FlowState::Established, FlowState::New, FlowState::Untracked];
    let is_admitted = |state: &FlowState| rule.states & state.bit() != 0;
    let state = states[random.below(3)];
    let state = if is_admitted(&state) { state } else { FlowState::New };
    Key {
        source: A::within(rule.source, bits(random)),
        destination: A::within(rule.destination, bits(random)),
        protocol,
        source_port,
        destination_port,
        tcp_flags: if protocol == 6 { flags } else { 0 },
        dscp: rule.dscp.unwrap_or(0),
        fragment,
        length: number(Range { last: rule.lengths.last.min(1500), ..rule.lengths }, random),
        interface: rule.interface.unwrap_or(random.below(16) as u16),
        output: rule.output.unwrap_or(0),
        vlan: rule.vlan.unwrap_or(0),
        state,
    }
}
