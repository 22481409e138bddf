//! The folders in which a router of a scenario may open files and sockets: those that its configuration names.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::Scratch;

/// The options of `stoa run` for the folders of this configuration. Names without a folder are in that of the scenario.
/// Without files or sockets there is no option: the folder of the scenario has the router's own files, too.
pub(crate) fn options(configuration: &Value, scratch: &Scratch) -> Vec<String> {
    let option = |name: &str, kind: Kind| {
        let folder = scratch.path().join(first(configuration, kind)?);
        Some([name.to_owned(), folder.to_string_lossy().into_owned()])
    };
    let options = [("--pcap-folder", Kind::Pcap), ("--memif-folder", Kind::Memif)];
    options.into_iter().filter_map(|(name, kind)| option(name, kind)).flatten().collect()
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Pcap,
    Memif,
}

/// The folder of the first path of this kind; empty for a name alone.
fn first(value: &Value, kind: Kind) -> Option<PathBuf> {
    match value {
        Value::Object(members) => members.iter().find_map(|(name, value)| {
            let path = value.as_str().and_then(|text| match (name.as_str(), kind) {
                ("input" | "output", Kind::Pcap) => Some(text),
                ("socket", Kind::Memif) => Some(text),
                // Settings of a device of DPDK.
                ("device", Kind::Memif) => {
                    text.split(',').find_map(|setting| setting.strip_prefix("socket="))
                }
                _ => None,
            });
            let is_usual = |path: &&str| !path.starts_with('@') && *path != "/dev/null";
            let folder = path.filter(is_usual).and_then(|path| Path::new(path).parent());
            folder.map(Path::to_owned).or_else(|| first(value, kind))
        }),
        Value::Array(all) => all.iter().find_map(|one| first(one, kind)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn folders_are_those_of_the_configuration() {
        let scratch = Scratch::new().unwrap();
        let configuration = json!({ "a": [
            { "memif": { "socket": "@abstract" } },
            { "dpdk": { "device": "net_memif0,id=1,socket=/tmp/a/m.sock" } },
            { "pcap": { "input": "in.pcap", "output": "/dev/null" } },
        ] });
        let own = scratch.path().to_string_lossy();
        let expected = ["--pcap-folder", &format!("{own}/"), "--memif-folder", "/tmp/a"];
        assert_eq!(options(&configuration, &scratch), expected);
        assert_eq!(options(&json!({ "null": {} }), &scratch), [""; 0]);
    }
}
