//! Who is it: passwords, tokens, sessions and client certificates, and what wrong ones cost.

pub mod lockout;
pub mod password;
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
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, COOKIE};
use http::{HeaderMap, Method};
use stoa_controller::management::{Management, User};

use lockout::Lockout;
use password::Passwords;
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
    /// The groups that the configuration gives the user.
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
    /// The cookie came without the header that our own page sends.
    Forged(String),
}

/// What tries at passwords go through, also when the client hangs up meanwhile.
#[derive(Debug, Default)]
struct Lock {
    passwords: Passwords,
    lockout: Lockout,
    turns: Turns,
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
                return known.map(|user| identity(user, Proof::Password, mark(user)));
            }
            if scheme.eq_ignore_ascii_case("bearer") {
                return self.bearer(management, peer, value);
            }
            return Err(self.wrong("", peer));
        }
        let cookies = headers.get_all(COOKIE).into_iter().filter_map(|it| it.to_str().ok());
        if let Some(cookie) = cookies.into_iter().find_map(sessions::cookie) {
            let user = self.sessions.user(cookie, Instant::now());
            let user = user.and_then(|name| find(management, &name));
            // Another password ends the sessions that began with the one before.
            let user = user.filter(|user| self.sessions.is_marked(cookie, &mark(user)));
            let user = user.ok_or(Denied::Unknown)?;
            if !method.is_safe() && !headers.contains_key(sessions::HEADER) {
                return Err(Denied::Forged(user.name.clone()));
            }
            return Ok(identity(user, Proof::Session, secret::kept(cookie)));
        }
        let certified = peer.certificate.as_deref().and_then(|name| find(management, name));
        // An open connection may be older than the order not to take certificates any more.
        let certified = certified.filter(|_| management.https.client_ca.is_some());
        certified
            .map(|user| identity(user, Proof::Certificate, String::new()))
            .ok_or(Denied::Unknown)
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
        let user = find(management, name);
        let hash = user.and_then(|user| user.password_hash.clone());
        // What was right a moment ago is no guess: who guesses from the same address does not lock it out.
        if let Some(user) = user
            && self.lock.passwords.was_right(name, password, hash.as_deref())
        {
            self.lock.lockout.succeeded(name, peer.address);
            return Ok(user);
        }
        let (lock, from) = (Arc::clone(&self.lock), peer.address);
        let (name, password) = (name.to_owned(), password.to_owned());
        let claimed = name.clone();
        // A task of its own: who hangs up before the answer has tried all the same.
        let tried =
            tokio::spawn(async move { lock.try_password(from, &name, &password, hash).await });
        let tried = tried.await.unwrap_or_else(|_| Err(Denied::Busy(claimed.clone())));
        tried.and_then(|()| user.ok_or(Denied::Wrong(claimed, Duration::ZERO)))
    }

    /// The same client a while later, with the rights of now; `None`: what it showed is not good any more.
    pub fn again(&self, management: &Management, identity: &Identity) -> Option<Identity> {
        let user = find(management, &identity.name)?;
        let is_good = match identity.proof {
            Proof::Password => identity.digest == mark(user),
            Proof::Token => self.tokens.expires(&identity.digest, SystemTime::now()).is_some(),
            Proof::Session => self.sessions.lasts(&identity.digest, Instant::now()),
            // The connection ends by itself when another authority is named.
            Proof::Certificate => management.https.client_ca.is_some(),
        };
        is_good.then(|| self::identity(user, identity.proof, identity.digest.clone()))
    }

    /// Ends the sessions of users who are gone or have another password.
    pub fn end_sessions(&self, users: &[User]) {
        self.sessions.follow(&users.iter().map(|user| (user.name.as_str(), mark(user))).collect());
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
    /// One try in its turn. Who has to wait is sent away without a comparison, also if that came out in the queue.
    async fn try_password(
        &self,
        from: IpAddr,
        name: &str,
        password: &str,
        hash: Option<String>,
    ) -> Result<(), Denied> {
        let wait = || match self.lockout.wait(name, from, Instant::now()) {
            Some(wait) => Err(Denied::Wait(name.to_owned(), wait)),
            None => Ok(()),
        };
        wait()?;
        let busy = || Denied::Busy(name.to_owned());
        let place = self.turns.place(from).ok_or_else(busy)?;
        let _turn = place.turn.acquire().await.map_err(|_| busy())?;
        if !self.passwords.was_right(name, password, hash.as_deref()) {
            wait()?;
            if !self.passwords.check(name, password, hash.as_deref()).await {
                return Err(self.wrong(name, from));
            }
        }
        self.lockout.succeeded(name, from);
        Ok(())
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

/// What stands for the password of a user: another one with another password.
pub fn mark(user: &User) -> String {
    secret::kept(user.password_hash.as_deref().unwrap_or_default())
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
