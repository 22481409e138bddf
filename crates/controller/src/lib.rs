//! What is desired: configuration, transactions, routes.
//!
//! An intention comes in as text and goes to the forwarder as one desired state:
//! `configuration` (JSON, YANG, one file per capability) -> `rib` -> `apply`.
//! Around it: `operator` is the route source for people and programs, `service` the
//! process, `supervise` the parent of both halves.
#![forbid(unsafe_code)]

mod addresses;
pub mod apply;
mod bfd;
pub mod bgp_route_source;
pub mod capture;
pub mod configuration;
mod cross_connects;
pub mod datastore;
pub mod doctor;
pub mod error;
pub mod filter;
pub mod find_routes;
pub mod fix;
mod host_bits;
mod host_interfaces;
pub mod identities;
pub mod interfaces;
pub mod kernel_configuration;
pub mod learned;
pub mod linux;
mod lock;
mod logging;
mod mac;
#[allow(missing_docs)] // the words are those of the YANG modules, described there
pub mod management;
mod merged_routes;
pub mod metrics;
#[allow(missing_docs)] // the words are those of the YANG modules, described there
mod model;
mod operational_state;
pub mod operator;
mod place;
mod policy;
mod ports;
pub mod privileges;
mod punts;
mod recursion;
pub mod renamed_names;
mod rib;
pub mod route_sources;
mod router_advertisement;
mod routes;
pub mod running;
pub mod schema_text;
pub mod service;
pub mod state;
pub mod supervise;
mod tunnels;
mod unsupported;
mod vrf_name;
mod vrrp;
pub mod workers;
pub mod yang;
