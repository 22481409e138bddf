//! Packets of flows with application level gateways ([`crate::flow::alg`]), and first packets of the connections that
//! these announce.
//!
//! The tracker sees numbers as the sender of a segment knows them: acknowledgements are changed before it, sequence
//! numbers and text behind it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use stoa_engine::Vector;
use stoa_engine::quiescence::Reader;
use stoa_tables::classifier::Fragment;
use stoa_tables::flow_table::{Direction, Tuple};
use stoa_wire::ftp::{self, FtpError, Sender};
use stoa_wire::protocol::{TCP, UDP};
use stoa_wire::tcp::flag;
use stoa_wire::tcp_options::{Shift, shift};

use super::edit::replace_data;
use super::{Fate, seen, tracked};
use crate::acl::Policy;
use crate::acl::flow_keys::flow_vrf;
use crate::acl::keys::Family;
use crate::acl::node::AclNode;
use crate::flow::alg::{Alg, AlgFlow, ExpectedKey, Passed};
use crate::flow::fields::{Kind, Place};
use crate::flow::tracker::{Followed, Listener, Opened, Seen, Side};
use crate::nat::external_port;

/// Ports below this one are never opened: servers listen there, and no client or server of FTP announces them.
const LOWEST_PORT: u16 = 1024;

/// Changes numbers of a lane.
fn shift_lane(vector: &mut Vector, lane: usize, by: &Shift) {
    if *by == Shift::default() {
        return;
    }
    let Some(place) = vector.known_fields().map(|fields| Place(fields.place[lane])) else { return };
    let segment = usize::from(place.upper())..usize::from(place.length());
    if let Some(segment) = vector.bytes_mut(lane).get_mut(segment) {
        shift(segment, by);
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

/// The announcement of a segment, whose sender has this address; `None`: there is none. The lines of the flow are
/// followed.
fn read(packet: &Seen<'_>, flow: &mut AlgFlow, direction: Direction) -> Option<Text> {
    let view = packet.view()?;
    let (number, data) = (view.header().sequence.get(), view.payload());
    let stream = flow.stream_mut(direction);
    if view.header().flags & flag::SYN != 0 {
        stream.begin(number.wrapping_add(1));
        return None;
    }
    let sender = if direction == Direction::Original { Sender::Client } else { Sender::Server };
    let begins_line = stream.begins_line(number);
    // What its receiver ignores begins and ends no line.
    let is_valid = packet.pseudo().is_some_and(|pseudo| view.verify(&pseudo).is_ok());
    if is_valid && data.last() == Some(&b'\n') {
        stream.note_line(number.wrapping_add(data.len() as u32));
    }
    let cause = match ftp::announcement(data, sender) {
        Ok(None) => return None,
        Ok(Some(found)) => {
            let is_own = found.address.is_none_or(|it| Some(it) == source_of(packet));
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

impl<F: Family> AclNode<F> {
    /// What becomes of a lane whose flow has a gateway, or is spliced.
    #[cold]
    #[inline(never)]
    pub(super) fn fate_of_altered(
        &mut self,
        reader: &Reader,
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
        let is_tcp = kind.protocol() == TCP;
        if let Some((_, acknowledgement)) = numbers(vector, lane).filter(|_| is_tcp) {
            let acknowledgement = gateway.stream(direction.reverse()).acknowledged(acknowledgement);
            shift_lane(vector, lane, &Shift { acknowledgement, ..Shift::default() });
        }
        let fate = self.fate((&mut *side, is_alone), (vector, lane), of_flow, policy);
        let fate = match fate {
            Fate::Rules if policy.has_nat && !policy.is_stateful && side.is_translated(id) => {
                self.follow_translated(side, (vector, lane), of_flow, policy)
            }
            fate => fate,
        };
        let is_followed = match fate {
            Fate::Pass(_) => true,
            Fate::Rules => vector.flags[lane] & tracked(false) != 0,
            Fate::Judge => false,
            _ => return fate,
        };
        if !is_tcp {
            if let Some(fields) = vector.known_fields().filter(|_| is_followed) {
                side.expect_answer(of_flow, &seen(vector, fields, lane), self.tracking.now);
            }
            return fate;
        }
        let is_read = is_followed && gateway.alg == Some(Alg::Ftp) && kind.part() == Fragment::No;
        if is_read {
            self.read_control(reader, side, (vector, lane), of_flow, &mut gateway);
        }
        if let Some((sequence, _)) = numbers(vector, lane) {
            let sequence = gateway.stream(direction).sent(sequence);
            shift_lane(vector, lane, &Shift { sequence, ..Shift::default() });
        }
        fate
    }

    /// A packet of a translated flow about which rules decide: the tracker sees it here, before its numbers change.
    fn follow_translated(
        &self,
        side: &mut Side,
        (vector, lane): (&mut Vector, usize),
        (id, direction): (u32, Direction),
        policy: Policy,
    ) -> Fate {
        let Some(fields) = vector.known_fields() else { return Fate::Rules };
        let (packet, now) = (seen(vector, fields, lane), self.tracking.now);
        match side.follow((id, direction), &packet, (now, policy.epoch)) {
            Followed::Pass { .. } => {
                side.keep_alive(id, now);
                vector.flags[lane] |= tracked(false);
                Fate::Rules
            }
            Followed::Drop(reason) => Fate::Drop(reason),
            Followed::Replace => {
                side.remove(id);
                Fate::Rules
            }
        }
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
        let text = read(&seen(vector, fields, lane), gateway, of_flow.1);
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
        let seen_at: IpAddr = match (own.tuple, other.tuple) {
            (Tuple::Ip4(own), Tuple::Ip4(other)) if own.source != other.destination => {
                Ipv4Addr::from_bits(other.destination).into()
            }
            (Tuple::Ip6(own), _) => Ipv6Addr::from_bits(own.source).into(),
            (Tuple::Ip4(own), _) => Ipv4Addr::from_bits(own.source).into(),
        };
        let is_translated = matches!((own.tuple, other.tuple),
            (Tuple::Ip4(own), Tuple::Ip4(other)) if own.source != other.destination);
        let stream = gateway.stream_mut(of_flow.1);
        let port = match (stream.repeated(number), is_translated) {
            (Some(port), _) => port,
            (None, false) => own_port,
            (None, true) => {
                let nat = self.shared.nat.read(reader);
                external_port((nat, side), of_flow, own_port, self.tracking.now)
                    .ok_or(Passed::Full)?
            }
        };
        let mut bytes = [0; ftp::TEXT];
        let length = found.form.write(seen_at, port, &mut bytes).ok_or(Passed::Malformed)?;
        let text = bytes.get(..length).ok_or(Passed::NoRoom)?;
        let by = if is_translated { length as i16 - found.text.len() as i16 } else { 0 };
        let before = *stream;
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

    /// Whether a lane without a flow has begun one, as it was announced, or was dropped then. `is_any` is set if it
    /// does not go on along the arc.
    #[cold]
    #[inline(never)]
    pub(super) fn begins_expected(
        &mut self,
        side: &mut Side,
        (vector, lane): (&mut Vector, usize),
        policy: Policy,
        is_any: &mut bool,
    ) -> bool {
        match self.fate_of_expected(side, (vector, lane), policy) {
            Some(Fate::Pass(flags)) => vector.flags[lane] |= flags,
            Some(Fate::Drop(reason)) => {
                vector.next[lane] = reason.next();
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
            _ => false,
        };
        if !begins || kind.part() != Fragment::No || kind.malformed().is_some() {
            return None;
        }
        let vrf = flow_vrf(self.shared.attributes.vrf_of(vector.rx_if[lane]));
        let key = F::flow_key(fields, lane, vrf);
        let it = side.expectations().take(&ExpectedKey::of(&key), now.tick)?;
        match side.create_expected(key, &packet, (&it, policy.epoch), now) {
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
