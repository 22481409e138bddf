//! Publishes the VLAN tags of sub-interfaces to the workers.

use stoa_api::v1;

use super::capability::{Capability, Published, Start, Verbs};
use super::forwarder_state::ForwarderState;
use crate::ethernet::vlan_table::{VlanWriter, tag_of};

/// The tags as published.
pub(super) struct Vlans {
    writer: VlanWriter,
}

impl Capability for Vlans {
    const VERBS: Verbs = Verbs {
        publish: ForwarderState::publish_vlans,
        in_force: |state, index, interface| {
            let base = state.interface(index).map_or(index, |state| state.base);
            let mut tags = state.capabilities.vlans.writer.tags(index, base).into_iter();
            let mut tag = || {
                let (tpid, vid) = tag_of(tags.next()?);
                Some(v1::Tag { tpid: tpid.into(), vid: vid.into() })
            };
            (interface.outer, interface.inner) = (tag(), tag());
        },
        ..Verbs::NONE
    };

    fn start(start: &Start<'_>) -> Self {
        Self { writer: VlanWriter::new(start.workers.kernel.lookup()) }
    }
}

impl Vlans {
    /// Number of table entries that were written since the start.
    pub(super) fn writes(&self) -> u64 {
        self.writer.writes()
    }
}

impl ForwarderState {
    /// Workers find an interface no more: for tests of the audit.
    #[cfg(test)]
    pub(super) fn lose_tags(&mut self, index: u32) {
        self.capabilities.vlans.writer.lose(index);
    }

    fn publish_vlans(&mut self, published: &Published) {
        for index in &published.changed {
            let state = self.interface(*index);
            let base = state.map_or(*index, |state| state.base);
            let tags = state.map(|state| state.desired.tag_keys()).unwrap_or_default();
            if !self.capabilities.vlans.writer.set(*index, base, &tags) {
                // The next publication tries again.
                self.publish_again(*index);
            }
            self.pause(1);
        }
        if let Some(tables) = self.capabilities.vlans.writer.finish() {
            self.shared.vlans.publish(tables, &mut self.graveyard);
        }
    }
}
