//! The same data for people who are not YANG people: an OpenAPI 3.1 description, made from the schema.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use serde_json::{Map, Value, json};
use stoa_controller::yang;
use yang5::schema::{DataValueType, SchemaNode, SchemaNodeKind};

use super::rpc;

/// Letters of a description that are kept.
const WORDS: usize = 400;
/// What a URL of data begins with.
const DATA: &str = "/restconf/data";

/// The description, made once.
pub fn text() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| {
        let mut made = Made::default();
        for module in yang::schema().context().modules(true) {
            if module.is_implemented() {
                for node in module.data() {
                    made.add(&node, &Above { url: DATA.into(), ..Above::default() });
                }
            }
        }
        made.operations();
        made.whole().to_string()
    })
}

/// Paths and schemas so far.
#[derive(Default)]
struct Made {
    paths: Map<String, Value>,
    schemas: Map<String, Value>,
}

/// What stands above a node.
#[derive(Clone, Default)]
struct Above {
    url: String,
    parameters: Vec<Value>,
    names: BTreeSet<String>,
    module: String,
    component: String,
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

fn content(schema: &Value) -> Value {
    json!({ "application/yang-data+json": { "schema": schema } })
}

fn short(text: Option<&str>) -> String {
    let words = text.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
    words.chars().take(WORDS).collect()
}

fn refused() -> Value {
    json!({ "description": "Refused, with the reasons.", "content": content(&reference("errors")) })
}

fn is_data(node: &SchemaNode<'_>) -> bool {
    use SchemaNodeKind::{Container, Leaf, LeafList, List};
    matches!(node.kind(), Container | List | Leaf | LeafList)
}

impl Made {
    /// Adds a node with all below it; gives the name of its schema in its parent, and the schema.
    fn add(&mut self, node: &SchemaNode<'static>, above: &Above) -> Vec<(String, Value)> {
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
        here.url = format!("{}/{name}", above.url);
        here.module = module;
        here.component = component.clone();
        let keys: Vec<SchemaNode<'static>> = node.list_keys().collect();
        let is_entry = node.kind() == SchemaNodeKind::List;
        if is_entry {
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
        let is_many = matches!(node.kind(), SchemaNodeKind::List | SchemaNodeKind::LeafList);
        let schema = match is_many {
            true => json!({ "type": "array", "items": inner }),
            false => inner,
        };
        // An entry of a leaf-list and a list without keys have no URL of their own worth the words.
        let has_url = node.kind() != SchemaNodeKind::LeafList && (!is_entry || !keys.is_empty());
        if has_url && !node.is_list_key() {
            let whole = format!("{}:{}", here.module, node.name());
            let mut members = Map::new();
            members.insert(whole.clone(), schema.clone());
            let body = json!({ "type": "object", "properties": members, "required": [whole] });
            self.path(node, &here, &body);
        }
        vec![(name, schema)]
    }

    fn object(
        &mut self,
        node: &SchemaNode<'static>,
        here: &Above,
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
        schema
    }

    fn path(&mut self, node: &SchemaNode<'static>, here: &Above, body: &Value) {
        let found = json!({ "description": "The data.", "content": content(body) });
        let read = |name: &str, words: &str, schema: Value| json!({ "name": name, "in": "query", "description": words, "schema": schema });
        let one_of = |all: &[&str]| json!({ "type": "string", "enum": all });
        let query = [
            read("content", "Which data.", one_of(&["all", "config", "nonconfig"])),
            read(
                "depth",
                "Levels below.",
                json!({ "type": "string", "pattern": "^(unbounded|[1-9][0-9]{0,3})$" }),
            ),
            read("fields", "Which nodes.", json!({ "type": "string" })),
            read("with-defaults", "What of defaults.", one_of(&["explicit", "report-all", "trim"])),
        ];
        let mut item = json!({
            "get": {
                "summary": short(node.description()), "parameters": query,
                "responses": { "200": found, "304": { "description": "As it was." }, "default": refused() },
            },
        });
        if !here.parameters.is_empty() {
            item["parameters"] = here.parameters.clone().into();
        }
        if node.is_config() {
            let done = json!({ "204": { "description": "Done." }, "default": refused() });
            let made = json!({
                "201": { "description": "Made." }, "204": { "description": "Done." }, "default": refused(),
            });
            let given = json!({ "required": true, "content": content(body) });
            item["put"] =
                json!({ "summary": "Puts it in place.", "requestBody": given, "responses": made });
            item["delete"] = json!({ "summary": "Removes it.", "responses": done });
            item["patch"] =
                json!({ "summary": "Merges into it.", "requestBody": given, "responses": done });
            if !matches!(node.kind(), SchemaNodeKind::Leaf) {
                let child = json!({ "required": true, "content": content(&json!({
                    "type": "object", "minProperties": 1, "maxProperties": 1 })) });
                item["post"] = json!({ "summary": "Makes a node below it.", "requestBody": child, "responses": made });
            }
        }
        self.paths.insert(here.url.clone(), item);
    }

    fn operations(&mut self) {
        let context = yang::schema().context();
        let Some(module) = context.get_module_implemented(rpc::MODULE) else { return };
        for node in module.rpcs() {
            let given = node.children().find(|one| one.kind() == SchemaNodeKind::Input);
            let input = given.map(|input| {
                // Leaves only: what they are is said in place.
                let leaves = input.children().filter(is_data);
                let members: Map<String, Value> =
                    leaves.map(|child| (child.name().to_owned(), leaf(&child))).collect();
                json!({ "type": "object", "properties": members, "additionalProperties": false })
            });
            let name = format!("{}:input", rpc::MODULE);
            let mut members = Map::new();
            members.insert(name, input.unwrap_or_else(|| json!({ "type": "object" })));
            let body = json!({ "type": "object", "properties": members });
            let post = json!({
                "summary": short(node.description()),
                "requestBody": { "content": content(&body) },
                "responses": {
                    "200": { "description": "Done; the output.", "content": content(&json!({ "type": "object" })) },
                    "204": { "description": "Done." },
                    "default": refused(),
                },
            });
            let url = format!("/restconf/operations/{}:{}", rpc::MODULE, node.name());
            self.paths.insert(url, json!({ "post": post }));
        }
    }

    fn whole(mut self) -> Value {
        let error = json!({
            "type": "object",
            "properties": {
                "error-type": { "enum": ["transport", "rpc", "protocol", "application"] },
                "error-tag": { "type": "string" }, "error-path": { "type": "string" },
                "error-message": { "type": "string" },
            },
            "required": ["error-type", "error-tag"],
        });
        let list = json!({ "type": "object", "properties": { "error": { "type": "array", "items": error } } });
        self.schemas.insert(
            "errors".into(),
            json!({ "type": "object", "properties": { "ietf-restconf:errors": list } }),
        );
        json!({
            "openapi": "3.1.0",
            "info": {
                "title": "Stoa", "version": env!("CARGO_PKG_VERSION"),
                "description": "The router's data by RESTCONF (RFC 8040), made from its YANG modules.",
            },
            "security": [{ "basic": [] }, { "bearer": [] }],
            "paths": self.paths,
            "components": {
                "schemas": self.schemas,
                "securitySchemes": {
                    "basic": { "type": "http", "scheme": "basic" },
                    "bearer": { "type": "http", "scheme": "bearer" },
                },
            },
        })
    }
}

impl Above {
    /// The keys of an entry as parameters of its URL.
    fn keys(&mut self, list: &SchemaNode<'_>, keys: &[SchemaNode<'_>]) {
        let mut places = Vec::new();
        for key in keys {
            let mut name = format!("{}-{}", list.name(), key.name());
            // A list in a list of the same name.
            while !self.names.insert(name.clone()) {
                name.push('_');
            }
            places.push(format!("{{{name}}}"));
            let mut schema = leaf(key);
            schema["type"] = "string".into();
            self.parameters.push(json!({
                "name": name, "in": "path", "required": true, "schema": schema,
                "description": short(key.description()),
            }));
        }
        if !places.is_empty() {
            self.url.push('=');
            self.url.push_str(&places.join(","));
        }
    }
}

/// What RFC 7951 makes of a value.
fn leaf(node: &SchemaNode<'_>) -> Value {
    let kind = node.leaf_type().map(|kind| {
        let real = kind.leafref_real_type().map(|real| real.base_type());
        real.unwrap_or_else(|| kind.base_type())
    });
    let range = |low: i64, high: i64| json!({ "type": "integer", "minimum": low, "maximum": high });
    let mut schema = match kind {
        Some(DataValueType::Uint8) => range(0, 255),
        Some(DataValueType::Uint16) => range(0, 65_535),
        Some(DataValueType::Uint32) => range(0, i64::from(u32::MAX)),
        Some(DataValueType::Int8) => range(-128, 127),
        Some(DataValueType::Int16) => range(-32_768, 32_767),
        Some(DataValueType::Int32) => range(i64::from(i32::MIN), i64::from(i32::MAX)),
        Some(DataValueType::Bool) => json!({ "type": "boolean" }),
        Some(DataValueType::Empty) => json!({ "type": "array", "items": { "type": "null" } }),
        Some(DataValueType::Union) | None => json!({}),
        _ => json!({ "type": "string" }),
    };
    let words = short(node.description());
    if !words.is_empty() {
        schema["description"] = words.into();
    }
    if let Some(units) = node.units() {
        schema["x-units"] = units.into();
    }
    if node.is_state() {
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
        // Every reference leads somewhere.
        let schemas = whole["components"]["schemas"].as_object().unwrap();
        let references = text().split("\"#/components/schemas/").skip(1);
        for name in references.filter_map(|rest| rest.split('"').next()) {
            assert!(schemas.contains_key(name), "{name}");
        }
    }
}
