//! The peers: what each says first, and what the first one says anew.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Workload;
use super::hops::{DEPTHS, Hop, OWN, Out, peer_address, peer_asn};
use super::table::Table;
use crate::bgp_speaker::{Identity, Paths, Speaker, announce, end_of_rib, withdraw};
use crate::{Namespace, Result};

/// Prefixes that share a set of attributes, as in the Internet's table.
const PER_ATTRIBUTE: usize = 10;
/// Long enough for a daemon that reads nothing for a while.
const HOLD_S: u16 = 240;

/// A speaker for each peer. The first has the best paths, all others say the same prefixes with longer ones.
pub(super) struct Peers {
    speakers: Vec<Speaker>,
}

impl Peers {
    pub(super) fn start(namespace: &Namespace, workload: &Workload) -> Result<Self> {
        // All is made before the first of them begins: making it is no part of what is measured.
        let said: Vec<Arc<[u8]>> = (0..workload.peers)
            .map(|peer| Arc::from(all(&workload.table, peer, Out::First)))
            .collect();
        let mut speakers = Vec::new();
        for (peer, said) in (0..workload.peers).zip(said) {
            let identity = Identity {
                own: peer_address(peer).into(),
                peer: OWN.into(),
                asn: peer_asn(peer),
                router_id: peer_address(peer),
                hold_time: HOLD_S,
                graceful_restart: false,
            };
            let speaker = Speaker::start(namespace, identity)?;
            speaker.announce(said);
            speakers.push(speaker);
        }
        Ok(Self { speakers })
    }

    /// When the first of them began to speak.
    pub(super) fn established(&self, deadline: Duration) -> Result<Instant> {
        let times: Vec<Instant> = self
            .speakers
            .iter()
            .map(|speaker| speaker.wait_established(deadline))
            .collect::<Result<_>>()?;
        Ok(times.into_iter().min().unwrap_or_else(Instant::now))
    }

    pub(super) fn still_established(&self) -> Result<()> {
        self.speakers.iter().try_for_each(Speaker::still_established)
    }

    /// How long it took until TCP had all that was said first; `None` while it has not.
    pub(super) fn transfer(&self) -> Option<Duration> {
        let all = self.speakers.iter().map(|one| Some((one.established()?, one.said()?)));
        let all: Option<Vec<(Instant, Instant)>> = all.collect();
        let all = all?;
        let begun = all.iter().map(|(begun, _)| *begun).min()?;
        all.iter().map(|(_, end)| end.saturating_duration_since(begun)).max()
    }

    /// The first peer takes all back and says it anew with next hops by the second port. Says when it began.
    pub(super) fn say_anew(&self, messages: Arc<[u8]>) -> Instant {
        let begun = Instant::now();
        if let Some(first) = self.speakers.first() {
            first.replace(messages);
        }
        begun
    }
}

/// What the first peer says when it takes all back and says it anew.
pub(super) fn anew(table: &Table) -> Arc<[u8]> {
    let mut messages = withdraw(&table.prefixes);
    messages.extend(all(table, 0, Out::Second));
    messages.into()
}

/// All prefixes with the next hops of a peer at a port, and that these were all.
fn all(table: &Table, peer: u8, out: Out) -> Vec<u8> {
    let mut messages = Vec::new();
    for depth in 0..DEPTHS {
        let with_depth = table.prefixes.iter().zip(&table.depths);
        let prefixes: Vec<(u32, u8)> =
            with_depth.filter(|(_, one)| **one == depth).map(|(prefix, _)| *prefix).collect();
        let next_hop = Hop { peer, out, depth }.address().into();
        let times = if peer == 0 { 1 } else { 2 };
        let paths = Paths { asn: peer_asn(peer), times, next_hop, per_attribute: PER_ATTRIBUTE };
        messages.extend(announce(&prefixes, &paths));
    }
    messages.extend(end_of_rib(false));
    messages
}
