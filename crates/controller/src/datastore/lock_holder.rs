//! Who holds the lock of the configuration.

use std::time::SystemTime;

use super::author::Client;

/// The holder of the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockHolder {
    /// The user.
    pub name: String,
    /// The client of the user.
    pub client: Client,
    /// Start of the lock.
    pub since: SystemTime,
    /// Known to the holder alone.
    pub(super) session: u64,
}

impl std::fmt::Display for LockHolder {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seconds = self.since.elapsed().unwrap_or_default().as_secs();
        let LockHolder { name, client, .. } = self;
        match seconds {
            0..120 => write!(out, "{name} ({client}) has locked the configuration for {seconds} s"),
            _ => {
                let minutes = seconds / 60;
                write!(out, "{name} ({client}) has locked the configuration for {minutes} min")
            }
        }
    }
}
