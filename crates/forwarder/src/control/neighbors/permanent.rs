//! Permanent neighbours: those of the configuration, and the broadcast addresses of networks with directed
//! broadcast.

use std::collections::BTreeMap;

use stoa_tables::adjacency::AdjacencyKind;
use stoa_wire::ethernet::Mac;

use crate::control::apply::ApplyError;
use crate::control::desired::DesiredState;
use crate::control::forwarder_state::ForwarderState;
use crate::control::limits::TableFull;
use crate::control::routes::directed_broadcasts;
use crate::neighbor::entry::{Key, State};

impl ForwarderState {
    /// Makes the desired neighbours permanent, and those that are no longer desired dynamic.
    pub(super) fn set_neighbors(&mut self, desired: &DesiredState) -> Result<(), ApplyError> {
        let mut fixed = BTreeMap::new();
        for ((name, address), mac) in &desired.neighbors {
            if let Some(index) = self.index_of(name) {
                fixed.insert((index, *address), *mac);
            }
        }
        for (name, address) in directed_broadcasts(desired) {
            if let Some(index) = self.index_of(name) {
                fixed.insert((index, address), Mac::BROADCAST.0);
            }
        }
        for key in self.capabilities.neighbors.permanent.keys().copied().collect::<Vec<_>>() {
            if !fixed.contains_key(&key) {
                self.unset_permanent(key);
            }
        }
        for (key, mac) in &fixed {
            let is_set = self.capabilities.neighbors.permanent.get(key) == Some(mac)
                && self.capabilities.neighbors.cache.get(key).is_some();
            if !is_set {
                let path = format!("neighbor {}", key.1);
                self.set_permanent(*key, *mac).map_err(|full| ApplyError::full(path, &full))?;
            }
        }
        self.capabilities.neighbors.permanent = fixed;
        Ok(())
    }

    /// Sets the MAC address of a permanent neighbour.
    fn set_permanent(&mut self, key: Key, mac: [u8; 6]) -> Result<(), TableFull> {
        if self.capabilities.neighbors.cache.get(&key).is_none() {
            self.add_neighbor(key, true)?;
        }
        self.capabilities.neighbors.cache.change(&key, |entry| {
            (entry.state, entry.mac, entry.lost) = (State::Permanent, mac, false);
        });
        self.neighbor_resolved(key);
        Ok(())
    }

    /// Turns a permanent neighbour into a dynamic one, which is resolved anew.
    fn unset_permanent(&mut self, key: Key) {
        let now = self.now();
        if self.capabilities.neighbors.cache.get(&key).is_some() {
            self.capabilities.neighbors.cache.change(&key, |entry| {
                (entry.state, entry.tries, entry.deadline) = (State::Incomplete, 0, now);
            });
            self.set_adjacency(key, AdjacencyKind::Incomplete);
        }
    }
}
