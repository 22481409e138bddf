//! Zones, and what passes between them.

use super::{Setup, ZonePair};

/// Zones of some interfaces, with what passes between them, from them to the router and back. Some pairs are missing.
pub(super) fn zones(setup: Setup) -> Setup {
    let interfaces = [("west", "one"), ("west.31", "two"), ("east", "three"), ("north", "three")];
    let mut setup = interfaces
        .iter()
        .fold(setup, |setup, (name, zone)| setup.with(name, |it| it.zone = (*zone).to_owned()));
    let lists = |acls: &[&str]| acls.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
    let all = lists(&["first", "second"]);
    let pairs = [
        ("one", "three", all.clone(), lists(&["second"])),
        ("three", "one", all.clone(), all.clone()),
        ("two", "three", lists(&["second"]), all.clone()),
        ("one", "router", lists(&["second"]), lists(&["second"])),
        ("two", "router", all.clone(), all.clone()),
        ("router", "three", all.clone(), all),
    ];
    for (from, to, acls4, acls6) in pairs {
        setup.0.zone_pairs.insert((from.into(), to.into()), ZonePair { acls4, acls6 });
    }
    setup
}
