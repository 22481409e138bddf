//! A rename in the parts that are not in effect.

use stoa_api::v1::SetEdit;
use stoa_api::v1::configuration_edit::Edit;
use yang5::data::DataTree;

use super::{Rename, line_edits, renamed};
use crate::notes::{INACTIVE, entry};
use crate::position;
use crate::session::Failure;
use crate::show;
use crate::whole::{EntryCopy, find};
use crate::words;

impl Rename {
    /// Corrects the positions of deactivated entries that name a renamed one.
    pub(super) fn positions(&mut self) -> Result<(), Failure> {
        for (node, _) in self.notes(INACTIVE, "inactive-lines") {
            let Some(before) = position::kept(&self.tree, &node) else { continue };
            let new = before.iter().map(|keys| {
                let old = position::sibling(&node, keys);
                let new = old.and_then(|old| renamed(&self.moves, &old));
                new.and_then(|new| position::keys(&new, keys)).unwrap_or_else(|| keys.clone())
            });
            let new: Vec<String> = new.collect();
            if new != before {
                let place = words::to_delete(&entry(INACTIVE, &node, &["position"]))?;
                self.add(Edit::Delete(place))?;
                self.add_all(position::edits(&node, &new)?)?;
            }
        }
        Ok(())
    }

    /// Renames in the parts that are not in effect.
    pub(super) fn inactive(
        &mut self,
        copy: &EntryCopy,
        old: &[String],
        new: &[String],
    ) -> Result<(), Failure> {
        for (node, lines) in self.notes(INACTIVE, "inactive-lines") {
            // What others wrote there stays.
            let Ok(edits) = line_edits(&lines) else { continue };
            let mut part = Rename::empty(DataTree::new(stoa_yang::schema().context()));
            part.moves.clone_from(&self.moves);
            if part.add_all(edits).is_err() {
                continue;
            }
            part.edits.clear();
            match find(&part.tree, &copy.from.path) {
                true => part.entry(copy).map(drop)?,
                false => part.leafrefs(&copy.from, old, new)?,
            }
            part.paths()?;
            if part.edits.is_empty() {
                continue;
            }
            self.references += part.references;
            let named = renamed(&part.moves, &node).unwrap_or_else(|| node.clone());
            if named != node {
                self.check_free(INACTIVE, &named)?;
            }
            let before = position::kept(&self.tree, &node);
            self.add(Edit::Delete(words::to_delete(&entry(INACTIVE, &node, &[]))?))?;
            let path = words::parse(&entry(INACTIVE, &named, &["inactive-lines"]))?.path;
            let value = Some(show::lines(&part.tree, "/"));
            self.add(Edit::Set(SetEdit { path, value }))?;
            if let Some(before) = before {
                self.add_all(position::edits(&named, &before)?)?;
            }
        }
        Ok(())
    }
}
