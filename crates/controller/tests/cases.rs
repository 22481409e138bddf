//! Recorded cases: a configuration, and the desired state or the errors that it gives.
//!
//! `tests/cases/<name>/config.json` -> `desired.json` or `errors.json`. To
//! record again after a change that is meant: `STOA_UPDATE=1 cargo test`, and
//! read the difference before it is committed. `changes` records what single settings change.

mod changes;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use stoa_api::text::{ip_text, mac_text};
use stoa_api::v1;
use stoa_api::v1::port::Driver;
use stoa_api::v1::route::Action;
use stoa_controller::config::route_sources::RouteSourceConfig;
use stoa_controller::configuration::Configuration;
use stoa_yang::error::ValidationError;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn recorded_cases() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let is_recording = std::env::var_os("STOA_UPDATE").is_some();
    let mut folders: Vec<PathBuf> =
        std::fs::read_dir(cases).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    assert!(folders.len() >= 20, "cases are missing: {}", folders.len());
    let mut wrong = Vec::new();
    for folder in folders {
        let text = std::fs::read_to_string(folder.join("config.json")).unwrap();
        let (name, other, got) = match Configuration::parse(Path::new("config.json"), text) {
            Ok(configuration) => ("desired.json", "errors.json", recorded(&configuration)),
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
    let warnings = configuration.warnings().join("\n");
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

fn errors_json(errors: &[ValidationError]) -> Value {
    errors
        .iter()
        .map(|error| json!({"path": error.path, "cause": error.cause, "fix": error.fix}))
        .collect()
}

// ===== the desired state, for people =====

fn recorded(configuration: &Configuration) -> Value {
    let mut all = desired(&configuration.whole_desired());
    let warnings = configuration.warnings();
    let vrfs: Vec<&str> = configuration.desired.vrfs.iter().map(|vrf| vrf.name.as_str()).collect();
    if !warnings.is_empty() {
        all["warnings"] = json!(warnings);
    }
    let limits = configuration.desired.limits.unwrap_or_default();
    let default = v1::Limits {
        ip4_routes: 2 << 20,
        ip6_routes: 1 << 20,
        vrf_routes: 1 << 18,
        next_hops: 1 << 18,
        adjacencies: 1 << 18,
        neighbors: 1 << 14,
    };
    if limits != default {
        all["limits"] = json!(format!("{limits:?}"));
    }
    let logging = configuration.desired.logging.clone().unwrap_or_default();
    let default =
        v1::Logging { level: "info".into(), format: "text".into(), ..v1::Logging::default() };
    if logging != default {
        all["logging"] = json!(format!("{logging:?}"));
    }
    if !vrfs.is_empty() {
        all["vrfs"] = json!(vrfs);
    }
    if !configuration.route_sources.is_empty() {
        all["route-sources"] = configuration.route_sources.iter().map(route_source).collect();
    }
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

fn desired(desired: &v1::Desired) -> Value {
    let workers = desired.workers.as_ref().unwrap();
    let mut value = json!({
        "workers": {
            "count": workers.count,
            "cpus": workers.cpus,
            "polling": workers.polling().as_str_name(),
            "buffers": workers.buffers,
            "huge_pages": workers.huge_pages().as_str_name(),
            "kernel": workers.kernel,
        },
        "ports": desired.ports.iter().map(port).collect::<Vec<_>>(),
        "interfaces": desired.interfaces.iter().map(interface).collect::<Vec<_>>(),
        "routes": desired.routes.iter().map(route).collect::<Vec<_>>(),
        "neighbors": desired.neighbors.iter().map(|neighbor| format!(
            "{} dev {} mac {}",
            ip_text(&neighbor.address), neighbor.interface, mac_text(&neighbor.mac)
        )).collect::<Vec<_>>(),
    });
    let reassembly = desired.reassembly.unwrap_or_default();
    if (reassembly.packets, reassembly.per_source) != (256, 16) {
        value["reassembly"] =
            json!({ "packets": reassembly.packets, "per_source": reassembly.per_source });
    }
    if let Some(v1::Multipath { hash_seed }) = desired.multipath {
        value["multipath"] = json!({ "hash_seed": hash_seed });
    }
    if !desired.punts.is_empty() {
        value["punts"] = desired.punts.iter().map(punt).collect();
    }
    value
}

fn punt(limit: &v1::PuntLimit) -> Value {
    let v1::PuntLimit { class, rate, burst, total } = limit;
    json!({ "class": class, "rate": rate, "burst": burst, "total": total })
}

fn port(port: &v1::Port) -> Value {
    let driver = match port.driver.as_ref().unwrap() {
        Driver::AfXdp(af) => format!(
            "af-xdp {} netns {:?} auto {} {:?} {:?} always_call {}",
            af.device,
            af.netns,
            af.auto,
            af.attach(),
            af.bind(),
            af.always_call
        ),
        Driver::AfPacket(af) => format!("af-packet {} netns {:?}", af.device, af.netns),
        Driver::Tap(tap) => format!("tap {} netns {:?}", tap.device, tap.netns),
        Driver::Memif(memif) => format!(
            "memif {} id {} master {} secret {:?} ring {} buffer {}",
            memif.socket, memif.id, memif.master, memif.secret, memif.ring_size, memif.buffer_size
        ),
        Driver::Dpdk(dpdk) => format!("dpdk {} ring {}", dpdk.device, dpdk.ring_size),
        Driver::Pcap(pcap) => format!("pcap in {:?} out {:?}", pcap.input, pcap.output),
        Driver::Generator(made) => format!(
            "generator frame {} count {} rate {} mac {} from {} to {} x {} vlan {}",
            made.frame,
            made.count,
            made.rate,
            mac_text(&made.destination_mac),
            ip_text(&made.source),
            ip_text(&made.destination),
            made.destinations,
            made.vlan
        ),
        Driver::Tunnel(it) => format!(
            "tunnel {:?} {} -> {} hop-limit {}",
            it.encapsulation(),
            ip_text(&it.local),
            ip_text(&it.remote),
            it.hop_limit
        ),
        Driver::Null(_) => "null".to_owned(),
    };
    let mut value = json!({
        "interface": port.interface,
        "rx_queues": port.rx_queues,
        "tx_queues": port.tx_queues,
        "mtu": port.mtu,
        "driver": driver,
    });
    if port.software_rss {
        value["software_rss"] = json!(true);
    }
    value
}

fn interface(interface: &v1::Interface) -> Value {
    let tag = |tag: &Option<v1::Tag>| tag.as_ref().map(|tag| tag.to_string());
    let family = |family: &v1::Family| {
        let mut value = json!({
            "enabled": family.enabled,
            "forwarding": family.forwarding,
            "mtu": family.mtu,
            "addresses": family.addresses.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "reverse_path": family.reverse_path().as_str_name(),
        });
        let options = json!(family.options.unwrap_or_default());
        for (name, option) in options.as_object().unwrap() {
            if ![json!(0), json!(false)].contains(option) {
                value[name] = option.clone();
            }
        }
        let is_ip6 = family.addresses.first().is_some_and(|own| own.address.len() == 16);
        let numbers = [
            ("neighbor_limit", family.neighbor_limit, 0),
            // One probe is the default for IPv6; a family without addresses sends none.
            ("duplicate_detection", family.duplicate_detection, u32::from(is_ip6)),
        ];
        for (name, number, default) in numbers {
            if number != default && !family.addresses.is_empty() {
                value[name] = number.into();
            }
        }
        if family.proxy {
            value["proxy"] = true.into();
        }
        if let Some(advertising) = &family.advertising {
            value["advertising"] = format!("{advertising:?}").into();
        }
        if !family.virtual_routers.is_empty() {
            value["virtual_routers"] = format!("{:?}", family.virtual_routers).into();
        }
        if let Some(discovery) = &family.discovery {
            value["discovery"] = format!("{discovery:?}").into();
        }
        value
    };
    let mut all = json!({
        "name": interface.name,
        "parent": interface.parent,
        "outer": tag(&interface.outer),
        "inner": tag(&interface.inner),
        "enabled": interface.enabled,
        "mac": mac_text(&interface.mac),
        "description": interface.description,
        "ip4": interface.ip4.as_ref().map(family),
        "ip6": interface.ip6.as_ref().map(family),
    });
    if !interface.vrf.is_empty() {
        all["vrf"] = json!(interface.vrf);
    }
    if let Some(host_interface) = &interface.host_interface {
        all["host-interface"] =
            json!(format!("{:?} in {:?}", host_interface.device, host_interface.netns));
    }
    if !interface.cross_connect.is_empty() {
        all["cross_connect"] = json!(interface.cross_connect);
    }
    all
}

fn route(route: &v1::Route) -> String {
    let action = match route.action.as_ref().unwrap() {
        Action::Paths(paths) => {
            let paths: Vec<String> = paths.paths.iter().map(ToString::to_string).collect();
            paths.join(", ")
        }
        Action::Special(special) => v1::Special::try_from(*special).unwrap().to_string(),
    };
    let vrf = if route.vrf.is_empty() { String::new() } else { format!("vrf {} ", route.vrf) };
    format!("{vrf}{} {} {action}", route.prefix.as_ref().unwrap(), route.protocol())
}
