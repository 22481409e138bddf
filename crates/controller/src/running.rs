//! The configuration in force, kept beside the socket while Stoa runs.
//!
//! A controller that died comes back with what the forwarder holds, even when
//! the file was edited meanwhile: nothing flaps, nothing is applied unasked.

use std::borrow::Cow;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::apply::ForwarderConnection;
use crate::configuration::{Configuration, Given};

/// The file that holds the configuration in force.
#[derive(Clone, Debug)]
pub struct Running {
    file: PathBuf,
    /// One writes at a time, and what is newest by then.
    writing: Arc<Mutex<()>>,
}

#[derive(Deserialize, Serialize)]
struct Kept<'a> {
    path: Cow<'a, Path>,
    text: Cow<'a, str>,
}

impl Running {
    /// The file that belongs to the operator's `socket`.
    pub fn beside(socket: &Path) -> Running {
        let mut file = socket.as_os_str().to_owned();
        file.push(".running");
        Running { file: PathBuf::from(file), writing: Arc::default() }
    }

    /// Whether a configuration was in force since Stoa was started.
    pub fn is_there(&self) -> bool {
        self.file.exists()
    }

    /// Forgets it: Stoa begins or ends.
    pub fn forget(&self) {
        let _ = std::fs::remove_file(&self.file);
    }

    /// The configuration that was in force, or `None` when there was none or it
    /// cannot be read.
    pub(crate) fn read(&self) -> Option<(Configuration, Given)> {
        let kept = std::fs::read(&self.file).ok()?;
        let kept: Kept<'_> = serde_json::from_slice(&kept).ok()?;
        match Configuration::parse_as_data(&kept.path, kept.text.into_owned()) {
            Ok(found) => Some(found),
            Err(errors) => {
                tracing::warn!(errors = errors.len(), "what was in force is not valid any more");
                None
            }
        }
    }

    /// Keeps what is in force now. Failing to is not worth a refusal: it is
    /// missed only when the controller dies, and then the file is read again.
    pub fn keep(&self, connection: &ForwarderConnection) {
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(now) = connection.configuration() else { return };
        let Configuration { path, text, .. } = &*now;
        if let Err(error) =
            self.write(&Kept { path: Cow::Borrowed(path), text: Cow::Borrowed(text) })
        {
            tracing::warn!("cannot keep {}: {error}", self.file.display());
            // An older one would be taken for what is in force.
            self.forget();
        }
    }

    fn write(&self, kept: &Kept<'_>) -> io::Result<()> {
        let fresh = self.file.with_extension(format!("running.{}", std::process::id()));
        let _ = std::fs::remove_file(&fresh);
        // Only the owner may read it: a configuration may hold secrets.
        let mut file =
            std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
        file.write_all(&serde_json::to_vec(kept)?)?;
        std::fs::rename(&fresh, &self.file)
    }
}
