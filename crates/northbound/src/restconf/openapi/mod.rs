//! An OpenAPI 3.1 description of the data, generated from the schema.
//!
//! This module generates the resources and their schemas; `methods` the requests and responses; `types` the values;
//! `source` parses the modules' texts.

mod methods;
mod source;
mod types;

use std::collections::BTreeSet;
use std::sync::OnceLock;

use serde_json::{Map, Value, json};
use yang5::schema::{SchemaNode, SchemaNodeKind};

use super::operation;
use methods::{Node, reference};

/// Maximum length of a description in characters.
const WORDS: usize = 400;
/// The start of a data URL.
const DATA: &str = "/restconf/data";

/// The description, generated once.
pub fn text() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| {
        let mut made = Builder::default();
        for module in stoa_yang::schema().context().modules(true) {
            if module.is_implemented() {
                for node in module.data() {
                    made.add(&node, &Parent { url: Some(DATA.into()), ..Parent::default() });
                }
            }
        }
        made.operations();
        made.whole().to_string()
    })
}

/// The generated paths and schemas.
#[derive(Default)]
struct Builder {
    paths: Map<String, Value>,
    schemas: Map<String, Value>,
}

/// The parent of a node.
#[derive(Clone, Default)]
struct Parent {
    /// `None`: nodes below have no URL, as in the input of an operation.
    url: Option<String>,
    parameters: Vec<Value>,
    names: BTreeSet<String>,
    module: String,
    component: String,
}

fn short(text: Option<&str>) -> String {
    let words = text.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
    words.chars().take(WORDS).collect()
}

fn is_data(node: &SchemaNode<'_>) -> bool {
    use SchemaNodeKind::{Container, Leaf, LeafList, List};
    matches!(node.kind(), Container | List | Leaf | LeafList)
}

impl Builder {
    /// Adds a node with all below it; returns the name and the schema for its parent.
    fn add(&mut self, node: &SchemaNode<'static>, above: &Parent) -> Vec<(String, Value)> {
        if matches!(node.kind(), SchemaNodeKind::Choice | SchemaNodeKind::Case) {
            return node.children().flat_map(|child| self.add(&child, above)).collect();
        }
        if !is_data(node) {
            return Vec::new();
        }
        let module = node.module().name().to_owned();
        let name = match module == above.module {
            true => node.name().to_owned(),
            false => format!("{module}:{}", node.name()),
        };
        let component = format!("{}.{}", above.component, name.replace(':', "."));
        let component = component.trim_start_matches('.').to_owned();
        let mut here = above.clone();
        here.url = above.url.as_ref().map(|url| format!("{url}/{name}"));
        here.module = module;
        here.component = component.clone();
        let keys: Vec<SchemaNode<'static>> = node.list_keys().collect();
        if node.kind() == SchemaNodeKind::List {
            here.keys(node, &keys);
        }
        let inner = match node.kind() {
            SchemaNodeKind::Leaf | SchemaNodeKind::LeafList => leaf(node),
            _ => {
                let schema = self.object(node, &here, &keys);
                self.schemas.insert(component.clone(), schema);
                reference(&component)
            }
        };
        let schema = match node.kind() {
            SchemaNodeKind::List | SchemaNodeKind::LeafList => many(node, inner),
            _ => inner,
        };
        self.resource(node, &here, &keys, &schema);
        vec![(name, schema)]
    }

    fn object(
        &mut self,
        node: &SchemaNode<'static>,
        here: &Parent,
        keys: &[SchemaNode<'static>],
    ) -> Value {
        let mut members = Map::new();
        for child in node.children() {
            members.extend(self.add(&child, here));
        }
        let mut schema = json!({
            "type": "object", "properties": members, "additionalProperties": false,
            "description": short(node.description()),
        });
        if !keys.is_empty() {
            let names: Vec<&str> = keys.iter().map(SchemaNode::name).collect();
            schema["required"] = json!(names);
        }
        // A request may select a part, so a response need not contain them.
        let must = node.children().filter(|child| is_data(child) && child.is_mandatory());
        let must: Vec<String> = must.map(|child| child.name().to_owned()).collect();
        if !must.is_empty() {
            schema["x-mandatory"] = json!(must);
        }
        schema
    }

    /// Adds the URL of a node, unless it is redundant.
    fn resource(
        &mut self,
        node: &SchemaNode<'static>,
        here: &Parent,
        keys: &[SchemaNode<'static>],
        schema: &Value,
    ) {
        let Some(url) = here.url.clone() else { return };
        let is_entry = node.kind() == SchemaNodeKind::List;
        // Leaf-list entries, keyless lists, and keys, which belong to their entry.
        let is_left_out = node.kind() == SchemaNodeKind::LeafList
            || is_entry && keys.is_empty()
            || node.is_list_key();
        if is_left_out {
            return;
        }
        let name = format!("{}:{}", here.module, node.name());
        let mut children = Map::new();
        for child in node.children() {
            self.children(&child, here, &mut children);
        }
        let about = Node { node, name: &name, schema, children: &children };
        let mut item = about.item();
        if !here.parameters.is_empty() {
            item["parameters"] = here.parameters.clone().into();
        }
        self.paths.insert(url, item);
    }

    /// The nodes that POST can create below a node: their schemas exist already.
    fn children(&self, child: &SchemaNode<'static>, here: &Parent, all: &mut Map<String, Value>) {
        if matches!(child.kind(), SchemaNodeKind::Choice | SchemaNodeKind::Case) {
            child.children().for_each(|below| self.children(&below, here, all));
            return;
        }
        if !is_data(child) || !child.is_config() || child.is_list_key() {
            return;
        }
        let module = child.module().name().to_owned();
        let name = match module == here.module {
            true => child.name().to_owned(),
            false => format!("{module}.{}", child.name()),
        };
        let inner = match child.kind() {
            SchemaNodeKind::Leaf | SchemaNodeKind::LeafList => leaf(child),
            _ => reference(&format!("{}.{name}", here.component)),
        };
        let schema = match child.kind() {
            SchemaNodeKind::List | SchemaNodeKind::LeafList => one_of_many(inner),
            _ => inner,
        };
        all.insert(format!("{module}:{}", child.name()), schema);
    }

    fn operations(&mut self) {
        let context = stoa_yang::schema().context();
        let modules = operation::OPERATIONS.iter();
        let modules = modules.filter_map(|(name, _)| context.get_module_implemented(name));
        let all: Vec<SchemaNode<'static>> =
            modules.flat_map(|module| module.rpcs().collect::<Vec<_>>()).collect();
        for node in all {
            let module = node.module().name().to_owned();
            let below = |kind| node.children().find(|one| one.kind() == kind);
            let part = |made: &mut Builder, part: Option<SchemaNode<'static>>, what: &str| {
                let part = part.filter(|part| part.children().next().is_some())?;
                let component = format!("{module}.{}.{what}", node.name());
                let here = Parent {
                    module: module.clone(),
                    component: component.clone(),
                    ..Parent::default()
                };
                let schema = made.object(&part, &here, &[]);
                made.schemas.insert(component.clone(), schema);
                Some(reference(&component))
            };
            let input = part(self, below(SchemaNodeKind::Input), "input");
            let output = part(self, below(SchemaNodeKind::Output), "output");
            let item = methods::operation(&node, input, output);
            self.paths.insert(format!("/restconf/operations/{module}:{}", node.name()), item);
        }
    }

    fn whole(mut self) -> Value {
        self.schemas.insert("errors".into(), methods::errors());
        json!({
            "openapi": "3.1.0",
            "info": {
                "title": "Stoa", "version": env!("CARGO_PKG_VERSION"),
                "description": "The router's data over RESTCONF (RFC 8040), generated from its YANG modules. \
                All bodies can also be XML: application/yang-data+xml. x-mandatory \
                                names what has to be there when a node is made.",
            },
            "security": [{ "basic": [] }, { "bearer": [] }],
            "paths": self.paths,
            "components": {
                "schemas": self.schemas,
                "responses": methods::responses(),
                "securitySchemes": {
                    "basic": { "type": "http", "scheme": "basic" },
                    "bearer": { "type": "http", "scheme": "bearer" },
                },
            },
        })
    }
}

impl Parent {
    /// Adds the keys of an entry as parameters of its URL.
    fn keys(&mut self, list: &SchemaNode<'_>, keys: &[SchemaNode<'_>]) {
        let Some(url) = &mut self.url else { return };
        let mut places = Vec::new();
        for key in keys {
            let mut name = format!("{}-{}", list.name(), key.name());
            // A list in a list of the same name.
            while !self.names.insert(name.clone()) {
                name.push('_');
            }
            places.push(format!("{{{name}}}"));
            self.parameters.push(json!({
                "name": name, "in": "path", "required": true, "schema": types::of(key),
                "description": short(key.description()),
            }));
        }
        if !places.is_empty() {
            url.push('=');
            url.push_str(&places.join(","));
        }
    }
}

/// The schema of a list or leaf-list.
fn many(node: &SchemaNode<'_>, inner: Value) -> Value {
    let mut schema = json!({ "type": "array", "items": inner });
    if let Some(most) = node.max_elements() {
        schema["maxItems"] = most.into();
    }
    schema
}

/// One entry, as an array in RFC 7951 form.
fn one_of_many(inner: Value) -> Value {
    json!({ "type": "array", "items": inner, "minItems": 1, "maxItems": 1 })
}

/// A leaf with its description.
fn leaf(node: &SchemaNode<'_>) -> Value {
    let mut schema = types::of(node);
    let words = short(node.description());
    if !words.is_empty() {
        schema["description"] = words.into();
    }
    if let Some(units) = node.units() {
        schema["x-units"] = units.into();
    }
    if let Ok(Some(usual)) = node.default_value_canonical() {
        schema["x-default"] = usual.into();
    }
    if node.is_state() && !node.is_within_input() {
        schema["readOnly"] = true.into();
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_is_described_once() {
        let whole: Value = serde_json::from_str(text()).unwrap();
        let paths = whole["paths"].as_object().unwrap();
        let entry = "/restconf/data/ietf-interfaces:interfaces/interface={interface-name}";
        assert!(paths[entry]["put"].is_object(), "{:?}", paths.keys().take(20).collect::<Vec<_>>());
        assert!(paths["/restconf/operations/stoa-datastore:commit"]["post"].is_object());
        let facts = &paths[&format!("{entry}/statistics")];
        assert!(facts["put"].is_null() && facts["get"].is_object());
        // Every reference resolves.
        for kind in ["schemas", "responses"] {
            let there = whole["components"][kind].as_object().unwrap();
            let start = format!("\"#/components/{kind}/");
            let references = text().split(start.as_str()).skip(1);
            for name in references.filter_map(|rest| rest.split('"').next()) {
                assert!(there.contains_key(name), "{name}");
            }
        }
    }

    #[test]
    fn operations_have_their_inputs_and_outputs() {
        let whole: Value = serde_json::from_str(text()).unwrap();
        let schemas = &whole["components"]["schemas"];
        let input = &schemas["stoa-datastore.commit.input"]["properties"];
        assert_eq!(input["confirm-within"]["maximum"], 86_400);
        assert_eq!(input["comment"]["maxLength"], 1_024);
        assert_eq!(input["force"]["type"], "boolean");
        let output = &schemas["stoa-datastore.compare.output"]["properties"]["change"];
        assert_eq!(output["type"], "array");
        let change = &schemas["stoa-datastore.compare.output.change"]["properties"];
        assert_eq!(change["operation"]["enum"], json!(["create", "delete", "replace"]));
        let discard = &whole["paths"]["/restconf/operations/stoa-datastore:discard"]["post"];
        assert!(discard["responses"]["204"].is_object() && discard["responses"]["200"].is_null());
        assert!(discard["requestBody"].is_null(), "{discard}");
    }

    #[test]
    fn mandatory_nodes_are_marked() {
        let whole: Value = serde_json::from_str(text()).unwrap();
        let rule = &whole["components"]["schemas"]["ietf-netconf-acm.nacm.rule-list.rule"];
        assert_eq!(
            (&rule["required"], &rule["x-mandatory"]),
            (&json!(["name"]), &json!(["action"]))
        );
        let comment = &rule["properties"]["comment"];
        assert_eq!(comment["type"], "string", "{comment}");
    }
}
