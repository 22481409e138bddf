//! A datastore at one moment.

use std::sync::Arc;
use std::time::SystemTime;

use yang5::data::{
    Data, DataFormat, DataParserFlags, DataPrinterFlags, DataTree, DataValidationFlags,
};

use super::refusal::{self, Refusal};
use crate::yang::{self, schema};

/// A datastore at one moment; what was not configured is not in it.
#[derive(Debug)]
pub struct Snapshot {
    /// The data; two datastores may hold the same ones.
    pub tree: Arc<DataTree<'static>>,
    /// Different for everything that is different, in one life of the controller.
    pub revision: u64,
    /// Since when it is so.
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

/// The data of a text in RFC 7951 encoding, not validated as a whole.
///
/// # Errors
/// What libyang has against it.
pub fn parse(text: &str) -> Result<DataTree<'static>, Refusal> {
    if text.contains('\0') {
        return Err(refusal::one("/", "the text holds a zero character", "Remove it."));
    }
    let flags =
        DataParserFlags::NO_VALIDATION | DataParserFlags::STRICT | DataParserFlags::NO_STATE;
    let none = DataValidationFlags::empty();
    let parse = || DataTree::parse_string(schema().context(), text, DataFormat::JSON, flags, none);
    let (tree, complaints) = yang::listen(parse);
    tree.map_err(|error| refusal::said(&error, &complaints))
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
