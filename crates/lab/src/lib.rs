//! Hosts in network namespaces for the demo and the scenarios: the world around the router, made of the kernel's own parts.
//!
//! Everything made here is unmade again: by `Drop`, after a panic, after Ctrl-C, and, should this process be killed
//! outright, by the next one that starts ([`sweep`]). Every command has a deadline; nothing here can hang.

#![deny(unsafe_code)]

mod address;
pub mod bgp_speaker;
mod bird;
mod bpf;
mod command;
mod configuration;
pub mod convergence;
pub mod demo;
mod error;
mod frr;
mod host;
mod interrupt;
pub mod latency;
pub mod measure;
mod namespace;
mod process;
mod router;
mod scratch;
mod show_output;
mod tool;
mod vlan;
mod wait;

pub use address::Address;
pub use bird::Bird;
pub use command::{Command, Output};
pub use configuration::{Configuration, NextHop, interface_name};
pub use error::LabError;
pub use frr::Frr;
pub use host::{Host, Linux, Side, Tag, Topology};
pub use namespace::{Handle, Namespace, sweep};
pub use process::Background;
pub use router::{Router, stoa_binary};
pub use scratch::Scratch;
pub use show_output::{Dropped, Interface, Neighbor, NodeCounters};
pub use tool::Tool;
pub use wait::wait_until;

/// What everything here returns.
pub type Result<T> = std::result::Result<T, LabError>;
