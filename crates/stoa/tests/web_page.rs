//! What the web page uses over HTTPS, on the real router: route search page by page, captures, the state of the
//! datastores, and the files of the page.

mod https;

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use https::{Answer, Router, hash};
use serde_json::{Value, json};

const JSON: (&str, &str) = ("Content-Type", "application/yang-data+json");
const ROOT: &str = "root:correct horse";
const ANN: &str = "ann:correct horse";
/// Static routes: 10.0.0.0/16 to 10.99.0.0/16, and one below each.
const ROUTES: usize = 200;

fn interface(name: &str, driver: Value, address: &str) -> Value {
    json!({
        "name": name, "type": "iana-if-type:ethernetCsmacd", "stoa-interfaces:port": driver,
        "ietf-ip:ipv4": { "forwarding": true, "address": [{ "ip": address, "prefix-length": 24 }],
            "neighbor": [{ "ip": "198.18.2.2", "link-layer-address": "02:00:00:00:02:02" }] },
    })
}

fn router() -> Router {
    let generator = json!({ "generator": {
        "rate": "2000", "source": "198.18.1.2", "destination": "10.7.0.1" } });
    let mut lan = interface("lan", generator, "198.18.1.1");
    lan["ietf-ip:ipv4"].as_object_mut().unwrap().remove("neighbor");
    let route = |index: usize| {
        let length = if index.is_multiple_of(2) { 16 } else { 24 };
        json!({ "destination-prefix": format!("10.{}.0.0/{length}", index / 2),
            "next-hop": { "next-hop-address": "198.18.2.2" } })
    };
    let routes: Vec<Value> = (0..ROUTES).map(route).collect();
    let family = json!({ "ietf-ipv4-unicast-routing:ipv4": { "route": routes } });
    let hash = hash();
    let configuration = json!({
        "ietf-interfaces:interfaces": { "interface": [
            lan, interface("wan", json!({ "null": {} }), "198.18.2.1"),
        ] },
        "ietf-routing:routing": { "control-plane-protocols": { "control-plane-protocol": [
            { "type": "ietf-routing:static", "name": "main", "static-routes": family },
        ] }, "stoa-policy:policy": { "rule": [
            { "vrf": "default", "address-family": "ipv4", "priority": 100,
                "match": { "destination-prefix": "10.7.0.0/16" }, "refuse": "prohibit" },
        ] } },
    });
    let users = json!([
        { "name": "root", "password-hash": hash, "admin": true },
        { "name": "ann", "password-hash": hash },
    ]);
    Router::start(configuration, users)
}

/// Head and body of a binary answer.
fn bytes(router: &Router, who: &str, path: &str) -> (String, Vec<u8>) {
    let credentials = STANDARD.encode(who);
    let request = format!(
        "GET {path} HTTP/1.0\r\nHost: localhost\r\nAuthorization: Basic {credentials}\r\n\r\n"
    );
    let mut stream = router.connect();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    // A server may close without TLS close_notify; the answer is complete all the same.
    let _ = stream.read_to_end(&mut answer);
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    (String::from_utf8_lossy(&answer[..end]).into_owned(), answer[end + 4..].to_vec())
}

fn call(router: &Router, who: &str, operation: &str, input: Value) -> Answer {
    let module = operation.split(':').next().unwrap();
    let path = format!("/restconf/operations/{operation}");
    let body = json!({ format!("{module}:input"): input }).to_string();
    router.ask(who, "POST", &path, &[JSON], &body)
}

fn find_routes(router: &Router, input: Value) -> Value {
    let answer = call(router, ANN, "stoa-forwarder:find-routes", input);
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()["stoa-forwarder:output"].clone()
}

fn prefixes(output: &Value) -> Vec<String> {
    let routes = output["route"].as_array().unwrap().iter();
    routes.map(|route| route["destination-prefix"].as_str().unwrap().to_owned()).collect()
}

/// The pages contain every static route once, in order.
fn routes_are_found_page_by_page(router: &Router) {
    let mut all = Vec::new();
    let mut after = Value::Null;
    loop {
        let mut input = json!({ "prefix": "10.0.0.0/8", "limit": 37 });
        if !after.is_null() {
            input["after"] = after;
        }
        let output = find_routes(router, input);
        all.extend(prefixes(&output));
        after = json!(all.last().unwrap());
        if output["more"] == false {
            break;
        }
        assert_eq!(prefixes(&output).len(), 37);
    }
    let expected: Vec<String> = (0..ROUTES)
        .map(|index| format!("10.{}.0.0/{}", index / 2, if index % 2 == 0 { 16 } else { 24 }))
        .collect();
    assert_eq!(all, expected);

    let one = find_routes(router, json!({ "prefix": "10.7.0.9" }));
    assert_eq!(one["longest-match"]["destination-prefix"], "10.7.0.0/24");
    assert_eq!(one["longest-match"]["path"][0]["next-hop-address"], "198.18.2.2");
    assert!(prefixes(&one).is_empty());
    let wide = find_routes(router, json!({ "prefix": "10.7.0.0/20" }));
    assert_eq!(wide["longest-match"]["destination-prefix"], "10.7.0.0/16");
    assert_eq!(prefixes(&wide), ["10.7.0.0/24"]);
    let none = find_routes(router, json!({ "prefix": "11.0.0.0/8" }));
    assert!(none.get("longest-match").is_none() && prefixes(&none).is_empty());

    let refused = |input| call(router, ANN, "stoa-forwarder:find-routes", input).status;
    assert_eq!(refused(json!({ "table": "ipv4-none" })), 404);
    assert_eq!(refused(json!({ "prefix": "fd00::/8" })), 400);
    assert_eq!(refused(json!({ "prefix": "10.0.0.0/33" })), 400);
    assert_eq!(refused(json!({ "limit": 0 })), 400);
}

/// A user who may not read the routes may not search them either.
fn routes_that_may_not_be_read_are_not_found(router: &Router) {
    let rule = json!({ "name": "routes", "module-name": "*", "path": "/ietf-routing:routing",
        "access-operations": "read", "action": "deny" });
    let list = json!({ "name": "all", "group": ["*"], "rule": [rule] });
    let nacm = json!({ "ietf-netconf-acm:nacm": { "rule-list": [list] } }).to_string();
    let path = "/restconf/data/ietf-netconf-acm:nacm";
    assert_eq!(router.ask(ROOT, "PATCH", path, &[JSON], &nacm).status, 204);
    let query = || json!({ "prefix": "10.7.0.9" });
    assert_eq!(call(router, ANN, "stoa-forwarder:find-routes", query()).status, 403);
    assert_eq!(call(router, ROOT, "stoa-forwarder:find-routes", query()).status, 200);
}

/// Permitted users capture frames into a pcapng file.
fn frames_are_captured(router: &Router) {
    let url = "/capture?interface=lan&packets=5&seconds=20&filter=udp";
    let (head, file) = bytes(router, ROOT, url);
    assert!(head.starts_with("HTTP/1.0 200") && head.contains("application/x-pcapng"), "{head}");
    assert!(file.starts_with(b"\n\r\r\n"), "a section of pcapng");
    assert!(file.windows(3).any(|name| name == b"lan") && file.len() > 5 * 60, "{}", file.len());

    assert_eq!(router.ask(ANN, "GET", url, &[], "").status, 403);
    assert_eq!(router.ask("", "GET", url, &[], "").status, 401);
    let foreign = [("Sec-Fetch-Site", "cross-site")];
    assert_eq!(router.ask(ROOT, "GET", url, &foreign, "").status, 403);
    for (wrong, status) in [
        ("/capture?packets=0", 400),
        ("/capture?interface=lan&filter=nonsense+here", 400),
        ("/capture?interface=nowhere", 404),
    ] {
        let answer = router.ask(ROOT, "GET", wrong, &[], "");
        assert!([status, 400].contains(&answer.status), "{wrong}: {answer:?}");
    }
    let input = json!({ "interface": "lan", "packets": 5, "direction": ["rx", "drop"] });
    let reply = call(router, ROOT, "stoa-forwarder:capture", input.clone()).json();
    let url = reply["stoa-forwarder:output"]["url"].as_str().unwrap().to_owned();
    assert_eq!(url, "/capture?interface=lan&packets=5&seconds=60&direction=rx&direction=drop");
    assert_eq!(call(router, ANN, "stoa-forwarder:capture", input).status, 403);
    let wrong = call(router, ROOT, "stoa-forwarder:capture", json!({ "filter": "and and" }));
    assert_eq!((wrong.status, wrong.tag().as_str()), (400, "invalid-value"));
}

/// Edits, a confirmed commit, and the difference between two configurations of the history.
fn the_datastores_report_their_state(router: &Router) {
    let status = || {
        let reply = router.ask(ROOT, "POST", "/restconf/operations/stoa-datastore:status", &[], "");
        reply.json()["stoa-datastore:output"].clone()
    };
    assert_eq!(status(), json!({ "edited": false }));
    let wan = "/restconf/ds/ietf-datastores:candidate/ietf-interfaces:interfaces/interface=wan";
    let body = json!({ "ietf-interfaces:description": "to the net" }).to_string();
    let path = format!("{wan}/description");
    assert_eq!(router.ask(ROOT, "PUT", &path, &[JSON], &body).status, 201);
    assert_eq!(status(), json!({ "edited": true }));
    let commit = json!({ "confirm-within": 300, "comment": "a text" });
    assert_eq!(call(router, ROOT, "stoa-datastore:commit", commit).status, 200);
    let pending = status();
    assert_eq!((&pending["author"], pending["edited"].as_bool()), (&json!("root"), Some(false)));
    assert!(pending["confirm-left"].as_u64().is_some_and(|left| (200..=300).contains(&left)));
    let confirm = "/restconf/operations/stoa-datastore:confirm";
    let confirmed = router.ask(ROOT, "POST", confirm, &[], "");
    assert_eq!(confirmed.status, 200);
    assert_eq!(confirmed.json()["stoa-datastore:output"]["confirmed"], "root", "{confirmed:?}");

    let history = router.ask(ROOT, "POST", "/restconf/operations/stoa-datastore:history", &[], "");
    let entries = history.json()["stoa-datastore:output"]["entry"].clone();
    let number = |at: usize| entries[at]["number"].clone();
    let input = json!({ "old-number": number(1), "new-number": number(0) });
    let reply = call(router, ROOT, "stoa-datastore:compare", input).json();
    let changes = &reply["stoa-datastore:output"]["change"];
    assert_eq!(changes[0]["new"], "to the net", "{reply}");
    let input = json!({ "old-number": "4000000" });
    assert_ne!(call(router, ROOT, "stoa-datastore:compare", input).status, 200);
}

fn traffic(router: &Router, who: &str, input: Value) -> Answer {
    call(router, who, "stoa-forwarder:traffic-history", input)
}

/// The controller keeps the traffic of each interface; clients get what they may read.
fn the_last_hour_is_kept(router: &Router) {
    let both = || json!({ "interface": ["lan", "wan", "nowhere"], "total": true });
    let packets = |history: &Value| -> Vec<String> {
        // Before its first sample, the controller knows no interface.
        let text = history["in-packets"].as_str().unwrap_or_default();
        text.split(' ').map(str::to_owned).collect()
    };
    let rate = |history: &Value| packets(history).last().unwrap().parse().unwrap_or(0.0);
    let deadline = Instant::now() + Duration::from_secs(90);
    let history = loop {
        let history = traffic(router, ROOT, both()).json()["stoa-forwarder:output"].clone();
        if rate(&history["interface"][0]) > 0.0 {
            break history;
        }
        assert!(Instant::now() < deadline, "no traffic is kept: {history}");
        std::thread::sleep(Duration::from_millis(500));
    };
    let (lan, wan) = (&history["interface"][0], &history["interface"][1]);
    assert_eq!((&lan["name"], &wan["name"]), (&json!("lan"), &json!("wan")));
    assert_eq!(history["interface"].as_array().unwrap().len(), 2, "{history}");
    assert_eq!((packets(lan).len(), packets(lan)[0].as_str()), (360, "-"), "an hour, and no more");
    assert!((1_000.0..4_000.0).contains(&rate(lan)), "the generator sends 2,000 a second: {lan}");
    assert_eq!(rate(wan), 0.0);
    assert!(rate(&history["total"]) >= rate(lan) && history["age"].as_u64().unwrap() < 30_000);
    let coarse = traffic(router, ANN, json!({ "interface": ["lan"], "resolution": 60 })).json();
    let coarse = &coarse["stoa-forwarder:output"];
    assert_eq!((packets(&coarse["interface"][0]).len(), &coarse["interval"]), (60, &json!(60)));
    assert_eq!(traffic(router, ANN, json!({ "total": true })).status, 200);
    assert_eq!(traffic(router, ANN, json!({ "resolution": 5 })).status, 400);
}

/// A user reads the traffic of the interfaces whose counters he may read, and no sum that has others.
fn traffic_that_may_not_be_read_is_not_told(router: &Router) {
    let rule = json!({ "name": "lan", "module-name": "*", "access-operations": "read",
        "path": "/ietf-interfaces:interfaces/interface[name='lan']", "action": "deny" });
    let list = json!({ "name": "all", "group": ["*"], "rule": [rule] });
    let nacm = json!({ "ietf-netconf-acm:nacm": { "rule-list": [list] } }).to_string();
    let path = "/restconf/data/ietf-netconf-acm:nacm";
    assert_eq!(router.ask(ROOT, "PATCH", path, &[JSON], &nacm).status, 204);
    let output = traffic(router, ANN, json!({ "interface": ["lan", "wan"] })).json();
    let interfaces = output["stoa-forwarder:output"]["interface"].as_array().unwrap().clone();
    let names: Vec<&str> = interfaces.iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["wan"]);
    let denied = traffic(router, ANN, json!({ "total": true }));
    assert_eq!((denied.status, denied.tag().as_str()), (403, "access-denied"));
    assert_eq!(traffic(router, ROOT, json!({ "total": true })).status, 200);
    assert_eq!(router.ask(ROOT, "DELETE", path, &[], "").status, 204);
}

/// Administrators read the log of both processes; others need a rule, and nobody reads a secret.
fn the_log_is_read_by_right(router: &Router) {
    let log = |who: &str, input: Value| call(router, who, "stoa-logging:recent-messages", input);
    let denied = log(ANN, json!({}));
    assert_eq!((denied.status, denied.tag().as_str()), (403, "access-denied"));
    let port =
        json!({ "stoa-interfaces:port": { "memif": { "socket": "a", "secret": "s3cret" } } });
    let path = "/restconf/data/ietf-interfaces:interfaces/interface=lan/stoa-interfaces:port";
    assert_ne!(router.ask(ROOT, "PUT", path, &[JSON], &port.to_string()).status, 500);
    let answer = log(ROOT, json!({ "limit": 1000, "level": "debug" }));
    assert_eq!(answer.status, 200, "{answer:?}");
    let messages = answer.json()["stoa-logging:output"]["message"].as_array().unwrap().clone();
    let has = |words: &str| messages.iter().any(|it| it["text"].as_str().unwrap().contains(words));
    assert!(has("HTTPS server is listening"), "{answer:?}");
    for program in ["controller", "forwarder"] {
        assert!(messages.iter().any(|it| it["program"] == program), "{program}: {answer:?}");
    }
    let times: Vec<&str> = messages.iter().map(|it| it["time"].as_str().unwrap()).collect();
    assert!(times.is_sorted_by(|newer, older| newer >= older), "newest first");
    for secret in ["s3cret", "argon2", "correct horse"] {
        assert!(!answer.body.contains(secret), "{secret} is in the log");
    }
    let rule = json!({ "name": "log", "module-name": "stoa-logging", "rpc-name": "recent-messages",
        "access-operations": "exec", "action": "permit" });
    let list = json!({ "name": "all", "group": ["*"], "rule": [rule] });
    let nacm = json!({ "ietf-netconf-acm:nacm": { "rule-list": [list] } }).to_string();
    let path = "/restconf/data/ietf-netconf-acm:nacm";
    assert_eq!(router.ask(ROOT, "PATCH", path, &[JSON], &nacm).status, 204);
    assert_eq!(log(ANN, json!({ "limit": 1 })).status, 200);
    assert_eq!(router.ask(ROOT, "DELETE", path, &[], "").status, 204);
}

/// Policy rules have counters, beside their configuration.
fn policy_rules_are_counted(router: &Router) {
    let path = "/restconf/data/ietf-routing:routing/stoa-policy:policy";
    let policy = router.ask(ANN, "GET", path, &[], "").json()["stoa-policy:policy"].clone();
    let rule = &policy["rule"][0];
    assert_eq!(rule["refuse"], "prohibit", "{policy}");
    let packets = rule["statistics"]["packets"].as_str().unwrap().parse::<u64>().unwrap();
    assert!(packets > 0, "the generator's packets match: {policy}");
}

#[test]
fn the_web_page_gets_its_data() {
    let router = router();
    the_last_hour_is_kept(&router);
    traffic_that_may_not_be_read_is_not_told(&router);
    policy_rules_are_counted(&router);
    routes_are_found_page_by_page(&router);
    frames_are_captured(&router);
    the_datastores_report_their_state(&router);
    let page = router.ask("", "GET", "/", &[], "");
    assert_eq!(page.status, 200);
    assert!(page.body.contains("<title>Stoa</title>"), "{page:?}");
    assert_eq!(page.field("cache-control"), Some("no-cache"));
    let nodes = router.ask(ANN, "GET", "/restconf/data/stoa-forwarder:forwarder/nodes", &[], "");
    let nodes = nodes.json()["stoa-forwarder:nodes"]["node"].clone();
    let input = nodes.as_array().unwrap().iter().find(|node| node["name"] == "ethernet-input");
    let next = input.unwrap()["next"].as_array().unwrap();
    assert!(next.contains(&json!("ip4-input")), "{next:?}");
    the_log_is_read_by_right(&router);
    routes_that_may_not_be_read_are_not_found(&router);
}
