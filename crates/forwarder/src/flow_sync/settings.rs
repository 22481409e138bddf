//! Settings: those of the contract, checked.

use std::fmt;

use stoa_api::flow_sync::Ends;
use stoa_api::text::ip_bytes;
use stoa_api::v1;

/// The shortest secret, in bytes.
pub const SECRET_MIN: usize = 16;

/// Where the partner is, and what it gets.
#[derive(Clone, PartialEq, Eq)]
pub struct Settings {
    /// The ends of the connection.
    pub ends: Ends,
    /// The secret that both share, at least [`SECRET_MIN`] bytes.
    pub secret: String,
    /// Seconds that a flow must last before the partner gets it.
    pub age_s: u32,
}

impl fmt::Debug for Settings {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ends, secret: _, age_s } = self;
        to.debug_struct("Settings")
            .field("ends", ends)
            .field("age_s", age_s)
            .finish_non_exhaustive()
    }
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
        let ends = Ends::of(message).map_err(wrong)?;
        let Ends { local, partner } = ends;
        if local.is_ipv4() != partner.is_ipv4() || local.ip() == partner.ip() {
            let cause = format!("{} and {} are no two ends of a link", local.ip(), partner.ip());
            return Err((cause, "Use two addresses of the same family."));
        }
        if message.secret.len() < SECRET_MIN {
            return Err(("has a short secret".to_owned(), "Use at least 16 characters."));
        }
        let (secret, age_s) = (message.secret.clone(), message.minimum_age_s);
        Ok(Some(Self { ends, secret, age_s }))
    }

    /// These as the contract has them.
    pub fn message(&self) -> v1::FlowSync {
        let Ends { local, partner } = self.ends;
        v1::FlowSync {
            local_address: ip_bytes(local.ip()),
            local_port: local.port().into(),
            partner_address: ip_bytes(partner.ip()),
            partner_port: partner.port().into(),
            secret: self.secret.clone(),
            minimum_age_s: self.age_s,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::flow_sync) fn settings() -> Settings {
        Settings {
            ends: Ends {
                local: "192.0.2.1:7001".parse().unwrap(),
                partner: "192.0.2.2:7002".parse().unwrap(),
            },
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
