//! The flow of a first packet, with the first key of replies that no other flow has. It may replace a flow that is not
//! translated.

use stoa_tables::flow_table::{Ends, FlowKey, NewFlow, Tuple};

use super::choice::Ports;
use super::create::{Maker, ends_of};
use super::first::First;
use crate::drops::Drop;
use crate::flow::tracker::{Opened, Translation, Uses};

impl Maker<'_> {
    /// Creates the flow with the first key of replies that is free. `reply_key`: the one to try, by number.
    pub(super) fn make(
        &mut self,
        first: &First<'_>,
        uses: Uses,
        reply_key: impl Fn(usize) -> Option<FlowKey>,
    ) -> Result<Ends, Drop> {
        let Some(reply) = reply_key(0) else { return Err(Drop::Nat44NoPort) };
        if reply == first.key.reversed() {
            // Its external end is its own.
            return Ok(ends_of(&reply));
        }
        let taken = self.taken(first)?;
        let made = self.try_keys(first, (&taken, uses), reply_key);
        if made.is_err() {
            self.give_up(taken.as_ref());
        }
        made
    }

    /// Takes away the flow that a packet has by rules: one that is translated replaces it.
    pub(super) fn taken(&mut self, first: &First<'_>) -> Result<Option<NewFlow>, Drop> {
        let former = first.untranslated.map(|id| self.side.take(id).ok_or(Drop::FlowContended));
        former.transpose()
    }

    /// Nothing replaces a flow that was taken away.
    pub(super) fn give_up(&self, taken: Option<&NewFlow>) {
        if let Some(former) = taken {
            self.side.give_up(former);
        }
    }

    /// As [`Self::make`], in place of a flow that was taken away.
    pub(super) fn try_keys(
        &mut self,
        first: &First<'_>,
        (taken, uses): (&Option<NewFlow>, Uses),
        reply_key: impl Fn(usize) -> Option<FlowKey>,
    ) -> Result<Ends, Drop> {
        self.side.make_translated_room();
        let (epoch, has_rules) = self.policy.map_or((0, true), |it| (it.epoch, !it.is_bare));
        for at in 0..Ports::MOST {
            let Some(reply_key) = reply_key(at) else { break };
            let received = first.received;
            let it = Translation { reply_key, uses, epoch, has_rules, received };
            let opened = match taken {
                Some(former) => {
                    self.side.replace_by_translated(former, &first.packet, &it, self.now)
                }
                None => self.side.create_translated(first.key, &first.packet, &it, self.now),
            };
            return match opened {
                Opened::New => {
                    self.begin_alg(first, uses.number, &reply_key);
                    Ok(ends_of(&reply_key))
                }
                Opened::PortTaken => continue,
                Opened::Existing(_) => Err(Drop::FlowContended),
                Opened::Untracked => Err(Drop::TcpNoConnection),
                Opened::Drop(reason) => Err(reason),
            };
        }
        Err(Drop::Nat44NoPort)
    }

    /// A flow that was just created gets the gateway that its policy names. The server of its control connection is the
    /// end that replies.
    fn begin_alg(&mut self, first: &First<'_>, number: u32, reply_key: &FlowKey) {
        let Tuple::Ip4(reply) = reply_key.tuple else { return };
        if let Some(alg) = self.nat.alg_of(number, (reply.protocol, reply.source_port)) {
            self.side.begin_alg(&first.key, alg, &first.packet, self.now);
        }
    }
}
