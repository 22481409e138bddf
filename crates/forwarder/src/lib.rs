//! The data plane: one folder per capability.
//!
//! The forwarder has [`nodes`] that workers run, [tables](shared) that the workers share, and a
//! [`control`] thread that implements the contract with the controller.
#![deny(unsafe_code)]

pub mod acl;
pub mod addresses;
pub mod arcs;
pub mod attributes;
pub mod bfd;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod columns_avx2;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod columns_avx512;
pub mod control;
pub mod device_opener;
pub mod drops;
pub mod ethernet;
pub mod flow;
pub mod flow_sync;
pub mod host_interface;
pub mod icmp;
pub mod ip;
pub mod ipfix;
pub mod ipsec;
pub mod kernel;
pub mod login;
mod mailbox;
pub mod nat;
pub mod nat64;
pub mod neighbor;
pub mod nodes;
pub mod noop;
pub mod nptv6;
pub mod output;
pub mod pcp;
pub mod plugin;
pub mod protocols;
pub mod punt;
pub mod reports;
pub mod shared;
pub mod siit;
pub mod tunnel;

pub use control::{Error, Options, Prepared, audit, check};
pub use stoa_ports::Folders;
pub use stoa_ports::host_interface::spare as spare_host_interface_queue;
