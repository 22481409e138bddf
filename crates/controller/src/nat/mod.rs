//! Translation of IPv4 addresses, of IPv6 hosts to IPv4, and of IPv6 prefixes (RFC 8512): policies and static mappings,
//! what a commit warns about, state and metrics.

mod alg;
mod blocks;
mod capability;
mod mappings;
mod nat64;
mod nptv6;
mod outside;
mod overlaps;
mod own_sockets;
mod paths;
mod policies;
mod port_control;
mod services;
mod siit;
mod state;
mod values;
mod warnings;

pub(crate) use capability::Translation;
pub(crate) use paths::{mapping_path, policy_path};
pub(crate) use services::{mapping_at, own_ports, refuse_own_ports};
pub(crate) use warnings::{Around, warnings};

#[cfg(test)]
mod tests;
