//! What a user without rights learns from the answers to changes: nothing.

use axum::body::Body;
use http::StatusCode;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::auth::account::Account;
use crate::auth::{Peer, sessions};
use crate::server::app;
use crate::server::app_state::AppState;

const CANDIDATE: &str = "/restconf/ds/ietf-datastores:candidate";
const RUNNING: &str = "/restconf/ds/ietf-datastores:running";
const JSON: &str = "application/yang-data+json";

struct Testbed {
    _folder: tempfile::TempDir,
    router: axum::Router,
    cookie: String,
}

fn memif(name: &str, secret: Option<&str>) -> Value {
    let socket = format!("/run/stoa/{name}.sock");
    let mut memif = json!({ "socket": socket, "role": "master" });
    if let Some(secret) = secret {
        memif["secret"] = secret.into();
    }
    json!({
        "name": name, "type": "iana-if-type:ethernetCsmacd",
        "stoa-interfaces:port": { "memif": memif },
    })
}

/// A router with secrets, and Ann with these rules.
fn testbed(rules: Value) -> Testbed {
    let folder = tempfile::tempdir().unwrap();
    let hash = crate::auth::password::hash("correct horse").unwrap();
    let text = json!({
        "ietf-interfaces:interfaces": { "interface": [
            memif("with", Some("right")),
            memif("without", None),
            { "name": "plain", "type": "iana-if-type:ethernetCsmacd", "description": "right",
              "stoa-interfaces:port": { "null": {} } },
        ] },
        "stoa-management:management": {
            "user": [
                { "name": "root", "password-hash": hash, "admin": true },
                { "name": "ann", "password-hash": hash },
                { "name": "bob" },
            ],
            "radius": { "server": [
                { "name": "first", "address": "192.0.2.20", "shared-secret": "right" },
            ] },
        },
        "ietf-netconf-acm:nacm": {
            "groups": { "group": [{ "name": "ops", "user-name": ["ann"] }] },
            "rule-list": [{ "name": "ops", "group": ["ops"], "rule": rules }],
        },
    });
    let app = AppState::new(&crate::tests::datastore(folder.path(), &text.to_string()));
    let management = app.management();
    let ann = Account::local(management.user.iter().find(|user| user.name == "ann").unwrap());
    let cookie = app.authenticator.sessions.begin(&ann, 10, std::time::Instant::now());
    let cookie = format!("{}={cookie}", sessions::COOKIE);
    Testbed { _folder: folder, router: app::router(&app), cookie }
}

fn rule(path: &str, operations: &str, action: &str) -> Value {
    let name = format!("{action} {operations} {path}");
    json!({ "name": name, "module-name": "*", "path": path, "access-operations": operations,
            "action": action })
}

impl Testbed {
    /// The status, the answer without its path, and the revision of the datastore.
    async fn ask(&self, method: &str, path: &str, body: &Value) -> (StatusCode, String, String) {
        let address = std::net::Ipv4Addr::LOCALHOST.into();
        let asked = format!("{path} {body}");
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", JSON)
            .header("cookie", &self.cookie)
            .header(sessions::HEADER, "1")
            .extension(Peer::at(address))
            .body(Body::from(body.to_string()))
            .unwrap();
        let response = self.router.clone().oneshot(request).await.unwrap();
        let status = response.status();
        let tag = response.headers().get("etag").map(|tag| tag.to_str().unwrap().to_owned());
        let bytes = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
        let mut text: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let error = text.pointer_mut("/ietf-restconf:errors/error/0");
        let error = error.and_then(|error| error.as_object_mut());
        let path = error.and_then(|error| error.remove("error-path"));
        // It is that of the request, or above.
        let path = path.map(|path| path.as_str().unwrap().to_owned()).unwrap_or_default();
        let is_asked = asked.contains("secret") || asked.contains("password-hash");
        assert!(is_asked || !path.contains("secret"), "{path}");
        (status, text.to_string(), tag.unwrap_or_default())
    }
}

fn secret(value: &str) -> Value {
    json!({ "stoa-interfaces:secret": value })
}

#[tokio::test]
async fn every_guess_at_a_secret_has_the_same_answer() {
    let testbed = testbed(json!([]));
    let radius = "stoa-management:management/radius/server=first/shared-secret";
    let memif = |name: &str| {
        format!("ietf-interfaces:interfaces/interface={name}/stoa-interfaces:port/memif/secret")
    };
    let at = |value: &str| json!({ "stoa-management:shared-secret": value });
    let server = |name: &str, value: &str| {
        let server = json!({ "name": name, "shared-secret": value });
        json!({ "stoa-management:radius": { "server": [server] } })
    };
    let hash = |user: &str| format!("stoa-management:management/user={user}/password-hash");
    let nothing = Value::Null;
    let above = "stoa-management:management/radius".to_owned();
    // Right, wrong, and absent.
    let guesses = [
        vec![("PUT", radius.to_owned(), at("right")), ("PUT", radius.to_owned(), at("wrong"))],
        vec![
            ("PATCH", above.clone(), server("first", "right")),
            ("PATCH", above.clone(), server("first", "wrong")),
            ("PATCH", above, server("none", "wrong")),
        ],
        vec![
            ("PUT", memif("with"), secret("right")),
            ("PUT", memif("with"), secret("wrong")),
            ("PUT", memif("without"), secret("right")),
            ("PUT", memif("plain"), secret("right")),
            ("PUT", memif("none"), secret("right")),
            ("PATCH", memif("with"), secret("right")),
            ("PATCH", memif("without"), secret("right")),
            ("DELETE", memif("with"), nothing.clone()),
            ("DELETE", memif("without"), nothing.clone()),
            ("DELETE", memif("none"), nothing.clone()),
            ("POST", memif("with").replace("/secret", ""), secret("right")),
            ("POST", memif("without").replace("/secret", ""), secret("right")),
            ("POST", memif("none").replace("/secret", ""), secret("right")),
        ],
        vec![("DELETE", hash("ann"), nothing.clone()), ("DELETE", hash("bob"), nothing)],
    ];
    for store in [CANDIDATE, RUNNING] {
        for same in &guesses {
            let mut answers = Vec::new();
            for (method, path, body) in same {
                let answer = testbed.ask(method, &format!("{store}/{path}"), body).await;
                assert_eq!(answer.0, StatusCode::FORBIDDEN, "{method} {path} {body}: {answer:?}");
                answers.push(answer);
            }
            assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
        }
    }
}

#[tokio::test]
async fn an_equal_value_needs_the_right_to_write_it_too() {
    let lan = "ietf-interfaces:interfaces/interface=plain";
    let testbed = testbed(json!([]));
    let text = |value: &str| json!({ "ietf-interfaces:description": value });
    for value in ["right", "wrong"] {
        let path = format!("{CANDIDATE}/{lan}/description");
        let answer = testbed.ask("PUT", &path, &text(value)).await;
        assert_eq!(answer.0, StatusCode::FORBIDDEN, "{value}: {answer:?}");
    }
    // Nodes above what is changed are named, but not changed.
    let description = "/ietf-interfaces:interfaces/interface/description";
    let testbed = self::testbed(json!([rule(description, "create update", "permit")]));
    let body = |value: &str, enabled: bool| {
        let mut entry = json!({ "name": "plain", "description": value });
        if enabled {
            entry["enabled"] = true.into();
        }
        json!({ "ietf-interfaces:interface": [entry] })
    };
    let patch = async |value: &str, enabled: bool| {
        testbed.ask("PATCH", &format!("{CANDIDATE}/{lan}"), &body(value, enabled)).await.0
    };
    assert_eq!(patch("new", false).await, StatusCode::NO_CONTENT);
    assert_eq!(patch("new", true).await, StatusCode::FORBIDDEN, "the default, but named");
}

#[tokio::test]
async fn a_value_that_may_be_written_but_not_read_stays_hidden() {
    let description = "/ietf-interfaces:interfaces/interface/description";
    let rules =
        json!([rule(description, "read", "deny"), rule(description, "create update", "permit")]);
    let path = format!("{CANDIDATE}/ietf-interfaces:interfaces/interface=plain/description");
    let mut answers = Vec::new();
    for value in ["right", "wrong"] {
        let testbed = testbed(rules.clone());
        let all = format!("{CANDIDATE}/ietf-interfaces:interfaces");
        let before = testbed.ask("GET", &all, &Value::Null).await.2;
        let body = json!({ "ietf-interfaces:description": value });
        let (status, text, tag) = testbed.ask("PUT", &path, &body).await;
        answers.push((status, text, tag != before));
    }
    assert_eq!(answers[0], answers[1]);
    assert_eq!((answers[0].0, answers[0].2), (StatusCode::NO_CONTENT, true));
    // With the right to create alone, a value that exists is refused, equal or not.
    let rules = json!([rule(description, "read", "deny"), rule(description, "create", "permit")]);
    let testbed = testbed(rules);
    for value in ["right", "wrong"] {
        let body = json!({ "ietf-interfaces:description": value });
        assert_eq!(testbed.ask("PUT", &path, &body).await.0, StatusCode::FORBIDDEN, "{value}");
    }
}

#[tokio::test]
async fn what_is_above_a_hidden_node_does_not_tell_whether_there_is_one() {
    let interface = "/ietf-interfaces:interfaces/interface";
    let testbed = testbed(json!([
        rule(&format!("{interface}/description"), "*", "deny"),
        // State is not changed, so it hides nothing here.
        rule(&format!("{interface}/statistics"), "*", "deny"),
        rule(&format!("{interface}[name='none']/enabled"), "*", "deny"),
        rule("/ietf-interfaces:interfaces", "*", "permit"),
    ]));
    let at = |name: &str| format!("{CANDIDATE}/ietf-interfaces:interfaces/interface={name}");
    let mut answers = Vec::new();
    // One of them has a description.
    for name in ["plain", "without"] {
        let entry = json!({ "ietf-interfaces:interface": [memif(name, None)] });
        answers.push(testbed.ask("PUT", &at(name), &entry).await);
        answers.push(testbed.ask("DELETE", &at(name), &Value::Null).await);
    }
    assert_eq!(answers[0].0, StatusCode::FORBIDDEN);
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    let other = format!("{}/stoa-interfaces:port", at("without"));
    let other = testbed.ask("DELETE", &other, &Value::Null).await;
    assert_ne!(other.0, StatusCode::FORBIDDEN, "nothing hidden can be below: {other:?}");
}

#[tokio::test]
async fn what_is_above_a_secret_does_not_tell_whether_there_is_one() {
    let testbed = testbed(json!([
        rule(
            "/ietf-interfaces:interfaces/interface/stoa-interfaces:port/memif/secret",
            "*",
            "deny"
        ),
        rule("/ietf-interfaces:interfaces", "*", "permit"),
    ]));
    let at = |name: &str| format!("{CANDIDATE}/ietf-interfaces:interfaces/interface={name}");
    let mut answers = Vec::new();
    for name in ["with", "without"] {
        let entry = json!({ "ietf-interfaces:interface": [memif(name, None)] });
        answers.push(testbed.ask("PUT", &at(name), &entry).await);
        answers.push(testbed.ask("DELETE", &at(name), &Value::Null).await);
        let port = format!("{}/stoa-interfaces:port", at(name));
        answers.push(testbed.ask("DELETE", &port, &Value::Null).await);
    }
    assert_eq!(answers[0].0, StatusCode::FORBIDDEN);
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    let other = testbed.ask("DELETE", &at("plain"), &Value::Null).await;
    assert_eq!(other.0, StatusCode::NO_CONTENT, "a port that cannot have one: {other:?}");
}
