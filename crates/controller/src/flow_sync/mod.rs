//! Flows at a partner, another router that takes over by VRRP: settings, what a commit warns about, state and metrics.
//! The forwarder speaks with the partner.

mod capability;
mod state;
mod warnings;

pub(crate) use capability::FlowsAtPartner;
pub(crate) use warnings::warnings;

/// The container.
const FLOW_SYNC: &str = "/stoa-flow-sync:flow-sync";
