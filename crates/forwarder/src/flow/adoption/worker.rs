//! The part of a worker.

use std::collections::VecDeque;

use stoa_tables::flow_table::{FormerFlow, Past, Reading};

use super::former::End;
use super::{LeftOut, Request};
use crate::acl::Policy;
use crate::flow::flows::{Flows, Now};
use crate::flow::tracker::{FlowTracker, Side, standby_rule};
use crate::flow_sync::standby::Given;
use crate::nat::{Nat, NatWorker};
use crate::nat64::keys::is_crossed;

/// Flows whose memory is prefetched before they are created.
const AHEAD: usize = 24;

/// Adopts the flows of this worker, whose owner was the worker of its number, or of another one if there are fewer
/// workers now. `policy`: the rules in force; `None`: flows are not followed.
pub fn adopt(
    request: &Request,
    (flows, nat, policy): (&Flows, &Nat, Option<Policy>),
    (tracker, worker): (&mut FlowTracker, &mut NatWorker),
    (workers, now): (usize, Now),
) {
    let Some(policy) = policy else { return };
    // IPv6 flows are those of rules alone.
    let families = if policy.is_stateful { &[true, false][..] } else { &[true] };
    for is_ip4 in families {
        let side = tracker.of(*is_ip4);
        let mut of = Adopting {
            request,
            flows,
            nat,
            // Other rules than these have admitted them.
            epoch: policy.epoch.wrapping_sub(1),
            workers,
            side,
            worker: &mut *worker,
            now,
            ahead: VecDeque::with_capacity(AHEAD + 1),
        };
        of.adopt_all(*is_ip4);
    }
}

/// Creates a flow that another process had, in the numbers and ticks of this one, with what it uses; its id. `epoch`:
/// of rules that are in force no longer.
///
/// # Errors
/// Why it is left out.
pub fn create(
    (flows, nat, epoch): (&Flows, &Nat, u16),
    (side, worker): (&mut Side, &mut NatWorker),
    flow: &FormerFlow,
    now: Now,
) -> Result<u32, LeftOut> {
    side.check_former(flow, now)?;
    let uses = match flow.reply_key {
        None => None,
        Some(reply) => {
            let claimed = worker.claim((flows, nat), (flow, &reply), now);
            Some(claimed.ok_or(LeftOut::Translation)?)
        }
    };
    let id = side.adopt(flow, uses, epoch);
    if let (None, Some(uses)) = (id, uses) {
        worker.unclaim(flows, (flow, uses), now);
    }
    id.ok_or(LeftOut::Room)
}

struct Adopting<'a> {
    request: &'a Request,
    flows: &'a Flows,
    nat: &'a Nat,
    epoch: u16,
    workers: usize,
    side: &'a mut Side,
    worker: &'a mut NatWorker,
    now: Now,
    /// Flows that are created next.
    ahead: VecDeque<FormerFlow>,
}

impl Adopting<'_> {
    fn adopt_all(&mut self, is_ip4: bool) {
        let request = self.request;
        self.side.begin();
        let is_first = self.side.worker() == 0;
        let end = request.former.read(
            is_ip4,
            || request.is_late(),
            |reading| match reading {
                Reading::Flow(flow) => self.adopt_later(&flow),
                // Whose it was is not known.
                Reading::Damaged if is_first => self.leave_out(LeftOut::Damaged),
                Reading::Damaged => {}
            },
        );
        while let Some(flow) = self.ahead.pop_front() {
            self.adopt_now(&flow);
        }
        match end {
            End::Complete => {}
            End::Late => self.leave_out(LeftOut::Late),
            End::Unreadable => self.leave_out(LeftOut::Unreadable),
        }
    }

    fn is_own(&self, flow: &FormerFlow) -> bool {
        usize::from(flow.owner) % self.workers.max(1) == self.side.worker()
    }

    /// Takes note of an own flow, so that the memory that it needs is there when it is created.
    fn adopt_later(&mut self, flow: &FormerFlow) {
        if !self.is_own(flow) {
            return;
        }
        match self.request.former.translate(flow) {
            Ok(flow) => {
                self.side.prefetch(&flow);
                self.ahead.push_back(flow);
            }
            Err(why) => self.leave_out(why),
        }
        if self.ahead.len() > AHEAD
            && let Some(flow) = self.ahead.pop_front()
        {
            self.adopt_now(&flow);
        }
    }

    fn adopt_now(&mut self, flow: &FormerFlow) {
        match self.create(flow) {
            Ok(id) => {
                self.side.note_adopted();
                let (Past { start, seen, rule, .. }, class) = (flow.past, flow.class);
                if rule == standby_rule(seen) {
                    // No connection of this process has named it.
                    let given = Given { start, seen, class, connection: 0, is_theirs: false };
                    self.side.set_standby(id, given, self.epoch);
                }
            }
            Err(why) => self.leave_out(why),
        }
    }

    fn create(&mut self, flow: &FormerFlow) -> Result<u32, LeftOut> {
        // The former process alone knew the hosts of NAT64: an answer would reach another one.
        if is_crossed(flow) {
            return Err(LeftOut::Translation);
        }
        let of_all = (self.flows, self.nat, self.epoch);
        create(of_all, (&mut *self.side, &mut *self.worker), flow, self.now)
    }

    fn leave_out(&self, why: LeftOut) {
        self.flows.adoption().leave_out(why);
        self.side.note_left_out();
    }
}
