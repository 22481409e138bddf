//! The audit log: who did what, when, from where, and the result. One JSON object per line.
//!
//! Three files, so that requests that change nothing cannot push out the records of those that do: `audit.log` has the
//! actions, `audit-refused.log` the refused requests of known users, and `audit-logins.log` the failed logins.
//! Records that repeat are counted instead of written (`repeats`). A full file becomes `NAME.1`, in which each user, or
//! each address of a failed login, keeps a fair share (`shares`).

mod repeats;
mod shares;

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde_json::json;

use crate::auth::tokens::write_whole;
use repeats::{Counted, Policy, Repeats};
use shares::Owner;

/// Size at which a file is rotated, in bytes.
pub const SIZE_LIMIT_BYTES: u64 = 16 << 20;

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
    logins: Log,
}

#[derive(Debug)]
struct Log {
    path: PathBuf,
    /// Maximum length of a value in characters: a client must not fill the log.
    value_limit: usize,
    /// Who has a share of a full file.
    owner: Owner,
    open: Mutex<Open>,
}

/// The open file with its size, and the records that repeat.
#[derive(Debug)]
struct Open {
    file: Option<(File, u64)>,
    repeats: Repeats,
}

impl Audit {
    /// The logs in `folder`; each file is opened at its first record.
    pub fn new(folder: &Path) -> Audit {
        let log = |name: &str, value_limit, owner, policy| Log {
            path: folder.join(name),
            value_limit,
            owner,
            open: Mutex::new(Open { file: None, repeats: Repeats::new(policy) }),
        };
        Audit {
            actions: log("audit.log", 512, Owner::User, Policy::EXACT),
            refused: log("audit-refused.log", 160, Owner::User, Policy::COARSE),
            logins: log("audit-logins.log", 160, Owner::Address, Policy::COARSE),
        }
    }

    /// Writes one record. A full disk does not stop the action; the error is in the log of the program.
    pub fn write(&self, record: &AuditRecord<'_>) {
        self.actions.write(record, Instant::now());
    }

    /// Writes a refused request of a known user.
    pub fn write_refused(&self, record: &AuditRecord<'_>) {
        self.refused.write(record, Instant::now());
    }

    /// Writes a request of a known user that was done or refused.
    pub fn write_result(&self, is_done: bool, record: &AuditRecord<'_>) {
        match is_done {
            true => self.write(record),
            false => self.write_refused(record),
        }
    }

    /// Writes a failed login.
    pub fn write_login(&self, record: &AuditRecord<'_>) {
        self.logins.write(record, Instant::now());
    }

    /// Writes the counts of repeated records whose time is over.
    pub fn write_counts(&self, now: Instant) {
        for log in self.logs() {
            log.write_counts(now);
        }
    }

    fn logs(&self) -> [&Log; 3] {
        [&self.actions, &self.refused, &self.logins]
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        self.write_all_counts();
    }
}

impl Audit {
    /// Writes all counts of repeated records, before the program ends.
    pub fn write_all_counts(&self) {
        for log in self.logs() {
            let mut open = log.open();
            let counted = open.repeats.end();
            log.write_counted(&mut open, counted);
        }
    }
}

impl Log {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, record: &AuditRecord<'_>, now: Instant) {
        let mut open = self.open();
        let over = open.repeats.over(now);
        self.write_counted(&mut open, over);
        if open.repeats.is_written(record, now) {
            let line = self.line(record, timestamp(SystemTime::now()));
            self.append(&mut open, &line);
        }
    }

    fn write_counts(&self, now: Instant) {
        let mut open = self.open();
        let over = open.repeats.over(now);
        self.write_counted(&mut open, over);
    }

    fn write_counted(&self, open: &mut Open, counted: Vec<Counted>) {
        for one in counted {
            let mut line = self.line(&one.record(), timestamp(one.last));
            line["since"] = timestamp(one.first).into();
            line["count"] = one.count.into();
            self.append(open, &line);
        }
    }

    fn line(&self, record: &AuditRecord<'_>, time: String) -> serde_json::Value {
        let short = |text: &str| text.chars().take(self.value_limit).collect::<String>();
        json!({
            "time": time,
            "user": short(record.user),
            "address": record.from.map(|from| from.to_string()),
            "client": record.client,
            "action": short(record.what),
            "result": short(record.result),
        })
    }

    fn append(&self, open: &mut Open, line: &serde_json::Value) {
        if let Err(error) = self.append_line(open, &format!("{line}\n")) {
            tracing::warn!("cannot write {}: {error}", self.path.display());
        }
    }

    fn append_line(&self, open: &mut Open, line: &str) -> io::Result<()> {
        let is_full =
            |(_, size): &(File, u64)| size.saturating_add(line.len() as u64) > SIZE_LIMIT_BYTES;
        if open.file.as_ref().is_some_and(is_full) {
            open.file = None;
            self.rotate()?;
        }
        let (file, size) = match &mut open.file {
            Some(file) => file,
            none => {
                let mut options = OpenOptions::new();
                let file = options.append(true).create(true).mode(0o600).open(&self.path)?;
                let size = file.metadata()?.len();
                none.insert((file, size))
            }
        };
        // One write per line: concurrent lines do not mix, and none is cut.
        file.write_all(line.as_bytes())?;
        *size += line.len() as u64;
        Ok(())
    }

    /// Moves the records to the old file, in which each owner keeps its share.
    fn rotate(&self) -> io::Result<()> {
        let old = self.path.with_extension("log.1");
        let kept = shares::kept(&[&old, &self.path], self.owner, SIZE_LIMIT_BYTES);
        match kept.and_then(|kept| write_whole(&old, &kept)) {
            Ok(()) => std::fs::remove_file(&self.path),
            Err(error) => {
                tracing::warn!("cannot keep the shares of {}: {error}", old.display());
                std::fs::rename(&self.path, &old)
            }
        }
    }
}

/// A time as RFC 3339 in UTC, in seconds.
pub fn timestamp(moment: SystemTime) -> String {
    stoa_api::date::of_unix_s(moment.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs())
}

#[cfg(test)]
mod tests;
