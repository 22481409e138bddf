//! JSON schemas of values in RFC 7951 encoding, with the ranges, lengths, patterns and enumerations of their types.

use serde_json::{Value, json};
use yang5::schema::{DataValueType, SchemaNode, SchemaNodeKind};

use super::source::{Statement, modules};

/// Maximum depth of nested typedefs.
const NESTED: usize = 16;

/// The schema of a leaf, or of an entry of a leaf-list.
pub fn of(node: &SchemaNode<'_>) -> Value {
    let known = node.leaf_type().map(|kind| {
        let real = kind.leafref_real_type().map(|real| real.base_type());
        (kind.base_type(), real)
    });
    let Some((base, real)) = known else { return json!({}) };
    if base == DataValueType::LeafRef {
        return plain(real.unwrap_or(base));
    }
    let mut made = declared(node).into_iter().filter_map(|(kind, module)| schema(kind, module, 0));
    made.find(|made| agrees(made, base)).unwrap_or_else(|| plain(base))
}

/// Whether a schema matches a type with this base: two nodes of the same name may be at similar paths.
fn agrees(made: &Value, base: DataValueType) -> bool {
    match base {
        DataValueType::Enum | DataValueType::IdentityRef => !made["enum"].is_null(),
        DataValueType::Union => !made["anyOf"].is_null(),
        base => made["type"] == plain(base)["type"] && made["enum"].is_null(),
    }
}

/// The schema of a base type alone.
fn plain(base: DataValueType) -> Value {
    use DataValueType::{
        Bool, Dec64, Empty, Int8, Int16, Int32, Int64, Uint8, Uint16, Uint32, Uint64,
    };
    let name = match base {
        Uint8 => "uint8",
        Uint16 => "uint16",
        Uint32 => "uint32",
        Uint64 => "uint64",
        Int8 => "int8",
        Int16 => "int16",
        Int32 => "int32",
        Int64 => "int64",
        Dec64 => "decimal64",
        Bool => "boolean",
        Empty => "empty",
        DataValueType::Union | DataValueType::Unknown => return json!({}),
        _ => "string",
    };
    built_in(name).unwrap_or_else(|| json!({}))
}

fn built_in(name: &str) -> Option<Value> {
    let range = |low: i64, high: i64| json!({ "type": "integer", "minimum": low, "maximum": high });
    Some(match name {
        "uint8" => range(0, 255),
        "uint16" => range(0, 65_535),
        "uint32" => range(0, i64::from(u32::MAX)),
        "int8" => range(-128, 127),
        "int16" => range(-32_768, 32_767),
        "int32" => range(i64::from(i32::MIN), i64::from(i32::MAX)),
        "uint64" => json!({ "type": "string", "pattern": "^[0-9]{1,20}$" }),
        "int64" => json!({ "type": "string", "pattern": "^-?[0-9]{1,19}$" }),
        "decimal64" => json!({ "type": "string", "pattern": "^-?[0-9]{1,18}([.][0-9]{1,18})?$" }),
        "boolean" => json!({ "type": "boolean" }),
        "empty" => {
            json!({ "type": "array", "items": { "type": "null" }, "minItems": 1, "maxItems": 1 })
        }
        "binary" => json!({ "type": "string", "contentEncoding": "base64" }),
        "string" | "bits" | "instance-identifier" | "leafref" | "identityref" | "enumeration" => {
            json!({ "type": "string" })
        }
        "union" => json!({}),
        _ => return None,
    })
}

// ===== the type statement of a node =====

fn is_named(statement: &Statement) -> bool {
    [
        "container",
        "list",
        "choice",
        "case",
        "leaf",
        "leaf-list",
        "input",
        "output",
        "rpc",
        "notification",
    ]
    .contains(&statement.keyword.as_str())
}

/// The names above a node, nearest first. A shorthand case has the name of its node.
fn names_above(node: &SchemaNode<'_>) -> Vec<String> {
    let is_data = |above: &SchemaNode<'_>| {
        !matches!(above.kind(), SchemaNodeKind::Choice | SchemaNodeKind::Case)
    };
    node.ancestors().filter(is_data).map(|above| above.name().to_owned()).collect()
}

/// Candidates for the type statement of a node, best first, each with its module: in the node's module, in a submodule,
/// or in a grouping of another module. Among statements of the same name, the one with the most equal names above it is
/// the best.
fn declared(node: &SchemaNode<'_>) -> Vec<(&'static Statement, &'static Statement)> {
    let above = names_above(node);
    let own = node.module().name().to_owned();
    let mut found = Vec::new();
    for module in modules().values() {
        let is_own = module.argument == own || module.value("belongs-to") == Some(own.as_str());
        let mut here = Vec::new();
        search(module, node.name(), &mut Vec::new(), &above, &mut here);
        let kind = |(same, leaf): (usize, &'static Statement)| {
            Some(((same, is_own), leaf.all("type").next()?, module))
        };
        found.extend(here.into_iter().filter_map(kind));
    }
    // In other modules, only groupings can define the node.
    found.sort_by_key(|(rank, ..)| std::cmp::Reverse((rank.1, rank.0)));
    found.into_iter().map(|(_, kind, module)| (kind, module)).collect()
}

fn search(
    statement: &'static Statement,
    name: &str,
    way: &mut Vec<String>,
    above: &[String],
    found: &mut Vec<(usize, &'static Statement)>,
) {
    for one in &statement.below {
        let is_leaf = ["leaf", "leaf-list"].contains(&one.keyword.as_str());
        if is_leaf && one.argument == name {
            let same = way.iter().rev().zip(above).take_while(|(mine, its)| mine == its).count();
            if same == way.len() {
                found.push((same, one));
            }
            continue;
        }
        let before = way.len();
        match one.keyword.as_str() {
            "choice" | "case" => {}
            "augment" => way.extend(last_names(&one.argument)),
            // The names that libyang uses.
            "input" | "output" => way.push(one.keyword.clone()),
            _ if is_named(one) => way.push(one.argument.clone()),
            _ => {}
        }
        search(one, name, way, above, found);
        way.truncate(before);
    }
}

/// The names of a path without prefixes.
fn last_names(path: &str) -> impl Iterator<Item = String> {
    let names = path.split('/').filter(|step| !step.is_empty());
    names.map(|step| step.rsplit(':').next().unwrap_or(step).to_owned())
}

// ===== the schema of a type =====

fn schema(kind: &'static Statement, module: &'static Statement, nested: usize) -> Option<Value> {
    if nested > NESTED {
        return None;
    }
    let name = kind.argument.as_str();
    let mut made = match built_in(name) {
        Some(base) => base,
        None => {
            let (home, name) = match name.split_once(':') {
                Some((prefix, name)) => (modules().get(module.imported(prefix)?)?, name),
                None => (module, name),
            };
            let own = home.typedef(name);
            let parts = || {
                let part =
                    |one: &&Statement| one.value("belongs-to") == Some(home.argument.as_str());
                let mut parts = modules().values().filter(part);
                parts.find_map(|part| Some((part.typedef(name)?, part)))
            };
            let (typedef, home) = own.map(|it| (it, home)).or_else(parts)?;
            schema(typedef.all("type").next()?, home, nested + 1)?
        }
    };
    match name {
        "union" => {
            let members: Option<Vec<Value>> =
                kind.all("type").map(|member| schema(member, module, nested + 1)).collect();
            made = json!({ "anyOf": members? });
        }
        "enumeration" => {
            let words: Vec<&str> = kind.all("enum").map(|one| one.argument.as_str()).collect();
            made = json!({ "type": "string", "enum": words });
        }
        "identityref" => {
            let base = kind.value("base")?;
            made = json!({ "type": "string", "enum": derived(base, module)? });
        }
        _ => {}
    }
    restrict(&mut made, kind);
    Some(made)
}

fn restrict(made: &mut Value, kind: &Statement) {
    if let Some(range) = kind.value("range").filter(|_| made["type"] == "integer") {
        let (low, high) = (made["minimum"].as_i64(), made["maximum"].as_i64());
        let parts = parts(range, low, high);
        if let (Some((low, _)), Some((_, high))) = (parts.first(), parts.last()) {
            made["minimum"] = (*low).into();
            made["maximum"] = (*high).into();
        }
        if parts.len() > 1 {
            let part = |(low, high): &(i64, i64)| json!({ "minimum": low, "maximum": high });
            made["anyOf"] = parts.iter().map(part).collect();
        }
    }
    if let Some(length) = kind.value("length") {
        let parts = parts(length, Some(0), Some(i64::MAX));
        if let (Some((low, _)), Some((_, high))) = (parts.first(), parts.last()) {
            made["minLength"] = (*low).into();
            if *high < i64::MAX {
                made["maxLength"] = (*high).into();
            }
        }
    }
    for pattern in kind.all("pattern") {
        let schema_part = json!({ "pattern": ecma(&pattern.argument) });
        let schema_part = match pattern.value("modifier") {
            Some("invert-match") => json!({ "not": schema_part }),
            _ => schema_part,
        };
        match made["allOf"].as_array_mut() {
            Some(all) => all.push(schema_part),
            None => made["allOf"] = json!([schema_part]),
        }
    }
}

/// `1..4 | 7` as pairs; `min` and `max` are the bounds of the base type.
fn parts(text: &str, low: Option<i64>, high: Option<i64>) -> Vec<(i64, i64)> {
    let bound = |text: &str| match text.trim() {
        "min" => low,
        "max" => high,
        number => number.parse().ok(),
    };
    let pair = |part: &str| {
        let (from, to) = part.split_once("..").unwrap_or((part, part));
        Some((bound(from)?, bound(to)?))
    };
    text.split('|').filter_map(pair).collect()
}

/// An XSD pattern as an ECMA pattern: XSD anchors it, and some character classes are unknown to many tools. Letters and
/// digits of other scripts are not included.
fn ecma(pattern: &str) -> String {
    let plain = pattern.replace("\\p{N}", "0-9").replace("\\p{L}", "a-zA-Z");
    format!("^({plain})$")
}

/// The identities that derive from `base`, in RFC 7951 form.
fn derived(base: &str, module: &'static Statement) -> Option<Vec<String>> {
    let whole = |name: &str, module: &Statement| match name.split_once(':') {
        Some((prefix, name)) => Some(format!("{}:{name}", module.imported(prefix)?)),
        None => Some(format!("{}:{name}", module.argument)),
    };
    let mut known = vec![whole(base, module)?];
    let mut found = Vec::new();
    loop {
        let before = found.len();
        for of in modules().values() {
            for identity in of.all("identity") {
                let name = format!("{}:{}", of.argument, identity.argument);
                let mut bases = identity.all("base").filter_map(|it| whole(&it.argument, of));
                if !known.contains(&name) && bases.any(|base| known.contains(&base)) {
                    known.push(name.clone());
                    found.push(name);
                }
            }
        }
        if found.len() == before {
            return (!found.is_empty()).then_some(found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::restconf::path;

    fn at(raw: &str) -> Value {
        of(&path::parse(raw).unwrap().node.unwrap())
    }

    #[test]
    fn types_have_their_limits() {
        let port = at("stoa-management:management/https/port");
        assert_eq!(port, json!({ "type": "integer", "minimum": 1, "maximum": 65_535 }));
        let file = at("stoa-management:management/https/key");
        assert_eq!((&file["minLength"], &file["maxLength"]), (&json!(1), &json!(1_024)));
        assert_eq!(file["allOf"], json!([{ "pattern": "^(/.*)$" }]));
        let hash = at("stoa-management:management/user=a/password-hash");
        assert!(hash["allOf"][0]["pattern"].as_str().unwrap().contains("argon2(id|i|d)"), "{hash}");
        let address = at("stoa-management:management/https/address=%3A%3A");
        assert_eq!(address["anyOf"].as_array().unwrap().len(), 2, "{address}");
        let lan = "ietf-interfaces:interfaces/interface=lan";
        let status = at(&format!("{lan}/oper-status"));
        assert!(
            status["enum"].as_array().unwrap().contains(&json!("lower-layer-down")),
            "{status}"
        );
        let kind = at(&format!("{lan}/type"));
        let kinds = kind["enum"].as_array().unwrap();
        assert!(kinds.contains(&json!("iana-if-type:ethernetCsmacd")) && kinds.len() > 100);
        let length = at(&format!("{lan}/ietf-ip:ipv4/address=10.0.0.1/prefix-length"));
        assert_eq!(length["maximum"], 32);
        let octets = at(&format!("{lan}/statistics/in-octets"));
        assert_eq!(octets, json!({ "type": "string", "pattern": "^[0-9]{1,20}$" }));
        let action = at("ietf-netconf-acm:nacm/rule-list=a/rule=b/action");
        assert_eq!(action["enum"], json!(["permit", "deny"]));
        assert_eq!(at(&format!("{lan}/enabled")), json!({ "type": "boolean" }));
    }

    #[test]
    fn every_leaf_has_a_type_that_its_base_allows() {
        let context = stoa_yang::schema().context();
        let mut odd = Vec::new();
        for module in context.modules(true).filter(|module| module.is_implemented()) {
            for node in module.data().flat_map(|top| top.traverse().collect::<Vec<_>>()) {
                let Some(kind) = node.leaf_type() else { continue };
                let made = of(&node);
                let expected =
                    kind.base_type() == DataValueType::LeafRef || agrees(&made, kind.base_type());
                if !expected {
                    odd.push(format!("{}:{} {made}", node.module().name(), node.name()));
                }
            }
        }
        assert!(odd.is_empty(), "{odd:#?}");
    }
}
