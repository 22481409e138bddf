//! A snapshot of a datastore.

use std::sync::Arc;
use std::time::SystemTime;

use yang5::data::{
    Data, DataFormat, DataParserFlags, DataPrinterFlags, DataTree, DataValidationFlags,
};

use super::refusal::{self, Refusal};
use crate::yang::{self, schema};

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
        print(&self.tree)
    }
}

/// Parses a text in RFC 7951 encoding without validating it as a whole.
///
/// # Errors
/// The errors of libyang.
pub fn parse(text: &str) -> Result<DataTree<'static>, Refusal> {
    if text.contains('\0') {
        return Err(refusal::one("/", "the text holds a zero character", "Remove it."));
    }
    let flags =
        DataParserFlags::NO_VALIDATION | DataParserFlags::STRICT | DataParserFlags::NO_STATE;
    let none = DataValidationFlags::empty();
    let parse = || DataTree::parse_string(schema().context(), text, DataFormat::JSON, flags, none);
    let (tree, errors) = yang::collect_errors(parse);
    tree.map_err(|error| refusal::invalid(&error, &errors))
}

/// The text of a configuration file.
pub(super) fn print(tree: &DataTree<'_>) -> Result<String, Refusal> {
    let flags = DataPrinterFlags::WITH_SIBLINGS | DataPrinterFlags::WD_EXPLICIT;
    match tree.print_string(DataFormat::JSON, flags) {
        Ok(text) if text.is_empty() => Ok("{}\n".to_owned()),
        Ok(text) => Ok(text),
        Err(error) => Err(refusal::yang(error)),
    }
}
