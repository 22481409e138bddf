//! Login of hosts of an interface, of the contract, checked.

use std::net::IpAddr;

use stoa_api::login::{ADDRESSES, GARDEN, HOST_RATE, is_redirect};
use stoa_api::v1;

use super::{Prefix, ValidationErrors, address, bits, message, network};
use crate::control::listing::octets;

/// What hosts may do that have not logged in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Login {
    /// Destinations that they reach.
    pub garden: Vec<Prefix>,
    /// Name servers besides the router.
    pub name_servers: Vec<IpAddr>,
    /// Addresses of the portal.
    pub portal: Vec<IpAddr>,
    /// The TCP port of the portal.
    pub portal_port: u16,
    /// Where HTTP of IPv4 and of IPv6 is redirected to; "": nowhere.
    pub redirect: [String; 2],
    /// What each host may send in a second to name servers, DHCP and the portal, and how often it is answered; 0: as
    /// [`Rates`](crate::login::shares::Rates) says.
    pub rates: [u32; 2],
}

impl Login {
    /// As in the contract.
    pub(in crate::control) fn message(&self) -> v1::InterfaceLogin {
        let addresses = |all: &[IpAddr]| all.iter().copied().map(octets).collect();
        v1::InterfaceLogin {
            garden: self.garden.iter().copied().map(message::prefix).collect(),
            name_servers: addresses(&self.name_servers),
            portal_addresses: addresses(&self.portal),
            portal_port: self.portal_port.into(),
            redirect4: self.redirect[0].clone(),
            redirect6: self.redirect[1].clone(),
            host_query_rate: self.rates[0],
            host_answer_rate: self.rates[1],
        }
    }
}

/// A prefix without host bits.
fn prefix(prefix: &v1::Prefix) -> Option<Prefix> {
    let ip = address(&prefix.address)?;
    let length = u8::try_from(prefix.length).ok().filter(|it| *it <= bits(ip))?;
    (network(ip, length) == ip).then_some((ip, length))
}

/// The settings of an interface; `None`: they are wrong.
pub(super) fn login(
    message: &v1::InterfaceLogin,
    path: &str,
    errors: &mut ValidationErrors,
) -> Option<Login> {
    let addresses = |all: &[Vec<u8>]| -> Option<Vec<IpAddr>> {
        (all.len() <= ADDRESSES).then(|| all.iter().map(|it| address(it)).collect())?
    };
    let mut wrong = |cause: &str, fix| errors.add(path.to_owned(), cause, fix);
    let garden: Option<Vec<Prefix>> = message.garden.iter().map(prefix).collect();
    let Some(garden) = garden.filter(|it| it.len() <= GARDEN) else {
        wrong(
            "has a walled garden with too many prefixes, or with a wrong one",
            "Use at most 1,024 prefixes without host bits.",
        );
        return None;
    };
    let (names, portal) = (&message.name_servers, &message.portal_addresses);
    let (Some(name_servers), Some(portal)) = (addresses(names), addresses(portal)) else {
        wrong(
            "has too many name servers or addresses of a portal, or a wrong one",
            "Use at most 16 addresses of 4 or 16 bytes.",
        );
        return None;
    };
    let Ok(portal_port) = u16::try_from(message.portal_port) else {
        wrong("has a portal at a port that does not exist", "Use a port from 1 to 65535.");
        return None;
    };
    let redirect = [message.redirect4.clone(), message.redirect6.clone()];
    if redirect.iter().any(|it| !it.is_empty() && !is_redirect(it)) {
        wrong(
            "redirects HTTP to something that is not an address of a portal",
            "Use https:// with at most 255 visible ASCII characters.",
        );
        return None;
    }
    let rates = [message.host_query_rate, message.host_answer_rate];
    if rates.iter().any(|it| *it > HOST_RATE) {
        wrong(
            "lets a host send or be answered more often than one can",
            "Use at most 1,000,000 packets a second.",
        );
        return None;
    }
    Some(Login { garden, name_servers, portal, portal_port, redirect, rates })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn causes(change: impl FnOnce(&mut v1::InterfaceLogin)) -> Vec<String> {
        let mut message = v1::InterfaceLogin {
            garden: vec![v1::Prefix { address: vec![192, 0, 2, 0], length: 24 }],
            name_servers: vec![vec![9, 9, 9, 9]],
            portal_addresses: vec![vec![0; 16]],
            portal_port: 8444,
            redirect4: "https://portal.example:8444/".to_owned(),
            redirect6: "https://portal.example:8444/".to_owned(),
            host_query_rate: 200,
            host_answer_rate: 100,
        };
        change(&mut message);
        let mut errors = ValidationErrors::default();
        let checked = login(&message, "interface", &mut errors);
        assert_eq!(checked.is_none(), !errors.0.is_empty());
        if let Some(checked) = checked {
            assert_eq!(checked.message(), message);
        }
        errors.0.into_iter().map(|it| it.cause).collect()
    }

    #[test]
    fn wrong_settings_are_refused() {
        assert_eq!(causes(|_| {}), Vec::<String>::new());
        assert_eq!(causes(|it| it.garden[0].length = 0).len(), 1);
        assert_eq!(causes(|it| it.garden[0].length = 33).len(), 1);
        assert_eq!(causes(|it| it.garden = vec![it.garden[0].clone(); GARDEN + 1]).len(), 1);
        let any = v1::Prefix { address: vec![0; 16], length: 0 };
        assert_eq!(causes(|it| it.garden.push(any)).len(), 0);
        assert_eq!(causes(|it| it.name_servers.push(vec![1])).len(), 1);
        assert_eq!(causes(|it| it.portal_addresses = vec![vec![0; 4]; ADDRESSES + 1]).len(), 1);
        assert_eq!(causes(|it| it.portal_port = 70_000).len(), 1);
        assert_eq!(causes(|it| it.redirect6 = "https://a\r\nb".to_owned()).len(), 1);
        assert_eq!(causes(|it| it.redirect4.clear()).len(), 0);
        assert_eq!(causes(|it| it.host_query_rate = HOST_RATE + 1).len(), 1);
    }
}
