//! Event streams (RFC 8040, section 6) as server-sent events: changes of the datastores and of links.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::response::sse::{Event as Sent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream};
use http::{Method, StatusCode};
use serde_json::{Value, json};
use stoa_controller::datastore::{Change, Client, Event};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::call::{Call, not_allowed, options};
use super::fault::{Fault, Faults};
use super::media::{Media, escape};
use super::{operation, path};
use crate::audit::timestamp;
use crate::auth::Identity;
use crate::nacm::{Operation, Rights};
use crate::server::app_state::{AppState, peer};
use crate::server::links::Link;
use crate::server::quota::{QuotaSlot, quarter};

/// The streams and their descriptions.
pub const STREAMS: &[(&str, &str)] = &[
    ("configuration", "Changes of the candidate and running datastores."),
    ("interfaces", "Interfaces that go up or down."),
];
/// Interval of keepalives on an idle stream.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// Maximum number of changes in an event.
const CHANGES: usize = 100;
/// Maximum number of changes that are checked for an event.
const LOOKED_AT: usize = 10_000;
/// Maximum size of the changes in an event, in bytes.
const EVENT_BYTES: usize = 64 << 10;
/// Maximum size of a value in an event, in bytes.
const VALUE_BYTES: usize = 4 << 10;
/// Concurrent streams: each may hold a few events of that size.
const SUBSCRIBERS_LIMIT: usize = 128;
/// The namespace of notifications (RFC 5277).
const NAMESPACE: &str = "urn:ietf:params:xml:ns:netconf:notification:1.0";

/// Answers a request for a stream, `NAME/json` or `NAME/xml`.
pub fn serve(call: Call, below: &str) -> Result<Response, Faults> {
    let (name, encoding) = below.split_once('/').unwrap_or((below, "json"));
    let media = match encoding {
        "json" => Media::Json,
        "xml" => Media::Xml,
        _ => return Err(Fault::nowhere("a stream is available as json or xml").into()),
    };
    if !STREAMS.iter().any(|(one, _)| *one == name) {
        return Err(Fault::nowhere("no such stream: use configuration or interfaces").into());
    }
    match call.parts.method {
        Method::GET => {}
        Method::OPTIONS => return Ok(options("OPTIONS, GET")),
        _ => return Err(not_allowed("OPTIONS, GET")),
    }
    if call.parts.uri.query().is_some_and(|query| !query.is_empty()) {
        let words = "a stream has no parameters: replay is not supported";
        return Err(Fault::value(words).into());
    }
    let from = peer(&call.parts).address;
    let (user, most) = (Some(call.identity.name.as_str()), quarter(SUBSCRIBERS_LIMIT));
    let quota = call.app.listeners.take(from, user, most, SUBSCRIBERS_LIMIT);
    let quota = quota.ok_or_else(|| {
        let words = format!(
            "too many event streams: the limit is {SUBSCRIBERS_LIMIT}, and {most} for one user or address: \
             close one"
        );
        Fault::application(StatusCode::TOO_MANY_REQUESTS, "resource-denied", words)
    })?;
    let source = match name {
        "interfaces" => EventSource::Interfaces(call.app.links.subscribe()),
        _ => EventSource::Configuration(call.app.datastore.subscribe()),
    };
    let app = Arc::clone(&call.app);
    let subscriber = Subscriber { source, app, identity: call.identity, media, _share: quota };
    let alive = KeepAlive::new().interval(KEEPALIVE_INTERVAL);
    Ok(Sse::new(subscriber.stream()).keep_alive(alive).into_response())
}

/// The source of a stream.
enum EventSource {
    Configuration(Receiver<Event>),
    Interfaces(Receiver<Link>),
}

/// An event.
enum StreamEvent {
    Configuration(Event),
    Interface(Link),
}

impl EventSource {
    async fn next(&mut self) -> Result<StreamEvent, RecvError> {
        match self {
            EventSource::Configuration(events) => {
                events.recv().await.map(StreamEvent::Configuration)
            }
            EventSource::Interfaces(links) => links.recv().await.map(StreamEvent::Interface),
        }
    }
}

/// A subscriber.
struct Subscriber {
    source: EventSource,
    app: Arc<AppState>,
    identity: Identity,
    media: Media,
    _share: QuotaSlot,
}

impl Subscriber {
    fn stream(self) -> impl Stream<Item = Result<Sent, std::convert::Infallible>> {
        stream::unfold(self, |mut subscriber| async move {
            loop {
                match subscriber.source.next().await {
                    Ok(event) => {
                        // A removed user, or one whose credentials are no longer valid, receives no more.
                        let management = subscriber.app.management();
                        let again = subscriber
                            .app
                            .authenticator
                            .reauthenticate(&management, &subscriber.identity);
                        subscriber.identity = again?;
                        if let Some(text) = subscriber.text(&event) {
                            return Some((Ok(Sent::default().data(text)), subscriber));
                        }
                    }
                    // A slow client lost some events; it receives the later ones.
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return None,
                }
            }
        })
    }

    /// The notification, if the client may receive it.
    fn text(&self, event: &StreamEvent) -> Option<String> {
        let management = self.app.management();
        let rights = Rights::of(&self.identity, &management);
        let (module, name, content) = match event {
            StreamEvent::Configuration(Event::Edited) => ("stoa-datastore", "edited", json!({})),
            StreamEvent::Configuration(Event::Changed { author, number, changes }) => {
                let content = changed(&author.name, author.client, *number, changes, &rights);
                ("stoa-datastore", "changed", content)
            }
            StreamEvent::Interface(link) => {
                if !may_see(&rights, &link.name) {
                    return None;
                }
                let status = if link.is_up { "up" } else { "down" };
                let content = json!({ "name": link.name, "oper-status": status });
                ("stoa-interfaces", "interface-state-changed", content)
            }
        };
        if !rights.may_receive(module, name) {
            return None;
        }
        let time = timestamp(SystemTime::now());
        Some(match self.media {
            Media::Json => {
                let whole = json!({ "eventTime": time, format!("{module}:{name}"): content });
                json!({ "ietf-restconf:notification": whole }).to_string()
            }
            Media::Xml => format!(
                "<notification xmlns=\"{NAMESPACE}\"><eventTime>{time}</eventTime>\
                 <{name} xmlns=\"urn:stoa:yang:{module}\">{}</{name}></notification>",
                elements(&content)
            ),
        })
    }
}

/// Whether the client may read whether an interface is up.
fn may_see(rights: &Rights<'_>, interface: &str) -> bool {
    let status = path::below(path::interface(interface), "ietf-interfaces", "oper-status");
    rights.may(Operation::Read, &status)
}

/// The content of a change of running. A large one is cut: every subscriber may have to store it.
fn changed(
    author: &str,
    client: Client,
    number: u64,
    changes: &[Change],
    rights: &Rights<'_>,
) -> Value {
    let mut content = json!({ "author": author, "client": client.to_string() });
    if number > 0 {
        content["number"] = number.to_string().into();
    }
    let (mut reported, mut bytes, mut more) = (Vec::new(), 0, 0);
    for change in changes.iter().take(LOOKED_AT) {
        let Some(mut value) = operation::change(change, rights) else { continue };
        for name in ["old", "new"] {
            if let Some(Value::String(text)) = value.get_mut(name) {
                shorten(text);
            }
        }
        bytes += value.to_string().len();
        match reported.len() < CHANGES && bytes <= EVENT_BYTES {
            true => reported.push(value),
            false => more += 1,
        }
    }
    if rights.is_whole() {
        more += changes.len().saturating_sub(LOOKED_AT);
    }
    content["change"] = reported.into();
    if more > 0 {
        content["more"] = more.into();
    }
    content
}

/// Cuts a value that is too long for an event.
fn shorten(text: &mut String) {
    if text.len() > VALUE_BYTES {
        let end = (0..=VALUE_BYTES).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
        text.push('\u{2026}');
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Proof;
    use stoa_controller::config::management::Management;
    use stoa_controller::datastore::Kind;

    #[test]
    fn link_changes_need_the_right_to_the_status() {
        let may = |path: &str| {
            let may = |rights: &Rights<'_>| ["lan", "wan"].map(|name| may_see(rights, name));
            crate::tests::with_denied("*", Some(path), may)
        };
        let lan = "/ietf-interfaces:interfaces/interface[name='lan']";
        assert_eq!(may(lan), [false, true]);
        assert_eq!(may(&format!("{lan}/oper-status")), [false, true]);
        assert_eq!(may("/ietf-interfaces:interfaces/interface/oper-status"), [false, false]);
        assert_eq!(may(&format!("{lan}/description")), [true, true]);
    }

    #[test]
    fn an_event_is_small_whatever_changed() {
        let management = Management::default();
        let identity = Identity {
            name: "root".into(),
            groups: vec![],
            is_admin: true,
            proof: Proof::Password,
            digest: String::new(),
        };
        let rights = Rights::of(&identity, &management);
        let long = "\u{e9}".repeat(16 << 20);
        let change = Change {
            kind: Kind::Replace,
            path: "/ietf-interfaces:interfaces/interface[name='lan']/description".into(),
            old: Some(long.clone()),
            new: Some("short".into()),
        };
        let mut changes = vec![change];
        let short = Change { old: None, ..changes[0].clone() };
        changes.extend(std::iter::repeat_n(short, 20_000));
        let event = changed("root", Client::Restconf, 7, &changes, &rights);
        assert!(event.to_string().len() < 2 * EVENT_BYTES, "{}", event.to_string().len());
        assert_eq!(event["change"].as_array().unwrap().len(), CHANGES);
        assert_eq!(event["more"], 20_001 - CHANGES);
        assert_eq!(event["change"][1]["new"], "short");
        let old = event["change"][0]["old"].as_str().unwrap();
        assert!(old.len() <= VALUE_BYTES + 3 && old.ends_with('\u{2026}'));
    }
}
