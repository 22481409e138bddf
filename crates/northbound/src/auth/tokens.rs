//! Bearer tokens: random, shown once, stored as digests in the state folder. A token ends with its user, and with the
//! password that its user had when it was created.

use std::collections::HashMap;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use stoa_controller::config::management::User;

use super::account::Account;
use super::secret;

/// Maximum number of tokens of one user.
pub const LIMIT: usize = 100;
/// Maximum lifetime of a token.
pub const LIFE_MAX: Duration = Duration::from_secs(10 * 366 * 86_400);
/// The prefix of a token, which people and secret scanners recognize.
const PREFIX: &str = "stoa_";

/// A stored token.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Token {
    /// A number that is never reused.
    pub id: u64,
    /// The name that its creator gave it.
    pub name: String,
    /// Its user.
    pub user: String,
    /// Creation time, in seconds since 1970. Files of earlier versions call it `made_unix_s`.
    #[serde(alias = "made_unix_s")]
    pub created_unix_s: u64,
    /// Expiry, in seconds since 1970.
    pub expires_unix_s: u64,
    /// Its SHA-256.
    digest: String,
    /// Changes with the password of its user. Files of earlier versions lack it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fingerprint: Option<String>,
}

impl Token {
    /// Whether it is valid for this user.
    fn is_of(&self, user: &User, now: SystemTime) -> bool {
        let is_same = |known: &String| *known == Account::fingerprint(user);
        self.user == user.name
            && self.expires_unix_s > unix_s(now)
            && self.fingerprint.as_ref().is_none_or(is_same)
    }
}

/// Why no token was created.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There are too many.
    #[error("the limit of {LIMIT} tokens of a user is reached: remove some of {0}")]
    Full(String),
    /// The file cannot be written.
    #[error("cannot store the tokens: {0}")]
    Disk(#[from] io::Error),
}

#[derive(Debug, Default, Deserialize, Serialize)]
struct TokenFile {
    last_id: u64,
    tokens: Vec<Token>,
}

/// All tokens, in memory and in a file.
#[derive(Debug)]
pub struct Tokens {
    path: PathBuf,
    kept: Mutex<KeptTokens>,
    /// The revision in the file. Its lock is held while the file is written, that of the tokens is not: a slow disk
    /// delays no client that only shows a token, and one write serves all who wait for one.
    written: Arc<tokio::sync::Mutex<u64>>,
    /// Why the file must not be overwritten.
    blocked: Option<String>,
}

#[derive(Debug, Default)]
struct KeptTokens {
    last_id: u64,
    by_digest: HashMap<String, Token>,
    /// Counts the changes.
    revision: u64,
}

impl KeptTokens {
    fn new(file: TokenFile) -> KeptTokens {
        let by_digest = file.tokens.into_iter().map(|token| (token.digest.clone(), token));
        KeptTokens { last_id: file.last_id, by_digest: by_digest.collect(), revision: 0 }
    }

    /// These tokens in order of creation.
    fn sorted(&self, is_meant: impl Fn(&Token) -> bool) -> Vec<Token> {
        let meant = self.by_digest.values().filter(|token| is_meant(token));
        let mut sorted: Vec<Token> = meant.cloned().collect();
        sorted.sort_unstable_by_key(|token| token.id);
        sorted
    }

    /// Removes all other tokens. Returns whether there were any.
    fn retain(&mut self, mut is_kept: impl FnMut(&mut Token) -> bool) -> bool {
        let before = self.by_digest.len();
        self.by_digest.retain(|_, token| is_kept(token));
        let is_changed = self.by_digest.len() != before;
        self.revision += u64::from(is_changed);
        is_changed
    }
}

fn unix_s(moment: SystemTime) -> u64 {
    moment.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Renames a file that cannot be read, so that the next token does not overwrite it. Returns why the file cannot be
/// renamed and must not be overwritten.
fn set_aside(path: &Path, error: &io::Error) -> Option<String> {
    let damaged = path.with_extension(format!("json.damaged-{}", unix_s(SystemTime::now())));
    let renamed = std::fs::rename(path, &damaged);
    let (path, kept) = (path.display(), damaged.display());
    match renamed {
        Ok(()) => {
            tracing::error!(
                "{path}: cannot read the tokens, no token is valid: {error}. The file is now {kept}: repair it, \
                rename it back and restart Stoa, or create new tokens."
            );
            None
        }
        Err(refused) => {
            let words = format!(
                "{path}: cannot read the tokens, no token is valid: {error}. The file cannot be renamed to \
                {kept}: {refused}. Move it to another folder and restart Stoa."
            );
            tracing::error!("{words}");
            Some(words)
        }
    }
}

impl Tokens {
    /// The tokens of `folder`. An unreadable file is reported, kept under another name, and means no tokens: nobody can
    /// log in with one.
    pub fn open(folder: &Path) -> Tokens {
        let path = folder.join("tokens.json");
        let read = match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(io::Error::from),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(TokenFile::default()),
            Err(error) => Err(error),
        };
        let (file, blocked) = match read {
            Ok(file) => (file, None),
            Err(error) => (TokenFile::default(), set_aside(&path, &error)),
        };
        Tokens { path, kept: Mutex::new(KeptTokens::new(file)), written: Arc::default(), blocked }
    }

    fn kept(&self) -> MutexGuard<'_, KeptTokens> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates a token; its text is returned and not stored.
    ///
    /// # Errors
    /// When the limit is reached, or the file cannot be written; then the token does not exist.
    pub async fn make(
        &self,
        user: &User,
        name: &str,
        life: Duration,
        now: SystemTime,
    ) -> Result<(Token, String), Error> {
        let text = format!("{PREFIX}{}", secret::text());
        let (token, revision) = {
            let mut kept = self.kept();
            kept.retain(|token| token.expires_unix_s > unix_s(now));
            let held = kept.by_digest.values().filter(|token| token.user == user.name).count();
            if held >= LIMIT {
                return Err(Error::Full(user.name.clone()));
            }
            kept.last_id += 1;
            kept.revision += 1;
            let token = Token {
                id: kept.last_id,
                name: name.to_owned(),
                user: user.name.clone(),
                created_unix_s: unix_s(now),
                expires_unix_s: unix_s(now + life.min(LIFE_MAX)),
                digest: secret::kept(&text),
                fingerprint: Some(Account::fingerprint(user)),
            };
            kept.by_digest.insert(token.digest.clone(), token.clone());
            (token, kept.revision)
        };
        if let Err(error) = self.save(revision).await {
            self.kept().retain(|one| one.id != token.id);
            return Err(error.into());
        }
        Ok((token, text))
    }

    /// The user of a token; `None`: it is unknown, has expired, or ended with its user or the password.
    pub fn user<'a>(&self, text: &str, users: &'a [User], now: SystemTime) -> Option<&'a User> {
        let kept = self.kept();
        // A digest does not reveal where a guess differs, so a plain comparison is safe.
        let token = kept.by_digest.get(&secret::kept(text))?;
        users.iter().find(|user| token.is_of(user, now))
    }

    /// The expiry of the token with this digest, in seconds since 1970; `None`: it is not valid for this user.
    pub fn expires(&self, digest: &str, user: &User, now: SystemTime) -> Option<u64> {
        let kept = self.kept();
        let token = kept.by_digest.get(digest).filter(|token| token.is_of(user, now))?;
        Some(token.expires_unix_s)
    }

    /// Removes the tokens of removed users and of changed passwords: a later user of the same name does not inherit
    /// them. A token of an earlier version belongs to the password of now. [`Self::store`] writes the file.
    pub fn follow(&self, users: &[User]) {
        let mut kept = self.kept();
        let mut known: HashMap<String, Option<String>> = HashMap::new();
        let mut is_new = false;
        kept.retain(|token| {
            let of = |name: &String| users.iter().find(|user| user.name == *name);
            let now = known.entry(token.user.clone());
            let now = now.or_insert_with_key(|name| of(name).map(Account::fingerprint));
            let Some(now) = now else { return false };
            is_new |= token.fingerprint.is_none();
            token.fingerprint.get_or_insert_with(|| now.clone()) == now
        });
        kept.revision += u64::from(is_new);
    }

    /// Tokens of one user, or of all.
    pub fn list(&self, user: Option<&str>) -> Vec<Token> {
        self.kept().sorted(|token| user.is_none_or(|user| token.user == user))
    }

    /// Removes a token of one user, or of any user. Returns whether it existed.
    ///
    /// # Errors
    /// When the file cannot be written; the token is invalid until the next start.
    pub async fn remove(&self, id: u64, user: Option<&str>) -> io::Result<bool> {
        let is_meant = |token: &Token| token.id == id && user.is_none_or(|user| token.user == user);
        let revision = {
            let mut kept = self.kept();
            if !kept.retain(|token| !is_meant(token)) {
                return Ok(false);
            }
            kept.revision
        };
        self.save(revision).await.map(|()| true)
    }

    /// Writes the file if it is older than the tokens.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub async fn store(&self) -> io::Result<()> {
        let revision = self.kept().revision;
        self.save(revision).await
    }

    /// Writes the file, unless it has this revision or a later one.
    async fn save(&self, revision: u64) -> io::Result<()> {
        let mut written = Arc::clone(&self.written).lock_owned().await;
        if *written >= revision {
            return Ok(());
        }
        if let Some(words) = &self.blocked {
            return Err(io::Error::other(words.clone()));
        }
        let (latest, file) = {
            let kept = self.kept();
            (kept.revision, TokenFile { last_id: kept.last_id, tokens: kept.sorted(|_| true) })
        };
        let path = self.path.clone();
        // The lock goes with the write, so that a client that disconnects lets nobody write meanwhile.
        let write = tokio::task::spawn_blocking(move || {
            write_whole(&path, &serde_json::to_vec(&file)?)?;
            *written = latest;
            Ok(())
        });
        write.await.map_err(io::Error::other)?
    }
}

/// Writes a file that only the owner may read: to a temporary file, synced, renamed.
///
/// # Errors
/// The error of the system.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_mode(path, bytes, 0o600)
}

/// As [`write_whole`], with this file mode.
///
/// # Errors
/// The error of the system.
pub fn write_mode(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let fresh = path.with_extension(format!("{}.new", std::process::id()));
    let _ = std::fs::remove_file(&fresh);
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(mode).open(&fresh)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&fresh, path)
}

#[cfg(test)]
mod tests;
