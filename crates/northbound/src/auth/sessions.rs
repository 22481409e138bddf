//! Sessions of the web page: a cookie that scripts cannot read and other sites cannot send.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::account::Account;
use super::secret;

/// The session cookie. Its prefix makes browsers require `Secure`, `Path=/` and no domain.
pub const COOKIE: &str = "__Host-stoa";
/// A header that only our own page can add: for another site, the browser needs our permission, which we refuse.
pub const HEADER: &str = "x-stoa-request";
/// Maximum time without a request.
const IDLE: Duration = Duration::from_secs(30 * 60);
/// Maximum duration.
const LIFE: Duration = Duration::from_secs(12 * 3_600);

#[derive(Debug)]
struct Session {
    /// The account that logged in.
    account: Account,
    since: Instant,
    last: Instant,
}

impl Session {
    fn is_over(&self, now: Instant) -> bool {
        now.duration_since(self.last) >= IDLE || now.duration_since(self.since) >= LIFE
    }
}

/// All sessions; they end with the program.
#[derive(Debug, Default)]
pub struct Sessions {
    /// By the digest of the cookie.
    open: Mutex<HashMap<String, Session>>,
}

impl Sessions {
    fn open(&self) -> MutexGuard<'_, HashMap<String, Session>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a session and returns the value of its cookie. With `limit` sessions, the longest idle one ends.
    /// The session lasts while the proof of the account is valid.
    pub fn begin(&self, account: &Account, limit: usize, now: Instant) -> String {
        let mut open = self.open();
        open.retain(|_, session| !session.is_over(now));
        while open.len() >= limit.max(1) {
            let idle = open.iter().min_by_key(|(_, session)| session.last);
            let Some(key) = idle.map(|(key, _)| key.clone()) else { break };
            open.remove(&key);
        }
        let cookie = secret::text();
        let session = Session { account: account.clone(), since: now, last: now };
        open.insert(secret::kept(&cookie), session);
        cookie
    }

    /// The account of a session.
    pub fn account(&self, cookie: &str, now: Instant) -> Option<Account> {
        let mut open = self.open();
        let session = open.get_mut(&secret::kept(cookie))?;
        if session.is_over(now) {
            return None;
        }
        session.last = now;
        Some(session.account.clone())
    }

    /// The account of a session by the digest of its cookie; this does not count as activity.
    pub fn lasting(&self, digest: &str, now: Instant) -> Option<Account> {
        let open = self.open();
        let session = open.get(digest).filter(|session| !session.is_over(now))?;
        Some(session.account.clone())
    }

    /// Ends the sessions of all other accounts.
    pub fn retain(&self, is_good: impl Fn(&Account) -> bool) {
        self.open().retain(|_, session| is_good(&session.account));
    }

    /// Ends a session.
    pub fn end(&self, cookie: &str) {
        self.open().remove(&secret::kept(cookie));
    }
}

/// The value of the session cookie in a `Cookie` header.
pub fn cookie(header: &str) -> Option<&str> {
    let pairs = header.split(';').filter_map(|pair| pair.trim().split_once('='));
    pairs.into_iter().find(|(name, _)| *name == COOKIE).map(|(_, value)| value)
}

/// The `Set-Cookie` header that begins a session, or ends it with an empty value.
pub fn set_cookie(value: &str) -> String {
    let life = if value.is_empty() { 0 } else { LIFE.as_secs() };
    format!("{COOKIE}={value}; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age={life}")
}

#[cfg(test)]
mod tests {
    use stoa_controller::config::management::{Management, User};

    use super::*;

    fn account(name: &str, hash: &str) -> Account {
        Account::local(&User {
            name: name.into(),
            password_hash: Some(hash.into()),
            group: vec![],
            admin: false,
        })
    }

    #[test]
    fn sessions_end_when_idle_when_old_and_when_there_are_too_many() {
        let sessions = Sessions::default();
        let now = Instant::now();
        let minutes = |number: u64| now + Duration::from_secs(60 * number);
        let ann = account("ann", "a");
        let cookie = sessions.begin(&ann, 2, now);
        assert_eq!(sessions.account(&cookie, minutes(29)).as_ref(), Some(&ann));
        assert_eq!(sessions.account(&cookie, minutes(58)).as_ref(), Some(&ann));
        assert_eq!(sessions.account(&cookie, minutes(88)), None);
        let old = sessions.begin(&ann, 2, now);
        for turn in 0..=24 {
            let is_good = sessions.account(&old, minutes(29 * turn)).is_some();
            assert_eq!(is_good, 29 * turn < 12 * 60, "{turn}");
        }
        let first = sessions.begin(&ann, 2, minutes(1_000));
        let second = sessions.begin(&ann, 2, minutes(1_001));
        let third = sessions.begin(&ann, 2, minutes(1_002));
        let is_good = |cookie: &str| sessions.account(cookie, minutes(1_003)).is_some();
        assert_eq!([&first, &second, &third].map(|one| is_good(one)), [false, true, true]);
        sessions.end(&third);
        assert_eq!(sessions.account(&third, minutes(1_003)), None);
    }

    #[test]
    fn a_session_ends_with_its_password_and_its_user() {
        let now = Instant::now();
        let good = |users: &[(&str, &str)]| {
            let sessions = Sessions::default();
            let cookie = sessions.begin(&account("ann", "a"), 2, now);
            let users = users.iter().map(|(name, hash)| account(name, hash).user);
            let management = Management { user: users.collect(), ..Management::default() };
            sessions.retain(|account| account.current(&management).is_some());
            let lasts = sessions.lasting(&secret::kept(&cookie), now).is_some();
            lasts && sessions.account(&cookie, now).is_some()
        };
        assert!(good(&[("ann", "a"), ("bob", "b")]));
        assert!(!good(&[("ann", "b")]) && !good(&[("bob", "a")]));
    }

    #[test]
    fn the_cookie_is_found_among_others() {
        assert_eq!(cookie("a=b; __Host-stoa=value; c=d"), Some("value"));
        assert_eq!(cookie("x__Host-stoa=value"), None);
    }
}
