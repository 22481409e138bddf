//! One entry of a long list is added or deleted.

use std::collections::BTreeSet;
use std::path::Path;

use stoa_api::v1;
use stoa_api::v1::configuration_edit::Edit;
use stoa_controller::configuration::Configuration;

use super::{MANY, config, file, prepared, saved};
use crate::scenario::Scenario;

/// The names of the interfaces and the destinations of the routes in a configuration.
fn keys(text: &str) -> [BTreeSet<String>; 2] {
    let text: serde_json::Value = serde_json::from_str(text).unwrap();
    let of = |list: &serde_json::Value, key: &str| {
        let entries = list.as_array().into_iter().flatten();
        entries.map(|entry| entry[key].as_str().unwrap().to_owned()).collect()
    };
    let protocols =
        &text["ietf-routing:routing"]["control-plane-protocols"]["control-plane-protocol"];
    let routes = &protocols[0]["static-routes"]["ietf-ipv4-unicast-routing:ipv4"]["route"];
    [of(&text["ietf-interfaces:interfaces"]["interface"], "name"), of(routes, "destination-prefix")]
}

/// One entry is added or deleted, and nothing else: all others stay, in running and in the startup file.
#[tokio::test]
async fn a_new_or_deleted_entry_leaves_the_others() {
    for (routes, interfaces) in [(MANY, 4), (3, MANY)] {
        let mut scenario = Scenario::new(&config(routes, interfaces));
        let _forwarder = scenario.forwarder();
        let (mut operator, _datastore) = prepared(&mut scenario).await;
        let interface =
            |name: &str| format!("/ietf-interfaces:interfaces/interface[name='{name}']");
        let route = |prefix: &str| {
            let protocols = "/ietf-routing:routing/control-plane-protocols/control-plane-protocol";
            let instance = format!("{protocols}[type='ietf-routing:static'][name='many']");
            let routes = "static-routes/ietf-ipv4-unicast-routing:ipv4/route";
            format!("{instance}/{routes}[destination-prefix='{prefix}']")
        };
        let set = |path: String, value: &str| {
            Edit::Set(v1::SetEdit { path, value: Some(value.to_owned()) })
        };
        let new = r#"{"ietf-interfaces:interfaces": {"interface": [{"name": "new",
            "type": "iana-if-type:ethernetCsmacd", "stoa-interfaces:port": {"null": {}}}]}}"#;
        let mut expected = keys(&file(&scenario));
        let gateway = format!("{}/next-hop/next-hop-address", route("10.200.0.0/16"));
        for (edit, list, key, is_new) in [
            (Edit::Delete(interface("if0")), 0, "if0", false),
            (Edit::Merge(new.to_owned()), 0, "new", true),
            (Edit::Delete(route("10.0.2.0/24")), 1, "10.0.2.0/24", false),
            (set(gateway, "192.0.2.7"), 1, "10.200.0.0/16", true),
        ] {
            match is_new {
                true => assert!(expected[list].insert(key.to_owned())),
                false => assert!(expected[list].remove(key), "{key}"),
            }
            assert_eq!(operator.edit(edit).await, [], "{key}");
            assert!(keys(&operator.text(v1::Store::Candidate).await) == expected, "{key}");
            assert_eq!(operator.commit(0, false).await.errors, [], "{key}");
            assert!(keys(&operator.text(v1::Store::Running).await) == expected, "{key}");
            saved(&scenario).await;
            assert!(keys(&file(&scenario)) == expected, "{key}");
            let read = Configuration::parse(Path::new("t"), file(&scenario)).unwrap();
            assert_eq!(read.interfaces.len(), expected[0].len(), "{key}");
        }
        scenario.kill().await;
    }
}
