//! Settings: those of the contract, checked.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use stoa_api::text::{ip, ip_bytes};
use stoa_api::v1;

/// The shortest secret, in bytes.
pub const SECRET_MIN: usize = 16;

/// Where the partner is, and what it gets.
#[derive(Clone, PartialEq, Eq)]
pub struct Settings {
    /// The own end: address and port.
    pub local: SocketAddr,
    /// The end of the partner.
    pub partner: SocketAddr,
    /// The secret that both share, at least [`SECRET_MIN`] bytes.
    pub secret: String,
    /// Seconds that a flow must last before the partner gets it.
    pub age_s: u32,
}

impl fmt::Debug for Settings {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { local, partner, secret: _, age_s } = self;
        to.debug_struct("Settings")
            .field("local", local)
            .field("partner", partner)
            .field("age_s", age_s)
            .finish_non_exhaustive()
    }
}

/// An address and port of the contract.
fn end(address: &[u8], port: u32) -> Option<SocketAddr> {
    let port = u16::try_from(port).ok().filter(|it| *it > 0)?;
    Some(SocketAddr::new(ip(address)?, port))
}

impl Settings {
    /// Those of the contract; `None`: there is no partner.
    ///
    /// # Errors
    /// What is wrong, and how to fix it.
    pub fn of(message: &v1::FlowSync) -> Result<Option<Self>, (String, &'static str)> {
        if message.partner_address.is_empty() {
            return Ok(None);
        }
        let wrong = |what: &str| (format!("has no valid {what}"), "Set an address and a port.");
        let local = end(&message.local_address, message.local_port);
        let local = local.ok_or_else(|| wrong("local end"))?;
        let partner = end(&message.partner_address, message.partner_port);
        let partner = partner.ok_or_else(|| wrong("partner"))?;
        if local.is_ipv4() != partner.is_ipv4() || local.ip() == partner.ip() {
            let cause = format!("{} and {} are no two ends of a link", local.ip(), partner.ip());
            return Err((cause, "Use two addresses of the same family."));
        }
        if message.secret.len() < SECRET_MIN {
            return Err(("has a short secret".to_owned(), "Use at least 16 characters."));
        }
        let (secret, age_s) = (message.secret.clone(), message.minimum_age_s);
        Ok(Some(Self { local, partner, secret, age_s }))
    }

    /// These as the contract has them.
    pub fn message(&self) -> v1::FlowSync {
        let bytes = |it: IpAddr| ip_bytes(it);
        v1::FlowSync {
            local_address: bytes(self.local.ip()),
            local_port: self.local.port().into(),
            partner_address: bytes(self.partner.ip()),
            partner_port: self.partner.port().into(),
            secret: self.secret.clone(),
            minimum_age_s: self.age_s,
        }
    }

    /// Whether this end waits for the connection of the other one: the end with the lower address does.
    pub fn listens(&self) -> bool {
        self.local.ip() < self.partner.ip()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::flow_sync) fn settings() -> Settings {
        Settings {
            local: "192.0.2.1:7001".parse().unwrap(),
            partner: "192.0.2.2:7002".parse().unwrap(),
            secret: "a secret of enough bytes".to_owned(),
            age_s: 5,
        }
    }

    #[test]
    fn a_message_and_its_settings_are_the_same() {
        let all = settings();
        assert_eq!(Settings::of(&all.message()), Ok(Some(all.clone())));
        assert_eq!(Settings::of(&v1::FlowSync::default()), Ok(None));
        assert!(!format!("{all:?}").contains("secret of"), "{all:?}");
        assert!(all.listens());
    }

    #[test]
    fn wrong_settings_are_refused() {
        let refuse = |change: fn(&mut v1::FlowSync)| {
            let mut message = settings().message();
            change(&mut message);
            Settings::of(&message).unwrap_err().0
        };
        assert!(refuse(|it| it.local_port = 0).contains("local end"));
        assert!(refuse(|it| it.partner_port = 70_000).contains("partner"));
        assert!(refuse(|it| it.partner_address = vec![0; 16]).contains("two ends"));
        assert!(refuse(|it| it.partner_address = vec![192, 0, 2, 1]).contains("two ends"));
        assert!(refuse(|it| it.secret = "short".into()).contains("short secret"));
    }
}
