//! RESTCONF and gNMI on the real router: over TLS, with users and rules, on ports in memory.

mod edges;
mod gnmi;
mod gnmic;
mod greedy;
#[path = "../https/mod.rs"]
mod https;
mod openconfig;
mod port_files;
mod schemathesis;
mod searches;
mod testbed;
mod trust;
mod users;

use std::io::{BufRead, BufReader, Write};

use base64::Engine;
use https::Router;
use serde_json::{Value, json};
use testbed::{ANN, AS_XML, INTERFACES, JSON, LAN, ROOT, XML, interface, router};

#[test]
fn reads_return_the_requested_and_permitted_nodes() {
    let router = router();
    let get = |who: &str, path: &str| router.ask(who, "GET", path, &[], "");
    let found = get("", "/.well-known/host-meta");
    assert!(found.status == 200 && found.body.contains("href=\"/restconf\""), "{found:?}");
    let unknown = get("", LAN);
    assert_eq!((unknown.status, unknown.tag().as_str()), (401, "access-denied"));
    assert!(unknown.field("www-authenticate").is_some(), "{unknown:?}");
    let lan = get(ROOT, LAN);
    assert_eq!(lan.status, 200, "{lan:?}");
    assert_eq!(lan.field("content-type"), Some("application/yang-data+json"));
    let entry = &lan.json()["ietf-interfaces:interface"][0];
    assert_eq!(entry["ietf-ip:ipv4"]["address"][0]["ip"], "10.0.0.1");
    let leaf = get(ROOT, &format!("{LAN}/ietf-ip:ipv4/address=10.0.0.1/prefix-length"));
    assert_eq!(leaf.json(), json!({ "ietf-ip:prefix-length": 24 }));
    let xml = router.ask(ROOT, "GET", LAN, &[AS_XML], "");
    assert!(xml.body.starts_with("<interface xmlns=\"urn:ietf"), "{xml:?}");
    let shallow = get(ROOT, &format!("{INTERFACES}?depth=2"));
    assert_eq!(
        shallow.json()["ietf-interfaces:interfaces"]["interface"][0],
        json!({ "name": "lan" })
    );
    let fields = get(ROOT, &format!("{INTERFACES}?fields=interface(name;type)"));
    let shown = fields.json()["ietf-interfaces:interfaces"]["interface"][0].clone();
    assert_eq!(shown, json!({ "name": "lan", "type": "iana-if-type:ethernetCsmacd" }));
    let all = get(ROOT, &format!("{LAN}/enabled?with-defaults=report-all"));
    assert_eq!(all.json(), json!({ "ietf-interfaces:enabled": true }));
    assert_eq!(get(ROOT, &format!("{LAN}/enabled")).status, 404);
    // Nobody can read hashes, and ann can read neither the rules nor the VRFs.
    let whole = get(ROOT, "/restconf/data");
    assert!(!whole.body.contains("argon2") && whole.body.contains("rule-list"), "{whole:?}");
    assert!(whole.body.contains("ietf-yang-library:yang-library"), "{whole:?}");
    let part = get(ANN, "/restconf/data?content=config");
    assert!(part.body.contains("\"lan\""), "{part:?}");
    for hidden in ["rule-list", "argon2", "stoa-vrf", "yang-library"] {
        assert!(!part.body.contains(hidden), "{hidden}: {part:?}");
    }
    assert_eq!(get(ANN, "/restconf/data/stoa-vrf:vrfs").status, 404);
    let up = get(ROOT, &format!("{LAN}/oper-status"));
    assert_eq!(up.json(), json!({ "ietf-interfaces:oper-status": "up" }));
    let facts = get(ROOT, &format!("{LAN}?content=nonconfig"));
    assert!(
        facts.body.contains("statistics") && !facts.body.contains("prefix-length"),
        "{facts:?}"
    );
    let library = get(ANN, "/restconf/data/ietf-yang-library:yang-library/content-id");
    assert_eq!(library.status, 200, "{library:?}");
    let described = get(ANN, "/openapi.json").json();
    assert_eq!(described["openapi"], "3.1.0");
    let module = get(ANN, "/restconf/schemas/stoa-vrf");
    assert!(module.body.starts_with("module stoa-vrf"), "{module:?}");
}

#[test]
fn changes_are_atomic() {
    let router = router();
    let ask = |method: &str, path: &str, body: Value| {
        router.ask(ROOT, method, path, &[JSON], &body.to_string())
    };
    let wan = json!({ "ietf-interfaces:interface": [interface("wan", "10.0.1.1")] });
    let made = ask("POST", INTERFACES, wan.clone());
    assert_eq!(made.status, 201, "{made:?}");
    let place = made.field("location").unwrap().to_owned();
    assert_eq!(place, format!("{INTERFACES}/interface=wan"));
    let again = ask("POST", INTERFACES, wan);
    assert_eq!((again.status, again.tag().as_str()), (409, "data-exists"));
    // The forwarder follows.
    router.wait("the interface is there", || {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_stoa"))
            .args(["show", "interfaces", "--json", "--socket"])
            .arg(router.path("stoa.sock"))
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).contains("\"wan\"")
    });
    let address = format!("{place}/ietf-ip:ipv4/address=10.0.2.1");
    let entry = json!({ "ietf-ip:address": [{ "ip": "10.0.2.1", "prefix-length": 24 }] });
    assert_eq!(ask("PUT", &address, entry.clone()).status, 201);
    assert_eq!(ask("PUT", &address, entry).status, 204);
    let other = json!({ "ietf-ip:address": [{ "ip": "10.0.3.1", "prefix-length": 24 }] });
    assert_eq!(ask("PUT", &address, other).status, 400);
    let text = format!("{place}/description");
    let put = router.ask(ROOT, "PUT", &text, &[XML],
        "<description xmlns=\"urn:ietf:params:xml:ns:yang:ietf-interfaces\">to the &lt;net&gt;</description>");
    assert_eq!(put.status, 201, "{put:?}");
    let patch = json!({ "ietf-interfaces:interface": [{ "name": "wan", "enabled": false }] });
    assert_eq!(ask("PATCH", &place, patch.clone()).status, 204);
    assert_eq!(
        router.ask(ROOT, "GET", &text, &[], "").json()["ietf-interfaces:description"],
        "to the <net>"
    );
    let nowhere = format!("{INTERFACES}/interface=none");
    assert_eq!(ask("PATCH", &nowhere, patch).status, 404, "there is no such entry");
    // A validation error changes nothing, and has the text of the console.
    let configured = format!("{INTERFACES}?content=config");
    let before = router.ask(ROOT, "GET", &configured, &[], "");
    let wrong = json!({ "ietf-interfaces:interface": [interface("dmz", "10.0.0.7")] });
    let refused = ask("POST", INTERFACES, wrong);
    assert_eq!(refused.status, 400, "{refused:?}");
    let after = router.ask(ROOT, "GET", &configured, &[], "");
    assert_eq!((&after.body, after.field("etag")), (&before.body, before.field("etag")));
    assert_eq!(router.ask(ROOT, "DELETE", &place, &[], "").status, 204);
    assert_eq!(router.ask(ROOT, "DELETE", &place, &[], "").status, 404);
    let lines = |name: &str| {
        let log = std::fs::read_to_string(router.path("stoa.state").join(name)).unwrap();
        assert!(log.lines().all(|line| line.contains("\"root\"")), "{log}");
        log.lines().count()
    };
    assert_eq!((lines("audit.log"), lines("audit-refused.log")), (6, 5));
}

#[test]
fn preconditions_keep_two_clients_apart() {
    let router = router();
    let read = router.ask(ROOT, "GET", LAN, &[], "");
    let tag = read.field("etag").unwrap().to_owned();
    let configured = format!("{LAN}?content=config");
    let same = router.ask(ROOT, "GET", &configured, &[("If-None-Match", &tag)], "");
    assert_eq!((same.status, same.body.as_str()), (304, ""));
    let body = json!({ "ietf-interfaces:description": "first" }).to_string();
    let put = |fields: &[(&str, &str)]| {
        let mut all = vec![JSON];
        all.extend(fields);
        router.ask(ROOT, "PUT", &format!("{LAN}/description"), &all, &body)
    };
    assert_eq!(put(&[("If-Match", &tag)]).status, 201);
    let stale = put(&[("If-Match", &tag)]);
    assert_eq!((stale.status, stale.tag().as_str()), (412, "operation-failed"));
    assert_eq!(put(&[("If-Unmodified-Since", "Sun, 06 Nov 1994 08:49:37 GMT")]).status, 412);
    assert_eq!(put(&[("If-Match", "*")]).status, 204);
    let head = router.ask(ROOT, "HEAD", LAN, &[], "");
    assert!(head.status == 200 && head.body.is_empty() && head.field("etag").is_some(), "{head:?}");
    let options = router.ask(ROOT, "OPTIONS", LAN, &[], "");
    assert!(options.field("allow").unwrap().contains("PATCH"), "{options:?}");
    assert!(options.field("accept-patch").is_some(), "{options:?}");
}

#[test]
fn rules_hold_on_every_change() {
    let router = router();
    let put = |who: &str, path: &str, body: Value| {
        router.ask(who, "PUT", path, &[JSON], &body.to_string()).status
    };
    let text = json!({ "ietf-interfaces:description": "by ann" });
    assert_eq!(put(ANN, &format!("{LAN}/description"), text.clone()), 201);
    assert_eq!(
        put(ANN, &format!("{LAN}/enabled"), json!({ "ietf-interfaces:enabled": false })),
        403
    );
    // The same with a body that has more than permitted, and with another method.
    let more = json!({ "ietf-interfaces:interface": [
        { "name": "lan", "description": "more", "enabled": false }] });
    assert_eq!(router.ask(ANN, "PATCH", LAN, &[JSON], &more.to_string()).status, 403);
    assert_eq!(router.ask(ANN, "DELETE", LAN, &[], "").status, 403);
    let escape = "<description xmlns=\"urn:ietf:params:xml:ns:yang:ietf-interfaces\">x</description>\
                  </interface><interface><name>other</name>";
    let escaped = router.ask(ROOT, "PUT", &format!("{LAN}/description"), &[XML], escape);
    assert_eq!(escaped.status, 400, "{escaped:?}");
    let user = json!({ "stoa-management:user": [{ "name": "ann", "admin": true }] });
    assert_eq!(put(ANN, "/restconf/data/stoa-management:management/user=ann", user), 403);
}

#[test]
fn entries_are_inserted_at_their_position() {
    let router = router();
    let lists = "/restconf/data/ietf-netconf-acm:nacm/rule-list=ops";
    let rule = |name: &str| {
        json!({ "ietf-netconf-acm:rule": [{ "name": name, "module-name": "*", "action": "deny" }] })
            .to_string()
    };
    let post = |query: &str, name: &str| {
        router.ask(ROOT, "POST", &format!("{lists}?{query}"), &[JSON], &rule(name))
    };
    assert_eq!(post("insert=first", "a").status, 201);
    let point = "point=%2Fietf-netconf-acm:nacm%2Frule-list=ops%2Frule=texts";
    assert_eq!(post(&format!("insert=after&{point}"), "b").status, 201);
    assert_eq!(post(&format!("insert=before&{point}"), "c").status, 201);
    assert_eq!(post("insert=last", "d").status, 201);
    assert_eq!(post("insert=first", "a").status, 409);
    assert_eq!(post("insert=before&point=%2Fx", "e").status, 404);
    let read = router.ask(ROOT, "GET", &format!("{lists}?fields=rule(name)"), &[], "").json();
    let rules = read["ietf-netconf-acm:rule-list"][0]["rule"].as_array().unwrap().clone();
    let names: Vec<&str> = rules.iter().map(|rule| rule["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["a", "c", "texts", "b", "no-vrfs", "d"]);
}

#[test]
fn the_candidate_is_edited_and_committed() {
    let router = router();
    let rpc = |name: &str, input: Value| {
        let body = json!({ "stoa-datastore:input": input }).to_string();
        router.ask(
            ROOT,
            "POST",
            &format!("/restconf/operations/stoa-datastore:{name}"),
            &[JSON],
            &body,
        )
    };
    let text = "ietf-interfaces:interfaces/interface=lan/description";
    let candidate = format!("/restconf/ds/ietf-datastores:candidate/{text}");
    let body = json!({ "ietf-interfaces:description": "new" }).to_string();
    assert_eq!(router.ask(ROOT, "PUT", &candidate, &[JSON], &body).status, 201);
    let running = format!("/restconf/ds/ietf-datastores:running/{text}");
    assert_eq!(router.ask(ROOT, "GET", &running, &[], "").status, 404);
    let compared = rpc("compare", json!({})).json();
    let change = &compared["stoa-datastore:output"]["change"][0];
    assert_eq!(
        (change["operation"].as_str(), change["new"].as_str()),
        (Some("create"), Some("new"))
    );
    // A commit needs the right to change its nodes in running.
    let by_ann = router.ask(ANN, "POST", "/restconf/operations/stoa-datastore:commit", &[], "");
    assert_eq!(by_ann.status, 200, "ann may write descriptions: {by_ann:?}");
    assert_eq!(router.ask(ROOT, "GET", &running, &[], "").status, 200);
    assert_eq!(router.ask(ROOT, "DELETE", &candidate, &[], "").status, 204);
    let refused = router.ask(ANN, "POST", "/restconf/operations/stoa-datastore:commit", &[], "");
    assert_eq!(refused.status, 403, "{refused:?}");
    let done = rpc("commit", json!({ "comment": "no text", "confirm-within": 600 }));
    assert_eq!(done.status, 200, "{done:?}");
    assert!(done.json()["stoa-datastore:output"]["confirm-by"].is_string(), "{done:?}");
    // A pending commit is confirmed neither by a change of a user without that right, nor by an empty change.
    let commit = "/restconf/operations/stoa-datastore:commit";
    assert_eq!(router.ask(ANN, "POST", commit, &[], "").status, 403);
    assert_eq!(router.ask(ANN, "PUT", &running, &[JSON], &body).status, 403);
    let same = json!({ "ietf-interfaces:interface": [{ "name": "lan" }] }).to_string();
    assert_eq!(router.ask(ROOT, "PATCH", LAN, &[JSON], &same).status, 204);
    assert_eq!(rpc("confirm", json!({})).status, 200);
    let timed = json!({ "stoa-datastore:input": { "confirm-within": 600 } }).to_string();
    assert_eq!(router.ask(ANN, "POST", commit, &[JSON], &timed).status, 403, "needs a rule");
    assert_eq!(router.ask(ANN, "POST", commit, &[], "").status, 200, "nothing is to be done");
    let history = rpc("history", json!({})).json();
    assert_eq!(history["stoa-datastore:output"]["entry"][0]["author"], "root", "{history}");
    assert_eq!(rpc("rollback", json!({ "back": 1 })).status, 204);
    let xml = router.ask(
        ROOT,
        "POST",
        "/restconf/operations/stoa-datastore:commit",
        &[XML, AS_XML],
        "<input xmlns=\"urn:stoa:yang:stoa-datastore\"><comment>back</comment></input>",
    );
    assert!(xml.status == 200 && xml.body.starts_with("<output xmlns=\"urn:stoa"), "{xml:?}");
    // A change of running confirms the commit that waits, and says so.
    let described = |text: &str| json!({ "ietf-interfaces:description": text }).to_string();
    let put = |path: &str, text| router.ask(ROOT, "PUT", path, &[JSON], &described(text));
    assert!(put(&candidate, "one").status < 300);
    assert_eq!(rpc("commit", json!({ "confirm-within": 600 })).status, 200);
    let confirms = put(&running, "two");
    let warning = confirms.field("Warning").unwrap_or_default();
    assert!(warning.contains("this change confirmed the commit of root"), "{confirms:?}");
    assert_eq!(put(&running, "three").field("Warning"), None);
    assert_eq!(rpc("commit", json!({ "odd": 1 })).status, 400);
    assert_eq!(rpc("none", json!({})).status, 404);
    let list = router.ask(ROOT, "GET", "/restconf/operations", &[], "").json();
    assert!(list["ietf-restconf:operations"].get("stoa-datastore:commit").is_some(), "{list}");
}

#[test]
fn events_are_streamed() {
    let router = router();
    let mut stream = router.connect();
    let who = base64::engine::general_purpose::STANDARD.encode(ROOT);
    write!(
        stream,
        "GET /restconf/streams/configuration/json HTTP/1.1\r\nHost: localhost\r\n\
                    Authorization: Basic {who}\r\n\r\n"
    )
    .unwrap();
    stream.flush().unwrap();
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    while !line.to_ascii_lowercase().starts_with("content-type: text/event-stream") {
        line.clear();
        assert!(reader.read_line(&mut line).unwrap() > 0, "no stream");
    }
    let body = json!({ "ietf-interfaces:description": "received" }).to_string();
    let put = router.ask(ROOT, "PUT", &format!("{LAN}/description"), &[JSON], &body);
    assert_eq!(put.status, 201, "{put:?}");
    let changed = loop {
        line.clear();
        assert!(reader.read_line(&mut line).unwrap() > 0, "the stream ended");
        if let Some(event) = line.strip_prefix("data: ")
            && event.contains("stoa-datastore:changed")
        {
            break serde_json::from_str::<Value>(event).unwrap();
        }
    };
    let changed = &changed["ietf-restconf:notification"]["stoa-datastore:changed"];
    assert_eq!(
        (changed["author"].as_str(), changed["change"][0]["new"].as_str()),
        (Some("root"), Some("received")),
        "{changed}"
    );
}

#[test]
fn malformed_requests_are_refused_without_internal_errors() {
    let router = router();
    let statuses = [
        ("GET", "/restconf/nothing", "", 404),
        ("GET", "/restconf/data/none:none", "", 404),
        ("GET", "/restconf/data/ietf-interfaces:interfaces/interface", "", 400),
        ("GET", "/restconf/data/ietf-interfaces:interfaces?depth=0", "", 400),
        ("GET", "/restconf/data/%00", "", 400),
        ("PUT", LAN, "", 400),
        ("PUT", LAN, "{", 400),
        ("PUT", LAN, "[]", 400),
        ("PUT", LAN, "{}", 400),
        ("PUT", LAN, r#"{"a": "\u0000"}"#, 400),
        ("POST", "/restconf/data", r#"{"none:none": {}}"#, 400),
        ("PUT", "/restconf/data", r#"{"ietf-restconf:data": []}"#, 400),
        ("DELETE", "/restconf/data", "", 405),
        ("PUT", "/restconf/data/ietf-yang-library:yang-library", "{}", 405),
        ("PUT", "/restconf/ds/ietf-datastores:startup", "{}", 405),
        ("BREW", LAN, "", 405),
    ];
    for (method, path, body, status) in statuses {
        let answer = router.ask(ROOT, method, path, &[JSON], body);
        assert_eq!(answer.status, status, "{method} {path} {body}: {answer:?}");
        answer.tag();
    }
    assert_eq!(router.ask(ROOT, "PUT", LAN, &[], "{}").status, 415);
    assert_eq!(router.ask(ROOT, "GET", LAN, &[("Accept", "text/html")], "").status, 406);
    let deep = format!("{{\"a\": {}", "[".repeat(100_000));
    assert_eq!(router.ask(ROOT, "PUT", LAN, &[JSON], &deep).status, 400);
    // On a busy machine the first delays end before the next request; they double with each wrong password.
    let mut wrong = 0;
    let locked = loop {
        let answer = router.ask("ann:wrong", "GET", LAN, &[], "");
        wrong += u32::from(answer.status == 401);
        assert!([401, 429].contains(&answer.status), "{answer:?}");
        let is_locked = answer.status == 429;
        let right = if is_locked { router.ask(ANN, "GET", LAN, &[], "") } else { answer };
        if right.status == 429 {
            break right;
        }
        assert!(wrong < 12, "{wrong} wrong passwords in a row are not locked out: {right:?}");
    };
    assert!(wrong >= 4, "{wrong} typing errors lock out");
    assert!(locked.field("retry-after").is_some(), "{locked:?}");
}

#[test]
fn the_setup_token_creates_the_first_user_and_is_not_logged() {
    let router = Router::start(json!({}), json!([]));
    let file = router.path("stoa.state/setup-token");
    router.wait("the file is logged", || router.log().contains(file.to_str().unwrap()));
    let token = std::fs::read_to_string(&file).unwrap();
    assert!(!router.log().contains(token.trim()), "the log leaves the router in clear text");
    let set_up = |token: &str| {
        let body = json!({ "token": token, "user": "root", "password": "correct horse" });
        router.ask("", "POST", "/setup", &[("Content-Type", "application/json")], &body.to_string())
    };
    assert_eq!(set_up("wrong").status, 401);
    let made = set_up(token.trim());
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(set_up(token.trim()).status, 409);
    assert_eq!(router.ask(ROOT, "GET", "/whoami", &[], "").json()["admin"], true);
    assert!(std::fs::read_to_string(router.path("stoa.json")).unwrap().contains("argon2"));
    assert!(!router.path("stoa.state/setup-token").exists());
}
