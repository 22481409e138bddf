//! Connections that began with a SYN cookie: two halves, spliced. The client knows the sequence numbers of its cookie,
//! the server has chosen others, and both have clocks and window scales that the other one does not know. Each segment
//! is changed on its way. The tracker sees a connection as the server does.

use stoa_wire::tcp_options::{Shift, SynOptions, Timestamps};

use super::flow_words::FlowWords;

/// The window scale of answers with a cookie: that of the server is not known yet. It can offer windows of up to
/// 16 MiB, in steps of 256 bytes.
pub const OUR_SCALE: u8 = 8;
/// The largest window scale (RFC 7323 section 2.3).
const SCALE_MAX: u8 = 14;

/// Words of a flow.
const WORDS: usize = 4;
/// Bits of the last one: the server has not answered yet; timestamps are in use; the client has a scale; the connection
/// was counted.
const OPENING: u32 = 1 << 31;
const TIMESTAMPS: u32 = 1 << 30;
const SCALED: u32 = 1 << 29;
const COUNTED: u32 = 1 << 28;

/// What is known before the server has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The sequence number of our SYN-ACK.
    pub cookie: u32,
    /// Its timestamp; `None`: it had none.
    pub clock: Option<u32>,
    /// The sequence number of the client's SYN.
    pub number: u32,
    /// The window scale of the client.
    pub scale: Option<u8>,
    /// Whether the connection was counted as accepted.
    pub is_counted: bool,
}

/// How segments change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    /// Numbers of the client's view, less those of the server.
    pub sequence: u32,
    /// The same of timestamps.
    pub clock: u32,
    /// By how many bits windows of the client become longer, and those of the server.
    pub windows: [i8; 2],
}

/// The state of a spliced flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Splice {
    /// The server has not answered yet.
    Opening(Opening),
    /// It has.
    Open(Open),
}

impl Opening {
    /// The server has answered by a SYN-ACK with this number and options.
    pub fn answered(&self, number: u32, options: &SynOptions) -> Open {
        let clock = self.clock.zip(options.timestamps);
        let ours = OUR_SCALE.cast_signed();
        let windows = match (self.scale, options.scale) {
            (None, _) => [0, 0],
            (Some(_), Some(theirs)) => [0, theirs.min(SCALE_MAX).cast_signed() - ours],
            // The server has no scale, so that it takes windows as they are.
            (Some(scale), None) => [scale.cast_signed(), -ours],
        };
        Open {
            sequence: self.cookie.wrapping_sub(number),
            clock: clock.map_or(0, |(ours, theirs)| ours.wrapping_sub(theirs.value)),
            windows,
        }
    }
}

impl Open {
    /// How segments of the client change.
    #[inline]
    pub const fn there(&self) -> Shift {
        Shift {
            sequence: 0,
            acknowledgement: self.sequence.wrapping_neg(),
            value: 0,
            echo: self.clock.wrapping_neg(),
            window: self.windows[0],
        }
    }

    /// How segments of the server change.
    #[inline]
    pub const fn back(&self) -> Shift {
        Shift {
            sequence: self.sequence,
            acknowledgement: 0,
            value: self.clock,
            echo: 0,
            window: self.windows[1],
        }
    }

    /// The timestamps of a segment of the server, as the client sees them.
    pub fn timestamps_back(&self, theirs: Option<Timestamps>) -> Option<Timestamps> {
        theirs.map(|it| Timestamps { value: it.value.wrapping_add(self.clock), ..it })
    }
}

impl Splice {
    fn words(&self) -> [u32; WORDS] {
        let flag = |is: bool, bit: u32| if is { bit } else { 0 };
        match self {
            Self::Opening(it) => {
                let flags = flag(it.clock.is_some(), TIMESTAMPS)
                    | flag(it.scale.is_some(), SCALED)
                    | flag(it.is_counted, COUNTED);
                let last = OPENING | flags | u32::from(it.scale.unwrap_or(0).min(SCALE_MAX));
                [it.cookie, it.clock.unwrap_or(0), it.number, last]
            }
            Self::Open(it) => {
                let [there, back] = it.windows.map(|bits| u32::from(bits.cast_unsigned()));
                [it.sequence, it.clock, 0, there | back << 8]
            }
        }
    }

    fn from_words([first, clock, number, last]: [u32; WORDS]) -> Self {
        if last & OPENING == 0 {
            let windows = [last as u8, (last >> 8) as u8].map(u8::cast_signed);
            return Self::Open(Open { sequence: first, clock, windows });
        }
        Self::Opening(Opening {
            cookie: first,
            clock: (last & TIMESTAMPS != 0).then_some(clock),
            number,
            scale: (last & SCALED != 0).then_some(last as u8),
            is_counted: last & COUNTED != 0,
        })
    }
}

/// The spliced flows of a table, by id. There is no memory for them before a zone has cookies, and then only for those
/// that are spliced.
#[derive(Default)]
pub struct Splices(pub FlowWords<WORDS>);

impl Splices {
    /// The state of a spliced flow; of another one, without meaning. `None`: no flow can be spliced.
    pub fn get(&self, id: u32) -> Option<Splice> {
        self.0.load(id).map(Splice::from_words)
    }

    /// Sets the state of a flow; whether there is room. Only the owner of the flow calls this.
    pub fn set(&self, id: u32, splice: &Splice) -> bool {
        self.0.store(id, splice.words())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn words_hold_the_state(
            first: u32,
            clock: Option<u32>,
            number: u32,
            scale in prop::option::of(0..=SCALE_MAX),
            is_counted: bool,
            windows in any::<[i8; 2]>(),
        ) {
            let opening = Opening { cookie: first, clock, number, scale, is_counted };
            let open = Open { sequence: first, clock: number, windows };
            let splices = Splices::default();
            for splice in [Splice::Opening(opening), Splice::Open(open)] {
                prop_assert!(!splices.set(1, &splice) || splices.0.is_prepared());
                prop_assert!(splices.0.prepare(2));
                prop_assert!(splices.set(1, &splice) && !splices.set(2, &splice));
                prop_assert_eq!(splices.get(1), Some(splice));
            }
        }

        #[test]
        fn both_directions_are_inverse(numbers: [u32; 4], scales in any::<[Option<u8>; 2]>()) {
            let [cookie, number, ours, theirs] = numbers;
            let opening = Opening { cookie, clock: Some(ours), number: 0, scale: scales[0], is_counted: false };
            let timestamps = Some(Timestamps { value: theirs, echo: 0 });
            let options = SynOptions { timestamps, scale: scales[1], ..SynOptions::default() };
            let open = opening.answered(number, &options);
            let (there, back) = (open.there(), open.back());
            // What the server sends first, the client has seen in the cookie.
            prop_assert_eq!(number.wrapping_add(back.sequence), cookie);
            prop_assert_eq!(theirs.wrapping_add(back.value), ours);
            prop_assert_eq!(back.sequence.wrapping_add(there.acknowledgement), 0);
            prop_assert_eq!(back.value.wrapping_add(there.echo), 0);
        }
    }

    #[test]
    fn windows_mean_the_same_to_both() {
        let opening =
            |scale| Opening { cookie: 0, clock: None, number: 0, scale, is_counted: false };
        let windows = |client, server| {
            let options = SynOptions { scale: server, ..SynOptions::default() };
            opening(client).answered(0, &options).windows
        };
        assert_eq!(windows(Some(7), Some(10)), [0, 2]);
        assert_eq!(windows(Some(7), Some(0)), [0, -8]);
        assert_eq!(windows(Some(7), None), [7, -8]);
        assert_eq!(windows(None, Some(9)), [0, 0]);
        assert_eq!(windows(Some(3), Some(255)), [0, 6]);
    }
}
