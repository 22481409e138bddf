//! TCP segments of flows: how they open a flow, and move it on.

use stoa_tables::flow_table::{FlowEntry, OwnedFlow};
use stoa_wire::tcp::flag::{FIN, RST, SYN};

use super::{Followed, Seen};
use crate::drops::Drop;
use crate::flow::fields::Kind;
use crate::flow::flows::Now;
use crate::flow::tcp::{Direction, Options, Tcp, Verdict};
use crate::flow::timeouts::Class;

/// What becomes of a flow: its class if that may have changed, and whether the segment keeps it alive.
type Stepped = Result<(Option<Class>, bool), Followed>;

/// The state that the first segment of a flow begins; `None`: a segment with a wrong checksum says nothing.
///
/// # Errors
/// The segment begins no connection.
pub(super) fn open(packet: &Seen<'_>, options: Options) -> Result<Option<Tcp>, Drop> {
    if packet.kind.0 & Kind::FIRST == 0 {
        let Some(segment) = packet.segment() else { return Ok(None) };
        return Tcp::open(&segment, options).map(Some).map_err(Drop::from);
    }
    // Nobody fragments a SYN. Its checksum could not be verified.
    let segment = packet.first_part().filter(|segment| segment.flags & (SYN | FIN | RST) == 0);
    let mut state = Tcp::open(&segment.ok_or(Drop::TcpNoConnection)?, options)?;
    state.note_unseen(Direction::Original);
    Ok(Some(state))
}

/// Whether a further segment can belong to a flow.
///
/// # Errors
/// It cannot, or it begins another connection.
pub(super) fn check(
    flow: &FlowEntry<'_>,
    direction: Direction,
    packet: &Seen<'_>,
    (options, now): (Options, Now),
) -> Result<(), Followed> {
    let Some(segment) = packet.segment().or_else(|| packet.first_part()) else { return Ok(()) };
    let step = Tcp::from_words(flow.tcp()).step(direction, &segment, options, now.ms);
    verdict(step.verdict)
}

fn verdict(verdict: Verdict) -> Result<(), Followed> {
    match verdict {
        Verdict::Drop(refusal) => Err(Followed::Drop(refusal.into())),
        Verdict::Replace => Err(Followed::Replace),
        Verdict::Accept | Verdict::Challenge => Ok(()),
    }
}

/// A further segment of a flow.
#[inline]
pub(super) fn follow(
    flow: &OwnedFlow<'_>,
    direction: Direction,
    packet: &Seen<'_>,
    (options, now): (Options, Now),
) -> Stepped {
    let Some(segment) = packet.segment() else {
        return follow_part(flow, direction, packet, (options, now));
    };
    let words = flow.tcp();
    let step = Tcp::from_words(words).step(direction, &segment, options, now.ms);
    verdict(step.verdict)?;
    let next = step.state.words();
    if next != words {
        flow.set_tcp(next);
    }
    Ok((Some(step.state.class()), step.verdict == Verdict::Accept))
}

/// The same for the first fragment of a segment, and for one with a wrong checksum, which its receiver ignores.
///
/// What the other fragments carry is not seen, so the receiver may acknowledge more. A part that opens or ends a
/// connection must be plausible, too, but changes nothing: the receiver's answer does.
#[cold]
#[inline(never)]
fn follow_part(
    flow: &OwnedFlow<'_>,
    direction: Direction,
    packet: &Seen<'_>,
    (options, now): (Options, Now),
) -> Stepped {
    let Some(segment) = packet.first_part() else { return Ok((None, false)) };
    let before = Tcp::from_words(flow.tcp());
    let step = before.step(direction, &segment, options, now.ms);
    // A SYN in fragments replaces nothing.
    verdict(step.verdict).map_err(|refused| match refused {
        Followed::Replace => Followed::Drop(Drop::TcpNoConnection),
        refused => refused,
    })?;
    let is_control = segment.flags & (SYN | FIN | RST) != 0;
    let mut state = if is_control { before } else { step.state };
    state.note_unseen(direction);
    flow.set_tcp(state.words());
    Ok((Some(state.class()), step.verdict == Verdict::Accept))
}
