//! A TCP server without state that gives each connection the same answer and ends it (RFC 9293): how a login page is
//! offered to whoever asks for any web page.
//!
//! ```text
//! SYN                              → SYN, ACK   with a number of the caller
//! data that acknowledges it        → the answer, FIN
//! FIN                              → ACK
//! what acknowledges another number → RST
//! ```
//!
//! The numbers of a segment say what it answers: each segment of the client gets at most one, as often as it comes. The
//! data of the client are not read.

use crate::build_error::BuildError;
use crate::checksum::Pseudo;
use crate::tcp::{self, Builder, View, flag};

/// Bytes of an answer at most: it fits into a segment of the smallest size that hosts must take (RFC 9293 section
/// 3.7.1).
pub const ANSWER_MOST: usize = 536;
/// Bytes of a segment at most, header included.
pub const LONGEST: usize = tcp::LENGTH + ANSWER_MOST;
/// How much a client may send at once.
const WINDOW: u16 = u16::MAX;

/// The server of one connection.
#[derive(Clone, Copy, Debug)]
pub struct Server<'a> {
    /// What it answers: at most [`ANSWER_MOST`] bytes, longer ones are cut.
    pub answer: &'a [u8],
    /// Initial sequence numbers that it may have chosen: the first one is for new connections.
    pub numbers: [u32; 2],
    /// The largest segment that the client may send, in bytes.
    pub segment_size: u16,
}

/// A segment of the server.
struct Reply<'a> {
    sequence: u32,
    acknowledgement: u32,
    flags: u8,
    data: &'a [u8],
    options: &'a [u8],
}

impl Server<'_> {
    /// Writes the segment that answers a segment of the client; `pseudo` has the addresses of the answer. `None`: it
    /// needs none.
    ///
    /// # Errors
    /// `out` is too short.
    pub fn reply(
        &self,
        out: &mut [u8],
        segment: &View<'_>,
        pseudo: &Pseudo,
    ) -> Option<Result<usize, BuildError>> {
        let [high, low] = self.segment_size.to_be_bytes();
        let size = [2, 4, high, low];
        let reply = self.of(segment, &size)?;
        let builder = Builder {
            source_port: segment.destination_port(),
            destination_port: segment.source_port(),
            sequence: reply.sequence,
            acknowledgement: reply.acknowledgement,
            flags: reply.flags,
            window: if reply.flags & flag::RST == 0 { WINDOW } else { 0 },
            urgent: 0,
            options: reply.options,
        };
        Some(builder.build(out, pseudo, reply.data))
    }

    fn of<'a>(&'a self, segment: &View<'_>, size: &'a [u8; 4]) -> Option<Reply<'a>> {
        const CONTROLS: u8 = flag::SYN | flag::RST | flag::ACK;
        let header = segment.header();
        let (sequence, data) = (header.sequence.get(), segment.payload().len() as u32);
        let plain = Reply { sequence: 0, acknowledgement: 0, flags: 0, data: &[], options: &[] };
        match header.flags & CONTROLS {
            flag::SYN => Some(Reply {
                sequence: self.numbers[0],
                acknowledgement: sequence.wrapping_add(1),
                flags: flag::SYN | flag::ACK,
                options: size,
                ..plain
            }),
            flag::ACK => {
                let acknowledged = header.acknowledgement.get();
                let has_end = segment.has(flag::FIN);
                let Some((number, seen)) = self.seen(acknowledged) else {
                    let flags = flag::RST;
                    return Some(Reply { sequence: acknowledged, flags, ..plain });
                };
                let received = data + u32::from(has_end);
                if received == 0 {
                    return None;
                }
                let acknowledgement = sequence.wrapping_add(received);
                let plain = Reply { acknowledgement, ..plain };
                Some(self.after(number, seen, data != 0, plain))
            }
            _ => None,
        }
    }

    /// What goes on a segment with data or FIN that acknowledges `seen` bytes behind the number; SYN and FIN of the
    /// server count one each.
    fn after<'a>(&'a self, number: u32, seen: u32, has_data: bool, plain: Reply<'a>) -> Reply<'a> {
        let (answer, length) = (self.answer(), self.answer().len() as u32);
        let first = number.wrapping_add(1);
        let end = flag::ACK | flag::FIN;
        match seen {
            1 if has_data => {
                Reply { sequence: first, flags: end | flag::PSH, data: answer, ..plain }
            }
            // The client has ended without a question.
            1 => Reply { sequence: first, flags: end, ..plain },
            seen if seen == length + 2 => {
                Reply { sequence: first.wrapping_add(length + 1), flags: flag::ACK, ..plain }
            }
            // It has the answer, or a part of it, and not the end.
            _ => Reply { sequence: first.wrapping_add(length), flags: end, ..plain },
        }
    }

    /// The number of the connection, and how far behind it an acknowledgement is.
    fn seen(&self, acknowledged: u32) -> Option<(u32, u32)> {
        let last = self.answer().len() as u32 + 2;
        let of = |number: u32| (number, acknowledged.wrapping_sub(number));
        self.numbers.into_iter().map(of).find(|(_, seen)| (1..=last).contains(seen))
    }

    fn answer(&self) -> &[u8] {
        self.answer.get(..ANSWER_MOST).unwrap_or(self.answer)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;

    const THERE: Pseudo = Pseudo::Ip4 {
        source: Ipv4Addr::new(10, 0, 0, 1),
        destination: Ipv4Addr::new(192, 0, 2, 80),
    };
    const BACK: Pseudo = Pseudo::Ip4 {
        source: Ipv4Addr::new(192, 0, 2, 80),
        destination: Ipv4Addr::new(10, 0, 0, 1),
    };
    const ANSWER: &[u8] = b"HTTP/1.1 302 Found\r\n\r\n";

    fn server() -> Server<'static> {
        Server { answer: ANSWER, numbers: [u32::MAX, 77], segment_size: 1_220 }
    }

    /// A segment of the client with these numbers; what the server answers: flags, both numbers, data.
    fn ask(
        flags: u8,
        (sequence, acknowledgement): (u32, u32),
        data: &[u8],
    ) -> Option<(u8, u32, u32, Vec<u8>)> {
        let (mut segment, mut out) = (vec![0; tcp::LENGTH + data.len()], [0; LONGEST]);
        let (source_port, destination_port) = (40_000, 80);
        let builder = Builder {
            source_port,
            destination_port,
            sequence,
            acknowledgement,
            flags,
            ..Builder::default()
        };
        builder.build(&mut segment, &THERE, data).unwrap();
        let view = tcp::check(&segment, &THERE).unwrap();
        let length = server().reply(&mut out, &view, &BACK)?.unwrap();
        let reply = tcp::check(&out[..length], &BACK).unwrap();
        assert_eq!((reply.source_port(), reply.destination_port()), (80, 40_000));
        let header = reply.header();
        let numbers = (header.sequence.get(), header.acknowledgement.get());
        Some((header.flags, numbers.0, numbers.1, reply.payload().to_vec()))
    }

    #[test]
    fn a_connection_gets_its_answer_and_ends() {
        use flag::{ACK, FIN, PSH, RST, SYN};
        let none = Vec::new;
        let end = ANSWER.len() as u32;
        assert_eq!(ask(SYN, (9, 0), &[]), Some((SYN | ACK, u32::MAX, 10, none())));
        assert_eq!(ask(ACK, (10, 0), &[]), None);
        let answer = Some((ACK | FIN | PSH, 0, 13, ANSWER.to_vec()));
        assert_eq!(ask(ACK | PSH, (10, 0), b"GET"), answer);
        // Again, as it was lost; and the rest of a question that was split.
        assert_eq!(ask(ACK | PSH, (10, 0), b"GET"), answer);
        let rest = Some((ACK | FIN | PSH, 0, 15, ANSWER.to_vec()));
        assert_eq!(ask(ACK | PSH, (13, 0), b" /"), rest);
        assert_eq!(ask(ACK, (13, end + 1), &[]), None);
        assert_eq!(ask(ACK | FIN, (13, end + 1), &[]), Some((ACK, end + 1, 14, none())));
        // It has the answer without the end.
        assert_eq!(ask(ACK | FIN, (13, end), &[]), Some((ACK | FIN, end, 14, none())));
        // It ends without a question.
        assert_eq!(ask(ACK | FIN, (10, 0), &[]), Some((ACK | FIN, 0, 11, none())));
        // The number of another time.
        let answer = Some((ACK | FIN | PSH, 78, 13, ANSWER.to_vec()));
        assert_eq!(ask(ACK | PSH, (10, 78), b"GET"), answer);
        // Of a connection to somebody else, which was there before.
        assert_eq!(ask(ACK | PSH, (10, 9_999), b"GET"), Some((RST, 9_999, 0, none())));
        assert_eq!(ask(RST, (10, 0), &[]), None);
        assert_eq!(ask(SYN | ACK, (10, 0), &[]), None);
        assert_eq!(ask(FIN, (10, 0), &[]), None);
    }

    proptest! {
        /// Whatever comes, an answer is never longer than the one answer, and a reset never answers a reset.
        #[test]
        fn any_segment_gets_one_answer_at_most(
            flags: u8, numbers in any::<(u32, u32)>(), length in 0_usize..40,
        ) {
            if let Some((reply, _, _, data)) = ask(flags, numbers, &vec![0; length]) {
                prop_assert!(flags & flag::RST == 0 && (data.is_empty() || data == ANSWER));
                prop_assert!(reply & flag::ACK != 0 || reply == flag::RST);
            }
        }
    }
}
