//! Which routes an operator asks for: all, those that lead to an address or a prefix, those of a protocol.

use std::net::IpAddr;

use stoa_api::text::ip_bytes;
use stoa_api::v1::{ListRoutesRequest, Prefix, Protocol};

use crate::failure::Failure;

/// Where the routes that are wanted lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// The one that takes this address; of those that are not in use, all that cover it.
    Address(IpAddr),
    /// The one to this prefix and all below it.
    Prefix(IpAddr, u8),
}

impl std::str::FromStr for To {
    type Err = String;

    fn from_str(text: &str) -> Result<To, String> {
        let wrong =
            || "neither an address nor a prefix, such as 10.2.0.9 or 10.2.0.0/16".to_owned();
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        match length.map(str::parse::<u8>) {
            None => Ok(To::Address(address)),
            Some(Ok(length)) if length <= bits => Ok(To::Prefix(address, length)),
            Some(_) => Err(wrong()),
        }
    }
}

/// Which routes are wanted.
#[derive(Clone, Debug)]
pub struct Asked<'a> {
    /// Those that lead there; `None`: all.
    pub to: Option<To>,
    /// 4, 6, or 0 for both.
    pub family: u32,
    /// "" is the default one, "all" every one.
    pub vrf: &'a str,
    /// Those that are not in use.
    pub inactive: bool,
    /// Those of this one.
    pub protocol: Option<Protocol>,
}

impl Asked<'_> {
    /// In the words of the contract.
    ///
    /// # Errors
    /// The family is not that of the address.
    pub fn request(&self) -> Result<ListRoutesRequest, Failure> {
        let prefix = |address, length: u8| {
            Some(Prefix { address: ip_bytes(address), length: length.into() })
        };
        let (address, longest_match, within) = match self.to {
            None => (None, None, None),
            Some(To::Address(it)) => {
                (Some(it), prefix(it, if it.is_ipv4() { 32 } else { 128 }), None)
            }
            Some(To::Prefix(it, length)) => (Some(it), None, prefix(it, length)),
        };
        if let Some(address) = address.filter(|it| it.is_ipv4() == (self.family == 6))
            && self.family != 0
        {
            let family = self.family;
            return Err(Failure::Usage(format!(
                "{address} is not of IPv{family}: leave --family {family} out"
            )));
        }
        Ok(ListRoutesRequest {
            family: self.family,
            longest_match,
            within,
            vrf: self.vrf.to_owned(),
            inactive: self.inactive,
            protocol: self.protocol.map(Into::into),
            ..ListRoutesRequest::default()
        })
    }

    /// What is said when there is none.
    pub fn none(&self) -> String {
        let of = self.protocol.map(|it| format!(" of {it}")).unwrap_or_default();
        match self.to {
            _ if self.inactive => format!("No route{of} that is not in use."),
            None => format!("No routes{of}."),
            Some(To::Address(address)) => format!("No route{of} takes {address}."),
            Some(To::Prefix(address, length)) => format!(
                "No route{of} to {address}/{length} or below it. \
                 `stoa show routes {address}` shows the one that takes its first address."
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_or_a_prefix_is_asked_for() {
        let asked = |to: &str, family| Asked {
            to: Some(to.parse().unwrap()),
            family,
            vrf: "",
            inactive: false,
            protocol: Some(Protocol::Bgp),
        };
        let request = asked("10.2.0.9", 4).request().unwrap();
        assert_eq!(request.longest_match.map(|it| it.to_string()), Some("10.2.0.9/32".into()));
        assert_eq!(request.protocol, Some(Protocol::Bgp.into()));
        let request = asked("2001:db8::/32", 0).request().unwrap();
        assert_eq!(request.within.map(|it| it.to_string()), Some("2001:db8::/32".into()));
        assert!(matches!(asked("10.2.0.9", 6).request(), Err(Failure::Usage(_))));
        assert!(matches!(asked("fd00::/8", 4).request(), Err(Failure::Usage(_))));
        for wrong in ["10.2.0", "10.2.0.0/33", "10.2.0.0/", "audti", "::/129"] {
            assert!(wrong.parse::<To>().is_err(), "{wrong}");
        }
        assert_eq!(asked("10.2.0.9", 0).none(), "No route of bgp takes 10.2.0.9.");
        assert!(asked("10.2.0.0/24", 0).none().contains("`stoa show routes 10.2.0.0` shows"));
    }
}
