//! Who is it: passwords, tokens, sessions and client certificates, and what wrong ones cost.

pub mod account;
pub mod lockout;
pub mod password;
pub mod radius;
pub mod secret;
pub mod sessions;
pub mod setup;
pub mod tokens;
pub mod turns;

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::header::{AUTHORIZATION, COOKIE};
use http::{HeaderMap, Method};
use stoa_controller::management::{Management, Radius, User};

use account::Account;
use lockout::Lockout;
use password::Passwords;
use radius::{Servers, Silent};
use sessions::Sessions;
use setup::Setup;
use tokens::Tokens;
use turns::Turns;

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
    /// The groups that the configuration or a RADIUS server gives the user.
    pub groups: Vec<String>,
    /// Whether the user may do all.
    pub is_admin: bool,
    /// How it was known.
    pub proof: Proof,
    /// The digest of what was shown, by which it is asked again whether it is still good.
    pub digest: String,
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
    /// Too many others try at this moment.
    Busy(String),
    /// No RADIUS server says whether it was right.
    Silent(String),
    /// The cookie came without the header that our own page sends.
    Forged(String),
}

/// What tries at passwords go through, also when the client hangs up meanwhile.
#[derive(Debug, Default)]
struct Lock {
    passwords: Passwords,
    servers: Servers,
    lockout: Lockout,
    turns: Turns,
    /// Those that servers are asked about: they may be silent for long, which is nothing to users of the configuration.
    asks: Turns,
}

/// What a password is compared with.
#[derive(Debug)]
enum Against {
    /// That of the user; of nobody when there is none.
    Hash(Option<User>),
    /// What these servers know.
    Servers(Radius),
}

impl Against {
    /// Users of the configuration go first, and nobody else is asked about them.
    fn of(management: &Management, name: &str) -> Against {
        let user = find(management, name);
        if user.is_some() || management.radius.server.is_empty() || !is_name(name) {
            return Against::Hash(user.cloned());
        }
        Against::Servers(management.radius.clone())
    }
}

/// Whether this can be a user's name, as the list of users has them.
fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._@-".contains(&byte);
    (1..=64).contains(&name.len())
        && name.bytes().all(is_plain)
        && !name.starts_with(['.', '@', '-'])
}

/// Knows everybody.
#[derive(Debug)]
pub struct Gate {
    lock: Arc<Lock>,
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
            lock: Arc::default(),
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
            // Another password ends the sessions that began with the one before.
            let user = account.and_then(|account| account.now(management));
            let user = user.ok_or(Denied::Unknown)?;
            if !method.is_safe() && !headers.contains_key(sessions::HEADER) {
                return Err(Denied::Forged(user.name));
            }
            return Ok(identity(&user, Proof::Session, secret::kept(cookie)));
        }
        let certified = peer.certificate.as_deref().and_then(|name| find(management, name));
        // An open connection may be older than the order not to take certificates any more.
        let certified = certified.filter(|_| management.https.client_ca.is_some());
        certified
            .map(|user| identity(user, Proof::Certificate, String::new()))
            .ok_or(Denied::Unknown)
    }

    /// Whom this name and password are right for.
    ///
    /// # Errors
    /// When there is nobody, or it was wrong too often.
    pub async fn log_in(
        &self,
        management: &Management,
        peer: &Peer,
        name: &str,
        password: &str,
    ) -> Result<Account, Denied> {
        let against = Against::of(management, name);
        // What was right a moment ago is no guess: who guesses from the same address does not lock it out.
        if let Some(account) = self.lock.was_right(name, password, &against) {
            self.lock.lockout.succeeded(name, peer.address);
            return Ok(account);
        }
        let (lock, from) = (Arc::clone(&self.lock), peer.address);
        let (name, password) = (name.to_owned(), password.to_owned());
        let claimed = name.clone();
        // A task of its own: who hangs up before the answer has tried all the same.
        let tried =
            tokio::spawn(async move { lock.try_password(from, &name, &password, &against).await });
        tried.await.unwrap_or(Err(Denied::Busy(claimed)))
    }

    /// The same client a while later, with the rights of now; `None`: what it showed is not good any more.
    pub fn again(&self, management: &Management, identity: &Identity) -> Option<Identity> {
        let user = find(management, &identity.name).cloned();
        let good = match identity.proof {
            Proof::Password => match user {
                Some(user) => (identity.digest == Account::mark_of(&user)).then_some(user),
                None => self.lock.servers.account(&identity.digest)?.now(management),
            },
            Proof::Token => {
                let until = self.tokens.expires(&identity.digest, SystemTime::now());
                user.filter(|_| until.is_some())
            }
            Proof::Session => {
                self.sessions.lasting(&identity.digest, Instant::now())?.now(management)
            }
            // The connection ends by itself when another authority is named.
            Proof::Certificate => user.filter(|_| management.https.client_ca.is_some()),
        };
        good.map(|user| self::identity(&user, identity.proof, identity.digest.clone()))
    }

    /// Ends the sessions of users who are gone or have another password.
    pub fn end_sessions(&self, management: &Management) {
        self.sessions.retain(|account| account.now(management).is_some());
    }

    fn bearer(&self, management: &Management, peer: &Peer, text: &str) -> Result<Identity, Denied> {
        // All guesses at tokens count together.
        const NAME: &str = "(token)";
        let user = self.tokens.user(text, SystemTime::now());
        // A user who was removed has no tokens any more, even if they are kept.
        if let Some(user) = user.and_then(|name| find(management, &name)) {
            // 256 bits are no guess, whatever others tried from the same address.
            self.lock.lockout.succeeded(NAME, peer.address);
            return Ok(identity(user, Proof::Token, secret::kept(text)));
        }
        match self.lock.lockout.wait(NAME, peer.address, Instant::now()) {
            Some(wait) => Err(Denied::Wait(NAME.to_owned(), wait)),
            None => Err(self.wrong(NAME, peer)),
        }
    }

    /// Makes the way in for the first user cost the same as a password when it is tried wrongly.
    ///
    /// # Errors
    /// When the token is wrong, or was too often.
    pub fn check_setup(&self, peer: &Peer, token: &str) -> Result<(), Denied> {
        const NAME: &str = "(set-up)";
        if self.setup.is_right(token) {
            return Ok(());
        }
        match self.lock.lockout.wait(NAME, peer.address, Instant::now()) {
            Some(wait) => Err(Denied::Wait(NAME.to_owned(), wait)),
            None => Err(self.wrong(NAME, peer)),
        }
    }

    fn wrong(&self, name: &str, peer: &Peer) -> Denied {
        self.lock.wrong(name, peer.address)
    }
}

impl Lock {
    /// Whom it was right for a moment ago.
    fn was_right(&self, name: &str, password: &str, against: &Against) -> Option<Account> {
        match against {
            Against::Hash(user) => {
                let user = user.as_ref()?;
                let hash = user.password_hash.as_deref();
                let was_right = self.passwords.was_right(name, password, hash);
                was_right.then(|| Account::local(user))
            }
            Against::Servers(settings) => self.servers.was_right(settings, name, password),
        }
    }

    /// One try in its turn. Who has to wait is sent away without a comparison, also if that came out in the queue.
    async fn try_password(
        &self,
        from: IpAddr,
        name: &str,
        password: &str,
        against: &Against,
    ) -> Result<Account, Denied> {
        let wait = || match self.lockout.wait(name, from, Instant::now()) {
            Some(wait) => Err(Denied::Wait(name.to_owned(), wait)),
            None => Ok(()),
        };
        wait()?;
        let busy = || Denied::Busy(name.to_owned());
        let turns = match against {
            Against::Hash(_) => &self.turns,
            Against::Servers(_) => &self.asks,
        };
        let place = turns.place(from).ok_or_else(busy)?;
        let _turn = place.turn.acquire().await.map_err(|_| busy())?;
        let account = match self.was_right(name, password, against) {
            Some(account) => Some(account),
            None => {
                wait()?;
                self.compare(from, name, password, against).await?
            }
        };
        let account = account.ok_or_else(|| self.wrong(name, from))?;
        self.lockout.succeeded(name, from);
        Ok(account)
    }

    async fn compare(
        &self,
        from: IpAddr,
        name: &str,
        password: &str,
        against: &Against,
    ) -> Result<Option<Account>, Denied> {
        match against {
            Against::Hash(user) => {
                let hash = user.as_ref().and_then(|user| user.password_hash.as_deref());
                let is_right = self.passwords.check(name, password, hash).await;
                Ok(user.as_ref().filter(|_| is_right).map(Account::local))
            }
            Against::Servers(settings) => {
                let asked = self.servers.ask(settings, from, name, password).await;
                asked.map_err(|Silent| Denied::Silent(name.to_owned()))
            }
        }
    }

    fn wrong(&self, name: &str, from: IpAddr) -> Denied {
        let delay = self.lockout.failed(name, from, Instant::now());
        tracing::warn!(
            user = name.chars().take(64).collect::<String>(),
            %from,
            delay_s = delay.as_secs(),
            "a log-in failed"
        );
        Denied::Wrong(name.to_owned(), delay)
    }
}

fn find<'a>(management: &'a Management, name: &str) -> Option<&'a User> {
    management.user.iter().find(|user| user.name == name)
}

/// Bytes as text.
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
