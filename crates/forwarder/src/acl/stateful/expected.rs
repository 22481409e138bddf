//! First packets of connections that gateways have announced ([`crate::flow::alg`]).

use stoa_engine::Vector;
use stoa_engine::quiescence::Reader;
use stoa_tables::classifier::Fragment;
use stoa_tables::flow_table::{Direction, FlowKey, Match};
use stoa_wire::protocol::{GRE, TCP, UDP};
use stoa_wire::tcp::flag;

use super::{Fate, seen, tracked};
use crate::acl::Policy;
use crate::acl::flow_keys::flow_vrf;
use crate::acl::keys::Family;
use crate::acl::node::{AclNode, ERROR};
use crate::flow::alg::{Alg, Expectation, Expected, ExpectedKey};
use crate::flow::tracker::{Opened, Side};
use crate::icmp::next_of_dropped;
use crate::nat::NatWorker;

/// The worker that follows the control connection of a call, and so the call: it ends both.
fn owner_of_calls(side: &Side, it: &Expectation) -> Option<u8> {
    let flow = side.reader().entry(it.control.id);
    let is_live = flow.is_live() && flow.start() == it.control.start;
    (it.alg == Alg::Pptp && is_live).then(|| flow.owner())
}

/// What a first packet with this key meets.
fn expected_by(side: &Side, key: &FlowKey, tick: u32) -> Option<Expectation> {
    let all = side.expectations();
    let of_sender = || all.find_or_end(&ExpectedKey::of_sender(key)?, tick);
    match all.find_or_end(&ExpectedKey::of(key), tick) {
        // Both ends have announced media: only the sender's own announcement has its external port.
        Some(it) if it.kind == Expected::Media => {
            of_sender().filter(|of| of.becomes.is_some()).or(Some(it))
        }
        found => found.or_else(of_sender),
    }
}

impl<F: Family> AclNode<F> {
    /// Whether a lane without a flow has begun one, as it was announced, or was dropped then. `is_any` is set if it
    /// does not go on along the arc.
    #[cold]
    #[inline(never)]
    pub(super) fn begins_expected(
        &mut self,
        (side, worker, reader): (&mut Side, &mut NatWorker, &Reader),
        (vector, lane): (&mut Vector, usize),
        policy: Policy,
        is_any: &mut bool,
    ) -> bool {
        match self.fate_of_expected(side, (vector, lane), policy) {
            Some(Fate::Pass(flags)) => {
                vector.flags[lane] |= flags;
                let vrf = flow_vrf(self.shared.attributes.vrf_of(vector.rx_if[lane]));
                let key = vector.known_fields().map(|fields| F::flow_key(fields, lane, vrf));
                let id = key.and_then(|key| side.find(&key)).and_then(Match::id);
                if let Some(id) = id.filter(|id| side.is_altered(*id)) {
                    let of_flow = (id, Direction::Original);
                    self.finish(reader, (side, worker), (vector, lane), of_flow);
                }
            }
            Some(Fate::Drop(reason)) => {
                let of = (self.shared.flows.limits().is_silent(), ERROR);
                vector.next[lane] = next_of_dropped((&mut *vector, lane), reason, of);
                *is_any = true;
            }
            Some(Fate::Foreign(owner)) => {
                self.tracking.foreign.push(lane, owner);
                *is_any = true;
            }
            _ => return false,
        }
        self.ids[lane] = 0;
        true
    }

    fn fate_of_expected(
        &self,
        side: &mut Side,
        (vector, lane): (&mut Vector, usize),
        policy: Policy,
    ) -> Option<Fate> {
        let fields = vector.known_fields()?;
        let packet = seen(vector, fields, lane);
        let (kind, now) = (packet.kind, self.tracking.now);
        let begins = match kind.protocol() {
            TCP => kind.tcp_flags() & (flag::SYN | flag::ACK | flag::RST | flag::FIN) == flag::SYN,
            UDP => true,
            // With a call ID that was announced.
            GRE => fields.ports[lane] != 0,
            _ => false,
        };
        if !begins || kind.part() != Fragment::No || kind.malformed().is_some() {
            return None;
        }
        if kind.protocol() == TCP && packet.segment().is_none() {
            // Its checksum is wrong. Who sends such a one takes the way from nobody.
            return None;
        }
        let vrf = flow_vrf(self.shared.attributes.vrf_of(vector.rx_if[lane]));
        let key = F::flow_key(fields, lane, vrf);
        let it = expected_by(side, &key, now.tick)?;
        if it.kind == Expected::Bound && it.epoch != policy.epoch {
            // Other rules than those of its registration: they decide.
            side.expectations().forget(&it.key, it.control);
            return None;
        }
        if let Some(owner) = owner_of_calls(side, &it).filter(|it| *it != side.number()) {
            return Some(Fate::Foreign(owner));
        }
        let it = side.expectations().take(&it.key, now.tick)?;
        let begins = (&it, policy.epoch, vector.rx_if[lane]);
        let opened = side.create_expected(key, &packet, begins, now);
        if matches!(opened, Opened::New) {
            side.expectations().counts().note_begun();
        } else if it.kind != Expected::Bound {
            // It may come again. Another one may be expected meanwhile.
            let _ = side.expectations().put(&it, now.tick);
        }
        match opened {
            Opened::New => {
                let found = side.find(&key)?;
                if let Some(fields) = vector.known_fields_mut().filter(|_| F::IS_IP4) {
                    fields.flow[lane] = found.word();
                }
                Some(Fate::Pass(tracked(true)))
            }
            Opened::Drop(reason) => Some(Fate::Drop(reason)),
            Opened::Existing(_) | Opened::PortTaken | Opened::Untracked => None,
        }
    }
}
