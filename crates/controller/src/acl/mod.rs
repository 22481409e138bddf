//! Access control lists (RFC 8519): rules and where they are attached, their counters, what a commit warns about, and
//! which rule decides about a packet. Zones, and what passes between them.

mod alg;
mod attach;
mod capability;
mod cookie_warnings;
mod coverage;
mod essential;
mod evaluate;
mod flow_limits;
mod flow_of;
mod flow_profiles;
mod interface_warnings;
mod interfaces;
mod judged_flows;
mod paths;
mod rules;
mod sets;
mod state;
mod upper;
mod walk;
mod warnings;
mod zone_warnings;
mod zones;

pub(crate) use capability::AccessLists;
pub(crate) use cookie_warnings::cookie_warnings;
pub use evaluate::evaluate;
pub(crate) use flow_limits::flow_limit_warnings;
pub(crate) use judged_flows::judged_flows;
pub(crate) use paths::{pair_path, point_path};
pub(crate) use sets::check_path;
pub use walk::{Decision, Packet};
pub(crate) use warnings::warnings;
pub(crate) use zone_warnings::zone_warnings;

#[cfg(test)]
mod tests;
