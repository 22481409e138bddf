//! Sessions of web pages: a cookie that scripts cannot read and other sites cannot send.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::secret;

/// The cookie. Its prefix makes browsers insist on `Secure`, `Path=/` and no domain.
pub const COOKIE: &str = "__Host-stoa";
/// A header that only scripts of our own page can add: other sites would have to ask first, and are refused.
pub const HEADER: &str = "x-stoa-request";
/// A session ends after this time without a request.
const IDLE: Duration = Duration::from_secs(30 * 60);
/// A session ends after this time.
const LIFE: Duration = Duration::from_secs(12 * 3_600);

#[derive(Debug)]
struct Session {
    user: String,
    /// What stood for the user's password when it began.
    mark: String,
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

    /// Begins a session and gives the cookie's value. With `limit` sessions, the one idle longest ends.
    /// It lasts while `mark` stands for the password of the user.
    pub fn begin(&self, user: &str, mark: &str, limit: usize, now: Instant) -> String {
        let mut open = self.open();
        open.retain(|_, session| !session.is_over(now));
        while open.len() >= limit.max(1) {
            let idle = open.iter().min_by_key(|(_, session)| session.last);
            let Some(key) = idle.map(|(key, _)| key.clone()) else { break };
            open.remove(&key);
        }
        let cookie = secret::text();
        let session =
            Session { user: user.to_owned(), mark: mark.to_owned(), since: now, last: now };
        open.insert(secret::kept(&cookie), session);
        cookie
    }

    /// Whose session this is.
    pub fn user(&self, cookie: &str, now: Instant) -> Option<String> {
        let mut open = self.open();
        let session = open.get_mut(&secret::kept(cookie))?;
        if session.is_over(now) {
            return None;
        }
        session.last = now;
        Some(session.user.clone())
    }

    /// Whether the session of this digest of a cookie lasts; that is no request of it.
    pub fn lasts(&self, digest: &str, now: Instant) -> bool {
        self.open().get(digest).is_some_and(|session| !session.is_over(now))
    }

    /// Ends the sessions of users who are gone or have another password. `marks`: all users, with what stands for
    /// their passwords.
    pub fn follow(&self, marks: &HashMap<&str, String>) {
        self.open().retain(|_, session| marks.get(session.user.as_str()) == Some(&session.mark));
    }

    /// Whether the session of this cookie began with the password that this mark stands for.
    pub fn is_marked(&self, cookie: &str, mark: &str) -> bool {
        self.open().get(&secret::kept(cookie)).is_some_and(|session| session.mark == mark)
    }

    /// Ends a session.
    pub fn end(&self, cookie: &str) {
        self.open().remove(&secret::kept(cookie));
    }
}

/// The value of our cookie in a `Cookie` header.
pub fn cookie(header: &str) -> Option<&str> {
    let pairs = header.split(';').filter_map(|pair| pair.trim().split_once('='));
    pairs.into_iter().find(|(name, _)| *name == COOKIE).map(|(_, value)| value)
}

/// The `Set-Cookie` header that begins a session, or with an empty value ends it.
pub fn set_cookie(value: &str) -> String {
    let life = if value.is_empty() { 0 } else { LIFE.as_secs() };
    format!("{COOKIE}={value}; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age={life}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_end_when_idle_when_old_and_when_there_are_too_many() {
        let sessions = Sessions::default();
        let now = Instant::now();
        let minutes = |number: u64| now + Duration::from_secs(60 * number);
        let cookie = sessions.begin("ann", "a", 2, now);
        assert_eq!(sessions.user(&cookie, minutes(29)).as_deref(), Some("ann"));
        assert_eq!(sessions.user(&cookie, minutes(58)).as_deref(), Some("ann"));
        assert_eq!(sessions.user(&cookie, minutes(88)), None);
        let old = sessions.begin("ann", "a", 2, now);
        for turn in 0..=24 {
            let is_good = sessions.user(&old, minutes(29 * turn)).is_some();
            assert_eq!(is_good, 29 * turn < 12 * 60, "{turn}");
        }
        let first = sessions.begin("ann", "a", 2, minutes(1_000));
        let second = sessions.begin("ann", "a", 2, minutes(1_001));
        let third = sessions.begin("ann", "a", 2, minutes(1_002));
        let is_good = |cookie: &str| sessions.user(cookie, minutes(1_003)).is_some();
        assert_eq!([&first, &second, &third].map(|one| is_good(one)), [false, true, true]);
        sessions.end(&third);
        assert_eq!(sessions.user(&third, minutes(1_003)), None);
    }

    #[test]
    fn a_session_ends_with_its_password_and_its_user() {
        let now = Instant::now();
        let good = |marks: &[(&'static str, &str)]| {
            let sessions = Sessions::default();
            let cookie = sessions.begin("ann", "a", 2, now);
            let marks = marks.iter().map(|(name, mark)| (*name, (*mark).to_owned()));
            sessions.follow(&marks.collect());
            sessions.lasts(&secret::kept(&cookie), now) && sessions.user(&cookie, now).is_some()
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
