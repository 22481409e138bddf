//! Packets of connections that began with a SYN cookie. Until the server has answered, what the client repeats becomes
//! a SYN for the server. The server's SYN-ACK is acknowledged by the router, and opens the window of the client. From
//! then on each segment has other numbers behind the router than before it.

use stoa_engine::Vector;
use stoa_engine::vector::flags;
use stoa_tables::flow_table::Direction;
use stoa_wire::tcp::{self, flag};
use stoa_wire::tcp_options::{
    SYN_OPTIONS, Shift, SynOptions, Timestamps, scaled, shift, write_timestamps,
};

use super::alg::segment_of;
use super::cookies::{is_acknowledgement, is_syn};
use super::segments::{Answer, Made, replace, syn};
use super::{Fate, seen};
use crate::acl::Policy;
use crate::acl::keys::Family;
use crate::acl::node::AclNode;
use crate::drops::Drop;
use crate::flow::cookie;
use crate::flow::fields::Kind;
use crate::flow::splice::{Open, Opening, Splice};
use crate::flow::tracker::{Seen, Side, fits};

/// Cannot pass now.
const WAITS: Fate = Fate::Drop(Drop::SynCookieOpening);

/// Changes the numbers of a lane.
fn shift_lane(vector: &mut Vector, lane: usize, by: &Shift) {
    if let Some(segment) = segment_of(vector, lane) {
        shift(segment, by);
    }
}

/// The acknowledgement of a SYN-ACK, by its receiver.
fn acknowledge(packet: &Seen<'_>, window: u16) -> Option<Made> {
    let view = packet.view()?;
    let header = view.header();
    let theirs = Timestamps::of(&view);
    let ours = theirs.map(|it| Timestamps { value: it.echo, echo: it.value });
    let mut options = [0; SYN_OPTIONS];
    let length = write_timestamps(ours, &mut options);
    let builder = tcp::Builder {
        source_port: view.destination_port(),
        destination_port: view.source_port(),
        sequence: header.acknowledgement.get(),
        acknowledgement: header.sequence.get().wrapping_add(1),
        flags: flag::ACK,
        window,
        urgent: 0,
        options: &options[..length],
    };
    Made::back(packet, &builder)
}

/// The reset that answers a segment with an acknowledgement.
fn reset(packet: &Seen<'_>) -> Option<Made> {
    let view = packet.view()?;
    let builder = tcp::Builder {
        source_port: view.destination_port(),
        destination_port: view.source_port(),
        sequence: view.header().acknowledgement.get(),
        flags: flag::RST,
        ..tcp::Builder::default()
    };
    Made::back(packet, &builder)
}

impl<F: Family> AclNode<F> {
    /// What becomes of a lane whose flow is spliced.
    #[cold]
    #[inline(never)]
    pub(super) fn fate_of_spliced(
        &mut self,
        (side, is_alone): (&mut Side, bool),
        (vector, lane): (&mut Vector, usize),
        (id, direction): (u32, Direction),
        policy: Policy,
    ) -> Fate {
        let flow = side.reader().entry(id);
        let is_here = flow.is_live() && (is_alone || flow.owner() == side.number());
        let kind = vector.known_fields().map(|it| (Kind(it.kind[lane]), it.ports[lane]));
        let kind = kind.filter(|(kind, ports)| fits(*kind, *ports, direction) && is_here);
        let (Some((kind, _)), Some(splice)) = (kind, side.splice(id)) else {
            return self.fate((side, is_alone), (vector, lane), (id, direction), policy);
        };
        match (splice, direction) {
            (Splice::Opening(opening), Direction::Original) => {
                if !self.repeats_syn(side, (vector, lane), (id, opening)) {
                    return if is_syn(kind) { Fate::Rules } else { WAITS };
                }
                self.fate((side, is_alone), (vector, lane), (id, direction), policy)
            }
            (Splice::Opening(opening), Direction::Reply) => {
                self.answered((side, is_alone), (vector, lane), (id, opening), policy)
            }
            (Splice::Open(open), Direction::Original) => {
                shift_lane(vector, lane, &open.there());
                self.fate((side, is_alone), (vector, lane), (id, direction), policy)
            }
            (Splice::Open(open), Direction::Reply) => {
                self.reply((side, is_alone), (vector, lane), (id, open), policy)
            }
        }
    }

    /// A packet of the client before the server has answered: its acknowledgement becomes the SYN again. Whether it may
    /// pass: a SYN of a new connection ends the flow.
    fn repeats_syn(
        &self,
        side: &mut Side,
        (vector, lane): (&mut Vector, usize),
        (id, opening): (u32, Opening),
    ) -> bool {
        let Some(fields) = vector.known_fields() else { return false };
        let packet = seen(vector, fields, lane);
        if packet.kind.tcp_flags() & flag::RST != 0 || vector.flags[lane] & flags::COOKIE != 0 {
            return true;
        }
        if is_syn(packet.kind) {
            side.remove(id);
            return false;
        }
        let Some(view) = packet.view().filter(|_| is_acknowledgement(packet.kind)) else {
            return false;
        };
        let header = view.header();
        let ahead = header.sequence.get().wrapping_sub(opening.number);
        if ahead > 1 || header.acknowledgement.get() != opening.cookie.wrapping_add(1) {
            return false;
        }
        let clock = |it: Timestamps| Timestamps { echo: opening.clock.unwrap_or(it.echo), ..it };
        let options = cookie::options(opening.cookie, Timestamps::of(&view).map(clock));
        let by = opening.scale.unwrap_or(0).cast_signed();
        let (window, mut bytes) = (scaled(header.window.get(), by), [0; SYN_OPTIONS]);
        let builder = syn(&view, (opening.number, None), &options, window, &mut bytes);
        replace(vector, lane, &builder)
    }

    /// A packet of the server before it has answered.
    fn answered(
        &mut self,
        (side, is_alone): (&mut Side, bool),
        (vector, lane): (&mut Vector, usize),
        (id, opening): (u32, Opening),
        policy: Policy,
    ) -> Fate {
        let Some(fields) = vector.known_fields() else { return WAITS };
        let packet = seen(vector, fields, lane);
        // Fragments, and segments that open or end a connection with a wrong checksum.
        let Some(segment) = packet.segment() else { return WAITS };
        let is_ours = segment.acknowledgement == opening.number.wrapping_add(1);
        let controls = segment.flags & (flag::SYN | flag::ACK | flag::RST | flag::FIN);
        let of_flow = (id, Direction::Reply);
        match controls {
            flag::ACK | FIN_ACK | SYN_ACK if controls != SYN_ACK || !is_ours => {
                // Of an older connection: the client of the SYN would end it.
                return match reset(&packet) {
                    Some(made) => self.instead(lane, made),
                    None => WAITS,
                };
            }
            RST_ACK if is_ours => {
                let number = opening.cookie.wrapping_add(1);
                let fate = self.fate((side, is_alone), (vector, lane), of_flow, policy);
                let sequence = number.wrapping_sub(segment.sequence);
                shift_lane(vector, lane, &Shift { sequence, ..Shift::default() });
                return fate;
            }
            SYN_ACK => {}
            _ => return WAITS,
        }
        let fate = self.fate((side, is_alone), (vector, lane), of_flow, policy);
        if !matches!(fate, Fate::Pass(_)) {
            return if matches!(fate, Fate::Drop(_)) { fate } else { WAITS };
        }
        let opened = self.splice(side, (vector, lane), (id, opening), policy);
        if opened.is_some() { fate } else { WAITS }
    }

    /// The server has answered: both halves know each other's numbers now. The lane opens the window of the client.
    fn splice(
        &mut self,
        side: &mut Side,
        (vector, lane): (&mut Vector, usize),
        (id, opening): (u32, Opening),
        policy: Policy,
    ) -> Option<()> {
        let packet = seen(vector, vector.known_fields()?, lane);
        let view = packet.view()?;
        let (header, options) = (view.header(), SynOptions::of(&view));
        let open = opening.answered(header.sequence.get(), &options);
        let made = acknowledge(&packet, side.offered(id))?;
        side.set_splice(id, &Splice::Open(open));
        let now = (self.tracking.now, policy.epoch);
        let ack = made.seen(flag::ACK);
        // It follows the SYN-ACK, which the tracker has just accepted.
        let _ = side.follow((id, Direction::Original), &ack, now);
        let timestamps = opening.clock.and(open.timestamps_back(options.timestamps));
        let mut bytes = [0; SYN_OPTIONS];
        let length = write_timestamps(timestamps, &mut bytes);
        // The window of a SYN-ACK has no scale; that of the client's view has ours.
        let by =
            if opening.scale.is_some() { -crate::flow::splice::OUR_SCALE.cast_signed() } else { 0 };
        let builder = tcp::Builder {
            source_port: view.source_port(),
            destination_port: view.destination_port(),
            sequence: opening.cookie.wrapping_add(1),
            acknowledgement: header.acknowledgement.get(),
            flags: flag::ACK,
            window: scaled(header.window.get(), by),
            urgent: 0,
            options: &bytes[..length],
        };
        self.tracking.answers.push(Answer { lane: lane as u8, is_instead: false, made });
        replace(vector, lane, &builder).then_some(())
    }

    /// A packet of the server, which has answered.
    fn reply(
        &mut self,
        (side, is_alone): (&mut Side, bool),
        (vector, lane): (&mut Vector, usize),
        (id, open): (u32, Open),
        policy: Policy,
    ) -> Fate {
        let of_flow = (id, Direction::Reply);
        let kind = vector.known_fields().map_or(Kind(0), |fields| Kind(fields.kind[lane]));
        let fate = self.fate((&mut *side, is_alone), (vector, lane), of_flow, policy);
        let controls = kind.tcp_flags() & (flag::SYN | flag::ACK | flag::RST);
        if controls == SYN_ACK {
            // Repeated: our acknowledgement was lost.
            let packet = vector.known_fields().map(|fields| seen(vector, fields, lane));
            let made = packet.and_then(|packet| acknowledge(&packet, side.offered(id)));
            return match (fate, made) {
                (Fate::Pass(_), Some(made)) => self.instead(lane, made),
                (fate @ Fate::Drop(_), _) => fate,
                _ => WAITS,
            };
        }
        if controls != flag::SYN {
            shift_lane(vector, lane, &open.back());
        }
        fate
    }

    fn instead(&mut self, lane: usize, made: Made) -> Fate {
        self.tracking.answers.push(Answer { lane: lane as u8, is_instead: true, made });
        Fate::Answered
    }
}

const SYN_ACK: u8 = flag::SYN | flag::ACK;
const RST_ACK: u8 = flag::RST | flag::ACK;
const FIN_ACK: u8 = flag::FIN | flag::ACK;
