//! What a forwarder has in force is what the controller desires, by the digests of an audit: for all configurations of
//! the recorded cases.

use std::path::{Path, PathBuf};

use stoa_api::audit::{Kind, desired};
use stoa_api::v1;
use stoa_controller::configuration::Configuration;
use stoa_forwarder::Folders;

/// The configurations of the recorded cases.
fn cases() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../controller/tests/cases");
    let entries = std::fs::read_dir(folder).unwrap();
    let files = entries.map(|entry| entry.unwrap().path().join("config.json"));
    let mut files: Vec<PathBuf> = files.filter(|file| file.exists()).collect();
    files.sort();
    files
}

#[test]
fn both_halves_count_the_same_entries() {
    let (mut compared, mut entries) = (0, [0; Kind::ALL.len()]);
    for file in cases() {
        // Wrong configurations are cases, too, and so are files that only their controller may open.
        let Ok(configuration) = Configuration::read(&file) else { continue };
        let mut whole = configuration.whole_desired();
        // As the workers of a dry run are.
        if let Some(workers) = &mut whole.workers {
            workers.cpus.clear();
            workers.huge_pages = v1::HugePages::Never.into();
        }
        let Ok((held, defaults)) = stoa_forwarder::audit(&whole, Folders::default()) else {
            continue;
        };
        let ours = desired(&whole, (&whole.interfaces, &whole.routes), &defaults, &Kind::ALL);
        let keys = |kind: &Kind| (kind.name(), ours.differing_keys(&held, *kind));
        let differing: Vec<_> = ours.differing(&held).iter().map(keys).collect();
        assert!(differing.is_empty(), "{}: {differing:?}", file.display());
        for (sum, kind) in entries.iter_mut().zip(Kind::ALL) {
            *sum += ours.sum(kind).entries;
        }
        compared += 1;
    }
    assert!(compared >= 20, "{compared} of the cases were compared");
    println!("{compared} cases, entries by kind: {entries:?}");
}
