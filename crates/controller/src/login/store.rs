//! The file with the logins, in the state folder: a restarted controller goes on with them.

use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::oneshot::{self, Receiver};

use super::sessions::Session;
use super::sessions::partner::Ended;

/// The largest file that is read, in bytes: more than that of all logins with all that a RADIUS server may add to one.
const LIMIT_BYTES: u64 = 512 << 20;
/// The pause between two writes: many hosts may log in at once.
const PAUSE: Duration = Duration::from_secs(1);
/// How often counters are stored.
const STORE: Duration = Duration::from_secs(30);

/// The contents of the file.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Stored {
    /// When it was written, see [`super::clock_s`]; 0: there is no file.
    pub(super) at_s: u64,
    pub(super) logins: Vec<Session>,
    /// Ends that the partner may not know.
    #[serde(default)]
    pub(super) ended: Vec<Ended>,
    /// Whether there may have been other logins, in a file that was lost.
    #[serde(default)]
    pub(super) is_partial: bool,
}

/// The file of a state folder.
#[derive(Clone, Debug)]
pub(super) struct Store(PathBuf);

impl Store {
    pub(super) fn of(state: &Path) -> Self {
        Self(state.join("logins.json"))
    }

    /// The logins in it, and when it was written; none if there is no file.
    fn read(&self) -> io::Result<Stored> {
        let length = match std::fs::metadata(&self.0) {
            Ok(file) => file.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Stored::default()),
            Err(error) => return Err(error),
        };
        if length > LIMIT_BYTES {
            return Err(io::Error::other(format!("{length} bytes are too many")));
        }
        Ok(serde_json::from_slice(&std::fs::read(&self.0)?)?)
    }

    /// Replaces the file as a whole.
    fn write(&self, stored: &Stored) -> io::Result<()> {
        let new = self.0.with_extension("new");
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(&serde_json::to_vec(stored)?)?;
        file.sync_all()?;
        std::fs::rename(&new, &self.0)
    }
}

/// Writes the file beside other work: at most once a second, and again after a failure.
#[derive(Debug)]
pub(super) struct Writer {
    store: Store,
    /// The result of the write that goes on.
    task: Option<Receiver<io::Result<()>>>,
    is_due: bool,
    /// When it was last written; `None`: never.
    last: Option<Instant>,
    /// The last reported error.
    reported: Option<String>,
    /// Whether the file has logins.
    has_logins: bool,
}

impl Writer {
    pub(super) fn new(store: Store) -> Self {
        Self { store, task: None, is_due: false, last: None, reported: None, has_logins: false }
    }

    /// What is in the file; nothing if it cannot be read.
    pub(super) fn read(&mut self) -> Stored {
        let stored = self.store.read().unwrap_or_else(|error| {
            let file = self.store.0.display();
            tracing::error!(%file, "cannot read the logins of hosts, which have to log in again: {error}");
            Stored::default()
        });
        self.has_logins = !stored.logins.is_empty();
        stored
    }

    /// Writes what is due, unless the last write still goes on. Call it each second, and after changes.
    pub(super) fn step(&mut self, is_changed: bool, all: impl FnOnce() -> Stored) {
        self.end_task();
        let is_old = |pause: Duration| self.last.is_none_or(|last| last.elapsed() >= pause);
        self.is_due |= is_changed || self.has_logins && is_old(STORE);
        if !self.is_due || self.task.is_some() || !is_old(PAUSE) {
            return;
        }
        let (all, store) = (all(), self.store.clone());
        (self.is_due, self.last, self.has_logins) =
            (false, Some(Instant::now()), !all.logins.is_empty());
        let (done, result) = oneshot::channel();
        self.task = Some(result);
        // Nobody may wait for it: the program ends.
        tokio::task::spawn_blocking(move || done.send(store.write(&all)));
    }

    /// Looks for the result of the last write.
    fn end_task(&mut self) {
        let Some(task) = &mut self.task else { return };
        let result = match task.try_recv() {
            Err(TryRecvError::Empty) => return,
            Ok(result) => result,
            Err(TryRecvError::Closed) => Err(io::Error::other("the write was given up")),
        };
        self.task = None;
        match result {
            Err(error) => {
                self.is_due = true;
                let words = error.to_string();
                if self.reported.as_ref() != Some(&words) {
                    tracing::warn!("cannot store the logins of hosts: {words}; it tries again");
                    self.reported = Some(words);
                }
            }
            Ok(()) => self.reported = None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::login::sessions::{Limits, Method, New, Sessions};

    #[test]
    fn logins_survive_their_file() {
        let folder = std::env::temp_dir().join(format!("stoa-logins-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let store = Store::of(&folder);
        assert_eq!(store.read().unwrap().logins, []);
        let mut sessions = Sessions::default();
        let host = stoa_api::login::Key { interface: "guests".to_owned(), mac: [2; 6] };
        let new = New {
            host,
            id: u64::MAX,
            user: "ann".to_owned(),
            method: Method::Radius,
            limits: Limits { bytes: Some(u64::MAX), ..Limits::default() },
            hosts_most: None,
            address: "10.0.0.9".to_owned(),
            class: vec![vec![0, 255]],
            interim_s: Some(60),
        };
        sessions.begin(new, 7).unwrap();
        let all: Vec<_> = sessions.all().cloned().collect();
        let host = sessions.all().next().unwrap().key();
        sessions.set_partner(true);
        sessions.end(&host, crate::login::Cause::User);
        let (ended, _) = sessions.ended();
        assert_eq!(ended.len(), 1);
        let stored = Stored { at_s: 7, logins: all.clone(), ended, is_partial: true };
        store.write(&stored).unwrap();
        assert_eq!(store.read().unwrap(), stored);
        // A file of another version has fields that this one does not know.
        let text = std::fs::read_to_string(folder.join("logins.json")).unwrap();
        let other = text.replace("\"run\":", "\"unknown\":{\"in_packets\":1},\"run\":");
        assert_ne!(other, text);
        std::fs::write(folder.join("logins.json"), other).unwrap();
        assert_eq!(store.read().unwrap().logins, all);
        std::fs::write(folder.join("logins.json"), "{").unwrap();
        assert!(store.read().is_err());
        assert_eq!(Writer::new(store).read(), Stored::default());
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[tokio::test]
    async fn a_write_that_fails_is_repeated() {
        let name = format!("stoa-logins-again-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let mut writer = Writer::new(Store::of(&folder));
        // The folder is not there.
        writer.step(true, Stored::default);
        let end = Instant::now() + Duration::from_secs(20);
        while writer.reported.is_none() {
            assert!(Instant::now() < end, "the error is seen");
            tokio::time::sleep(Duration::from_millis(20)).await;
            writer.step(false, Stored::default);
        }
        std::fs::create_dir_all(&folder).unwrap();
        while !folder.join("logins.json").exists() {
            assert!(Instant::now() < end, "the file is there");
            tokio::time::sleep(Duration::from_millis(20)).await;
            writer.step(false, Stored::default);
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
