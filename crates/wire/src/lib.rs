//! Packet formats: one file per header or message, parsed, checked and built; no state, no I/O.
//!
//! Every format follows one plan:
//!
//! - a `Header` (or `Packet`) laid over the bytes without a copy, its integers big-endian;
//! - `check(bytes)`, which validates everything once and returns a view that needs no further
//!   check, or one named cause of the error;
//! - `build(...)`, which writes into `&mut [u8]` and returns the length, or a [`BuildError`].
//!
//! Nothing here allocates, but for the buffer of an IPFIX message, and no input makes it panic. The
//! cause enums have no fields, so a counter per cause is an array indexed by `cause as usize`; see
//! `ALL` and `name()` of each.
//!
//! A header in the packet is changed in place through [`zerocopy::FromBytes::mut_from_prefix`].
#![forbid(unsafe_code)]

#[macro_use]
mod cause;
mod build_error;

pub mod arp;
pub mod bfd;
pub mod checksum;
pub mod echo;
pub mod esp;
pub mod essential;
pub mod ethernet;
pub mod ftp;
pub mod gre;
pub mod icmp4;
pub mod icmp6;
pub mod icmp_query;
pub mod ipfix;
pub mod ipv4;
pub mod ipv4_options;
pub mod ipv6;
pub mod ipv6_extensions;
pub mod irdp;
pub mod mld;
pub mod nat_pmp;
pub mod ndp;
pub mod ndp_options;
pub mod pcp;
pub mod pptp;
pub mod protocol;
pub mod radius;
pub mod siit;
pub mod sip;
pub mod syn_ack;
pub mod tcp;
pub mod tcp_options;
pub mod tcp_redirect;
pub mod text;
pub mod tftp;
pub mod udp;
pub mod vlan;
pub mod vrrp;

pub use build_error::BuildError;
pub use zerocopy;
