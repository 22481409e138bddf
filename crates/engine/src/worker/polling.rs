//! How a worker waits for packets.

/// How a worker waits for packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Polling {
    /// Spin under load; after [`SPIN_US`] without packets sleep until one comes, or a node is due.
    #[default]
    Adaptive,
    /// Spin always: lowest latency, a whole core.
    Always,
    /// Sleep whenever there is nothing: lowest power.
    Interrupt,
}

/// Microseconds that an adaptive worker spins for the next packet before it sleeps.
pub const SPIN_US: u64 = 40;

impl Polling {
    /// The name in configuration and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Adaptive => "adaptive",
            Self::Always => "polling",
            Self::Interrupt => "interrupt",
        }
    }

    /// As an atomic cell holds it.
    pub fn number(self) -> u32 {
        self as u32
    }

    /// The inverse of [`Self::number`].
    pub fn from_number(number: u32) -> Self {
        match number {
            1 => Self::Always,
            2 => Self::Interrupt,
            _ => Self::Adaptive,
        }
    }

    /// Microseconds without packets after which the worker may sleep.
    pub fn patience_us(self) -> Option<u64> {
        match self {
            Self::Adaptive => Some(SPIN_US),
            Self::Always => None,
            Self::Interrupt => Some(0),
        }
    }
}
