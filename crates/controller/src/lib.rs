//! What is wanted: configuration, transactions, routes.
//!
//! An intention comes in as text and goes to the forwarder as one wanted state:
//! `configuration` (JSON, YANG, one file per capability) -> `rib` -> `apply`.
//! Around it: `operator` is the door for people and programs, `service` the
//! process, `supervise` the parent of both halves.
#![forbid(unsafe_code)]

mod addresses;
mod advertising;
pub mod apply;
mod bfd;
pub mod bgp_door;
pub mod capture;
pub mod configuration;
mod cross_connects;
pub mod datastore;
pub mod doctor;
pub mod doors;
mod facts;
pub mod filter;
pub mod find_routes;
pub mod finding;
mod held_and_inactive;
mod host_bits;
pub mod identities;
pub mod interfaces;
pub mod learned;
pub mod linux;
mod lock;
mod logging;
mod mac;
#[allow(missing_docs)] // the words are those of the YANG modules, described there
pub mod management;
pub mod mend;
pub mod metrics;
mod mirrors;
#[allow(missing_docs)] // the words are those of the YANG modules, described there
mod model;
pub mod operator;
pub mod overlay;
mod place;
mod policy;
mod ports;
pub mod privileges;
mod punts;
mod recursion;
mod rib;
mod routes;
pub mod running;
pub mod service;
pub mod state;
pub mod supervise;
mod tunnels;
mod unsupported;
mod vrf_name;
mod vrrp;
pub mod workers;
pub mod yang;
