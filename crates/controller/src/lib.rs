//! The controller: configuration, transactions, routes.
//!
//! `capability` has the list of capabilities, each of which translates its settings and renders its state and its
//! metrics; `config` translates what is not in that list yet. `rib` resolves its routes, `configuration` has the
//! whole, and `apply` sends it to the forwarder. `datastore` has the transactions, `operator` the service for
//! management tools, `service` the process, and `supervise` the parent process of controller and forwarder.
#![deny(unsafe_code)]

pub mod acl;
pub mod apply;
mod bfd;
pub mod bgp_route_source;
mod call_error;
pub mod capability;
pub mod capture;
pub mod config;
pub mod configuration;
mod configuration_text;
mod cross_connects;
pub mod datastore;
pub mod doctor;
pub mod filter;
pub mod find_flows;
pub mod find_routes;
pub mod find_translations;
mod flow_counts;
mod flow_list;
mod flow_sync;
mod host_interfaces;
mod ipfix;
pub mod ipsec;
mod json;
pub mod kernel_configuration;
pub mod learned;
pub mod linux;
mod lock;
mod logging;
pub mod login;
mod management;
mod merged_routes;
pub mod metrics;
mod nat;
mod nat_mapping_list;
mod open_call;
mod operational_state;
pub mod operator;
mod operator_peers;
mod policy;
mod prefix;
pub mod privileges;
mod probe;
pub mod punt_stream;
mod punts;
pub mod recent;
#[cfg(test)]
mod recorded;
mod recursion;
mod rib;
pub mod route_sources;
mod router_advertisement;
pub mod rows;
pub mod running;
pub mod service;
pub mod state;
pub mod supervise;
mod test_sequences;
mod tunnels;
mod vrrp;
pub mod warning;
pub mod workers;
