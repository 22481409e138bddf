//! Packets that rules have judged.

use stoa_engine::Vector;
use stoa_engine::vector::{Fields, flags};
use stoa_tables::flow_table::{FlowKey, Match};

use super::{Task, Tracking, seen, vrf_of};
use crate::acl::Tracks;
use crate::acl::flow_keys::{changes_family, flow_vrf, is_of_router};
use crate::acl::keys::Family;
use crate::acl::node::hop_limit;
use crate::flow::flows::Now;
use crate::flow::tracker::{Seen, Side};

/// A packet that rules have judged.
pub(super) struct Judged<'a> {
    pub(super) packet: Seen<'a>,
    pub(super) key: FlowKey,
    pub(super) ports: u32,
    /// The flow that an input node has found; an output node: none.
    pub(super) known: Match,
    pub(super) flags: u16,
    pub(super) received: u32,
    pub(super) now: Now,
    /// It is from the router itself, or for it, so that no list sees the other direction; or it has an address of the
    /// router, or goes no further.
    pub(super) begins_none: bool,
}

impl Task<'_> {
    /// The flow of a packet that a rule has judged anew has the gateway of that rule, or else that of its policy of
    /// address translation.
    pub(super) fn renew_alg(&self, side: &mut Side, judged: &Judged<'_>, rule: Tracks) {
        if self.policy.has_algs || self.shared.flows.may_alter(!judged.key.is_ip6()) {
            let of_policy = || {
                let id = side.find(&judged.key)?.id().filter(|id| side.is_translated(*id))?;
                let has = side.alg_flow(id).and_then(|it| it.alg);
                self.shared.nat.read(self.reader).alg_of_flow(&side.reader().entry(id), has)
            };
            let alg = rule.alg.or_else(of_policy);
            side.renew_alg(&judged.key, alg, &judged.packet, judged.now);
        }
    }
}

/// The lane, as rules have judged it. `is_stateful`: the rule is.
pub(super) fn judged<'a, F: Family>(
    task: &Task<'_>,
    (vector, fields, lane): (&'a Vector, &Fields, usize),
    (tracking, is_stateful): (&Tracking, bool),
) -> Judged<'a> {
    let vrf = vrf_of(task.shared, task.place, vector, lane);
    let (is_input, key) = (task.place.is_input(), F::flow_key(fields, lane, flow_vrf(vrf)));
    Judged {
        packet: seen(vector, fields, lane),
        key,
        ports: fields.ports[lane],
        known: tracking.known[lane],
        flags: vector.flags[lane],
        received: vector.rx_if[lane],
        now: tracking.now,
        // An output node sees packets that are forwarded, or that the router sends.
        begins_none: is_stateful
            && (vector.flags[lane] & flags::OWN != 0
                || is_input
                    && (hop_limit::<F>(vector, lane) <= 1
                        || is_of_router(task.shared, (vrf, task.reader), &key)
                        || changes_family(task.shared, (vrf, task.reader), &key))),
    }
}
