//! The JSON form of the desired state: names instead of the numbers of enumerations, addresses and prefixes as text. A
//! field that is a leaf of the configuration is read from it in this form, which is that of RFC 7951.
//!
//! `build.rs` derives it for the messages; this file has what is not a message of its own.

use std::fmt;
use std::net::IpAddr;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::text::{ip_bytes, ip_text, mac_text};
use crate::v1;

/// The fields that are leaves of the configuration, such as `FamilyOptions.redirects`, and the names of these.
pub const LEAVES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/leaves.rs"));

/// A module for fields of an enumeration; with the name of a function that reads them, if some are leaves.
macro_rules! enumeration {
    ($name:ident $($read:ident)? $(, $number:literal $text:literal)*) => {
        pub(crate) mod $name {
            const NAMES: &[(i32, &str)] = &[$(($number, $text)),*];

            pub(crate) fn serialize<S: serde::Serializer>(value: &i32, to: S) -> Result<S::Ok, S::Error> {
                super::write_name(*value, NAMES, to)
            }

            $(pub(crate) fn $read<'de, D: serde::Deserializer<'de>>(from: D) -> Result<i32, D::Error> {
                super::read_name(from, NAMES)
            })?
        }
    };
}
include!(concat!(env!("OUT_DIR"), "/enumerations.rs"));

fn write_name<S: Serializer>(value: i32, names: &[(i32, &str)], to: S) -> Result<S::Ok, S::Error> {
    match names.iter().find(|(number, _)| *number == value) {
        Some((_, name)) => to.serialize_str(name),
        None => to.serialize_i32(value),
    }
}

fn read_name<'de, D: Deserializer<'de>>(from: D, names: &[(i32, &str)]) -> Result<i32, D::Error> {
    let text = String::deserialize(from)?;
    let found = names.iter().find(|(_, name)| *name == text);
    found.map(|(number, _)| *number).ok_or_else(|| D::Error::custom(format!("{text:?} is unknown")))
}

/// 4 or 16 bytes are an IP address, 6 a MAC address; any other number is in hexadecimal digits.
fn bytes_text(bytes: &[u8]) -> String {
    match bytes.len() {
        0 => String::new(),
        4 | 16 => ip_text(bytes),
        _ => mac_text(bytes),
    }
}

pub(crate) mod bytes {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&bytes_text(bytes))
    }

    /// An IP address.
    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        Ok(ip_bytes(IpAddr::deserialize(from)?))
    }
}

pub(crate) mod bytes_list {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(list: &[Vec<u8>], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(list.iter().map(|bytes| bytes_text(bytes)))
    }
}

/// A 64-bit number, which is a string in RFC 7951, section 6.1.
pub(crate) fn number_in_text<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    struct Number;
    impl Visitor<'_> for Number {
        type Value = u64;

        fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
            to.write_str("a number")
        }

        fn visit_u64<E: Error>(self, value: u64) -> Result<u64, E> {
            Ok(value)
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<u64, E> {
            text.parse().map_err(E::custom)
        }
    }
    from.deserialize_any(Number)
}

/// Messages that are one text. Their `Display` names each field, so that a new one cannot be forgotten.
macro_rules! texts {
    ($($message:ident),*) => {$(
        impl Serialize for v1::$message {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }
    )*};
}
texts!(Address, Path, Prefix, Tag);

/// "192.0.2.0/24". Host bits are cleared.
impl<'de> Deserialize<'de> for v1::Prefix {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let parsed = text.split_once('/').and_then(|(address, length)| {
            let (address, length): (IpAddr, u32) = (address.parse().ok()?, length.parse().ok()?);
            let mut address = ip_bytes(address);
            for (at, byte) in (0_u32..).zip(&mut address) {
                let kept = length.saturating_sub(at * 8).min(8);
                *byte &= !(0xff_u16 >> kept) as u8;
            }
            (length as usize <= address.len() * 8).then_some(v1::Prefix { address, length })
        });
        parsed.ok_or_else(|| D::Error::custom(format!("{text:?} is not a prefix")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::de::IntoDeserializer;
    use serde::de::value::{Error, StrDeserializer};

    fn from(text: &str) -> StrDeserializer<'_, Error> {
        text.into_deserializer()
    }

    #[test]
    fn names_are_those_of_yang() {
        assert_eq!(huge_pages::deserialize(from("if-available")), Ok(0));
        assert_eq!(xdp_bind::deserialize(from("zero-copy")), Ok(v1::XdpBind::BindZeroCopy.into()));
        assert!(polling::deserialize(from("often")).is_err());
    }

    #[test]
    fn prefixes_lose_their_host_bits() {
        let read = |text| v1::Prefix::deserialize(from(text)).map(|prefix| prefix.to_string());
        assert_eq!(read("10.1.2.3/8").as_deref(), Ok("10.0.0.0/8"));
        assert_eq!(read("10.1.2.3/23").as_deref(), Ok("10.1.2.0/23"));
        assert_eq!(read("2001:db8::1/128").as_deref(), Ok("2001:db8::1/128"));
        assert_eq!(read("2001:db8:ffff::/33").as_deref(), Ok("2001:db8:8000::/33"));
        for wrong in ["10.0.0.0", "10.0.0.0/33", "::/129", "a/8"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn long_numbers_are_texts() {
        assert_eq!(number_in_text(from("18446744073709551615")), Ok(u64::MAX));
        assert!(number_in_text(from("-1")).is_err());
        assert_eq!(bytes::deserialize(from("192.0.2.1")), Ok(vec![192, 0, 2, 1]));
    }
}
