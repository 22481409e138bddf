//! Request bodies: parsed below the nodes that the URL names, and checked to contain nothing else.

use http::StatusCode;
use serde_json::{Map, Value};
use yang5::data::{Data, DataFormat, DataNodeRef, DataPrinterFlags, DataTree};
use yang5::schema::SchemaNodeKind;

use super::fault::{Fault, Faults, NAMESPACE, of_errors};
use super::keys;
use super::media::{Media, escape};
use super::path::{Resource, Step, child, inside_mut};
use super::read::step;

/// A parsed body.
#[derive(Debug)]
pub struct RequestBody {
    /// The data from the root on.
    pub tree: DataTree<'static>,
    /// The node in the body; `None` for the whole datastore.
    pub step: Option<Step>,
}

impl RequestBody {
    /// The data in RFC 7951 encoding from the root on.
    ///
    /// # Errors
    /// When libyang cannot print it.
    pub fn text(&self) -> Result<String, Fault> {
        let flags = DataPrinterFlags::WITH_SIBLINGS
            | DataPrinterFlags::WD_EXPLICIT
            | DataPrinterFlags::SHRINK;
        let text = self.tree.print_string(DataFormat::JSON, flags);
        let text = text.map_err(|_| Fault::broken("the body cannot be printed"))?;
        Ok(if text.trim().is_empty() { "{}".to_owned() } else { text })
    }
}

/// Reads a body that contains one node below `parent`.
///
/// # Errors
/// When it cannot be parsed, does not match the schema, or contains something else.
pub fn below(parent: &Resource, media: Media, bytes: &[u8]) -> Result<RequestBody, Faults> {
    let text = text(bytes)?;
    let wrapped = match media {
        Media::Json => json(parent, members(text)?)?,
        Media::Xml => xml(parent, text),
    };
    let tree = parse(&wrapped, media)?;
    let step = Some(only(&tree, &parent.steps)?);
    Ok(RequestBody { tree, step })
}

/// Reads a body that contains the whole datastore.
///
/// # Errors
/// As [`below`].
pub fn whole(media: Media, bytes: &[u8]) -> Result<RequestBody, Faults> {
    let text = text(bytes)?;
    let data = match media {
        Media::Json => {
            let mut members = members(text)?;
            let data = members.remove("ietf-restconf:data").filter(|_| members.is_empty());
            let data = data.filter(Value::is_object);
            let data = data.ok_or_else(|| {
                Fault::malformed("the body must be {\"ietf-restconf:data\": {...}}")
            });
            data?.to_string()
        }
        Media::Xml => inner(text, "data", NAMESPACE)?,
    };
    Ok(RequestBody { tree: parse(&data, media)?, step: None })
}

fn text(bytes: &[u8]) -> Result<&str, Fault> {
    let text = std::str::from_utf8(bytes).map_err(|_| Fault::malformed("the body is not UTF-8"))?;
    if text.contains('\0') || text.contains("\\u0000") {
        return Err(Fault::malformed("the body contains a NUL character: remove it"));
    }
    if text.trim().is_empty() {
        return Err(Fault::malformed("the body is empty"));
    }
    Ok(text)
}

/// The members of a body that is a JSON object.
///
/// # Errors
/// When it is not an object.
pub fn members(text: &str) -> Result<Map<String, Value>, Fault> {
    serde_json::from_str(text)
        .map_err(|error| Fault::malformed(format!("the body is not a JSON object: {error}")))
}

/// Parses data from the root on, without validation of the whole.
///
/// # Errors
/// Every error of libyang, each with its fix; keys that a path cannot represent.
pub fn parse(text: &str, media: Media) -> Result<DataTree<'static>, Faults> {
    let format = match media {
        Media::Json => DataFormat::JSON,
        Media::Xml => DataFormat::XML,
    };
    let parsed = stoa_yang::schema().parse(text, format);
    let tree =
        parsed.map_err(|errors| of_errors(StatusCode::BAD_REQUEST, "invalid-value", errors))?;
    keys::check(&tree)?;
    Ok(tree)
}

/// The members inside the nodes above them, as JSON from the root on.
///
/// # Errors
/// When the path to `parent` is invalid, or a member is one of its keys.
pub fn json(parent: &Resource, members: Map<String, Value>) -> Result<String, Faults> {
    if parent.is_root() {
        return Ok(Value::Object(members).to_string());
    }
    // libyang creates the nodes above, so that each key has the right type.
    let mut tree = DataTree::new(stoa_yang::schema().context());
    let path = parent.data_path();
    let (made, complaints) =
        stoa_yang::collect_errors(|| tree.new_path(&path, None, false).map(|_| ()));
    if made.is_err() {
        let reason = complaints.into_iter().next().map(|one| one.message).unwrap_or_default();
        return Err(Fault::value(format!("invalid path: {reason}")).at(path).into());
    }
    let flags = DataPrinterFlags::WITH_SIBLINGS | DataPrinterFlags::KEEP_EMPTY_CONT;
    let text = tree.print_string(DataFormat::JSON, flags);
    let text = text.map_err(|_| Fault::broken("a path cannot be printed"))?;
    let mut whole: Value = serde_json::from_str(&text)
        .map_err(|error| Fault::broken(format!("the data is not JSON: {error}")))?;
    let lowest = inside_mut(&mut whole, &parent.steps);
    let lowest = lowest.ok_or_else(|| Fault::broken("the path has no node"))?;
    for (name, value) in members {
        let module = parent.steps.last().map(|step| step.module.as_str()).unwrap_or_default();
        // The same name with and without its module must not occur twice.
        let bare = name.strip_prefix(module).and_then(|rest| rest.strip_prefix(':'));
        let name = bare.map(str::to_owned).unwrap_or(name);
        if lowest.insert(name.clone(), value).is_some() {
            return Err(Fault::value(format!(
                "{name} is a key in the URL: remove it from the body"
            ))
            .into());
        }
    }
    Ok(whole.to_string())
}

/// The text inside the elements of the nodes above it.
fn xml(parent: &Resource, text: &str) -> String {
    let context = stoa_yang::schema().context();
    let namespace = |module: &str| {
        let module = context.get_module_implemented(module);
        module.map(|module| escape(module.namespace())).unwrap_or_default()
    };
    // Keys may be identities, which have prefixes of modules.
    let prefixes: String = context
        .modules(false)
        .filter(|module| module.is_implemented())
        .map(|module| format!(" xmlns:{}=\"{}\"", module.name(), escape(module.namespace())))
        .collect();
    let mut out = String::new();
    for (index, step) in parent.steps.iter().enumerate() {
        let prefixes = if index == 0 { prefixes.as_str() } else { "" };
        out.push_str(&format!("<{} xmlns=\"{}\"{prefixes}>", step.name, namespace(&step.module)));
        for (name, value) in step.keys.iter().filter(|(name, _)| name != ".") {
            out.push_str(&format!("<{name}>{}</{name}>", escape(value)));
        }
    }
    out.push_str(without_declaration(text));
    for step in parent.steps.iter().rev() {
        out.push_str(&format!("</{}>", step.name));
    }
    out
}

fn without_declaration(text: &str) -> &str {
    let text = text.trim_start_matches('\u{feff}').trim();
    let rest = text.strip_prefix("<?xml").and_then(|rest| rest.split_once("?>"));
    rest.map_or(text, |(_, rest)| rest.trim())
}

/// The content of the root element, which must have this name and namespace.
///
/// # Errors
/// When it is another element.
pub fn inner(text: &str, name: &str, namespace: &str) -> Result<String, Fault> {
    let text = without_declaration(text);
    let wrong =
        || Fault::malformed(format!("the body must be <{name} xmlns=\"{namespace}\">...</{name}>"));
    let rest = text.strip_prefix('<').and_then(|rest| rest.strip_prefix(name)).ok_or_else(wrong)?;
    let (attributes, rest) = rest.split_once('>').ok_or_else(wrong)?;
    let is_ours = attributes.contains(&format!("xmlns=\"{namespace}\""))
        || attributes.contains(&format!("xmlns='{namespace}'"));
    if !is_ours || !attributes.starts_with([' ', '\t', '\n', '\r']) {
        return Err(wrong());
    }
    if let Some(before) = attributes.strip_suffix('/') {
        let _ = before;
        return if rest.is_empty() { Ok(String::new()) } else { Err(wrong()) };
    }
    let inside = rest.strip_suffix(&format!("</{name}>")).ok_or_else(wrong)?;
    Ok(inside.to_owned())
}

/// The one node below these steps, if the tree contains nothing else.
fn only(tree: &DataTree<'static>, steps: &[Step]) -> Result<Step, Fault> {
    let other = || {
        Fault::malformed("the body must be one node below the node of the URL, and nothing else")
    };
    let mut level: Vec<DataNodeRef<'_>> =
        tree.reference().iter().flat_map(DataNodeRef::inclusive_siblings).collect();
    for expected in steps {
        let [node] = level.as_slice() else { return Err(other()) };
        let found = step(node);
        if found.module != expected.module || found.name != expected.name {
            return Err(other());
        }
        // The number of keys is the same before and after canonicalization.
        if found.keys.len() != expected.keys.len() {
            return Err(other());
        }
        let below = node.children().filter(|child| !child.schema().is_list_key());
        level = below.collect();
    }
    match level.as_slice() {
        [node] => Ok(step(node)),
        _ => Err(other()),
    }
}

/// The schema node of a node in a body.
///
/// # Errors
/// When it is not configuration.
pub fn place_of(parent: &Resource, step: &Step) -> Result<Resource, Fault> {
    let node = match &parent.node {
        Some(node) => child(node, &step.module, &step.name),
        None => {
            let context = stoa_yang::schema().context();
            let module = context.get_module_implemented(&step.module);
            module.and_then(|module| super::path::in_nodes(module.data(), step))
        }
    };
    let node = node.ok_or_else(|| Fault::malformed("the node in the body is not in the schema"))?;
    let mut steps = parent.steps.clone();
    steps.push(step.clone());
    let resource = Resource { steps, node: Some(node) };
    let has_keys = !matches!(resource.kind(), Some(SchemaNodeKind::List)) || !step.keys.is_empty();
    match resource.is_config() && has_keys {
        true => Ok(resource),
        false => Err(Fault::value("this is state data, which cannot be configured")),
    }
}
