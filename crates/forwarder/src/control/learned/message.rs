//! Parses messages of learned routes before the control thread gets them, and splits them into batches.

use std::collections::HashMap;

use stoa_api::v1;
use stoa_tables::next_hop::MAX_MEMBERS;

use super::family::Family;
use crate::control::desired::{Action, Path, address};
use crate::shared::SpecialNextHop;

/// Most routes of a batch: about a millisecond of the control thread.
pub(super) const BATCH_ROUTES: usize = 4096;

/// A checked message.
#[derive(Debug, Default)]
pub struct Message {
    pub(super) number: u64,
    pub(super) begins: bool,
    pub(super) hops: Vec<CheckedHop>,
    pub(super) batches: Vec<Batch>,
    pub(super) forgotten: Vec<u32>,
    pub(super) completes: bool,
    /// Refused runs with their errors.
    pub(super) refused: RefusedRuns,
}

/// A checked hop.
#[derive(Clone, Debug)]
pub(super) struct CheckedHop {
    /// The caller's id, from 1.
    pub(super) id: u32,
    pub(super) protocol: i32,
    pub(super) action: Action,
    /// Used while none of the paths is usable.
    pub(super) backup: Vec<Path>,
}

/// Changes of routes of one VRF and family, in order.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) vrf: String,
    /// The caller's hop ids that `changes` refers to by index; 0 removes the route.
    pub(super) hops: Vec<u32>,
    pub(super) changes: Changes,
}

/// Prefix, length, and index of the hop.
#[derive(Debug)]
pub(super) enum Changes {
    Ip4(Vec<(u32, u8, u32)>),
    Ip6(Vec<(u128, u8, u32)>),
}

/// Refused runs. Adjacent ones with the same hop and error are merged.
#[derive(Debug, Default)]
pub(super) struct RefusedRuns {
    pub(super) runs: Vec<v1::RefusedRun>,
    /// Number of refused prefixes.
    pub(super) count: usize,
}

/// Why something was refused, and how to fix it.
#[derive(Clone, Debug)]
pub(super) struct RouteError {
    pub(super) reason: String,
    pub(super) fix: String,
    pub(super) is_full: bool,
}

impl RouteError {
    pub(super) fn new(reason: impl Into<String>, fix: &str) -> Self {
        Self { reason: reason.into(), fix: fix.to_owned(), is_full: false }
    }
}

impl From<crate::control::TableFull> for RouteError {
    fn from(full: crate::control::TableFull) -> Self {
        Self { reason: full.to_string(), fix: full.table.fix(), is_full: true }
    }
}

impl RefusedRuns {
    /// A whole run, or a hop when it has no prefixes.
    fn run(&mut self, run: v1::RouteRun, reason: RouteError) {
        let RouteError { reason, fix, is_full } = reason;
        self.runs.push(v1::RefusedRun { run: Some(run), reason, fix, is_full });
    }

    pub(super) fn hop(&mut self, hop: u32, reason: RouteError) {
        self.run(v1::RouteRun { hop, ..v1::RouteRun::default() }, reason);
    }

    /// One prefix, merged with the one before it when both have the same error.
    pub(super) fn prefix<K: Family>(
        &mut self,
        (vrf, hop): (&str, u32),
        (prefix, length): (K, u8),
        reason: &RouteError,
    ) {
        self.count += 1;
        let is_alike = self.runs.last().is_some_and(|last| {
            let run = last.run.as_ref();
            let has_prefixes = run.is_some_and(|run| !(run.ip4.is_empty() && run.ip6.is_empty()));
            let is_run = run.is_some_and(|run| run.hop == hop && run.vrf == vrf && has_prefixes);
            is_run && last.is_full == reason.is_full && last.reason == reason.reason
        });
        if !is_alike {
            self.run(
                v1::RouteRun { vrf: vrf.to_owned(), hop, ..Default::default() },
                reason.clone(),
            );
        }
        if let Some(run) = self.runs.last_mut().and_then(|last| last.run.as_mut()) {
            prefix.pack(length, if K::IS_IP4 { &mut run.ip4 } else { &mut run.ip6 });
        }
    }
}

impl Message {
    /// Checks a message. Invalid parts are left out and reported in the reply.
    pub fn parse(request: v1::LearnedRoutes) -> Self {
        let v1::LearnedRoutes { number, begins, hops, runs, forgotten, completes } = request;
        let mut message = Self { number, begins, forgotten, completes, ..Self::default() };
        for hop in hops {
            let id = hop.id;
            match parse_hop(hop) {
                Ok(hop) => message.hops.push(hop),
                Err(reason) => message.refused.hop(id, reason),
            }
        }
        let (mut ip4, mut ip6) = (OpenBatch::<u32>::default(), OpenBatch::<u128>::default());
        for run in runs {
            let v1::RouteRun { vrf, hop, ip4: four, ip6: six } = run;
            message.add_run(&mut ip4, (&vrf, hop), four);
            message.add_run(&mut ip6, (&vrf, hop), six);
        }
        message.close(&mut ip4);
        message.close(&mut ip6);
        message
    }

    fn add_run<K: Packed>(
        &mut self,
        open: &mut OpenBatch<K>,
        (vrf, hop): (&str, u32),
        bytes: Vec<u8>,
    ) {
        if bytes.is_empty() {
            return;
        }
        if !bytes.len().is_multiple_of(K::PACKED) {
            let reason = format!("{} bytes are not prefixes of {} each", bytes.len(), K::PACKED);
            let mut run = v1::RouteRun { vrf: vrf.to_owned(), hop, ..Default::default() };
            *if K::IS_IP4 { &mut run.ip4 } else { &mut run.ip6 } = bytes;
            return self
                .refused
                .run(run, RouteError::new(reason, "Send address and length of each prefix."));
        }
        if open.vrf != vrf {
            self.close(open);
            vrf.clone_into(&mut open.vrf);
        }
        for (prefix, length) in bytes.chunks_exact(K::PACKED).filter_map(K::unpack) {
            if let Err(reason) = check(prefix, length) {
                self.refused.prefix((vrf, hop), (prefix, length), &reason);
                continue;
            }
            if open.changes.len() == BATCH_ROUTES {
                self.close(open);
            }
            let index = open.index(hop);
            open.changes.push((prefix, length, index));
        }
    }

    fn close<K: Packed>(&mut self, open: &mut OpenBatch<K>) {
        let changes = std::mem::take(&mut open.changes);
        let hops = std::mem::take(&mut open.hops);
        open.indexes.clear();
        if !changes.is_empty() {
            let vrf = open.vrf.clone();
            self.batches.push(Batch { vrf, hops, changes: K::changes(changes) });
        }
    }
}

/// A batch that is being filled.
struct OpenBatch<K> {
    vrf: String,
    hops: Vec<u32>,
    /// Index of each hop.
    indexes: HashMap<u32, u32>,
    changes: Vec<(K, u8, u32)>,
}

impl<K> OpenBatch<K> {
    fn index(&mut self, hop: u32) -> u32 {
        let last = self.hops.len() as u32;
        if self.hops.last() == Some(&hop) {
            return last - 1;
        }
        let hops = &mut self.hops;
        *self.indexes.entry(hop).or_insert_with(|| {
            hops.push(hop);
            last
        })
    }
}

impl<K> Default for OpenBatch<K> {
    fn default() -> Self {
        let (hops, indexes) = Default::default();
        Self { vrf: String::new(), hops, indexes, changes: Vec::new() }
    }
}

trait Packed: Family {
    fn changes(changes: Vec<(Self, u8, u32)>) -> Changes;
}

impl Packed for u32 {
    fn changes(changes: Vec<(Self, u8, u32)>) -> Changes {
        Changes::Ip4(changes)
    }
}

impl Packed for u128 {
    fn changes(changes: Vec<(Self, u8, u32)>) -> Changes {
        Changes::Ip6(changes)
    }
}

fn check<K: Family>(prefix: K, length: u8) -> Result<(), RouteError> {
    if length > K::BITS {
        let reason = format!("length {length} is out of range; the greatest is {}", K::BITS);
        return Err(RouteError::new(reason, "Send a length that fits the address."));
    }
    if prefix.mask(length) != prefix {
        return Err(RouteError::new(
            "has host bits set",
            "Clear the host bits, or use a longer prefix.",
        ));
    }
    Ok(())
}

fn parse_hop(request: v1::LearnedHop) -> Result<CheckedHop, RouteError> {
    let v1::LearnedHop { id, protocol, action, backup } = request;
    if id == 0 {
        return Err(RouteError::new("a hop has the id 0", "Count from 1: 0 removes routes."));
    }
    let action = match action {
        Some(v1::learned_hop::Action::Paths(request)) => Action::Paths(paths(request)?),
        Some(v1::learned_hop::Action::Special(request)) => {
            Action::Special(match v1::Special::try_from(request) {
                Ok(v1::Special::Local) => SpecialNextHop::Local,
                Ok(v1::Special::Blackhole) => SpecialNextHop::Blackhole,
                Ok(v1::Special::Unreachable) => SpecialNextHop::Unreachable,
                Ok(v1::Special::Prohibit) => SpecialNextHop::Prohibited,
                Err(_) => {
                    return Err(RouteError::new("has an unknown action", "Use a newer forwarder."));
                }
            })
        }
        None => return Err(RouteError::new("has no action", "Set paths or a special action.")),
    };
    let backup = paths(backup.unwrap_or_default())?;
    Ok(CheckedHop { id, protocol, action, backup })
}

fn paths(request: v1::Paths) -> Result<Vec<Path>, RouteError> {
    if request.paths.len() > MAX_MEMBERS {
        let reason = format!("{} paths are more than {MAX_MEMBERS}", request.paths.len());
        return Err(RouteError::new(reason, "Send fewer paths."));
    }
    let parse = |path: v1::Path| {
        let next_hop = address(&path.next_hop);
        if next_hop.is_none() && !path.next_hop.is_empty() {
            let reason = format!("a gateway has {} bytes", path.next_hop.len());
            return Err(RouteError::new(reason, "Use 4 or 16 bytes, or none."));
        }
        let weight = path.weight.clamp(1, u16::MAX.into()) as u16;
        Ok(Path { interface: path.interface, next_hop, weight })
    };
    let mut paths = request.paths.into_iter().map(parse).collect::<Result<Vec<_>, _>>()?;
    paths.sort();
    paths.dedup();
    Ok(paths)
}
