//! What has arrived, in words that are the same for all routers that do the same.
//!
//! External ports have names in the order of their appearance, `X1`, `X2`, because routers choose them at random.
//! Likewise, numbers of TCP are described without what a changed text has moved them by, and of a spliced connection
//! from the cookie on.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use stoa_wire::checksum::{self, Pseudo};
use stoa_wire::tcp_options::SynOptions;
use stoa_wire::{ipv4, protocol, tcp};

use super::ends::{End, OUTSIDE, PORTS, name};

/// Bytes of the headers of ICMP, and of what the test has behind the IP header of other protocols.
const SHORT: usize = 8;

/// A packet that has arrived.
#[derive(Clone, Debug)]
pub struct Arrived {
    pub station: usize,
    pub packet: Vec<u8>,
}

/// A packet that was sent: from its IP header on, and the payload of the whole packet, whose part it may be.
#[derive(Clone, Debug)]
pub struct Sent {
    pub packet: Vec<u8>,
    pub payload: Vec<u8>,
}

/// Source, destination and protocol of the header at the beginning of these bytes, which may be cut.
fn ends_of(packet: &[u8]) -> ([End; 2], u8) {
    let at = usize::from(packet[0] & 15) * 4;
    let half =
        |at: usize| packet.get(at..at + 2).map_or(0, |it| u16::from_be_bytes([it[0], it[1]]));
    let address =
        |at: usize| Ipv4Addr::new(packet[at], packet[at + 1], packet[at + 2], packet[at + 3]);
    let ports = match (packet[9], packet.get(at)) {
        (protocol::TCP | protocol::UDP, _) => [half(at), half(at + 2)],
        (protocol::ICMP4, Some(0 | 8 | 13 | 14)) => [half(at + 4); 2],
        _ => [0; 2],
    };
    ([(address(12), ports[0]), (address(16), ports[1])], packet[9])
}

impl Arrived {
    /// The source and the destination.
    pub fn ends(&self) -> [End; 2] {
        ends_of(&self.packet).0
    }

    /// What is behind the IP header.
    pub fn upper(&self) -> &[u8] {
        &self.packet[usize::from(self.packet[0] & 15) * 4..]
    }

    fn tcp(&self) -> Option<tcp::View<'_>> {
        (self.packet[9] == protocol::TCP).then(|| tcp::parse(self.upper()).ok())?
    }

    /// Of a TCP segment: the number behind it, and the one that it acknowledges.
    pub fn following(&self) -> [u32; 2] {
        let Some(view) = self.tcp() else { return [0; 2] };
        let has = |flag| u32::from(view.has(flag));
        let length = view.payload().len() as u32 + has(tcp::flag::SYN) + has(tcp::flag::FIN);
        let header = view.header();
        [header.sequence.get().wrapping_add(length), header.acknowledgement.get()]
    }

    /// The clock of its sender.
    pub fn clock(&self) -> Option<u32> {
        Some(SynOptions::of(&self.tcp()?).timestamps?.value)
    }
}

/// What is behind the header of an upper layer.
pub fn payload(protocol: u8, upper: &[u8]) -> &[u8] {
    let header = match (protocol, upper.get(12)) {
        (protocol::TCP, Some(offset)) => usize::from(offset >> 4) * 4,
        _ => SHORT,
    };
    upper.get(header..).unwrap_or(&[])
}

/// The end that a text announces: `h1,h2,h3,h4,p1,p2`, `|1|address|port|`, or a port alone.
pub fn announced(arrived: &Arrived) -> Option<End> {
    let text = std::str::from_utf8(payload(arrived.packet[9], arrived.upper())).ok()?;
    if let Some(inner) = text.split('|').nth(3).filter(|it| !it.is_empty()) {
        let address = text.split('|').nth(2).filter(|it| !it.is_empty());
        let address = address.map_or(Some(arrived.ends()[0].0), |it| it.parse().ok());
        return Some((address?, inner.parse().ok()?));
    }
    let is_of_list = |it: char| it.is_ascii_digit() || it == ',';
    let list = text.split(|it| !is_of_list(it)).find(|it| it.split(',').count() == 6)?;
    let all: Vec<u8> = list.split(',').map_while(|it| it.parse().ok()).collect();
    let [a, b, c, d, high, low] = all[..] else { return None };
    Some((Ipv4Addr::new(a, b, c, d), u16::from_be_bytes([high, low])))
}

/// Tells what arrives in one script.
#[derive(Debug, Default)]
pub struct Describer {
    /// Whether host-a opens connections by cookies.
    has_cookies: bool,
    /// Whether external ports have limits.
    has_range: bool,
    ports: Vec<(u8, u16)>,
    /// Numbers of texts from one end to another, and by how much they have moved those behind them.
    moved: HashMap<[End; 2], Vec<(u32, u32)>>,
    /// Cookies, by the ends of their SYN-ACKs.
    cookies: HashMap<[End; 2], u32>,
    /// The external address of clients.
    external: Option<Ipv4Addr>,
}

impl Describer {
    /// Tells of connections with cookies from host-a if clients have no external address; else of that, and whether its
    /// ports are those of the range.
    pub fn new(external: Option<Ipv4Addr>, has_range: bool) -> Self {
        Self { has_cookies: external.is_none(), external, has_range, ..Self::default() }
    }

    /// A packet, which `now` has caused, the last one of those that were sent.
    pub fn describe(&mut self, arrived: &Arrived, sent: &[Option<Sent>]) -> String {
        let Ok(view) = ipv4::check(&arrived.packet) else { return "a wrong IPv4 header".into() };
        let (ends, protocol) = ends_of(&arrived.packet);
        let (upper, header) = (view.payload(), view.header());
        let sum =
            if protocol == protocol::ICMP4 { 0 } else { view.pseudo().sum(protocol, upper.len()) };
        let is_summed = matches!(protocol, protocol::TCP | protocol::UDP | protocol::ICMP4);
        let is_wrong = is_summed && !checksum::is_valid(checksum::sum(upper) + sum);
        // The identifier of a query is the port of both ends: one of them tells it.
        let is_external = |(address, _): &End| Some(*address) == self.external;
        let is_query = protocol == protocol::ICMP4 && ends.iter().any(is_external);
        let known = ends.map(|end| if is_query && !is_external(&end) { (end.0, 0) } else { end });
        let [source, destination] = known.map(|end| self.end(protocol, end));
        let is_beyond = self.has_range
            && arrived.station == OUTSIDE
            && source.starts_with("p:")
            && matches!(protocol, protocol::TCP | protocol::UDP)
            && !(PORTS[0]..=PORTS[1]).contains(&ends[0].1);
        let mut text = format!("{source} > {destination} ");
        let data = payload(protocol, upper);
        let same = sent.last().and_then(Option::as_ref).is_some_and(|it| it.payload == data);
        text += &match protocol {
            protocol::TCP => self.segment(arrived, ends),
            protocol::UDP => format!("udp{}", self.data(data, same, protocol)),
            protocol::ICMP4 => self.icmp(upper, sent, same),
            _ => format!("protocol {protocol}{}", self.data(data, same, protocol)),
        };
        if protocol == protocol::TCP {
            text += &self.data(data, same, protocol);
        }
        for (is, word) in [
            (is_wrong, " WRONG CHECKSUM".to_owned()),
            (is_beyond, " from a port beyond the range".to_owned()),
            // A router that splices connections makes some of their packets.
            (
                header.time_to_live != 63 && !self.has_cookies,
                format!(" ttl {}", header.time_to_live),
            ),
            (header.dscp_ecn >> 2 != 0, format!(" dscp {}", header.dscp_ecn >> 2)),
        ] {
            text += if is { &word } else { "" };
        }
        text
    }

    /// The name of an end.
    fn end(&mut self, protocol: u8, (address, port): End) -> String {
        let is_external = Some(address) == self.external;
        let name = if is_external { "p".to_owned() } else { name(address).0 };
        match port {
            0 => name,
            _ if is_external => format!("p:{}", self.port(protocol, port)),
            _ => format!("{name}:{port}"),
        }
    }

    fn port(&mut self, protocol: u8, port: u16) -> String {
        let known = self.ports.iter().position(|it| *it == (protocol, port));
        let at = known.unwrap_or_else(|| {
            self.ports.push((protocol, port));
            self.ports.len() - 1
        });
        format!("X{}", at + 1)
    }

    fn segment(&mut self, arrived: &Arrived, ends: [End; 2]) -> String {
        let Some(view) = arrived.tcp() else { return "a segment that is cut".into() };
        let header = view.header();
        let names = ["F", "S", "R", "P", "A", "U", "E", "C"].into_iter().enumerate();
        let flags = names.filter(|(bit, _)| header.flags >> bit & 1 == 1).map(|(_, name)| name);
        let number = header.sequence.get();
        let is_before = |(text, _): &&(u32, u32)| (number.wrapping_sub(*text) as i32) > 0;
        let moves = self.moved.get(&ends).into_iter().flatten().filter(is_before);
        let moved = moves.fold(0_u32, |all, (_, by)| all.wrapping_add(*by));
        let mut sequence = number.wrapping_sub(moved).to_string();
        let is_to_client = self.has_cookies && arrived.station == 0;
        if is_to_client && view.has(tcp::flag::SYN | tcp::flag::ACK) {
            self.cookies.insert(ends, number);
        }
        if let Some(cookie) = self.cookies.get(&ends) {
            sequence = format!("C+{}", number.wrapping_sub(*cookie));
        }
        let mut text = format!("{} {sequence}", flags.collect::<String>());
        if view.has(tcp::flag::ACK) {
            text += &format!(" {}", header.acknowledgement.get());
        }
        text += &format!(" w{}", header.window.get());
        let options = SynOptions::of(&view);
        let words = [
            options.segment_size.map(|it| format!("mss {it}")),
            options.scale.map(|it| format!("scale {it}")),
            options.sack.then(|| "sack".to_owned()),
            // The clock of the router is large.
            options.timestamps.map(|it| match (is_to_client, it.echo < 10_000) {
                (true, _) => format!("timestamps echo {}", it.echo),
                (_, true) => format!("timestamps {} echo {}", it.value, it.echo),
                _ => format!("timestamps {} echo the clock of the router", it.value),
            }),
        ];
        let words: Vec<String> = words.into_iter().flatten().collect();
        text + &if words.is_empty() { String::new() } else { format!(" [{}]", words.join(", ")) }
    }

    /// Notes that a text is longer or shorter than it was sent: what follows is moved.
    pub fn note_text(&mut self, arrived: &Arrived, sent: &Sent) {
        let Some(view) = arrived.tcp().filter(|view| !view.payload().is_empty()) else { return };
        let (ends, more) = (arrived.ends(), view.payload().len().wrapping_sub(sent.payload.len()));
        let (moves, number) = (self.moved.entry(ends).or_default(), view.header().sequence.get());
        if moves.iter().all(|(text, _)| *text != number) {
            moves.push((number, more as u32));
        }
    }

    /// Payload: nothing, or the same as was sent, or a text with names for what it announces.
    fn data(&mut self, data: &[u8], same: bool, protocol: u8) -> String {
        match std::str::from_utf8(data) {
            _ if data.is_empty() => String::new(),
            Ok(text) if text.ends_with("\r\n") => self.text(text, protocol),
            _ if same => format!(" {} bytes as sent", data.len()),
            _ => format!(" {} other bytes {data:02x?}", data.len()),
        }
    }

    fn text(&mut self, text: &str, protocol: u8) -> String {
        let mut named = text.trim_end().to_owned();
        let is_of_list = |it: char| it.is_ascii_digit() || ",.|".contains(it);
        for list in text.split(|it| !is_of_list(it)) {
            let list = list.trim_matches('.');
            let numbers: Vec<&str> = list.split(',').collect();
            let parts: Vec<&str> = list.split('|').collect();
            let (address, port) = match (&numbers[..], &parts[..]) {
                ([a, b, c, d, high, low], _) => {
                    let bytes = [high, low].map(|it| it.parse::<u8>());
                    let [Ok(high), Ok(low)] = bytes else { continue };
                    (format!("{a}.{b}.{c}.{d}"), Ok(u16::from_be_bytes([high, low])))
                }
                (_, ["", "1", address, port, ""]) => ((*address).into(), port.parse::<u16>()),
                _ => continue,
            };
            if let (Ok(address), Ok(port)) = (address.parse(), port) {
                let end = self.end(protocol, (address, port));
                named = named.replace(list, &format!("<{end}>"));
            }
        }
        format!(" \"{named}\"")
    }

    fn icmp(&mut self, upper: &[u8], sent: &[Option<Sent>], same: bool) -> String {
        let [kind, code, _, _, _, _, high, low, ref data @ ..] = *upper else {
            return "a message that is cut".into();
        };
        let name = match kind {
            0 => "reply",
            8 => "echo",
            13 => "stamp",
            14 => "stamped",
            _ => {
                let mtu = u16::from_be_bytes([high, low]);
                let mtu = if mtu == 0 { String::new() } else { format!(" mtu {mtu}") };
                return format!("error {kind}/{code}{mtu} about {}", self.quote(data, sent));
            }
        };
        format!("{name}{}", self.data(data, same, protocol::ICMP4))
    }

    /// What an error quotes: a packet as it was sent, but for the TTL and its checksum; else its ends.
    fn quote(&mut self, quote: &[u8], sent: &[Option<Sent>]) -> String {
        if quote.len() < 28 {
            return format!("{} bytes", quote.len());
        }
        let plain = |packet: &[u8]| {
            let mut plain = packet.to_vec();
            plain[8] = 0;
            plain[10..12].fill(0);
            plain
        };
        let (quoted, at) = (plain(quote), usize::from(quote[0] & 15) * 4);
        let is_sent = |it: &Option<Sent>| {
            it.as_ref().is_some_and(|it| plain(&it.packet).starts_with(&quoted))
        };
        if let Some(step) = sent.iter().rposition(is_sent) {
            let is_valid = checksum::is_valid(checksum::sum(&quote[..at]));
            let wrong = if is_valid { "" } else { " with a wrong header checksum" };
            return format!("step {}{wrong}", step + 1);
        }
        let (ends, protocol) = ends_of(quote);
        let [source, destination] = ends.map(|end| self.end(protocol, end));
        let Some(view) =
            (protocol == protocol::TCP).then(|| tcp::parse(&quote[at..]).ok()).flatten()
        else {
            return format!("another packet, {source} > {destination}: {:02x?}", &quote[at..]);
        };
        let pseudo = Pseudo::Ip4 { source: ends[0].0, destination: ends[1].0 };
        let sum = if view.verify(&pseudo).is_ok() { "right" } else { "wrong" };
        // Numbers that routers choose are left out.
        let number = view.header().sequence.get();
        let is_sent = |it: &Option<Sent>| {
            it.as_ref().is_some_and(|it| it.packet.get(24..28) == Some(&number.to_be_bytes()))
        };
        let whose = if sent.iter().any(is_sent) { "its number" } else { "another number" };
        format!("{source} > {destination} with {whose}, another text and a {sum} checksum")
    }
}
