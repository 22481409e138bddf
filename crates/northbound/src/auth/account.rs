//! An authenticated account: a user of the configuration or of a RADIUS server.

use std::fmt::Write;

use stoa_controller::config::management::{Management, Radius, User};

use super::radius::packet::Grants;
use super::secret;

/// A user with the proof of the login.
#[derive(Clone, Debug, PartialEq)]
pub struct Account {
    /// The user, with the rights at the time of the login.
    pub user: User,
    /// Changes with the password in the configuration, or with the RADIUS settings.
    pub fingerprint: String,
    /// The digest by which the login is checked again.
    pub digest: String,
    /// What a RADIUS server grants a host.
    pub grants: Grants,
}

impl Account {
    /// A user of the configuration.
    pub fn local(user: &User) -> Account {
        let fingerprint = Account::fingerprint(user);
        let grants = Grants::default();
        Account { user: user.clone(), digest: fingerprint.clone(), fingerprint, grants }
    }

    /// A user that a RADIUS server accepted, with the digest of the credentials.
    pub fn from_radius(user: User, settings: &Radius, digest: String) -> Account {
        let (fingerprint, grants) = (Account::radius_fingerprint(settings), Grants::default());
        Account { user, fingerprint, digest, grants }
    }

    /// A text that changes with the password of a user.
    pub fn fingerprint(user: &User) -> String {
        secret::kept(user.password_hash.as_deref().unwrap_or_default())
    }

    /// A text that changes with the RADIUS settings.
    pub fn radius_fingerprint(settings: &Radius) -> String {
        let mut text = format!("RADIUS {:?} {}", settings.group_attribute, settings.administrators);
        for server in &settings.server {
            let _ = write!(text, " {server:?} {}", server.shared_secret);
        }
        secret::kept(&text)
    }

    /// The user with the current rights; `None`: the user was removed, or the proof is no longer valid.
    pub fn current(&self, management: &Management) -> Option<User> {
        match management.user.iter().find(|user| user.name == self.user.name) {
            Some(user) => (self.fingerprint == Account::fingerprint(user)).then(|| user.clone()),
            None => (self.fingerprint == Account::radius_fingerprint(&management.radius)
                && !management.radius.server.is_empty())
            .then(|| self.user.clone()),
        }
    }
}
