//! The controller: configuration, transactions, routes.
//!
//! `configuration` converts a text to the desired state (JSON, YANG, one file for each capability), `rib` resolves its
//! routes, `apply` sends it to the forwarder. `datastore` has the transactions, `operator` the service for management
//! tools, `service` the process, and `supervise` the parent process of controller and forwarder.
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
pub mod filter;
pub mod find_routes;
mod host_bits;
mod host_interfaces;
pub mod interfaces;
pub mod kernel_configuration;
pub mod learned;
pub mod linux;
mod lock;
mod logging;
mod mac;
#[allow(missing_docs)] // named and described in the YANG modules
pub mod management;
mod merged_routes;
pub mod metrics;
#[allow(missing_docs)] // named and described in the YANG modules
mod model;
mod operational_state;
pub mod operator;
mod policy;
mod ports;
pub mod privileges;
mod punts;
mod recursion;
mod rib;
pub mod route_sources;
mod router_advertisement;
mod routes;
pub mod running;
pub mod service;
pub mod state;
pub mod supervise;
mod tunnels;
mod vrf_name;
mod vrrp;
pub mod workers;
