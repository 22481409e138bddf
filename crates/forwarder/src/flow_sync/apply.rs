//! What a worker does with records of the partner, between packets.

use std::net::Ipv6Addr;

use stoa_tables::flow_table::{FormerFlow, Past};
use stoa_wire::protocol;

use super::here::Here;
use super::message::{Record, SentKey};
use super::standby::{Given, Outcome, Work};
use crate::acl::Policy;
use crate::flow::adoption::{LeftOut, create};
use crate::flow::flows::{Flows, Now};
use crate::flow::tcp::Tcp;
use crate::flow::tracker::{FlowTracker, Side};
use crate::nat::{Leaves, Nat, NatWorker};
use crate::nat64::Nat64;

/// Records of a turn, in which packets wait: some tens of microseconds, with five look-ups of ports by chance for each
/// translated one. One that is refused for want of room may take 64 of them, and counts as so many.
const TURN: usize = 32;
const REFUSED: usize = 8;

/// What decides about records.
pub(crate) struct Configured<'a> {
    pub(crate) flows: &'a Flows,
    pub(crate) nat: &'a Nat,
    pub(crate) nat64: &'a Nat64,
    /// The rules in force; `None`: flows are not followed.
    pub(crate) policy: Option<Policy>,
    /// Whether a route leads between VRFs.
    pub(crate) leaves: &'a Leaves<'a>,
    /// Whether an IPv6 address of a VRF, by its id, is one of the router.
    pub(crate) is_own: &'a dyn Fn(u32, Ipv6Addr) -> bool,
}

/// Does some of what waits for a worker; whether more is left.
pub(crate) fn apply(
    of: &Configured<'_>,
    (tracker, worker): (&mut FlowTracker, &mut NatWorker),
    now: Now,
) -> bool {
    [true, false].iter().for_each(|it| tracker.of(*it).begin());
    let (standby, hosts) = (of.flows.standby(), of.flows.nat64_hosts());
    let here = |sent: SentKey| sent.here(|key| of.nat64.key4(hosts, key));
    let mut spent = 0;
    while spent < TURN {
        let Ok(work) = tracker.intake().ring.pop() else { return false };
        let outcome = match work {
            Work::End(sent, counts) => {
                let side = tracker.of(sent.is_ip4());
                let ended = here(sent).map(|key| side.end_standby(&key));
                let outcome = ended.unwrap_or(Outcome::Ignored);
                Some(outcome).filter(|it| counts || *it != Outcome::Ignored)
            }
            Work::Flow(record, connection) => {
                let is_ip4 = record.key().is_ip4();
                Some(match of.policy {
                    // IPv6 flows are those of rules alone.
                    Some(it) if it.is_stateful || is_ip4 => {
                        let side = tracker.of(is_ip4);
                        one(
                            (of, it.epoch.wrapping_sub(1)),
                            (side, worker),
                            (&record, connection),
                            now,
                        )
                    }
                    _ => Outcome::Refused(LeftOut::Translation),
                })
            }
            Work::Known(sent, connection) => {
                if let Some(key) = here(sent) {
                    tracker.of(sent.is_ip4()).know_standby(&key, connection);
                }
                None
            }
            Work::Sweep(key, connection) => {
                tracker.of(!key.is_ip6()).sweep_standby(&key, connection)
            }
        };
        spent += if outcome == Some(Outcome::Refused(LeftOut::Room)) { REFUSED } else { 1 };
        if let Some(outcome) = outcome {
            standby.count(outcome);
        }
    }
    tracker.intake().has_work()
}

/// Has a flow of the partner.
fn one(
    (of, epoch): (&Configured<'_>, u16),
    (side, worker): (&mut Side, &mut NatWorker),
    (record, connection): (&Record, u32),
    now: Now,
) -> Outcome {
    let mut here = match Here::of(of, &relaxed(&record.flow), now) {
        Ok(it) => it,
        Err(why) => return Outcome::Refused(why),
    };
    if here.may_be_known()
        && let Some(found) = side.find(&here.flow.key)
    {
        let record = Record { flow: here.flow, ..*record };
        let outcome = side.refresh_standby(found, (&record, connection), (now, epoch));
        if outcome == Outcome::Refreshed {
            here.note_answer(of.flows, now);
        }
        return outcome;
    }
    if !side.has_standby_room(here.flow.reply_key.is_some()) {
        return Outcome::Refused(LeftOut::Room);
    }
    if let Some(reply) = &here.flow.reply_key
        && !of.nat.can_have_made(&here.flow, reply, of.leaves)
    {
        return Outcome::Refused(LeftOut::Translation);
    }
    if !here.take_stand_in(&record.flow, of.flows, now) {
        return Outcome::Refused(LeftOut::Room);
    }
    let flow = here.flow;
    if let Some(reply) = &flow.reply_key
        && !worker.has_standby_room((of.flows, of.nat), (&flow, reply))
    {
        return Outcome::Refused(LeftOut::Room);
    }
    match create((of.flows, of.nat, epoch), (side, worker), &flow, now) {
        Ok(id) => {
            let (Past { start, seen, .. }, class) = (flow.past, flow.class);
            let is_theirs = !record.is_standby;
            side.set_standby(id, Given { start, seen, class, connection, is_theirs }, epoch);
            here.note_answer(of.flows, now);
            Outcome::Created
        }
        Err(why) => Outcome::Refused(why),
    }
}

/// A flow with the limits of sequence numbers that a record may have, which is older than the connection.
fn relaxed(flow: &FormerFlow) -> FormerFlow {
    if flow.key.protocol() != protocol::TCP {
        return *flow;
    }
    let mut state = Tcp::from_words(flow.tcp);
    state.relax();
    FormerFlow { tcp: state.words(), ..*flow }
}
