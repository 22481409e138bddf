//! RESTCONF paths: a parsed path is a schema node, and its data path parses to the same node.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stoa_northbound::nacm;
use stoa_northbound::restconf::{keys, path};

fuzz_target!(|raw: &str| {
    let Ok(resource) = path::parse(raw) else { return };
    let text = resource.data_path();
    assert!(text.len() <= keys::PATH_BYTES);
    assert_eq!(nacm::rule_path(&text), resource.steps);
    assert_eq!(resource.is_root(), resource.node.is_none());
    let mut above = resource.clone();
    for _ in &resource.steps {
        above = above.parent();
    }
    assert!(above.is_root() && above.node.is_none());
});
