//! Address translation: limits and defaults that both sides use.

/// The most policies of all instances.
pub const POLICIES: usize = 255;

/// The most static mappings of all instances.
pub const MAPPINGS: usize = 65_536;

/// The most external addresses of the pools of a policy.
pub const ADDRESSES: u64 = 65_536;

/// First and last external port of a policy where none are configured: those that are not well known.
pub const PORTS: (u32, u32) = (1_024, 65_535);
