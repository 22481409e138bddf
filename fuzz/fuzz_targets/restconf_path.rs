//! RESTCONF paths: a parsed path is a schema node, and its data path parses to the same node.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stoa_northbound::nacm;
use stoa_northbound::restconf::{keys, path};

fuzz_target!(|raw: &str| {
    let Ok(place) = path::parse(raw) else { return };
    let text = place.data_path();
    assert!(text.len() <= keys::PATH_BYTES);
    assert_eq!(nacm::way(&text), place.steps);
    assert_eq!(place.is_root(), place.node.is_none());
    let mut above = place.clone();
    for _ in &place.steps {
        above = above.parent();
    }
    assert!(above.is_root() && above.node.is_none());
});
