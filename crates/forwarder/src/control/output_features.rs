//! The output features of interfaces. Adjacencies tell workers whether there are any, so that packets to
//! other interfaces pay nothing.

use stoa_tables::adjacency::AdjacencyKind;

use super::desired;
use super::forwarder_state::ForwarderState;

impl ForwarderState {
    /// Switches the output features of an interface. Its adjacencies follow when they are written: on a
    /// change of its settings, all of them are.
    pub(super) fn set_output_features(&self, index: u32, desired: &desired::Interface) {
        for (node, on) in [
            ("ip4-output-noop", desired.noop_output),
            ("ip6-output-noop", desired.noop_output),
            ("port-output-noop", desired.noop_port),
        ] {
            self.shared.set_feature(index, node, on);
        }
    }

    /// Whether packets meet output features on their way to an adjacency of an interface. One that waits
    /// for its neighbour meets them when it is sent.
    pub(super) fn has_output_features(
        &self,
        index: u32,
        kind: AdjacencyKind,
        is_ip4: bool,
    ) -> bool {
        let arcs = &self.shared.arcs;
        matches!(kind, AdjacencyKind::Complete | AdjacencyKind::Tunnel)
            && if is_ip4 { arcs.has_output4(index) } else { arcs.has_output6(index) }
    }
}
