//! `rename` with references that no module of this tree has, but that of a plugin may have: leaf-lists, and keys of
//! which several entries may have the same value.

use std::sync::Once;

use stoa_api::v1::configuration_edit::Edit;
use stoa_api::v1::{MoveEdit, SetEdit};
use stoa_console::line::split;
use stoa_console::rename;
use stoa_console::session::Failure;
use stoa_yang::data::{parse, print};
use stoa_yang::order;

const MODULE: &str = r#"module zones {
  yang-version 1.1;
  namespace "urn:example:zones";
  prefix zones;
  import ietf-interfaces { prefix if; }
  revision 2026-11-24;
  container zones {
    list zone {
      key "name";
      leaf name { type string; }
      leaf-list interface {
        type leafref { path "/if:interfaces/if:interface/if:name"; }
        ordered-by user;
      }
      leaf-list other { type leafref { path "/if:interfaces/if:interface/if:name"; } }
    }
    list service {
      key "kind name";
      leaf kind { type string; }
      leaf name { type string; }
      leaf description { type string; }
    }
    leaf main { type leafref { path "/zones/service/name"; } }
    leaf-list used { type leafref { path "/zones/service/name"; } }
  }
}"#;

fn with_module() {
    static ADDED: Once = Once::new();
    ADDED.call_once(|| {
        stoa_yang::add(vec![stoa_yang::Module { name: "zones", text: MODULE, features: &[] }]);
    });
}

fn interfaces(names: &[&str]) -> String {
    let entry =
        |name: &&str| format!(r#"{{"name": "{name}", "type": "iana-if-type:ethernetCsmacd"}}"#);
    let all: Vec<String> = names.iter().map(entry).collect();
    format!(r#""ietf-interfaces:interfaces": {{"interface": [{}]}}"#, all.join(", "))
}

fn edits(text: &str, line: &str) -> Result<(Vec<Edit>, usize), Failure> {
    with_module();
    rename::edits(&split(line).unwrap(), parse(text).unwrap())
}

/// The configuration after a `rename`, by the edits that the router receives, and the number of references.
fn after(text: &str, line: &str) -> (serde_json::Value, usize) {
    let (edits, references) = edits(text, line).unwrap_or_else(|failure| panic!("{failure:?}"));
    let mut tree = parse(text).unwrap();
    for edit in &edits {
        match edit {
            Edit::Set(SetEdit { path, value }) => {
                tree.new_path(path, value.as_deref(), false).unwrap();
            }
            Edit::Delete(path) => tree.remove(path).unwrap(),
            Edit::Move(MoveEdit { path, point, .. }) => {
                let place = order::Place::Before(point.clone());
                order::move_entry(&mut tree, path, &place).unwrap();
            }
            other => panic!("{other:?}"),
        }
    }
    (serde_json::from_str(&print(&tree).unwrap()).unwrap(), references)
}

fn refused(text: &str, line: &str) -> String {
    match edits(text, line) {
        Err(Failure::Words(text)) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn entries_of_leaf_lists_follow_in_their_places() {
    let text = format!(
        r#"{{{}, "zones:zones": {{"zone": [
            {{"name": "in", "interface": ["a", "wan", "b"], "other": ["a", "wan"]}},
            {{"name": "out", "interface": ["wan"]}},
            {{"name": "none", "interface": ["b"]}}]}}}}"#,
        interfaces(&["a", "wan", "b"])
    );
    let (after, references) = after(&text, "interfaces interface wan to uplink");
    let zones = &after["zones:zones"]["zone"];
    let zone = |name: &str| {
        zones.as_array().unwrap().iter().find(|zone| zone["name"] == name).unwrap().clone()
    };
    assert_eq!(zone("in")["interface"], serde_json::json!(["a", "uplink", "b"]));
    assert_eq!(zone("in")["other"], serde_json::json!(["a", "uplink"]));
    assert_eq!(zone("out")["interface"], serde_json::json!(["uplink"]));
    assert_eq!(zone("none")["interface"], serde_json::json!(["b"]));
    assert_eq!(references, 3);
    assert!(!after.to_string().contains("wan"), "{after}");
}

#[test]
fn a_reference_that_may_mean_another_entry_is_refused() {
    let zones = |services: &str, rest: &str| {
        format!(r#"{{"zones:zones": {{"service": [{services}] {rest}}}}}"#)
    };
    let two = r#"{"kind": "dns", "name": "one"}, {"kind": "web", "name": "one"}"#;
    for rest in [r#", "main": "one""#, r#", "used": ["one"]"#] {
        let error = refused(&zones(two, rest), "zones service dns one to dns two");
        for part in [
            "`zones service dns one` cannot be renamed",
            "names \"one\"",
            "`zones service web one",
            "delete or change",
        ] {
            assert!(error.contains(part), "{part}: {error}");
        }
    }
    // No reference, another value, or another key that changes: nothing is ambiguous.
    let rest = r#", "main": "three""#;
    let others = format!(r#"{two}, {{"kind": "web", "name": "three"}}"#);
    let (made, references) = after(&zones(&others, rest), "zones service dns one to dns two");
    assert_eq!((references, &made["zones:zones"]["main"]), (0, &"three".into()));
    let (made, references) =
        after(&zones(two, r#", "main": "one""#), "zones service dns one to mail one");
    assert_eq!((references, &made["zones:zones"]["main"]), (0, &"one".into()));
    // One entry has the name: the reference is to it.
    let (made, references) = after(
        &zones(r#"{"kind": "dns", "name": "one", "description": "kept"}"#, r#", "used": ["one"]"#),
        "zones service dns one to dns two",
    );
    assert_eq!((references, &made["zones:zones"]["used"]), (1, &serde_json::json!(["two"])));
    assert_eq!(made["zones:zones"]["service"][0]["description"], "kept");
}
