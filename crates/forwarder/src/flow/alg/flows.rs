//! What a gateway keeps of a flow: where the lines of both directions begin, and by how much their sequence numbers
//! have changed since announcements got other text.

use stoa_tables::flow_table::Direction;

use super::Alg;
use super::calls::{self, Calls};
use super::ports::{self, Ports};
use super::registers::{self, Registers};
use crate::flow::flow_words::FlowWords;

/// Words of a direction, of both, and of a flow.
const STREAM: usize = 4;
const STREAMS: usize = 2 * STREAM;
const WORDS: usize = STREAMS + calls::WORDS;
const _: () = assert!(calls::WORDS == ports::WORDS);
/// Those of a direction that a flow of SIP, which has no streams, uses for registrations.
const OF_REGISTERS: usize = STREAM - 1;
const _: () = assert!(2 * OF_REGISTERS == registers::WORDS);
/// Bits of the last word of a direction, above the port.
const HAS_EDIT: u32 = 1 << 16;
const HAS_LINE: u32 = 1 << 17;
const LAST_SHIFT: u32 = 18;
const LAST_BITS: u32 = 6;
/// In the last word of the original direction, the gateway; of the other one, which calls are over.
const ALG_SHIFT: u32 = 24;
const BESIDE: u32 = 0xff << ALG_SHIFT;
/// By how much a segment may grow.
const MOST: i8 = (1 << (LAST_BITS - 1)) - 1;

/// Whether a sequence number is behind another one, modulo 2^32.
pub fn is_after(number: u32, other: u32) -> bool {
    number.wrapping_sub(other).cast_signed() > 0
}

/// What one end of a TCP connection sends. Numbers are those of the sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stream {
    /// The number of the first byte of the last segment that was read as an announcement.
    edited: Option<u32>,
    /// How many bytes more the other end has seen behind that segment, and by how many that one has grown: at most
    /// [`MOST`], as text changes by less.
    after: i32,
    last: i8,
    /// The number of the first byte of the next line, if that is known.
    line: Option<u32>,
    /// The port that the last announcement got.
    port: u16,
}

impl Stream {
    /// One whose first line begins at this number.
    pub const fn beginning(number: u32) -> Self {
        Self { edited: None, after: 0, last: 0, line: Some(number), port: 0 }
    }

    /// How many bytes more the other end has seen up to the last announcement.
    fn before(&self) -> i32 {
        self.after.wrapping_sub(self.last.into())
    }

    /// Whether numbers may change.
    pub fn is_edited(&self) -> bool {
        self.edited.is_some()
    }

    /// What is to be added to a sequence number on its way.
    pub fn sent(&self, number: u32) -> u32 {
        let is_behind = self.edited.is_some_and(|edited| is_after(number, edited));
        let by = if is_behind { self.after } else { self.before() };
        by.cast_unsigned()
    }

    /// What is to be added to an acknowledgement number of the other end.
    pub fn acknowledged(&self, number: u32) -> u32 {
        let back = |by: i32| by.wrapping_neg().cast_unsigned();
        let sent = number.wrapping_add(back(self.before()));
        let is_behind = self.edited.is_some_and(|edited| is_after(sent, edited));
        back(if is_behind { self.after } else { self.before() })
    }

    /// Whether a line begins at this number: the next one, or that of the last announcement, which is repeated.
    pub fn begins_line(&self, number: u32) -> bool {
        self.line == Some(number) || self.edited == Some(number)
    }

    /// A segment with these numbers of its first byte and of the one behind it ends with a line.
    pub fn note_line(&mut self, end: u32) {
        if self.line.is_none_or(|line| is_after(end, line)) {
            self.line = Some(end);
        }
    }

    /// The first byte of the connection has this number. Once lines are known, a SYN changes nothing: whoever knows the
    /// ends of a connection can send one (RFC 5961 section 4).
    pub fn begin(&mut self, number: u32) {
        self.line = self.line.or(Some(number));
    }

    /// The number of the first byte of the next line or message, if that is known.
    pub fn line(&self) -> Option<u32> {
        self.line
    }

    /// The port that the last announcement got; `None`: there was none.
    pub fn last_port(&self) -> Option<u16> {
        self.edited.map(|_| self.port)
    }

    /// The port that this announcement got when it was sent first; `None`: it is a new one.
    pub fn repeated(&self, number: u32) -> Option<u16> {
        self.edited.filter(|edited| *edited == number).map(|_| self.port)
    }

    /// Notes that a segment becomes longer by some bytes, and which port it announces. `false`, and nothing has
    /// changed: it is older than the last one, or was another one when it was sent before.
    pub fn edit(&mut self, number: u32, by: i8, port: u16) -> bool {
        if let Some(edited) = self.edited
            && !is_after(number, edited)
        {
            let is_same = number == edited && self.last == by;
            self.port = if is_same { port } else { self.port };
            return is_same;
        }
        if !(-MOST..=MOST).contains(&by) {
            return false;
        }
        (self.edited, self.last, self.port) = (Some(number), by, port);
        // As sequence numbers, modulo 2^32.
        self.after = self.after.wrapping_add(by.into());
        true
    }

    fn words(&self) -> [u32; STREAM] {
        let flag = |is: bool, bit: u32| if is { bit } else { 0 };
        let last = u32::from(self.last.cast_unsigned()) & ((1 << LAST_BITS) - 1);
        let flags = flag(self.edited.is_some(), HAS_EDIT) | flag(self.line.is_some(), HAS_LINE);
        [
            self.edited.unwrap_or(0),
            self.after.cast_unsigned(),
            self.line.unwrap_or(0),
            u32::from(self.port) | flags | last << LAST_SHIFT,
        ]
    }

    fn of_words([edited, after, line, last]: [u32; STREAM]) -> Self {
        // The uppermost of its bits is its sign.
        let grown = (last >> LAST_SHIFT << (u8::BITS - LAST_BITS)) as u8;
        Self {
            edited: (last & HAS_EDIT != 0).then_some(edited),
            after: after.cast_signed(),
            last: grown.cast_signed() >> (u8::BITS - LAST_BITS),
            line: (last & HAS_LINE != 0).then_some(line),
            port: last as u16,
        }
    }
}

/// A flow with a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlgFlow {
    /// The gateway; `None`: rules name none any more, but numbers still change.
    pub alg: Option<Alg>,
    /// What both ends send: in the original direction, and in the other one. Not kept of SIP.
    pub streams: [Stream; 2],
    /// The calls of PPTP.
    pub calls: Calls,
    /// The ports that SIP has given others.
    pub ports: Ports,
    /// The registrations of SIP that are not answered.
    pub registers: Registers,
}

impl AlgFlow {
    /// One whose first packet was seen. `first`: what its sender sends.
    pub fn beginning(alg: Alg, first: Stream) -> Self {
        let streams = [first, Stream::default()];
        let (calls, ports, registers) = Default::default();
        Self { alg: Some(alg), streams, calls, ports, registers }
    }

    /// What is sent in a direction.
    pub fn stream(&self, direction: Direction) -> &Stream {
        let [original, reply] = &self.streams;
        if direction == Direction::Original { original } else { reply }
    }

    /// The same, to change.
    pub fn stream_mut(&mut self, direction: Direction) -> &mut Stream {
        let [original, reply] = &mut self.streams;
        if direction == Direction::Original { original } else { reply }
    }
}

/// In place of the number of a gateway: there was one.
const GONE: u32 = 0xff;

/// The flows with gateways of a table, by id. There is no memory for them before a rule names a gateway, and then only
/// for those that have one.
#[derive(Default)]
pub struct AlgFlows(pub FlowWords<WORDS>);

impl AlgFlows {
    /// The state of a flow; `None`: it has none.
    pub fn get(&self, id: u32) -> Option<AlgFlow> {
        let [a, b, c, d, e, f, g, h, rest @ ..] = self.0.load(id)?;
        let alg = match d >> ALG_SHIFT {
            0 => return None,
            GONE => None,
            number => Some(Alg::of_number(number as u8)?),
        };
        if alg == Some(Alg::Sip) {
            let registers = Registers::of_words([a, b, c, e, f, g]);
            let ports = Ports::of_words(&rest);
            return Some(AlgFlow {
                ports,
                registers,
                ..AlgFlow::beginning(Alg::Sip, Stream::default())
            });
        }
        let streams = [[a, b, c, d & !BESIDE], [e, f, g, h & !BESIDE]].map(Stream::of_words);
        let calls = Calls::of_words(&rest, h >> ALG_SHIFT);
        let (ports, registers) = Default::default();
        Some(AlgFlow { alg, streams, calls, ports, registers })
    }

    /// Sets the state of a flow; whether there is room. Only the owner of the flow calls this.
    pub fn set(&self, id: u32, flow: Option<&AlgFlow>) -> bool {
        let mut values = [0; WORDS];
        if let Some(flow) = flow {
            let of_registers = flow.registers.words();
            let registers = of_registers.as_chunks::<OF_REGISTERS>().0;
            let streams = flow.streams.iter().zip(registers);
            for (to, (stream, registers)) in
                values.as_chunks_mut::<STREAM>().0.iter_mut().zip(streams)
            {
                match flow.alg {
                    Some(Alg::Sip) => to[..OF_REGISTERS].copy_from_slice(registers),
                    _ => *to = stream.words(),
                }
            }
            let alg = flow.alg.map_or(GONE, |alg| u32::from(alg as u8));
            values[STREAM - 1] |= alg << ALG_SHIFT;
            values[STREAMS - 1] |= flow.calls.over() << ALG_SHIFT;
            values[STREAMS..].copy_from_slice(&match flow.alg {
                Some(Alg::Sip) => flow.ports.words(),
                _ => flow.calls.words(),
            });
        }
        self.0.store(id, values)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn streams() -> impl Strategy<Value = Stream> {
        let all = (any::<(Option<u32>, i32, Option<u32>, u16)>(), -MOST..=MOST);
        all.prop_map(|((edited, after, line, port), last)| Stream {
            edited,
            after,
            last,
            line,
            port,
        })
    }

    proptest! {
        #[test]
        fn words_hold_the_state(
            streams in [streams(), streams()],
            alg in prop::option::of(prop::sample::select(Alg::ALL.to_vec())),
            (calls, over) in any::<([u32; calls::WORDS], u8)>(),
            registers in any::<[u32; registers::WORDS]>(),
        ) {
            let flow = match alg {
                Some(Alg::Sip) => AlgFlow {
                    ports: Ports::of_words(&calls),
                    registers: Registers::of_words(registers),
                    ..AlgFlow::beginning(Alg::Sip, Stream::default())
                },
                _ => AlgFlow {
                    alg,
                    streams,
                    calls: Calls::of_words(&calls, over.into()),
                    ..AlgFlow::beginning(Alg::Ftp, Stream::default())
                },
            };
            let all = AlgFlows::default();
            prop_assert!(!all.set(1, Some(&flow)) && all.0.prepare(2));
            prop_assert_eq!(all.get(1), None);
            prop_assert!(all.set(1, Some(&flow)) && !all.set(2, Some(&flow)));
            prop_assert_eq!(all.get(1), Some(flow));
            prop_assert!(all.set(1, None));
            prop_assert_eq!(all.get(1), None);
        }

        /// Segments of any lengths, of which some are edited: the numbers that the receiver sees have neither gaps nor
        /// overlaps, and what it acknowledges is what was sent.
        #[test]
        fn numbers_follow_the_text(
            first: u32,
            segments in prop::collection::vec((1_u32..600, prop::option::of(-20_i8..20)), 1..40),
        ) {
            let (mut stream, mut number) = (Stream::beginning(first), first);
            let mut seen = first;
            for (length, by) in segments {
                let by = by.filter(|by| i32::from(*by) + length.cast_signed() > 0);
                if let Some(by) = by {
                    prop_assert!(stream.edit(number, by, 1));
                    // Repeated, it is the same.
                    prop_assert!(stream.edit(number, by, 1) && !stream.edit(number, by + 1, 1));
                    prop_assert!(!stream.edit(number.wrapping_sub(1), by, 1));
                }
                prop_assert_eq!(number.wrapping_add(stream.sent(number)), seen);
                seen = seen.wrapping_add(length.wrapping_add(i32::from(by.unwrap_or(0)).cast_unsigned()));
                let end = number.wrapping_add(length);
                prop_assert_eq!(seen.wrapping_add(stream.acknowledged(seen)), end);
                number = end;
            }
        }
    }

    /// A client that downloads many files over one connection.
    #[test]
    fn numbers_change_by_as_much_as_there_is() {
        let mut stream = Stream::beginning(0);
        for at in 0..10_000 {
            assert!(stream.edit(100 * at, 12, 7), "{at}");
        }
        assert_eq!(stream.sent(2_000_000), 120_000);
        assert_eq!(stream.acknowledged(2_120_000), 120_000_u32.wrapping_neg());
        assert!(!stream.edit(2_000_000, MOST + 1, 7));
    }

    #[test]
    fn a_syn_moves_no_line_that_is_known() {
        let mut stream = Stream::default();
        stream.begin(100);
        stream.begin(1 << 30);
        assert!(stream.begins_line(100) && !stream.begins_line(1 << 30));
    }

    #[test]
    fn a_line_begins_behind_the_last_one() {
        let mut stream = Stream::beginning(100);
        assert!(stream.begins_line(100) && !stream.begins_line(101));
        stream.note_line(120);
        stream.note_line(110);
        assert!(stream.begins_line(120) && !stream.begins_line(100));
        assert!(stream.edit(120, 3, 7) && stream.repeated(120) == Some(7));
        stream.note_line(140);
        assert!(
            stream.begins_line(120) && stream.begins_line(140) && stream.repeated(140).is_none()
        );
    }
}
