//! Writes to the log which packets have matched rules with a log.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use stoa_api::acl::protocol_name;
use stoa_wire::protocol::{ICMP4, ICMP6, has_ports};
use stoa_wire::siit::as_icmp6;

use super::Installed;
use crate::acl::Action;
use crate::acl::log::Record;
use crate::control::forwarder_state::ForwarderState;
use crate::flow::fields::Kind;
use crate::ipfix::Denial;
use crate::nat64::hosts::Hosts;

fn address(kind: Kind, words: [u32; 4]) -> IpAddr {
    if kind.is_ip6() {
        let bits = words.iter().fold(0, |all, word| all << 32 | u128::from(*word));
        return Ipv6Addr::from_bits(bits).into();
    }
    Ipv4Addr::from_bits(words[0]).into()
}

/// Source and destination. A packet of an IPv6 host by NAT64 has the addresses that this host sees.
fn ends(record: &Record, hosts: &Hosts) -> [IpAddr; 2] {
    let [source, destination] = [record.source, record.destination];
    let reversed = |[host, other]: [u128; 2]| [other, host];
    let seen = || {
        let there = hosts.ends(source[0], destination[0]);
        there.or_else(|| hosts.ends(destination[0], source[0]).map(reversed))
    };
    match seen().filter(|_| !record.kind.is_ip6()) {
        Some(ends) => ends.map(|it| Ipv6Addr::from_bits(it).into()),
        None => [source, destination].map(|it| address(record.kind, it)),
    }
}

/// What the log and the export say of a packet: of one of an IPv6 host by NAT64, what this host sees.
struct Seen {
    ends: [IpAddr; 2],
    protocol: u8,
    /// Type and code of ICMP.
    icmp: Option<u16>,
}

impl Seen {
    fn of(record: &Record, hosts: &Hosts) -> Self {
        let (kind, ends) = (record.kind, ends(record, hosts));
        let is_icmp = matches!(kind.protocol(), ICMP4 | ICMP6) && kind.0 & Kind::LATER == 0;
        let icmp = if is_icmp { (record.ports >> 16) as u16 } else { 0 };
        let (protocol, icmp) = match ends[0] {
            IpAddr::V6(_) if !kind.is_ip6() => as_icmp6(kind.protocol(), icmp),
            _ => (kind.protocol(), icmp),
        };
        Self { ends, protocol, icmp: is_icmp.then_some(icmp) }
    }
}

/// An end of a packet as text: the address, and the port of protocols that have some.
fn end(kind: Kind, ip: IpAddr, port: u32) -> String {
    match has_ports(kind.protocol()) && kind.0 & Kind::LATER == 0 {
        true => SocketAddr::new(ip, port as u16).to_string(),
        false => ip.to_string(),
    }
}

/// A refused packet, for the export.
fn denial(record: &Record, hosts: &Hosts) -> Denial {
    let kind = record.kind;
    let is_whole = kind.0 & Kind::LATER == 0;
    let ports = match has_ports(kind.protocol()) && is_whole {
        true => [(record.ports >> 16) as u16, record.ports as u16],
        false => [0, 0],
    };
    let Seen { ends, protocol, icmp } = Seen::of(record, hosts);
    Denial {
        ends,
        ports,
        protocol,
        icmp: icmp.unwrap_or(0),
        interfaces: match record.is_input {
            true => [record.interface, 0],
            false => [0, record.interface],
        },
        length: record.place.length(),
    }
}

fn verb(action: Action) -> &'static str {
    match action {
        Action::Accept => "accepted",
        Action::Drop => "dropped",
        Action::Reject => "rejected",
    }
}

/// A packet that a rule has matched, as the log tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged {
    /// The list.
    pub acl: String,
    /// The rule.
    pub rule: String,
    /// accepted, dropped or rejected.
    pub action: &'static str,
    /// The zone that it comes from, and the one that it goes to, if the list is that of their pair.
    pub zones: Option<(String, String)>,
    /// in or out.
    pub direction: &'static str,
    /// The interface.
    pub interface: String,
    /// Its name, or its number.
    pub protocol: String,
    /// Address, and port of protocols that have some.
    pub source: String,
    /// The same.
    pub destination: String,
    /// Type and code of ICMP: "8/0"; "" of others.
    pub icmp: String,
    /// Bytes of the packet.
    pub length: u16,
}

impl ForwarderState {
    /// Takes what workers have reported since the last call, and how many packets have found no room so far.
    pub fn take_acl_log(&self) -> (Vec<Logged>, u64) {
        let (mut records, acls) = (Vec::new(), &self.capabilities.acl);
        let lost = self.shared.acl_log.drain(|record| records.push(record));
        if records.is_empty() {
            return (Vec::new(), lost);
        }
        let rules = acls.lists.values().flat_map(|list| list.iter());
        let rules: HashMap<u32, &Installed> = rules.map(|it| (it.number, &**it)).collect();
        if self.capabilities.ipfix.has_denials() {
            let is_refusing = |it: &&Record| {
                rules.get(&it.rule).is_some_and(|rule| rule.rule.rule.action != Action::Accept)
            };
            let denial = |it| denial(it, self.shared.flows.nat64_hosts());
            self.capabilities.ipfix.deny(records.iter().filter(is_refusing).map(denial));
        }
        // A rule that has gone meanwhile has no name any more.
        let logged = |record| self.logged(&record, rules.get(&record.rule)?);
        (records.into_iter().filter_map(logged).collect(), lost)
    }

    fn logged(&self, record: &Record, rule: &Installed) -> Option<Logged> {
        let kind = record.kind;
        let (acl, name) = rule.key.clone();
        let Seen { ends, protocol, icmp } = Seen::of(record, self.shared.flows.nat64_hosts());
        let [source, destination] = ends;
        let icmp = icmp.map(|it| format!("{}/{}", it >> 8, it & 0xff));
        Some(Logged {
            acl,
            rule: name,
            action: verb(rule.rule.rule.action),
            zones: self.capabilities.acl.zones.key_of(record.pair).cloned(),
            direction: if record.is_input { "in" } else { "out" },
            interface: self.interface(record.interface)?.name.clone(),
            protocol: protocol_name(protocol.into()),
            source: end(kind, source, record.ports >> 16),
            destination: end(kind, destination, record.ports & 0xffff),
            icmp: icmp.unwrap_or_default(),
            length: record.place.length(),
        })
    }

    /// Writes to the log what workers have reported.
    pub(super) fn write_acl_log(&mut self) {
        let (packets, lost) = self.take_acl_log();
        for it in packets {
            let Logged { acl, rule, action, zones, direction, interface, .. } = it;
            let Logged { protocol, source, destination, icmp, length, .. } = it;
            let (from_zone, to_zone) = zones.unzip();
            tracing::info!(
                acl,
                rule,
                from_zone,
                to_zone,
                direction,
                interface,
                protocol,
                source,
                destination,
                icmp,
                length,
                "packet {action}"
            );
        }
        let former = std::mem::replace(&mut self.capabilities.acl.log_lost, lost);
        if lost > former {
            let packets = lost - former;
            tracing::warn!(
                packets,
                "packets of rules with a log were not logged: too many at once"
            );
        }
    }
}
