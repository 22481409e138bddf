//! Who is it: passwords, tokens, sessions and client certificates, and what wrong ones cost.

pub mod lockout;
pub mod password;
pub mod secret;
pub mod sessions;
pub mod setup;
pub mod tokens;

use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, COOKIE};
use http::{HeaderMap, Method};
use stoa_controller::management::{Management, User};

use lockout::Lockout;
use password::Passwords;
use sessions::Sessions;
use setup::Setup;
use tokens::Tokens;

/// Who sends a request, as far as the connection says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Where it comes from.
    pub address: IpAddr,
    /// The common name of a client certificate that was checked.
    pub certificate: Option<String>,
}

/// How somebody was known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// User and password with the request.
    Password,
    /// A bearer token.
    Token,
    /// The cookie of a session.
    Session,
    /// A client certificate.
    Certificate,
}

/// Somebody who was known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The user's name.
    pub name: String,
    /// The groups that the configuration gives the user.
    pub groups: Vec<String>,
    /// Whether the user may do all.
    pub is_admin: bool,
    /// How it was known.
    pub proof: Proof,
}

/// Why somebody is not let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denied {
    /// Nothing was shown that says who it is.
    Unknown,
    /// It was wrong; the name that was claimed, and the delay that follows.
    Wrong(String, Duration),
    /// Too many wrong ones before: try again after this time.
    Wait(String, Duration),
    /// The cookie came without the header that our own page sends.
    Forged(String),
}

/// Knows everybody.
#[derive(Debug)]
pub struct Gate {
    passwords: Passwords,
    lockout: Lockout,
    /// The tokens.
    pub tokens: Tokens,
    /// The sessions.
    pub sessions: Sessions,
    /// The way in for the first user.
    pub setup: Setup,
}

impl Gate {
    /// The gate over the folder of the state.
    pub fn new(state: &Path) -> Gate {
        Gate {
            passwords: Passwords::new(),
            lockout: Lockout::default(),
            tokens: Tokens::open(state),
            sessions: Sessions::default(),
            setup: Setup::new(state),
        }
    }

    /// Who sends this request.
    ///
    /// # Errors
    /// When nothing or something wrong was shown.
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
                return known.map(|user| identity(user, Proof::Password));
            }
            if scheme.eq_ignore_ascii_case("bearer") {
                return self.bearer(management, peer, value);
            }
            return Err(self.wrong("", peer));
        }
        let cookies = headers.get_all(COOKIE).into_iter().filter_map(|it| it.to_str().ok());
        if let Some(cookie) = cookies.into_iter().find_map(sessions::cookie) {
            let user = self.sessions.user(cookie, Instant::now());
            let user = user.and_then(|name| find(management, &name)).ok_or(Denied::Unknown)?;
            if !method.is_safe() && !headers.contains_key(sessions::HEADER) {
                return Err(Denied::Forged(user.name.clone()));
            }
            return Ok(identity(user, Proof::Session));
        }
        let certified = peer.certificate.as_deref().and_then(|name| find(management, name));
        certified.map(|user| identity(user, Proof::Certificate)).ok_or(Denied::Unknown)
    }

    /// The user of this name and password.
    ///
    /// # Errors
    /// When there is none, or it was wrong too often.
    pub async fn log_in<'a>(
        &self,
        management: &'a Management,
        peer: &Peer,
        name: &str,
        password: &str,
    ) -> Result<&'a User, Denied> {
        let now = Instant::now();
        if let Some(wait) = self.lockout.wait(name, peer.address, now) {
            return Err(Denied::Wait(name.to_owned(), wait));
        }
        let user = find(management, name);
        let hash = user.and_then(|user| user.password_hash.as_deref());
        let is_right = self.passwords.check(name, password, hash).await;
        match user.filter(|_| is_right) {
            Some(user) => {
                self.lockout.succeeded(name, peer.address);
                Ok(user)
            }
            None => Err(self.wrong(name, peer)),
        }
    }

    fn bearer(&self, management: &Management, peer: &Peer, text: &str) -> Result<Identity, Denied> {
        // All guesses at tokens count together.
        const NAME: &str = "(token)";
        if let Some(wait) = self.lockout.wait(NAME, peer.address, Instant::now()) {
            return Err(Denied::Wait(NAME.to_owned(), wait));
        }
        let user = self.tokens.user(text, SystemTime::now());
        // A user who was removed has no tokens any more, even if they are kept.
        match user.and_then(|name| find(management, &name)) {
            Some(user) => Ok(identity(user, Proof::Token)),
            None => Err(self.wrong(NAME, peer)),
        }
    }

    /// Makes the way in for the first user cost the same as a password when it is tried wrongly.
    ///
    /// # Errors
    /// When the token is wrong, or was too often.
    pub fn check_setup(&self, peer: &Peer, token: &str) -> Result<(), Denied> {
        const NAME: &str = "(set-up)";
        if let Some(wait) = self.lockout.wait(NAME, peer.address, Instant::now()) {
            return Err(Denied::Wait(NAME.to_owned(), wait));
        }
        if self.setup.is_right(token) { Ok(()) } else { Err(self.wrong(NAME, peer)) }
    }

    fn wrong(&self, name: &str, peer: &Peer) -> Denied {
        let delay = self.lockout.failed(name, peer.address, Instant::now());
        tracing::warn!(
            user = name.chars().take(64).collect::<String>(),
            from = %peer.address,
            delay_s = delay.as_secs(),
            "a log-in failed"
        );
        Denied::Wrong(name.to_owned(), delay)
    }
}

fn find<'a>(management: &'a Management, name: &str) -> Option<&'a User> {
    management.user.iter().find(|user| user.name == name)
}

fn identity(user: &User, proof: Proof) -> Identity {
    let User { name, group, admin, .. } = user;
    Identity { name: name.clone(), groups: group.clone(), is_admin: *admin, proof }
}

/// User and password of RFC 7617.
fn basic(value: &str) -> Option<(String, String)> {
    let text = String::from_utf8(STANDARD.decode(value).ok()?).ok()?;
    let (user, password) = text.split_once(':')?;
    Some((user.to_owned(), password.to_owned()))
}

#[cfg(test)]
mod tests;
