//! A snapshot of a datastore.

use std::sync::Arc;
use std::time::SystemTime;

use yang5::data::DataTree;

use super::refusal::Refusal;

/// A snapshot of a datastore, without defaults.
#[derive(Debug)]
pub struct Snapshot {
    /// The data, which datastores may share.
    pub tree: Arc<DataTree<'static>>,
    /// Unique for different contents until the controller restarts.
    pub revision: u64,
    /// The time of the last change.
    pub modified: SystemTime,
}

impl Snapshot {
    pub(super) fn new(tree: impl Into<Arc<DataTree<'static>>>, revision: u64) -> Snapshot {
        Snapshot { tree: tree.into(), revision, modified: SystemTime::now() }
    }

    /// The text of a configuration file.
    ///
    /// # Errors
    /// When libyang cannot print it.
    pub fn text(&self) -> Result<String, Refusal> {
        Ok(stoa_yang::data::print(&self.tree)?)
    }
}
