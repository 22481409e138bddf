//! The features of received packets that the settings of an interface switch on. Those of sent packets are in
//! `output_features`, that of rules in `policy`.

use super::desired::Interface;
use super::forwarder_state::ForwarderState;
use crate::plugin;

/// The argument that a feature gets at an interface; 0: it is off there.
type Argument = fn(&Interface) -> u32;

/// Each feature by its node.
const FEATURES: &[(&str, Argument)] = &[
    ("ip4-minimum-ttl", |it| it.ip4.options.minimum_ttl),
    ("ip6-minimum-ttl", |it| it.ip6.options.minimum_ttl),
    ("ip4-reverse-path", |it| it.ip4.reverse_path),
    ("ip6-reverse-path", |it| it.ip6.reverse_path),
    ("ip4-noop", |it| it.noop.into()),
    ("ip6-noop", |it| it.noop.into()),
    ("ip4-flow-hash", |it| it.flow_hash.into()),
    ("ip6-flow-hash", |it| it.flow_hash.into()),
    ("ethernet-noop", |it| it.noop_ethernet.into()),
    ("ip-local-noop", |it| it.noop_local.into()),
    ("cross-connect", |it| it.cross_connect.is_some().into()),
];

impl ForwarderState {
    /// Switches the features of an interface.
    pub(super) fn set_features(&self, index: u32, desired: &Interface) {
        for (node, argument) in FEATURES {
            self.shared.set_feature(index, node, argument(desired));
        }
        for (node, argument) in plugin::arguments(desired, false) {
            self.shared.set_feature(index, node, argument);
        }
    }
}
