//! What is wanted: configuration, transactions, routes.
//!
//! An intention comes in as text and goes to the forwarder as one wanted state:
//! `configuration` (JSON, YANG, one file per capability) -> `rib` -> `apply`.
#![forbid(unsafe_code)]

mod addresses;
pub mod configuration;
pub mod finding;
mod interfaces;
mod mac;
mod mend;
#[allow(missing_docs)] // the words are those of the YANG modules, described there
mod model;
mod ports;
mod rib;
mod routes;
mod unsupported;
mod workers;
pub mod yang;
