//! The peers: their first announcements, and the second announcement of the first peer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Workload;
use super::hops::{DEPTHS, Hop, OutPort, own, peer_address, peer_asn, peer_id};
use super::table::{PrefixVisitor, Table};
use crate::bgp_speaker::{Identity, Nlri, Paths, Speaker, announce, end_of_rib, withdraw};
use crate::{Namespace, Result};

/// Prefixes that share a set of attributes, as in the Internet's table.
const PER_ATTRIBUTE: usize = 10;
/// Long enough for a daemon that does not read for a while.
const HOLD_S: u16 = 240;

/// A speaker for each peer. The first has the best paths; all others announce the same prefixes with longer ones.
pub(super) struct Peers {
    speakers: Vec<Speaker>,
}

impl Peers {
    pub(super) fn start(namespace: &Namespace, workload: &Workload) -> Result<Self> {
        let six = workload.table.is_six();
        // All messages are built before the first speaker starts: building them is not part of the measurement.
        let printed: Vec<Arc<[u8]>> = (0..workload.peers)
            .map(|peer| Arc::from(all(&workload.table, peer, OutPort::First)))
            .collect();
        let mut speakers = Vec::new();
        for (peer, printed) in (0..workload.peers).zip(printed) {
            let identity = Identity {
                own: peer_address(peer, six),
                peer: own(six),
                asn: peer_asn(peer),
                router_id: peer_id(peer),
                hold_time: HOLD_S,
                graceful_restart: workload.kills.daemon,
            };
            let speaker = Speaker::start(namespace, identity)?;
            speaker.announce(printed);
            speakers.push(speaker);
        }
        Ok(Self { speakers })
    }

    /// When the first session was established.
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

    /// Time until TCP accepted all messages of the first announcement; `None` until then.
    pub(super) fn transfer(&self) -> Option<Duration> {
        let all = self.speakers.iter().map(|one| Some((one.established()?, one.sent_at()?)));
        let all: Option<Vec<(Instant, Instant)>> = all.collect();
        let all = all?;
        let begun = all.iter().map(|(begun, _)| *begun).min()?;
        all.iter().map(|(_, end)| end.saturating_duration_since(begun)).max()
    }

    /// The first peer withdraws all routes and announces them with next hops on the second port. Returns the start
    /// time.
    pub(super) fn reannounce(&self, messages: Arc<[u8]>) -> Instant {
        let begun = Instant::now();
        if let Some(first) = self.speakers.first() {
            first.replace(messages);
        }
        begun
    }
}

/// The first peer's messages: withdraw all routes, then announce them again.
pub(super) fn reannouncement(table: &Table) -> Arc<[u8]> {
    let mut messages = Vec::new();
    for depth in 0..DEPTHS {
        table.of_depth(depth, WithdrawVisitor(&mut messages));
    }
    announce_all(&mut messages, table, 0, OutPort::Second);
    messages.into()
}

/// Announces all prefixes with the next hops of a peer at a port, and End-of-RIB.
fn all(table: &Table, peer: u8, out: OutPort) -> Vec<u8> {
    let mut messages = Vec::new();
    announce_all(&mut messages, table, peer, out);
    messages
}

fn announce_all(messages: &mut Vec<u8>, table: &Table, peer: u8, out: OutPort) {
    let six = table.is_six();
    for depth in 0..DEPTHS {
        let next_hop = Hop { peer, out, depth }.address(six);
        let times = if peer == 0 { 1 } else { 2 };
        let paths = Paths { asn: peer_asn(peer), times, next_hop, per_attribute: PER_ATTRIBUTE };
        table.of_depth(depth, AnnounceVisitor(messages, &paths));
    }
    messages.extend(end_of_rib(six));
}

/// Announces prefixes.
struct AnnounceVisitor<'a>(&'a mut Vec<u8>, &'a Paths);

impl PrefixVisitor for AnnounceVisitor<'_> {
    fn visit<N>(self, prefixes: &[(N, u8)])
    where
        (N, u8): Nlri,
    {
        let printed = announce(prefixes, self.1);
        // Most tables have one depth: avoid a second copy of a hundred megabytes.
        if self.0.is_empty() {
            *self.0 = printed;
        } else {
            self.0.extend(printed);
        }
    }
}

/// Withdraws prefixes.
struct WithdrawVisitor<'a>(&'a mut Vec<u8>);

impl PrefixVisitor for WithdrawVisitor<'_> {
    fn visit<N>(self, prefixes: &[(N, u8)])
    where
        (N, u8): Nlri,
    {
        self.0.extend(withdraw(prefixes));
    }
}
