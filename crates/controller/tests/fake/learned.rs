//! Learned routes of the fake forwarder, stored in a map; tests may remove some.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use stoa_api::{digest, v1};
use tokio_stream::StreamExt as _;
use tonic::{Status, Streaming};

/// VRF, family, address in the low bits, length.
pub type Prefix = (String, u32, u128, u8);

/// The learned routes of all instances of a fake: routes of a previous instance are only removed by `begins`
/// and `completes`.
#[derive(Clone, Debug, Default)]
pub struct LearnedState {
    /// Routes and their hops.
    pub routes: BTreeMap<Prefix, u32>,
    /// Routes not announced again yet.
    pub stale: BTreeSet<Prefix>,
    /// Protocols, as the contract numbers them.
    pub protocols: BTreeMap<Prefix, i32>,
    /// Number of count requests.
    pub counted: usize,
    /// Hops by id.
    pub hops: BTreeMap<u32, v1::LearnedHop>,
    /// Number of streams opened.
    pub begun: usize,
    /// Number of completed transfers.
    pub completed: usize,
    /// Maximum number of routes.
    pub limit: Option<usize>,
}

/// Shared between fake and test.
pub type Shared = Arc<Mutex<LearnedState>>;

fn packed(run: &v1::RouteRun) -> Vec<Prefix> {
    let mut all = Vec::new();
    for (family, bytes, width) in [(4, &run.ip4, 5), (6, &run.ip6, 17)] {
        for one in bytes.chunks_exact(width) {
            let (address, length) = one.split_at(width - 1);
            let wide = address.iter().fold(0, |wide, byte| wide << 8 | u128::from(*byte));
            all.push((run.vrf.clone(), family, wide, length[0]));
        }
    }
    all
}

fn pack(prefix: &Prefix, hop: u32) -> v1::RouteRun {
    let (vrf, family, wide, length) = prefix;
    let mut run = v1::RouteRun { vrf: vrf.clone(), hop, ..v1::RouteRun::default() };
    let bytes = wide.to_be_bytes();
    match family {
        4 => run.ip4 = [&bytes[12..], &[*length]].concat(),
        _ => run.ip6 = [&bytes[..], &[*length]].concat(),
    }
    run
}

impl LearnedState {
    fn apply(&mut self, message: v1::LearnedRoutes) -> v1::LearnedRoutesReply {
        if message.begins {
            self.begun += 1;
            self.stale = self.routes.keys().cloned().collect();
            self.hops.clear();
        }
        self.hops.extend(message.hops.into_iter().map(|hop| (hop.id, hop)));
        let mut refused = Vec::new();
        for run in message.runs {
            for prefix in packed(&run) {
                let is_full = self.limit.is_some_and(|limit| self.routes.len() >= limit);
                self.stale.remove(&prefix);
                if run.hop == 0 {
                    self.routes.remove(&prefix);
                } else if is_full && !self.routes.contains_key(&prefix) {
                    let run = Some(pack(&prefix, run.hop));
                    let (reason, fix) = ("no room".to_owned(), "Raise the limit.".to_owned());
                    refused.push(v1::RefusedRun { run, reason, fix, is_full: true });
                } else {
                    let protocol = self.hops.get(&run.hop).map_or(0, |hop| hop.protocol);
                    self.protocols.insert(prefix.clone(), protocol);
                    self.routes.insert(prefix, run.hop);
                }
            }
        }
        if message.completes {
            self.completed += 1;
            for prefix in std::mem::take(&mut self.stale) {
                self.routes.remove(&prefix);
            }
        }
        v1::LearnedRoutesReply { number: message.number, refused, took_us: 7 }
    }

    /// Route counts as the forwarder reports them.
    pub fn count(&mut self) -> Vec<v1::RouteCount> {
        self.counted += 1;
        let mut counts = BTreeMap::new();
        for prefix in self.routes.keys() {
            let protocol = self.protocols.get(prefix).copied().unwrap_or_default();
            *counts.entry((prefix.0.clone(), prefix.1, protocol)).or_default() += 1;
        }
        let count =
            |((vrf, family, protocol), routes)| v1::RouteCount { vrf, family, protocol, routes };
        counts.into_iter().map(count).collect()
    }

    /// The reply to an audit as the forwarder sends it.
    pub fn audit(&self, request: &v1::AuditRoutesRequest) -> v1::AuditRoutesReply {
        let mut reply =
            v1::AuditRoutesReply { digests: vec![0; digest::SLICES], ..Default::default() };
        for (prefix, hop) in &self.routes {
            let (vrf, family, address, length) = prefix;
            if (vrf, family) != (&request.vrf, &request.family) {
                continue;
            }
            reply.routes += 1;
            let slice = digest::slice(*address, *length);
            let sum = &mut reply.digests[slice];
            *sum = sum.wrapping_add(digest::route(*address, *length, *hop));
            if request.slices.contains(&(slice as u32)) {
                reply.runs.push(pack(prefix, *hop));
            }
        }
        reply
    }
}

/// Processes the messages of a stream and replies.
pub fn serve(
    held: Shared,
    mut messages: Streaming<v1::LearnedRoutes>,
) -> tokio_stream::wrappers::ReceiverStream<Result<v1::LearnedRoutesReply, Status>> {
    let (sender, receiver) = tokio::sync::mpsc::channel(4);
    tokio::spawn(async move {
        while let Some(Ok(message)) = messages.next().await {
            let answer = held.lock().unwrap().apply(message);
            if sender.send(Ok(answer)).await.is_err() {
                return;
            }
        }
    });
    tokio_stream::wrappers::ReceiverStream::new(receiver)
}
