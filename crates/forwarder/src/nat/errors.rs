//! ICMP errors about translated packets: those that come in, and those that the router itself is about to send.

use stoa_engine::Vector;
use stoa_engine::vector::flags;

use super::lanes::{note, seen};
use super::rewrite::{Header, apply, apply_error};
use super::vrfs;
use crate::acl::flow_vrf;
use crate::flow::quoted;
use crate::flow::tracker::{Side, about};
use crate::shared::Shared;

/// What became of an ICMP message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// It is no error, or about no translated packet.
    Nothing,
    /// It is translated.
    Translated,
}

/// Translates a lane if it is an ICMP error about a translated packet. It changes no flow, so that any worker may do
/// it. `ports`: the column of this name.
#[cold]
#[inline(never)]
pub(super) fn translate_error(
    side: &Side,
    (vector, lane): (&mut Vector, usize),
    (header, ports, vrf): (&Header, u32, u16),
) -> Found {
    let about = about(&seen(vector, header, lane), ports, vrf);
    let Some((found, sequence)) = about.and_then(|it| Some((side.find_about(&it)?, it.sequence)))
    else {
        return Found::Nothing;
    };
    // What it quotes has been translated: its receiver has seen it so.
    let quoted = (!found.is_received()).then(|| side.reader().other_ends(found)).flatten();
    // And its number may be another one.
    let by = sequence.map_or(0, |it| side.shifted_by(found, it));
    let sequence = sequence.map(|it| it.wrapping_sub(by));
    let Some(quoted) = quoted.filter(|_| side.is_under_way(found, sequence)) else {
        return Found::Nothing;
    };
    if !apply_error(vector.bytes_mut(lane), header, quoted) {
        return Found::Nothing;
    }
    if by != 0 {
        quoted::unshift(vector.bytes_mut(lane), (header.kind, header.place), by);
    }
    let translated = Header::of(vector.bytes(lane));
    note(vector, lane, header, translated.ends);
    vrfs::remember(side.reader(), (vector, lane), (found, vrf));
    Found::Translated
}

/// Gives a translated lane the ends with which it was received, so that an ICMP error reaches its sender and quotes
/// what that has sent. Whether it has them: an untranslated lane does.
#[cold]
#[inline(never)]
pub fn restore(shared: &Shared, vector: &mut Vector, lane: usize) -> bool {
    if vector.flags[lane] & flags::TRANSLATED == 0 {
        return true;
    }
    let (header, reader) = (Header::of(vector.bytes(lane)), shared.flows.reader(true));
    if header.kind.malformed().is_some() {
        return false;
    }
    let vrfs = [vector.tx_if[lane], vector.rx_if[lane]].map(|it| shared.attributes.vrf_of(it));
    let ends = |header: Header| {
        vrfs.into_iter().find_map(|vrf| {
            let found = reader.find(&header.key(flow_vrf(vrf)));
            if found.is_received() { None } else { reader.other_ends(found) }
        })
    };
    let of_call = header.with_call(vector.bytes(lane));
    let Some(ends) = ends(of_call).or_else(|| ends(header)) else { return false };
    apply(vector.bytes_mut(lane), &header, ends);
    vector.flags[lane] &= !flags::TRANSLATED;
    vector.forget_flow();
    true
}
