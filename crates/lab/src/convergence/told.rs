//! Who tells the daemon its routes: BGP speakers, or an OSPF neighbour.

use std::time::{Duration, Instant};

use super::ospf::Neighbor;
use super::peers::Peers;
use super::{Protocol, Workload};
use crate::{Namespace, Result};

/// Those who tell.
pub(super) enum Told {
    Bgp(Peers),
    Ospf(Neighbor),
}

impl Told {
    /// Starts them, and says since when they tell: the first session's establishment, or the begin of the exchange.
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

    /// An error when one of them no longer tells.
    pub(super) fn still_there(&self) -> Result<()> {
        match self {
            Self::Bgp(peers) => peers.still_established(),
            Self::Ospf(neighbor) => neighbor.still_runs(),
        }
    }

    /// How long it took until TCP had all; `None`: it has not, or there is no TCP.
    pub(super) fn transfer(&self) -> Option<Duration> {
        match self {
            Self::Bgp(peers) => peers.transfer(),
            Self::Ospf(_) => None,
        }
    }
}
