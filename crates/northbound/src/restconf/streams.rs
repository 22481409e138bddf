//! Event streams (RFC 8040, section 6) by server-sent events: what happens to the datastores, as it happens.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::response::sse::{Event as Sent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream};
use http::Method;
use serde_json::{Value, json};
use stoa_controller::datastore::Event;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::fault::{Fault, Faults};
use super::media::{Media, escape};
use super::{Call, not_allowed, options, rpc};
use crate::audit::timestamp;
use crate::auth::Identity;
use crate::nacm::Rights;
use crate::server::front::Front;

/// The streams, and what comes by each.
pub const STREAMS: &[(&str, &str)] =
    &[("configuration", "Changes of the candidate and of what is in force.")];
/// How often a silent stream says that it lives.
const ALIVE: Duration = Duration::from_secs(15);
/// Differences that one event tells.
const CHANGES: usize = 100;
/// The namespace of notifications (RFC 5277).
const NAMESPACE: &str = "urn:ietf:params:xml:ns:netconf:notification:1.0";

/// Answers a request for a stream, `NAME/json` or `NAME/xml`.
pub fn serve(call: Call, below: &str) -> Result<Response, Faults> {
    let (name, encoding) = below.split_once('/').unwrap_or((below, "json"));
    let media = match encoding {
        "json" => Media::Json,
        "xml" => Media::Xml,
        _ => return Err(Fault::nowhere("a stream comes as json or xml").into()),
    };
    if !STREAMS.iter().any(|(one, _)| *one == name) {
        return Err(Fault::nowhere("there is no such stream").into());
    }
    match call.parts.method {
        Method::GET => {}
        Method::OPTIONS => return Ok(options("OPTIONS, GET")),
        _ => return Err(not_allowed("OPTIONS, GET")),
    }
    if call.parts.uri.query().is_some_and(|query| !query.is_empty()) {
        let words = "a stream has no parameters: what is past cannot be heard again";
        return Err(Fault::value(words).into());
    }
    let listener = Listener {
        events: call.front.datastore.subscribe(),
        front: Arc::clone(&call.front),
        identity: call.identity,
        media,
    };
    let alive = KeepAlive::new().interval(ALIVE);
    Ok(Sse::new(listener.stream()).keep_alive(alive).into_response())
}

/// Somebody who listens.
struct Listener {
    events: Receiver<Event>,
    front: Arc<Front>,
    identity: Identity,
    media: Media,
}

impl Listener {
    fn stream(self) -> impl Stream<Item = Result<Sent, std::convert::Infallible>> {
        stream::unfold(self, |mut listener| async move {
            loop {
                match listener.events.recv().await {
                    Ok(event) => {
                        // A user who was removed, or whose proof is not good any more, hears no more.
                        let management = listener.front.management();
                        let again = listener.front.gate.again(&management, &listener.identity);
                        listener.identity = again?;
                        if let Some(text) = listener.text(&event) {
                            return Some((Ok(Sent::default().data(text)), listener));
                        }
                    }
                    // Some were lost to a slow client; those after it are told.
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return None,
                }
            }
        })
    }

    /// The notification, when the client may hear it.
    fn text(&self, event: &Event) -> Option<String> {
        let management = self.front.management();
        let rights = Rights::of(&self.identity, &management);
        let (name, content) = match event {
            Event::Edited => ("edited", json!({})),
            Event::Changed { author, number, changes } => {
                let seen: Vec<Value> =
                    changes.iter().filter_map(|it| rpc::change(it, &rights)).collect();
                let mut content = json!({
                    "author": author.name, "door": author.door.to_string(),
                });
                if *number > 0 {
                    content["number"] = number.to_string().into();
                }
                let more = seen.len().saturating_sub(CHANGES);
                content["change"] = seen.into_iter().take(CHANGES).collect();
                if more > 0 {
                    content["more"] = more.into();
                }
                ("changed", content)
            }
        };
        if !rights.may_hear("stoa-datastore", name) {
            return None;
        }
        let time = timestamp(SystemTime::now());
        Some(match self.media {
            Media::Json => {
                let whole = json!({
                    "eventTime": time, format!("stoa-datastore:{name}"): content,
                });
                json!({ "ietf-restconf:notification": whole }).to_string()
            }
            Media::Xml => format!(
                "<notification xmlns=\"{NAMESPACE}\"><eventTime>{time}</eventTime>\
                 <{name} xmlns=\"urn:stoa:yang:stoa-datastore\">{}</{name}></notification>",
                elements(&content)
            ),
        })
    }
}

/// Plain members as elements of one namespace.
fn elements(value: &Value) -> String {
    let Some(members) = value.as_object() else { return String::new() };
    let mut out = String::new();
    for (name, value) in members {
        let entries = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        for entry in entries {
            let inside = match entry {
                Value::Object(_) => elements(entry),
                Value::String(text) => escape(text),
                other => other.to_string(),
            };
            out.push_str(&format!("<{name}>{inside}</{name}>"));
        }
    }
    out
}
