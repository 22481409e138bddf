//! Which routes `stoa show routes` requests: by address, prefix, protocol, family and VRF.

use std::net::IpAddr;

use stoa_api::text::ip_bytes;
use stoa_api::v1::{ListRoutesRequest, Prefix, Protocol};

use crate::failure::Failure;

/// The destination of routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// The longest match of this address; of inactive routes, all that cover it.
    Address(IpAddr),
    /// This prefix and all prefixes below it.
    Prefix(IpAddr, u8),
}

impl std::str::FromStr for Destination {
    type Err = String;

    fn from_str(text: &str) -> Result<Destination, String> {
        let wrong =
            || "use an address such as 10.2.0.9, or a prefix such as 10.2.0.0/16".to_owned();
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        match length.map(str::parse::<u8>) {
            None => Ok(Destination::Address(address)),
            Some(Ok(length)) if length <= bits => Ok(Destination::Prefix(address, length)),
            Some(_) => Err(wrong()),
        }
    }
}

/// A selection of routes.
#[derive(Clone, Debug)]
pub struct RouteQuery<'a> {
    /// `None`: all destinations.
    pub to: Option<Destination>,
    /// 4, 6, or 0 for both.
    pub family: u32,
    /// "" is the default VRF, "all" selects all VRFs.
    pub vrf: &'a str,
    /// Select the routes that are not in use.
    pub inactive: bool,
    /// `None`: all protocols.
    pub protocol: Option<Protocol>,
}

impl RouteQuery<'_> {
    /// The request of the contract.
    ///
    /// # Errors
    /// The address is not of the family.
    pub fn request(&self) -> Result<ListRoutesRequest, Failure> {
        let prefix = |address, length: u8| {
            Some(Prefix { address: ip_bytes(address), length: length.into() })
        };
        let (address, longest_match, within) = match self.to {
            None => (None, None, None),
            Some(Destination::Address(it)) => {
                (Some(it), prefix(it, if it.is_ipv4() { 32 } else { 128 }), None)
            }
            Some(Destination::Prefix(it, length)) => (Some(it), None, prefix(it, length)),
        };
        if let Some(address) = address.filter(|it| it.is_ipv4() == (self.family == 6))
            && self.family != 0
        {
            let family = self.family;
            return Err(Failure::Usage(format!(
                "{address} is not an IPv{family} address: leave --family {family} out, or use \
                 `show ip route` for IPv4 and `show ipv6 route` for IPv6"
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

    /// The message for an empty selection.
    pub fn empty_message(&self) -> String {
        let of = self.protocol.map(|it| format!(" of {it}")).unwrap_or_default();
        match self.to {
            _ if self.inactive => format!("No inactive routes{of}."),
            None => format!("No routes{of}."),
            Some(Destination::Address(address)) => format!("No route{of} matches {address}."),
            Some(Destination::Prefix(address, length)) => format!(
                "No routes{of} to {address}/{length} or below it. \
                 `stoa show routes {address}` shows the route that its first address takes."
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_selected_by_address_or_prefix() {
        let query = |to: &str, family| RouteQuery {
            to: Some(to.parse().unwrap()),
            family,
            vrf: "",
            inactive: false,
            protocol: Some(Protocol::Bgp),
        };
        let request = query("10.2.0.9", 4).request().unwrap();
        assert_eq!(request.longest_match.map(|it| it.to_string()), Some("10.2.0.9/32".into()));
        assert_eq!(request.protocol, Some(Protocol::Bgp.into()));
        let request = query("2001:db8::/32", 0).request().unwrap();
        assert_eq!(request.within.map(|it| it.to_string()), Some("2001:db8::/32".into()));
        assert!(matches!(query("10.2.0.9", 6).request(), Err(Failure::Usage(_))));
        assert!(matches!(query("fd00::/8", 4).request(), Err(Failure::Usage(_))));
        for wrong in ["10.2.0", "10.2.0.0/33", "10.2.0.0/", "audti", "::/129"] {
            assert!(wrong.parse::<Destination>().is_err(), "{wrong}");
        }
        assert_eq!(query("10.2.0.9", 0).empty_message(), "No route of bgp matches 10.2.0.9.");
        assert!(
            query("10.2.0.0/24", 0).empty_message().contains("`stoa show routes 10.2.0.0` shows")
        );
    }
}
