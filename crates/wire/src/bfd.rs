//! Bidirectional Forwarding Detection: the control packet (RFC 5880 section 4.1), behind UDP (RFC 5881).

use crate::{BuildError, build_error::prefix_of};
use zerocopy::network_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a packet without authentication.
pub const LENGTH: usize = 24;
/// UDP port of control packets of a single hop (RFC 5881 section 4).
pub const PORT: u16 = 3784;
/// TTL or hop limit that they are sent with, and must have (RFC 5881 section 5).
pub const HOP_LIMIT: u8 = 255;

const VERSION: u8 = 1;
const POLL: u8 = 0x20;
const FINAL: u8 = 0x10;
const AUTHENTICATED: u8 = 0x04;
const DEMAND: u8 = 0x02;
const MULTIPOINT: u8 = 0x01;

causes! {
    /// Why a control packet is refused (RFC 5880 section 6.8.6).
    BfdError {
        Truncated = "bfd-truncated", "the packet is shorter than its length field, or than 24 bytes";
        BadVersion = "bfd-bad-version", "the BFD version is not 1";
        BadLength = "bfd-bad-length", "the length field is below 24";
        NoMultiplier = "bfd-no-multiplier", "the detection multiplier is 0";
        Multipoint = "bfd-multipoint", "the multipoint bit, which must be 0";
        NoDiscriminator = "bfd-no-discriminator",
            "the sender's discriminator is 0, or ours is while its session is not down";
        Authenticated = "bfd-authenticated", "authentication, which is not spoken here";
    }
}

/// State of a session (RFC 5880 section 4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// Held down by an operator.
    AdminDown = 0,
    /// No packets are received.
    #[default]
    Down = 1,
    /// Packets are received, but the neighbour does not receive ours yet.
    Init = 2,
    /// Both sides receive each other's packets.
    Up = 3,
}

impl State {
    fn of(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::AdminDown,
            1 => Self::Down,
            2 => Self::Init,
            _ => Self::Up,
        }
    }
}

#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
struct Header {
    version_diagnostic: u8,
    state_flags: u8,
    multiplier: u8,
    length: u8,
    mine: U32,
    yours: U32,
    desired_min_tx: U32,
    required_min_rx: U32,
    required_min_echo_rx: U32,
}

/// A control packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// Why the sender's session went down last (RFC 5880 section 4.1), 0 to 31.
    pub diagnostic: u8,
    /// State of the sender's session.
    pub state: State,
    /// The sender polls for a packet with [`is_final`](Self::is_final).
    pub is_poll: bool,
    /// The answer to such a question.
    pub is_final: bool,
    /// Demand mode: the sender requires no packets while the session is up.
    pub is_demand: bool,
    /// Packets that may be missed, and one.
    pub multiplier: u8,
    /// The sender's name of the session.
    pub mine: u32,
    /// The receiver's; 0 when the sender does not know it.
    pub yours: u32,
    /// Least microseconds between the sender's packets, if it could choose.
    pub desired_min_tx: u32,
    /// Required minimum interval of received packets in microseconds; 0: it requires none.
    pub required_min_rx: u32,
}

/// Checks a packet as section 6.8.6 does before the session look-up.
///
/// # Errors
/// One cause per rule broken.
pub fn check(bytes: &[u8]) -> Result<Packet, BfdError> {
    let (header, _) = Header::ref_from_prefix(bytes).map_err(|_| BfdError::Truncated)?;
    let flags = header.state_flags;
    let packet = Packet {
        diagnostic: header.version_diagnostic & 0x1f,
        state: State::of(flags >> 6),
        is_poll: flags & POLL != 0,
        is_final: flags & FINAL != 0,
        is_demand: flags & DEMAND != 0,
        multiplier: header.multiplier,
        mine: header.mine.get(),
        yours: header.yours.get(),
        desired_min_tx: header.desired_min_tx.get(),
        required_min_rx: header.required_min_rx.get(),
    };
    let is_down = matches!(packet.state, State::Down | State::AdminDown);
    if header.version_diagnostic >> 5 != VERSION {
        Err(BfdError::BadVersion)
    } else if usize::from(header.length) < LENGTH {
        Err(BfdError::BadLength)
    } else if usize::from(header.length) > bytes.len() {
        Err(BfdError::Truncated)
    } else if packet.multiplier == 0 {
        Err(BfdError::NoMultiplier)
    } else if flags & MULTIPOINT != 0 {
        Err(BfdError::Multipoint)
    } else if packet.mine == 0 || packet.yours == 0 && !is_down {
        Err(BfdError::NoDiscriminator)
    } else if flags & AUTHENTICATED != 0 {
        Err(BfdError::Authenticated)
    } else {
        Ok(packet)
    }
}

/// Writes a packet; returns its length.
///
/// # Errors
/// The buffer is too short.
pub fn build(out: &mut [u8], packet: &Packet) -> Result<usize, BuildError> {
    let flag = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
    let header = Header {
        version_diagnostic: VERSION << 5 | packet.diagnostic & 0x1f,
        state_flags: (packet.state as u8) << 6
            | flag(packet.is_poll, POLL)
            | flag(packet.is_final, FINAL)
            | flag(packet.is_demand, DEMAND),
        multiplier: packet.multiplier,
        length: LENGTH as u8,
        mine: U32::new(packet.mine),
        yours: U32::new(packet.yours),
        desired_min_tx: U32::new(packet.desired_min_tx),
        required_min_rx: U32::new(packet.required_min_rx),
        // We have no echo.
        required_min_echo_rx: U32::ZERO,
    };
    prefix_of(out, LENGTH)?.copy_from_slice(header.as_bytes());
    Ok(LENGTH)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Of a session that is down: three times 300 ms, slow until it is up.
    const DOWN: [u8; LENGTH] = [
        0x20, 0x40, 0x03, 0x18, 0x5a, 0x1f, 0x02, 0x77, 0, 0, 0, 0, 0x00, 0x0f, 0x42, 0x40, 0x00,
        0x04, 0x93, 0xe0, 0, 0, 0xc3, 0x50,
    ];

    #[test]
    fn a_packet_is_read() {
        let expected = Packet {
            state: State::Down,
            multiplier: 3,
            mine: 0x5a1f_0277,
            desired_min_tx: 1_000_000,
            required_min_rx: 300_000,
            ..Packet::default()
        };
        assert_eq!(check(&DOWN), Ok(expected));
    }

    #[test]
    fn each_rule_has_a_name() {
        let with = |at: usize, byte: u8| {
            let mut bytes = DOWN;
            bytes[at] = byte;
            check(&bytes).err()
        };
        assert_eq!(with(0, 0x00), Some(BfdError::BadVersion));
        assert_eq!(with(3, 23), Some(BfdError::BadLength));
        assert_eq!(with(3, 25), Some(BfdError::Truncated));
        assert_eq!(with(2, 0), Some(BfdError::NoMultiplier));
        assert_eq!(with(1, 0x41), Some(BfdError::Multipoint));
        assert_eq!(with(1, 0xc0), Some(BfdError::NoDiscriminator));
        assert_eq!(with(1, 0x44), Some(BfdError::Authenticated));
        let mut nameless = DOWN;
        nameless[4..8].fill(0);
        assert_eq!(check(&nameless).err(), Some(BfdError::NoDiscriminator));
        assert_eq!(check(&DOWN[..23]).err(), Some(BfdError::Truncated));
    }

    proptest! {
        #[test]
        fn what_is_built_is_read(
            (diagnostic, state, multiplier) in (0..32_u8, 0..4_u8, 1..=255_u8),
            (is_poll, is_final, is_demand) in any::<(bool, bool, bool)>(),
            (mine, yours) in (1..=u32::MAX, 1..=u32::MAX),
            (desired_min_tx, required_min_rx) in any::<(u32, u32)>(),
        ) {
            let state = State::of(state);
            let packet = Packet {
                diagnostic, state, is_poll, is_final, is_demand, multiplier, mine, yours,
                desired_min_tx, required_min_rx,
            };
            let mut out = [0; LENGTH];
            prop_assert_eq!(build(&mut out, &packet), Ok(LENGTH));
            prop_assert_eq!(check(&out), Ok(packet));
            prop_assert!(build(&mut out[1..], &packet).is_err());
        }

        #[test]
        fn no_bytes_do_harm(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(packet) = check(&bytes) {
                let mut out = [0; LENGTH];
                prop_assert_eq!(build(&mut out, &packet), Ok(LENGTH));
                prop_assert_eq!(check(&out), Ok(packet));
            }
        }
    }
}
