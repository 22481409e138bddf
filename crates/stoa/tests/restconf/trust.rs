//! What holds against users without rights, and across a restart of the controller.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::https::{Answer, Router};
use crate::testbed::{ANN, JSON, LAN, ROOT, router};

impl Router {
    fn stoa(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stoa"));
        command.args(words).arg("--socket").arg(self.path("stoa.sock")).output().unwrap()
    }

    fn status(&self) -> Value {
        let output = self.stoa(&["status", "--json"]);
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    fn in_clear(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

#[test]
fn a_restart_of_the_controller_ends_no_session_and_no_token() {
    let router = router();
    let kind = ("Content-Type", "application/json");
    let right = r#"{"user": "ann", "password": "correct horse"}"#;
    let answer = router.ask("", "POST", "/login", &[kind], right);
    assert_eq!(answer.status, 200, "{answer:?}");
    let cookie = answer.field("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let made = router.ask(ANN, "POST", "/tokens", &[kind], r#"{"name": "script"}"#).json();
    let bearer = format!("Bearer {}", made["token"].as_str().unwrap());
    let who = |field: (&str, &str)| router.ask("", "GET", "/whoami", &[field], "");
    let both = || [who(("Cookie", &cookie)), who(("Authorization", &bearer))];
    let statuses = || both().map(|answer: Answer| answer.status);
    assert_eq!(statuses(), [200, 200]);
    let file = router.path("stoa.state/sessions.json");
    router.wait("the session is stored", || {
        std::fs::read_to_string(&file).is_ok_and(|text| text.contains("\"ann\""))
    });
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(!text.contains(cookie.split_once('=').unwrap().1), "only the digest is stored");
    // Killed, so that it has no time to save anything.
    let before = router.status()["controller_pid"].as_u64().unwrap();
    Command::new("/bin/kill").args(["-KILL", &before.to_string()]).status().unwrap();
    router.wait("another controller serves", || {
        let status = router.status();
        status["in_sync"] == true && status["controller_pid"] != before
    });
    router.wait("the server listens", || TcpStream::connect(("127.0.0.1", router.port)).is_ok());
    assert_eq!(statuses(), [200, 200]);
    // A new password ends both.
    let hash = crate::https::hash();
    let user = json!({ "stoa-management:user": [{ "name": "ann", "password-hash": hash }] });
    let path = "/restconf/data/stoa-management:management/user=ann";
    let patched = router.ask(ROOT, "PATCH", path, &[JSON], &user.to_string());
    assert_eq!(patched.status, 204, "{patched:?}");
    assert_eq!(statuses(), [401, 401]);
}

#[test]
fn refused_requests_are_counted_beside_the_audit_log() {
    let router = router();
    let text = json!({ "ietf-interfaces:description": "new" }).to_string();
    assert_eq!(router.ask(ROOT, "PUT", &format!("{LAN}/description"), &[JSON], &text).status, 201);
    let enabled = json!({ "ietf-interfaces:enabled": true }).to_string();
    for _ in 0..30 {
        // The default value: equal or not, Ann may not write it.
        let refused = router.ask(ANN, "PUT", &format!("{LAN}/enabled"), &[JSON], &enabled);
        assert_eq!(refused.status, 403, "{refused:?}");
    }
    let lines = |name: &str| -> Vec<Value> {
        let log = std::fs::read_to_string(router.path("stoa.state").join(name));
        let log = log.unwrap_or_default();
        log.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let actions = lines("audit.log");
    assert!(actions.iter().any(|line| line["user"] == "root"), "{actions:?}");
    assert!(actions.iter().all(|line| line["user"] != "ann"), "{actions:?}");
    assert_eq!(lines("audit-refused.log").len(), 10);
    // The others are counted; the count is written at the end at the latest.
    let controller = router.status()["controller_pid"].as_u64().unwrap();
    Command::new("/bin/kill").args(["-TERM", &controller.to_string()]).status().unwrap();
    router.wait("the count is written", || lines("audit-refused.log").len() == 11);
    assert_eq!(lines("audit-refused.log")[10]["count"], 20);
}

#[test]
fn plain_http_is_answered_with_the_address_for_https() {
    let router = router();
    let port = router.port;
    let get = router.in_clear(&format!("GET /x HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n"));
    assert!(get.starts_with("HTTP/1.1 308 "), "{get}");
    assert!(get.contains(&format!("Location: https://localhost:{port}/x\r\n")), "{get}");
    let post = router.in_clear("POST /login HTTP/1.1\r\nHost: localhost\r\n\r\n{}");
    assert!(post.starts_with("HTTP/1.1 400 "), "{post}");
    assert!(post.contains(&format!("use https://localhost:{port}/login")), "{post}");
}

#[test]
fn the_status_tells_what_is_pending_and_what_is_not_served() {
    let router = router();
    let text = || String::from_utf8(router.stoa(&["status"]).stdout).unwrap();
    assert!(!text().contains("HTTPS") && !text().contains("unconfirmed"), "{}", text());
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let set = ["set", "management", "https", "port", &port];
    assert!(router.stoa(&set).status.success());
    assert!(text().contains("uncommitted changes"), "{}", text());
    assert!(router.stoa(&["commit", "confirmed", "5"]).status.success());
    router.wait("the status tells it", || {
        let text = text();
        text.contains(&format!("HTTPS          not served on 127.0.0.1:{port}: Address"))
            && text.contains("unconfirmed    a commit of ")
    });
    assert_eq!(router.status()["https_problems"].as_array().unwrap().len(), 1);
    drop(taken);
    router.wait("it is served", || router.status()["https_problems"] == json!([]));
}
