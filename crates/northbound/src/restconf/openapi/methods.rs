//! Methods, parameters, bodies and statuses of a resource.

use serde_json::{Map, Value, json};
use yang5::schema::{SchemaNode, SchemaNodeKind};

use super::{one_of_many, short};

/// Error statuses and their meaning (RFC 8040, section 7).
const REFUSALS: &[(&str, &str)] = &[
    ("400", "The request or its data is invalid; all errors are listed."),
    ("401", "The credentials are missing or wrong."),
    ("403", "The access rules do not permit it."),
    ("404", "The resource does not exist, or may not be read."),
    ("406", "The response can be JSON or XML."),
    ("408", "The body did not arrive in time."),
    (
        "409",
        "It already exists, another user holds the configuration lock, or it would cut off your own access.",
    ),
    ("412", "The resource changed since it was read."),
    ("413", "The body is larger than /stoa-management:management/limits/body-bytes."),
    ("414", "The URL is longer than 64 KiB."),
    ("415", "The body is neither JSON nor XML."),
    ("429", "Too many requests, streams or failed logins: wait as long as Retry-After says."),
    ("431", "The header has more than 100 fields, or is longer than 64 KiB."),
    ("503", "The forwarder does not answer, or the disk is full: try again."),
];
const READING: &[&str] = &["400", "401", "403", "404", "406", "414", "429", "431", "503"];
const WRITING: &[&str] = &[
    "400", "401", "403", "404", "406", "408", "409", "412", "413", "414", "415", "429", "431",
    "503",
];
/// Refused before RESTCONF handles it: the response has no body.
const BARE: &[&str] = &["414", "431"];

/// A reference to a schema.
pub fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// A body with this schema.
pub fn content(schema: &Value) -> Value {
    json!({ "application/yang-data+json": { "schema": schema } })
}

/// The schema of the errors of RFC 8040, section 8.
pub fn errors() -> Value {
    let error = json!({
        "type": "object",
        "properties": {
            "error-type": { "type": "string", "enum": ["transport", "rpc", "protocol", "application"] },
            "error-tag": { "type": "string" },
            "error-app-tag": { "type": "string" },
            "error-path": { "type": "string" },
            "error-message": { "type": "string" },
        },
        "required": ["error-type", "error-tag"],
        "additionalProperties": false,
    });
    let list = json!({
        "type": "object", "required": ["error"],
        "properties": { "error": { "type": "array", "items": error, "minItems": 1 } },
    });
    json!({
        "type": "object", "properties": { "ietf-restconf:errors": list },
        "required": ["ietf-restconf:errors"],
    })
}

/// The error responses by status.
pub fn responses() -> Value {
    let one = |(status, words): &(&str, &str)| {
        let mut response = json!({ "description": words });
        if !BARE.contains(status) {
            response["content"] = content(&reference("errors"));
        }
        ((*status).to_owned(), response)
    };
    Value::Object(REFUSALS.iter().map(one).collect())
}

fn answers(good: Value, refusals: &[&str]) -> Value {
    let mut all = good;
    for status in refusals {
        all[*status] = json!({ "$ref": format!("#/components/responses/{status}") });
    }
    all
}

fn parameter(name: &str, words: &str, schema: &Value) -> Value {
    json!({ "name": name, "in": "query", "description": words, "schema": schema })
}

fn one_of(all: &[&str]) -> Value {
    json!({ "type": "string", "enum": all })
}

/// A node with a URL.
pub struct Node<'a> {
    /// The node.
    pub node: &'a SchemaNode<'static>,
    /// Its name, with its module.
    pub name: &'a str,
    /// Its schema.
    pub schema: &'a Value,
    /// The nodes that can be created below it.
    pub children: &'a Map<String, Value>,
}

impl Node<'_> {
    fn body(&self, schema: &Value) -> Value {
        let mut members = Map::new();
        members.insert(self.name.to_owned(), schema.clone());
        json!({
            "type": "object", "properties": members, "required": [self.name],
            "additionalProperties": false,
        })
    }

    /// All methods of the node.
    pub fn item(&self) -> Value {
        let module = self.node.module().name().to_owned();
        let words = short(self.node.description());
        let found = json!({
            "200": { "description": "The data.", "content": content(&self.body(self.schema)) },
            "304": { "description": "Not modified since it was read." },
        });
        let mut item = json!({
            "get": {
                "summary": words, "tags": [module], "parameters": reading(),
                "responses": answers(found, READING),
            },
        });
        if !self.node.is_config() {
            return item;
        }
        let done = json!({ "204": { "description": "Done." } });
        let made = json!({
            "201": { "description": "Created." }, "204": { "description": "Done." },
        });
        // The body of a list entry contains that entry alone.
        let own = match self.node.kind() {
            SchemaNodeKind::List => one_of_many(self.schema["items"].clone()),
            _ => self.schema.clone(),
        };
        let given = json!({ "required": true, "content": content(&self.body(&own)) });
        let change = |summary: &str, good: &Value| {
            json!({
                "summary": summary, "tags": [module],
                "responses": answers(good.clone(), WRITING),
            })
        };
        item["put"] = change("Creates or replaces it.", &made);
        item["patch"] = change("Merges the body into it.", &done);
        item["put"]["requestBody"] = given.clone();
        item["patch"]["requestBody"] = given;
        item["delete"] = change("Deletes it.", &done);
        if self.node.is_user_ordered() {
            item["put"]["parameters"] = placing();
        }
        if !self.children.is_empty() {
            item["post"] = change("Creates a node below it.", &made);
            item["post"]["requestBody"] = json!({ "required": true, "content": content(&json!({
                "type": "object", "properties": self.children, "additionalProperties": false,
                "minProperties": 1, "maxProperties": 1,
            })) });
        }
        item
    }
}

fn reading() -> Value {
    let depth = json!({ "type": "string", "pattern": "^(unbounded|[1-9][0-9]{0,3})$" });
    json!([
        parameter("content", "The data to return.", &one_of(&["all", "config", "nonconfig"])),
        parameter("depth", "The number of levels.", &depth),
        parameter(
            "fields",
            "The nodes to return, as a(b;c);d/e.",
            &json!({ "type": "string", "minLength": 1, "maxLength": 8_192 })
        ),
        parameter(
            "with-defaults",
            "How to report defaults.",
            &one_of(&["explicit", "report-all", "trim"])
        ),
    ])
}

fn placing() -> Value {
    json!([
        parameter(
            "insert",
            "The position in the list.",
            &one_of(&["first", "last", "before", "after"])
        ),
        parameter(
            "point",
            "The entry to insert before or after.",
            &json!({ "type": "string", "minLength": 1 })
        ),
    ])
}

/// An operation.
pub fn operation(node: &SchemaNode<'_>, input: Option<Value>, output: Option<Value>) -> Value {
    let module = node.module().name().to_owned();
    let named = |what: &str, schema: &Value| {
        let name = format!("{module}:{what}");
        let mut members = Map::new();
        members.insert(name.clone(), schema.clone());
        json!({
            "type": "object", "properties": members, "required": [name],
            "additionalProperties": false,
        })
    };
    let good = match &output {
        Some(output) => json!({ "200": {
            "description": "Done; the output.", "content": content(&named("output", output)) } }),
        None => json!({ "204": { "description": "Done." } }),
    };
    let mut post = json!({
        "summary": short(node.description()), "tags": [module],
        "responses": answers(good, WRITING),
    });
    if let Some(input) = &input {
        post["requestBody"] = json!({ "content": content(&named("input", input)) });
    }
    json!({ "post": post })
}
