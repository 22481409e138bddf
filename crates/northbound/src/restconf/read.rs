//! Reads of a subtree, without the nodes that were not requested or may not be read.

use yang5::data::{Data, DataFormat, DataNodeRef, DataPrinterFlags, DataTree};
use yang5::schema::SchemaNodeKind;

use super::fault::{Fault, NAMESPACE};
use super::media::Media;
use super::path::{Resource, Step};
use super::query::{Content, Field, Query};
use crate::nacm::{self, Operation, Rights};

/// A read request.
#[derive(Debug)]
pub struct ReadRequest<'a> {
    /// The target.
    pub resource: &'a Resource,
    /// Its query parameters.
    pub query: &'a Query,
    /// The rights of the client.
    pub rights: &'a Rights<'a>,
    /// The encoding.
    pub media: Media,
}

fn broken(error: &yang5::Error) -> Fault {
    Fault::broken(format!("an internal error of the YANG library (code {})", error.errcode))
}

impl ReadRequest<'_> {
    /// The text of the response; `None`: the resource does not exist, or may not be read.
    ///
    /// # Errors
    /// When libyang fails.
    pub fn read(&self, tree: &DataTree<'static>) -> Result<Option<String>, Fault> {
        if self.resource.is_root() {
            return self.whole(tree).map(Some);
        }
        let steps = &self.resource.steps;
        if tree.reference().is_none() || !self.is_seen(steps) {
            return Ok(None);
        }
        let path = self.resource.data_path();
        let (found, _) = stoa_yang::collect_errors(|| tree.find_path(&path));
        let Ok(node) = found else { return Ok(None) };
        if self.is_all_shown() {
            return self.print(&node, DataPrinterFlags::empty()).map(Some);
        }
        let copy = node.duplicate(false).map_err(|error| broken(&error))?;
        let Some(top) = copy.reference() else { return Ok(None) };
        self.prune(&top, &mut steps.clone());
        self.print(&top, DataPrinterFlags::empty()).map(Some)
    }

    /// Whether nothing has to be removed.
    fn is_all_shown(&self) -> bool {
        let has_secrets = nacm::may_hold_secret(&self.resource.steps);
        self.query.is_whole()
            && self.query.content == Content::All
            && self.rights.is_whole()
            && !has_secrets
    }

    fn is_seen(&self, steps: &[Step]) -> bool {
        self.rights.may(Operation::Read, steps) || self.rights.has_rules_below(steps)
    }

    fn whole(&self, tree: &DataTree<'static>) -> Result<String, Fault> {
        let mut copy = tree.duplicate().map_err(|error| broken(&error))?;
        // Collect the top nodes first: removing the first one changes the start of the tree.
        let mut gone = Vec::new();
        for top in copy.reference().iter().flat_map(DataNodeRef::inclusive_siblings) {
            let step = step(&top);
            let fields = self.query.fields.as_deref();
            let is_selected = fields.is_none_or(|all| selected(all, &step).is_some())
                && self.query.depth != Some(1)
                && fits(&top, self.query.content);
            let path = format!("/{}:{}", step.module, step.name);
            if !is_selected || !self.is_seen(std::slice::from_ref(&step)) {
                gone.push(path);
            }
        }
        for path in gone {
            copy.remove(&path).map_err(|error| broken(&error))?;
        }
        for top in copy.reference().iter().flat_map(DataNodeRef::inclusive_siblings) {
            let step = step(&top);
            let fields = self.query.fields.as_deref().and_then(|all| selected(all, &step));
            let mut steps = vec![step];
            let depth = self.query.depth.map(|depth| depth - 1);
            self.prune_below(&top, &mut steps, depth, below(fields));
        }
        let data = match copy.reference() {
            Some(first) => self.print(&first, DataPrinterFlags::WITH_SIBLINGS)?,
            None => String::new(),
        };
        Ok(wrapped(&data, self.media))
    }

    fn prune(&self, top: &DataNodeRef<'_>, steps: &mut Vec<Step>) {
        self.prune_below(top, steps, self.query.depth, self.query.fields.as_deref());
    }

    /// Removes the hidden nodes below a node; `depth` counts the node itself.
    fn prune_below(
        &self,
        node: &DataNodeRef<'_>,
        steps: &mut Vec<Step>,
        depth: Option<u32>,
        fields: Option<&[Field]>,
    ) {
        let mut gone = Vec::new();
        for child in node.children() {
            // An entry keeps its keys.
            let is_key = child.schema().is_list_key();
            let step = step(&child);
            let field = fields.and_then(|all| selected(all, &step));
            let is_selected = is_key
                || depth != Some(1)
                    && (fields.is_none() || field.is_some())
                    && fits(&child, self.query.content);
            if !is_selected {
                gone.push(child);
                continue;
            }
            steps.push(step);
            if is_key || self.is_seen(steps) {
                let depth = depth.map(|depth| depth.saturating_sub(1));
                self.prune_below(&child, steps, depth, below(field));
            } else {
                gone.push(child);
            }
            steps.pop();
        }
        for mut child in gone {
            child.remove();
        }
    }

    fn print(&self, node: &DataNodeRef<'_>, flags: DataPrinterFlags) -> Result<String, Fault> {
        let format = match self.media {
            Media::Json => DataFormat::JSON,
            Media::Xml => DataFormat::XML,
        };
        let is_list = flags.contains(DataPrinterFlags::WITH_SIBLINGS);
        let bits = flags.bits() | self.query.defaults.flags().bits();
        let print = |more: DataPrinterFlags| {
            let flags = DataPrinterFlags::from_bits_retain(bits) | more;
            node.print_string(format, flags).map_err(|error| broken(&error))
        };
        // Nodes that were cut off by depth are shown without content.
        if self.query.depth.is_some() {
            return print(DataPrinterFlags::KEEP_EMPTY_CONT);
        }
        let text = print(DataPrinterFlags::empty())?;
        // libyang prints a line break between the braces.
        let is_empty = text.chars().all(|letter| letter.is_whitespace() || "{}".contains(letter));
        if is_list || !is_empty {
            return Ok(text);
        }
        // An empty container, or one without readable nodes.
        print(DataPrinterFlags::KEEP_EMPTY_CONT)
    }
}

/// All data as the datastore resource.
fn wrapped(data: &str, media: Media) -> String {
    match media {
        Media::Json => {
            let data = if data.trim().is_empty() { "{}" } else { data.trim() };
            format!("{{\"ietf-restconf:data\": {data}}}\n")
        }
        Media::Xml => format!("<data xmlns=\"{NAMESPACE}\">{data}</data>\n"),
    }
}

/// A node as a step of its path.
pub fn step(node: &DataNodeRef<'_>) -> Step {
    let schema = node.schema();
    let value = |node: &DataNodeRef<'_>| node.value_canonical().unwrap_or_default();
    let keys = match schema.kind() {
        SchemaNodeKind::List => {
            node.list_keys().map(|key| (key.schema().name().to_owned(), value(&key))).collect()
        }
        SchemaNodeKind::LeafList => vec![(".".to_owned(), value(node))],
        _ => Vec::new(),
    };
    Step { module: schema.module().name().to_owned(), name: schema.name().to_owned(), keys }
}

/// The steps from the root to a node.
pub fn steps_to(node: &DataNodeRef<'_>) -> Vec<Step> {
    let mut steps: Vec<Step> = node.inclusive_ancestors().map(|one| step(&one)).collect();
    steps.reverse();
    steps
}

fn selected<'a>(fields: &'a [Field], step: &Step) -> Option<&'a Field> {
    fields.iter().find(|field| {
        let is_module = field.module.as_ref().is_none_or(|module| *module == step.module);
        is_module && field.name == step.name
    })
}

/// The selection below a field; `None`: all.
fn below(field: Option<&Field>) -> Option<&[Field]> {
    field.map(|field| field.below.as_slice()).filter(|below| !below.is_empty())
}

/// Whether the node has the requested content. Configuration may have state below it.
fn fits(node: &DataNodeRef<'_>, content: Content) -> bool {
    match content {
        Content::All => true,
        Content::Config => node.schema().is_config(),
        Content::Nonconfig => {
            node.schema().is_state() || node.traverse().any(|below| below.schema().is_state())
        }
    }
}
