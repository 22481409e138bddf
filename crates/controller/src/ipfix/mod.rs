//! Export of flow records and events by IPFIX (RFC 7011): settings, what a commit warns about, state and metrics. The
//! forwarder exports by itself.

mod capability;
mod state;
mod warnings;

#[cfg(test)]
mod tests;

use crate::config::data_path::predicate;

pub(crate) use capability::Export;
pub(crate) use warnings::warnings;

/// The export.
const IPFIX: &str = "/stoa-ipfix:ipfix";

/// The path of a collector.
fn collector_path(name: &str) -> String {
    format!("{IPFIX}/collector{}", predicate("name", name))
}
