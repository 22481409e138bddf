//! Bearer tokens: random, shown once, stored as digests in the state folder.

use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use stoa_controller::config::management::User;

use super::secret;

/// Maximum number of tokens of all users.
pub const LIMIT: usize = 10_000;
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
}

/// Why no token was created.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There are too many.
    #[error("the limit of {LIMIT} tokens is reached: remove some")]
    Full,
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
    kept: Mutex<TokenFile>,
    /// Why the file must not be overwritten.
    blocked: Option<String>,
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
        let (kept, blocked) = match read {
            Ok(kept) => (kept, None),
            Err(error) => (TokenFile::default(), set_aside(&path, &error)),
        };
        Tokens { path, kept: Mutex::new(kept), blocked }
    }

    fn kept(&self) -> MutexGuard<'_, TokenFile> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates a token; its text is returned and not stored.
    ///
    /// # Errors
    /// When the limit is reached, or the file cannot be written; then the token does not exist.
    pub fn make(
        &self,
        user: &str,
        name: &str,
        life: Duration,
        now: SystemTime,
    ) -> Result<(Token, String), Error> {
        let mut kept = self.kept();
        kept.tokens.retain(|token| token.expires_unix_s > unix_s(now));
        if kept.tokens.len() >= LIMIT {
            return Err(Error::Full);
        }
        let text = format!("{PREFIX}{}", secret::text());
        let token = Token {
            id: kept.last_id + 1,
            name: name.to_owned(),
            user: user.to_owned(),
            created_unix_s: unix_s(now),
            expires_unix_s: unix_s(now + life.min(LIFE_MAX)),
            digest: secret::kept(&text),
        };
        kept.last_id = token.id;
        kept.tokens.push(token.clone());
        if let Err(error) = self.write(&kept) {
            kept.tokens.pop();
            return Err(error.into());
        }
        Ok((token, text))
    }

    /// The user of a token; `None`: it is unknown or has expired.
    pub fn user(&self, text: &str, now: SystemTime) -> Option<String> {
        let digest = secret::kept(text);
        let kept = self.kept();
        // A digest does not reveal where a guess differs, so a plain comparison is safe.
        let token = kept.tokens.iter().find(|token| token.digest == digest)?;
        (token.expires_unix_s > unix_s(now)).then(|| token.user.clone())
    }

    /// The expiry of the token with this digest, in seconds since 1970; `None`: it is not valid.
    pub fn expires(&self, digest: &str, now: SystemTime) -> Option<u64> {
        let kept = self.kept();
        let token = kept.tokens.iter().find(|token| token.digest == digest);
        token.map(|token| token.expires_unix_s).filter(|expires| *expires > unix_s(now))
    }

    /// Removes the tokens of removed users: a later user of the same name does not inherit them.
    pub fn follow(&self, users: &[User]) {
        let mut kept = self.kept();
        let before = kept.tokens.len();
        kept.tokens.retain(|token| users.iter().any(|user| user.name == token.user));
        if kept.tokens.len() != before
            && let Err(error) = self.write(&kept)
        {
            tracing::warn!("cannot write {}: {error}", self.path.display());
        }
    }

    /// Tokens of one user, or of all.
    pub fn list(&self, user: Option<&str>) -> Vec<Token> {
        let kept = self.kept();
        let of = |token: &&Token| user.is_none_or(|user| token.user == user);
        kept.tokens.iter().filter(of).cloned().collect()
    }

    /// Removes a token of one user, or of any user. Returns whether it existed.
    ///
    /// # Errors
    /// When the file cannot be written; the token is invalid until the next start.
    pub fn remove(&self, id: u64, user: Option<&str>) -> io::Result<bool> {
        let mut kept = self.kept();
        let before = kept.tokens.len();
        kept.tokens.retain(|token| token.id != id || user.is_some_and(|user| token.user != user));
        if kept.tokens.len() == before {
            return Ok(false);
        }
        self.write(&kept)?;
        Ok(true)
    }

    fn write(&self, kept: &TokenFile) -> io::Result<()> {
        if let Some(words) = &self.blocked {
            return Err(io::Error::other(words.clone()));
        }
        let bytes = serde_json::to_vec(kept).map_err(io::Error::other)?;
        write_whole(&self.path, &bytes)
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
mod tests {
    use super::*;

    #[test]
    fn a_token_is_valid_until_it_expires_or_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = Tokens::open(folder.path());
        let now = SystemTime::now();
        let hour = Duration::from_secs(3_600);
        let (first, text) = tokens.make("ann", "script", hour, now).unwrap();
        let (second, _) = tokens.make("bob", "other", hour, now).unwrap();
        assert_eq!(tokens.user(&text, now).as_deref(), Some("ann"));
        assert_eq!(tokens.user("stoa_guess", now), None);
        assert_eq!(tokens.user(&text, now + hour), None);
        let file = std::fs::read_to_string(folder.path().join("tokens.json")).unwrap();
        assert!(!file.contains(&text), "only the digest is stored");
        // After a restart.
        let tokens = Tokens::open(folder.path());
        assert_eq!(tokens.user(&text, now).as_deref(), Some("ann"));
        assert_eq!(tokens.list(Some("ann")), std::slice::from_ref(&first));
        assert!(!tokens.remove(second.id, Some("ann")).unwrap());
        assert!(tokens.remove(first.id, Some("ann")).unwrap());
        assert_eq!(tokens.user(&text, now), None);
        let (third, _) = tokens.make("ann", "again", hour, now).unwrap();
        assert_eq!(third.id, 3);
        tokens.follow(&[]);
        assert!(tokens.list(None).is_empty());
    }

    #[test]
    fn a_file_of_an_earlier_version_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let token = r#"{"id": 7, "name": "n", "user": "ann", "made_unix_s": 1, "expires_unix_s": 2, "digest": "d"}"#;
        let file = format!(r#"{{"last_id": 7, "tokens": [{token}]}}"#);
        std::fs::write(folder.path().join("tokens.json"), file).unwrap();
        let tokens = Tokens::open(folder.path()).list(Some("ann"));
        assert_eq!((tokens[0].id, tokens[0].created_unix_s), (7, 1));
    }

    #[test]
    fn a_damaged_file_lets_nobody_in_and_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.json");
        std::fs::write(&path, "{").unwrap();
        let (tokens, now) = (Tokens::open(folder.path()), SystemTime::now());
        assert_eq!(tokens.user("", now), None);
        assert!(!path.exists());
        tokens.make("ann", "script", Duration::from_secs(60), now).unwrap();
        assert_eq!(Tokens::open(folder.path()).list(None).len(), 1);
        let files = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path());
        let is_damaged = |file: &PathBuf| file.to_string_lossy().contains("/tokens.json.damaged-");
        let damaged: Vec<_> = files.filter(is_damaged).collect();
        assert_eq!(damaged.len(), 1, "{damaged:?}");
        assert_eq!(std::fs::read_to_string(&damaged[0]).unwrap(), "{");
    }

    #[test]
    fn a_file_that_cannot_be_set_aside_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing").join("tokens.json");
        let blocked = set_aside(&missing, &io::Error::other("damaged"));
        assert!(blocked.as_ref().is_some_and(|words| words.contains("tokens.json: cannot read")));
        let path = folder.path().join("tokens.json");
        let tokens = Tokens { path: path.clone(), kept: Mutex::default(), blocked };
        let refused = tokens.make("ann", "script", Duration::from_secs(60), SystemTime::now());
        assert!(refused.unwrap_err().to_string().contains("restart Stoa"));
        assert!(tokens.list(None).is_empty() && !path.exists());
    }
}
