//! Rule sets from files in the format of ClassBench (Taylor and Turner, 2007): a rule a line, as `@192.0.2.0/24
//! 198.51.100.0/24 0 : 65535 443 : 443 0x06/0xFF`, the prefixes of the source and the destination, the ranges of their
//! ports, and the protocol with its mask. What follows, the flags of such files, is left out. Lines that are empty or
//! begin with `#` are comments.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::{FromStr, SplitWhitespace};
use std::sync::Arc;

use ipnet::IpNet;
use stoa_tables::classifier::{Prefix, Range, Rule};

use super::rules::{MOST_RULES, RuleSet, generate};

/// Rules that are generated, or those of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rules {
    /// Generated ones.
    Generated(RuleSet),
    /// Those of a file, of both families.
    File(PathBuf, Arc<[Rule]>),
}

impl Rules {
    /// Their number, in both families together, with the last one, which all packets meet.
    #[must_use]
    pub fn count(&self) -> usize {
        match self {
            Self::Generated(set) => set.rules,
            Self::File(_, rules) => rules.len() + 1,
        }
    }

    /// The rules that packets of a family can meet. The last one is met by all.
    #[must_use]
    pub fn of_family(&self, is_ip6: bool, seed: u64) -> Vec<Rule> {
        let rules = match self {
            Self::Generated(set) => return generate(*set, is_ip6, seed),
            Self::File(_, rules) => rules,
        };
        let is_other = |prefix: &Option<Prefix>| match prefix {
            Some(Prefix::Ip4 { .. }) => is_ip6,
            Some(Prefix::Ip6 { .. }) => !is_ip6,
            None => false,
        };
        let of_family =
            rules.iter().filter(|it| !is_other(&it.source) && !is_other(&it.destination));
        of_family.copied().chain([Rule::default()]).collect()
    }
}

impl FromStr for Rules {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let kind = text.split_once(':').map(|(kind, _)| kind);
        if matches!(kind, Some("acl" | "firewall" | "chain")) {
            return text.parse().map(Self::Generated);
        }
        let path = Path::new(text);
        let content = std::fs::read_to_string(path).map_err(|error| {
            format!("{text}: {error}; give acl:N, firewall:N, chain:N, or a file of ClassBench")
        })?;
        let lines = (1..).zip(content.lines());
        let lines = lines
            .filter(|(_, line)| !line.trim().is_empty() && !line.trim_start().starts_with('#'));
        let rules = lines.map(|(number, line)| {
            rule(line).map_err(|cause| format!("{text}: line {number}: {cause}"))
        });
        let rules: Arc<[Rule]> = rules.collect::<Result<_, _>>()?;
        match rules.len() {
            0 => Err(format!("{text}: there is no rule in it")),
            1..MOST_RULES => Ok(Self::File(path.to_owned(), rules)),
            count => Err(format!("{text}: {count} rules; give fewer than {MOST_RULES}")),
        }
    }
}

impl fmt::Display for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Generated(set) => set.fmt(f),
            Self::File(path, _) => path.display().fmt(f),
        }
    }
}

/// The rule of a line.
fn rule(line: &str) -> Result<Rule, String> {
    let line = line.trim_start().strip_prefix('@').ok_or("it does not begin with @")?;
    let mut words = line.split_whitespace();
    let (source, destination) = (prefix(&mut words)?, prefix(&mut words)?);
    let (source_ports, destination_ports) = (ports(&mut words)?, ports(&mut words)?);
    let protocol = protocol(words.next().ok_or("there is no protocol")?)?;
    let has_ports = source_ports != Range::ANY || destination_ports != Range::ANY;
    if has_ports && protocol.is_none() {
        return Err("ports without a protocol".to_owned());
    }
    Ok(Rule { source, destination, protocol, source_ports, destination_ports, ..Rule::default() })
}

/// A prefix; `None`: that of all addresses.
fn prefix(words: &mut SplitWhitespace<'_>) -> Result<Option<Prefix>, String> {
    let word = words.next().ok_or("a prefix is missing")?;
    let net: IpNet = word.parse().map_err(|error| format!("{word}: {error}"))?;
    Ok((net.prefix_len() > 0).then(|| match net.trunc() {
        IpNet::V4(net) => Prefix::Ip4 { address: net.network().to_bits(), len: net.prefix_len() },
        IpNet::V6(net) => Prefix::Ip6 { address: net.network().to_bits(), len: net.prefix_len() },
    }))
}

/// A range of ports: `first : last`.
fn ports(words: &mut SplitWhitespace<'_>) -> Result<Range, String> {
    let mut next = || words.next().ok_or_else(|| "a range of ports is missing".to_owned());
    let (first, colon, last) = (next()?, next()?, next()?);
    let number = |word: &str| word.parse::<u16>().map_err(|error| format!("{word}: {error}"));
    let range = Range { first: number(first)?, last: number(last)? };
    match colon {
        ":" if range.first <= range.last => Ok(range),
        ":" => Err(format!("the range {first} : {last} is upside down")),
        _ => Err(format!("{colon}: give first : last")),
    }
}

/// A protocol with its mask, as `0x06/0xFF`; `None`: any.
fn protocol(word: &str) -> Result<Option<u8>, String> {
    let (protocol, mask) =
        word.split_once('/').ok_or_else(|| format!("{word}: give protocol/mask"))?;
    let byte = |word: &str| {
        let digits =
            word.strip_prefix("0x").ok_or_else(|| format!("{word}: give 0x and digits"))?;
        u8::from_str_radix(digits, 16).map_err(|error| format!("{word}: {error}"))
    };
    match byte(mask)? {
        0 => Ok(None),
        0xff => byte(protocol).map(Some),
        _ => Err(format!("{word}: the mask is 0x00 or 0xFF")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_of_a_file_are_those_of_its_family_and_one_for_all() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let lines = [
            "# made by hand",
            "@192.0.2.1/24\t198.51.100.9/32\t0 : 65535\t443 : 443\t0x06/0xFF\t0x0000/0x0200",
            "@0.0.0.0/0 10.0.0.0/8 0 : 65535 0 : 65535 0x00/0x00",
            "@2001:db8::/32 ::/0 1 : 9 0 : 65535 0x11/0xFF",
            "",
        ];
        std::fs::write(file.path(), lines.join("\n")).unwrap();
        let rules: Rules = file.path().to_str().unwrap().parse().unwrap();
        assert_eq!(rules.count(), 4);
        let four = rules.of_family(false, 1);
        assert_eq!(four.len(), 3);
        assert_eq!(four[0].source, Some(Prefix::Ip4 { address: 0xc000_0200, len: 24 }));
        assert_eq!((four[0].destination_ports, four[0].protocol), (Range::one(443), Some(6)));
        assert_eq!((four[1].source, four[1].protocol), (None, None));
        assert_eq!(four[2], Rule::default());
        let six = rules.of_family(true, 1);
        assert_eq!((six.len(), six[0].source_ports), (2, Range { first: 1, last: 9 }));
        assert_eq!("firewall:7".parse::<Rules>().unwrap().to_string(), "firewall:7");
    }

    #[test]
    fn what_is_no_rule_is_refused_with_its_line() {
        let refused = |line: &str| rule(line).unwrap_err();
        assert_eq!(refused("192.0.2.0/24"), "it does not begin with @");
        assert!(refused("@192.0.2.0/33 0.0.0.0/0 0 : 1 0 : 1 0x06/0xFF").contains("192.0.2.0/33"));
        assert!(refused("@0.0.0.0/0 0.0.0.0/0 9 : 1 0 : 1 0x06/0xFF").contains("upside down"));
        assert!(refused("@0.0.0.0/0 0.0.0.0/0 0 : 1 0 : 65536 0x06/0xFF").contains("65536"));
        assert!(
            refused("@0.0.0.0/0 0.0.0.0/0 0 : 1 0 - 1 0x06/0xFF").contains("give first : last")
        );
        assert!(refused("@0.0.0.0/0 0.0.0.0/0 0 : 1 0 : 1 0x06/0x0F").contains("the mask is"));
        assert!(
            refused("@0.0.0.0/0 0.0.0.0/0 0 : 1 0 : 1 0x00/0x00").contains("without a protocol")
        );
        assert!("/no/such/file".parse::<Rules>().unwrap_err().contains("give acl:N"));
    }
}
