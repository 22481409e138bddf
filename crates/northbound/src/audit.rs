//! The audit log: who did what, when, from where, and the result. One JSON object per line.
//!
//! Its size is limited: a full file becomes `audit.log.1`, which replaces the previous one. Failed logins are in
//! `audit-logins.log`: strangers can fill that file, but cannot push out records of changes.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;

/// Size at which a file is rotated, in bytes.
pub const SIZE_LIMIT_BYTES: u64 = 16 << 20;
/// Maximum length of a value in characters: a client must not fill the log.
const VALUE_LIMIT: usize = 512;

/// One audit record.
#[derive(Clone, Debug)]
pub struct AuditRecord<'a> {
    /// The user, or the name that was claimed.
    pub user: &'a str,
    /// The address of the client; `None`: this machine.
    pub from: Option<IpAddr>,
    /// The client: "restconf", "login", "token", ...
    pub client: &'a str,
    /// What the client did.
    pub what: &'a str,
    /// The result.
    pub result: &'a str,
}

/// The logs in the state folder.
#[derive(Debug)]
pub struct Audit {
    actions: Log,
    refused: Log,
}

#[derive(Debug)]
struct Log {
    path: PathBuf,
    file: Mutex<Option<(File, u64)>>,
}

impl Audit {
    /// The logs in `folder`; each file is opened at its first record.
    pub fn new(folder: &Path) -> Audit {
        let log = |name: &str| Log { path: folder.join(name), file: Mutex::new(None) };
        Audit { actions: log("audit.log"), refused: log("audit-logins.log") }
    }

    /// Writes one record. A full disk does not stop the action; the error is in the log of the program.
    pub fn write(&self, record: &AuditRecord<'_>) {
        self.actions.write(record);
    }

    /// Writes a failed login.
    pub fn write_refused(&self, record: &AuditRecord<'_>) {
        self.refused.write(record);
    }
}

impl Log {
    fn write(&self, record: &AuditRecord<'_>) {
        let short = |text: &str| text.chars().take(VALUE_LIMIT).collect::<String>();
        let line = json!({
            "time": timestamp(SystemTime::now()),
            "user": short(record.user),
            "address": record.from.map(|from| from.to_string()),
            "client": record.client,
            "action": short(record.what),
            "result": short(record.result),
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
        // One write per line: concurrent lines do not mix, and none is cut.
        open.write_all(line.as_bytes())?;
        *size += line.len() as u64;
        Ok(())
    }
}

/// A time as RFC 3339 in UTC, in seconds.
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
        let record = AuditRecord {
            user: "eve",
            from: None,
            client: "login",
            what: &what,
            result: "refused",
        };
        audit.write(&record);
        let line = std::fs::read_to_string(folder.path().join("audit.log")).unwrap();
        assert!(line.len() < 1_000, "{}", line.len());
        let read: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(read["user"], "eve");
        // As if the log were nearly full.
        audit.actions.file.lock().unwrap().as_mut().unwrap().1 = SIZE_LIMIT_BYTES;
        audit.write(&record);
        audit.write(&record);
        let lines =
            |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap().lines().count();
        assert_eq!((lines("audit.log.1"), lines("audit.log")), (1, 2));
        for _ in 0..5 {
            audit.write_refused(&record);
        }
        assert_eq!((lines("audit-logins.log"), lines("audit.log")), (5, 2));
    }
}
