//! The controller: configuration, transactions, routes.
//!
//! `capability` has the list of capabilities, each of which translates its settings and renders its state and its
//! metrics; `config` translates what is not in that list yet. `rib` resolves its routes, `configuration` has the
//! whole, and `apply` sends it to the forwarder. `datastore` has the transactions, `operator` the service for
//! management tools, `service` the process, and `supervise` the parent process of controller and forwarder.
#![forbid(unsafe_code)]

pub mod apply;
pub mod bgp_route_source;
mod call_error;
pub mod capability;
pub mod capture;
pub mod config;
pub mod configuration;
mod configuration_text;
pub mod datastore;
pub mod doctor;
pub mod filter;
pub mod find_routes;
mod json;
pub mod kernel_configuration;
pub mod learned;
pub mod linux;
mod lock;
mod logging;
mod merged_routes;
pub mod metrics;
mod operational_state;
pub mod operator;
mod prefix;
pub mod privileges;
pub mod punt_stream;
mod punts;
#[cfg(test)]
mod recorded;
mod recursion;
mod rib;
pub mod route_sources;
pub mod rows;
pub mod running;
pub mod service;
pub mod state;
pub mod supervise;
