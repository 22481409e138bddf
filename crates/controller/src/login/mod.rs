//! Login of hosts: who has logged in, for how long, and with how much volume.
//!
//! ```text
//! portal, operator ─ log in, log out ─► Logins ─ rows ─► forwarder
//! forwarder ─ counters ─► Logins ─ events ─► accounting
//! ```
//!
//! [`sessions`] is the state machine without clock and files; `run` drives them, by a clock that nobody sets. Logins
//! outlive the controller in a file of the state folder, and the forwarder keeps them by their rows. [`partner`] shares
//! them with another router that takes over by VRRP.

mod capability;
mod cause;
mod logins;
mod partner;
mod rows;
mod run;
mod session;
pub mod sessions;
mod state;
mod store;

pub(crate) use capability::HostLogin;
pub use cause::Cause;
pub use logins::{Listed, Logins, clock_s, unix_s};
pub use run::LoggedIn;
pub use sessions::{Event, Limits, Method, Session};
