//! Passwords: argon2 hashes, computed off the threads that answer clients.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use stoa_controller::config::management::User;
use tokio::sync::Semaphore;

use super::secret;

/// Minimum length of a password, in characters.
pub const LENGTH_MIN: usize = 8;
/// Maximum length of a password, in bytes.
pub const LENGTH_MAX: usize = 1_024;
/// Concurrent comparisons: each takes 19 MiB and a processor.
const AT_ONCE: usize = 2;
/// How long a successful comparison is cached: programs send the password with each request.
const REMEMBER: Duration = Duration::from_secs(60);
/// Maximum number of cached comparisons.
const REMEMBER_LIMIT: usize = 256;

/// The hash of a password as a PHC string, with a random salt.
///
/// # Errors
/// When it is too short or too long, or the system lacks memory or randomness.
pub fn hash(password: &str) -> Result<String, String> {
    if password.chars().count() < LENGTH_MIN {
        return Err(format!(
            "the password has fewer than {LENGTH_MIN} characters: choose a longer one"
        ));
    }
    if password.len() > LENGTH_MAX {
        return Err(format!("the password has more than {LENGTH_MAX} bytes: choose a shorter one"));
    }
    let hashed = Argon2::default().hash_password(password.as_bytes());
    hashed.map(|hash| hash.to_string()).map_err(|error| format!("argon2: {error}"))
}

fn is_right(password: &str, hash: &str) -> bool {
    let Ok(hash) = PasswordHash::new(hash) else { return false };
    Argon2::default().verify_password(password.as_bytes(), &hash).is_ok()
}

/// Verifies passwords.
#[derive(Debug)]
pub struct Passwords {
    places: Semaphore,
    /// The hash for unknown users, so that the response time does not reveal whether a user exists.
    nobody: String,
    /// Keyed digests of user, hash and password that were verified.
    right: Mutex<HashMap<[u8; 32], Instant>>,
    key: [u8; 32],
}

impl Passwords {
    /// Takes the time of one hash.
    pub fn new() -> Passwords {
        let nobody = hash("nobody has this password").unwrap_or_default();
        Passwords {
            places: Semaphore::new(AT_ONCE),
            nobody,
            right: Mutex::default(),
            key: secret::random(),
        }
    }

    fn digest(&self, user: &str, password: &str, hash: &str) -> [u8; 32] {
        secret::digest(&[
            &self.key[..],
            &(user.len() as u64).to_be_bytes(),
            user.as_bytes(),
            hash.as_bytes(),
            b"\0",
            password.as_bytes(),
        ])
    }

    /// Whether the password was verified recently. This takes next to no time.
    pub fn was_verified(&self, user: &str, password: &str, hash: Option<&str>) -> bool {
        let digest = hash.map(|hash| self.digest(user, password, hash));
        password.len() <= LENGTH_MAX && digest.is_some_and(|digest| self.is_remembered(&digest))
    }

    /// The hash that is compared for a user who has none: that of one of the users, always the same for a name. Hashes
    /// of the configuration may take more or less time than ours.
    pub fn other(&self, name: &str, users: &[User]) -> Option<String> {
        let good = |hash: &&str| PasswordHash::new(hash).is_ok();
        let hashes = || users.iter().filter_map(|user| user.password_hash.as_deref()).filter(good);
        let count = hashes().count().max(1);
        let digest = secret::digest(&[&self.key[..], b"other", name.as_bytes()]);
        let number = digest[..4].iter().fold(0, |number, byte| number * 256 + usize::from(*byte));
        hashes().nth(number % count).map(str::to_owned)
    }

    /// Whether the password is right. `hash` is `None` for an unknown user, or one without a password: then `other` is
    /// compared, which takes the time of a known user.
    pub async fn check(
        &self,
        user: &str,
        password: &str,
        (hash, other): (Option<&str>, Option<&str>),
    ) -> bool {
        if password.len() > LENGTH_MAX {
            return false;
        }
        if self.was_verified(user, password, hash) {
            return true;
        }
        let hash = hash.filter(|hash| PasswordHash::new(hash).is_ok());
        let known = hash.is_some();
        let hash = hash.or(other).unwrap_or(&self.nobody).to_owned();
        let digest = self.digest(user, password, &hash);
        let Ok(_place) = self.places.acquire().await else { return false };
        let password = password.to_owned();
        let compare = tokio::task::spawn_blocking(move || is_right(&password, &hash));
        let is_right = compare.await.unwrap_or(false) && known;
        if is_right {
            self.remember(digest);
        }
        is_right
    }

    fn is_remembered(&self, digest: &[u8; 32]) -> bool {
        let right = self.right.lock().unwrap_or_else(PoisonError::into_inner);
        right.get(digest).is_some_and(|since| since.elapsed() < REMEMBER)
    }

    fn remember(&self, digest: [u8; 32]) {
        let mut right = self.right.lock().unwrap_or_else(PoisonError::into_inner);
        right.retain(|_, since| since.elapsed() < REMEMBER);
        if right.len() < REMEMBER_LIMIT {
            right.insert(digest, Instant::now());
        }
    }
}

impl Default for Passwords {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_right_password_and_no_other() {
        let passwords = Passwords::new();
        let hash = hash("correct horse").unwrap();
        assert!(hash.starts_with("$argon2id$v=19$m="), "{hash}");
        let of_ann = (Some(hash.as_str()), None);
        assert!(!passwords.check("ann", "correct horsf", of_ann).await);
        assert!(passwords.check("ann", "correct horse", of_ann).await);
        assert!(passwords.check("ann", "correct horse", of_ann).await, "remembered");
        assert!(passwords.was_verified("ann", "correct horse", Some(&hash)));
        assert!(!passwords.was_verified("bob", "correct horse", Some(&hash)));
        assert!(!passwords.check("ann", "correct horsf", of_ann).await);
        assert!(!passwords.check("bob", "nobody has this password", (None, None)).await);
        assert!(!passwords.check("bob", "correct horse", (None, Some(&hash))).await);
        assert!(!passwords.was_verified("bob", "correct horse", Some(&hash)));
        assert!(!passwords.check("ann", "correct horse", (Some("no hash"), None)).await);
    }

    #[test]
    fn unknown_users_take_the_time_of_known_ones() {
        let passwords = Passwords::new();
        let hash = hash("correct horse").unwrap();
        let slow = hash.replace("m=19456", "m=65536");
        assert_ne!(hash, slow, "the cost of our own hashes");
        let user = |hash: Option<&str>| User {
            name: "x".into(),
            password_hash: hash.map(str::to_owned),
            group: vec![],
            admin: false,
        };
        let users = [user(Some(&hash)), user(None), user(Some(&slow)), user(Some("no hash"))];
        let other = |name: usize| passwords.other(&name.to_string(), &users).unwrap();
        let count = (0..200).filter(|name| other(*name) == slow).count();
        assert!((50..150).contains(&count), "half of the names: {count}");
        assert!((0..50).all(|name| other(name) == other(name)));
        assert_eq!(passwords.other("x", &users[1..2]), None);
    }

    #[test]
    fn passwords_have_a_length() {
        assert!(hash("short").unwrap_err().contains("8 characters"));
        assert!(hash(&"x".repeat(2_000)).unwrap_err().contains("shorter"));
    }
}
