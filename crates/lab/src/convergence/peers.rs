//! The peers: what each says first, and what the first one says anew.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Workload;
use super::hops::{DEPTHS, Hop, Out, own, peer_address, peer_asn, peer_id};
use super::table::{Listener, Table};
use crate::bgp_speaker::{Identity, Nlri, Paths, Speaker, announce, end_of_rib, withdraw};
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
        let six = workload.table.is_six();
        // All is made before the first of them begins: making it is no part of what is measured.
        let said: Vec<Arc<[u8]>> = (0..workload.peers)
            .map(|peer| Arc::from(all(&workload.table, peer, Out::First)))
            .collect();
        let mut speakers = Vec::new();
        for (peer, said) in (0..workload.peers).zip(said) {
            let identity = Identity {
                own: peer_address(peer, six),
                peer: own(six),
                asn: peer_asn(peer),
                router_id: peer_id(peer),
                hold_time: HOLD_S,
                graceful_restart: workload.kills.daemon,
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
    let mut messages = Vec::new();
    for depth in 0..DEPTHS {
        table.of_depth(depth, TakenBack(&mut messages));
    }
    say_all(&mut messages, table, 0, Out::Second);
    messages.into()
}

/// All prefixes with the next hops of a peer at a port, and that these were all.
fn all(table: &Table, peer: u8, out: Out) -> Vec<u8> {
    let mut messages = Vec::new();
    say_all(&mut messages, table, peer, out);
    messages
}

fn say_all(messages: &mut Vec<u8>, table: &Table, peer: u8, out: Out) {
    let six = table.is_six();
    for depth in 0..DEPTHS {
        let next_hop = Hop { peer, out, depth }.address(six);
        let times = if peer == 0 { 1 } else { 2 };
        let paths = Paths { asn: peer_asn(peer), times, next_hop, per_attribute: PER_ATTRIBUTE };
        table.of_depth(depth, Announced(messages, &paths));
    }
    messages.extend(end_of_rib(six));
}

/// Announces prefixes.
struct Announced<'a>(&'a mut Vec<u8>, &'a Paths);

impl Listener for Announced<'_> {
    fn hear<N>(self, prefixes: &[(N, u8)])
    where
        (N, u8): Nlri,
    {
        let said = announce(prefixes, self.1);
        // Most tables have one depth: no second copy of a hundred megabytes.
        if self.0.is_empty() {
            *self.0 = said;
        } else {
            self.0.extend(said);
        }
    }
}

/// Takes prefixes back.
struct TakenBack<'a>(&'a mut Vec<u8>);

impl Listener for TakenBack<'_> {
    fn hear<N>(self, prefixes: &[(N, u8)])
    where
        (N, u8): Nlri,
    {
        self.0.extend(withdraw(prefixes));
    }
}
