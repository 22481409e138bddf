//! Announces the routes to the daemon: BGP speakers, or an OSPF neighbour.

use std::time::{Duration, Instant};

use super::ospf::Neighbor;
use super::peers::Peers;
use super::{Protocol, Workload};
use crate::{Namespace, Result};

/// The announcing peers.
pub(super) enum Announcers {
    Bgp(Peers),
    Ospf(Neighbor),
}

impl Announcers {
    /// Starts them; returns when they begin to announce: the first session is established, or the database exchange
    /// begins.
    pub(super) fn begin(namespace: &Namespace, workload: &Workload) -> Result<(Self, Instant)> {
        match workload.protocol {
            Protocol::Bgp => {
                let peers = Peers::start(namespace, workload)?;
                let begun = peers.established(workload.deadline)?;
                Ok((Self::Bgp(peers), begun))
            }
            Protocol::Ospf => {
                let neighbor = Neighbor::start(namespace, &workload.table)?;
                let begun = neighbor.begin(namespace, workload.deadline)?;
                Ok((Self::Ospf(neighbor), begun))
            }
        }
    }

    /// Returns an error when one of them has stopped.
    pub(super) fn check_running(&self) -> Result<()> {
        match self {
            Self::Bgp(peers) => peers.still_established(),
            Self::Ospf(neighbor) => neighbor.still_runs(),
        }
    }

    /// Time until TCP accepted all messages; `None`: not all yet, or no TCP.
    pub(super) fn transfer(&self) -> Option<Duration> {
        match self {
            Self::Bgp(peers) => peers.transfer(),
            Self::Ospf(_) => None,
        }
    }
}
