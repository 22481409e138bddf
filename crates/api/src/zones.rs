//! Zones of interfaces: names and limits that both sides use.

/// The zone that is the router itself.
pub const ROUTER: &str = "router";

/// The most zones, without the router itself.
pub const ZONES: usize = 64;
