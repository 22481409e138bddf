//! The rights to change data. They come first: every node that a request names is checked before the data is looked at,
//! whatever its value is there. Otherwise the answer would tell the value of a node that the client may not read, or
//! whether it exists.

use std::cell::OnceCell;
use std::sync::Arc;

use stoa_controller::datastore::{Datastore, Edit, Kind, Snapshot, Store, visit};
use yang5::data::{Data, DataNodeRef, DataTree};
use yang5::schema::SchemaNode;

use super::fault::{Fault, Faults};
use super::operation;
use super::path::{self, Step, data_path};
use super::read::steps_to;
use crate::nacm::{self, Operation, Rights};

/// Checks every node that these edits of a client name. Returns whether one of them is hidden from the client.
///
/// # Errors
/// The first node that the client may not change.
pub fn named(
    datastore: &Datastore,
    store: Store,
    edits: &[Edit],
    rights: &Rights<'_>,
) -> Result<bool, Faults> {
    if rights.is_whole() {
        return Ok(false);
    }
    let check = NamedNodes { datastore, store, rights, before: OnceCell::new() };
    let mut is_hidden = false;
    for edit in edits {
        is_hidden |= check.edit(edit)?;
    }
    Ok(is_hidden)
}

/// Checks every changed node. Returns whether there are changes. A request that names a hidden node counts as a change,
/// even if the value is the same: no revision tells that.
///
/// # Errors
/// The first node that may not be changed; or a commit of another user is pending, which a change would confirm.
pub fn changed(
    datastore: &Datastore,
    store: Store,
    edits: &[Edit],
    (rights, is_hidden): (&Rights<'_>, bool),
) -> Result<bool, Faults> {
    let revision = datastore.revision(store);
    let (before, after) = datastore.preview(store, edits)?;
    let mut is_change = is_hidden;
    let mut denied = None;
    visit(&before, &after, |kind, node| {
        is_change = true;
        if denied.is_none() && !may(rights, kind, node) {
            denied = Some(shown_path(rights, node));
        }
    })?;
    if !is_change && datastore.revision(store) == revision {
        return Ok(false);
    }
    if let Some(path) = denied {
        return Err(Fault::forbidden(path).into());
    }
    if store == Store::Running {
        operation::allow_confirm(datastore, rights)?;
    }
    Ok(true)
}

/// Whether the client may make this change.
pub fn may(rights: &Rights<'_>, kind: Kind, node: &DataNodeRef<'_>) -> bool {
    let operation = match kind {
        Kind::Create => Operation::Create,
        Kind::Replace => Operation::Update,
        Kind::Delete => Operation::Delete,
    };
    // An administrator needs no check of the path.
    rights.is_whole() || rights.may(operation, &steps_to(node))
}

/// The path of a node for an error: up to where the client may read.
pub fn shown_path(rights: &Rights<'_>, node: &DataNodeRef<'_>) -> String {
    let mut steps = steps_to(node);
    while !steps.is_empty() && !rights.may(Operation::Read, &steps) {
        steps.pop();
    }
    data_path(&steps)
}

/// The steps of a data path, with the keys in their canonical form, as rules have them.
fn steps_of(path: &str) -> Vec<Step> {
    let steps = nacm::rule_path(path);
    let Some(last) = steps.iter().rposition(|step| !step.keys.is_empty()) else { return steps };
    let mut tree = DataTree::new(stoa_yang::schema().context());
    let (made, _) = stoa_yang::collect_errors(|| {
        let path = data_path(&steps[..=last]);
        tree.new_path(&path, None, false).map(|node| node.map(|node| steps_to(&node)))
    });
    match made {
        Ok(Some(canonical)) if canonical.len() == last + 1 => {
            canonical.into_iter().chain(steps.into_iter().skip(last + 1)).collect()
        }
        // The edit will refuse it, whatever the data is.
        _ => steps,
    }
}

fn schema_of(steps: &[Step]) -> Option<SchemaNode<'static>> {
    let (first, below) = steps.split_first()?;
    let top = path::top(&first.module, &first.name)?;
    below.iter().try_fold(top, |above, step| path::child(&above, &step.module, &step.name))
}

struct NamedNodes<'a> {
    datastore: &'a Datastore,
    store: Store,
    rights: &'a Rights<'a>,
    /// The data, read when a right depends on whether a node exists.
    before: OnceCell<Arc<Snapshot>>,
}

impl NamedNodes<'_> {
    fn before(&self) -> &DataTree<'static> {
        &self.before.get_or_init(|| self.datastore.tree(self.store)).tree
    }

    fn is_there(&self, path: &str) -> bool {
        let tree = self.before();
        let is_set = |node: DataNodeRef<'_>| !node.is_default();
        tree.reference().is_some()
            && stoa_yang::collect_errors(|| tree.find_path(path)).0.is_ok_and(is_set)
    }

    fn edit(&self, edit: &Edit) -> Result<bool, Faults> {
        match edit {
            Edit::Merge { body } | Edit::Create { body, .. } => self.body(&parsed(body)?),
            Edit::Replace { path, body } => {
                let body = parsed(body)?;
                let is_hidden = self.body(&body)?;
                self.hidden_below(path, &steps_of(path), Some(&body))?;
                Ok(is_hidden)
            }
            Edit::Delete { path } | Edit::Remove { path } => self.deleted(path),
            Edit::Set { path, .. } | Edit::Move { path, .. } => self.set(&steps_of(path)),
        }
    }

    fn body(&self, body: &DataTree<'static>) -> Result<bool, Faults> {
        let mut is_hidden = false;
        for top in body.reference().iter().flat_map(DataNodeRef::inclusive_siblings) {
            for node in top.traverse() {
                let schema = node.schema();
                // Nodes above others are only the way to them; the differences show those that are new.
                let is_last = node.children().all(|child| child.schema().is_list_key());
                if !schema.is_list_key() && is_last {
                    is_hidden |= self.set_node(&schema, &steps_to(&node))?;
                }
            }
        }
        Ok(is_hidden)
    }

    fn set_node(&self, schema: &SchemaNode<'_>, steps: &[Step]) -> Result<bool, Faults> {
        // A non-presence container exists as soon as its parent does.
        if schema.is_np_container() && self.rights.may(Operation::Read, steps) {
            return Ok(false);
        }
        self.set(steps)
    }

    /// Checks a node that is set. Returns whether it is hidden.
    fn set(&self, steps: &[Step]) -> Result<bool, Faults> {
        let may = |operation| self.rights.may(operation, steps);
        let path = data_path(steps);
        let is_permitted = match (may(Operation::Create), may(Operation::Update)) {
            (true, true) => true,
            (false, false) => false,
            (may_create, may_update) => {
                if self.is_there(&path) {
                    may_update
                } else {
                    may_create
                }
            }
        };
        match is_permitted {
            true => Ok(!may(Operation::Read)),
            false => Err(Fault::forbidden(path).into()),
        }
    }

    fn deleted(&self, path: &str) -> Result<bool, Faults> {
        let steps = steps_of(path);
        let may = |operation| self.rights.may(operation, &steps);
        let is_np_container = schema_of(&steps).is_some_and(|schema| schema.is_np_container());
        let is_seen = may(Operation::Read);
        if !(may(Operation::Delete) || is_np_container && is_seen) {
            return Err(Fault::forbidden(path).into());
        }
        self.hidden_below(path, &steps, None)?;
        Ok(!is_seen)
    }

    /// Checks the nodes below one that is deleted, or replaced by a body that does not name them, which the client may
    /// neither read nor delete. One that does not exist gives the same answer as one that does.
    fn hidden_below(
        &self,
        target: &str,
        steps: &[Step],
        body: Option<&DataTree<'static>>,
    ) -> Result<(), Faults> {
        for below in self.rights.special_below(steps) {
            let Some((last, above)) = below.split_last() else { continue };
            let whole: Vec<Step> = steps.iter().chain(&below).cloned().collect();
            // State is not part of a change.
            if !schema_of(&whole).is_some_and(|schema| schema.is_config()) {
                continue;
            }
            for mut hidden in self.parents(steps, above) {
                hidden.push(last.clone());
                let may = |operation| self.rights.may(operation, &hidden);
                let path = data_path(&hidden);
                let is_named = || {
                    body.is_some_and(|body| {
                        body.reference().is_some()
                            && stoa_yang::collect_errors(|| body.find_path(&path)).0.is_ok()
                    })
                };
                if !may(Operation::Read) && !may(Operation::Delete) && !is_named() {
                    return Err(Fault::forbidden(target).into());
                }
            }
        }
        Ok(())
    }

    /// The nodes of these names below a node, whatever their keys are.
    fn parents(&self, steps: &[Step], names: &[Step]) -> Vec<Vec<Step>> {
        if steps.is_empty() && names.is_empty() {
            return vec![Vec::new()];
        }
        let start = if steps.is_empty() { String::new() } else { data_path(steps) };
        let names: String =
            names.iter().map(|step| format!("/{}:{}", step.module, step.name)).collect();
        let (found, _) =
            stoa_yang::collect_errors(|| self.before().find_xpath(&format!("{start}{names}")));
        found.into_iter().flatten().map(|node| steps_to(&node)).collect()
    }
}

fn parsed(body: &str) -> Result<DataTree<'static>, Faults> {
    Ok(stoa_yang::data::parse(body).map_err(stoa_controller::datastore::Refusal::from)?)
}

#[cfg(test)]
mod tests;
