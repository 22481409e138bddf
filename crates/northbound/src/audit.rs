//! The audit log: who did what, when, from where, and what came of it. One JSON object a line.
//!
//! It is bounded: a full file becomes `audit.log.1`, and the one that was that is gone. Log-ins that failed stand in
//! `audit-logins.log`: strangers can fill that one, and push nothing out of the trail of changes.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;

/// Size at which the file is set aside, in bytes.
pub const SIZE_LIMIT_BYTES: u64 = 16 << 20;
/// Letters of one value that are kept: what a stranger says must not fill the log.
const VALUE_LIMIT: usize = 512;

/// One thing that somebody did.
#[derive(Clone, Debug)]
pub struct Deed<'a> {
    /// The user, or the name that was claimed.
    pub user: &'a str,
    /// Where it came from; `None`: the machine itself.
    pub from: Option<IpAddr>,
    /// The client: "restconf", "login", "token", ...
    pub client: &'a str,
    /// What was asked.
    pub what: &'a str,
    /// What came of it.
    pub result: &'a str,
}

/// The logs in the folder of the state.
#[derive(Debug)]
pub struct Audit {
    deeds: Log,
    refused: Log,
}

#[derive(Debug)]
struct Log {
    path: PathBuf,
    file: Mutex<Option<(File, u64)>>,
}

impl Audit {
    /// The logs in `folder`; each file is opened at its first deed.
    pub fn new(folder: &Path) -> Audit {
        let log = |name: &str| Log { path: folder.join(name), file: Mutex::new(None) };
        Audit { deeds: log("audit.log"), refused: log("audit-logins.log") }
    }

    /// Writes down one deed. A disk that is full does not stop the deed; it is said in the log of the program.
    pub fn write(&self, deed: &Deed<'_>) {
        self.deeds.write(deed);
    }

    /// Writes down a log-in that was refused, where it takes no room from the deeds.
    pub fn write_refused(&self, deed: &Deed<'_>) {
        self.refused.write(deed);
    }
}

impl Log {
    fn write(&self, deed: &Deed<'_>) {
        let short = |text: &str| text.chars().take(VALUE_LIMIT).collect::<String>();
        let line = json!({
            "time": timestamp(SystemTime::now()),
            "user": short(deed.user),
            "from": deed.from.map(|from| from.to_string()),
            "client": deed.client,
            "what": short(deed.what),
            "result": short(deed.result),
        });
        if let Err(error) = self.append(&format!("{line}\n")) {
            tracing::warn!("cannot write {}: {error}", self.path.display());
        }
    }

    fn append(&self, line: &str) -> io::Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if file.as_ref().is_some_and(|(_, size)| size + line.len() as u64 > SIZE_LIMIT_BYTES) {
            *file = None;
            std::fs::rename(&self.path, self.path.with_extension("log.1"))?;
        }
        let (open, size) = match &mut *file {
            Some(open) => open,
            none => {
                let mut options = OpenOptions::new();
                let open = options.append(true).create(true).mode(0o600).open(&self.path)?;
                let size = open.metadata()?.len();
                none.insert((open, size))
            }
        };
        // One write a line: lines of two threads do not mix, and none is cut in the middle.
        open.write_all(line.as_bytes())?;
        *size += line.len() as u64;
        Ok(())
    }
}

/// A moment as RFC 3339 in UTC, to the second.
pub fn timestamp(moment: SystemTime) -> String {
    stoa_api::date::of_unix_s(moment.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_bounded_and_keeps_one_old_file() {
        let folder = tempfile::tempdir().unwrap();
        let audit = Audit::new(folder.path());
        let what = "x".repeat(10_000);
        let deed =
            Deed { user: "eve", from: None, client: "login", what: &what, result: "refused" };
        audit.write(&deed);
        let line = std::fs::read_to_string(folder.path().join("audit.log")).unwrap();
        assert!(line.len() < 1_000, "{}", line.len());
        let read: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(read["user"], "eve");
        // As if the log were nearly full.
        audit.deeds.file.lock().unwrap().as_mut().unwrap().1 = SIZE_LIMIT_BYTES;
        audit.write(&deed);
        audit.write(&deed);
        let lines =
            |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap().lines().count();
        assert_eq!((lines("audit.log.1"), lines("audit.log")), (1, 2));
        for _ in 0..5 {
            audit.write_refused(&deed);
        }
        assert_eq!((lines("audit-logins.log"), lines("audit.log")), (5, 2));
    }
}
