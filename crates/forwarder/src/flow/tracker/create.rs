//! New flows of a worker.

use super::*;

impl Side {
    /// The first packet of a flow.
    pub fn create(
        &mut self,
        key: FlowKey,
        packet: &Seen<'_>,
        admission: Admission,
        now: Now,
    ) -> Opened {
        let new = match self.new_flow((key, None), packet, admission) {
            Ok(new) => new,
            Err(opened) => return opened,
        };
        match self.insert(&new, packet, now) {
            Ok(_) => Opened::New,
            Err(opened) => opened,
        }
    }

    /// A flow that a packet begins; or why it begins none.
    pub(super) fn new_flow(
        &self,
        (key, reply_key): (FlowKey, Option<FlowKey>),
        packet: &Seen<'_>,
        admission: Admission,
    ) -> Result<NewFlow, Opened> {
        let Admission { epoch, rule, profile, .. } = admission;
        let (flags, zone_pair) = (admission.flags(0), self.received_by(admission.received));
        let mut new = NewFlow { epoch, rule, flags, zone_pair, ..NewFlow::new(key, reply_key) };
        if packet.kind.protocol() == protocol::TCP {
            let options = self.profiles.options(with_profile(Class::TcpOpening, profile));
            match step::open(packet, options) {
                Ok(Some(state)) => {
                    new.tcp = state.words();
                    new.class = with_profile(state.class(), profile);
                }
                Ok(None) => return Err(Opened::Untracked),
                Err(refusal) => return Err(Opened::Drop(refusal)),
            }
        } else {
            let state = Exchange::open(packet.kind.protocol());
            new.tcp = exchange_words(state);
            new.class = with_profile(state.class(), profile);
        }
        Ok(new)
    }

    /// Creates a flow by its first packet; its id. There is room for one that is translated.
    pub(super) fn insert(
        &mut self,
        new: &NewFlow,
        packet: &Seen<'_>,
        now: Now,
    ) -> Result<u32, Opened> {
        let look = now.tick.wrapping_add(self.profiles.timeouts[usize::from(new.class)]);
        let held = self.hold(new, now)?;
        if new.reply_key.is_none() {
            // What a limit refuses takes no room from others.
            self.make_room(self.kind(false));
        }
        let refused = match self.owner.create(new, now.tick, look) {
            Ok(Created::New(id)) => {
                self.keep_hold(id, held);
                if new.reply_key.is_some() {
                    self.flows.note_translated(true);
                }
                self.begin_flow(id, packet, now);
                return Ok(id);
            }
            Ok(Created::Existing(found)) => Opened::Existing(found),
            Err(refused) => self.refusal(refused),
        };
        self.undo_hold(held);
        Err(refused)
    }

    /// What becomes of a packet whose flow the table refuses.
    #[cold]
    pub(super) fn refusal(&self, refused: FlowError) -> Opened {
        match refused {
            FlowError::Contended => Opened::Drop(Drop::FlowContended),
            FlowError::ReplyKeyTaken => Opened::PortTaken,
            FlowError::SourceLimit { .. } => {
                self.count(|counts| counts.source_limited.add(1));
                Opened::Drop(Drop::FlowSourceLimit)
            }
            _ => {
                self.count(|counts| counts.refused.add(1));
                Opened::Drop(Drop::FlowTableFull)
            }
        }
    }

    pub(super) fn begin_flow(&mut self, id: u32, packet: &Seen<'_>, now: Now) {
        let flow = self.owner.entry(id);
        let (vrf, start) = (flow.key().vrf, flow.start());
        flow.count(Direction::Original, 1, packet.place.length().into());
        self.count(|counts| counts.created.add(1));
        self.has_created = true;
        let passed = Passed { id, start, direction: Direction::Original };
        let is_first = packet.kind.0 & Kind::FIRST != 0;
        if is_first {
            self.pieces.first((packet, vrf), passed, now.tick);
        }
    }
}
