//! Packets of flows with application level gateways ([`crate::flow::alg`]).
//!
//! The tracker sees numbers as the sender of a segment knows them: acknowledgements are changed before it, sequence
//! numbers and text behind it. Where rules decide, they decide before text is read and numbers change.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use stoa_engine::quiescence::Reader;
use stoa_engine::vector::{DROP, flags};
use stoa_engine::{Context, Vector};
use stoa_tables::classifier::Fragment;
use stoa_tables::flow_table::{Direction, FlowKey, Tuple};
use stoa_wire::ftp::{self, FtpError, Sender};
use stoa_wire::protocol::TCP;
use stoa_wire::tcp::flag;
use stoa_wire::tcp_options::{Shift, shift, shift_edges};

use super::edit::replace_data;
use super::{Fate, Reading, Tracking, seen, tracked, with_nat};
use crate::acl::Policy;
use crate::acl::keys::Family;
use crate::acl::node::AclNode;
use crate::flow::alg::{Alg, AlgFlow, Passed, Stream};
use crate::flow::fields::{Kind, Place};
use crate::flow::tracker::{Followed, Listener, SUSPENDED, Seen, Side};
use crate::nat::{NatWorker, Wanted, external_port};

/// Ports below this one are never opened: servers listen there, and no client of FTP or SIP announces them.
pub(super) const LOWEST_PORT: u16 = 1024;

/// The flow of a lane that a rule has begun just now, and whose first packet has to be read.
pub(super) fn note_first(lane: usize, of_flow: (u32, Direction), tracking: &mut Tracking) {
    if tracking.altered.iter().all(|it| usize::from(it.lane) != lane) {
        tracking.altered.push(Altered { lane: lane as u8, of_flow, by: 0 });
    }
}

/// A lane about which rules decide.
pub(super) struct Altered {
    lane: u8,
    /// Its flow.
    of_flow: (u32, Direction),
    /// What was added to its acknowledgement number.
    by: u32,
}

/// The segment of a lane.
pub(super) fn segment_of(vector: &mut Vector, lane: usize) -> Option<&mut [u8]> {
    let place = vector.known_fields().map(|fields| Place(fields.place[lane]))?;
    let segment = usize::from(place.upper())..usize::from(place.length());
    vector.bytes_mut(lane).get_mut(segment)
}

/// Changes what a lane acknowledges of a stream that its sender receives. Returns by how much.
fn shift_acknowledgement(vector: &mut Vector, lane: usize, stream: &Stream) -> u32 {
    let Some((_, number)) = numbers(vector, lane).filter(|_| stream.is_edited()) else { return 0 };
    let acknowledgement = stream.acknowledged(number);
    if let Some(segment) = segment_of(vector, lane) {
        let by = Shift { acknowledgement, ..Shift::default() };
        shift_edges(segment, &by, |edge| stream.acknowledged(edge));
    }
    acknowledgement
}

/// Changes the sequence number of a lane, which belongs to a stream.
fn shift_sequence(vector: &mut Vector, lane: usize, stream: &Stream) {
    let Some((number, _)) = numbers(vector, lane) else { return };
    let sequence = stream.sent(number);
    if let Some(segment) = segment_of(vector, lane).filter(|_| sequence != 0) {
        shift(segment, &Shift { sequence, ..Shift::default() });
    }
}

/// Rules do not let a lane pass: whoever answers it needs the numbers with which it was received.
#[cold]
pub(super) fn give_back(vector: &mut Vector, lane: usize, tracking: &mut Tracking) {
    let at = tracking.altered.iter().position(|it| usize::from(it.lane) == lane);
    let Some(Altered { by, .. }) = at.map(|at| tracking.altered.remove(at)) else { return };
    if let Some(segment) = segment_of(vector, lane).filter(|_| by != 0) {
        shift(segment, &Shift { acknowledgement: by.wrapping_neg(), ..Shift::default() });
    }
}

/// The address that the other end of a flow sees of the end that sends in a direction, by the keys of both; and whether
/// it is not its own.
fn seen_at([own, other]: [&FlowKey; 2]) -> (IpAddr, bool) {
    match (own.tuple, other.tuple) {
        (Tuple::Ip4(own), Tuple::Ip4(other)) => {
            let address = Ipv4Addr::from_bits(other.destination);
            (address.into(), own.source != other.destination)
        }
        (Tuple::Ip6(own), _) => (Ipv6Addr::from_bits(own.source).into(), false),
        (Tuple::Ip4(own), _) => (Ipv4Addr::from_bits(own.source).into(), false),
    }
}

/// The sequence and acknowledgement numbers of a lane.
fn numbers(vector: &Vector, lane: usize) -> Option<(u32, u32)> {
    let packet = seen(vector, vector.known_fields()?, lane);
    let view = packet.view()?;
    Some((view.header().sequence.get(), view.header().acknowledgement.get()))
}

/// What a segment says of its connection.
struct Text {
    number: u32,
    /// Why nothing is announced, or what is.
    found: Result<ftp::Announcement, Passed>,
}

/// The announcement of a segment; `None`: there is none. The lines of the flow are followed. `seen_at`: the address of
/// its sender as the other end sees it, which servers may be set up to announce.
fn read(
    packet: &Seen<'_>,
    flow: &mut AlgFlow,
    (direction, seen_at): (Direction, IpAddr),
) -> Option<Text> {
    let view = packet.view()?;
    let (number, data) = (view.header().sequence.get(), view.payload());
    let stream = flow.stream_mut(direction);
    // What its receiver ignores begins and ends no line.
    let is_valid = packet.pseudo().is_some_and(|pseudo| view.verify(&pseudo).is_ok());
    if view.header().flags & flag::SYN != 0 {
        if is_valid {
            stream.begin(number.wrapping_add(1));
        }
        return None;
    }
    let sender = if direction == Direction::Original { Sender::Client } else { Sender::Server };
    let begins_line = stream.begins_line(number);
    if is_valid && data.last() == Some(&b'\n') {
        stream.note_line(number.wrapping_add(data.len() as u32));
    }
    let cause = match ftp::announcement(data, sender) {
        Ok(None) => return None,
        Ok(Some(found)) => {
            let own = [source_of(packet), Some(seen_at)];
            let is_own = found.address.is_none_or(|it| own.contains(&Some(it)));
            if !begins_line {
                Passed::Split
            } else if !is_own || found.port < LOWEST_PORT {
                Passed::Foreign
            } else if !is_valid {
                Passed::Checksum
            } else {
                return Some(Text { number, found: Ok(found) });
            }
        }
        Err(FtpError::TooLong) => Passed::TooLong,
        Err(FtpError::Split) => Passed::Split,
        Err(FtpError::Malformed) => Passed::Malformed,
    };
    Some(Text { number, found: Err(cause) })
}

fn source_of(packet: &Seen<'_>) -> Option<IpAddr> {
    use stoa_wire::checksum::Pseudo;
    packet.pseudo().map(|pseudo| match pseudo {
        Pseudo::Ip4 { source, .. } => source.into(),
        Pseudo::Ip6 { source, .. } => source.into(),
    })
}

/// Whether numbers of a packet change: a SYN begins a connection, and has those of no other one.
fn changes_numbers(kind: Kind) -> bool {
    kind.protocol() == TCP && kind.tcp_flags() & flag::SYN == 0
}

fn shift_known(vector: &mut Vector, lane: usize, stream: &Stream) {
    let kind = vector.known_fields().map_or(Kind(0), |fields| Kind(fields.kind[lane]));
    if changes_numbers(kind) {
        shift_sequence(vector, lane, stream);
    }
}

impl<F: Family> AclNode<F> {
    /// What becomes of a lane whose flow has a gateway, or is spliced.
    #[cold]
    #[inline(never)]
    pub(super) fn fate_of_altered(
        &mut self,
        (reader, worker): (&Reader, &mut NatWorker),
        (side, is_alone): (&mut Side, bool),
        (vector, lane): (&mut Vector, usize),
        of_flow: (u32, Direction),
        policy: Policy,
    ) -> Fate {
        let (id, direction) = of_flow;
        let flow = side.reader().entry(id);
        let is_here = flow.is_live() && (is_alone || flow.owner() == side.number());
        let Some(mut gateway) = side.alg_flow(id) else {
            return self.fate_of_spliced((side, is_alone), (vector, lane), of_flow, policy);
        };
        let kind = vector.known_fields().map_or(Kind(0), |fields| Kind(fields.kind[lane]));
        if !is_here || kind.part() == Fragment::Later {
            return self.fate((side, is_alone), (vector, lane), of_flow, policy);
        }
        let is_kept = flow.rule() != 0 && policy.is_stateful && flow.flags() & SUSPENDED == 0;
        if side.is_translated(id) && !is_kept {
            // No rule keeps it: only its policy can name a gateway, and may have another one now.
            let alg = self.shared.nat.read(reader).alg_of_flow(&flow, gateway.alg);
            if gateway.alg != alg {
                gateway.alg = alg;
                side.set_alg_flow(id, &gateway);
            }
        }
        let by = if changes_numbers(kind) {
            shift_acknowledgement(vector, lane, gateway.stream(direction.reverse()))
        } else {
            0
        };
        let fate = self.fate((&mut *side, is_alone), (vector, lane), of_flow, policy);
        match fate {
            Fate::Pass(_) => self.finish(reader, (side, worker), (vector, lane), of_flow),
            Fate::Rules | Fate::Judge => {
                self.tracking.altered.push(Altered { lane: lane as u8, of_flow, by });
            }
            _ => {}
        }
        fate
    }

    /// Reads lanes that rules have let pass, and changes their numbers; whether any of them does not go on.
    #[cold]
    #[inline(never)]
    pub(super) fn finish_all(
        &mut self,
        cx: &mut Context<'_>,
        vector: &mut Vector,
        policy: Policy,
    ) -> bool {
        let (reader, mut is_any) = (cx.reader, false);
        let Some((tracker, worker)) = with_nat(cx) else { return false };
        let side = tracker.of(F::IS_IP4);
        let now = self.tracking.now;
        for at in 0..self.tracking.altered.len() {
            let Some(&Altered { lane, of_flow, .. }) = self.tracking.altered.get(at) else { break };
            let (lane, (id, _)) = (usize::from(lane), of_flow);
            // Another connection may have taken its place: it has numbers of its own.
            if vector.next[lane] & DROP != 0 || !side.reader().entry(id).is_live() {
                continue;
            }
            let is_tracked = vector.flags[lane] & flags::TRACKED != 0;
            if !is_tracked && policy.has_nat && !policy.is_stateful && side.is_translated(id) {
                // The tracker sees it here, before its numbers change.
                let Some(fields) = vector.known_fields() else { continue };
                let packet = seen(vector, fields, lane);
                match side.follow(of_flow, &packet, (now, policy.epoch)) {
                    Followed::Pass { .. } => {
                        side.keep_alive(id, now);
                        vector.flags[lane] |= tracked(false);
                    }
                    Followed::Drop(reason) => {
                        vector.next[lane] = reason.next();
                        is_any = true;
                        continue;
                    }
                    Followed::Replace => {
                        side.remove(id);
                        continue;
                    }
                }
            }
            if vector.flags[lane] & flags::TRACKED != 0 {
                self.finish(reader, (&mut *side, &mut *worker), (vector, lane), of_flow);
            } else if let Some(gateway) = side.alg_flow(id) {
                shift_known(vector, lane, gateway.stream(of_flow.1));
            }
        }
        self.tracking.altered.clear();
        is_any
    }

    /// Reads a packet that the tracker has seen, and writes what its receiver is to see.
    pub(super) fn finish(
        &self,
        reader: &Reader,
        (side, worker): (&mut Side, &mut NatWorker),
        (vector, lane): (&mut Vector, usize),
        of_flow: (u32, Direction),
    ) {
        let (id, direction) = of_flow;
        // What rules have decided may have given the flow another gateway.
        let (Some(mut gateway), Some(fields)) = (side.alg_flow(id), vector.known_fields()) else {
            return;
        };
        let kind = Kind(fields.kind[lane]);
        // A flow that no rule keeps any more opens no way for others.
        let is_suspended = side.reader().entry(id).flags() & SUSPENDED != 0;
        let is_read = side.is_translated(id) || !is_suspended;
        if kind.protocol() != TCP {
            if is_read {
                side.expect_answer(of_flow, &seen(vector, fields, lane), self.tracking.now);
                let (shared, now) = (&*self.shared, self.tracking.now);
                Reading { shared, reader, worker, now }.read(side, (vector, lane), of_flow);
            }
            return;
        }
        match gateway.alg.filter(|_| is_read && kind.part() == Fragment::No) {
            Some(Alg::Ftp) => {
                self.read_control(reader, side, (vector, lane), of_flow, &mut gateway);
            }
            Some(Alg::Pptp) => self.read_calls(side, (vector, lane), of_flow, &mut gateway),
            _ => {}
        }
        shift_known(vector, lane, gateway.stream(direction));
    }

    /// Reads a segment of FTP's control connection, expects what it announces, and writes what the other end is to see.
    fn read_control(
        &self,
        reader: &Reader,
        side: &mut Side,
        (vector, lane): (&mut Vector, usize),
        of_flow: (u32, Direction),
        gateway: &mut AlgFlow,
    ) {
        let Some(fields) = vector.known_fields() else { return };
        let before = *gateway;
        let [own, other] = side.keys(of_flow);
        let (seen_at, _) = seen_at([&own, &other]);
        let text = read(&seen(vector, fields, lane), gateway, (of_flow.1, seen_at));
        if let Some(Text { number, found }) = text {
            let done = found.and_then(|found| {
                self.announce(reader, side, (vector, lane), of_flow, (gateway, number, &found))
            });
            if let Err(cause) = done {
                side.expectations().counts().note_passed(cause);
            }
        }
        if *gateway != before {
            side.set_alg_flow(of_flow.0, gateway);
        }
    }

    fn announce(
        &self,
        reader: &Reader,
        side: &mut Side,
        (vector, lane): (&mut Vector, usize),
        of_flow: (u32, Direction),
        (gateway, number, found): (&mut AlgFlow, u32, &ftp::Announcement),
    ) -> Result<(), Passed> {
        let ([own, other], own_port) = (side.keys(of_flow), found.port);
        let (seen_at, is_translated) = seen_at([&own, &other]);
        let stream = gateway.stream_mut(of_flow.1);
        let port = match (stream.repeated(number), is_translated) {
            (_, false) => own_port,
            (Some(port), true) => port,
            (None, true) => {
                let nat = self.shared.nat.read(reader);
                let wanted = Wanted { port: own_port, count: 1 };
                external_port((nat, side), of_flow, &wanted, |_| false, self.tracking.now)
                    .ok_or(Passed::Full)?
            }
        };
        let mut bytes = [0; ftp::TEXT];
        let length = found.form.write(seen_at, port, &mut bytes).ok_or(Passed::Malformed)?;
        let text = bytes.get(..length).ok_or(Passed::NoRoom)?;
        let by = if is_translated { length as i16 - found.text.len() as i16 } else { 0 };
        let before = *stream;
        let by = i8::try_from(by).map_err(|_| Passed::Malformed)?;
        if !stream.edit(number, by, port) {
            return Err(Passed::Split);
        }
        let listener = Listener { protocol: TCP, port, own_port };
        if let Err(cause) = side.expect(of_flow, &listener, self.tracking.now) {
            *stream = before;
            return Err(cause);
        }
        if is_translated {
            if !replace_data(vector, lane, found.text.clone(), text) {
                *stream = before;
                return Err(Passed::NoRoom);
            }
            side.expectations().counts().note_edited();
        }
        Ok(())
    }
}
