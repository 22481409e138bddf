//! `ip4-policy` and `ip6-policy`: look up packets of VRFs with rules in the table that the rules
//! select.

use std::sync::Arc;

use stoa_engine::arc::ArcHook;
use stoa_engine::gather::gather_32;
use stoa_engine::quiescence::Reader;
use stoa_engine::vector::flags::CROSSED;
use stoa_engine::vector::{Column, LaneSet};
use stoa_engine::{Context, Next, Node, Vector};
use stoa_tables::lpm::Counted;
use stoa_tables::next_hop::Resolved;

use super::header::Family;
use super::walk::{Columns, Outcome, Tables};
use crate::arcs::{self, IP4_INPUT, IP6_INPUT};
use crate::drops::Drop;
use crate::ethernet::interface_flags::{FORWARD4, FORWARD6};
use crate::icmp::IcmpCause;
use crate::ip::ip4_options::through_options;
use crate::ip::lookup::{Address, Lookup};
use crate::ip::{ERROR, REWRITE, ip4_input, ip6_input};
use crate::nat64;
use crate::shared::{Shared, SpecialNextHop};

/// Next nodes of IPv4 packets besides those of the arc: the first edges of `ip4-input`.
pub const EDGES4: &[&str] = &["ip4-rewrite", "ip4-local", "icmp4-error", "ip4-options"];
/// Next nodes of IPv6 packets besides those of the arc: the first edges of `ip6-input`.
pub const EDGES6: &[&str] = &["ip6-rewrite", "ip6-local", "icmp6-error"];
/// The lookup result without a route.
const NO_ROUTE: u32 = 0;

/// Makes the IPv4 node of one worker.
pub fn make4(shared: &Arc<Shared>, worker: usize) -> Box<dyn Node> {
    PolicyNode::<u32>::boxed(shared, worker)
}

/// Makes the IPv6 node of one worker.
pub fn make6(shared: &Arc<Shared>, worker: usize) -> Box<dyn Node> {
    PolicyNode::<u128>::boxed(shared, worker)
}

struct PolicyNode<K> {
    shared: Arc<Shared>,
    hook: ArcHook,
    worker: usize,
    columns: Box<Columns<K>>,
    lookup: Box<Lookup>,
    vrfs: Column<u32>,
    /// The lookup results of the VRFs' own tables.
    own: Column<u32>,
}

impl<K: Family + Send> PolicyNode<K> {
    fn boxed(shared: &Arc<Shared>, worker: usize) -> Box<dyn Node> {
        let (shared, columns, own) = (shared.clone(), Box::new(Columns::new()), Column::of(0));
        let (lookup, vrfs) = (Lookup::new(), Column::of(0));
        let (arc, node) =
            if K::IS_IP4 { (IP4_INPUT, "ip4-policy") } else { (IP6_INPUT, "ip6-policy") };
        let hook = arcs::hook(arc, node);
        Box::new(Self { shared, hook, worker, columns, lookup, vrfs, own })
    }
}

impl<K: Family + Send> Node for PolicyNode<K> {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        let lanes = vector.len();
        let truncated = self.read(cx.reader, vector);
        // All lanes together, each in the table of its VRF: the only look-up of lanes that no rule routes.
        let tables = (&*self.shared, cx.reader);
        let (keys, own) = (self.columns.destinations(lanes), &mut self.own[..lanes]);
        self.lookup.run(tables, &vector.rx_if, keys, own, Counted::All);
        let mut left = LaneSet::first_of(lanes);
        while let Some(first) = left.lowest() {
            let vrf = self.vrfs[first];
            let of_vrf = left.take_equal(&self.vrfs, vrf);
            self.walk(cx.reader, vrf, &of_vrf);
        }
        for lane in 0..lanes {
            vector.next[lane] = self.next(vector, lane);
        }
        for lane in truncated.iter() {
            let reason = if K::IS_IP4 { Drop::Ip4Truncated } else { Drop::Ip6Truncated };
            vector.next[lane] = reason.next();
        }
        Next::Lanes
    }
}

impl<K: Family + Send> PolicyNode<K> {
    /// Reads headers and VRFs of all lanes; returns the lanes without a whole header.
    fn read(&mut self, reader: &Reader, vector: &Vector) -> LaneSet {
        let (lanes, shared) = (vector.len(), &*self.shared);
        gather_32(shared.attributes.vrf(), &vector.rx_if, lanes, &mut self.vrfs);
        let (policies, mut left) = (shared.policies.read(reader), LaneSet::first_of(lanes));
        let mut is_deep = false;
        while let Some(first) = left.lowest() {
            let vrf = self.vrfs[first];
            left.take_equal(&self.vrfs, vrf);
            is_deep |= policies.of(vrf).is_some_and(|policy| K::rules(policy).is_deep);
        }
        let mut truncated = LaneSet::first_of(0);
        for lane in 0..lanes {
            // `ip4-input` and `ip6-input` have validated the header.
            let header = K::header(vector.bytes(lane), is_deep);
            if header.is_none() {
                truncated.insert(lane);
            }
            let (header, interface) = (header.unwrap_or_default(), vector.rx_if[lane]);
            self.columns.put(lane, &header, interface, vector.length[lane]);
        }
        truncated
    }

    /// Applies the rules of a VRF to its lanes.
    fn walk(&mut self, reader: &Reader, vrf: u32, lanes: &LaneSet) {
        let shared = &*self.shared;
        // Rules that were deleted in the meantime: no rules.
        let rules = shared.policies.read(reader).of(vrf).map(K::rules);
        self.columns.open(lanes);
        self.columns.exclude(|lane| rules.is_none() || is_ours(shared, self.own[lane]));
        if let Some(rules) = rules {
            let tables = WorkerTables { shared, reader };
            self.columns.walk(&rules.list, self.worker, &tables, (vrf, &*self.own));
        }
    }

    /// The edge of a lane by its outcome.
    fn next(&self, vector: &mut Vector, lane: usize) -> u16 {
        let shared = &*self.shared;
        match self.columns.outcome[lane] {
            Outcome::Special(special) => refuse::<K>(shared, vector, lane, special),
            Outcome::Route(value) if value != self.own[lane] => {
                follow_route::<K>(shared, vector, lane, value)
            }
            // A goto skipped the VRF's own table, so its route is not used.
            Outcome::Open if is_route(shared, self.own[lane]) => {
                follow_route::<K>(shared, vector, lane, NO_ROUTE)
            }
            // Open: the own table has the ICMP cause, which can be a link that is down.
            Outcome::Route(_) | Outcome::Excluded | Outcome::Open => {
                self.follow_own_route(vector, lane)
            }
        }
    }

    /// Follows the route of the VRF's own table, through the next feature.
    fn follow_own_route(&self, vector: &mut Vector, lane: usize) -> u16 {
        let shared = &*self.shared;
        let arc = if K::IS_IP4 { &shared.arcs.ip4_input } else { &shared.arcs.ip6_input };
        let enabled = arc.enabled(vector.rx_if[lane]);
        if self.hook.is_last(enabled) {
            // The route is known: no second lookup.
            return follow_route::<K>(shared, vector, lane, self.own[lane]);
        }
        self.hook.edge(enabled)
    }
}

/// Whether a route of this value is local, like rule 0 of Linux.
fn is_ours(shared: &Shared, value: u32) -> bool {
    match shared.next_hops.resolve(value, 0) {
        Resolved::Special { code, .. } => {
            matches!(SpecialNextHop::of(code), SpecialNextHop::Local | SpecialNextHop::Broadcast)
        }
        _ => false,
    }
}

/// The edge of an IPv4 route, one of [`EDGES4`].
pub(crate) fn follow_route4(shared: &Shared, vector: &mut Vector, lane: usize, value: u32) -> u16 {
    follow_route::<u32>(shared, vector, lane, value)
}

/// The edge of a route.
fn follow_route<K: Family>(shared: &Shared, vector: &mut Vector, lane: usize, value: u32) -> u16 {
    let flags = shared.interface(vector.rx_if[lane]).flags();
    if K::IS_IP4 {
        let next = ip4_input::route(shared, vector, lane, value);
        let has_crossed = vector.flags[lane] & CROSSED != 0;
        let next = ip4_input::forwardable(next, has_crossed || flags & FORWARD4 != 0);
        let next = nat64::confined(shared, vector, lane, next);
        return through_options(next, vector.bytes(lane));
    }
    let next = ip6_input::route(shared, vector, lane, value);
    let is_kept = next == REWRITE && flags & FORWARD6 == 0;
    if is_kept { Drop::Ip6NotForwarding.next() } else { next }
}

/// The edge of a rule that drops. An interface that does not forward sends no ICMP error either.
fn refuse<K: Family>(
    shared: &Shared,
    vector: &mut Vector,
    lane: usize,
    special: SpecialNextHop,
) -> u16 {
    let cause = match special {
        SpecialNextHop::Unreachable => IcmpCause::RuleUnreachable,
        SpecialNextHop::Prohibited => IcmpCause::RuleProhibited,
        _ => return Drop::RuleBlackhole.next(),
    };
    vector.arg[lane] = cause.code();
    let flags = shared.interface(vector.rx_if[lane]).flags();
    if K::IS_IP4 {
        let has_crossed = vector.flags[lane] & CROSSED != 0;
        return ip4_input::forwardable(ERROR, has_crossed || flags & FORWARD4 != 0);
    }
    if flags & FORWARD6 == 0 { Drop::Ip6NotForwarding.next() } else { ERROR }
}

/// The routing tables of a worker.
struct WorkerTables<'a> {
    shared: &'a Shared,
    reader: &'a Reader,
}

impl<K: Family> Tables<K> for WorkerTables<'_> {
    fn look_up(&self, vrf: u32, suppress_default: bool, keys: &[K], values: &mut [u32]) {
        match <K as Address>::table(self.shared, vrf, self.reader) {
            None => values.fill(0),
            Some(table) if suppress_default => table.lookup_batch_beyond_default(keys, values),
            Some(table) => table.lookup_batch(keys, values),
        }
    }

    fn is_route(&self, value: u32) -> bool {
        is_route(self.shared, value)
    }
}

/// Whether a value is a usable route. A route without a usable link is none, as in Linux, so that the next rule
/// can provide another path.
fn is_route(shared: &Shared, value: u32) -> bool {
    match shared.next_hops.resolve(value, 0) {
        Resolved::Adjacency(_) => true,
        Resolved::Special { code, .. } => {
            !matches!(SpecialNextHop::of(code), SpecialNextHop::NoRoute | SpecialNextHop::LinkDown)
        }
        Resolved::Missing => false,
    }
}
