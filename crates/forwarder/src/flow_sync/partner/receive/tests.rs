//! What the end of a bulk means.

use std::sync::Arc;

use stoa_engine::quiescence::Quiescence;
use stoa_tables::flow_hash::Flow;
use stoa_tables::flow_table::FlowKey;
use stoa_tables::lpm::Kernel;

use super::*;
use crate::flow::adoption::head::Names;
use crate::flow::flows::{Flows, Sizes};
use crate::flow_sync::settings::tests::settings;

fn key(vrf: u16) -> FlowKey {
    let flow =
        Flow { source: 1, destination: 2, source_port: 3, destination_port: 4, protocol: 17 };
    FlowKey::ip4(flow, vrf)
}

fn names(vrfs: &[(u16, &str)]) -> Box<Names> {
    let mut names = Box::<Names>::default();
    vrfs.iter().for_each(|(vrf, name)| names.add_vrf(*vrf, name));
    names
}

/// A thread that does not run, with a partner.
fn thread() -> Thread {
    let sizes = Sizes { ip4: 8, ip6: 8, translated: 8, mappings: 8 };
    let flows = Arc::new(Flows::new(sizes, Kernel::Bits, 1, &Quiescence::new(1)).unwrap());
    Thread::new(&flows, &settings(), (&Arc::default(), *names(&[(0, ""), (1, "blue")])))
}

#[test]
fn nothing_is_swept_where_a_vrf_has_another_name() {
    for (theirs, sweeps) in [("blue", true), ("green", false)] {
        let mut thread = thread();
        thread.take(Item::Names(false, names(&[(0, ""), (2, theirs)])));
        thread.take(Item::Known(key(0).into()));
        thread.take(Item::Known(key(2).into()));
        assert!(!thread.sweeps());
        thread.take(Item::Complete);
        assert_eq!(thread.sweeps(), sweeps, "{theirs}");
    }
}
