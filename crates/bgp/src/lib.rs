//! An internal BGP session with a routing daemon on the same machine: bytes in, bytes and routes out.
//!
//! ```text
//! bytes ─► Session ─► SessionHandler (Rib) ─► runs of prefixes with their next hops and backup
//!             │
//!             └─► bytes to send
//! ```
//!
//! The daemon (FRR's bgpd, BIRD or another one) does the routing and advertises its best paths; with add-path also
//! their alternatives. [`Session`] implements the protocol: RFC 4271, multiprotocol (RFC 4760), 4-octet AS numbers
//! (RFC 6793), add-path (RFC 7911), graceful restart (RFC 4724), error handling in UPDATE (RFC 7606), route refresh
//! (RFC 2918) and extended messages (RFC 8654). It is passive and advertises no routes. [`Rib`] stores the paths of
//! each prefix and repeats the best-path selection. Neither uses sockets, clocks or threads.
#![forbid(unsafe_code)]

mod attribute_sets;
mod attributes;
mod message;
mod nlri;
mod open;
mod paths;
mod rib;
mod selection;
mod session;
mod update;

pub use attributes::Attributes;
pub use message::ProtocolError;
pub use nlri::{Address, Nlri};
pub use open::{LocalConfig, Negotiated, NegotiatedFamily};
pub use rib::{PathCounts, Rib, Run};
pub use selection::Selection;
pub use session::{Session, SessionCounters, SessionError, SessionHandler};

/// An address family, unicast (SAFI 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// AFI 1.
    Ip4,
    /// AFI 2.
    Ip6,
}
