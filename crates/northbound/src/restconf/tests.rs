//! Any request of an untrusted client is accepted or refused, without a panic.

use http::Method;
use proptest::prelude::*;

use super::body;
use super::media::Media;
use super::path::{self, Resource};
use super::query::Query;

/// Fragments of paths, queries and bodies, valid and invalid.
const PIECES: &[&str] = &[
    "ietf-interfaces:interfaces",
    "interface",
    "=",
    "lan",
    "/",
    "//",
    ":",
    ",",
    "%2F",
    "%00",
    "%",
    "%ff",
    "ietf-ip:ipv4",
    "address",
    "10.0.0.1",
    "'",
    "\"",
    "[",
    "]",
    "(",
    ")",
    ";",
    "&",
    "?",
    "depth",
    "fields",
    "name",
    "content",
    "point",
    "insert",
    "first",
    "1",
    "\u{0}",
    "\u{e9}",
    "description",
    "{",
    "}",
    "<",
    ">",
    "</",
    "/>",
    "<interfaces xmlns=\"urn:ietf:params:xml:ns:yang:ietf-interfaces\">",
    "</interfaces>",
    "<interface>",
    "</interface>",
    "<name>",
    "</name>",
    "<!--",
    "-->",
    "<![CDATA[",
    "]]>",
    "&lt;",
    "&#0;",
    "<!DOCTYPE x [<!ENTITY a \"b\">]>",
    "&a;",
    "<?xml version=\"1.0\"?>",
    "\"ietf-interfaces:interface\"",
    ": ",
    "null",
    "[null]",
    "1e999",
    "\\u0000",
    "@",
    "\"@\"",
    "stoa-system:system",
    "\"ietf-interfaces:description\"",
    "<description xmlns=\"urn:ietf:params:xml:ns:yang:ietf-interfaces\">",
    "</description>",
];

fn text() -> impl Strategy<Value = String> {
    let pieces = prop::collection::vec(prop::sample::select(PIECES), 0..24);
    prop_oneof![pieces.prop_map(|pieces| pieces.concat()), any::<String>()]
}

fn lan() -> Resource {
    path::parse("ietf-interfaces:interfaces/interface=lan").unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn paths_are_read_or_refused(raw in text()) {
        if let Ok(resource) = path::parse(&raw) {
            // A parsed path can be printed and parsed again.
            prop_assert_eq!(crate::nacm::rule_path(&resource.data_path()), resource.steps);
        }
    }

    #[test]
    fn queries_are_read_or_refused(raw in text()) {
        for method in [Method::GET, Method::POST, Method::DELETE] {
            let _ = Query::parse(&raw, &method);
        }
    }

    #[test]
    fn bodies_bring_one_node_of_their_parent_or_are_refused(raw in text()) {
        for media in [Media::Json, Media::Xml] {
            for parent in [Resource::root(), lan()] {
                let Ok(given) = body::below(&parent, media, raw.as_bytes()) else { continue };
                let text = given.text().unwrap();
                // Nothing of another entry, whatever the form of the body.
                if !parent.is_root() {
                    prop_assert_eq!(text.matches("\"name\":").count(), 1, "{}", text);
                }
            }
            let _ = body::whole(media, raw.as_bytes());
        }
    }

    #[test]
    fn bytes_are_no_text(raw in prop::collection::vec(any::<u8>(), 0..64)) {
        for media in [Media::Json, Media::Xml] {
            let _ = body::below(&lan(), media, &raw);
        }
    }
}

#[test]
fn bodies_cannot_leave_their_resource() {
    let description =
        "<description xmlns=\"urn:ietf:params:xml:ns:yang:ietf-interfaces\">x</description>";
    let good = body::below(&lan(), Media::Xml, description.as_bytes()).unwrap();
    assert!(good.text().unwrap().contains("\"description\":\"x\""));
    let other = "</interface><interface><name>other</name>";
    let after = "</interface></interfaces><system xmlns=\"urn:stoa:yang:stoa-system\">\
                 <workers><count>3</count></workers></system>";
    let comment = format!("{description}<!--");
    for odd in [
        format!("{description}{other}{description}"),
        format!("{other}{description}"),
        format!("{description}{after}"),
        comment,
    ] {
        assert!(body::below(&lan(), Media::Xml, odd.as_bytes()).is_err(), "{odd}");
    }
    let two = r#"{"ietf-interfaces:description": "x", "ietf-interfaces:enabled": true}"#;
    let name = r#"{"ietf-interfaces:name": "other"}"#;
    for odd in [two, name, "{}", r#"{"ietf-interfaces:description": 1}"#] {
        assert!(body::below(&lan(), Media::Json, odd.as_bytes()).is_err(), "{odd}");
    }
}

#[test]
fn old_names_are_refused_with_the_new_ones() {
    let port = r#"{"stoa-interfaces:port": {"null": {}, "spread": true}}"#;
    for (media, body, fix) in [
        (
            Media::Json,
            r#"{"stoa-mirror:mirror": {}}"#,
            "Use \"stoa-host-interface:host-interface\"",
        ),
        (
            Media::Xml,
            "<mirror xmlns=\"urn:stoa:yang:stoa-mirror\"/>",
            "Use \"stoa-host-interface:host-interface\"",
        ),
        (Media::Json, port, "Use \"software-rss\""),
    ] {
        let faults = body::below(&lan(), media, body.as_bytes()).unwrap_err();
        let words = faults.messages().join("; ");
        assert!(words.contains(fix), "{body}: {words}");
    }
}

#[test]
fn ambiguous_keys_are_refused() {
    let interfaces = path::parse("ietf-interfaces:interfaces").unwrap();
    let body = |name: &str| {
        let entry = serde_json::json!({ "name": name, "type": "iana-if-type:ethernetCsmacd" });
        serde_json::json!({ "ietf-interfaces:interface": [entry] }).to_string()
    };
    let read = |name: &str| body::below(&interfaces, Media::Json, body(name).as_bytes());
    assert!(read("it's").is_ok() && read("say \"x\"").is_ok());
    assert!(read("x'\"]/description[a=\"").is_err());
    assert!(read(&"x".repeat(super::keys::PATH_BYTES)).is_err());
    let long = "x".repeat(super::keys::PATH_BYTES);
    assert!(path::parse(&format!("ietf-interfaces:interfaces/interface={long}")).is_err());
    let whole = serde_json::json!({ "ietf-restconf:data": {
        "ietf-interfaces:interfaces": serde_json::from_str::<serde_json::Value>(
            &body("x'\"").replace("ietf-interfaces:interface", "interface")).unwrap() } });
    assert!(body::whole(Media::Json, whole.to_string().as_bytes()).is_err());
}
