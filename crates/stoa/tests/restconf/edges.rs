//! Edge cases: implicit containers, order, locks, disconnects, and the client's own access.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use base64::Engine;
use serde_json::{Value, json};

use crate::https::{DEADLINE, Router};
use crate::testbed::{ANN, INTERFACES, JSON, LAN, ROOT, router};

const HTTPS: &str = "/restconf/data/stoa-management:management/https";

fn ask(router: &Router, method: &str, path: &str, body: &Value) -> crate::https::Answer {
    router.ask(ROOT, method, path, &[JSON], &body.to_string())
}

#[test]
fn containers_are_implicit_and_entries_are_not() {
    let router = router();
    let limits = "/restconf/data/stoa-management:management/limits";
    let body = json!({ "stoa-management:limits": { "sessions": 50 } });
    assert_eq!(ask(&router, "PATCH", limits, &body).status, 204);
    let leaf = ask(&router, "GET", &format!("{limits}/sessions"), &json!(null)).json();
    assert_eq!(leaf, json!({ "stoa-management:sessions": 50 }));
    // Below a missing entry, no container is implicit.
    let nowhere = format!("{INTERFACES}/interface=none/ietf-ip:ipv4");
    let mtu = json!({ "ietf-ip:mtu": 1_400 });
    assert_eq!(ask(&router, "POST", &nowhere, &mtu).status, 404);
    assert_eq!(ask(&router, "PUT", &format!("{nowhere}/mtu"), &mtu).status, 404);
}

#[test]
fn a_replaced_entry_keeps_its_position_and_cases_exclude_each_other() {
    let router = router();
    let rules = "/restconf/data/ietf-netconf-acm:nacm/rule-list=ops";
    let rule = json!({ "ietf-netconf-acm:rule": [
        { "name": "texts", "module-name": "*", "action": "deny", "comment": "new" }] });
    assert_eq!(ask(&router, "PUT", &format!("{rules}/rule=texts"), &rule).status, 204);
    let read = ask(&router, "GET", rules, &json!(null)).json();
    let list = &read["ietf-netconf-acm:rule-list"][0]["rule"];
    assert_eq!((&list[0]["name"], &list[1]["name"]), (&json!("texts"), &json!("no-vrfs")));
    assert_eq!((&list[0]["comment"], &list[0]["path"]), (&json!("new"), &Value::Null));
    // RFC 7950, section 7.9: a new driver replaces the previous one.
    let lan = "/restconf/ds/ietf-datastores:candidate/ietf-interfaces:interfaces/interface=lan";
    let tap = json!({ "ietf-interfaces:interface": [
        { "name": "lan", "stoa-interfaces:port": { "tap": { "device": "tap7" } } }] });
    assert_eq!(ask(&router, "PATCH", lan, &tap).status, 204);
    let port = ask(&router, "GET", &format!("{lan}/stoa-interfaces:port"), &json!(null)).json();
    assert_eq!(port["stoa-interfaces:port"], json!({ "tap": { "device": "tap7" } }));
}

#[test]
fn warnings_of_a_commit_are_in_a_header() {
    let router = router();
    let mut wan = crate::testbed::interface("wan", "10.0.0.129");
    wan["ietf-ip:ipv4"]["address"][0]["prefix-length"] = 25.into();
    let body = json!({ "ietf-interfaces:interface": [wan] });
    let answer = ask(&router, "POST", INTERFACES, &body);
    assert_eq!(answer.status, 201, "{answer:?}");
    let warning = answer.field("warning").unwrap_or_default();
    let overlap =
        "299 - \"interface wan: its subnet 10.0.0.128/25 is part of 10.0.0.0/24 of interface lan";
    assert!(warning.starts_with(overlap), "{warning}");
}

#[test]
fn an_old_name_is_refused_with_the_new_one() {
    let router = router();
    let port = json!({ "ietf-interfaces:interface": [
        { "name": "lan", "stoa-interfaces:port": { "null": {}, "spread": true } }] });
    let force = json!({ "stoa-datastore:input": { "anyway": true } });
    let commit = "/restconf/operations/stoa-datastore:commit";
    for (method, path, body, status, new) in [
        ("GET", &*format!("{LAN}/stoa-mirror:mirror"), json!(null), 404, "host-interface"),
        ("PATCH", LAN, port, 400, "software-rss"),
        ("POST", commit, force, 400, "force"),
    ] {
        let refused = ask(&router, method, path, &body);
        assert_eq!(refused.status, status, "{refused:?}");
        let errors = refused.json();
        let message = errors["ietf-restconf:errors"]["error"][0]["error-message"].as_str().unwrap();
        assert!(message.contains("Use \"") && message.contains(new), "{message}");
    }
}

/// A console session that holds the configuration lock.
struct Console(Child);

impl Console {
    fn hold(router: &Router) -> Console {
        let mut child = Command::new(env!("CARGO_BIN_EXE_stoa"))
            .args(["console", "--socket"])
            .arg(router.path("stoa.sock"))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        child.stdin.as_mut().unwrap().write_all(b"configure\n").unwrap();
        Console(child)
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_configuration_lock_is_reported_as_in_the_rfc() {
    let router = router();
    let tag = ask(&router, "GET", LAN, &json!(null)).field("etag").unwrap().to_owned();
    let console = Console::hold(&router);
    let put = |text: &str| {
        let body = json!({ "ietf-interfaces:description": text }).to_string();
        let fields = [JSON, ("If-Match", tag.as_str())];
        router.ask(ROOT, "PUT", &format!("{LAN}/description"), &fields, &body)
    };
    let begun = Instant::now();
    let refused = loop {
        let discard = "/restconf/operations/stoa-datastore:discard";
        let answer = router.ask(ROOT, "POST", discard, &[], "");
        if answer.status != 204 {
            break answer;
        }
        assert!(begun.elapsed() < DEADLINE, "the console never held it");
    };
    assert_eq!((refused.status, refused.tag().as_str()), (409, "in-use"), "{refused:?}");
    let refused = put("new");
    assert_eq!((refused.status, refused.tag().as_str()), (409, "in-use"), "{refused:?}");
    assert!(refused.body.contains("has locked the configuration"), "{refused:?}");
    drop(console);
    router.wait("the console is gone", || put("new").status == 201);
    assert_eq!(put("other").status, 412, "it has changed by now");
}

#[test]
fn a_disconnect_interrupts_no_change() {
    let router = router();
    let who = base64::engine::general_purpose::STANDARD.encode(ROOT);
    for turn in 0..8 {
        let body = json!({ "ietf-interfaces:description": format!("turn {turn}") }).to_string();
        let mut stream = router.connect();
        write!(
            stream,
            "PUT {LAN}/description HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic {who}\r\n\
             Content-Type: application/yang-data+json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        stream.flush().unwrap();
        drop(stream);
    }
    let last = json!({ "ietf-interfaces:description": "the last one" });
    assert!(ask(&router, "PUT", &format!("{LAN}/description"), &last).status < 300);
    // A disconnect may precede its request. Each change is complete and has its audit record.
    let made = || {
        let history = "/restconf/operations/stoa-datastore:history";
        let reply = router.ask(ROOT, "POST", history, &[], "").json();
        let entries = reply["stoa-datastore:output"]["entry"].as_array().unwrap().clone();
        entries.iter().filter(|entry| entry["author"] == "root").count()
    };
    let audited = || {
        let log = std::fs::read_to_string(router.path("stoa.state/audit.log")).unwrap_or_default();
        let is_made =
            |line: &&str| line.contains("/description") && line.contains("\"result\":\"20");
        log.lines().filter(is_made).count()
    };
    router.wait("each change has its line", || made() == audited());
    assert!(made() >= 1);
    let running = ask(&router, "GET", &format!("{LAN}/description"), &json!(null)).json();
    let text = running["ietf-interfaces:description"].as_str().unwrap().to_owned();
    let file = std::fs::read_to_string(router.path("stoa.json")).unwrap();
    assert!(file.contains(&format!("\"{text}\"")), "{file}");
}

#[test]
fn a_change_that_cuts_off_its_author_is_refused() {
    let router = router();
    let refused = |method: &str, path: &str, body: Value| {
        let answer = ask(&router, method, path, &body);
        assert_eq!((answer.status, answer.tag().as_str()), (409, "resource-denied"), "{answer:?}");
        assert!(answer.body.contains("cut off your own access"), "{answer:?}");
        assert!(answer.body.contains("confirm-within"), "no fix: {answer:?}");
    };
    refused("PUT", &format!("{HTTPS}/enabled"), json!({ "stoa-management:enabled": false }));
    refused("PUT", &format!("{HTTPS}/port"), json!({ "stoa-management:port": 1 }));
    let other = json!({ "address": ["127.0.0.2"], "port": router.port });
    refused("PUT", HTTPS, json!({ "stoa-management:https": other }));
    refused("DELETE", "/restconf/data/stoa-management:management/user=root", json!(null));
    refused("DELETE", "/restconf/data/stoa-management:management/user=root/admin", json!(null));
    // Other nodes can be deleted.
    let ann = "/restconf/data/stoa-management:management/user=ann";
    assert_eq!(ask(&router, "DELETE", ann, &json!(null)).status, 204);
    assert_eq!(router.ask(ANN, "GET", "/whoami", &[], "").status, 401);
    // With confirm-within it is applied, and rolled back later.
    let candidate =
        "/restconf/ds/ietf-datastores:candidate/stoa-management:management/https/enabled";
    let off = json!({ "stoa-management:enabled": false });
    assert_eq!(ask(&router, "PUT", candidate, &off).status, 201);
    let commit = "/restconf/operations/stoa-datastore:commit";
    refused("POST", commit, json!({ "stoa-datastore:input": { "comment": "off" } }));
    let timed = json!({ "stoa-datastore:input": { "confirm-within": 10 } });
    assert_eq!(ask(&router, "POST", commit, &timed).status, 200);
    let is_open = || TcpStream::connect(("127.0.0.1", router.port)).is_ok();
    router.wait("the server is gone", || !is_open());
    router.wait("the server is there again", is_open);
    // It listens before the commit that rolls back has reset the candidate.
    let is_reset = || ask(&router, "GET", candidate, &json!(null)).status == 404;
    router.wait("the candidate is rolled back", is_reset);
    // Forced.
    assert_eq!(ask(&router, "PUT", candidate, &off).status, 201);
    let force = json!({ "stoa-datastore:input": { "force": true } });
    assert_eq!(ask(&router, "POST", commit, &force).status, 200);
    router.wait("the server is gone", || !is_open());
}

#[test]
fn link_changes_are_streamed() {
    let router = router();
    let mut stream = router.connect();
    let who = base64::engine::general_purpose::STANDARD.encode(ROOT);
    write!(
        stream,
        "GET /restconf/streams/interfaces/json HTTP/1.1\r\nHost: localhost\r\n\
         Authorization: Basic {who}\r\n\r\n"
    )
    .unwrap();
    stream.flush().unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    let received = std::thread::scope(|scope| {
        // The first poll after a subscription is the baseline: earlier changes are not reported.
        scope.spawn(|| {
            let begun = Instant::now();
            while !done.load(std::sync::atomic::Ordering::Relaxed) && begun.elapsed() < DEADLINE {
                for is_on in [false, true] {
                    let body = json!({ "ietf-interfaces:enabled": is_on });
                    let status = ask(&router, "PUT", &format!("{LAN}/enabled"), &body).status;
                    assert!([201, 204].contains(&status));
                    std::thread::sleep(std::time::Duration::from_millis(1_500));
                }
            }
        });
        let event = BufReader::new(stream).lines().find_map(|line| {
            let line = line.expect("the stream goes on");
            let event = line.strip_prefix("data: ")?;
            serde_json::from_str::<Value>(event).ok()
        });
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        event
    });
    let event = received.expect("an event came");
    let link = &event["ietf-restconf:notification"]["stoa-interfaces:interface-state-changed"];
    assert_eq!(link["name"], "lan", "{event}");
    assert!(["up", "down"].contains(&link["oper-status"].as_str().unwrap()), "{event}");
}
