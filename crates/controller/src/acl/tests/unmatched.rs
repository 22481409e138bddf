//! What no rule has matched, as YANG data.

use super::*;

#[test]
fn packets_without_a_rule_are_counted_by_lists_and_by_pairs_of_zones() {
    let row = v1::AclRow { family: 6, acls: vec!["edge".into(), "lan".into()] };
    let unmatched =
        v1::AclRuleState { row: Some(row), packets: 9, bytes: 700, ..Default::default() };
    let pair = v1::ZonePair { from: "inside".into(), to: "router".into(), ..Default::default() };
    let pair = v1::ZonePairState { pair: Some(pair), dropped_packets: 5, dropped_bytes: 300 };
    let cookies = v1::SynCookiesState {
        zone: "outside".into(),
        half_open: 7,
        is_on: true,
        ..Default::default()
    };
    let zone_pairs = v1::ListZonePairsReply {
        pairs: vec![pair],
        unpaired_packets: 3,
        syn_cookies: vec![cookies],
        ..Default::default()
    };
    let acls = vec![unmatched];
    let operational = OperationalState { acls, zone_pairs, ..OperationalState::default() };
    let request = StateRequest::at("/ietf-access-control-list:acls/acl");
    let rendered = render(&operational, &request);
    let acls = &rendered["ietf-access-control-list:acls"];
    let row = json!([{ "family": "ipv6", "acls": "edge lan", "packets": "9", "octets": "700" }]);
    assert_eq!(acls["stoa-acl:unmatched"], row);
    let pairs = &acls["stoa-acl:zone-pairs"];
    assert_eq!(pairs["zone-pair"][0]["statistics"]["dropped-packets"], "5");
    assert_eq!(pairs["unpaired"]["dropped-packets"], "3");
    let state = &acls["stoa-acl:zones"]["zone"][0]["syn-cookies-state"];
    assert_eq!((&state["active"], &state["half-open"]), (&json!(true), &json!(7)));
    tree(&operational, &request).unwrap();
}
