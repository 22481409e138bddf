//! The setup token: it creates the first user, is in a file while there are no users, and replaces a default password.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::secret;
use super::tokens::write_whole;

/// The setup token of a router without users. It is only in its file, which only the owner can read: the log may leave
/// the router in clear text.
#[derive(Debug)]
pub struct Setup {
    path: PathBuf,
    token: Mutex<Option<String>>,
}

impl Setup {
    /// Without a token.
    pub fn new(state: &Path) -> Setup {
        Setup { path: state.join("setup-token"), token: Mutex::default() }
    }

    /// Creates the token when there are no users and logs its file, else removes it.
    pub fn follow(&self, has_users: bool) {
        let mut token = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        if has_users {
            if token.take().is_some() || self.path.exists() {
                let _ = std::fs::remove_file(&self.path);
            }
            return;
        }
        if token.is_some() {
            return;
        }
        let kept = std::fs::read_to_string(&self.path).ok();
        let kept = kept.map(|text| text.trim().to_owned()).filter(|text| text.len() >= 32);
        let text = kept.unwrap_or_else(secret::text);
        let file = self.path.display();
        match write_whole(&self.path, format!("{text}\n").as_bytes()) {
            Ok(()) => tracing::warn!(
                "the management server has no user yet: create the first one with `stoa user setup`, \
                or with POST /setup and the setup token in {file}"
            ),
            Err(error) => tracing::warn!(
                "the management server has no user yet, and its setup token cannot be written to {file}: {error}; \
                create the first user with `stoa user setup`"
            ),
        }
        *token = Some(text);
    }

    /// Whether this is the token; `false` while there are users.
    pub fn is_right(&self, shown: &str) -> bool {
        let token = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        token.as_ref().is_some_and(|token| secret::is_same(token, shown))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_outlives_a_restart_and_ends_with_the_first_user() {
        let folder = tempfile::tempdir().unwrap();
        let setup = Setup::new(folder.path());
        assert!(!setup.is_right(""));
        setup.follow(false);
        let text = std::fs::read_to_string(folder.path().join("setup-token")).unwrap();
        let text = text.trim();
        assert!(setup.is_right(text) && !setup.is_right("x") && !setup.is_right(""));
        let again = Setup::new(folder.path());
        again.follow(false);
        assert!(again.is_right(text));
        again.follow(true);
        assert!(!again.is_right(text));
        assert!(!folder.path().join("setup-token").exists());
    }
}
