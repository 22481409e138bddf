//! Tests of the tracker: clause by clause of the RFCs, against a model of two hosts and a network, and with segments of
//! any content.

mod attacks;
mod clauses;
mod endings;
mod host;
mod model;
mod random;

use proptest::prelude::ProptestConfig;

use super::*;

/// `usual` cases, or in proportion more where PROPTEST_CASES asks for more than the default of 256.
fn cases(usual: u32) -> ProptestConfig {
    let given = ProptestConfig::default().cases;
    ProptestConfig::with_cases((usual.saturating_mul(given) / 256).max(usual))
}

/// A connection that the tests lead by hand, with the tracker's last step.
pub(super) struct Flow {
    pub(super) tcp: Tcp,
    pub(super) events: Events,
    pub(super) now: u32,
    pub(super) options: Options,
}

/// Sequence numbers of the opener's and the other side's SYN in tests by hand: the first one wraps soon.
pub(super) const ISS: [u32; 2] = [0xffff_ff00, 5_000];

/// A segment of one side by numbers relative to the SYNs, with a window of 1,007 bytes,
/// which the tracker stores without rounding.
pub(super) fn segment(from: Direction, flags: u8, sequence: u32, ack: u32) -> Segment {
    Segment {
        flags,
        sequence: ISS[from as usize].wrapping_add(sequence),
        acknowledgement: ISS[from.reverse() as usize].wrapping_add(ack),
        window: 1007,
        ..Segment::default()
    }
}

impl Flow {
    /// After the SYN of the opener.
    pub(super) fn begun() -> Self {
        let syn = segment(Direction::Original, SYN, 0, 0);
        let tcp = Tcp::open(&syn, Options::default()).expect("a SYN opens");
        Self { tcp, events: Events::default(), now: 0, options: Options::default() }
    }

    /// After the three segments of an opening.
    pub(super) fn open() -> Self {
        let mut flow = Self::begun();
        flow.accepts(Direction::Reply, SYN_ACK, 0, 1);
        flow.accepts(Direction::Original, ACK, 1, 1);
        assert!(flow.events.has(Events::ESTABLISHED));
        flow
    }

    pub(super) fn pass(&mut self, from: Direction, segment: &Segment) -> Verdict {
        let step = self.tcp.step(from, segment, self.options, self.now);
        (self.tcp, self.events) = (step.state, step.events);
        step.verdict
    }

    /// The verdict about a segment without data.
    pub(super) fn verdict(
        &mut self,
        from: Direction,
        flags: u8,
        sequence: u32,
        ack: u32,
    ) -> Verdict {
        self.pass(from, &segment(from, flags, sequence, ack))
    }

    #[track_caller]
    pub(super) fn accepts(&mut self, from: Direction, flags: u8, sequence: u32, ack: u32) {
        assert_eq!(self.verdict(from, flags, sequence, ack), Verdict::Accept);
    }

    /// A segment with data.
    pub(super) fn data(
        &mut self,
        from: Direction,
        sequence: u32,
        ack: u32,
        payload: u32,
    ) -> Verdict {
        self.pass(from, &Segment { payload, ..segment(from, ACK, sequence, ack) })
    }

    /// A verdict that leaves the state as it was, but for what waits for an answer.
    #[track_caller]
    pub(super) fn unmoved(&mut self, from: Direction, segment: &Segment, verdict: Verdict) {
        let before = self.tcp;
        assert_eq!(self.pass(from, segment), verdict);
        assert_eq!((self.tcp.sides, self.tcp.phase), (before.sides, before.phase));
        assert_eq!(self.events, Events::default());
    }
}
