//! Permanent neighbours: those of the configuration, and the broadcast addresses of networks with directed
//! broadcast.

use std::collections::BTreeMap;
use std::net::IpAddr;

use stoa_api::audit::{self, Tally};
use stoa_tables::adjacency::AdjacencyKind;
use stoa_wire::ethernet::Mac;

use crate::control::apply::ApplyError;
use crate::control::capability::Step;
use crate::control::forwarder_state::ForwarderState;
use crate::control::limits::TableFull;
use crate::control::routes::directed_broadcasts;
use crate::neighbor::entry::{Key, State, keys_of};

impl ForwarderState {
    /// Makes the desired neighbours of touched interfaces permanent, and those that are no longer desired dynamic.
    pub(super) fn set_neighbors(&mut self, step: &Step<'_>) -> Result<(), ApplyError> {
        for index in &step.interfaces.indexes {
            let fixed = self.desired_neighbors(*index, step);
            let here = self.capabilities.neighbors.permanent.range(keys_of(*index));
            let gone = here.map(|(key, _)| *key).filter(|key| !fixed.contains_key(&key.1));
            for key in gone.collect::<Vec<_>>() {
                self.unset_permanent(key);
                self.capabilities.neighbors.permanent.remove(&key);
                self.pause(1);
            }
            for (address, mac) in fixed {
                let key = (*index, address);
                let is_set = self.capabilities.neighbors.permanent.get(&key) == Some(&mac)
                    && self.capabilities.neighbors.cache.get(&key).is_some();
                if !is_set {
                    let path = format!("neighbor {address}");
                    self.set_permanent(key, mac).map_err(|full| ApplyError::full(path, &full))?;
                    self.capabilities.neighbors.permanent.insert(key, mac);
                    self.pause(1);
                }
            }
        }
        Ok(())
    }

    /// Adds the configured neighbours of an interface to an audit, without broadcast addresses.
    pub(super) fn add_static_neighbor_entries(&self, index: u32, tally: &mut Tally) {
        let Some(interface) = self.interface(index) else { return };
        let broadcasts = directed_broadcasts(&interface.desired);
        for (key, mac) in self.capabilities.neighbors.permanent.range(keys_of(index)) {
            let entry = self.capabilities.neighbors.cache.get(key);
            let is_held = entry.is_some_and(|it| it.state == State::Permanent && it.mac == *mac);
            let is_broadcast = *mac == Mac::BROADCAST.0 && broadcasts.contains(&key.1);
            if is_held && !is_broadcast {
                audit::neighbor(tally, &interface.name, key.1, mac);
            }
        }
    }

    /// Forgets a permanent neighbour, as a fault would: for tests of the audit.
    #[cfg(test)]
    pub(in crate::control) fn lose_static_neighbor(&mut self, address: &str) {
        let address: IpAddr = address.parse().expect("an address");
        let all = self.capabilities.neighbors.permanent.keys();
        let key = *all.into_iter().find(|key| key.1 == address).expect("a neighbour");
        self.remove_neighbor(key);
    }

    /// The MAC addresses of an interface's permanent neighbours.
    fn desired_neighbors(&self, index: u32, step: &Step<'_>) -> BTreeMap<IpAddr, [u8; 6]> {
        let mut fixed = BTreeMap::new();
        if let Some((name, interface)) = self.desired_at(index, step.desired()) {
            let from = (name.clone(), IpAddr::from([0; 4]));
            let of_interface = step.desired().neighbors.range(from..);
            let of_interface = of_interface.take_while(|((other, _), _)| other == name);
            fixed.extend(of_interface.map(|((_, address), mac)| (*address, *mac)));
            let broadcasts = directed_broadcasts(interface).into_iter();
            fixed.extend(broadcasts.map(|address| (address, Mac::BROADCAST.0)));
        }
        fixed
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
