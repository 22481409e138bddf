//! Changes: POST, PUT, PATCH and DELETE as edits of a datastore, within the rights of the client.

use http::{Method, StatusCode};
use serde_json::Value;
use stoa_controller::datastore::{Author, Commit, Datastore, Edit, Refusal, Store};
use stoa_controller::warning::Warning;
use yang5::data::{Data, DataFormat, DataPrinterFlags};
use yang5::schema::SchemaNodeKind;

use super::body;
use super::fault::{Fault, Faults};
use super::media::Media;
use super::path::{self, Resource, Step, inside, inside_mut};
use super::query::Insert;

/// A requested change.
#[derive(Debug)]
pub struct Change<'a> {
    /// The method.
    pub method: &'a Method,
    /// The target.
    pub resource: Resource,
    /// The encoding and the text of the body; `None` for DELETE.
    pub given: Option<(Media, &'a [u8])>,
    /// The position of a new entry.
    pub insert: Option<Insert>,
}

/// A change as the client asks for it.
#[derive(Debug)]
pub struct AskedEdit {
    /// The edit.
    pub edit: Edit,
    /// The node that it is about.
    pub target: Resource,
}

/// The edits of a change.
#[derive(Debug)]
pub struct PlannedEdits {
    /// The edits.
    pub edits: Vec<Edit>,
    /// The created resource, if any.
    pub created: Option<Resource>,
    /// Whether the edits are valid only while the datastore is unchanged.
    pub is_bound: bool,
}

fn is_there(datastore: &Datastore, store: Store, path: &str) -> bool {
    let snapshot = datastore.tree(store);
    let tree = &snapshot.tree;
    tree.reference().is_some()
        && stoa_yang::collect_errors(|| tree.find_path(path)).0.is_ok_and(|it| !it.is_default())
}

impl Change<'_> {
    /// What the client asks for, without a look at the data.
    ///
    /// # Errors
    /// When the body is invalid or for another resource, or the method is not allowed.
    pub fn asked(&self) -> Result<AskedEdit, Faults> {
        if !self.resource.is_config() {
            let words = "this is state data, which cannot be configured";
            return Err(Fault::unsupported(words).at(self.resource.data_path()).into());
        }
        let (path, target) = (self.resource.data_path(), self.resource.clone());
        let edit = match (self.method.as_str(), self.resource.is_root()) {
            ("DELETE", true) => {
                let words = "a datastore cannot be deleted: PUT an empty one";
                return Err(Fault::unsupported(words).into());
            }
            ("DELETE", false) => Edit::Delete { path },
            ("PUT", true) => Edit::Replace { path: "/".to_owned(), body: self.whole()? },
            ("PATCH", true) => Edit::Merge { body: self.whole()? },
            ("POST", _) => return self.posted(),
            ("PUT", false) => Edit::Replace { path, body: self.same()? },
            ("PATCH", false) => Edit::Merge { body: self.same()? },
            _ => return Err(Fault::unsupported("this method is not allowed for data").into()),
        };
        Ok(AskedEdit { edit, target })
    }

    /// Requires that the nodes that the change needs exist. Clients with all rights learn this first.
    ///
    /// # Errors
    /// The node that is missing.
    pub fn has_place(&self, datastore: &Datastore, store: Store) -> Result<(), Faults> {
        let resource = &self.resource;
        let is_leaf =
            matches!(resource.kind(), Some(SchemaNodeKind::Leaf | SchemaNodeKind::LeafList));
        match (self.method.as_str(), resource.is_root()) {
            _ if !resource.is_config() => Ok(()),
            ("POST", _) if !is_leaf => can_hold(datastore, store, resource),
            ("PUT", false) => can_hold(datastore, store, &resource.parent()),
            ("PATCH", false) => stands(datastore, store, resource),
            _ => Ok(()),
        }
    }

    /// The edits of the change.
    ///
    /// # Errors
    /// When nodes above the target do not exist, or the position of a new entry is wrong.
    pub fn plan(
        &self,
        asked: AskedEdit,
        datastore: &Datastore,
        store: Store,
    ) -> Result<PlannedEdits, Faults> {
        self.has_place(datastore, store)?;
        let AskedEdit { edit, target } = asked;
        let mut created = None;
        match (self.method.as_str(), self.resource.is_root()) {
            ("POST", _) => created = Some(target.clone()),
            ("PUT", false) => {
                let is_new = !is_there(datastore, store, &target.data_path());
                created = is_new.then(|| target.clone());
            }
            _ => {}
        }
        let plan = match (&self.insert, &edit) {
            (Some(insert), Edit::Create { path, body }) => {
                if is_there(datastore, store, path) {
                    return Err(Refusal::Exists(path.clone()).into());
                }
                self.inserted(datastore, store, insert, &target, body)?
            }
            (Some(insert), Edit::Replace { body, .. }) if !target.is_root() => {
                self.inserted(datastore, store, insert, &target, body)?
            }
            _ => PlannedEdits { edits: vec![edit], created: None, is_bound: false },
        };
        Ok(PlannedEdits { created, ..plan })
    }

    fn bytes(&self) -> Result<(Media, &[u8]), Fault> {
        self.given.ok_or_else(|| Fault::malformed("the body is missing: send the node"))
    }

    fn whole(&self) -> Result<String, Faults> {
        let (media, bytes) = self.bytes()?;
        Ok(body::whole(media, bytes)?.text()?)
    }

    /// The body, which must contain the node of the URL.
    fn same(&self) -> Result<String, Faults> {
        let (media, bytes) = self.bytes()?;
        let parent = self.resource.parent();
        let given = body::below(&parent, media, bytes)?;
        let found = given.step.as_ref();
        let expected = self.resource.steps.last();
        let is_same = match (found, expected) {
            (Some(found), Some(expected)) => is_same(found, expected, &self.resource),
            _ => false,
        };
        if !is_same {
            let words = "the body must be the node of the URL, with the same keys";
            return Err(Fault::value(words).at(self.resource.data_path()).into());
        }
        Ok(given.text()?)
    }

    fn posted(&self) -> Result<AskedEdit, Faults> {
        let (media, bytes) = self.bytes()?;
        if matches!(self.resource.kind(), Some(SchemaNodeKind::Leaf | SchemaNodeKind::LeafList)) {
            return Err(Fault::unsupported("a leaf has no nodes below it: use PUT").into());
        }
        let given = body::below(&self.resource, media, bytes)?;
        let step = given.step.as_ref().ok_or_else(|| Fault::malformed("the body is empty"))?;
        let target = body::place_of(&self.resource, step)?;
        let edit = Edit::Create { path: target.data_path(), body: given.text()? };
        Ok(AskedEdit { edit, target })
    }

    /// Inserts an entry at its position in the list: replaces the parent, with the entry in it.
    fn inserted(
        &self,
        datastore: &Datastore,
        store: Store,
        insert: &Insert,
        target: &Resource,
        body: &str,
    ) -> Result<PlannedEdits, Faults> {
        let is_ordered = target.node.as_ref().is_some_and(|node| node.is_user_ordered());
        if !is_ordered {
            let words = "insert is only for lists that are ordered-by user";
            return Err(Fault::value(words).at(target.data_path()).into());
        }
        let parent = target.parent();
        if parent.is_root() {
            return Err(Fault::unsupported("insert is not supported for top-level lists").into());
        }
        let entries = Entries::read(datastore, store, &parent, target, body)?;
        let body = entries.with(insert)?;
        let edits = vec![Edit::Replace { path: parent.data_path(), body }];
        Ok(PlannedEdits { edits, created: Some(target.clone()), is_bound: true })
    }
}

/// The entries of one list, in a JSON tree from the root on.
struct Entries {
    whole: Value,
    way: Vec<Step>,
    name: String,
    target: Step,
    entry: Value,
    keys: Vec<String>,
}

impl Entries {
    fn read(
        datastore: &Datastore,
        store: Store,
        parent: &Resource,
        target: &Resource,
        body: &str,
    ) -> Result<Entries, Faults> {
        let snapshot = datastore.tree(store);
        let path = parent.data_path();
        let (found, _) = stoa_yang::collect_errors(|| snapshot.tree.find_path(&path));
        let flags = DataPrinterFlags::WITH_SIBLINGS | DataPrinterFlags::KEEP_EMPTY_CONT;
        let broken = || Fault::broken("a list cannot be printed");
        let text = match found {
            Ok(node) => {
                let copy = node.duplicate(true).map_err(|_| broken())?;
                copy.print_string(DataFormat::JSON, flags).map_err(|_| broken())?
            }
            // The list does not exist yet: the body has the path to it.
            Err(_) => body.to_owned(),
        };
        let whole: Value = serde_json::from_str(&text).map_err(|_| broken())?;
        let given: Value = serde_json::from_str(body).map_err(|_| broken())?;
        let step = target.steps.last().cloned().ok_or_else(broken)?;
        let above = parent.steps.last().map(|step| step.module.clone()).unwrap_or_default();
        let name = match step.module == above {
            true => step.name.clone(),
            false => format!("{}:{}", step.module, step.name),
        };
        let entry = inside(&given, &parent.steps).and_then(|here| here.get(&name)?.get(0));
        let entry = entry.cloned().ok_or_else(broken)?;
        let keys = step.keys.iter().map(|(name, _)| name.clone()).collect();
        Ok(Entries { whole, way: parent.steps.clone(), name, target: step, entry, keys })
    }

    /// The tree with the entry at its position.
    fn with(mut self, insert: &Insert) -> Result<String, Faults> {
        let point = match insert {
            Insert::Before(point) | Insert::After(point) => {
                let raw = point.strip_prefix('/').unwrap_or(point);
                Some(path::parse(raw)?.steps)
            }
            _ => None,
        };
        let there = inside(&self.whole, &self.way).and_then(|here| here.get(&self.name));
        let mut list = there.and_then(Value::as_array).cloned().unwrap_or_default();
        list.retain(|one| !is_entry_of(one, &self.target, &self.keys));
        let at = match (insert, point) {
            (Insert::First, _) => 0,
            (Insert::Last, _) => list.len(),
            (_, Some(steps)) => {
                let last = steps.last().filter(|_| steps[..steps.len() - 1] == self.way[..]);
                let found = last.and_then(|step| {
                    list.iter().position(|one| is_entry_of(one, step, &self.keys))
                });
                let found = found
                    .ok_or_else(|| Fault::value("point must be another entry of the same list"))?;
                found + usize::from(matches!(insert, Insert::After(_)))
            }
            _ => list.len(),
        };
        list.insert(at, self.entry.clone());
        let here = inside_mut(&mut self.whole, &self.way);
        let here = here.ok_or_else(|| Fault::broken("the path to a list is lost"))?;
        here.insert(self.name.clone(), Value::Array(list));
        Ok(self.whole.to_string())
    }
}

/// A value as the text of a key.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn is_entry_of(entry: &Value, step: &Step, keys: &[String]) -> bool {
    let named = |name: &String| step.keys.iter().find(|(key, _)| key == name).map(|(_, it)| it);
    keys.iter().all(|name| {
        let value = if name == "." { Some(entry) } else { entry.get(name) };
        value.map(plain).as_ref() == named(name)
    })
}

/// Requires that the resource exists. A non-presence container exists with its parent.
fn stands(datastore: &Datastore, store: Store, resource: &Resource) -> Result<(), Faults> {
    above(datastore, store, resource.clone(), Resource::comes_by_itself)
}

/// Requires that the entries above exist: a PUT creates containers above its target, but not entries.
fn can_hold(datastore: &Datastore, store: Store, resource: &Resource) -> Result<(), Faults> {
    let is_container = |resource: &Resource| resource.kind() == Some(SchemaNodeKind::Container);
    above(datastore, store, resource.clone(), is_container)
}

fn above(
    datastore: &Datastore,
    store: Store,
    mut resource: Resource,
    is_skipped: impl Fn(&Resource) -> bool,
) -> Result<(), Faults> {
    while is_skipped(&resource) {
        resource = resource.parent();
    }
    match resource.is_root() || is_there(datastore, store, &resource.data_path()) {
        true => Ok(()),
        false => Err(missing(&resource)),
    }
}

fn missing(resource: &Resource) -> Faults {
    Refusal::Missing(resource.data_path()).into()
}

/// Whether the node of the body is the node of the URL. Values can have several forms, so both are compared in the
/// canonical form of libyang.
fn is_same(found: &Step, expected: &Step, resource: &Resource) -> bool {
    if (&found.module, &found.name) != (&expected.module, &expected.name) {
        return false;
    }
    if found.keys == expected.keys {
        return true;
    }
    let mut tree = yang5::data::DataTree::new(stoa_yang::schema().context());
    let path = resource.data_path();
    let (plan, _) = stoa_yang::collect_errors(|| {
        tree.new_path(&path, None, false).map(|node| node.map(|node| super::read::step(&node)))
    });
    plan.ok().flatten().is_some_and(|step| step.keys == found.keys)
}

/// Applies the edits. Returns the created resource, the status and the warnings of the commit.
///
/// # Errors
/// Why they cannot be applied.
pub async fn make(
    datastore: &Datastore,
    author: &Author,
    store: Store,
    plan: PlannedEdits,
    if_match: Option<u64>,
) -> Result<(Option<Resource>, StatusCode, Vec<Warning>), Refusal> {
    let commit = Commit::default();
    let edited = datastore.edit_with_warnings(author, store, plan.edits, if_match, commit).await;
    let (_, warnings) = edited?;
    let status = if plan.created.is_some() { StatusCode::CREATED } else { StatusCode::NO_CONTENT };
    Ok((plan.created, status, warnings))
}
