//! Sessions of the web page: a cookie that scripts cannot read and other sites cannot send.
//!
//! They outlive a restart of the controller in `sessions.json`, by the digests of their cookies.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use stoa_controller::config::management::User;

use super::account::Account;
use super::secret;
use super::tokens::write_whole;

/// The session cookie. Its prefix makes browsers require `Secure`, `Path=/` and no domain.
pub const COOKIE: &str = "__Host-stoa";
/// A header that only our own page can add: for another site, the browser needs our permission, which we refuse.
pub const HEADER: &str = "x-stoa-request";
/// Maximum time without a request.
const IDLE: Duration = Duration::from_secs(30 * 60);
/// Maximum duration.
const LIFE: Duration = Duration::from_secs(12 * 3_600);
/// A later activity is written to the file, too, after this time.
const ACTIVITY: Duration = Duration::from_secs(60);
/// Sessions that every user may have.
const USER_MIN: usize = 4;

#[derive(Debug)]
struct Session {
    /// The account that logged in.
    account: Account,
    since: Instant,
    last: Instant,
    /// The age and the idle time at `since` and `last`, of a session from before a restart.
    before: (Duration, Duration),
}

impl Session {
    fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.since).saturating_add(self.before.0)
    }

    fn idle(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.last).saturating_add(self.before.1)
    }

    fn is_over(&self, now: Instant) -> bool {
        self.idle(now) >= IDLE || self.age(now) >= LIFE
    }
}

/// A session in the file. It has no password and no cookie.
#[derive(Debug, Deserialize, Serialize)]
struct StoredSession {
    digest: String,
    user: String,
    groups: Vec<String>,
    admin: bool,
    fingerprint: String,
    since_unix_s: u64,
    last_unix_s: u64,
}

fn unix_s(now: SystemTime) -> u64 {
    now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

impl StoredSession {
    fn new(digest: &str, session: &Session, (now, wall): (Instant, SystemTime)) -> StoredSession {
        let Account { user, fingerprint, .. } = &session.account;
        let ago = |time: Duration| unix_s(wall).saturating_sub(time.as_secs());
        StoredSession {
            digest: digest.to_owned(),
            user: user.name.clone(),
            groups: user.group.clone(),
            admin: user.admin,
            fingerprint: fingerprint.clone(),
            since_unix_s: ago(session.age(now)),
            last_unix_s: ago(session.idle(now)),
        }
    }

    /// The session; `None`: it is over, or the clock was set back.
    fn read(self, (now, wall): (Instant, SystemTime)) -> Option<(String, Session)> {
        let passed = |since: u64| unix_s(wall).checked_sub(since).map(Duration::from_secs);
        let before = (passed(self.since_unix_s)?, passed(self.last_unix_s)?);
        let StoredSession { user: name, groups: group, admin, fingerprint, .. } = self;
        let user = User { name, password_hash: None, group, admin };
        let (digest, grants) = Default::default();
        let account = Account { user, fingerprint, digest, grants };
        let session = Session { account, since: now, last: now, before };
        (!session.is_over(now)).then_some((self.digest, session))
    }
}

/// All sessions.
#[derive(Debug, Default)]
pub struct Sessions {
    /// The file; `None`: they end with the program.
    path: Option<PathBuf>,
    open: Mutex<OpenSessions>,
}

#[derive(Debug, Default)]
struct OpenSessions {
    /// By the digest of the cookie.
    by_digest: HashMap<String, Session>,
    /// Whether the file is older.
    is_changed: bool,
    /// The last reported error of the file.
    reported_error: Option<String>,
}

impl OpenSessions {
    /// Ends the session that was idle longest among these of a user, or of the user with the most sessions.
    fn end_one(&mut self, user: Option<&str>, now: Instant) {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for session in self.by_digest.values() {
            *counts.entry(&session.account.user.name).or_default() += 1;
        }
        let most = counts.values().copied().max().unwrap_or_default();
        let is_meant = |session: &Session| {
            let name = session.account.user.name.as_str();
            user.map_or_else(|| counts.get(name) == Some(&most), |user| name == user)
        };
        let meant = self.by_digest.iter().filter(|(_, session)| is_meant(session));
        let idle = meant.max_by_key(|(_, session)| session.idle(now));
        let Some(digest) = idle.map(|(digest, _)| digest.clone()) else { return };
        self.by_digest.remove(&digest);
    }
}

impl Sessions {
    /// The sessions of the state folder. A file that cannot be read means none.
    pub fn open_file(state: &Path) -> Sessions {
        let path = state.join("sessions.json");
        let now = (Instant::now(), SystemTime::now());
        let read = match std::fs::read(&path) {
            Ok(bytes) => {
                serde_json::from_slice::<Vec<StoredSession>>(&bytes).map_err(io::Error::from)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        };
        let stored = read.unwrap_or_else(|error| {
            tracing::warn!("{}: {error}: all users have to log in again", path.display());
            Vec::new()
        });
        let by_digest = stored.into_iter().filter_map(|one| one.read(now)).collect();
        let open = Mutex::new(OpenSessions { by_digest, ..OpenSessions::default() });
        Sessions { path: Some(path), open }
    }

    fn open(&self) -> MutexGuard<'_, OpenSessions> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a session and returns the value of its cookie. With `limit` sessions, or a quarter of them by this user,
    /// one ends: the longest idle one of this user, or of the user with the most sessions. A user cannot end the
    /// sessions of others who have fewer. The session lasts while the proof of the account is valid.
    pub fn begin(&self, account: &Account, limit: usize, now: Instant) -> String {
        let mut open = self.open();
        open.by_digest.retain(|_, session| !session.is_over(now));
        let (limit, name) = (limit.max(1), account.user.name.as_str());
        let of_user = (limit / 4).max(USER_MIN);
        let held = |open: &OpenSessions| {
            open.by_digest.values().filter(|one| one.account.user.name == name).count()
        };
        while held(&open) >= of_user {
            open.end_one(Some(name), now);
        }
        while open.by_digest.len() >= limit {
            open.end_one(None, now);
        }
        let cookie = secret::text();
        let before = (Duration::ZERO, Duration::ZERO);
        let session = Session { account: account.clone(), since: now, last: now, before };
        open.by_digest.insert(secret::kept(&cookie), session);
        open.is_changed = true;
        cookie
    }

    /// The account of a session.
    pub fn account(&self, cookie: &str, now: Instant) -> Option<Account> {
        let mut open = self.open();
        let session = open.by_digest.get_mut(&secret::kept(cookie))?;
        if session.is_over(now) {
            return None;
        }
        let is_worth_writing = session.idle(now) >= ACTIVITY;
        (session.last, session.before.1) = (now, Duration::ZERO);
        let account = session.account.clone();
        open.is_changed |= is_worth_writing;
        Some(account)
    }

    /// The account of a session by the digest of its cookie; this does not count as activity.
    pub fn lasting(&self, digest: &str, now: Instant) -> Option<Account> {
        let open = self.open();
        let session = open.by_digest.get(digest).filter(|session| !session.is_over(now))?;
        Some(session.account.clone())
    }

    /// Ends the sessions of all other accounts.
    pub fn retain(&self, is_good: impl Fn(&Account) -> bool) {
        let mut open = self.open();
        let before = open.by_digest.len();
        open.by_digest.retain(|_, session| is_good(&session.account));
        open.is_changed |= open.by_digest.len() != before;
    }

    /// Ends a session.
    pub fn end(&self, cookie: &str) {
        let mut open = self.open();
        let ended = open.by_digest.remove(&secret::kept(cookie));
        open.is_changed |= ended.is_some();
    }

    /// Writes the file if it is older. The lock is not held meanwhile: a slow disk delays no client. What could not be
    /// written counts as changed, so that the next call writes it.
    pub fn store(&self) {
        let Some(path) = &self.path else { return };
        let now = (Instant::now(), SystemTime::now());
        let stored: Vec<StoredSession> = {
            let mut open = self.open();
            if !std::mem::replace(&mut open.is_changed, false) {
                return;
            }
            open.by_digest
                .iter()
                .filter(|(_, session)| !session.is_over(now.0))
                .map(|(digest, session)| StoredSession::new(digest, session, now))
                .collect()
        };
        let written = serde_json::to_vec(&stored).map_err(io::Error::from);
        let failed = written.and_then(|bytes| write_whole(path, &bytes)).err();
        let words = failed.map(|error| error.to_string());
        let mut open = self.open();
        open.is_changed |= words.is_some();
        if let Some(words) = words.as_ref().filter(|_| words != open.reported_error) {
            tracing::warn!("cannot write {}: {words}; retrying", path.display());
        }
        open.reported_error = words;
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
    use stoa_controller::config::management::Management;

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
    fn a_hundred_logins_of_one_user_end_no_session_of_another() {
        let sessions = Sessions::default();
        let now = Instant::now();
        let (ann, eve) = (account("ann", "a"), account("eve", "e"));
        let cookie = sessions.begin(&ann, 100, now);
        // Later ones are less idle.
        let later = |number: u64| now + Duration::from_secs(number);
        let of_eve: Vec<String> =
            (1..=100).map(|number| sessions.begin(&eve, 100, later(number))).collect();
        let is_good = |cookie: &String| sessions.account(cookie, later(200)).is_some();
        assert!(is_good(&cookie), "ann's session lasts");
        assert_eq!(of_eve.iter().filter(|cookie| is_good(cookie)).count(), 25);
        assert!(is_good(&of_eve[99]) && !is_good(&of_eve[74]), "the last ones");
        // Four users with many sessions do not push out the others either.
        for number in 0..400 {
            let name = ["eve", "mallory", "trudy", "oscar"][number % 4];
            sessions.begin(&account(name, "e"), 100, later(300 + number as u64));
        }
        assert!(sessions.account(&cookie, later(800)).is_some());
        sessions.begin(&account("bob", "b"), 100, later(801));
        assert!(sessions.account(&cookie, later(802)).is_some());
    }

    #[test]
    fn sessions_outlive_a_restart_with_their_age_and_their_password() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sessions.json");
        let (now, ann) = (Instant::now(), account("ann", "a"));
        let sessions = Sessions::open_file(folder.path());
        let cookie = sessions.begin(&ann, 100, now);
        let ended = sessions.begin(&ann, 100, now);
        sessions.end(&ended);
        sessions.store();
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(!text.contains(&cookie) && text.contains(&secret::kept(&cookie)), "{text}");
        let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&file).unwrap());
        assert_eq!(mode & 0o777, 0o600);
        let again = Sessions::open_file(folder.path());
        let lasting = again.account(&cookie, Instant::now()).unwrap();
        assert_eq!((&lasting.user.name, &lasting.fingerprint), (&"ann".into(), &ann.fingerprint));
        let with = |hash: &str| {
            let user = vec![account("ann", hash).user];
            lasting.current(&Management { user, ..Management::default() }).is_some()
        };
        assert!(with("a") && !with("b"), "it ends with the password all the same");
        assert!(again.account(&ended, Instant::now()).is_none());
        // Neither a restart nor a clock that was set back makes a session longer.
        let age = |by: i64| {
            let mut stored: Vec<StoredSession> = serde_json::from_str(&text).unwrap();
            for one in &mut stored {
                let last = one.last_unix_s.saturating_add_signed(-by);
                (one.since_unix_s, one.last_unix_s) = (last, last);
            }
            std::fs::write(&file, serde_json::to_vec(&stored).unwrap()).unwrap();
            Sessions::open_file(folder.path()).account(&cookie, Instant::now()).is_some()
        };
        assert!(age(29 * 60) && !age(31 * 60) && !age(-600));
        std::fs::write(&file, "{").unwrap();
        assert!(Sessions::open_file(folder.path()).account(&cookie, now).is_none());
    }

    #[test]
    fn a_file_that_cannot_be_written_is_written_later() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        let sessions = Sessions::open_file(&state);
        let cookie = sessions.begin(&account("ann", "a"), 100, Instant::now());
        sessions.store();
        std::fs::create_dir(&state).unwrap();
        sessions.store();
        let again = Sessions::open_file(&state);
        assert!(again.account(&cookie, Instant::now()).is_some(), "no other change is needed");
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
