//! PPTP's control connections, and packets of their calls: enhanced GRE.

use stoa_engine::Vector;
use stoa_tables::classifier::Fragment;
use stoa_tables::flow_table::Direction;
use stoa_wire::checksum::update16;
use stoa_wire::pptp::{self, Message, PptpError};
use stoa_wire::protocol::GRE;
use stoa_wire::tcp::flag::{FIN, RST, SYN};

use super::alg::segment_of;
use super::seen;
use crate::acl::flow_keys::flow_vrf;
use crate::acl::keys::Family;
use crate::acl::node::AclNode;
use crate::flow::alg::{AlgFlow, CALL, ExpectedKey, Passed, Stream, call_key};
use crate::flow::fields::{Kind, Place};
use crate::flow::tcp::{Phase, Tcp};
use crate::flow::tracker::{Said, Side};

/// Where the checksum of a TCP segment is.
const CHECKSUM: usize = 16;

/// Where the first message of a segment begins that is to be read, in its data.
enum First {
    At(usize),
    /// It has none, or nothing but a part of one that was passed already.
    Nothing,
    Passed(Passed),
}

/// Where messages of a segment with this number begin. Those that are repeated begin where it does.
fn first(data: &[u8], number: u32, stream: &Stream) -> First {
    let cause = match pptp::message(data) {
        _ if data.is_empty() => return First::Nothing,
        Ok(_) | Err(PptpError::Split) => return First::At(0),
        Err(PptpError::Malformed) => Passed::Malformed,
    };
    // The rest of one that was split.
    let rest = stream.line().map(|line| line.wrapping_sub(number).cast_signed());
    match rest.and_then(|rest| usize::try_from(rest).ok()) {
        Some(0) | None => First::Passed(cause),
        Some(rest) if rest < data.len() => First::At(rest),
        Some(_) => First::Nothing,
    }
}

/// What the tracker knows of an own connection.
fn connection(side: &Side, id: u32) -> Tcp {
    Tcp::from_words(side.reader().entry(id).tcp())
}

/// Whether a connection is over for both ends. A single reset or FIN that has passed may be forged: the tracker lets
/// through what only its receiver can judge.
fn is_over(side: &Side, id: u32) -> bool {
    matches!(connection(side, id).phase(), Phase::Reset | Phase::Closing | Phase::TimeWait)
}

/// Writes a call ID into a lane's segment, at a place in its data, and corrects the checksum.
fn write_id(vector: &mut Vector, lane: usize, at: usize, id: u16) {
    let Some(segment) = segment_of(vector, lane) else { return };
    let half = |segment: &[u8], at: usize| {
        segment.get(at..)?.first_chunk().copied().map(u16::from_be_bytes)
    };
    let data = segment.get(12).map_or(0, |offset| usize::from(offset >> 4) * 4);
    let at = data + at;
    let (Some(checksum), Some(old)) = (half(segment, CHECKSUM), half(segment, at)) else { return };
    for (at, new) in [(CHECKSUM, update16(checksum, old, id)), (at, id)] {
        if let Some(field) = segment.get_mut(at..at + 2) {
            field.copy_from_slice(&new.to_be_bytes());
        }
    }
}

impl<F: Family> AclNode<F> {
    /// Reads a segment of PPTP's control connection: follows the calls that it names, and gives them the IDs that the
    /// other end knows.
    pub(super) fn read_calls(
        &self,
        side: &mut Side,
        (vector, lane): (&mut Vector, usize),
        of_flow: (u32, Direction),
        gateway: &mut AlgFlow,
    ) {
        let before = *gateway;
        let Some(fields) = vector.known_fields() else { return };
        let packet = seen(vector, fields, lane);
        // What its receiver ignores changes nothing.
        let is_valid = packet
            .view()
            .is_some_and(|view| packet.pseudo().is_some_and(|pseudo| view.verify(&pseudo).is_ok()));
        let may_end = is_valid && packet.kind.tcp_flags() & (FIN | RST) != 0;
        let read = self.read_messages(side, (vector, lane), of_flow, (gateway, is_valid));
        if let Err(cause) = read {
            side.expectations().counts().note_passed(cause);
        }
        if may_end && is_over(side, of_flow.0) {
            side.end_all(of_flow.0, &mut gateway.calls);
        }
        if *gateway != before {
            side.set_alg_flow(of_flow.0, gateway);
        }
    }

    fn read_messages(
        &self,
        side: &mut Side,
        (vector, lane): (&mut Vector, usize),
        of_flow: (u32, Direction),
        (gateway, is_valid): (&mut AlgFlow, bool),
    ) -> Result<(), Passed> {
        let Some(fields) = vector.known_fields() else { return Ok(()) };
        let packet = seen(vector, fields, lane);
        let Some(view) = packet.view() else { return Ok(()) };
        let (number, flags, data) =
            (view.header().sequence.get(), view.header().flags, view.payload());
        let stream = gateway.stream_mut(of_flow.1);
        // Others in its window its receiver may ignore, or have ignored.
        let acknowledged = connection(side, of_flow.0).acknowledged(of_flow.1);
        let is_next = number == acknowledged || stream.line() == Some(number);
        if flags & SYN != 0 {
            if is_valid {
                stream.begin(number.wrapping_add(1));
            }
            return Ok(());
        }
        let mut at = match first(data, number, stream) {
            First::At(at) if is_valid => at,
            First::At(_) => return Err(Passed::Checksum),
            First::Passed(cause) => return Err(cause),
            First::Nothing => return Ok(()),
        };
        let end = data.len();
        while at < end {
            let read = self.read_message(side, (vector, lane), of_flow, (gateway, at, is_next));
            let (length, edited) = match read {
                Ok(read) => read,
                Err((length, cause)) => {
                    if let Some(length) = length.filter(|_| is_next) {
                        let next = number.wrapping_add((at + length) as u32);
                        gateway.stream_mut(of_flow.1).note_line(next);
                    }
                    return Err(cause);
                }
            };
            at += length;
            if is_next {
                gateway.stream_mut(of_flow.1).note_line(number.wrapping_add(at as u32));
            }
            if edited {
                side.expectations().counts().note_edited();
            }
        }
        Ok(())
    }

    /// Reads the message at a place in the data of a lane: its length, and whether it has other call IDs now. What
    /// passes as it is has a length, if that is known.
    fn read_message(
        &self,
        side: &mut Side,
        (vector, lane): (&mut Vector, usize),
        of_flow: (u32, Direction),
        (gateway, at, is_next): (&mut AlgFlow, usize, bool),
    ) -> Result<(usize, bool), (Option<usize>, Passed)> {
        let message: Message = {
            let fields = vector.known_fields().ok_or((None, Passed::Malformed))?;
            let packet = seen(vector, fields, lane);
            let data = packet.view().and_then(|view| view.payload().get(at..));
            let data = data.ok_or((None, Passed::Malformed))?;
            pptp::message(data).map_err(|error| match error {
                PptpError::Split => (pptp::length_of_split(data), Passed::Split),
                PptpError::Malformed => (None, Passed::Malformed),
            })?
        };
        let said = Said { of_flow, message: &message, is_next, now: self.tracking.now };
        let edits = match side.follow_call(gateway, &said) {
            Ok(edits) => edits,
            Err(cause) => {
                // The messages behind it may be read.
                side.expectations().counts().note_passed(cause);
                return Ok((message.length, false));
            }
        };
        for (place, id) in edits.into_iter().flatten() {
            write_id(vector, lane, at + place, id);
        }
        Ok((message.length, edits != [None; 2]))
    }

    /// Gives packets of enhanced GRE the ports of their calls in the columns, if they are of a call that a
    /// gateway knows. All others belong to their hosts' flow of GRE, which has no ports.
    #[inline(always)]
    pub(super) fn note_calls(&self, side: &Side, vector: &mut Vector) {
        if self.shared.flows.expectations().has_calls() {
            self.note_known_calls(side, vector);
        }
    }

    #[cold]
    #[inline(never)]
    fn note_known_calls(&self, side: &Side, vector: &mut Vector) {
        for lane in 0..vector.len() {
            let Some(fields) = vector.known_fields() else { return };
            let kind = Kind(fields.kind[lane]);
            if kind.protocol() != GRE || kind.part() == Fragment::Later {
                continue;
            }
            let place = Place(fields.place[lane]);
            let packet = usize::from(place.upper())..usize::from(place.length());
            let id = vector.bytes(lane).get(packet).and_then(pptp::call_id);
            let Some(id) = id.filter(|_| kind.malformed().is_none()) else { continue };
            let vrf = flow_vrf(self.shared.attributes.vrf_of(vector.rx_if[lane]));
            let key = call_key(&F::flow_key(fields, lane, vrf), id);
            let expected = ExpectedKey::of(&key);
            let is_known = side.find(&key).is_some()
                || side.expectations().find(&expected, self.tracking.now.tick).is_some();
            if let Some(fields) = vector.known_fields_mut().filter(|_| is_known) {
                fields.ports[lane] = u32::from(CALL) << 16 | u32::from(id);
            }
        }
    }
}
