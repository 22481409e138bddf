//! An internal BGP session with a routing daemon on the same machine: bytes come in, bytes and routes go out.
//!
//! ```text
//! bytes ─► Session ─► Listener ─► Rib ─► runs of prefixes with their next hops, best and backup
//!             │
//!             └─► bytes to send
//! ```
//!
//! The daemon (FRR's bgpd, BIRD, any other) does the routing and hands over what it chose, and with add-path what
//! it would choose next. [`Session`] is the protocol: RFC 4271, multiprotocol (RFC 4760), 4-octet AS numbers
//! (RFC 6793), add-path (RFC 7911), graceful restart (RFC 4724), errors in updates (RFC 7606), route refresh
//! (RFC 2918), extended messages (RFC 8654). It waits for the daemon to connect and sends no routes. [`Rib`] keeps the paths of
//! each prefix and selects again. Neither knows sockets, clocks or threads.
#![forbid(unsafe_code)]

mod attributes;
mod choice;
mod message;
mod nlri;
mod open;
mod paths;
mod rib;
mod session;
mod sets;
mod update;

pub use attributes::Attributes;
pub use choice::Choice;
pub use message::Fault;
pub use nlri::{Address, Nlri};
pub use open::{FamilyTerms, Local, Terms};
pub use rib::{PathCounts, Rib, Run};
pub use session::{Counts, Ended, Listener, Session};

/// A family of addresses, unicast (SAFI 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// AFI 1.
    Ip4,
    /// AFI 2.
    Ip6,
}
