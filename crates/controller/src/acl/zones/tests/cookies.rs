//! SYN cookies of zones, and what a commit warns about.

use serde_json::{Value, json};

use super::{parsed, whole, zones_of};

#[test]
fn syn_cookies_are_those_of_the_zone() {
    let mut value = whole(&[("inside", "outside", "web")]);
    let cookies = |value: &Value| {
        let configuration = parsed(value).unwrap();
        let of = |name: &str| configuration.interfaces.named(name).unwrap().zone_syn_cookies;
        let texts: Vec<String> = configuration.warnings().into_iter().map(|it| it.text).collect();
        let warned =
            texts.iter().filter(|text| text.contains("syn-cookies have no effect")).count();
        (["lan", "wan", "dmz"].map(of), warned)
    };
    assert_eq!(cookies(&value), ([None; 3], 0));
    // No rule is stateful.
    zones_of(&mut value)[1]["syn-cookies"] = json!({});
    assert_eq!(cookies(&value), ([None, Some(1000), None], 1));
    let ace = &mut value["ietf-access-control-list:acls"]["acl"][0]["aces"]["ace"][0];
    ace["actions"]["stoa-acl:stateful"] = json!(true);
    zones_of(&mut value)[1]["syn-cookies"] = json!({ "threshold": 0 });
    assert_eq!(cookies(&value), ([None, Some(0), None], 0));
    // The list is not of a pair to this zone.
    zones_of(&mut value)[0]["syn-cookies"] = json!({ "threshold": 5 });
    assert_eq!(cookies(&value), ([Some(5), Some(0), None], 1));
    zones_of(&mut value)[1] = json!({ "name": "router", "syn-cookies": {} });
    let errors = parsed(&value).unwrap_err();
    assert!(errors.iter().any(|(_, cause)| cause.contains("router itself")), "{errors:?}");
}

#[test]
fn what_nat_takes_from_syn_cookies_is_named() {
    let mut value = whole(&[("inside", "outside", "web")]);
    value["ietf-access-control-list:acls"]["acl"][0]["aces"]["ace"][0]["actions"]["stoa-acl:stateful"] =
        json!(true);
    let wan = &mut value["ietf-interfaces:interfaces"]["interface"][1];
    wan["ietf-ip:ipv4"] = json!({ "address": [{ "ip": "192.0.2.1", "prefix-length": 24 }] });
    let policy = json!({ "id": 7, "external-realm": { "external-interface": "wan" } });
    let forward = |index: u32| {
        let port = |port: u32| json!({ "start-port-number": port, "end-port-number": port });
        json!({
            "index": index, "type": "static", "transport-protocol": 6,
            "internal-src-address": "10.0.0.2/32", "internal-src-port": port(index),
            "external-src-address": "192.0.2.1/32", "external-src-port": port(8000 + index),
        })
    };
    let mut twice = forward(2);
    twice["internal-dst-address"] = json!("10.0.0.1/32");
    value["ietf-nat:nat"] = json!({ "instances": { "instance": [{
        "id": 1, "policy": [policy], "mapping-table": { "mapping-entry": [forward(1), twice] },
    }] } });
    let found = |value: &Value| {
        let warnings = parsed(value).unwrap().warnings();
        let warnings = warnings.into_iter().filter(|it| it.text.contains("do not protect"));
        warnings.map(|it| (it.text, it.nodes)).collect::<Vec<_>>()
    };
    assert_eq!(found(&value), []);
    let zone = "/ietf-access-control-list:acls/stoa-acl:zones/zone";
    let nat = "/ietf-nat:nat/instances/instance[id='1']";
    let of_twice = |zones: &str, found: &(String, Vec<String>)| {
        assert!(found.0.starts_with("NAT mapping 2 of instance 1: "), "{found:?}");
        let paths = [format!("{nat}/mapping-table/mapping-entry[index='2']"), zones.to_owned()];
        assert_eq!(found.1, paths);
    };
    // The zone of the servers behind a port forward is protected, but for twice NAT.
    zones_of(&mut value)[0]["syn-cookies"] = json!({});
    let warned = found(&value);
    assert_eq!(warned.len(), 1, "{warned:?}");
    of_twice(&format!("{zone}[name='inside']/syn-cookies"), &warned[0]);
    // That of the external interface is not.
    zones_of(&mut value)[0].as_object_mut().unwrap().remove("syn-cookies");
    zones_of(&mut value)[1]["syn-cookies"] = json!({});
    let warned = found(&value);
    assert_eq!(warned.len(), 2, "{warned:?}");
    let cookies = format!("{zone}[name='outside']/syn-cookies");
    assert!(warned[0].0.starts_with("zone outside: "), "{warned:?}");
    assert!(warned[0].0.contains("NAT policy 7 of instance 1 translates at interface wan"));
    assert_eq!(warned[0].1, [cookies.clone(), format!("{nat}/policy[id='7']")]);
    of_twice(&cookies, &warned[1]);
}
