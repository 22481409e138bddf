//! A field in a run file: one value, or values that vary from packet to packet.

use std::net::{Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Deserializer, de};
use stoa_wire::ethernet::Mac;

use crate::generate::values::{Order, Values, Walk};
use crate::prefixes::{self, Source};
use crate::random::Random;

/// The longest list of values.
const LIST_MAX: usize = 1 << 20;

/// A field in a run file.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldText {
    /// One value.
    One(String),
    /// A value that changes.
    Many(Box<ChangeText>),
}

/// How a field varies: exactly one kind, and its options.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ChangeText {
    /// `FIRST-LAST`, or a prefix: consecutive values.
    pub range: Option<Text>,
    /// Values in turn.
    pub list: Option<Vec<Text>>,
    /// `FIRST-LAST`, or a prefix: random values.
    pub random: Option<Text>,
    /// `FIRST-LAST`, or a prefix: random by Zipf's law, the first values most often.
    pub zipf: Option<Text>,
    /// A file of prefixes, or `synthetic:N`: a host in each.
    pub prefixes: Option<Text>,
    /// Difference between consecutive values of a range; default 1.
    pub step: Option<u64>,
    /// Consecutive packets with the same value; default 1.
    pub every: Option<u64>,
    /// The order of a list or of prefixes.
    pub order: Option<OrderText>,
}

/// The order of a list.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum OrderText {
    /// One after the other.
    Turn,
    /// Random.
    Random,
    /// Random by Zipf's law, the first values most often.
    Zipf,
}

/// A scalar, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text(pub String);

impl std::str::FromStr for Text {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self(text.to_owned()))
    }
}

super::quantity::read_text!(Text);

impl<'de> Deserialize<'de> for FieldText {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Field;
        impl<'de> de::Visitor<'de> for Field {
            type Value = FieldText;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a value, or one of range, list, random, zipf and prefixes")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<FieldText, E> {
                Ok(FieldText::One(text.to_owned()))
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<FieldText, E> {
                Ok(FieldText::One(number.to_string()))
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<FieldText, E> {
                Ok(FieldText::One(number.to_string()))
            }
            fn visit_map<A: de::MapAccess<'de>>(self, from: A) -> Result<FieldText, A::Error> {
                let change = ChangeText::deserialize(de::value::MapAccessDeserializer::new(from));
                change.map(|change| FieldText::Many(Box::new(change)))
            }
        }
        from.deserialize_any(Field)
    }
}

/// The type of a field's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Mac,
    Vlan,
    Ip4,
    Ip6,
    /// A number of 16 bits.
    Number,
}

impl Kind {
    fn value(self, text: &str) -> Result<u128, String> {
        let text = text.trim();
        match self {
            Self::Mac => {
                let mac: Mac = text.parse().map_err(|error| format!("{text:?} is {error}"))?;
                let [a, b, c, d, e, f] = mac.0;
                Ok(u64::from_be_bytes([0, 0, a, b, c, d, e, f]).into())
            }
            Self::Ip4 => {
                let address: Ipv4Addr =
                    text.parse().map_err(|_| format!("{text:?} is no IPv4 address"))?;
                Ok(address.to_bits().into())
            }
            Self::Ip6 => {
                let address: Ipv6Addr =
                    text.parse().map_err(|_| format!("{text:?} is no IPv6 address"))?;
                Ok(address.to_bits())
            }
            Self::Vlan | Self::Number => {
                let most = if self == Self::Vlan { 4094 } else { 65_535 };
                let number: u16 = text.parse().unwrap_or(u16::MAX);
                if text.parse::<u16>().is_err() || number > most {
                    return Err(format!("{text:?} is no number from 0 to {most}"));
                }
                Ok(number.into())
            }
        }
    }

    /// First value and number of values of `FIRST-LAST` or a prefix.
    fn range(self, text: &str, step: u64) -> Result<(u128, u64), String> {
        let step = u128::from(step.max(1));
        let (first, last) = if let Some((address, length)) = text.split_once('/') {
            let bits = match self {
                Self::Ip4 => 32,
                Self::Ip6 => 128,
                _ => return Err(format!("{text:?}: only addresses have prefixes")),
            };
            let length: u32 = length.parse().unwrap_or(u32::MAX);
            if length > bits {
                return Err(format!("{text:?}: the length is not between 0 and {bits}"));
            }
            let hosts = if bits == length { 0 } else { u128::MAX >> (128 - (bits - length)) };
            let first = self.value(address)?;
            if first & hosts != 0 {
                return Err(format!("{text:?} has host bits set: give the network's address"));
            }
            (first, first | hosts)
        } else {
            let wrong = || format!("{text:?} is no range: write FIRST-LAST");
            let (first, last) = text.split_once('-').ok_or_else(wrong)?;
            (self.value(first)?, self.value(last)?)
        };
        let span =
            last.checked_sub(first).ok_or(format!("{text:?}: the last is before the first"))?;
        Ok((first, (span / step).saturating_add(1).min(u64::MAX.into()) as u64))
    }
}

impl FieldText {
    /// The value of a constant field, or the first value of a varying one.
    pub(super) fn first(&self, kind: Kind) -> Result<u128, String> {
        match self {
            Self::One(text) => kind.value(text),
            Self::Many(_) => self.walk(kind).map(|walk| walk.value()),
        }
    }

    /// The sequence of values.
    pub(super) fn walk(&self, kind: Kind) -> Result<Walk, String> {
        let change = match self {
            Self::One(text) => {
                return Ok(Walk::new(Values::one(kind.value(text)?), Order::Turn, 1));
            }
            Self::Many(change) => change,
        };
        let step = change.step.unwrap_or(1);
        let given = [
            change.range.is_some(),
            change.list.is_some(),
            change.random.is_some(),
            change.zipf.is_some(),
            change.prefixes.is_some(),
        ];
        if given.iter().filter(|is| **is).count() != 1 {
            return Err("give exactly one of range, list, random, zipf and prefixes".to_owned());
        }
        let spread = |text: &Text| {
            let (first, count) = kind.range(&text.0, step)?;
            Ok::<_, String>((Values::Range { first, step: step.max(1).into(), count }, count))
        };
        let (values, default) = if let Some(range) = &change.range {
            (spread(range)?.0, OrderText::Turn)
        } else if let Some(range) = &change.random {
            (spread(range)?.0, OrderText::Random)
        } else if let Some(range) = &change.zipf {
            (spread(range)?.0, OrderText::Zipf)
        } else if let Some(list) = &change.list {
            if list.is_empty() || list.len() > LIST_MAX {
                return Err(format!("{} values: give 1 to {LIST_MAX}", list.len()));
            }
            let list: Result<Vec<u128>, String> =
                list.iter().map(|one| kind.value(&one.0)).collect();
            (Values::List(list?.into()), OrderText::Turn)
        } else {
            let source = change.prefixes.as_ref().map_or("", |source| source.0.as_str());
            (Values::List(hosts(kind, source)?.into()), OrderText::Turn)
        };
        let is_list = matches!(values, Values::List(_));
        if (change.order.is_some() && !is_list) || (change.step.is_some() && is_list) {
            return Err("order is for list and prefixes, step for the others".to_owned());
        }
        let order = match change.order.unwrap_or(default) {
            OrderText::Turn => Order::Turn,
            OrderText::Random => Order::Random,
            OrderText::Zipf => Order::zipf(values.count()),
        };
        Ok(Walk::new(values, order, change.every.unwrap_or(1)))
    }
}

/// A host in each prefix of a table.
fn hosts(kind: Kind, source: &str) -> Result<Vec<u128>, String> {
    let source: Source = source.parse()?;
    let mut random = Random::new(1);
    fn of<K: prefixes::Family + Into<u128>>(
        source: &Source,
        random: &mut Random,
    ) -> Result<Vec<u128>, String> {
        let prefixes = prefixes::load::<K>(source).map_err(|error| error.to_string())?;
        Ok(prefixes.into_iter().map(|(network, len)| network.inside(len, random).into()).collect())
    }
    match kind {
        Kind::Ip4 => of::<u32>(&source, &mut random),
        Kind::Ip6 => of::<u128>(&source, &mut random),
        _ => Err("prefixes are for IP addresses".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(kind: Kind, yaml: &str) -> Result<Walk, String> {
        let field: FieldText = serde_saphyr::from_str(yaml).map_err(|error| error.to_string())?;
        field.walk(kind)
    }

    fn take(kind: Kind, yaml: &str, count: usize) -> Vec<u128> {
        crate::generate::values::take(&mut walk(kind, yaml).unwrap(), count)
    }

    #[test]
    fn parses_fields() {
        assert_eq!(take(Kind::Number, "9", 2), [9, 9]);
        assert_eq!(take(Kind::Number, "{range: 5-7}", 4), [5, 6, 7, 5]);
        assert_eq!(take(Kind::Number, "{range: 5-9, step: 2, every: 2}", 5), [5, 5, 7, 7, 9]);
        assert_eq!(take(Kind::Number, "{list: [1, 5]}", 3), [1, 5, 1]);
        assert_eq!(take(Kind::Ip4, "{range: 10.0.0.0/30}", 5)[4], 0x0a00_0000);
        assert_eq!(take(Kind::Ip4, "10.0.0.1", 1), [0x0a00_0001]);
        assert_eq!(
            take(Kind::Ip6, "{range: '2001:db8::-2001:db8::1'}", 2)[1],
            (0x2001_0db8 << 96) + 1
        );
        assert_eq!(take(Kind::Mac, "02:00:00:00:00:07", 1), [0x0200_0000_0007]);
        let random = take(Kind::Ip4, "{random: 10.0.0.0/8}", 100);
        assert!(random.iter().all(|one| one >> 24 == 10));
        assert!(take(Kind::Ip4, "{zipf: 10.0.0.0/8}", 100).contains(&0x0a00_0000));
        assert_eq!(walk(Kind::Ip6, "{random: '2001:db8::/32'}").map(|_| ()), Ok(()));
        assert_eq!(take(Kind::Ip4, "{prefixes: 'synthetic:50', order: random}", 9).len(), 9);
    }

    #[test]
    fn rejects_invalid_fields() {
        for (kind, yaml, reason) in [
            (Kind::Number, "70000", "no number from 0 to 65535"),
            (Kind::Vlan, "4095", "no number from 0 to 4094"),
            (Kind::Ip4, "::1", "no IPv4 address"),
            (Kind::Mac, "1-2", "not a MAC address"),
            (Kind::Number, "{range: 7-5}", "the last is before the first"),
            (Kind::Number, "{range: 5}", "write FIRST-LAST"),
            (Kind::Ip4, "{range: 10.0.0.1/8}", "host bits"),
            (Kind::Ip4, "{range: 10.0.0.0/33}", "not between 0 and 32"),
            (Kind::Number, "{range: 1-2, list: [1]}", "exactly one"),
            (Kind::Number, "{}", "exactly one"),
            (Kind::Number, "{list: []}", "give 1 to"),
            (Kind::Number, "{prefixes: 'synthetic:9'}", "for IP addresses"),
            (Kind::Number, "{range: 1-2, order: turn}", "order is for"),
            (Kind::Number, "{rnge: 1-2}", "rnge"),
            (Kind::Ip4, "{prefixes: /no/such/file}", "/no/such/file"),
        ] {
            let error = walk(kind, yaml).expect_err(yaml);
            assert!(error.contains(reason), "{yaml}: {error}");
        }
    }
}
