//! What `stoa show ... --json` says, as far as the demo and the scenarios count with it.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::{LabError, Result, Router};

/// Counters of an interface.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Whether packets can pass.
    pub up: bool,
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Dropped by the router after this interface received them.
    pub rx_drops: u64,
    /// Shed by the port before the router saw them.
    pub rx_missed: u64,
    /// Dropped on the way out.
    pub tx_drops: u64,
    /// The driver's own words.
    pub detail: String,
}

/// What went through a node of the graph in one worker.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeSeen {
    /// Its name, e.g. `icmp4-error`.
    pub name: String,
    /// Packets.
    pub packets: u64,
}

/// A named reason for drops and how often it came.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Dropped {
    /// Its name, e.g. `no-route`.
    pub reason: String,
    /// Packets dropped for it.
    pub packets: u64,
}

/// A neighbour.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Neighbor {
    /// The interface it is on.
    pub interface: String,
    /// Its address.
    pub address: String,
    /// Its MAC address, empty when not known.
    pub mac: String,
    /// `incomplete`, `reachable`, `stale`, `delay`, `probe`, `permanent` or `failed`.
    pub state: String,
}

impl Router {
    /// `stoa show interfaces`.
    ///
    /// # Errors
    /// When it cannot be asked or understood.
    pub fn interfaces(&self) -> Result<Vec<Interface>> {
        self.list("interfaces")
    }

    /// `stoa show drops`.
    ///
    /// # Errors
    /// When it cannot be asked or understood.
    pub fn drops(&self) -> Result<Vec<Dropped>> {
        self.list("drops")
    }

    /// `stoa show neighbors`.
    ///
    /// # Errors
    /// When it cannot be asked or understood.
    pub fn neighbors(&self) -> Result<Vec<Neighbor>> {
        self.list("neighbors")
    }

    /// Packets dropped for this reason so far; 0 when it is not listed.
    ///
    /// # Errors
    /// When it cannot be asked or understood.
    pub fn dropped(&self, reason: &str) -> Result<u64> {
        let drops = self.drops()?;
        Ok(drops.iter().filter(|one| one.reason == reason).map(|one| one.packets).sum())
    }

    /// Packets that went through the node of this name so far, in all workers.
    ///
    /// # Errors
    /// When it cannot be asked or understood.
    pub fn through(&self, node: &str) -> Result<u64> {
        let nodes: Vec<NodeSeen> = self.list("nodes")?;
        Ok(nodes.iter().filter(|one| one.name == node).map(|one| one.packets).sum())
    }

    fn list<T: DeserializeOwned>(&self, what: &str) -> Result<Vec<T>> {
        let said = self.show(what)?;
        let list = if said.is_array() { &said } else { &said[what] };
        Vec::deserialize(list).map_err(|error| LabError::NotUnderstood {
            what: format!("stoa show {what} --json"),
            reason: error.to_string(),
        })
    }
}
