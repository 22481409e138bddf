//! What a worker does with records of the partner, between packets.

use stoa_tables::flow_table::FormerFlow;
use stoa_wire::protocol;

use super::message::Record;
use super::standby::{Outcome, Work};
use crate::acl::Policy;
use crate::flow::adoption::{LeftOut, create};
use crate::flow::flows::{Flows, Now};
use crate::flow::tcp::Tcp;
use crate::flow::tracker::{FlowTracker, Side};
use crate::nat::{Nat, NatWorker};

/// Records of a turn: some tens of microseconds, in which packets wait.
const TURN: usize = 32;

/// Does some of what waits for a worker; whether more is left. `policy`: the rules in force; `None`: flows are not
/// followed.
pub fn apply(
    (flows, nat, policy): (&Flows, &Nat, Option<Policy>),
    (tracker, worker): (&mut FlowTracker, &mut NatWorker),
    now: Now,
) -> bool {
    [true, false].iter().for_each(|it| tracker.of(*it).begin());
    for _ in 0..TURN {
        let Ok(work) = tracker.intake().0.pop() else { return false };
        let outcome = match work {
            Work::End(key) => tracker.of(!key.is_ip6()).end_standby(&key),
            Work::Flow(record) => match policy {
                // IPv6 flows are those of rules alone.
                Some(it) if it.is_stateful || !record.flow.key.is_ip6() => {
                    let side = tracker.of(!record.flow.key.is_ip6());
                    let epoch = it.epoch.wrapping_sub(1);
                    one((flows, nat, epoch), (side, worker), &record, now)
                }
                _ => Outcome::Refused(LeftOut::Translation),
            },
        };
        flows.standby().count(outcome);
    }
    tracker.intake().has_work()
}

/// Has a flow of the partner.
fn one(
    (flows, nat, epoch): (&Flows, &Nat, u16),
    (side, worker): (&mut Side, &mut NatWorker),
    record: &Record,
    now: Now,
) -> Outcome {
    let flow = relaxed(&record.flow);
    if let Some(found) = side.find(&flow.key) {
        return side.refresh_standby(found, &Record { flow, ..*record }, now);
    }
    if !side.has_standby_room(flow.reply_key.is_some()) {
        return Outcome::Refused(LeftOut::Room);
    }
    if let Some(reply) = &flow.reply_key
        && !nat.can_have_made(&flow, reply)
    {
        return Outcome::Refused(LeftOut::Translation);
    }
    match create((flows, nat, epoch), (side, worker), &flow, now) {
        Ok(id) => {
            let is_ip4 = !flow.key.is_ip6();
            flows.standby().note((is_ip4, id), (flow.past.start, flow.past.seen));
            Outcome::Created
        }
        Err(why) => Outcome::Refused(why),
    }
}

/// A flow with the limits of sequence numbers that a record may have, which is older than the connection.
fn relaxed(flow: &FormerFlow) -> FormerFlow {
    use stoa_tables::flow_table::Tuple;
    let of = match flow.key.tuple {
        Tuple::Ip4(it) => it.protocol,
        Tuple::Ip6(it) => it.protocol,
    };
    if of != protocol::TCP {
        return *flow;
    }
    let mut state = Tcp::from_words(flow.tcp);
    state.relax();
    FormerFlow { tcp: state.words(), ..*flow }
}
