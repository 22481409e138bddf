//! The portal: pages where the users of hosts log in, and an API that tells hosts so (RFC 8908).
//!
//! ```text
//! host ─ HTTPS ─► server ─► routes ─► log-in ─ password ─► auth
//!                             │          └─ Logins ─► forwarder
//!                             └─ api, pages
//! Logins ─ events ─► accounting ─► RADIUS
//! ```
//!
//! It has an address and a port of its own, the limits of the management server, and nothing else in common with it: a
//! cookie or a user of one means nothing to the other. Pages need no script. What a browser names (host, origin,
//! referrer, path) never becomes part of an answer.

mod accounting;
mod api;
mod forms;
mod log_in;
mod pages;
mod routes;
mod server;
mod state;

pub use server::run;
