//! Answers in words and as JSON.

use super::*;

#[test]
fn an_answer_names_hosts_and_where_they_come_from() {
    let request = NatWhoisRequest {
        external: vec![203, 0, 113, 17],
        port: 40_112,
        protocol: 6,
        ..NatWhoisRequest::default()
    };
    let nobody = NatWhoisReply::default();
    assert_eq!(text(&request, &nobody), "Nobody has 203.0.113.17 port 40112 of tcp now.");
    let user = NatUser {
        kind: "flow".to_owned(),
        internal: vec![10, 0, 0, 7],
        internal_port: 5_000,
        remote: vec![198, 51, 100, 9],
        remote_port: 443,
        instance: 1,
        id: 10,
        age_s: 61,
        ..NatUser::default()
    };
    let fixed = NatUser { kind: "static".to_owned(), remote: Vec::new(), ..user.clone() };
    let reply = NatWhoisReply { users: vec![user, fixed], ..NatWhoisReply::default() };
    assert_eq!(
        text(&request, &reply),
        "203.0.113.17 port 40112 of tcp is\n\
         10.0.0.7 port 5000, with 198.51.100.9 port 443: flow of policy 10 of instance 1, for 1 min 1 s\n\
         10.0.0.7 port 5000: static mapping 10 of instance 1"
    );
    let json: Value = serde_json::from_str(&to_json(&request, &reply)).unwrap();
    assert_eq!(
        (&json["users"][0]["remote_port"], &json["users"][1]["remote"]),
        (&json!(443), &Value::Null)
    );
}

#[test]
fn an_ip6_host_has_external_ends() {
    let host: std::net::IpAddr = "2001:db8:1::7".parse().unwrap();
    let request = NatWhoisRequest { internal: ip_bytes(host), ..NatWhoisRequest::default() };
    let nobody = NatWhoisReply::default();
    assert_eq!(text(&request, &nobody), "2001:db8:1::7 has no flow by NAT64 now.");
    let user = NatUser {
        kind: "flow".to_owned(),
        internal: ip_bytes(host),
        internal_port: 5_000,
        remote: vec![198, 51, 100, 9],
        remote_port: 443,
        instance: 64,
        id: 1,
        age_s: 61,
        external: vec![203, 0, 113, 17],
        first_port: 40_112,
        last_port: 40_112,
        ..NatUser::default()
    };
    let reply = NatWhoisReply { users: vec![user], ..NatWhoisReply::default() };
    assert_eq!(
        text(&request, &reply),
        "203.0.113.17 port 40112 is 2001:db8:1::7 port 5000, with 198.51.100.9 port 443: flow of policy 1 of \
         instance 64, for 1 min 1 s"
    );
    let json: Value = serde_json::from_str(&to_json(&request, &reply)).unwrap();
    let user = &json["users"][0];
    assert_eq!(
        (&user["external"], &user["external_port"]),
        (&json!("203.0.113.17"), &json!(40_112))
    );
    assert_eq!(user["port_set"], Value::Null);
}

#[test]
fn times_have_an_offset_or_are_those_of_utc() {
    for same in [
        "2026-11-29T08:00:00Z",
        "2026-11-29 08:00",
        "2026-11-29T09:00:00+01:00",
        "2026-11-29T08:00:00.75Z",
    ] {
        assert_eq!(time(same), Ok(1_795_939_200), "{same}");
    }
    for wrong in [
        "",
        "2026-13-29T08:00:00Z",
        "2026-02-30T00:00Z",
        "1969-12-31T00:00Z",
        "2026-11-29",
        "10:00",
        "tcp",
    ] {
        assert!(time(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn port_sets_have_subscribers_and_times() {
    let block = NatUser {
        kind: "port-set".to_owned(),
        internal: vec![100, 64, 3, 0],
        internal_length: 24,
        external: vec![203, 0, 113, 17],
        first_port: 1_024,
        last_port: 1_535,
        instance: 1,
        id: 10,
        allocated_unix_s: 951_782_400,
        ..NatUser::default()
    };
    let reply = |users| NatWhoisReply { users, known_since_unix_s: 951_782_400 };
    let then = |unix_s| NatWhoisRequest {
        external: vec![203, 0, 113, 17],
        port: 1_100,
        protocol: 6,
        unix_s: Some(unix_s),
        ..NatWhoisRequest::default()
    };
    assert_eq!(
        text(&then(951_782_460), &reply(vec![block.clone()])),
        "203.0.113.17 port 1100 of tcp was at 2000-02-29T00:01:00Z\n\
         100.64.3.0/24, 203.0.113.17 ports 1024 to 1535: port set of policy 10 of instance 1, since \
         2000-02-29T00:00:00Z"
    );
    assert_eq!(
        text(&then(951_782_340), &reply(Vec::new())),
        "Not known of 203.0.113.17 port 1100 of tcp: the events of port sets begin at 2000-02-29T00:00:00Z."
    );
    assert_eq!(
        text(&then(951_782_500), &reply(Vec::new())),
        "Nobody had 203.0.113.17 port 1100 of tcp at 2000-02-29T00:01:40Z."
    );
    for (at, is_known) in [(951_782_340, false), (951_782_500, true)] {
        assert_eq!(exit_code(&then(at), &reply(Vec::new())), if is_known { 3 } else { 4 });
        let json: Value = serde_json::from_str(&to_json(&then(at), &reply(Vec::new()))).unwrap();
        assert_eq!(json["is_known"], is_known);
    }
    let by_arithmetic = NatUser { kind: "deterministic".to_owned(), ..block.clone() };
    let shown = text(&then(951_782_460), &reply(vec![by_arithmetic]));
    assert!(shown.ends_with(", by the configuration of now"), "{shown}");
    let held = NatUser { allocated_unix_s: 0, age_s: 90, unused_s: Some(30), ..block.clone() };
    let line = of_block(&held);
    assert!(line.ends_with("for 1 min 30 s, held without ports in use for 30 s"), "{line}");
    let inside = NatWhoisRequest { internal: vec![100, 64, 3, 7], ..NatWhoisRequest::default() };
    let nobody = text(&inside, &reply(Vec::new()));
    assert!(nobody.starts_with("100.64.3.7 has no port set now: see `stoa show nat mappings"));
    assert!(nobody.contains("--subscriber 100.64.3.7`"), "{nobody}");
    assert!(
        text(&inside, &reply(vec![block.clone()])).starts_with("100.64.3.0/24, 203.0.113.17 ports")
    );
    let json: Value = serde_json::from_str(&to_json(&inside, &reply(vec![block]))).unwrap();
    assert_eq!(json["users"][0]["port_set"]["subscriber"], "100.64.3.0/24");
    assert_eq!(json["users"][0]["port_set"]["released_unix_s"], Value::Null);
}
