//! The running configuration, stored beside the socket while Stoa runs.
//!
//! A restarted controller resumes the configuration of the forwarder, even if the startup file was edited meanwhile.

use std::borrow::Cow;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::apply::ForwarderConnection;
use crate::configuration::{Configuration, Given};
use crate::datastore;

/// The file with the running configuration.
#[derive(Clone, Debug)]
pub struct Running {
    file: PathBuf,
    /// Serializes writers; each writes the newest configuration.
    writing: Arc<Mutex<()>>,
}

#[derive(Deserialize, Serialize)]
struct Stored<'a> {
    path: Cow<'a, Path>,
    /// The text, or the entry of the history and the difference that it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after: Option<After<'a>>,
}

/// A configuration of the history, and the difference of the running one to it.
#[derive(Deserialize, Serialize)]
struct After<'a> {
    number: u64,
    difference: Cow<'a, str>,
}

impl Running {
    /// The file of the operator's `socket`.
    pub fn beside(socket: &Path) -> Running {
        let mut file = socket.as_os_str().to_owned();
        file.push(".running");
        Running { file: PathBuf::from(file), writing: Arc::default() }
    }

    /// Whether a configuration has been in effect since the start of Stoa.
    pub fn exists(&self) -> bool {
        self.file.exists()
    }

    /// Removes the file at the start and the end of Stoa.
    pub fn remove(&self) {
        let _ = std::fs::remove_file(&self.file);
    }

    /// The stored configuration; `None` if there is none or it cannot be read. `state` is the state folder.
    pub(crate) fn read(&self, state: &Path) -> Option<(Configuration, Given)> {
        let stored = std::fs::read(&self.file).ok()?;
        let stored: Stored<'_> = serde_json::from_slice(&stored).ok()?;
        let text = match (stored.text, stored.after) {
            (Some(text), _) => text.into_owned(),
            (None, Some(After { number, difference })) => {
                let text = datastore::past_text(state, number, &difference);
                let text = text.inspect_err(|refusal| tracing::warn!("the history: {refusal}"));
                text.ok()?
            }
            (None, None) => return None,
        };
        match Configuration::parse_as_data(&stored.path, text) {
            Ok(found) => Some(found),
            Err(errors) => {
                tracing::warn!(
                    errors = errors.len(),
                    "the stored running configuration is not valid any more"
                );
                None
            }
        }
    }

    /// Stores the running configuration. An error is only logged: then a restarted controller reads the startup file.
    pub fn store(&self, connection: &ForwarderConnection) {
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(running) = connection.configuration() else { return };
        // A text that was given up is stored already.
        let Some(text) = running.text.get() else { return };
        let text = Some(Cow::Borrowed(&*text));
        self.replace(&Stored { path: Cow::Borrowed(&running.path), text, after: None });
    }

    /// Stores the running configuration as the difference to an entry of the history.
    pub(crate) fn store_after(&self, path: &Path, number: u64, difference: &str) {
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let after = Some(After { number, difference: Cow::Borrowed(difference) });
        self.replace(&Stored { path: Cow::Borrowed(path), text: None, after });
    }

    fn replace(&self, stored: &Stored<'_>) {
        if let Err(error) = self.write(stored) {
            tracing::warn!("cannot write {}: {error}", self.file.display());
            // An older file would be taken for the running configuration.
            self.remove();
        }
    }

    fn write(&self, stored: &Stored<'_>) -> io::Result<()> {
        let temporary = self.file.with_extension(format!("running.{}", std::process::id()));
        let _ = std::fs::remove_file(&temporary);
        // Mode 0600: a configuration may contain secrets.
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temporary)?;
        file.write_all(&serde_json::to_vec(stored)?)?;
        std::fs::rename(&temporary, &self.file)
    }
}
