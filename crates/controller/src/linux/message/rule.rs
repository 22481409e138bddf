//! Messages about policy rules (linux/fib_rules.h), parsed and built.

use std::net::IpAddr;

use ipnet::IpNet;

use super::{Attributes, FAMILY_IP4, FAMILY_IP6, MessageError, half};

/// What happens to matching packets (`FR_ACT_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RuleAction {
    /// Look up this table.
    Table(u32),
    /// Continue with the rule of this priority.
    Goto(u32),
    /// Continue with the next rule.
    Nothing,
    /// Drop silently.
    Blackhole,
    /// Reject as unreachable.
    Unreachable,
    /// Reject as prohibited.
    Prohibit,
}

/// A policy rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    /// Rules apply in ascending order.
    pub priority: u32,
    /// Whether it is an IPv6 rule.
    pub is_ip6: bool,
    /// Source prefix.
    pub from: Option<IpNet>,
    /// Destination prefix.
    pub to: Option<IpNet>,
    /// Input device; "": any.
    pub device: String,
    /// DSCP; 0 only where the kernel supports `FRA_DSCP`.
    pub dscp: Option<u8>,
    /// IP protocol.
    pub ip_protocol: Option<u8>,
    /// First and last source port.
    pub source_ports: Option<(u16, u16)>,
    /// First and last destination port.
    pub destination_ports: Option<(u16, u16)>,
    /// What happens to matching packets.
    pub action: RuleAction,
    /// Routes with prefixes up to this length are ignored (`suppress_prefixlength`).
    pub suppressed: Option<u32>,
    /// Who added it (`rtm_protocol`); 0: unspecified.
    pub protocol: u8,
    /// A selector or action that Stoa does not support.
    pub unsupported: Option<&'static str>,
}

/// `FIB_RULE_INVERT`: the rule matches packets that do not match its selectors.
const INVERT: u8 = 2;
/// `FIB_RULE_UNRESOLVED`: the target of goto does not exist.
const UNRESOLVED: u8 = 4;
/// The selector of `ip rule ... tos` in IPv4.
pub const TOS: &str = "three bits of the TOS (tos)";

impl Rule {
    /// A rule that matches all packets.
    pub fn new(is_ip6: bool, priority: u32, action: RuleAction) -> Rule {
        Rule {
            priority,
            is_ip6,
            from: None,
            to: None,
            device: String::new(),
            dscp: None,
            ip_protocol: None,
            source_ports: None,
            destination_ports: None,
            action,
            suppressed: None,
            protocol: 0,
            unsupported: None,
        }
    }

    /// Whether it is one of the three default rules: all packets, tables local, main, default.
    pub fn is_default(&self) -> bool {
        let protocol = self.protocol;
        [(0, 255), (32_766, 254), (32_767, 253)].iter().any(|(priority, table)| {
            let usual = Rule::new(self.is_ip6, *priority, RuleAction::Table(*table));
            *self == Rule { protocol, ..usual }
        })
    }

    /// Parses the body of `RTM_NEWRULE` or `RTM_DELRULE`. `Ok(None)`: a rule of multicast routing (families
    /// 128 and 129).
    ///
    /// # Errors
    /// When it is malformed.
    pub fn read(body: &[u8]) -> Result<Option<Rule>, MessageError> {
        let short = MessageError::Malformed("a rule is shorter than its header");
        let (header, rest) = body.split_at_checked(12).ok_or(short)?;
        let family = header[0];
        if !matches!(family, FAMILY_IP4 | FAMILY_IP6) {
            return Ok(None);
        }
        let (mut table, mut goto) = (u32::from(header[4]), None);
        let mut rule = Rule::new(family == FAMILY_IP6, 0, RuleAction::Nothing);
        // The flags are a word in host byte order; these two are in its least byte.
        let flags = u32::from_ne_bytes([header[8], header[9], header[10], header[11]]) as u8;
        if flags & INVERT != 0 {
            rule.unsupported = Some("inverted selectors (not)");
        } else if flags & UNRESOLVED != 0 {
            rule.unsupported = Some("goto to a missing rule (goto)");
        }
        let net = |address: IpAddr, length: u8| {
            let long = MessageError::Malformed("a prefix is longer than its address");
            IpNet::new(address, length).map(|net| Some(net.trunc())).map_err(|_| long)
        };
        // In IPv4 Linux compares only three bits of it, in IPv6 the whole DSCP.
        match header[3] {
            0 => {}
            _ if rule.is_ip6 => rule.dscp = Some(header[3] >> 2).filter(|dscp| *dscp != 0),
            _ => rule.unsupported = Some(TOS),
        }
        for one in Attributes::of(rest) {
            let one = one?;
            let range = || match (half(one.value, 0), half(one.value, 2)) {
                (Some(first), Some(last)) => Ok(Some((first, last))),
                _ => Err(MessageError::Malformed("a range of ports is cut")),
            };
            let byte = || one.value.first().copied();
            match one.kind {
                // In the order of linux/fib_rules.h: FRA_DST, SRC, IIFNAME, GOTO, PRIORITY
                1 => rule.to = net(one.address(family)?, header[1])?,
                2 => rule.from = net(one.address(family)?, header[2])?,
                3 => one.text()?.clone_into(&mut rule.device),
                4 => goto = Some(one.word()?),
                6 => rule.priority = one.word()?,
                // FWMARK, FWMASK: a mask of 0 without a mark.
                10 | 16 if one.word()? == 0 => {}
                10 | 16 => rule.unsupported = Some("packet marks (fwmark)"),
                // FLOW: accounting only.
                11 => {}
                12 => rule.unsupported = Some("tunnel keys (tun_id)"),
                // SUPPRESS_IFGROUP and SUPPRESS_PREFIXLEN are always present, with a default value.
                13 if one.word()? == u32::MAX => {}
                13 => rule.unsupported = Some("device groups (suppress_ifgroup)"),
                14 => rule.suppressed = Some(one.word()?).filter(|length| *length != u32::MAX),
                15 => table = one.word()?,
                17 => rule.unsupported = Some("the output device (oif)"),
                18 => {}
                19 if byte() == Some(0) => {}
                19 => rule.unsupported = Some("Linux VRF devices (l3mdev)"),
                20 => rule.unsupported = Some("user ids (uidrange)"),
                21 => rule.protocol = byte().unwrap_or(0),
                22 => rule.ip_protocol = byte().filter(|protocol| *protocol != 0),
                23 => rule.source_ports = range()?,
                24 => rule.destination_ports = range()?,
                25 => rule.dscp = byte(),
                // SPORT_MASK, DPORT_MASK, DSCP_MASK: the default masks match all bits.
                28 | 29 if half(one.value, 0) == Some(u16::MAX) => {}
                30 if byte() == Some(0x3f) => {}
                28..=30 => rule.unsupported = Some("masked ports or DSCP"),
                _ => rule.unsupported = Some("an unknown attribute"),
            }
        }
        rule.action = match (header[7], goto) {
            (1, _) => RuleAction::Table(table),
            (2, Some(to)) => RuleAction::Goto(to),
            (3, _) => RuleAction::Nothing,
            (6, _) => RuleAction::Blackhole,
            (7, _) => RuleAction::Unreachable,
            (8, _) => RuleAction::Prohibit,
            _ => return Err(MessageError::Malformed("a rule does something unknown")),
        };
        Ok(Some(rule))
    }

    /// Builds the body of `RTM_NEWRULE` or `RTM_DELRULE`.
    pub fn write(&self) -> Vec<u8> {
        let length = |net: Option<IpNet>| net.map_or(0, |net| net.prefix_len());
        let (action, table) = match self.action {
            RuleAction::Table(table) => (1, table),
            RuleAction::Goto(_) => (2, 0),
            RuleAction::Nothing => (3, 0),
            RuleAction::Blackhole => (6, 0),
            RuleAction::Unreachable => (7, 0),
            RuleAction::Prohibit => (8, 0),
        };
        let family = if self.is_ip6 { FAMILY_IP6 } else { FAMILY_IP4 };
        // In IPv4 the TOS of a rule covers three bits only, and 0 means any.
        let is_service = self.is_ip6 && self.dscp != Some(0);
        let service = self.dscp.filter(|_| is_service).map_or(0, |dscp| dscp << 2);
        let mut body = vec![family, length(self.to), length(self.from), service];
        body.extend([0, 0, 0, action, 0, 0, 0, 0]);
        let mut put = |kind: u16, value: &[u8]| {
            body.extend((value.len() as u16 + 4).to_ne_bytes());
            body.extend(kind.to_ne_bytes());
            body.extend(value);
            body.resize(body.len().next_multiple_of(4), 0);
        };
        let address = |net: IpNet| match net.network() {
            IpAddr::V4(ip) => ip.octets().to_vec(),
            IpAddr::V6(ip) => ip.octets().to_vec(),
        };
        let ports = |(first, last): (u16, u16)| [first.to_ne_bytes(), last.to_ne_bytes()].concat();
        put(6, &self.priority.to_ne_bytes());
        if table != 0 {
            put(15, &table.to_ne_bytes());
        }
        if let RuleAction::Goto(to) = self.action {
            put(4, &to.to_ne_bytes());
        }
        if !self.device.is_empty() {
            put(3, &[self.device.as_bytes(), &[0]].concat());
        }
        let optional = [
            (1, self.to.map(address)),
            (2, self.from.map(address)),
            (14, self.suppressed.map(|length| length.to_ne_bytes().to_vec())),
            (22, self.ip_protocol.map(|protocol| vec![protocol])),
            (23, self.source_ports.map(ports)),
            (24, self.destination_ports.map(ports)),
            (25, self.dscp.filter(|_| !is_service).map(|dscp| vec![dscp])),
        ];
        for (kind, value) in optional {
            if let Some(value) = value {
                put(kind, &value);
            }
        }
        put(21, &[self.protocol]);
        body
    }
}

/// In the syntax of `ip rule`.
impl std::fmt::Display for Rule {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let family = if self.is_ip6 { " -6" } else { "" };
        write!(out, "ip{family} rule {}", self.priority)?;
        match self.from {
            Some(from) => write!(out, " from {from}")?,
            None => write!(out, " from all")?,
        }
        if let Some(to) = self.to {
            write!(out, " to {to}")?;
        }
        if !self.device.is_empty() {
            write!(out, " iif {}", self.device)?;
        }
        match self.action {
            RuleAction::Table(table) => write!(out, " lookup {table}"),
            RuleAction::Goto(to) => write!(out, " goto {to}"),
            RuleAction::Nothing => write!(out, " nop"),
            RuleAction::Blackhole => write!(out, " blackhole"),
            RuleAction::Unreachable => write!(out, " unreachable"),
            RuleAction::Prohibit => write!(out, " prohibit"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn net(is_ip6: bool) -> impl Strategy<Value = IpNet> {
        (any::<u128>(), 0..=128_u8).prop_map(move |(bits, length)| {
            let four = IpAddr::from((bits as u32).to_be_bytes());
            let address = if is_ip6 { IpAddr::from(bits.to_be_bytes()) } else { four };
            let length = if is_ip6 { length } else { length % 33 };
            IpNet::new(address, length).unwrap().trunc()
        })
    }

    fn action() -> impl Strategy<Value = RuleAction> {
        prop_oneof![
            (1_u32..).prop_map(RuleAction::Table),
            (1_u32..).prop_map(RuleAction::Goto),
            Just(RuleAction::Nothing),
            Just(RuleAction::Blackhole),
            Just(RuleAction::Unreachable),
            Just(RuleAction::Prohibit),
        ]
    }

    fn rule() -> impl Strategy<Value = Rule> {
        any::<bool>().prop_flat_map(|is_ip6| {
            let nets = (proptest::option::of(net(is_ip6)), proptest::option::of(net(is_ip6)));
            let small = (proptest::option::of(0..64_u8), proptest::option::of(1..=255_u8));
            let ports = proptest::option::of((1..=u16::MAX, 1..=u16::MAX));
            let rest = (ports.clone(), ports, proptest::option::of(0..33_u32), any::<u8>());
            (any::<u32>(), nets, "[a-z]{0,15}", small, action(), rest).prop_map(
                move |(priority, (from, to), device, (dscp, ip_protocol), action, rest)| {
                    let (source_ports, destination_ports, suppressed, protocol) = rest;
                    Rule {
                        from,
                        to,
                        device,
                        dscp,
                        ip_protocol,
                        source_ports,
                        destination_ports,
                        suppressed,
                        protocol,
                        ..Rule::new(is_ip6, priority, action)
                    }
                },
            )
        })
    }

    proptest! {
        #[test]
        fn rules_survive_a_round_trip(rule in rule()) {
            prop_assert_eq!(Rule::read(&rule.write()), Ok(Some(rule)));
        }

        #[test]
        fn corrupted_rules_do_not_panic(rule in rule(), at: prop::sample::Index, byte: u8) {
            let mut body = rule.write();
            let place = at.index(body.len());
            body[place] = byte;
            let _ = Rule::read(&body);
            let _ = Rule::read(&body[..place]);
        }
    }

    #[test]
    fn unsupported_selectors_are_named() {
        let plain = Rule::new(false, 100, RuleAction::Table(7));
        let with = |kind: u16, value: &[u8]| {
            let mut body = plain.write();
            body.extend((value.len() as u16 + 4).to_ne_bytes());
            body.extend(kind.to_ne_bytes());
            body.extend(value);
            body.resize(body.len().next_multiple_of(4), 0);
            Rule::read(&body).unwrap().unwrap().unsupported.unwrap_or_default()
        };
        assert_eq!(with(10, &5_u32.to_ne_bytes()), "packet marks (fwmark)");
        assert_eq!(with(10, &[0; 4]), "");
        assert_eq!(with(17, b"eth0\0"), "the output device (oif)");
        assert_eq!(with(19, &[1]), "Linux VRF devices (l3mdev)");
        assert_eq!(with(20, &[0; 8]), "user ids (uidrange)");
        assert_eq!(with(28, &[0xff, 0xff]), "");
        assert_eq!(with(28, &[0xff, 0]), "masked ports or DSCP");
        assert_eq!(with(30, &[0x3f]), "");
        assert_eq!(with(99, &[]), "an unknown attribute");
        let flagged = |flags: u32| {
            let mut body = plain.write();
            body[8..12].copy_from_slice(&flags.to_ne_bytes());
            Rule::read(&body).unwrap().unwrap().unsupported.unwrap_or_default()
        };
        assert_eq!(flagged(2), "inverted selectors (not)");
        assert_eq!(flagged(8), "");
        let with_tos = |is_ip6| {
            let mut body = Rule::new(is_ip6, 7, RuleAction::Nothing).write();
            body[3] = 0x10;
            let rule = Rule::read(&body).unwrap().unwrap();
            (rule.dscp, rule.unsupported)
        };
        assert_eq!(with_tos(false), (None, Some(TOS)));
        assert_eq!(with_tos(true), (Some(4), None));
    }

    #[test]
    fn default_rules_are_recognized() {
        let rule = |priority, table| Rule::new(false, priority, RuleAction::Table(table));
        assert!(rule(0, 255).is_default() && rule(32_766, 254).is_default());
        assert!(Rule { protocol: 2, ..rule(32_767, 253) }.is_default());
        let of_multicast = [vec![129, 0, 0, 0, 254, 0, 0, 1, 0, 0, 0, 0]].concat();
        assert_eq!(Rule::read(&of_multicast), Ok(None));
        assert!(!rule(100, 7).is_default());
        assert!(!Rule { device: "eth0".to_owned(), ..rule(0, 255) }.is_default());
    }
}
