//! What an association may be. What cannot work, or is not safe, is refused by name and never changed silently.

use stoa_crypto::KeyError;
use stoa_tables::replay_window::{SIZE_MAX, SIZE_MIN};
use stoa_tables::spi_table::SpiError;
use stoa_wire::esp;

use crate::ipsec::association::Settings;
use crate::ipsec::table::CAPACITY;

/// Values of the DSCP field: six bits.
const DSCP_MAX: u8 = 63;

/// Why an association is refused; nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AssociationError {
    /// The interface is no tunnel with ESP.
    #[error("{0:?} is no tunnel with ESP")]
    NoTunnel(String),
    /// The keys do not fit the algorithm.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The SPI is in use, or finds no place.
    #[error(transparent)]
    Spi(#[from] SpiError),
    /// The SPI is reserved (RFC 4303 section 2.1).
    #[error("SPI {0} is reserved; choose one from {min} on", min = esp::FIRST_SPI)]
    ReservedSpi(u32),
    /// Only an AEAD may leave the IV out (RFC 8750 section 1).
    #[error("{0} has no implicit IV; send the IV")]
    ImplicitIv(&'static str),
    /// The algorithm has no salt.
    #[error("{0} has no salt; leave it out")]
    Salt(&'static str),
    /// The DSCP has more than six bits.
    #[error("DSCP {0} is above {DSCP_MAX}")]
    Dscp(u8),
    /// The anti-replay window is too small or too large.
    #[error("an anti-replay window of {0} numbers; choose {SIZE_MIN} to {SIZE_MAX}, or 0 for none")]
    Window(u32),
    /// The receiver finds the upper half of a number by the window only (RFC 4303 section 3.4.3).
    #[error(
        "extended sequence numbers need an anti-replay window; choose {SIZE_MIN} to {SIZE_MAX} numbers"
    )]
    NoWindow,
    /// What the other end sends to this port does not reach ESP.
    #[error("ESP in UDP at our port {0}; choose {port}", port = esp::UDP_PORT)]
    UdpPort(u16),
    /// There is no sequence number left.
    #[error("no sequence number follows {0}; begin a new association with new keys")]
    LastNumber(u64),
    /// There is no room.
    #[error("there are {CAPACITY} inbound security associations already")]
    Full,
    /// Keys that were used are remembered, so that none begins anew.
    #[error("this forwarder has used {0} keys, and remembers no more")]
    Keys(usize),
    /// There is no memory.
    #[error("there is no memory for an anti-replay window")]
    NoMemory,
}

/// Refuses settings that either direction refuses.
fn check(settings: &Settings) -> Result<(), AssociationError> {
    let Settings { spi, algorithm, salt, is_implicit, udp, .. } = settings;
    if *spi < esp::FIRST_SPI {
        return Err(AssociationError::ReservedSpi(*spi));
    }
    if *is_implicit && !algorithm.can_have_implicit_iv() {
        return Err(AssociationError::ImplicitIv(algorithm.name()));
    }
    if !salt.is_zero() && algorithm.salt_bytes() == 0 {
        return Err(AssociationError::Salt(algorithm.name()));
    }
    match udp {
        Some(ports) if ports.source != esp::UDP_PORT => {
            Err(AssociationError::UdpPort(ports.source))
        }
        _ => Ok(()),
    }
}

/// Refuses what an outbound association cannot have: DSCP of outer packets, and the number before the first one.
pub(in crate::control) fn check_outbound(
    settings: &Settings,
    dscp: Option<u8>,
    last: u64,
) -> Result<(), AssociationError> {
    check(settings)?;
    if let Some(dscp) = dscp.filter(|it| *it > DSCP_MAX) {
        return Err(AssociationError::Dscp(dscp));
    }
    if last >= settings.shape().last() { Err(AssociationError::LastNumber(last)) } else { Ok(()) }
}

/// Refuses what an inbound association cannot have: the size of its anti-replay window.
pub(in crate::control) fn check_inbound(
    settings: &Settings,
    window: u32,
) -> Result<(), AssociationError> {
    check(settings)?;
    match window {
        0 if settings.is_extended => Err(AssociationError::NoWindow),
        0 | SIZE_MIN..=SIZE_MAX => Ok(()),
        _ => Err(AssociationError::Window(window)),
    }
}
