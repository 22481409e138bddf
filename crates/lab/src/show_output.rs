//! The fields of `stoa show ... --json` that the demo and the scenarios use.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::{LabError, Result, Router};

/// Counters of an interface.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Whether the interface is up.
    pub up: bool,
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets received and then dropped by the router.
    pub rx_drops: u64,
    /// Packets dropped by the port before the router received them.
    pub rx_missed: u64,
    /// Packets dropped on output.
    pub tx_drops: u64,
    /// Details from the driver.
    pub detail: String,
}

/// What went through a node of the graph in one worker.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeCounters {
    /// Its name, e.g. `icmp4-error`.
    pub name: String,
    /// Packets.
    pub packets: u64,
}

/// A drop reason and its packets.
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
    /// When the command fails or its output cannot be parsed.
    pub fn interfaces(&self) -> Result<Vec<Interface>> {
        self.list("interfaces")
    }

    /// `stoa show drops`.
    ///
    /// # Errors
    /// When the command fails or its output cannot be parsed.
    pub fn drops(&self) -> Result<Vec<Dropped>> {
        self.list("drops")
    }

    /// `stoa show neighbors`.
    ///
    /// # Errors
    /// When the command fails or its output cannot be parsed.
    pub fn neighbors(&self) -> Result<Vec<Neighbor>> {
        self.list("neighbors")
    }

    /// Packets dropped for this reason so far; 0 when it is not listed.
    ///
    /// # Errors
    /// When the command fails or its output cannot be parsed.
    pub fn dropped(&self, reason: &str) -> Result<u64> {
        let drops = self.drops()?;
        Ok(drops.iter().filter(|one| one.reason == reason).map(|one| one.packets).sum())
    }

    /// Packets that went through the node of this name so far, in all workers.
    ///
    /// # Errors
    /// When the command fails or its output cannot be parsed.
    pub fn node_packets(&self, node: &str) -> Result<u64> {
        let nodes: Vec<NodeCounters> = self.list("nodes")?;
        Ok(nodes.iter().filter(|one| one.name == node).map(|one| one.packets).sum())
    }

    fn list<T: DeserializeOwned>(&self, what: &str) -> Result<Vec<T>> {
        let printed = self.show(what)?;
        let list = if printed.is_array() { &printed } else { &printed[what] };
        Vec::deserialize(list).map_err(|error| LabError::ParseFailed {
            what: format!("stoa show {what} --json"),
            reason: error.to_string(),
        })
    }
}
