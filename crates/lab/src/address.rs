//! An interface address with its prefix length, as `ip addr` and the configuration write it.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use crate::LabError;

/// An IPv4 or IPv6 address and the length of its prefix, e.g. `198.18.1.1/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// The address.
    pub ip: IpAddr,
    /// 0..=32 or 0..=128.
    pub prefix_length: u8,
}

impl FromStr for Address {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Self, LabError> {
        let parse = || -> Option<Self> {
            let (ip, length) = text.split_once('/')?;
            let ip: IpAddr = ip.parse().ok()?;
            let prefix_length: u8 = length.parse().ok()?;
            let most = if ip.is_ipv4() { 32 } else { 128 };
            (prefix_length <= most).then_some(Self { ip, prefix_length })
        };
        parse().ok_or_else(|| LabError::ParseFailed {
            what: format!("address `{text}`"),
            reason: "write ADDRESS/PREFIX-LENGTH, e.g. 198.18.1.1/24".to_owned(),
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.ip, self.prefix_length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_and_formats() {
        for text in ["198.18.1.1/24", "2001:db8:1::1/64", "198.18.1.1/32"] {
            let address: Address = text.parse().expect("well-formed");
            assert_eq!(address.to_string(), text);
        }
        for text in ["198.18.1.1", "198.18.1.1/33", "2001:db8::/129", "x/1", ""] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
