//! Traces and captures on the control thread: arms the workers and reads their records.

mod capture;
mod names;
mod packets;
mod timestamps;
mod trace;

pub use capture::Reader;

use std::sync::Arc;

use stoa_api::v1;
use stoa_engine::trace_capture::filter::{Filter, Instruction};
use stoa_engine::trace_capture::{CAPTURES, Selection};
use tonic::Status;

use super::capability::{Capability, Start, Verbs};
use super::forwarder_state::ForwarderState;
use super::limit_listing::limit;

/// The name of all interfaces.
const ANY: &str = "any";
/// Names in the error for an interface that does not exist.
const NEAR_NAMES: usize = 6;
/// Characters of the unknown name in this error.
const LONGEST_NAME: usize = 64;

/// Sends captured frames to a client until it goes away, which ends the capture.
pub(super) fn forward_capture(
    mut reader: Reader,
    sender: &tokio::sync::mpsc::Sender<Result<v1::CaptureReply, Status>>,
) {
    let mut missed = 0;
    reader.run(|reply| {
        let is_empty = reply.frames.is_empty() && reply.interfaces.is_empty();
        if is_empty && reply.missed == missed {
            return !sender.is_closed();
        }
        missed = reply.missed;
        sender.blocking_send(Ok(reply)).is_ok()
    });
}

/// The running trace and captures.
#[derive(Default)]
pub(super) struct TraceCaptureState {
    trace: Option<trace::Trace>,
    captures: [Option<capture::Capture>; CAPTURES],
    /// Captures refused, and frames lost by captures that have ended.
    refused: u64,
    missed: u64,
}

impl Capability for TraceCaptureState {
    const VERBS: Verbs = Verbs {
        apply: |state, _| {
            state.rebind_trace_capture();
            Ok(())
        },
        tick: ForwarderState::tick_trace_capture,
        limits: |state, rows| rows.extend(state.trace_capture_limits()),
        ..Verbs::NONE
    };

    fn start(_: &Start<'_>) -> Self {
        Self::default()
    }
}

/// The filter of a request; `None` accepts everything.
fn filter(program: &[v1::FilterInstruction]) -> Result<Option<Filter>, Status> {
    if program.is_empty() {
        return Ok(None);
    }
    let narrow = |one: &v1::FilterInstruction| {
        Some(Instruction {
            code: u16::try_from(one.code).ok()?,
            jump_true: u8::try_from(one.jump_true).ok()?,
            jump_false: u8::try_from(one.jump_false).ok()?,
            k: one.k,
        })
    };
    let program: Option<Vec<Instruction>> = program.iter().map(narrow).collect();
    let program =
        program.ok_or_else(|| Status::invalid_argument("the filter is not a BPF program"))?;
    let checked = Filter::check(program);
    checked
        .map(Some)
        .map_err(|bad| Status::invalid_argument(format!("the filter is invalid: {bad}")))
}

impl ForwarderState {
    /// The interfaces and the filter of a request.
    fn selection(
        &self,
        interface: &str,
        program: &[v1::FilterInstruction],
    ) -> Result<Arc<Selection>, Status> {
        let selection = Selection::new(filter(program)?);
        if !self.bind(interface, &selection) {
            return Err(Status::not_found(self.unknown_interface(interface)));
        }
        Ok(Arc::new(selection))
    }

    /// The error for an interface that does not exist: of many names only the nearest ones.
    fn unknown_interface(&self, name: &str) -> String {
        let near = self.index.names_near(name, NEAR_NAMES);
        let fix = if near.len() == self.index.len() {
            format!("use one of {}", near.join(", "))
        } else {
            let near = near.join(", ");
            format!("similar are {near}; use one that `stoa show interfaces` lists")
        };
        let name: String = name.chars().take(LONGEST_NAME).collect();
        format!("interface {name:?} does not exist; {fix}, or \"{ANY}\"")
    }

    /// Points a selection at the interface of that name; `false` when it does not exist.
    fn bind(&self, name: &str, selection: &Selection) -> bool {
        if name == ANY {
            selection.select_all();
            return true;
        }
        let index = self.index_of(name);
        let Some((index, state)) = index.and_then(|at| Some((at, self.interface(at)?))) else {
            selection.select(&[]);
            return false;
        };
        if state.base == index {
            // All frames of the port, with any tags.
            selection.select(&self.index.of_port(index));
        } else {
            let (mask, mark) = tag_mask(&state.desired.tags);
            selection.select_marked(index, state.base, mask, mark);
        }
        true
    }

    /// Looks up the interfaces again after a configuration change.
    fn rebind_trace_capture(&mut self) {
        let traces = self.capabilities.trace_capture.trace.iter().map(trace::Trace::bound);
        let captures =
            self.capabilities.trace_capture.captures.iter().flatten().map(capture::Capture::bound);
        for (name, selection) in traces.chain(captures) {
            self.bind(name, selection);
        }
    }

    /// Gathers the workers' records; called about ten times a second.
    fn tick_trace_capture(&mut self) {
        self.end_unread_captures();
        let Some(trace) = &mut self.capabilities.trace_capture.trace else { return };
        trace.gather();
        if trace.is_done() {
            self.disarm_trace();
        }
    }

    /// Captures and traces.
    fn trace_capture_limits(&self) -> [v1::LimitState; 4] {
        let captures = self.capture_statistics();
        let trace = self.trace_statistics();
        [
            limit(
                "captures",
                Some(captures.running as u64),
                CAPTURES as u64,
                captures.refused,
                "Stop one of them.",
            ),
            limit(
                "capture-bytes",
                None,
                captures.capacity,
                captures.missed,
                "Captures miss frames beyond this limit: use a filter, --snap-length, or another interface.",
            ),
            limit(
                "traced-packets",
                // A trace that has all its packets is complete, not full.
                (trace.traced < trace.requested).then_some(trace.traced),
                trace.requested,
                0,
                "Start another trace: `stoa trace add --count` follows up to 1,000 packets.",
            ),
            limit(
                "traced-steps",
                Some(trace.steps),
                trace.capacity,
                trace.lost,
                "Trace fewer packets.",
            ),
        ]
    }

    /// The name of an interface, or the location of a host interface; "" when there is none.
    fn name_of(&self, index: u32) -> String {
        let name = self.interface(index).map(|state| state.name.clone());
        name.or_else(|| self.host_interface_at(index)).unwrap_or_default()
    }
}

/// The mask and value of the eight bytes behind the MAC addresses of frames with these tags: TPIDs and VLAN
/// IDs, without priorities.
fn tag_mask(tags: &[(u16, u16)]) -> (u64, u64) {
    let shift = |at: usize, word: u32| u64::from(word) << (32 - 32 * at);
    let each = tags.iter().take(2).enumerate();
    each.fold((0, 0), |(mask, mark), (at, (tpid, vid))| {
        let word = u32::from(*tpid) << 16 | u32::from(*vid);
        (mask | shift(at, 0xffff_0fff), mark | shift(at, word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_become_masks() {
        assert_eq!(tag_mask(&[]), (0, 0));
        assert_eq!(tag_mask(&[(0x8100, 100)]), (0xffff_0fff_0000_0000, 0x8100_0064_0000_0000));
        let double = (0xffff_0fff_ffff_0fff, 0x88a8_0007_8100_0008);
        assert_eq!(tag_mask(&[(0x88a8, 7), (0x8100, 8)]), double);
    }

    #[test]
    fn invalid_filters_are_refused() {
        let one = |code, k| v1::FilterInstruction { code, k, ..Default::default() };
        assert!(filter(&[]).unwrap().is_none());
        assert!(filter(&[one(6, 1)]).unwrap().is_some());
        for bad in [one(0x1_0006, 1), one(0x20, 0), one(0xffff, 0)] {
            assert!(filter(&[bad]).is_err(), "{bad:?}");
        }
    }
}
