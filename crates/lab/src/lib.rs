//! Hosts in network namespaces for the demo and the scenarios: a testbed around the router, built from the kernel's
//! own devices.
//!
//! Everything created here is removed again: by `Drop`, after a panic, after Ctrl-C, and, if this process is killed,
//! by the next one that starts ([`sweep`]). Every command has a timeout.

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
mod folders;
mod frr;
mod host;
mod interrupt;
mod last_state;
pub mod latency;
pub mod measure;
mod namespace;
mod process;
pub mod rare_calls;
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

/// The result of fallible functions in this crate.
pub type Result<T> = std::result::Result<T, LabError>;
