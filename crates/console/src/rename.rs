//! `rename`: gives a list entry another key, and changes all that refers to the entry by its old one.
//!
//! References are the leaves whose type is a leafref to the key, the paths that name the entry (`instance-identifier`
//! and those of access rules), and what is written about the entry in the module `stoa-annotations`. A reference may
//! be the key of another list, whose entry is renamed then in the same way.

use stoa_api::v1::configuration_edit::Edit;
use stoa_api::v1::{MoveEdit, SetEdit, Store, move_edit};
use stoa_yang::data::invalid;
use stoa_yang::references::References;
use stoa_yang::{collect_errors, order};
use yang5::data::{Data, DataNodeRef, DataTree};
use yang5::schema::{DataValueType, SchemaNode, SchemaNodeKind};

use crate::line::{joined, split, statements};
use crate::notes::{ANNOTATIONS, entry};
use crate::paths::moved;
use crate::session::{Failure, Session, Which, sets};
use crate::whole::{EntryCopy, exists, find, missing};
use crate::words::{self, Target, of_path, quoted};
pub use report::report;

/// The type of the path of an access rule (RFC 8341), which is an instance identifier.
const RULE_PATH: &str = "node-instance-identifier";

/// The entries that are interfaces, and the drivers whose `device` is by default the name of the interface.
const INTERFACES: &str = "/ietf-interfaces:interfaces/interface[";
const LINUX_DRIVERS: [&str; 4] = ["auto", "af-packet", "af-xdp", "tap"];

/// A data path before and after.
#[derive(Clone, Debug)]
struct Move {
    from: String,
    to: String,
}

/// The edits of a `rename`, each applied to a copy of the candidate when it is added.
struct Rename {
    tree: DataTree<'static>,
    edits: Vec<Edit>,
    moves: Vec<Move>,
    /// References that were changed.
    references: usize,
}

impl Rename {
    /// The edits that rename an entry and all that refers to it.
    fn of(copy: &EntryCopy, tree: DataTree<'static>) -> Result<Rename, Failure> {
        let mut rename = Rename::empty(tree);
        let (old, new) = rename.entry(copy)?;
        rename.paths()?;
        rename.annotations()?;
        rename.positions()?;
        rename.inactive(copy, &old, &new)?;
        Ok(rename)
    }

    fn empty(tree: DataTree<'static>) -> Rename {
        Rename { tree, edits: Vec::new(), moves: Vec::new(), references: 0 }
    }

    fn add(&mut self, edit: Edit) -> Result<(), Failure> {
        let tree = &mut self.tree;
        let refused =
            |errors| Failure::Refused("not renamed; the candidate is as before".into(), errors);
        if let Edit::Move(MoveEdit { path, point, .. }) = &edit {
            order::move_entry(tree, path, &order::Place::Before(point.clone())).map_err(refused)?;
        }
        let (done, errors) = collect_errors(|| match &edit {
            Edit::Set(SetEdit { path, .. }) if path.ends_with(']') && find(tree, path) => Ok(()),
            Edit::Set(SetEdit { path, value }) => {
                tree.new_path(path, value.as_deref(), false).map(drop)
            }
            Edit::Delete(path) => tree.remove(path),
            Edit::Merge(_) | Edit::Replace(_) | Edit::Move(_) => Ok(()),
        });
        done.map_err(|error| refused(invalid(&error, &errors)))?;
        self.edits.push(edit);
        Ok(())
    }

    fn add_all(&mut self, edits: impl IntoIterator<Item = Edit>) -> Result<(), Failure> {
        edits.into_iter().try_for_each(|edit| self.add(edit))
    }

    /// Renames an entry and the leafrefs to it. Returns its keys before and after.
    fn entry(&mut self, copy: &EntryCopy) -> Result<(Vec<String>, Vec<String>), Failure> {
        let edits = copy.edits(&self.tree)?;
        let old = self.place(&copy.from)?;
        self.add_all(edits)?;
        let new = self.place(&copy.to)?;
        self.take_place(&new.path, &old.path)?;
        self.add(Edit::Delete(old.path.clone()))?;
        self.keep_device(&old, &new)?;
        self.moves.push(Move { from: old.path, to: new.path });
        self.leafrefs(&copy.from, &old.keys, &new.keys)?;
        Ok((old.keys, new.keys))
    }

    /// Names the device of an interface that had it by the name of the interface: the device keeps its name in Linux.
    fn keep_device(&mut self, old: &Place, new: &Place) -> Result<(), Failure> {
        if !new.path.starts_with(INTERFACES) {
            return Ok(());
        }
        for driver in LINUX_DRIVERS {
            let driver = format!("{}/stoa-interfaces:port/{driver}", new.path);
            let path = format!("{driver}/device");
            if find(&self.tree, &driver) && !find(&self.tree, &path) {
                self.add(Edit::Set(SetEdit { path, value: old.keys.first().cloned() }))?;
            }
        }
        Ok(())
    }

    fn place(&self, target: &Target<'static>) -> Result<Place, Failure> {
        let node = self.tree.find_path(&target.path).map_err(|_| missing(&target.words))?;
        let keys = node.list_keys().filter_map(|key| key.value_canonical()).collect();
        Ok(Place { path: node.path(), keys })
    }

    /// Moves a new entry of a list that has an order of its own to the one whose place it takes.
    fn take_place(&mut self, new: &str, old: &str) -> Result<(), Failure> {
        let node = self.tree.find_path(old).ok();
        if !node.is_some_and(|node| node.schema().is_user_ordered()) {
            return Ok(());
        }
        let (path, point) = (new.to_owned(), old.to_owned());
        self.add(Edit::Move(MoveEdit { path, place: move_edit::Place::Before.into(), point }))
    }

    /// Changes the leafrefs to the keys of an entry that have another value now.
    fn leafrefs(
        &mut self,
        from: &Target<'static>,
        old: &[String],
        new: &[String],
    ) -> Result<(), Failure> {
        let Some(list) = &from.node else { return Ok(()) };
        for ((key, old), new) in
            list.list_keys().zip(old).zip(new).filter(|((_, old), new)| old != new)
        {
            let references = References::to(&key);
            if references.is_empty() {
                continue;
            }
            let (found, other) = self.referring(&key, &references, old);
            if let (Some(first), Some(other)) = (found.first(), other) {
                let [first, other] = [first, &other].map(|path| joined(&of_path(path)));
                let from = joined(&from.words);
                return Err(Failure::Words(format!(
                    "`{from}` cannot be renamed: `{first}` names \"{old}\", which may be this entry or that of \
                     `{other}`: delete or change `{first}` first"
                )));
            }
            let before = self.moves.len();
            for path in found {
                // An entry above it may have been renamed since.
                let path = self.moves[before..].iter().fold(path, |path, made| made.apply(path));
                self.refer(&path, new)?;
            }
        }
        Ok(())
    }

    /// The paths of the references with a value, and another entry that has it as its key.
    fn referring(
        &self,
        key: &SchemaNode<'_>,
        references: &References,
        value: &str,
    ) -> (Vec<String>, Option<String>) {
        let (mut found, mut other) = (Vec::new(), None);
        for node in self.tree.traverse() {
            let (is_key, refers) = (node.schema() == *key, references.contains(&node.schema()));
            if !(is_key || refers) || node.is_default() {
                continue;
            }
            if node.value_canonical().as_deref() != Some(value) {
                continue;
            }
            if is_key {
                other = Some(node.path());
            }
            if refers {
                found.push(node.path());
            }
        }
        (found, other)
    }

    /// Changes the value of a leaf, of an entry of a leaf-list, or of a key.
    fn refer(&mut self, path: &str, value: &str) -> Result<(), Failure> {
        let node = self.tree.find_path(path).map_err(|_| missing(&of_path(path)))?;
        self.references += 1;
        let schema = node.schema();
        if schema.is_list_key() {
            let key = schema.name().to_owned();
            let above = node.ancestors().next().map(|above| above.path()).unwrap_or_default();
            let copy = with_key(&above, &key, value)?;
            return self.entry(&copy).map(drop);
        }
        if schema.kind() != SchemaNodeKind::LeafList {
            return self.add(Edit::Set(SetEdit { path: path.into(), value: Some(value.into()) }));
        }
        let list = path.rfind("[.=").map_or(path, |at| &path[..at]);
        let to = format!("{list}[.={}]", quoted(value)?);
        self.add(Edit::Set(SetEdit { path: to.clone(), value: None }))?;
        self.take_place(&to, path)?;
        self.add(Edit::Delete(path.into()))?;
        self.moves.push(Move { from: path.into(), to });
        Ok(())
    }

    /// Changes the paths that name a renamed entry, or a node of it.
    fn paths(&mut self) -> Result<(), Failure> {
        let mut changed = Vec::new();
        for node in self.tree.traverse().filter(is_path) {
            let Some(old) = node.value_canonical() else { continue };
            let step =
                |path: String, made: &Move| moved(&path, &made.from, &made.to).unwrap_or(path);
            let new = self.moves.iter().fold(old.clone(), step);
            if new != old {
                changed.push((node.path(), new));
            }
        }
        changed.into_iter().try_for_each(|(path, new)| self.refer(&path, &new))
    }

    /// Moves what is written about a renamed entry, and about nodes of it.
    fn annotations(&mut self) -> Result<(), Failure> {
        for (node, text) in self.notes(ANNOTATIONS, "text") {
            let Some(new) = renamed(&self.moves, &node) else { continue };
            self.check_free(ANNOTATIONS, &new)?;
            self.add(Edit::Delete(words::to_delete(&entry(ANNOTATIONS, &node, &[]))?))?;
            self.add_all(sets(&entry(ANNOTATIONS, &new, &["text", &text]))?)?;
        }
        Ok(())
    }

    /// Refuses if something is written about the node of the new name already.
    fn check_free(&self, list: [&str; 2], node: &str) -> Result<(), Failure> {
        let words = entry(list, node, &[]);
        match find(&self.tree, &words::to_delete(&words)?) {
            true => Err(exists(&words)),
            false => Ok(()),
        }
    }

    /// The entries of one of the lists of `stoa-annotations`: each node, and the value of the leaf.
    fn notes(&self, list: [&str; 2], leaf: &str) -> Vec<(String, String)> {
        let path = format!("/stoa-annotations:{}/{}", list[0], list[1]);
        let value = |entry: &DataNodeRef<'_>, name: &str| {
            entry.children().find(|child| child.schema().name() == name)?.value_canonical()
        };
        if self.tree.reference().is_none() {
            return Vec::new();
        }
        let entries = self.tree.find_xpath(&path).into_iter().flatten();
        entries.filter_map(|entry| value(&entry, "node").zip(value(&entry, leaf))).collect()
    }
}

/// The path of an entry, and its keys.
struct Place {
    path: String,
    keys: Vec<String>,
}

impl Move {
    /// The path, changed if it is that of the node or of one below.
    fn apply(&self, path: String) -> String {
        match path.strip_prefix(&self.from) {
            Some(rest) if rest.is_empty() || rest.starts_with(['/', '[']) => {
                format!("{}{rest}", self.to)
            }
            _ => path,
        }
    }
}

/// The same entry with another value of one key.
fn with_key(path: &str, key: &str, value: &str) -> Result<EntryCopy, Failure> {
    let words = of_path(path);
    let from = words::parse(&words)?;
    let names: Vec<String> = from
        .node
        .as_ref()
        .map_or(Vec::new(), |list| list.list_keys().map(|key| key.name().to_owned()).collect());
    let at = names.iter().position(|name| name == key).ok_or_else(|| missing(&words))?;
    let mut new = words.clone();
    let at = words.len() - names.len() + at;
    new[at] = value.to_owned();
    Ok(EntryCopy { from, to: words::parse(&new)? })
}

/// The name of a node in the lists of `stoa-annotations` after the moves; `None`: as before.
fn renamed(moves: &[Move], node: &str) -> Option<String> {
    let old = split(node).ok()?;
    let new = moves.iter().fold(old.clone(), |words, made| {
        let (from, to) = (of_path(&made.from), of_path(&made.to));
        words.strip_prefix(from.as_slice()).map(|rest| [&to, rest].concat()).unwrap_or(words)
    });
    (new != old).then(|| joined(&new))
}

/// Whether the value of a node is the path of a node.
fn is_path(node: &DataNodeRef<'_>) -> bool {
    node.schema().leaf_type().is_some_and(|it| match it.base_type() {
        DataValueType::InstanceId => true,
        DataValueType::String => it.typedef_name().as_deref() == Some(RULE_PATH),
        _ => false,
    })
}

/// The edits of `set` lines.
fn line_edits(lines: &str) -> Result<Vec<Edit>, Failure> {
    let mut edits = Vec::new();
    for (_, line) in statements(lines) {
        let words = split(line).unwrap_or_default();
        match words.split_first() {
            Some((first, rest)) if first == "set" => edits.extend(sets(rest)?),
            _ => return Err(Failure::Words(format!("`{line}` does not begin with `set`"))),
        }
    }
    Ok(edits)
}

/// The edits of `rename ENTRY to KEY` in a candidate, and the number of references that they change.
///
/// # Errors
/// As [`Session::rename`].
pub fn edits(
    words: &[String],
    candidate: DataTree<'static>,
) -> Result<(Vec<Edit>, usize), Failure> {
    let rename = Rename::of(&EntryCopy::of(words)?, candidate)?;
    Ok((rename.edits, rename.references))
}

impl Session {
    /// `rename ENTRY to KEY`: gives a list entry another key, also where other nodes refer to it. Returns the number of
    /// references that were changed.
    ///
    /// # Errors
    /// When the entry does not exist, the new one exists, a reference may be to another entry, or the words are wrong.
    pub async fn rename(&mut self, words: &[String]) -> Result<usize, Failure> {
        let tree = self.tree(Which::Store(Store::Candidate)).await?;
        let (edits, references) = edits(words, tree)?;
        self.edit(edits).await?;
        Ok(references)
    }
}

mod inactive;
mod report;
#[cfg(test)]
mod tests;
