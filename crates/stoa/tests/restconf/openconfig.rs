//! OpenConfig paths on the real router: names and values, streams, and the access rules of the IETF paths.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stoa_api::gnmi::{CapabilityRequest, GetRequest, SubscriptionMode};
use tonic::Code;

use crate::gnmi::{Testbed, by, path, text, update, value, watched};
use crate::testbed::interface;

const STATE: &str = "interfaces/interface[name=lan]/state";

/// A port and a VLAN on it, a static route, a BGP route source, and rules that hide the counters from ann.
fn configuration() -> Value {
    let vlan = json!({
        "name": "lan.7", "type": "iana-if-type:l2vlan",
        "stoa-interfaces:sub-interface": { "parent": "lan", "outer": { "vid": 7 } },
        "ietf-ip:ipv6": { "address": [{ "ip": "2001:db8::1", "prefix-length": 64 }] },
    });
    let route = json!({ "destination-prefix": "192.0.2.0/24",
                        "next-hop": { "next-hop-address": "10.0.0.9" } });
    json!({
        "ietf-interfaces:interfaces": { "interface": [interface("lan", "10.0.0.1"), vlan] },
        "ietf-routing:routing": { "control-plane-protocols": { "control-plane-protocol": [
            { "type": "ietf-routing:static", "name": "s", "static-routes": {
                "ietf-ipv4-unicast-routing:ipv4": { "route": [route] } } },
            { "type": "stoa-routing:bgp", "name": "frr", "stoa-routing:route-source": {
                "as": 65_000, "bgp-address": "127.0.0.1", "bgp-port": 41_790 } },
        ] } },
        "ietf-netconf-acm:nacm": {
            "groups": { "group": [{ "name": "ops", "user-name": ["ann"] }] },
            "rule-list": [{ "name": "ops", "group": ["ops"], "rule": [
                { "name": "no-counters", "module-name": "ietf-interfaces", "access-operations": "read",
                  "action": "deny", "path": "/ietf-interfaces:interfaces/interface/statistics" },
                { "name": "no-routes", "module-name": "ietf-routing", "access-operations": "read",
                  "action": "deny", "path": "/ietf-routing:routing/ribs" },
            ] }],
        },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn openconfig_paths_have_the_data_of_the_router() {
    let mut testbed = Testbed::with(configuration()).await;
    let counters = value(&testbed.get(&format!("{STATE}/counters")).await.unwrap()[0]);
    assert!(counters["openconfig-interfaces:in-octets"].is_string(), "{counters}");
    let vlan = "interfaces/interface[name=lan]/subinterfaces/subinterface[index=7]";
    let vlan = value(&testbed.get(&format!("{vlan}/state/name")).await.unwrap()[0]);
    assert_eq!(vlan, json!("lan.7"));
    let neighbor = "network-instances/network-instance[name=default]/protocols\
                    /protocol[identifier=BGP][name=frr]/bgp/neighbors\
                    /neighbor[neighbor-address=127.0.0.1]/state/session-state";
    // The session listens some time after the start.
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let state = value(&testbed.get(neighbor).await.unwrap()[0]);
        if state == json!("ACTIVE") {
            break;
        }
        assert!(Instant::now() < deadline, "{state}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let afts = "network-instances/network-instance[name=default]/afts";
    let afts = value(&testbed.get(afts).await.unwrap()[0]);
    let entries = &afts["openconfig-network-instance:ipv4-unicast"]["ipv4-entry"];
    let subnet = entries.as_array().unwrap().iter().find(|entry| entry["prefix"] == "10.0.0.0/24");
    let state = &subnet.unwrap()["state"];
    assert_eq!(state["origin-protocol"], "openconfig-policy-types:DIRECTLY_CONNECTED", "{afts}");
    // The whole tree is there at once, and the old view beside it.
    let whole = testbed.get("openconfig-interfaces:interfaces").await.unwrap();
    assert_eq!(value(&whole[0])["openconfig-interfaces:interface"][0]["name"], "lan");
    let native = testbed.get("interfaces").await.unwrap();
    assert!(value(&native[0])["ietf-interfaces:interface"].is_array());
    let models = testbed.client.capabilities(by("root", CapabilityRequest::default())).await;
    let models = models.unwrap().into_inner().supported_models;
    assert!(
        models
            .iter()
            .any(|model| model.name == "openconfig-interfaces" && model.version == "3.5.0")
    );
    let missing = testbed.get(&format!("{STATE}/counters/in-bytes")).await.unwrap_err();
    assert_eq!(missing.code(), Code::InvalidArgument);
    assert!(missing.message().contains("/state/counters/in-"), "{missing:?}");
    let absent = testbed.get("interfaces/interface[name=none]/state/name").await.unwrap_err();
    assert_eq!(absent.code(), Code::NotFound);
    let change = update("interfaces/interface[name=lan]/config/enabled", json!(false));
    let refused = testbed
        .set(stoa_api::gnmi::SetRequest { update: vec![change], ..Default::default() })
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented, "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rules_of_the_ietf_path_apply() {
    let mut testbed = Testbed::with(configuration()).await;
    let mut ask = async |who: &str, text: &str| {
        let request = GetRequest {
            path: vec![path(text)],
            encoding: stoa_api::gnmi::Encoding::JsonIetf.into(),
            ..GetRequest::default()
        };
        let reply = testbed.client.get(by(who, request)).await?;
        let updates = reply.into_inner().notification.into_iter().flat_map(|one| one.update);
        Ok::<_, tonic::Status>(updates.map(|update| value(&update)).collect::<Vec<_>>())
    };
    let state = ask("ann", STATE).await.unwrap().remove(0);
    assert_eq!(state["openconfig-interfaces:oper-status"], "UP");
    assert!(state["openconfig-interfaces:counters"].is_null(), "{state}");
    for hidden in [
        "interfaces/interface[name=lan]/state/counters/in-octets",
        "network-instances/network-instance[name=default]/afts/ipv4-unicast",
    ] {
        assert_eq!(ask("ann", hidden).await.unwrap_err().code(), Code::NotFound, "{hidden}");
        assert_eq!(ask("root", hidden).await.unwrap().len(), 1, "{hidden}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn openconfig_leaves_are_streamed() {
    let mut testbed = Testbed::with(configuration()).await;
    let status = format!("{STATE}/oper-status");
    let mut changes =
        testbed.stream("ann", watched(&[(&status, SubscriptionMode::OnChange)])).await;
    let first = changes.first().await;
    let there = "openconfig-interfaces:interfaces/interface[name=lan]/state/oper-status";
    assert_eq!(first.iter().map(value).collect::<Vec<_>>(), [json!("UP")]);
    assert_eq!(text(first[0].path.as_ref().unwrap()), there);
    testbed.update("interfaces/interface[name=lan]/enabled", json!(false)).await.unwrap();
    let reply = changes.until(|reply| !reply.update.is_empty()).await;
    assert_eq!(value(&reply.update[0]), json!("DOWN"));
    let counters = "interfaces/interface/state/counters";
    let list = watched(&[(counters, SubscriptionMode::Sample)]);
    let mut sampled = testbed.stream("root", list.clone()).await;
    let count = sampled.first().await.len();
    assert!(count >= 6, "{count} values");
    for _ in 0..2 {
        assert_eq!(sampled.until(|_| true).await.update.len(), count, "changed or not");
    }
    // Whom the rules hide the counters from gets none.
    assert!(testbed.stream("ann", list).await.first().await.is_empty());
    let own = watched(&[("openconfig-interfaces:interfaces", SubscriptionMode::TargetDefined)]);
    let all = testbed.stream("root", own).await.first().await;
    let names: Vec<String> = all.iter().map(|one| text(one.path.as_ref().unwrap())).collect();
    assert!(names.iter().any(|name| name == there) && names.len() > 20, "{names:?}");
    assert!(names.iter().any(|name| name.ends_with("counters/in-octets")), "{names:?}");
}
