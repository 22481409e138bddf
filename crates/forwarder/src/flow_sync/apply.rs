//! What a worker does with records of the partner, between packets.

use stoa_tables::flow_table::{FormerFlow, Past};
use stoa_wire::protocol;

use super::message::Record;
use super::standby::{Given, Outcome, Work};
use crate::acl::Policy;
use crate::flow::adoption::{LeftOut, create};
use crate::flow::flows::{Flows, Now};
use crate::flow::tcp::Tcp;
use crate::flow::tracker::{FlowTracker, Side};
use crate::nat::{Leaves, Nat, NatWorker};

/// Records of a turn, in which packets wait: some tens of microseconds, with five look-ups of ports by chance for each
/// translated one. One that is refused for want of room may take 64 of them, and counts as so many.
const TURN: usize = 32;
const REFUSED: usize = 8;

/// Does some of what waits for a worker; whether more is left. `policy`: the rules in force; `None`: flows are not
/// followed. `leaves`: whether a route leads between VRFs.
pub(crate) fn apply(
    (flows, nat, policy, leaves): (&Flows, &Nat, Option<Policy>, &Leaves<'_>),
    (tracker, worker): (&mut FlowTracker, &mut NatWorker),
    now: Now,
) -> bool {
    [true, false].iter().for_each(|it| tracker.of(*it).begin());
    let mut spent = 0;
    while spent < TURN {
        let Ok(work) = tracker.intake().ring.pop() else { return false };
        let outcome = match work {
            Work::End(key, counts) => {
                let outcome = tracker.of(!key.is_ip6()).end_standby(&key);
                Some(outcome).filter(|it| counts || *it != Outcome::Ignored)
            }
            Work::Flow(record, connection) => Some(match policy {
                // IPv6 flows are those of rules alone.
                Some(it) if it.is_stateful || !record.flow.key.is_ip6() => {
                    let side = tracker.of(!record.flow.key.is_ip6());
                    let of_all = (flows, nat, leaves, it.epoch.wrapping_sub(1));
                    one(of_all, (side, worker), (&record, connection), now)
                }
                _ => Outcome::Refused(LeftOut::Translation),
            }),
            Work::Known(key, connection) => {
                tracker.of(!key.is_ip6()).know_standby(&key, connection);
                None
            }
            Work::Sweep(key, connection) => {
                tracker.of(!key.is_ip6()).sweep_standby(&key, connection)
            }
        };
        spent += if outcome == Some(Outcome::Refused(LeftOut::Room)) { REFUSED } else { 1 };
        if let Some(outcome) = outcome {
            flows.standby().count(outcome);
        }
    }
    tracker.intake().has_work()
}

/// Has a flow of the partner.
fn one(
    (flows, nat, leaves, epoch): (&Flows, &Nat, &Leaves<'_>, u16),
    (side, worker): (&mut Side, &mut NatWorker),
    (record, connection): (&Record, u32),
    now: Now,
) -> Outcome {
    let flow = relaxed(&record.flow);
    if let Some(found) = side.find(&flow.key) {
        let record = Record { flow, ..*record };
        return side.refresh_standby(found, (&record, connection), (now, epoch));
    }
    if !side.has_standby_room(flow.reply_key.is_some()) {
        return Outcome::Refused(LeftOut::Room);
    }
    if let Some(reply) = &flow.reply_key {
        if !nat.can_have_made(&flow, reply, leaves) {
            return Outcome::Refused(LeftOut::Translation);
        }
        if !worker.has_standby_room((flows, nat), (&flow, reply)) {
            return Outcome::Refused(LeftOut::Room);
        }
    }
    match create((flows, nat, epoch), (side, worker), &flow, now) {
        Ok(id) => {
            let (Past { start, seen, .. }, class) = (flow.past, flow.class);
            let is_theirs = !record.is_standby;
            side.set_standby(id, Given { start, seen, class, connection, is_theirs }, epoch);
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
