//! Resource identifiers of RFC 8040, section 3.5.3: from a URL path to a schema node with keys.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};
use stoa_yang::renamed_names;
use yang5::schema::{SchemaNode, SchemaNodeKind};

use super::fault::Fault;
use super::keys;

/// Maximum number of steps in a path: no model is that deep.
pub const STEPS_LIMIT: usize = 64;

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Step {
    /// The module that defines it.
    pub module: String,
    /// Its name.
    pub name: String,
    /// Names and values of the keys; for a leaf-list entry `.` and its value.
    pub keys: Vec<(String, String)>,
}

/// A schema node, with the keys of the lists above it.
#[derive(Clone, Debug)]
pub struct Resource {
    /// From the root; empty: the datastore.
    pub steps: Vec<Step>,
    /// The schema node; `None`: the datastore.
    pub node: Option<SchemaNode<'static>>,
}

impl Resource {
    /// The whole datastore.
    pub fn root() -> Resource {
        Resource { steps: Vec::new(), node: None }
    }

    /// Whether it is the whole datastore.
    pub fn is_root(&self) -> bool {
        self.steps.is_empty()
    }

    /// The data path in libyang's form; `/` for the datastore.
    pub fn data_path(&self) -> String {
        data_path(&self.steps)
    }

    /// The kind of the node.
    pub fn kind(&self) -> Option<SchemaNodeKind> {
        self.node.as_ref().map(SchemaNode::kind)
    }

    /// Whether it can be configured.
    pub fn is_config(&self) -> bool {
        self.node.as_ref().is_none_or(SchemaNode::is_config)
    }

    /// Whether it exists as soon as its parent does: a non-presence container.
    pub fn comes_by_itself(&self) -> bool {
        self.node.as_ref().is_some_and(SchemaNode::is_np_container)
    }

    /// The parent.
    pub fn parent(&self) -> Resource {
        let mut steps = self.steps.clone();
        steps.pop();
        let node = self.node.as_ref().and_then(data_parent);
        Resource { steps, node }
    }
}

/// The nearest ancestor that is a data node.
fn data_parent(node: &SchemaNode<'static>) -> Option<SchemaNode<'static>> {
    node.ancestors().find(|one| !is_schema_only(one))
}

/// Whether the node is in the schema only, not in data.
pub fn is_schema_only(node: &SchemaNode<'_>) -> bool {
    matches!(node.kind(), SchemaNodeKind::Choice | SchemaNodeKind::Case)
}

/// The steps to an interface.
pub fn interface(name: &str) -> Vec<Step> {
    let step = |name: &str, keys| {
        let module = "ietf-interfaces".to_owned();
        Step { module, name: name.to_owned(), keys }
    };
    let key = ("name".to_owned(), name.to_owned());
    vec![step("interfaces", Vec::new()), step("interface", vec![key])]
}

/// The steps to the counters of an interface.
pub fn statistics(name: &str) -> Vec<Step> {
    below(interface(name), "ietf-interfaces", "statistics")
}

/// The steps to a node below others.
pub fn below(mut steps: Vec<Step>, module: &str, name: &str) -> Vec<Step> {
    steps.push(Step { module: module.to_owned(), name: name.to_owned(), keys: Vec::new() });
    steps
}

/// The steps to the accounting of all packets.
pub fn conservation() -> Vec<Step> {
    let module = "stoa-forwarder";
    below(below(Vec::new(), module, "forwarder"), module, "conservation")
}

/// The steps to the routes of a table.
pub fn routes(table: &str) -> Vec<Step> {
    let step =
        |name: &str, keys| Step { module: "ietf-routing".to_owned(), name: name.to_owned(), keys };
    let key = ("name".to_owned(), table.to_owned());
    let above = [step("routing", Vec::new()), step("ribs", Vec::new()), step("rib", vec![key])];
    above.into_iter().chain([step("routes", Vec::new())]).collect()
}

/// Steps with their names in RFC 7951 form: with the module where it differs from the parent's.
pub fn named(steps: &[Step]) -> impl Iterator<Item = (Cow<'_, str>, &Step)> {
    let mut module = "";
    steps.iter().map(move |step| {
        let is_same = std::mem::replace(&mut module, &step.module) == step.module;
        let name = match is_same {
            true => Cow::Borrowed(step.name.as_str()),
            false => Cow::Owned(format!("{}:{}", step.module, step.name)),
        };
        (name, step)
    })
}

/// The value at these steps of RFC 7951 data; in a list the first entry, as there is only one.
pub fn inside<'a>(whole: &'a Value, steps: &[Step]) -> Option<&'a Value> {
    named(steps).try_fold(whole, |here, (name, _)| match here.get(name.as_ref())? {
        Value::Array(entries) => entries.first(),
        below => Some(below),
    })
}

/// As [`inside`], mutable.
pub fn inside_mut<'a>(whole: &'a mut Value, steps: &[Step]) -> Option<&'a mut Map<String, Value>> {
    let here =
        named(steps).try_fold(whole, |here, (name, _)| match here.get_mut(name.as_ref())? {
            Value::Array(entries) => entries.first_mut(),
            below => Some(below),
        });
    here?.as_object_mut()
}

/// Steps as libyang's data path.
pub fn data_path(steps: &[Step]) -> String {
    if steps.is_empty() {
        return "/".to_owned();
    }
    let mut path = String::new();
    let mut module = "";
    for step in steps {
        add(&mut path, module, step);
        module = &step.module;
    }
    path
}

/// Adds a step to a data path whose last node is of the module `above`.
pub fn add(path: &mut String, above: &str, step: &Step) {
    path.push('/');
    if step.module != above {
        path.push_str(&step.module);
        path.push(':');
    }
    path.push_str(&step.name);
    for (name, value) in &step.keys {
        let quote = if value.contains('\'') { '"' } else { '\'' };
        path.push_str(&format!("[{name}={quote}{value}{quote}]"));
    }
}

/// The data node of this name below a node; `module` only when the name has one.
pub fn child(
    parent: &SchemaNode<'static>,
    module: &str,
    name: &str,
) -> Option<SchemaNode<'static>> {
    find(parent.children(), module, name)
}

fn find(
    nodes: impl Iterator<Item = SchemaNode<'static>>,
    module: &str,
    name: &str,
) -> Option<SchemaNode<'static>> {
    for node in nodes {
        if is_schema_only(&node) {
            if let Some(found) = find(node.children(), module, name) {
                return Some(found);
            }
        } else if node.name() == name && node.module().name() == module {
            return Some(node);
        }
    }
    None
}

/// The top node of a module for this step.
pub fn in_nodes(
    nodes: impl Iterator<Item = SchemaNode<'static>>,
    step: &Step,
) -> Option<SchemaNode<'static>> {
    find(nodes, &step.module, &step.name)
}

/// The resource of a URL path; empty: the datastore.
///
/// # Errors
/// When the schema has no such node, or keys are missing.
pub fn parse(raw: &str) -> Result<Resource, Fault> {
    let raw = raw.strip_suffix('/').unwrap_or(raw);
    let mut resource = Resource::root();
    if raw.is_empty() {
        return Ok(resource);
    }
    for (index, segment) in raw.split('/').enumerate() {
        if index >= STEPS_LIMIT {
            return Err(Fault::value(format!("the path has more than {STEPS_LIMIT} steps")));
        }
        step(&mut resource, segment)?;
    }
    if resource.data_path().len() > keys::PATH_BYTES {
        return Err(Fault::value(format!("the path has more than {} bytes", keys::PATH_BYTES)));
    }
    Ok(resource)
}

fn decode(text: &str) -> Result<String, Fault> {
    let decoded = percent_decode_str(text).decode_utf8();
    let decoded = decoded.map_err(|_| Fault::value("the path is not UTF-8"))?;
    if decoded.contains('\0') {
        return Err(Fault::value("the path contains a NUL character: remove it"));
    }
    Ok(decoded.into_owned())
}

fn step(resource: &mut Resource, segment: &str) -> Result<(), Fault> {
    let (name, keys) = match segment.split_once('=') {
        Some((name, keys)) => (name, Some(keys)),
        None => (segment, None),
    };
    let given = decode(name)?;
    let (module, name) = match given.split_once(':') {
        Some((module, name)) => (Some(module.to_owned()), name.to_owned()),
        None => (None, given.clone()),
    };
    let above = resource.steps.last().map(|step| step.module.clone());
    let Some(module) = module.or(above) else {
        let words = format!("the first name of a path needs its module: MODULE:{name}");
        return Err(Fault::nowhere(words));
    };
    let found = match &resource.node {
        Some(parent) => child(parent, &module, &name),
        None => top(&module, &name),
    };
    let unknown = || {
        let above = resource.data_path();
        let renamed = renamed_names::step(resource.node.iter().map(|node| node.name()), &given);
        let fix = renamed.map(|fix| format!(". {fix}")).unwrap_or_default();
        Fault::nowhere(format!("there is no node {module}:{name} below {above} in the schema{fix}"))
    };
    let node = found.ok_or_else(unknown)?;
    let names: Vec<String> = match node.kind() {
        SchemaNodeKind::List => node.list_keys().map(|key| key.name().to_owned()).collect(),
        SchemaNodeKind::LeafList => vec![".".to_owned()],
        _ => Vec::new(),
    };
    let keys = values(&node, &names, keys)?;
    resource.steps.push(Step { module, name, keys });
    resource.node = Some(node);
    Ok(())
}

/// The node of this name at the top of a module.
pub fn top(module: &str, name: &str) -> Option<SchemaNode<'static>> {
    if module.contains('\0') {
        return None;
    }
    let context = stoa_yang::schema().context();
    find(context.get_module_implemented(module)?.data(), module, name)
}

/// The keys of a step.
fn values(
    node: &SchemaNode<'_>,
    names: &[String],
    given: Option<&str>,
) -> Result<Vec<(String, String)>, Fault> {
    let name = node.name();
    let Some(given) = given else {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let keys = names.join(",");
        return Err(Fault::value(format!("{name} is a list: name the entry as {name}={keys}")));
    };
    if names.is_empty() {
        return Err(Fault::value(format!("{name} has no keys: remove =")));
    }
    // A comma within a value is percent-encoded.
    let values: Vec<&str> = given.split(',').collect();
    if values.len() != names.len() {
        let words = format!(
            "{name} has {} and {} are given: {}",
            counted(names.len()),
            values.len(),
            names.join(",")
        );
        return Err(Fault::value(words));
    }
    let decoded = values.into_iter().map(decode).collect::<Result<Vec<_>, _>>()?;
    if let Some(odd) = decoded.iter().find(|it| !keys::is_clear(it)) {
        return Err(Fault::nowhere(format!("a key cannot contain both kinds of quotes: {odd}")));
    }
    let pairs: Vec<_> = names.iter().cloned().zip(decoded).collect();
    if let Some(words) = pairs.iter().find_map(|(name, value)| keys::renamed(node, name, value)) {
        return Err(Fault::nowhere(words));
    }
    Ok(pairs)
}

fn counted(number: usize) -> String {
    format!("{number} key{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::restconf::fault::Faults;
    use http::StatusCode;

    #[test]
    fn identifiers_are_those_of_the_rfc() {
        let path = |raw: &str| parse(raw).map(|resource| resource.data_path());
        let lan = "ietf-interfaces:interfaces/interface=lan/ietf-ip:ipv4/address=10.0.0.1";
        let there = "/ietf-interfaces:interfaces/interface[name='lan']/ietf-ip:ipv4/\
                     address[ip='10.0.0.1']";
        assert_eq!(path(lan).unwrap(), there);
        assert_eq!(path("").unwrap(), "/");
        let odd = "ietf-interfaces:interfaces/interface=a%2Fb%2C%27c";
        assert_eq!(path(odd).unwrap(), "/ietf-interfaces:interfaces/interface[name=\"a/b,'c\"]");
        let two = "ietf-routing:routing/control-plane-protocols/control-plane-protocol=\
                   ietf-routing%3Astatic,main";
        assert!(path(two).unwrap().ends_with("[type='ietf-routing:static'][name='main']"));
        // Through a choice, and an entry of a leaf-list.
        assert!(path("stoa-system:system/workers/cpus=3").unwrap().ends_with("cpus[.='3']"));
        let port = "ietf-interfaces:interfaces/interface=a/stoa-interfaces:port/null";
        assert!(path(port).unwrap().ends_with("/stoa-interfaces:port/null"));
    }

    #[test]
    fn wrong_identifiers_are_refused() {
        let wrong = [
            "interfaces",
            "ietf-interfaces:nothing",
            "no-module:interfaces",
            "ietf-interfaces:interfaces/interface",
            "ietf-interfaces:interfaces/interface=a,b",
            "ietf-interfaces:interfaces=a",
            "ietf-interfaces:interfaces//interface=a",
            "ietf-interfaces:interfaces/interface=%00",
            "ietf-interfaces:interfaces/interface=%ff",
            "ietf-interfaces:interfaces/interface=%27%22",
            "%00:x",
        ];
        for raw in wrong {
            assert!(parse(raw).is_err(), "{raw}");
        }
        let deep = "a/".repeat(1_000);
        assert!(parse(&deep).is_err());
        assert_eq!(Faults::from(parse("no-module:x").unwrap_err()).status(), StatusCode::NOT_FOUND);
    }

    #[test]
    fn old_names_are_refused_with_the_new_ones() {
        let lan = "ietf-interfaces:interfaces/interface=lan";
        let protocol = "ietf-routing:routing/control-plane-protocols/control-plane-protocol";
        for (raw, fix) in [
            (format!("{lan}/stoa-mirror:mirror"), "Use \"stoa-host-interface:host-interface\""),
            (
                format!("{lan}/stoa-interfaces:port/spread"),
                "Use \"software-rss\" (it was \"spread\")",
            ),
            (format!("{protocol}=stoa-routing%3Alinux,main"), "Use \"stoa-routing:netlink\""),
        ] {
            let faults = Faults::from(parse(&raw).unwrap_err());
            assert_eq!(faults.status(), StatusCode::NOT_FOUND, "{raw}");
            assert!(faults.words().contains(fix), "{raw}: {}", faults.words());
        }
    }
}
