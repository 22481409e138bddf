//! Recorded cases: a configuration, and the desired state or the errors that it gives.
//!
//! `tests/cases/<name>/config.json` -> `desired.json` or `errors.json`. The former omits what is as in
//! `tests/defaults/bare.json`. To record again after a change that is meant: `STOA_UPDATE=1 cargo test`, and read the
//! difference before it is committed. `changes` records what single settings change.

mod changes;
mod defaults;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use stoa_api::text::{ip_text, mac_text};
use stoa_api::v1;
use stoa_api::v1::route::Action;
use stoa_controller::config::route_sources::RouteSourceConfig;
use stoa_controller::configuration::Configuration;
use stoa_yang::error::ValidationError;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All cases: their folders, and what their configurations give.
fn cases() -> Vec<(PathBuf, Result<Configuration, Vec<ValidationError>>)> {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut folders: Vec<PathBuf> =
        std::fs::read_dir(cases).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    assert!(folders.len() >= 20, "cases are missing: {}", folders.len());
    let parsed = |folder: PathBuf| {
        let text = std::fs::read_to_string(folder.join("config.json")).unwrap();
        (folder, Configuration::parse(Path::new("config.json"), text))
    };
    folders.into_iter().map(parsed).collect()
}

#[test]
fn recorded_cases() {
    let is_recording = std::env::var_os("STOA_UPDATE").is_some();
    let defaults = defaults::read();
    let mut wrong = Vec::new();
    for (folder, parsed) in cases() {
        let (name, other, got) = match parsed {
            Ok(configuration) => {
                let record = defaults::difference(&recorded(&configuration), Some(&defaults));
                ("desired.json", "errors.json", record)
            }
            Err(errors) => ("errors.json", "desired.json", errors_json(&errors)),
        };
        let got = serde_json::to_string_pretty(&got).unwrap() + "\n";
        let expected = std::fs::read_to_string(folder.join(name)).unwrap_or_default();
        if is_recording {
            std::fs::write(folder.join(name), &got).unwrap();
            let _ = std::fs::remove_file(folder.join(other));
        } else if got != expected || folder.join(other).exists() {
            wrong.push(format!("{}/{name} is now:\n{got}", folder.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_example_is_valid() {
    let mut seen = 0;
    for entry in std::fs::read_dir(root().join("examples")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let configuration = Configuration::read(&path).unwrap_or_else(|errors| {
                panic!("{}: {errors:#?}", path.display());
            });
            assert!(!configuration.summary().is_empty());
            seen += 1;
        }
    }
    assert!(seen >= 4);
}

#[test]
fn every_configuration_of_the_guide_is_valid() {
    let page = |name: &str| std::fs::read_to_string(root().join("docs/guide").join(name)).unwrap();
    let pages = [
        "interfaces.md",
        "static-routes.md",
        "vrfs.md",
        "workers.md",
        "control-plane-policing.md",
        "hosts.md",
        "vrrp.md",
        "logs.md",
        "first-hour.md",
        "numa.md",
        "management.md",
        "users.md",
    ];
    let guide = pages.map(page).concat();
    let mut seen = 0;
    for block in guide.split("```json\n").skip(1) {
        let text = block.split("```").next().unwrap().to_owned();
        if let Err(errors) = Configuration::parse(Path::new("guide"), text.clone()) {
            panic!("{text}\n{errors:#?}");
        }
        seen += 1;
    }
    assert!(seen >= 15, "{seen}");
}

#[test]
fn inactive_routes_and_unused_settings_are_warnings() {
    let text = r#"{
        "ietf-interfaces:interfaces": {"interface": [{
            "name": "a", "type": "iana-if-type:ethernetCsmacd",
            "stoa-interfaces:port": {"af-packet": {"device": "a"}, "software-rss": true},
            "ietf-ip:ipv4": {"address": [{"ip": "10.0.0.1", "prefix-length": 24}]}}]},
        "ietf-routing:routing": {"control-plane-protocols": {"control-plane-protocol": [{
            "type": "ietf-routing:static", "name": "s",
            "static-routes": {"ietf-ipv4-unicast-routing:ipv4": {"route": [
                {"destination-prefix": "10.1.0.0/16", "next-hop": {"next-hop-address": "10.2.0.1"}},
                {"destination-prefix": "10.2.0.0/16", "next-hop": {"next-hop-address": "10.1.0.1"}}
            ]}}}]}}}"#;
    let configuration = Configuration::parse(Path::new("idle"), text.to_owned());
    let configuration = configuration.unwrap_or_else(|errors| panic!("{errors:#?}"));
    let summary = configuration.summary();
    assert!(summary.contains("2 static routes (2 inactive)"), "{summary}");
    let warnings = texts(&configuration).join("\n");
    assert!(
        warnings.contains("interface a: software-rss does nothing with one worker"),
        "{warnings}"
    );
}

/// Cut anywhere, or with a byte changed, a text is refused or read, never a panic.
#[test]
fn mangled_texts_are_refused_without_a_panic() {
    let text = std::fs::read_to_string(root().join("examples/ecmp.json")).unwrap();
    for cut in (0..text.len()).step_by(37) {
        let half = text[..cut].to_owned();
        let errors = Configuration::parse(Path::new("cut"), half).unwrap_err();
        assert!(!errors.is_empty());
        let mut bytes = text.clone().into_bytes();
        for letter in [b'"', b'{', b'9', b' '] {
            bytes[cut] = letter;
            let changed = String::from_utf8(bytes.clone()).unwrap();
            let _ = Configuration::parse(Path::new("changed"), changed);
        }
    }
}

fn texts(configuration: &Configuration) -> Vec<String> {
    configuration.warnings().iter().map(ToString::to_string).collect()
}

fn errors_json(errors: &[ValidationError]) -> Value {
    let record = |error: &ValidationError| {
        let mut record = json!({"path": error.path, "cause": error.cause, "fix": error.fix});
        // What the cause names besides the path: who may not read it gets another cause.
        if !error.names.is_empty() {
            record["names"] = json!(error.names);
        }
        record
    };
    errors.iter().map(record).collect()
}

// ===== what a configuration says, for people =====

/// The desired state, with routes as lines, and what the controller keeps for itself.
fn recorded(configuration: &Configuration) -> Value {
    let desired = configuration.whole_desired();
    let mut all = serde_json::to_value(&desired).unwrap();
    all["routes"] = desired.routes.iter().map(route).collect();
    all["neighbors"] = desired.neighbors.iter().map(neighbor).collect();
    all["warnings"] = json!(texts(configuration));
    all["route-sources"] = configuration.route_sources.iter().map(route_source).collect();
    all
}

fn route_source(route_source: &RouteSourceConfig) -> Value {
    let RouteSourceConfig { source, netns, peer_users, kind } = route_source;
    let of = match source.preference {
        Some(preference) => format!("preference {preference}, stale {:?}", source.stale_time),
        None => format!("stale {:?}", source.stale_time),
    };
    let users = match peer_users.as_slice() {
        [] => String::new(),
        users => format!(", by {}", users.join(" and ")),
    };
    json!(format!("{} vrf {:?} {of}, in {netns:?}{users}: {kind:?}", source.name, source.vrf.0))
}

fn neighbor(neighbor: &v1::Neighbor) -> String {
    let v1::Neighbor { interface, address, mac } = neighbor;
    format!("{} dev {interface} mac {}", ip_text(address), mac_text(mac))
}

fn route(route: &v1::Route) -> String {
    let v1::Route { prefix, protocol: _, action, vrf } = route;
    let action = match action.as_ref().unwrap() {
        Action::Paths(paths) => {
            let paths: Vec<String> = paths.paths.iter().map(ToString::to_string).collect();
            paths.join(", ")
        }
        Action::Special(special) => v1::Special::try_from(*special).unwrap().to_string(),
    };
    let vrf = if vrf.is_empty() { String::new() } else { format!("vrf {vrf} ") };
    format!("{vrf}{} {} {action}", prefix.as_ref().unwrap(), route.protocol())
}
