//! Writes to the log which packets have matched rules with a log.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use stoa_api::acl::protocol_name;
use stoa_wire::protocol::{ICMP4, ICMP6, has_ports};

use super::Installed;
use crate::acl::Action;
use crate::acl::log::Record;
use crate::control::forwarder_state::ForwarderState;
use crate::flow::fields::Kind;
use crate::ipfix::Denial;

fn address(kind: Kind, words: [u32; 4]) -> IpAddr {
    if kind.is_ip6() {
        let bits = words.iter().fold(0, |all, word| all << 32 | u128::from(*word));
        return Ipv6Addr::from_bits(bits).into();
    }
    Ipv4Addr::from_bits(words[0]).into()
}

/// An end of a packet as text: the address, and the port of protocols that have some.
fn end(kind: Kind, words: [u32; 4], port: u32) -> String {
    let ip = address(kind, words);
    match has_ports(kind.protocol()) && kind.0 & Kind::LATER == 0 {
        true => SocketAddr::new(ip, port as u16).to_string(),
        false => ip.to_string(),
    }
}

/// A refused packet, for the export.
fn denial(record: &Record) -> Denial {
    let kind = record.kind;
    let is_whole = kind.0 & Kind::LATER == 0;
    let is_icmp = matches!(kind.protocol(), ICMP4 | ICMP6) && is_whole;
    let ports = match has_ports(kind.protocol()) && is_whole {
        true => [(record.ports >> 16) as u16, record.ports as u16],
        false => [0, 0],
    };
    Denial {
        ends: [address(kind, record.source), address(kind, record.destination)],
        ports,
        protocol: kind.protocol(),
        icmp: if is_icmp { (record.ports >> 16) as u16 } else { 0 },
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
        let rules: HashMap<u32, &Installed> =
            acls.lists.values().flatten().map(|it| (it.number, &**it)).collect();
        if self.capabilities.ipfix.has_denials() {
            let is_refusing = |it: &&Record| {
                rules.get(&it.rule).is_some_and(|rule| rule.rule.rule.action != Action::Accept)
            };
            self.capabilities.ipfix.deny(records.iter().filter(is_refusing).map(denial));
        }
        // A rule that has gone meanwhile has no name any more.
        let logged = |record| self.logged(&record, rules.get(&record.rule)?);
        (records.into_iter().filter_map(logged).collect(), lost)
    }

    fn logged(&self, record: &Record, rule: &Installed) -> Option<Logged> {
        let kind = record.kind;
        let is_icmp = matches!(kind.protocol(), ICMP4 | ICMP6) && kind.0 & Kind::LATER == 0;
        let [message, code, ..] = record.ports.to_be_bytes();
        let (acl, name) = rule.key.clone();
        Some(Logged {
            acl,
            rule: name,
            action: verb(rule.rule.rule.action),
            zones: self.capabilities.acl.zones.key_of(record.pair).cloned(),
            direction: if record.is_input { "in" } else { "out" },
            interface: self.interface(record.interface)?.name.clone(),
            protocol: protocol_name(kind.protocol().into()),
            source: end(kind, record.source, record.ports >> 16),
            destination: end(kind, record.destination, record.ports & 0xffff),
            icmp: if is_icmp { format!("{message}/{code}") } else { String::new() },
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
