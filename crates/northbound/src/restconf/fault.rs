//! Errors of RFC 8040, section 7: status, type, tag, path and message, in JSON or XML.

use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode, header};
use serde_json::{Map, Value, json};
use stoa_api::v1::ValidationError;
use stoa_controller::datastore::Refusal;

use super::media::{Media, escape};
use crate::auth::Denied;
use crate::server::app_state::BodyError;

/// Namespace of ietf-restconf.
pub const NAMESPACE: &str = "urn:ietf:params:xml:ns:yang:ietf-restconf";

/// One error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    status: StatusCode,
    kind: &'static str,
    tag: &'static str,
    path: String,
    message: String,
}

/// The errors of a refused request, and header fields of the response.
#[derive(Clone, Debug)]
pub struct Faults {
    list: Vec<Fault>,
    fields: HeaderMap,
}

impl Fault {
    /// A protocol error.
    pub fn protocol(status: StatusCode, tag: &'static str, message: impl Into<String>) -> Fault {
        Fault { status, kind: "protocol", tag, path: String::new(), message: message.into() }
    }

    /// An error in the data.
    pub fn application(status: StatusCode, tag: &'static str, message: impl Into<String>) -> Fault {
        Fault { kind: "application", ..Fault::protocol(status, tag, message) }
    }

    /// The error with its data path.
    pub fn at(self, path: impl Into<String>) -> Fault {
        Fault { path: path.into(), ..self }
    }

    /// The resource does not exist.
    pub fn nowhere(message: impl Into<String>) -> Fault {
        Fault::protocol(StatusCode::NOT_FOUND, "invalid-value", message)
    }

    /// An invalid value.
    pub fn value(message: impl Into<String>) -> Fault {
        Fault::protocol(StatusCode::BAD_REQUEST, "invalid-value", message)
    }

    /// A body that cannot be parsed.
    pub fn malformed(message: impl Into<String>) -> Fault {
        Fault::protocol(StatusCode::BAD_REQUEST, "malformed-message", message)
    }

    /// A method that the resource does not support.
    pub fn unsupported(message: impl Into<String>) -> Fault {
        let status = StatusCode::METHOD_NOT_ALLOWED;
        Fault::protocol(status, "operation-not-supported", message)
    }

    /// The access rules do not permit the request.
    pub fn forbidden(path: impl Into<String>) -> Fault {
        let words = "the access rules do not permit this: see /ietf-netconf-acm:nacm";
        Fault::application(StatusCode::FORBIDDEN, "access-denied", words).at(path)
    }

    /// An internal error.
    pub fn broken(message: impl Into<String>) -> Fault {
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        Fault::application(status, "operation-failed", message)
    }

    fn json(&self) -> Value {
        let mut error = Map::new();
        error.insert("error-type".into(), self.kind.into());
        error.insert("error-tag".into(), self.tag.into());
        if is_path(&self.path) {
            error.insert("error-path".into(), self.path.as_str().into());
        }
        error.insert("error-message".into(), self.message.as_str().into());
        Value::Object(error)
    }

    fn xml(&self) -> String {
        let mut path = String::new();
        if is_path(&self.path) {
            let (namespaces, prefixed) = prefixed(&self.path);
            path = format!("<error-path{namespaces}>{}</error-path>", escape(&prefixed));
        }
        let Fault { kind, tag, message, .. } = self;
        format!(
            "<error><error-type>{kind}</error-type><error-tag>{tag}</error-tag>{path}\
             <error-message>{}</error-message></error>",
            escape(message)
        )
    }
}

/// Whether the path is a data path, for `error-path`. Validation errors may also name files and lines.
fn is_path(path: &str) -> bool {
    let first = path.strip_prefix('/').and_then(|rest| rest.split(['/', '[']).next());
    first.is_some_and(|first| first.contains(':')) && !path.contains(" (line ")
}

/// A data path with a module prefix on every name, as XML requires, and the namespaces of these prefixes.
fn prefixed(path: &str) -> (String, String) {
    let mut modules: Vec<String> = Vec::new();
    let mut out = String::new();
    let mut module = String::new();
    let mut quote = None;
    let mut rest = path;
    while let Some(letter) = rest.chars().next() {
        rest = &rest[letter.len_utf8()..];
        out.push(letter);
        match (letter, quote) {
            (_, Some(open)) => quote = (letter != open).then_some(open),
            ('\'' | '"', None) => quote = Some(letter),
            ('/' | '[', None) => {
                let end = rest.find(['/', '[', '=', ']']).unwrap_or(rest.len());
                let name = &rest[..end];
                if let Some((own, _)) = name.split_once(':') {
                    module = own.to_owned();
                } else if name != "." && !name.is_empty() {
                    out.push_str(&module);
                    out.push(':');
                }
                if !modules.contains(&module) {
                    modules.push(module.clone());
                }
            }
            _ => {}
        }
    }
    let context = stoa_yang::schema().context();
    let declared = modules.iter().filter_map(|name| {
        let module = context.get_module_implemented(name)?;
        Some(format!(" xmlns:{name}=\"{}\"", escape(module.namespace())))
    });
    (declared.collect(), out)
}

impl Faults {
    /// The response.
    pub fn response(&self, media: Media) -> Response {
        let status = self.list.first().map_or(StatusCode::BAD_REQUEST, |first| first.status);
        let body = match media {
            Media::Json => {
                let list: Vec<Value> = self.list.iter().map(Fault::json).collect();
                format!("{}\n", json!({ "ietf-restconf:errors": { "error": list } }))
            }
            Media::Xml => {
                let list: String = self.list.iter().map(Fault::xml).collect();
                format!("<errors xmlns=\"{NAMESPACE}\">{list}</errors>\n")
            }
        };
        let kind = [(header::CONTENT_TYPE, media.name())];
        (status, kind, self.fields.clone(), body).into_response()
    }

    /// A short form for the audit log.
    pub fn words(&self) -> String {
        let first = self.list.first();
        first.map_or_else(String::new, |one| format!("{} {}", one.tag, one.message))
    }

    /// All errors as text, each with its data path if it has one.
    pub fn messages(&self) -> Vec<String> {
        let one = |fault: &Fault| match is_path(&fault.path) {
            true => format!("{}: {}", fault.path, fault.message),
            false => fault.message.clone(),
        };
        self.list.iter().map(one).collect()
    }

    /// The status of the response.
    pub fn status(&self) -> StatusCode {
        self.list.first().map_or(StatusCode::BAD_REQUEST, |first| first.status)
    }

    /// Adds a header field.
    pub fn with(mut self, name: header::HeaderName, value: header::HeaderValue) -> Faults {
        self.fields.insert(name, value);
        self
    }
}

impl From<Fault> for Faults {
    fn from(fault: Fault) -> Faults {
        Faults { list: vec![fault], fields: HeaderMap::new() }
    }
}

/// Validation errors of the configuration, each with its cause and fix.
pub fn of_errors(status: StatusCode, tag: &'static str, errors: Vec<ValidationError>) -> Faults {
    let fault = |error: ValidationError| {
        let ValidationError { path, cause, fix, .. } = error;
        let place = path.split(" (line ").next().unwrap_or_default();
        // A path that is not a data path goes into the message.
        let before = if is_path(place) || place == "/" { "" } else { place };
        let colon = if before.is_empty() { "" } else { ": " };
        Fault::application(status, tag, format!("{before}{colon}{cause}. {fix}")).at(place)
    };
    Faults { list: errors.into_iter().map(fault).collect(), fields: HeaderMap::new() }
}

impl From<Refusal> for Faults {
    fn from(refusal: Refusal) -> Faults {
        let (status, tag) = match &refusal {
            Refusal::Invalid(_) => (StatusCode::BAD_REQUEST, "invalid-value"),
            // RFC 8040, section 1.4.
            Refusal::Locked(_) => (StatusCode::CONFLICT, "in-use"),
            Refusal::Exists(_) => (StatusCode::CONFLICT, "data-exists"),
            Refusal::Missing(_) => (StatusCode::NOT_FOUND, "invalid-value"),
            Refusal::Stale => (StatusCode::PRECONDITION_FAILED, "operation-failed"),
            Refusal::Unreachable(_) | Refusal::Disk(_) => {
                (StatusCode::SERVICE_UNAVAILABLE, "operation-failed")
            }
            _ => (StatusCode::CONFLICT, "resource-denied"),
        };
        of_errors(status, tag, refusal.errors())
    }
}

impl Faults {
    /// A failed authentication.
    pub fn denied(denied: &Denied, asked: &HeaderMap) -> Faults {
        let fault = Fault::protocol(denied.status(), "access-denied", denied.words());
        Faults { list: vec![fault], fields: denied.fields(asked) }
    }
}

impl From<BodyError> for Faults {
    fn from(unread: BodyError) -> Faults {
        let tag = match unread {
            BodyError::TooLarge(_) => "too-big",
            _ => "malformed-message",
        };
        Fault::protocol(unread.status(), tag, unread.words()).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_the_form_of_each_encoding() {
        let path = "/ietf-interfaces:interfaces/interface[name='a/b']/ietf-ip:ipv4/mtu";
        let fault = Fault::value("too <small>").at(path);
        assert_eq!(fault.json()["error-path"], path);
        let xml = fault.xml();
        let there = "/ietf-interfaces:interfaces/ietf-interfaces:interface\
                     [ietf-interfaces:name='a/b']/ietf-ip:ipv4/ietf-ip:mtu";
        assert!(xml.contains(&escape(there)), "{xml}");
        assert!(xml.contains("xmlns:ietf-ip=\"urn:ietf:params:xml:ns:yang:ietf-ip\""), "{xml}");
        assert!(xml.contains("too &lt;small&gt;"), "{xml}");
        let file = Fault::value("wrong").at("stoa.json:3:1");
        assert!(file.json().get("error-path").is_none());
    }
}
