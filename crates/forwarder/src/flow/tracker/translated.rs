//! Translated flows: they have a second key, and belong to a policy or a static mapping of address translation.

use std::sync::atomic::{Ordering, compiler_fence};

use stoa_engine::clock;
use stoa_tables::flow_table::{
    Created, Direction, FlowEntry, FlowKey, Kind as Memory, Match, NewFlow, Tuple,
};

use super::limited::half_open_to;
use super::pieces::Passed;
use super::spliced::SPLICED;
use super::verdict::{CONFIRMED, PAIRED};
use super::{Admission, Opened, SUSPENDED, Seen, Side};
use crate::flow::alg::{AlgFlow, Calls};
use crate::flow::fields::Kind;
use crate::flow::flows::{Flows, Now};
use crate::flow::tcp::Tcp;
use crate::ipfix::{EndReason, NatEvent};
use crate::nat::mappings::End;

/// The bit of the word of a mapping of flows that began outside, and the one that says that a block of ports is meant.
const INBOUND: u32 = 1 << 31;
const BLOCK: u32 = 1 << 30;
/// The bit of flows whose packets get another destination in both directions.
const BOTH: u32 = 1 << 29;

/// Whether packets of a translated flow in a direction keep their destination, by the second word of its [`Uses`].
/// Those of the direction from outside get another one.
#[inline(always)]
pub(super) const fn keeps_destination(uses: u32, direction: Direction) -> bool {
    uses & BOTH == 0 && (uses & INBOUND != 0) == matches!(direction, Direction::Reply)
}

/// What a translated flow uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uses {
    /// The number of the policy or static mapping.
    pub number: u32,
    /// The number of the dynamic mapping, if it has one.
    pub mapping: Option<u32>,
    /// The number of the block of ports or of the quota that it holds, if it has no mapping.
    pub block: Option<u32>,
    /// Whether the first packet came from outside.
    pub is_inbound: bool,
}

impl Uses {
    /// Those of a flow; 0s: it is not translated.
    pub fn of(flow: &FlowEntry<'_>) -> Self {
        Self::of_words([0, 1].map(|at| flow.spare(at).unwrap_or(0)))
    }

    /// Those of a flow with these spare words.
    pub fn of_words([number, word]: [u32; 2]) -> Self {
        let id = (word & !(INBOUND | BLOCK | BOTH)).checked_sub(1);
        let is_block = word & BLOCK != 0;
        Self {
            number,
            mapping: id.filter(|_| !is_block),
            block: id.filter(|_| is_block),
            is_inbound: word & INBOUND != 0,
        }
    }

    /// Its spare words, without what the table adds.
    pub fn words(self) -> [u32; 2] {
        let inbound = if self.is_inbound { INBOUND } else { 0 };
        let block = self.block.map(|id| (id + 1) | BLOCK);
        [self.number, self.mapping.map(|id| id + 1).or(block).unwrap_or(0) | inbound]
    }
}

/// How a flow is to be translated.
#[derive(Clone, Copy, Debug)]
pub struct Translation {
    /// The key of its replies.
    pub reply_key: FlowKey,
    /// What it uses.
    pub uses: Uses,
    /// The epoch of the rules, and whether there are any: then the flow admits nothing by itself.
    pub epoch: u16,
    /// As above.
    pub has_rules: bool,
    /// The interface that has received the first packet.
    pub received: u32,
}

/// Whether the packets of a flow in a direction have the same destination on both sides of the router.
fn destination_stays(flow: &FlowEntry<'_>, direction: Direction) -> bool {
    let keys = [flow.key(), flow.reply_key()];
    let [received, other] = if direction == Direction::Original { [0, 1] } else { [1, 0] };
    match [keys[received].tuple, keys[other].tuple] {
        [Tuple::Ip4(one), Tuple::Ip4(other)] => {
            (one.destination, one.destination_port) == (other.source, other.source_port)
        }
        _ => false,
    }
}

/// What has to be released when a flow is over.
pub(super) struct Ended {
    /// Its family and id; `None`: limits do not count it.
    of: Option<(bool, u32)>,
    /// The zone to which it is half open; 0: it is not.
    zone: u8,
    is_translated: bool,
    /// Its mapping, the external end, and the host at the other end.
    mapping: Option<(u32, End, u32)>,
    /// Its block of ports, and its protocol.
    block: Option<(u32, u8)>,
}

impl Ended {
    #[inline]
    pub(super) fn of(flow: &FlowEntry<'_>) -> Self {
        let is_translated = flow.has_second();
        let (mapping, block) =
            if is_translated { (mapping_of(flow), block_of(flow)) } else { (None, None) };
        let is_ip4 = matches!(flow.kind(), Memory::Ip4 | Memory::TranslatedIp4);
        let (of, zone) = (Some((is_ip4, flow.id())), half_open_to(flow.zone_pair()));
        Self { of, zone, is_translated, mapping, block }
    }

    #[inline]
    pub(super) fn note(&self, flows: &Flows) {
        if self.zone != 0 {
            flows.syn_cookies().closed(self.zone.into());
        }
        if let Some(of) = self.of {
            flows.limits().end(of);
        }
        if self.is_translated {
            flows.note_translated(false);
            if let Some((id, external, host)) = self.mapping {
                flows.mappings().release(id);
                flows.mappings().release_host(external, host);
            }
            if let Some((id, protocol)) = self.block {
                let now = flows.now(clock::tsc()).tick;
                flows.mappings().give_back(id, protocol, now);
            }
        }
    }
}

/// The mapping of a flow, with its external end and the other end's address.
#[cold]
fn mapping_of(flow: &FlowEntry<'_>) -> Option<(u32, End, u32)> {
    let uses = Uses::of(flow);
    let key = if uses.is_inbound { flow.key() } else { flow.reply_key() };
    let Tuple::Ip4(it) = key.tuple else { return None };
    let (address, port) = (it.destination, it.destination_port);
    let external = End { address, port, protocol: it.protocol, vrf: key.vrf };
    Some((uses.mapping?, external, it.source))
}

/// The block of ports that a flow holds, and its protocol.
#[cold]
fn block_of(flow: &FlowEntry<'_>) -> Option<(u32, u8)> {
    let Tuple::Ip4(it) = flow.key().tuple else { return None };
    Some((Uses::of(flow).block?, it.protocol))
}

impl Side {
    /// The memory of its flows.
    pub(super) fn kind(&self, is_translated: bool) -> Memory {
        match (self.is_ip4, is_translated) {
            (true, false) => Memory::Ip4,
            (true, true) => Memory::TranslatedIp4,
            (false, false) => Memory::Ip6,
            (false, true) => Memory::TranslatedIp6,
        }
    }

    #[inline]
    pub(super) fn note_ended(&self, ended: &Ended) {
        ended.note(&self.flows);
    }

    /// The tables.
    pub fn flows(&self) -> &Flows {
        &self.flows
    }

    /// Whether a flow, of whichever worker, is translated.
    #[inline(always)]
    pub fn is_translated(&self, id: u32) -> bool {
        self.reader.entry(id).has_second()
    }

    /// Rules without state have refused a packet of an own flow, behind the input. They decide about each packet, so
    /// that the flow goes on, but for one of which they have let no packet pass: nobody makes a mapping by what is
    /// refused. Input lists are asked before anything begins.
    #[cold]
    pub fn end_refused(&mut self, (id, direction): (u32, Direction), is_last: bool) {
        let flow = self.reader.entry(id);
        // Output lists are behind pairs of zones.
        let passed = if is_last { CONFIRMED } else { CONFIRMED | PAIRED };
        let has_passed = flow.flags() & passed != 0 || flow.counters(Direction::Reply).packets > 0;
        if direction == Direction::Original && !has_passed {
            self.remove(id);
        }
    }

    /// Asks for room for a translated flow.
    pub fn make_translated_room(&mut self) {
        self.make_room(self.kind(true));
    }

    /// Creates a translated flow by its first packet.
    pub fn create_translated(
        &mut self,
        key: FlowKey,
        packet: &Seen<'_>,
        it: &Translation,
        now: Now,
    ) -> Opened {
        let Translation { epoch, received, .. } = *it;
        let is_confirmed = !it.has_rules;
        let admission = Admission { epoch, rule: 0, profile: 0, is_confirmed, received };
        let new = match self.new_flow((key, Some(it.reply_key)), packet, admission) {
            Ok(new) => new,
            Err(opened) => return opened,
        };
        let new = NewFlow { flags: if it.has_rules { SUSPENDED } else { new.flags }, ..new };
        match self.insert(&new, packet, now) {
            Ok(id) => {
                self.note_uses(id, it.uses);
                self.export.began(&self.reader.entry(id));
                Opened::New
            }
            Err(opened) => opened,
        }
    }

    /// Creates a translated flow in the place of one that was [taken](Self::take), which has counted the packet.
    pub fn replace_by_translated(
        &mut self,
        former: &NewFlow,
        packet: &Seen<'_>,
        it: &Translation,
        now: Now,
    ) -> Opened {
        let new = NewFlow { reply_key: Some(it.reply_key), ..*former };
        let look = now.tick.wrapping_add(self.profiles.timeouts[usize::from(new.class)]);
        let id = match self.owner.create(&new, now.tick, look) {
            Ok(Created::New(id)) => id,
            Ok(Created::Existing(found)) => return Opened::Existing(found),
            Err(refused) => return self.refusal(refused),
        };
        self.flows.note_translated(true);
        self.note_uses(id, it.uses);
        self.export.began(&self.reader.entry(id));
        self.recount(id);
        let flow = self.owner.entry(id);
        flow.count(Direction::Original, 1, packet.place.length().into());
        self.has_created = true;
        if packet.kind.0 & Kind::FIRST != 0 {
            let passed = Passed { id, start: flow.start(), direction: Direction::Original };
            self.pieces.replace((packet, new.key.vrf), passed);
        }
        if let Some(flow) = self.carried.take() {
            self.carry_alg(id, &flow, packet, now);
        }
        Opened::New
    }

    /// Removes an own flow that another one is to replace, with what makes that one. What it counts for its zone, the
    /// other one counts. `None`: another worker holds its bucket; or it is spliced, and over.
    pub fn take(&mut self, id: u32) -> Option<NewFlow> {
        if self.is_altered(id) {
            self.end_calls(id);
        }
        let flow = self.reader.entry(id);
        self.carried = None;
        if flow.flags() & SPLICED != 0 {
            self.carried = self.alg_flow(id).map(|it| AlgFlow { calls: Calls::default(), ..it });
            if self.carried.is_none() {
                self.remove(id);
                return None;
            }
            self.forget_answer(id);
        }
        let new = NewFlow {
            epoch: flow.epoch(),
            class: flow.class(),
            flags: flow.flags() & !SPLICED,
            rule: flow.rule(),
            zone_pair: flow.zone_pair(),
            tcp: flow.tcp(),
            ..NewFlow::new(flow.key(), None)
        };
        let ended = Ended { zone: 0, ..Ended::of(&flow) };
        self.owner.remove(id).ok()?;
        self.note_ended(&ended);
        if flow.counters(Direction::Original).packets > 1 {
            // Its successor counts the packet that it is made for, and no other one.
            self.export.ended(&self.reader.entry(id), || EndReason::Forced);
        }
        Some(new)
    }

    /// A flow that was taken has no successor.
    pub fn give_up(&self, taken: &NewFlow) {
        let zone = half_open_to(taken.zone_pair);
        Ended { of: None, zone, is_translated: false, mapping: None, block: None }
            .note(&self.flows);
    }

    /// Something has happened to address translation.
    pub fn report_nat(&mut self, event: NatEvent, now: Now) {
        self.export.nat(event, now.tick);
    }

    pub(super) fn note_uses(&self, id: u32, uses: Uses) {
        let flow = self.owner.entry(id);
        let [number, word] = uses.words();
        // Without the destination that it keeps, there is none.
        let direction = if uses.is_inbound { Direction::Reply } else { Direction::Original };
        let stays = destination_stays(&flow, direction);
        flow.set_spare(1, word | if stays { 0 } else { BOTH });
        // A process that is killed before this leaves a flow of no policy.
        compiler_fence(Ordering::Release);
        flow.set_spare(0, number);
    }

    /// The flow of the first one of the packet of a later fragment, if that has passed.
    #[cold]
    pub fn flow_of_piece(&self, packet: &Seen<'_>, vrf: u16, now: Now) -> Option<Match> {
        let passed = self.pieces.known((packet, vrf), now.tick)?;
        self.entry_of(passed).map(|_| Match::of_received(passed.id, passed.direction))
    }

    /// Removes own translated flows among some ids that are to end; where it goes on, if it does.
    pub fn end_translated(
        &mut self,
        (first, most): (u32, u32),
        ends: impl Fn(Uses, &FlowEntry<'_>) -> bool,
    ) -> Option<u32> {
        let capacity = self.flows.capacity(self.is_ip4);
        let end = first.saturating_add(most).min(capacity);
        for id in first..end {
            let flow = self.reader.entry(id);
            if flow.is_live()
                && flow.has_second()
                && flow.owner() == self.owner.number()
                && ends(Uses::of(&flow), &flow)
            {
                self.remove(id);
            }
        }
        (end < capacity).then_some(end)
    }

    /// A packet of an own translated flow that rules have let pass keeps it alive, whatever admits the flow.
    #[cold]
    pub fn keep_alive(&self, id: u32, now: Now) {
        self.owner.entry(id).refresh(now.tick);
    }

    /// Whether the TCP segment that an ICMP error quotes by its sequence number may be under way in a flow, of
    /// whichever worker (RFC 5927). Others always may.
    pub fn is_under_way(&self, found: Match, sequence: Option<u32>) -> bool {
        let Some(id) = found.id() else { return false };
        let words = self.reader.entry(id).tcp();
        sequence.is_none_or(|it| Tcp::from_words(words).is_under_way(found.direction(), it))
    }

    /// A flow that nothing but translation concerns, and that no rule has judged since rules have gone: it is settled
    /// by this epoch.
    #[cold]
    pub fn settle(&mut self, id: u32, epoch: u16, now: Now) {
        let profile = crate::flow::profiles::profile_of(self.reader.entry(id).class());
        let (rule, is_confirmed, received) = (0, true, 0);
        self.judge(id, Admission { epoch, rule, profile, is_confirmed, received }, now);
    }
}
