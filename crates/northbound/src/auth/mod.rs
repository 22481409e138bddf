//! Authentication: passwords, tokens, sessions and client certificates, and the lockout after failures.

pub mod account;
pub mod attempt_queue;
pub mod lockout;
pub mod password;
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
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::header::{AUTHORIZATION, COOKIE};
use http::{HeaderMap, Method};
use stoa_controller::config::management::{Management, Radius, User};

use account::Account;
use attempt_queue::AttemptQueues;
use lockout::Lockout;
use password::Passwords;
use radius::{NoRadiusReply, Servers};
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

/// The parts of a password login. A login goes on when the client disconnects.
#[derive(Debug, Default)]
struct PasswordLogin {
    passwords: Passwords,
    servers: Servers,
    lockout: Lockout,
    attempts: AttemptQueues,
    /// Logins that RADIUS servers decide. They may wait long and must not delay users of the configuration.
    radius_attempts: AttemptQueues,
}

/// Where a password is verified.
#[derive(Debug)]
enum PasswordSource {
    /// The hash of this user; `None`: unknown user, for whom the hash of another one is compared.
    Hash(Option<User>, Option<String>),
    /// These RADIUS servers.
    Servers(Radius),
}

impl PasswordSource {
    /// Users of the configuration take precedence over RADIUS.
    fn of(management: &Management, name: &str, passwords: &Passwords) -> PasswordSource {
        let user = find(management, name);
        if user.is_some() || management.radius.server.is_empty() || !is_name(name) {
            let other = passwords.other(name, &management.user);
            return PasswordSource::Hash(user.cloned(), other);
        }
        PasswordSource::Servers(management.radius.clone())
    }
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
        let source = PasswordSource::of(management, name, &self.login.passwords);
        // Recently verified credentials are no guess: an attacker at the same address cannot lock them out.
        if let Some(account) = self.login.was_verified(name, password, &source) {
            self.login.lockout.succeeded(name, peer.address, Instant::now());
            return Ok(account);
        }
        let (login, from) = (Arc::clone(&self.login), peer.address);
        let (name, password) = (name.to_owned(), password.to_owned());
        let claimed = name.clone();
        // A task of its own: the attempt counts even when the client disconnects.
        let tried =
            tokio::spawn(async move { login.try_password(from, &name, &password, &source).await });
        tried.await.unwrap_or(Err(Denied::Busy(claimed)))
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

impl PasswordLogin {
    /// The account, if these credentials were verified recently.
    fn was_verified(&self, name: &str, password: &str, source: &PasswordSource) -> Option<Account> {
        match source {
            PasswordSource::Hash(user, _) => {
                let user = user.as_ref()?;
                let hash = user.password_hash.as_deref();
                let was_verified = self.passwords.was_verified(name, password, hash);
                was_verified.then(|| Account::local(user))
            }
            PasswordSource::Servers(settings) => {
                self.servers.was_verified(settings, name, password)
            }
        }
    }

    /// One attempt, after those before it in the queue. A locked-out client is refused without a comparison.
    async fn try_password(
        &self,
        from: IpAddr,
        name: &str,
        password: &str,
        source: &PasswordSource,
    ) -> Result<Account, Denied> {
        let wait = || match self.lockout.wait(name, from, Instant::now()) {
            Some(wait) => Err(Denied::Wait(name.to_owned(), wait)),
            None => Ok(()),
        };
        wait()?;
        let busy = || Denied::Busy(name.to_owned());
        let attempts = match source {
            PasswordSource::Hash(..) => &self.attempts,
            PasswordSource::Servers(_) => &self.radius_attempts,
        };
        let is_known = self.lockout.is_known(name, from, Instant::now());
        let slot = attempts.slot(from, is_known || from.is_loopback()).ok_or_else(busy)?;
        let _turn = slot.turn.acquire().await.map_err(|_| busy())?;
        let account = match self.was_verified(name, password, source) {
            Some(account) => Some(account),
            None => {
                wait()?;
                self.compare(from, name, password, source).await?
            }
        };
        let account = account.ok_or_else(|| self.wrong(name, from))?;
        self.lockout.succeeded(name, from, Instant::now());
        Ok(account)
    }

    async fn compare(
        &self,
        from: IpAddr,
        name: &str,
        password: &str,
        source: &PasswordSource,
    ) -> Result<Option<Account>, Denied> {
        match source {
            PasswordSource::Hash(user, other) => {
                let hash = user.as_ref().and_then(|user| user.password_hash.as_deref());
                let is_right = self.passwords.check(name, password, (hash, other.as_deref())).await;
                Ok(user.as_ref().filter(|_| is_right).map(Account::local))
            }
            PasswordSource::Servers(settings) => {
                let asked = self.servers.ask(settings, from, name, password).await;
                asked.map_err(|NoRadiusReply| Denied::NoRadiusReply(name.to_owned()))
            }
        }
    }

    fn wrong(&self, name: &str, from: IpAddr) -> Denied {
        let delay = self.lockout.failed(name, from, Instant::now());
        tracing::warn!(
            user = name.chars().take(64).collect::<String>(),
            %from,
            delay_s = delay.as_secs(),
            "login failed"
        );
        Denied::Wrong(name.to_owned(), delay)
    }
}

fn find<'a>(management: &'a Management, name: &str) -> Option<&'a User> {
    management.user.iter().find(|user| user.name == name)
}

/// Base64 for URLs.
fn encoded(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
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
