//! Steps of scripts: packets of hosts that answer what they have received.
//!
//! A step is one of these, with packets in the words of [`super::super::packet`] behind it:
//! - `a:40000 > b:80 S 1000`: from an end to another one, see [`super::ends`]. An end `^3` is the source of what has
//!   arrived in step 3, `$3` its destination, and `!3` the end that its text announces.
//! - `re 3 SA 5000 ~`: from the host that has received it, to its source. `~` is the number that follows: that which
//!   the packet acknowledges, or the one behind it; `~9` is 9 more.
//! - `error port on 3`: an ICMP error from that host about it; `error expired on 3 by b2`: from another one.
//!
//! `3b` in place of 3 is what has arrived at host-b in this step. Further words: `mss1400`, `sack` and `ts100` are
//! options of TCP, and the text in quotes is what the packet carries: `{a,}` in it is the address of `a` with commas,
//! `{a.}` the same with dots, `/` ends a line, and `_` is a zero.

use std::net::Ipv4Addr;

use stoa_wire::tcp_options::{SYN_OPTIONS, SynOptions, Timestamps};

use super::super::packet::{Ends, Packet};
use super::ends::{End, address, station};
use super::view::{self, Arrived};

/// The script of a step, and the external address of clients, `p`.
#[derive(Clone, Copy, Debug)]
pub struct Of {
    pub script: u8,
    pub external: Option<Ipv4Addr>,
}

/// What has arrived in a step, from 0 on, and at which station, if it is not the first packet.
#[derive(Clone, Copy, Debug)]
pub struct Which {
    step: usize,
    station: Option<usize>,
}

#[derive(Clone, Debug)]
enum Point {
    Named(String, u16),
    Source(Which),
    Destination(Which),
    Announced(Which),
}

/// A packet that a host sends.
#[derive(Clone, Debug)]
pub struct Step {
    from: Point,
    to: Point,
    about: Option<Which>,
    /// The kind of an ICMP error.
    error: Option<String>,
    words: Vec<String>,
    text: Option<String>,
}

/// A packet that is sent.
pub struct Made {
    pub station: usize,
    pub packet: Packet,
    pub ends: Ends,
}

impl Which {
    fn parse(text: &str) -> Self {
        let digits = text.trim_end_matches(|it: char| it.is_ascii_alphabetic());
        let at = &text[digits.len()..];
        let number: usize = digits.parse().unwrap_or_else(|_| panic!("no step: {text}"));
        Self { step: number - 1, station: station(at) }
    }

    fn of<'a>(&self, arrived: &'a [Vec<Arrived>]) -> Option<&'a Arrived> {
        let mut all = arrived.get(self.step)?.iter();
        all.find(|it| self.station.is_none_or(|station| it.station == station))
    }
}

impl Point {
    fn parse(text: &str) -> Self {
        let rest = || Which::parse(&text[1..]);
        match text.as_bytes()[0] {
            b'^' => Self::Source(rest()),
            b'$' => Self::Destination(rest()),
            b'!' => Self::Announced(rest()),
            _ => {
                let (name, port) = text.split_once(':').unwrap_or((text, "0"));
                let port = port.parse().unwrap_or_else(|_| panic!("no port: {text}"));
                Self::Named(name.into(), port)
            }
        }
    }

    fn end(&self, of: Of, arrived: &[Vec<Arrived>]) -> Option<End> {
        match self {
            Self::Named(name, port) if name == "p" => Some((of.external?, *port)),
            Self::Named(name, port) => Some((address(name, of.script), *port)),
            Self::Source(which) => Some(which.of(arrived)?.ends()[0]),
            Self::Destination(which) => Some(which.of(arrived)?.ends()[1]),
            Self::Announced(which) => view::announced(which.of(arrived)?),
        }
    }

    fn station(&self, arrived: &[Vec<Arrived>]) -> Option<usize> {
        match self {
            Self::Named(name, _) => station(name),
            Self::Source(which) | Self::Destination(which) | Self::Announced(which) => {
                Some(which.of(arrived)?.station)
            }
        }
    }
}

impl Step {
    /// Reads a step.
    ///
    /// # Panics
    /// It is none.
    pub fn parse(line: &str) -> Self {
        let (line, text) = line.split_once('"').map_or((line, None), |(line, text)| {
            (line, Some(text.trim_end_matches('"').to_owned()))
        });
        let words: Vec<&str> = line.split_whitespace().collect();
        let owned = |words: &[&str]| words.iter().map(|it| (*it).to_owned()).collect();
        let answer = |about: Which| (Point::Destination(about), Point::Source(about));
        match words[..] {
            ["re", about, ref rest @ ..] => {
                let about = Which::parse(about);
                let (from, to) = answer(about);
                Self { from, to, about: Some(about), error: None, words: owned(rest), text }
            }
            ["error", kind, "on", about, ref rest @ ..] => {
                let about = Which::parse(about);
                let (mut from, to) = answer(about);
                let rest = match rest {
                    ["by", name, rest @ ..] => {
                        from = Point::parse(name);
                        rest
                    }
                    rest => rest,
                };
                let (about, error) = (Some(about), Some(kind.to_owned()));
                Self { from, to, about, error, words: owned(rest), text }
            }
            [from, ">", to, ref rest @ ..] => {
                let (from, to) = (Point::parse(from), Point::parse(to));
                Self { from, to, about: None, error: None, words: owned(rest), text }
            }
            _ => panic!("no step: {line}"),
        }
    }

    /// The packet; `None` if what it answers has not arrived.
    pub fn make(&self, of: Of, arrived: &[Vec<Arrived>]) -> Option<Made> {
        let about = match self.about {
            Some(which) => Some(which.of(arrived)?),
            None => None,
        };
        let (from, to) = (self.from.end(of, arrived)?, self.to.end(of, arrived)?);
        let ends = [from.0.into(), to.0.into()];
        let ends = Ends { usual: ends, other: ends };
        let packet = match (&self.error, about) {
            (Some(kind), Some(about)) => {
                let mut packet = Packet::quoting(kind, &about.packet);
                self.words.iter().for_each(|word| packet.change(word));
                packet
            }
            _ => self.packet([from, to], of.script, about),
        };
        Some(Made { station: self.from.station(arrived)?, packet, ends })
    }

    fn packet(&self, [from, to]: [End; 2], script: u8, about: Option<&Arrived>) -> Packet {
        let mut words = self.words.iter().map(String::as_str).peekable();
        let kind = words.next().expect("a kind of packet");
        let mut line = format!("> {kind}");
        let follows = about.map(Arrived::following);
        for at in [1, 0] {
            let word = words.next_if(|it| it.starts_with('~') || it.parse::<u32>().is_ok());
            let number = word.map(|word| match (word.strip_prefix('~'), follows) {
                (Some(more), Some(numbers)) => numbers[at].wrapping_add(more.parse().unwrap_or(0)),
                _ => word.parse().expect("a number"),
            });
            line.extend(number.map(|number| format!(" {number}")));
        }
        if matches!(kind, "echo" | "reply" | "stamp" | "stamped") {
            line = format!("> {kind} {}", from.1);
        }
        let mut options = SynOptions::default();
        line.push_str(&format!(" @{} :{}", from.1, to.1));
        for word in words {
            let number = |name: &str| word.strip_prefix(name).and_then(|it| it.parse().ok());
            if let Some(size) = number("mss") {
                options.segment_size = Some(size as u16);
            } else if let Some(value) = number("ts") {
                let echo = about.and_then(Arrived::clock).unwrap_or(0);
                options.timestamps = Some(Timestamps { value, echo });
            } else if word == "sack" {
                options.sack = true;
            } else {
                line.push_str(&format!(" {word}"));
            }
        }
        let mut packet = Packet::parse(&line);
        let mut bytes = [0; SYN_OPTIONS];
        let length = options.write(&mut bytes);
        packet.options = bytes[..length].to_vec();
        packet.text = self.text.as_ref().map(|text| filled(text, script));
        packet
    }
}

/// A text with addresses of a script.
fn filled(text: &str, script: u8) -> Vec<u8> {
    let mut text = text.replace('/', "\r\n");
    for name in ["a", "a2", "b", "b2", "c", "f"] {
        let address = address(name, script).to_string();
        text = text.replace(&format!("{{{name}.}}"), &address);
        text = text.replace(&format!("{{{name},}}"), &address.replace('.', ","));
    }
    // TFTP has zeros in it.
    text.into_bytes().into_iter().map(|it| if it == b'_' { 0 } else { it }).collect()
}
