//! OpenConfig paths: a read-only view of the IETF data for collectors that expect them.
//!
//! `table` maps each OpenConfig leaf to an IETF leaf. A path becomes a `selection` of its rows. The IETF data that they
//! need is read like that of any other path, with the access rules of the IETF path; `source` finds the entries in it,
//! `form` converts the values, `answer` builds the objects of a Get.

mod answer;
mod form;
mod next_hops;
mod selection;
mod source;
mod table;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use stoa_api::gnmi::{ModelData, Path};
use tonic::Status;

use super::path::PathPattern;
pub use answer::updates;
pub use selection::Selection;
pub use source::Part;

/// A path of either view of the data.
#[derive(Clone, Debug)]
pub enum Selected {
    /// Of the modules of this router.
    Native(Arc<PathPattern>),
    /// Of OpenConfig.
    OpenConfig(Arc<Selection>),
}

impl Selected {
    /// Parses a path below a prefix. Without origin and module, a path that the schema does not have may be one of
    /// OpenConfig.
    ///
    /// # Errors
    /// When neither the schema nor the table has it.
    pub fn read(prefix: Option<&Path>, path: Option<&Path>) -> Result<Selected, Status> {
        let of_table = |selection| Selected::OpenConfig(Arc::new(selection));
        if selection::is_named(prefix, path) {
            check_form(prefix, path)?;
            return Selection::read(prefix, path).map(of_table).map_err(|it| it.status);
        }
        let status = match PathPattern::read(prefix, path) {
            Ok(pattern) => return Ok(Selected::Native(Arc::new(pattern))),
            Err(status) => status,
        };
        if !selection::has_no_origin(prefix, path) || check_form(prefix, path).is_err() {
            return Err(status);
        }
        match Selection::read(prefix, path) {
            Ok(selection) => Ok(of_table(selection)),
            // The path follows OpenConfig where the schema has no node any more.
            Err(unmapped) if unmapped.matched > 2 || is_instance(prefix, path) => {
                Err(unmapped.status)
            }
            Err(_) => Err(status),
        }
    }

    /// Whether both match the same nodes.
    pub fn is_same(&self, other: &Selected) -> bool {
        match (self, other) {
            (Selected::Native(one), Selected::Native(other)) => one.is_same(other),
            (Selected::OpenConfig(one), Selected::OpenConfig(other)) => one.elems == other.elems,
            _ => false,
        }
    }

    /// The path as text, for errors.
    pub fn text(&self) -> String {
        match self {
            Selected::Native(pattern) => pattern.resource.data_path(),
            Selected::OpenConfig(selection) => selection.text(),
        }
    }
}

/// Refuses forms that the paths of the schema refuse, too.
fn check_form(prefix: Option<&Path>, path: Option<&Path>) -> Result<(), Status> {
    let origins: Vec<&str> =
        [prefix, path].into_iter().flatten().map(|part| part.origin.as_str()).collect();
    let given: Vec<&&str> = origins.iter().filter(|origin| !origin.is_empty()).collect();
    if given.windows(2).any(|pair| pair[0] != pair[1]) {
        return Err(Status::invalid_argument("prefix and path have different origins"));
    }
    if path.is_some_and(|path| !path.target.is_empty()) {
        return Err(Status::invalid_argument("a path has a target: put it into the prefix"));
    }
    Ok(())
}

fn is_instance(prefix: Option<&Path>, path: Option<&Path>) -> bool {
    let mut elems = [prefix, path].into_iter().flatten().flat_map(|part| &part.elem);
    elems.next().is_some_and(|elem| elem.name == "network-instances")
}

/// The error for a change of an OpenConfig path; `None`: it is none.
pub fn read_only(prefix: Option<&Path>, path: Option<&Path>) -> Option<Status> {
    let is_ours = selection::is_named(prefix, path) || selection::has_no_origin(prefix, path);
    let selection = is_ours.then(|| Selection::read(prefix, path).ok())?;
    let words = match (&selection, selection::is_named(prefix, path)) {
        (Some(selection), _) => format!(
            "OpenConfig paths can only be read: to change {}, set {}",
            selection.text(),
            selection.ietf()
        ),
        (None, true) => "OpenConfig paths can only be read: set the IETF path".to_owned(),
        (None, false) => return None,
    };
    Some(Status::unimplemented(words))
}

/// The mapped models, for Capabilities.
pub fn models() -> impl Iterator<Item = ModelData> {
    table::MODELS.into_iter().map(|(name, version)| ModelData {
        name: name.to_owned(),
        organization: table::ORGANIZATION.to_owned(),
        version: version.to_owned(),
    })
}
