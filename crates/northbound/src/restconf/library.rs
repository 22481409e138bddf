//! The YANG library (RFC 8525), the capabilities of the server (RFC 8040, section 9), and the modules themselves.

use axum::response::{IntoResponse, Response};
use http::{Method, header};
use serde_json::{Value, json};
use yang5::data::DataTree;

use super::call::{Call, LIBRARY, ROOT, not_allowed, options};
use super::fault::{Fault, Faults};
use super::streams::STREAMS;

/// The supported optional parts of RFC 8040.
const CAPABILITIES: &[&str] = &[
    "urn:ietf:params:restconf:capability:defaults:1.0?basic-mode=explicit",
    "urn:ietf:params:restconf:capability:depth:1.0",
    "urn:ietf:params:restconf:capability:fields:1.0",
    "urn:ietf:params:restconf:capability:with-defaults:1.0",
];

/// Whether data of this module comes from here, not from a datastore.
pub fn is_generated(module: &str) -> bool {
    ["ietf-yang-library", "ietf-restconf-monitoring"].contains(&module)
}

/// The data of these modules, for a client that reaches the machine by the name `host`.
///
/// # Errors
/// When they do not match their modules, which is an internal error.
pub fn facts(host: &str) -> Result<DataTree<'static>, Fault> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || ".-:[]".contains(letter);
    let host = Some(host).filter(|host| !host.is_empty() && host.chars().all(is_plain));
    let base = format!("https://{}{ROOT}", host.unwrap_or("localhost"));
    let streams: Vec<Value> = STREAMS.iter().map(|it| stream(&base, it)).collect();
    let text = json!({
        "ietf-yang-library:yang-library": library(&base),
        "ietf-restconf-monitoring:restconf-state": {
            "capabilities": { "capability": CAPABILITIES },
            "streams": { "stream": streams },
        },
    });
    stoa_yang::schema().state(&text.to_string()).map_err(Fault::broken)
}

fn stream(base: &str, (name, description): &(&str, &str)) -> Value {
    let access = ["json", "xml"].map(|encoding| {
        json!({ "encoding": encoding, "location": format!("{base}/streams/{name}/{encoding}") })
    });
    json!({
        "name": name, "description": description, "replay-support": false,
        "access": Vec::from(access),
    })
}

fn library(base: &str) -> Value {
    let (mut implemented, mut imported) = (Vec::new(), Vec::new());
    for module in stoa_yang::schema().context().modules(false) {
        let name = module.name();
        let revision = module.revision().unwrap_or_default();
        let mut one = json!({ "name": name, "namespace": module.namespace() });
        if !revision.is_empty() || !module.is_implemented() {
            one["revision"] = revision.into();
        }
        if stoa_yang::source(name).is_some() {
            one["location"] = json!([location(base, name, revision)]);
        }
        let of = stoa_yang::SUBMODULES.iter().filter(|(_, of)| *of == name);
        let parts: Vec<Value> = of
            .map(|(part, _)| json!({ "name": part, "location": [location(base, part, "")] }))
            .collect();
        if !parts.is_empty() {
            one["submodule"] = parts.into();
        }
        if module.is_implemented() { implemented.push(one) } else { imported.push(one) }
    }
    let stores = ["running", "candidate", "startup", "operational"].map(|name| {
        let name = format!("ietf-datastores:{name}");
        json!({ "name": name, "schema": "all" })
    });
    json!({
        "module-set": [{
            "name": "all", "module": implemented, "import-only-module": imported,
        }],
        "schema": [{ "name": "all", "module-set": ["all"] }],
        "datastore": Vec::from(stores),
        // The schema is fixed for a version of the program.
        "content-id": format!("{}-{LIBRARY}", env!("CARGO_PKG_VERSION")),
    })
}

fn location(base: &str, name: &str, revision: &str) -> String {
    let at = if revision.is_empty() { "" } else { "@" };
    format!("{base}/schemas/{name}{at}{revision}.yang")
}

/// `GET /restconf/schemas/NAME[@REVISION][.yang]`: the text of a module.
pub fn schema(call: &Call, below: &str) -> Result<Response, Faults> {
    match call.parts.method {
        Method::GET | Method::HEAD => {}
        Method::OPTIONS => return Ok(options("OPTIONS, GET, HEAD")),
        _ => return Err(not_allowed("OPTIONS, GET, HEAD")),
    }
    let name = below.strip_suffix(".yang").unwrap_or(below);
    let (name, revision) = name.split_once('@').unwrap_or((name, ""));
    let text = stoa_yang::source(name).filter(|text| {
        revision.is_empty()
            || text.contains(&format!("revision {revision}"))
            || text.contains(&format!("revision \"{revision}\""))
    });
    let text = text.ok_or_else(|| {
        Fault::nowhere("no such module or revision: see ietf-yang-library:yang-library")
    })?;
    Ok(([(header::CONTENT_TYPE, "application/yang")], text).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;
    use yang5::data::{Data, DataFormat, DataPrinterFlags};

    #[test]
    fn facts_fit_their_modules() {
        let facts = facts("router.example:8443").unwrap();
        let text = facts.print_string(DataFormat::JSON, DataPrinterFlags::WITH_SIBLINGS);
        let text = text.unwrap();
        assert!(text.contains("stoa-management"), "{text}");
        assert!(text.contains("capability:depth"), "{text}");
    }
}
