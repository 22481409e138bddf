//! A capability of the controller is one module and one line in the list: `config`, `state` and `metrics` have only
//! what several capabilities stand on, and get no new files.

use std::collections::BTreeSet;

use crate::{read, root};

const LIST: &str = "crates/controller/src/capability/list.rs";
const CONFIG: [&str; 15] = [
    "addresses",
    "blocks",
    "data_path",
    "host_addresses",
    "host_bits",
    "interfaces",
    "mac",
    "mod",
    "model",
    "others",
    "ports",
    "routes",
    "settings",
    "shared_map",
    "vrf_name",
];
const STATE: [&str; 7] = ["forwarder", "interfaces", "mod", "path", "request", "routing", "tests"];
const METRICS: [&str; 7] = ["audits", "families", "learned", "mod", "page", "process", "tests"];
/// Capabilities that stay in the list.
const IN_LIST: [&str; 9] = [
    "bfd",
    "cross_connects",
    "host_interfaces",
    "management",
    "policy",
    "route_sources",
    "router_advertisement",
    "tunnels",
    "vrrp",
];

/// The files of a folder of the controller, without their endings.
fn files(folder: &str) -> BTreeSet<String> {
    let folder = root().join("crates/controller/src").join(folder);
    let entries = std::fs::read_dir(folder).expect("a folder of the controller");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let names = paths
        .filter(|path| path.is_file())
        .filter_map(|path| path.file_stem().map(|name| name.to_string_lossy().into_owned()));
    names.collect()
}

#[test]
fn a_new_capability_goes_into_the_list() {
    for (folder, known) in [("config", &CONFIG[..]), ("state", &STATE), ("metrics", &METRICS)] {
        let known: BTreeSet<String> = known.iter().map(|name| (*name).to_owned()).collect();
        let new: Vec<String> = files(folder).difference(&known).cloned().collect();
        assert!(new.is_empty(), "{folder} has {new:?}: make it a capability with a line in {LIST}");
    }
}

#[test]
fn each_capability_of_the_list_has_its_module() {
    let list = read(&root().join(LIST));
    let (_, list) = list.split_once("static CAPABILITIES").expect("the list");
    let (list, _) = list.split_once("];").expect("its end");
    let modules: Vec<&str> =
        list.lines().filter_map(|line| line.trim().strip_prefix('&')?.split("::").next()).collect();
    for name in IN_LIST {
        assert!(modules.contains(&name), "{name} is in the list: {modules:?}");
    }
    for module in modules {
        let source = root().join("crates/controller/src");
        let file = source.join(format!("{module}.rs"));
        // A capability with more files has a folder.
        let file = if file.exists() { file } else { source.join(module).join("capability.rs") };
        let is_implemented = read(&file).contains("impl Capability for ");
        assert!(is_implemented, "{} implements it", file.display());
    }
}
