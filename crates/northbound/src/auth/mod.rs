//! Authentication: passwords, tokens, sessions and client certificates, and the lockout after failures.

pub mod account;
pub mod attempt_queue;
pub mod lockout;
pub mod password;
mod password_login;
pub mod radius;
pub mod secret;
pub mod sessions;
pub mod setup;
pub mod tokens;

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, COOKIE};
use http::{HeaderMap, Method};
use stoa_controller::config::management::{Management, User};

use crate::server::source::of_host;
use account::Account;
pub use password_login::PasswordLogin;
use sessions::Sessions;
use setup::Setup;
use tokens::Tokens;

/// The client of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its address.
    pub address: IpAddr,
    /// The common name of its verified certificate.
    pub certificate: Option<String>,
    /// The source MAC address of the frame that has opened the connection, if the listener keeps it.
    pub mac: Option<[u8; 6]>,
}

impl Peer {
    /// A client of which the address alone is known.
    pub fn at(address: IpAddr) -> Self {
        Self { address, certificate: None, mac: None }
    }

    /// What limits of the portal count by: the host, or else the address.
    pub fn source(&self) -> IpAddr {
        self.mac.map_or(self.address, of_host)
    }
}

/// How a client was authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// User and password in the request.
    Password,
    /// A bearer token.
    Token,
    /// The cookie of a session.
    Session,
    /// A client certificate.
    Certificate,
}

/// An authenticated client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The user's name.
    pub name: String,
    /// The groups of the user, from the configuration or a RADIUS server.
    pub groups: Vec<String>,
    /// Whether the user is an administrator.
    pub is_admin: bool,
    /// How the client was authenticated.
    pub proof: Proof,
    /// The digest of the credentials, by which they are checked again.
    pub digest: String,
}

/// Why authentication failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denied {
    /// The request has no credentials.
    Unknown,
    /// Wrong credentials: the claimed name, and the delay that follows.
    Wrong(String, Duration),
    /// Too many failures before: the remaining delay.
    Wait(String, Duration),
    /// Too many logins at the same time.
    Busy(String),
    /// No RADIUS server answered.
    NoRadiusReply(String),
    /// The session cookie came without the header of our own page.
    CrossSite(String),
}

/// Whether this is a valid user name, as in the list of users.
fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._@-".contains(&byte);
    (1..=64).contains(&name.len())
        && name.bytes().all(is_plain)
        && !name.starts_with(['.', '@', '-'])
}

/// Authenticates requests.
#[derive(Debug)]
pub struct Authenticator {
    login: Arc<PasswordLogin>,
    /// The tokens.
    pub tokens: Tokens,
    /// The sessions.
    pub sessions: Sessions,
    /// The setup token of the first user.
    pub setup: Setup,
}

impl Authenticator {
    /// Reads its state from the state folder.
    pub fn new(state: &Path) -> Authenticator {
        Authenticator {
            login: Arc::default(),
            tokens: Tokens::open(state),
            sessions: Sessions::open_file(state),
            setup: Setup::new(state),
        }
    }

    /// Authenticates a request.
    ///
    /// # Errors
    /// When the credentials are missing or wrong.
    pub async fn identify(
        &self,
        management: &Management,
        peer: &Peer,
        method: &Method,
        headers: &HeaderMap,
    ) -> Result<Identity, Denied> {
        if let Some(shown) = headers.get(AUTHORIZATION) {
            let shown = shown.to_str().unwrap_or_default();
            let (scheme, value) = shown.split_once(' ').unwrap_or((shown, ""));
            let value = value.trim();
            if scheme.eq_ignore_ascii_case("basic") {
                let Some((user, password)) = basic(value) else {
                    return Err(self.wrong("", peer));
                };
                let known = self.log_in(management, peer, &user, &password).await;
                return known.map(|it| identity(&it.user, Proof::Password, it.digest));
            }
            if scheme.eq_ignore_ascii_case("bearer") {
                return self.bearer(management, peer, value);
            }
            return Err(self.wrong("", peer));
        }
        let cookies = headers.get_all(COOKIE).into_iter().filter_map(|it| it.to_str().ok());
        if let Some(cookie) = cookies.into_iter().find_map(sessions::cookie) {
            let account = self.sessions.account(cookie, Instant::now());
            // A new password ends the sessions of the old one.
            let user = account.and_then(|account| account.current(management));
            let user = user.ok_or(Denied::Unknown)?;
            if !method.is_safe() && !headers.contains_key(sessions::HEADER) {
                return Err(Denied::CrossSite(user.name));
            }
            return Ok(identity(&user, Proof::Session, secret::kept(cookie)));
        }
        let certified = peer.certificate.as_deref().and_then(|name| find(management, name));
        // The connection may be older than the removal of the client CA.
        let certified = certified.filter(|_| management.https.client_ca.is_some());
        certified
            .map(|user| identity(user, Proof::Certificate, String::new()))
            .ok_or(Denied::Unknown)
    }

    /// Verifies a name and password.
    ///
    /// # Errors
    /// When they are wrong, or were wrong too often.
    pub async fn log_in(
        &self,
        management: &Management,
        peer: &Peer,
        name: &str,
        password: &str,
    ) -> Result<Account, Denied> {
        self.login.log_in(management, (peer.address, None), name, password).await
    }

    /// Checks the same client again, with its current rights; `None`: its credentials are no longer valid.
    pub fn reauthenticate(&self, management: &Management, identity: &Identity) -> Option<Identity> {
        let user = find(management, &identity.name).cloned();
        let good = match identity.proof {
            Proof::Password => match user {
                Some(user) => (identity.digest == Account::fingerprint(&user)).then_some(user),
                None => self.login.servers.account(&identity.digest)?.current(management),
            },
            Proof::Token => {
                let now = SystemTime::now();
                user.filter(|user| self.tokens.expires(&identity.digest, user, now).is_some())
            }
            Proof::Session => {
                self.sessions.lasting(&identity.digest, Instant::now())?.current(management)
            }
            // A connection with a certificate ends when the client CA changes.
            Proof::Certificate => user.filter(|_| management.https.client_ca.is_some()),
        };
        good.map(|user| self::identity(&user, identity.proof, identity.digest.clone()))
    }

    /// Ends the sessions of removed users and of changed passwords.
    pub fn end_sessions(&self, management: &Management) {
        self.sessions.retain(|account| account.current(management).is_some());
    }

    fn bearer(&self, management: &Management, peer: &Peer, text: &str) -> Result<Identity, Denied> {
        // All guesses at tokens count together.
        const NAME: &str = "(token)";
        // A removed user has no valid tokens, even if they are still stored.
        if let Some(user) = self.tokens.user(text, &management.user, SystemTime::now()) {
            // 256 bits cannot be guessed: a right token counts whatever others tried from the same address.
            self.login.lockout.succeeded(NAME, peer.address, Instant::now());
            return Ok(identity(user, Proof::Token, secret::kept(text)));
        }
        match self.login.lockout.wait(NAME, peer.address, Instant::now()) {
            Some(wait) => Err(Denied::Wait(NAME.to_owned(), wait)),
            None => Err(self.wrong(NAME, peer)),
        }
    }

    /// Checks the setup token. Failures count as failed logins do.
    ///
    /// # Errors
    /// When the token is wrong, or was wrong too often.
    pub fn check_setup(&self, peer: &Peer, token: &str) -> Result<(), Denied> {
        const NAME: &str = "(setup)";
        if self.setup.is_right(token) {
            return Ok(());
        }
        match self.login.lockout.wait(NAME, peer.address, Instant::now()) {
            Some(wait) => Err(Denied::Wait(NAME.to_owned(), wait)),
            None => Err(self.wrong(NAME, peer)),
        }
    }

    fn wrong(&self, name: &str, peer: &Peer) -> Denied {
        self.login.wrong(name, peer.address)
    }
}

fn find<'a>(management: &'a Management, name: &str) -> Option<&'a User> {
    management.user.iter().find(|user| user.name == name)
}

fn identity(user: &User, proof: Proof, digest: String) -> Identity {
    let User { name, group, admin, .. } = user;
    Identity { name: name.clone(), groups: group.clone(), is_admin: *admin, proof, digest }
}

/// User and password of RFC 7617.
fn basic(value: &str) -> Option<(String, String)> {
    let text = String::from_utf8(STANDARD.decode(value).ok()?).ok()?;
    let (user, password) = text.split_once(':')?;
    Some((user.to_owned(), password.to_owned()))
}

#[cfg(test)]
mod tests;
