//! Whom a password was right for: a user of the configuration, or one whom a RADIUS server told.

use std::fmt::Write;

use stoa_controller::management::{Management, Radius, User};

use super::secret;

/// A user with what proved it.
#[derive(Clone, Debug, PartialEq)]
pub struct Account {
    /// The user, with the rights of the moment when it was proved.
    pub user: User,
    /// What stands for the password in the configuration, or for the servers: another one when they change.
    pub mark: String,
    /// By which it is asked again whether the password is good.
    pub digest: String,
}

impl Account {
    /// A user of the configuration.
    pub fn local(user: &User) -> Account {
        let mark = Account::mark_of(user);
        Account { user: user.clone(), digest: mark.clone(), mark }
    }

    /// A user whom a server told, and the digest of what was shown.
    pub fn told(user: User, settings: &Radius, digest: String) -> Account {
        Account { user, mark: Account::mark_of_servers(settings), digest }
    }

    /// What stands for the password of a user: another one with another password.
    pub fn mark_of(user: &User) -> String {
        secret::kept(user.password_hash.as_deref().unwrap_or_default())
    }

    /// What stands for the servers and for what their answers mean.
    pub fn mark_of_servers(settings: &Radius) -> String {
        let mut text = format!("RADIUS {:?} {}", settings.group_attribute, settings.administrators);
        for server in &settings.server {
            let _ = write!(text, " {server:?} {}", server.shared_secret);
        }
        secret::kept(&text)
    }

    /// The user with the rights of now; `None`: it is gone, or what proved it is not what counts now.
    pub fn now(&self, management: &Management) -> Option<User> {
        match management.user.iter().find(|user| user.name == self.user.name) {
            Some(user) => (self.mark == Account::mark_of(user)).then(|| user.clone()),
            None => (self.mark == Account::mark_of_servers(&management.radius)
                && !management.radius.server.is_empty())
            .then(|| self.user.clone()),
        }
    }
}
