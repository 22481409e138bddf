//! Rule sets as ClassBench (Taylor and Turner, 2007) makes them, by models of our own.
//!
//! Real lists of rules are made of few parts: prefixes of some organisations, nested in each other, and
//! the ports of some services. Each kind of list combines them in other shares:
//!
//! - *access list*: destinations are hosts and small networks, source ports are open, destination ports
//!   are mostly exact;
//! - *firewall*: a third of the rules leaves the source open, a quarter the destination, some both; many
//!   ranges of ports;
//! - *chain*: pairs of networks or hosts, with open ports or exact ones on both sides.

use std::collections::HashSet;
use std::str::FromStr;

use stoa_tables::classifier::{FlowState, Fragment, Prefix, Range, Rule};

use crate::random::Random;

/// The kind of a rule set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An access list of a router.
    AccessList,
    /// Rules of a firewall.
    Firewall,
    /// A chain of packet filter rules.
    Chain,
}

/// A rule set: `acl:N`, `firewall:N` or `chain:N`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleSet {
    /// Its kind.
    pub kind: Kind,
    /// Number of rules, 1 to 500,000.
    pub rules: usize,
}

/// The most rules of a set.
pub const MOST_RULES: usize = 500_000;

impl FromStr for RuleSet {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once(':');
        let kind = match parts.map(|(kind, _)| kind) {
            Some("acl") => Kind::AccessList,
            Some("firewall") => Kind::Firewall,
            Some("chain") => Kind::Chain,
            _ => return Err(format!("{text:?}: give acl:N, firewall:N or chain:N")),
        };
        let rules = parts.and_then(|(_, count)| count.parse().ok());
        let rules = rules.filter(|count| (1..=MOST_RULES).contains(count));
        let rules = rules.ok_or_else(|| format!("{text:?}: give 1 to {MOST_RULES} rules"))?;
        Ok(Self { kind, rules })
    }
}

impl std::fmt::Display for RuleSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match self.kind {
            Kind::AccessList => "acl",
            Kind::Firewall => "firewall",
            Kind::Chain => "chain",
        };
        write!(f, "{kind}:{}", self.rules)
    }
}

/// Shares of the rules, in percent.
struct Model {
    source_open: usize,
    destination_open: usize,
    /// Of the prefixes, those of one address.
    hosts: usize,
    /// Source ports: exact, or a range of high ones; else open.
    source_exact: usize,
    source_high: usize,
    /// Destination ports.
    destination_exact: usize,
    destination_high: usize,
    destination_range: usize,
    protocol_open: usize,
    /// Rules that look at flags, fragments, DSCP, states, lengths, interfaces or VLANs.
    others: usize,
}

const ACCESS_LIST: Model = Model {
    source_open: 12,
    destination_open: 3,
    hosts: 45,
    source_exact: 0,
    source_high: 1,
    destination_exact: 65,
    destination_high: 5,
    destination_range: 12,
    protocol_open: 8,
    others: 2,
};
const FIREWALL: Model = Model {
    source_open: 35,
    destination_open: 25,
    hosts: 55,
    source_exact: 4,
    source_high: 15,
    destination_exact: 45,
    destination_high: 15,
    destination_range: 10,
    protocol_open: 12,
    others: 4,
};
const CHAIN: Model = Model {
    source_open: 12,
    destination_open: 10,
    hosts: 50,
    source_exact: 12,
    source_high: 4,
    destination_exact: 35,
    destination_high: 4,
    destination_range: 5,
    protocol_open: 35,
    others: 4,
};

/// Ports of services, the frequent ones first.
const SERVICES: [u16; 40] = [
    443, 80, 22, 53, 25, 161, 123, 3389, 8080, 21, 110, 143, 993, 995, 587, 389, 636, 445, 139,
    135, 1433, 3306, 5432, 1521, 5060, 5061, 514, 69, 179, 1812, 1813, 500, 4500, 1194, 8443, 9100,
    6514, 2049, 111, 873,
];

/// A network under which a set's prefixes lie: 128 bits, of IPv4 the upper 32.
type Address = (u128, u8);

/// Prefixes of one side, from which the rules draw.
struct Pool {
    prefixes: Vec<Address>,
}

impl Pool {
    /// Prefixes of so many organisations, `hosts` percent of them of one address.
    fn new(count: usize, hosts: usize, is_ip6: bool, random: &mut Random) -> Self {
        let organisations: Vec<Address> = (0..(count / 40).clamp(3, 2000))
            .map(|_| {
                let address = u128::from(random.next()) << 64;
                if is_ip6 {
                    (0x2000 << 112 | address >> 3 & !(u128::MAX >> 32), 32 + random.below(17) as u8)
                } else {
                    (address, 12 + random.below(9) as u8)
                }
            })
            .map(|(address, len)| (cut(address, len), len))
            .collect();
        let lengths: [u8; 8] = if is_ip6 {
            [48, 56, 56, 60, 64, 64, 64, 64]
        } else {
            [20, 22, 24, 24, 24, 26, 28, 29]
        };
        let one = |random: &mut Random| {
            let (network, within) = organisations[random.zipf(organisations.len())];
            let len = match random.below(100) {
                share if share < hosts => {
                    if is_ip6 {
                        128
                    } else {
                        32
                    }
                }
                share if share < hosts + 4 => within,
                _ => lengths[random.below(lengths.len())].max(within),
            };
            // Subnets are numbered from below, hosts as well: real networks are not random.
            let subnets = 1_u128 << (if is_ip6 { 64 } else { 24 } - within).min(10);
            let subnet = u128::from(random.next()) % subnets;
            let subnet = subnet << if is_ip6 { 64 } else { 128 - 24 };
            let host = (random.below(254) as u128 + 1) << if is_ip6 { 0 } else { 96 };
            (cut(network | subnet | host, len), len)
        };
        Self { prefixes: (0..count.max(2)).map(|_| one(random)).collect() }
    }

    fn draw(&self, random: &mut Random) -> Address {
        // A few prefixes are in many rules, most in few.
        let count = self.prefixes.len();
        let at = if random.below(4) == 0 { random.zipf(count) } else { random.below(count) };
        self.prefixes[at]
    }
}

fn cut(address: u128, len: u8) -> u128 {
    address & !u128::MAX.checked_shr(len.into()).unwrap_or(0)
}

fn prefix((address, len): Address, is_ip6: bool) -> Prefix {
    if is_ip6 {
        Prefix::Ip6 { address, len }
    } else {
        Prefix::Ip4 { address: (address >> 96) as u32, len }
    }
}

/// The rules of a set, the first one first; the last one admits all packets. The same seed makes the
/// same rules.
pub fn generate(set: RuleSet, is_ip6: bool, seed: u64) -> Vec<Rule> {
    let mut random = Random::new(seed);
    let model = match set.kind {
        Kind::AccessList => ACCESS_LIST,
        Kind::Firewall => FIREWALL,
        Kind::Chain => CHAIN,
    };
    let count = (set.rules / 3).max(8);
    let sources = Pool::new(count, model.hosts, is_ip6, &mut random);
    let destinations = Pool::new(count, model.hosts, is_ip6, &mut random);
    // The last rule admits all, so none before it does.
    let mut seen = HashSet::from([format!("{:?}", Rule::default())]);
    let (mut narrow, mut wide) = (Vec::new(), Vec::new());
    // Rules that leave both addresses open are few: there are not that many services.
    let most_wide = (set.rules / 100).clamp(4, 200);
    while narrow.len() + wide.len() + 1 < set.rules {
        let mut rule = Rule::default();
        if random.below(100) >= model.source_open {
            rule.source = Some(prefix(sources.draw(&mut random), is_ip6));
        }
        if random.below(100) >= model.destination_open {
            rule.destination = Some(prefix(destinations.draw(&mut random), is_ip6));
        }
        transport(&mut rule, &model, is_ip6, &mut random);
        if random.below(100) < model.others {
            other(&mut rule, &mut random);
        }
        let is_wide = rule.source.is_none() && rule.destination.is_none();
        if is_wide && wide.len() >= most_wide || !seen.insert(format!("{rule:?}")) {
            continue;
        }
        if is_wide { wide.push(rule) } else { narrow.push(rule) }
    }
    // What hides others comes late in a list.
    for rule in wide {
        let late = narrow.len() * 2 / 3;
        let at = late + random.below(narrow.len() + 1 - late);
        narrow.insert(at, rule);
    }
    narrow.push(Rule::default());
    narrow
}

/// Protocol and ports.
fn transport(rule: &mut Rule, model: &Model, is_ip6: bool, random: &mut Random) {
    if random.below(100) < model.protocol_open {
        return;
    }
    let protocol = match random.below(100) {
        0..70 => 6,
        70..92 => 17,
        92..97 => {
            if is_ip6 {
                58
            } else {
                1
            }
        }
        97 => 50,
        98 => 47,
        _ => 89,
    };
    rule.protocol = Some(protocol);
    match protocol {
        6 | 17 => {}
        1 | 58 => {
            let types = [0, 3, 8, 11, 128, 129, 2, 3];
            rule.source_ports = Range::one(types[random.below(4) + if is_ip6 { 4 } else { 0 }]);
            return;
        }
        _ => return,
    }
    rule.source_ports = ports([model.source_exact, model.source_high, 0], random);
    let shares = [model.destination_exact, model.destination_high, model.destination_range];
    rule.destination_ports = ports(shares, random);
}

/// Exact ports, high ones, or a range, with these shares; else all.
fn ports([exact, high, range]: [usize; 3], random: &mut Random) -> Range {
    let share = random.below(100);
    if share < exact {
        return match random.below(6) {
            0 => Range::one(random.below(65_536) as u16),
            _ => Range::one(SERVICES[random.zipf(SERVICES.len())]),
        };
    }
    if share < exact + high {
        return Range { first: 1024, last: u16::MAX };
    }
    if share < exact + high + range {
        return match random.below(8) {
            0 => Range { first: 0, last: 1023 },
            1 => Range { first: 6000, last: 6063 },
            2 => Range { first: 33_434, last: 33_534 },
            3 => Range { first: 16_384, last: 32_767 },
            4 => Range { first: 137, last: 139 },
            _ => {
                let first = random.below(60_000) as u16;
                Range { first, last: first + 1 + random.below(5000) as u16 }
            }
        };
    }
    Range::ANY
}

/// One of the less frequent conditions.
fn other(rule: &mut Rule, random: &mut Random) {
    match random.below(7) {
        0 if rule.protocol == Some(6) => {
            let flags = [(0x02, 0x12), (0x10, 0x10), (0x04, 0x04)];
            (rule.tcp_flags, rule.tcp_flags_mask) = flags[random.below(3)];
        }
        1 => rule.dscp = Some(random.below(64) as u16 as u8),
        2 if rule.source_ports == Range::ANY && rule.destination_ports == Range::ANY => {
            rule.fragments = Fragment::Later.bit();
        }
        3 => rule.states = FlowState::New.bit() | FlowState::Untracked.bit(),
        4 => rule.lengths = Range { first: 0, last: 127 },
        5 => rule.interface = Some(random.below(16) as u16),
        _ => rule.vlan = Some(1 + random.below(100) as u16),
    }
}
