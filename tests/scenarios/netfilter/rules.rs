//! One description of rules, from which the lists of Stoa and the rule set of nftables are made.

use serde_json::{Value, json};

const MODULE: &str = "ietf-access-control-list";

/// What a rule does. The reply direction of a stateful rule needs no rule.
#[derive(Clone, Copy, PartialEq)]
pub enum Action {
    Accept,
    Stateful,
    Drop,
    Reject,
}

/// One condition.
#[derive(Clone, Copy)]
pub enum Condition {
    /// The source is in the IPv4 prefix or the IPv6 prefix.
    From([&'static str; 2]),
    Protocol(u8),
    /// TCP or UDP with a destination port in this range.
    Tcp([u16; 2]),
    Udp([u16; 2]),
    /// Flags of TCP that are set and clear: names as in both configurations.
    Flags([&'static str; 2]),
    /// Types of ICMP and ICMPv6.
    Icmp([u8; 2]),
    Dscp(u8),
    /// The least and the greatest length, from the IP header on.
    Length([u16; 2]),
    /// `first` or `later`.
    Fragment(&'static str),
}

/// A rule of both families.
pub struct Rule(pub &'static str, pub &'static [Condition], pub Action);

/// Where Stoa has the lists.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Place {
    Input,
    Output,
    Zones,
}

use Action::{Accept, Drop, Reject, Stateful};
use Condition::{Dscp, Flags, Fragment, From, Icmp, Length, Protocol, Tcp, Udp};

/// The port of datagrams that tell the test how far a router is.
pub const MARK: u16 = 7999;

/// Rules for packets from host-a.
pub const FROM_A: &[Rule] = &[
    Rule("mark", &[Udp([MARK, MARK])], Accept),
    Rule("unreachable", &[Icmp([3, 1])], Drop),
    Rule("other", &[From(["198.18.80.0/20", "2001:db8:80::/48"])], Drop),
    Rule("telnet", &[Tcp([23, 23])], Drop),
    Rule("ident", &[Tcp([113, 113])], Reject),
    Rule("syslog", &[Udp([514, 514])], Reject),
    Rule("openings", &[Tcp([7000, 7009]), Flags(["syn", "ack"])], Accept),
    Rule("urgent", &[Tcp([7010, 7019]), Flags(["urg psh", "rst"])], Accept),
    Rule("voice", &[Udp([7100, 7100]), Dscp(46)], Accept),
    Rule("short", &[Udp([7200, 7200]), Length([30, 100])], Accept),
    Rule("first", &[Udp([7300, 7300]), Fragment("first")], Accept),
    Rule("later", &[Protocol(132), Fragment("later")], Accept),
    Rule("timestamp", &[Icmp([13, 200])], Accept),
    Rule("secret", &[Protocol(50)], Accept),
    Rule("ping", &[Icmp([8, 128])], Stateful),
    Rule("tunnel", &[Protocol(47)], Stateful),
    Rule("web", &[Tcp([8000, 8099])], Stateful),
    Rule("names", &[Udp([8000, 8099])], Stateful),
];

/// Rules for packets from host-b.
pub const FROM_B: &[Rule] = &[
    Rule("mark", &[Udp([MARK, MARK])], Accept),
    Rule("unreachable", &[Icmp([3, 1])], Drop),
    Rule("mail", &[Tcp([9000, 9000])], Stateful),
    Rule("game", &[Udp([9000, 9000])], Stateful),
    Rule("rest", &[Tcp([9100, 9100])], Reject),
];

impl Rule {
    fn ace(&self, six: bool) -> Value {
        let family = if six { "ipv6" } else { "ipv4" };
        let mut matches = json!({});
        for condition in self.1 {
            condition.add_to(&mut matches, family, six);
        }
        let word = match self.2 {
            Accept | Stateful => "accept",
            Drop => "drop",
            Reject => "reject",
        };
        let mut actions = json!({ "forwarding": format!("{MODULE}:{word}") });
        if self.2 == Stateful {
            actions["stoa-acl:stateful"] = json!(true);
        }
        json!({ "name": self.0, "matches": matches, "actions": actions })
    }

    /// The rules of a chain in which tracked flows have passed already.
    fn verdicts(&self, six: bool) -> Vec<String> {
        let matches = self.nft(six);
        match self.2 {
            Accept => vec![format!("{matches} accept")],
            Stateful => vec![format!("{matches} ct mark set 1 accept")],
            Drop => vec![format!("{matches} drop")],
            Reject => vec![
                format!("{matches} meta l4proto tcp reject with tcp reset"),
                format!("{matches} reject with icmpx type admin-prohibited"),
            ],
        }
    }

    /// The rule of the chain before connection tracking: what rules without state accept or answer is not tracked.
    fn tracking(&self, six: bool) -> String {
        let is_tracked = matches!(self.2, Stateful | Drop);
        let action = if is_tracked { "return" } else { "notrack return" };
        format!("{} {action}", self.nft(six))
    }

    fn nft(&self, six: bool) -> String {
        let words = self.1.iter().map(|condition| condition.nft(six));
        let family = if six { "ipv6" } else { "ipv4" };
        format!("meta nfproto {family} {}", words.collect::<Vec<_>>().join(" "))
    }
}

impl Condition {
    fn add_to(self, matches: &mut Value, family: &str, six: bool) {
        let at = usize::from(six);
        let range = |[lower, upper]: [u16; 2]| match lower == upper {
            true => json!({ "port": lower }),
            false => json!({ "lower-port": lower, "upper-port": upper }),
        };
        match self {
            From(prefixes) => {
                matches[family][format!("source-{family}-network")] = json!(prefixes[at]);
            }
            Protocol(number) => matches[family]["protocol"] = json!(number),
            Tcp(ports) => matches["tcp"]["destination-port"] = range(ports),
            Udp(ports) => matches["udp"]["destination-port"] = range(ports),
            Flags([set, clear]) => {
                matches["tcp"]["stoa-acl:tcp-flags"] = json!({ "set": set, "clear": clear });
            }
            Icmp(types) => matches["icmp"]["type"] = json!(types[at]),
            Dscp(value) => matches[family]["dscp"] = json!(value),
            Length([lower, upper]) => {
                matches["stoa-acl:packet-length"] = json!({ "lower": lower, "upper": upper });
            }
            Fragment(which) => matches["stoa-acl:fragment"] = json!(which),
        }
    }

    fn nft(self, six: bool) -> String {
        let (at, ip) = (usize::from(six), if six { "ip6" } else { "ip" });
        let bits = |names: &str| names.split(' ').collect::<Vec<_>>().join("|");
        match self {
            From(prefixes) => format!("{ip} saddr {}", prefixes[at]),
            Protocol(number) => format!("meta l4proto {number}"),
            Tcp([lower, upper]) => format!("tcp dport {lower}-{upper}"),
            Udp([lower, upper]) => format!("udp dport {lower}-{upper}"),
            Flags([set, clear]) => {
                let (set, clear) = (bits(set), bits(clear));
                format!("tcp flags & ({set}|{clear}) == ({set})")
            }
            Icmp(types) => format!("icmp{} type {}", if six { "v6" } else { "" }, types[at]),
            Dscp(value) => format!("{ip} dscp {value}"),
            Length([lower, upper]) => format!("meta length {lower}-{upper}"),
            Fragment("first") if six => "frag frag-off 0 frag more-fragments 1".to_owned(),
            Fragment("first") => "ip frag-off & 0x3fff == 0x2000".to_owned(),
            Fragment(_) if six => "frag frag-off != 0".to_owned(),
            Fragment(_) => "ip frag-off & 0x1fff != 0".to_owned(),
        }
    }
}

/// The lists of Stoa.
pub fn stoa(place: Place) -> Value {
    let sides = [("host-a", "host-b", FROM_A), ("host-b", "host-a", FROM_B)];
    let (mut lists, mut interfaces, mut pairs) = (Vec::new(), Vec::new(), Vec::new());
    for (from, to, rules) in sides {
        let mut names = Vec::new();
        for six in [false, true] {
            let aces: Vec<Value> = rules.iter().map(|rule| rule.ace(six)).collect();
            let family = if six { "ipv6" } else { "ipv4" };
            let name = format!("{from}-{family}");
            let kind = format!("{MODULE}:{family}-acl-type");
            lists.push(json!({ "name": name, "type": kind, "aces": { "ace": aces } }));
            names.push(json!({ "name": name }));
        }
        let sets = json!({ "acl-sets": { "acl-set": names } });
        match place {
            Place::Input => interfaces.push(json!({ "interface-id": from, "ingress": sets })),
            Place::Output => interfaces.push(json!({ "interface-id": to, "egress": sets })),
            Place::Zones => {
                let mut pair = sets;
                (pair["from"], pair["to"]) = (json!(from), json!(to));
                pairs.push(pair);
            }
        }
    }
    let mut acls = json!({ "acl": lists });
    if place == Place::Zones {
        let zone = |name| json!({ "name": name, "interface": [name] });
        acls["stoa-acl:zones"] = json!({ "zone": [zone("host-a"), zone("host-b")] });
        acls["stoa-acl:zone-pairs"] = json!({ "zone-pair": pairs });
    } else {
        acls["attachment-points"] = json!({ "interface": interfaces });
    }
    acls
}

/// The same rules for `nft -f`. The mark of a connection says that a stateful rule has admitted it. Fragments that
/// rules without state match are seen before they are reassembled.
pub fn nftables() -> String {
    let (mut chains, mut names) = (String::new(), [String::new(), String::new()]);
    for (from, rules) in [("host-a", FROM_A), ("host-b", FROM_B)] {
        let families = [false, true];
        let all = families.iter().flat_map(|six| rules.iter().map(|rule| (rule, *six)));
        let verdicts = all.clone().flat_map(|(rule, six)| rule.verdicts(six));
        let tracking = all.map(|(rule, six)| rule.tracking(six));
        let chain = |name: &str, lines: Vec<String>| {
            let lines: String = lines.iter().map(|line| format!("    {line}\n")).collect();
            format!("  chain {name} {{\n{lines}  }}\n")
        };
        chains.push_str(&chain(&format!("track-{from}"), tracking.collect()));
        chains.push_str(&chain(&format!("rules-{from}"), verdicts.collect()));
        for (name, kind) in names.iter_mut().zip(["track", "rules"]) {
            name.push_str(&format!("    iifname {from} jump {kind}-{from}\n"));
        }
    }
    let [tracking, rules] = names;
    format!(
        "table inet reference {{\n{chains}  chain before {{\n    \
         type filter hook prerouting priority -450; policy accept;\n{tracking}  }}\n  \
         chain forward {{\n    type filter hook forward priority 0; policy drop;\n    \
         ct state invalid drop\n    ct state established,related ct mark 1 accept\n{rules}  }}\n}}\n"
    )
}
