//! Security associations with manual keys: settings, what a commit warns about, state and metrics. The forwarder
//! encrypts and decrypts.

mod capability;
mod checks;
mod state;
pub mod used_keys;
mod warnings;

pub(crate) use capability::Ipsec;
pub(crate) use warnings::warnings;

use crate::config::data_path::predicate;

/// The data path of an association.
fn entry_path(name: &str) -> String {
    format!("/stoa-ipsec:ipsec/sad/sad-entry{}", predicate("name", name))
}
