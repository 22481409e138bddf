//! Checks one stream of a run file and builds the headers of its packets.

use std::net::{Ipv4Addr, Ipv6Addr};

use stoa_engine::pool::JUMBO_FRAME_MAX;
use stoa_wire::vlan::{Stack, Tag};

use super::check::Faults;
use super::field::{FieldText, Kind};
use super::file::StreamText;
use super::quantity::{Rate, Size};
use super::{Link, PortPlan, StreamPlan};
use crate::forward::mix::{SIZES_CAMPUS, SIZES4, SIZES6};
use crate::generate::Shape;
use crate::generate::template::{FCS, Field, Headers, Network, Transport};
use crate::generate::values::{Order, Values, Walk};
use crate::neighbor::{FOUR, SIX, first_of_family};
use crate::random::Random;

/// Default rate in packets per second.
const RATE: f64 = 1000.0;
/// The longest burst in packets.
const BURST_MAX: u32 = 1 << 20;
/// The first dynamic port (RFC 6335, section 6).
const SOURCE_PORT: u16 = 49_152;
/// Discard (RFC 863).
const DESTINATION_PORT: u16 = 9;
/// Flows per source address: the number of dynamic ports.
const PORTS: u64 = 1 << 14;
/// The longest list of sizes: their indexes are bytes, for two families.
const SIZES_MAX: usize = 100;

/// One stream; `None` when it has errors, which were added.
pub(super) fn stream(
    place: &str,
    text: &StreamText,
    (names, ports): (&[&str], &[Option<PortPlan>]),
    faults: &mut Faults,
) -> Option<StreamPlan> {
    let mut find = |key: &str, name: &str| {
        let at = names.iter().position(|one| *one == name);
        let reason = || format!("there is no port {name:?}: give one of {}", names.join(", "));
        faults.take(&format!("{place}.{key}"), at.ok_or_else(reason))
    };
    let (from, to) = (find("from", &text.from), find("to", &text.to));
    let (from, to) = (from?, to?);
    let (one, other) = (ports[from].as_ref()?, ports[to].as_ref()?);
    let burst = text.burst.unwrap_or(1);
    if !(1..=BURST_MAX).contains(&burst) {
        let reason = format!("{burst} packets: give 1 to {BURST_MAX}");
        return faults.add(&format!("{place}.burst"), reason);
    }
    if text.count == Some(0) {
        return faults.add(&format!("{place}.count"), "give at least one packet, or none at all");
    }
    if let Some(path) = &text.replay {
        return super::replay::stream(place, text, (from, to), path, faults);
    }
    let mut builder =
        Builder { place, text, faults, fields: [Vec::new(), Vec::new()], link: Link::default() };
    let headers = builder.headers(one, other)?;
    let (shapes, order) = builder.shapes(&headers)?;
    let Builder { fields, link, .. } = builder;
    Some(StreamPlan {
        name: text.name.clone(),
        from,
        to,
        rate: text.rate.unwrap_or(Rate::Packets(RATE)),
        burst,
        count: text.count,
        shapes,
        order,
        fields: fields.into(),
        link,
        replay: None,
    })
}

/// Groups of fields: 0 for IPv4 or no IP, 1 for IPv6.
struct Builder<'a> {
    place: &'a str,
    text: &'a StreamText,
    faults: &'a mut Faults,
    fields: [Vec<(Field, Walk)>; 2],
    link: Link,
}

impl Builder<'_> {
    fn fault<T>(&mut self, key: &str, reason: impl Into<String>) -> Option<T> {
        let place = format!("{}.{key}", self.place);
        self.faults.add(&place, reason)
    }

    /// The first value of a field; a varying field is also recorded for the groups.
    fn field(
        &mut self,
        key: &str,
        (field, kind): (Field, Kind),
        text: Option<&FieldText>,
        groups: &[usize],
    ) -> Option<Option<u128>> {
        let Some(text) = text else { return Some(None) };
        let place = format!("{}.{key}", self.place);
        let walk = self.faults.take(&place, text.walk(kind))?;
        let first = self.faults.take(&place, text.first(kind))?;
        if !walk.is_constant() {
            groups.iter().for_each(|group| self.fields[*group].push((field, walk.clone())));
        }
        Some(Some(first))
    }

    /// The headers of each group that the stream has.
    fn headers(&mut self, from: &PortPlan, to: &PortPlan) -> Option<Vec<(u8, Headers)>> {
        let text = self.text;
        let groups = self.groups()?;
        let ethernet = &text.ethernet;
        let mac = |value: u128| {
            let [_, _, a, b, c, d, e, f] = (value as u64).to_be_bytes();
            [a, b, c, d, e, f]
        };
        let kind = (Field::MacSource, Kind::Mac);
        let source = self.field("ethernet.source", kind, ethernet.source.as_ref(), &groups)?;
        let kind = (Field::MacDestination, Kind::Mac);
        let destination =
            self.field("ethernet.destination", kind, ethernet.destination.as_ref(), &groups)?;
        self.link = Link { has_source: source.is_some(), has_destination: destination.is_some() };
        let tags = self.tags(&groups)?;
        let transport = self.transport(&groups)?;
        let mut all = Vec::new();
        for group in &groups {
            let (network, ttl, class) = self.network(*group, from, to)?;
            all.push((
                *group as u8,
                Headers {
                    destination: mac(destination.unwrap_or(0)),
                    source: mac(source.unwrap_or(0)),
                    tags,
                    network,
                    transport,
                    ttl,
                    class,
                },
            ));
        }
        self.flows(&all)?;
        Some(all)
    }

    /// The groups of packets of this stream.
    fn groups(&mut self) -> Option<Vec<usize>> {
        let text = self.text;
        let has = (text.ip4.is_some(), text.ip6.is_some());
        if text.ethernet.kind.is_some() {
            let over = [text.udp.is_some(), text.tcp.is_some(), text.icmp.is_some()];
            if has != (false, false) || over.contains(&true) {
                return self.fault(
                    "ethernet.type",
                    "is for frames without IP: remove it or the IP header",
                );
            }
            return Some(vec![0]);
        }
        match (&text.size, has) {
            (Some(Size::Imix1), (_, true)) => {
                self.fault("size", "imix1 is IPv4: use imix2 or imix3")
            }
            (Some(Size::Campus), (_, true)) => {
                self.fault("size", "campus is IPv4: use imix2 or imix3")
            }
            (Some(Size::Imix3), (true, _)) => {
                self.fault("size", "imix3 is IPv6: use imix1 or imix2")
            }
            (Some(Size::Imix2), _) | (_, (true, true)) => Some(vec![0, 1]),
            (Some(Size::Imix3), _) | (_, (false, true)) => Some(vec![1]),
            _ => Some(vec![0]),
        }
    }

    fn tags(&mut self, groups: &[usize]) -> Option<Stack> {
        let text = self.text;
        let mut tags = Stack::EMPTY;
        let kind = (Field::Vlan, Kind::Vlan);
        let outer = self.field("vlan", kind, text.vlan.as_ref(), groups)?;
        let kind = (Field::InnerVlan, Kind::Vlan);
        let inner = self.field("inner-vlan", kind, text.inner_vlan.as_ref(), groups)?;
        let tag = match (outer, inner) {
            (None, None) => return Some(tags),
            (None, Some(_)) => {
                return self.fault("inner-vlan", "requires the outer one, too: add vlan");
            }
            (Some(outer), None) => [Tag::customer(outer as u16), None],
            (Some(outer), Some(inner)) => [Tag::service(outer as u16), Tag::customer(inner as u16)],
        };
        tag.into_iter().flatten().for_each(|tag| {
            // The stack holds two tags.
            let _ = tags.push(tag);
        });
        Some(tags)
    }

    fn transport(&mut self, groups: &[usize]) -> Option<Transport> {
        let text = self.text;
        let given = [text.udp.is_some(), text.tcp.is_some(), text.icmp.is_some()];
        if given.iter().filter(|is| **is).count() > 1 {
            return self.fault("udp", "give only one of udp, tcp and icmp");
        }
        if let Some(icmp) = &text.icmp {
            let kind = (Field::PortSource, Kind::Number);
            let field = icmp.identifier.as_ref();
            let identifier = self.field("icmp.identifier", kind, field, groups)?;
            return Some(Transport::Icmp(identifier.unwrap_or(1) as u16));
        }
        let (name, over) = match &text.tcp {
            Some(tcp) => ("tcp", Some(tcp)),
            None => ("udp", text.udp.as_ref()),
        };
        let source = over.and_then(|over| over.source.as_ref());
        let destination = over.and_then(|over| over.destination.as_ref());
        let kind = (Field::PortSource, Kind::Number);
        let source = self.field(&format!("{name}.source"), kind, source, groups)?;
        let kind = (Field::PortDestination, Kind::Number);
        let destination = self.field(&format!("{name}.destination"), kind, destination, groups)?;
        let source = source.map_or(SOURCE_PORT, |port| port as u16);
        let destination = destination.map_or(DESTINATION_PORT, |port| port as u16);
        Some(match name {
            "tcp" => Transport::Tcp(source, destination),
            _ => Transport::Udp(source, destination),
        })
    }

    /// IP header of a group, TTL and traffic class.
    fn network(
        &mut self,
        group: usize,
        from: &PortPlan,
        to: &PortPlan,
    ) -> Option<(Network, u8, u8)> {
        if let Some(kind) = &self.text.ethernet.kind {
            let digits = kind.strip_prefix("0x").unwrap_or(kind);
            return match u16::from_str_radix(digits, 16) {
                Ok(kind) if kind >= 0x600 => Some((Network::None(kind), 0, 0)),
                _ => self.fault("ethernet.type", "give a number from 0x0600 on, such as 0x88b5"),
            };
        }
        let is_ip4 = group == 0;
        let (name, kind, text) = match is_ip4 {
            true => ("ip4", Kind::Ip4, self.text.ip4.as_ref()),
            false => ("ip6", Kind::Ip6, self.text.ip6.as_ref()),
        };
        let of_port = |port: &PortPlan, default: usize| {
            let own = first_of_family(&port.addresses, is_ip4);
            let own = own.unwrap_or(match is_ip4 {
                true => FOUR[default].into(),
                false => SIX[default].into(),
            });
            match own {
                std::net::IpAddr::V4(own) => own.to_bits().into(),
                std::net::IpAddr::V6(own) => own.to_bits(),
            }
        };
        let source = text.and_then(|text| text.source.as_ref());
        let source =
            self.field(&format!("{name}.source"), (Field::IpSource, kind), source, &[group])?;
        let destination = text.and_then(|text| text.destination.as_ref());
        let key = format!("{name}.destination");
        let destination = self.field(&key, (Field::IpDestination, kind), destination, &[group])?;
        let source = source.unwrap_or_else(|| of_port(from, 0));
        let destination = destination.unwrap_or_else(|| of_port(to, 1));
        let dscp = text.and_then(|text| text.dscp).unwrap_or(0);
        let ttl = text.and_then(|text| text.ttl).unwrap_or(64);
        if dscp > 63 || ttl == 0 {
            return self.fault(name, "give a dscp of at most 63 and a ttl of at least 1");
        }
        let network = match is_ip4 {
            true => Network::Ip4 {
                source: Ipv4Addr::from_bits(source as u32),
                destination: Ipv4Addr::from_bits(destination as u32),
            },
            false => Network::Ip6 {
                source: Ipv6Addr::from_bits(source),
                destination: Ipv6Addr::from_bits(destination),
            },
        };
        Some((network, ttl, dscp << 2))
    }

    /// Varies source ports and addresses when only the number of flows is given.
    fn flows(&mut self, headers: &[(u8, Headers)]) -> Option<()> {
        let Some(flows) = self.text.flows.filter(|flows| *flows > 1).map(u64::from) else {
            return Some(());
        };
        for (group, headers) in headers {
            let source = match headers.network {
                Network::None(_) => {
                    return self.fault("flows", "require IP addresses, which distinguish them");
                }
                Network::Ip4 { source, .. } => u128::from(source.to_bits()),
                Network::Ip6 { source, .. } => source.to_bits(),
            };
            let fields = &mut self.fields[usize::from(*group)];
            let taken = [Field::PortSource, Field::IpSource];
            if fields.iter().any(|(field, _)| taken.contains(field)) {
                return self.fault("flows", "the source varies already: leave one of the two out");
            }
            let range = |first, count| Values::Range { first, step: 1, count };
            let ports = range(SOURCE_PORT.into(), flows.min(PORTS));
            fields.push((Field::PortSource, Walk::new(ports, Order::Turn, 1)));
            if flows > PORTS {
                let hosts = range(source, flows.div_ceil(PORTS));
                fields.push((Field::IpSource, Walk::new(hosts, Order::Turn, PORTS)));
            }
        }
        Some(())
    }

    /// The shapes of all groups and sizes, and their order: groups alternate.
    fn shapes(&mut self, headers: &[(u8, Headers)]) -> Option<(Vec<Shape>, Vec<u8>)> {
        let mut shapes = Vec::new();
        let mut turns: Vec<Vec<u8>> = Vec::new();
        let mut random = Random::new(9);
        for (group, headers) in headers {
            let mixed = match (&self.text.size, *group) {
                (Some(Size::Campus), _) => SIZES_CAMPUS,
                (_, 1) => SIZES6,
                _ => SIZES4,
            };
            let sizes: Vec<(u16, usize)> = match &self.text.size {
                // Tags increase the shortest sizes.
                Some(Size::Imix1 | Size::Imix2 | Size::Imix3 | Size::Campus) => mixed
                    .iter()
                    .map(|(size, share)| ((*size).max(headers.shortest() as u16), *share))
                    .collect(),
                Some(Size::Fixed(size)) => vec![(*size, 1)],
                Some(Size::List(sizes)) => sizes.iter().map(|size| (*size, 1)).collect(),
                None => vec![(headers.shortest() as u16, 1)],
            };
            if sizes.is_empty() || sizes.len() > SIZES_MAX {
                let reason = format!("{} sizes: give 1 to {SIZES_MAX}", sizes.len());
                return self.fault("size", reason);
            }
            let mut turn = Vec::new();
            for (size, share) in sizes {
                let (least, most) = (headers.shortest(), JUMBO_FRAME_MAX + FCS);
                if !(least..=most).contains(&usize::from(size)) {
                    let reason = format!(
                        "{size} bytes: with these headers and what marks a test packet, give \
                         {least} to {most}"
                    );
                    return self.fault("size", reason);
                }
                turn.extend(std::iter::repeat_n(shapes.len() as u8, share));
                shapes.push(Shape { headers: headers.clone(), size, group: *group });
            }
            if !matches!(self.text.size, Some(Size::List(_))) {
                random.shuffle(&mut turn);
            }
            turns.push(turn);
        }
        let turn = |at: usize| turns.iter().map(move |turn| turn[at]);
        Some((shapes, (0..turns[0].len()).flat_map(turn).collect()))
    }
}
