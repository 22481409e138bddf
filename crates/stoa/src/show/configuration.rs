//! `stoa show configuration` and `stoa show history`.

use std::io::{self, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use comfy_table::Cell;
use serde_json::{Value, json};
use stoa_api::v1::earlier_commit::Outcome;
use stoa_api::v1::{ChangeKind, ConfigurationChange, EarlierCommit, ShowHistoryReply};

use super::table;
use crate::failure::to_stderr;

/// Says which prefixes addresses without a length stand for.
pub fn host_prefixes(prefixes: &[String]) {
    for prefix in prefixes {
        to_stderr(format_args!(
            "The prefix is {prefix}: an address without a length stands for itself."
        ));
    }
}

/// A change as JSON.
pub fn change(change: &ConfigurationChange) -> Value {
    let kind = match change.kind() {
        ChangeKind::Create => "create",
        ChangeKind::Delete => "delete",
        ChangeKind::Replace => "replace",
    };
    json!({ "kind": kind, "path": change.path, "old": change.old, "new": change.new })
}

/// The commit that waited for its confirmation as JSON.
pub fn earlier(earlier: &EarlierCommit) -> Value {
    let outcome = match earlier.outcome() {
        Outcome::Unchanged => "unchanged",
        Outcome::Confirmed => "confirmed",
        Outcome::RolledBack => "rolled-back",
    };
    json!({ "author": earlier.author, "outcome": outcome })
}

/// The history as JSON.
pub fn history_json(reply: &ShowHistoryReply) -> Value {
    let entry = |(back, entry): (usize, &stoa_api::v1::HistoryEntry)| {
        json!({ "back": back, "number": entry.number, "time": entry.time, "author": entry.author,
            "client": entry.client, "comment": entry.comment })
    };
    json!({
        "entries": reply.entries.iter().enumerate().map(entry).collect::<Vec<_>>(),
        "holder": reply.holder,
        "is_edited": reply.is_edited,
        "confirm_by_unix_ms": reply.confirm_by_unix_ms,
    })
}

/// The history as a table.
pub fn history(reply: &ShowHistoryReply, out: &mut dyn Write) -> io::Result<()> {
    if reply.entries.is_empty() {
        writeln!(out, "There are no commits yet.")?;
    } else {
        let mut shown = table(&[">back", ">number", "time", "author", "client", "comment"]);
        for (back, entry) in reply.entries.iter().enumerate() {
            let time = entry.time.split('.').next().unwrap_or_default();
            let time = time.trim_end_matches('Z').replace('T', " ");
            let comment = entry.comment.replace('\n', " ");
            let numbers = [back as u64, entry.number].map(Cell::new);
            let texts = [time, entry.author.clone(), entry.client.clone(), comment].map(Cell::new);
            shown.add_row(numbers.into_iter().chain(texts));
        }
        super::write(&shown, out)?;
    }
    if reply.is_edited {
        writeln!(out, "The candidate has uncommitted changes: `stoa compare` shows them.")?;
    }
    if !reply.holder.is_empty() {
        writeln!(out, "{}.", reply.holder)?;
    }
    if reply.confirm_by_unix_ms > 0 {
        let by = UNIX_EPOCH + Duration::from_millis(reply.confirm_by_unix_ms);
        let left = by.duration_since(SystemTime::now()).unwrap_or_default().as_secs();
        writeln!(
            out,
            "The last commit is rolled back in {left} s unless `stoa commit` confirms it."
        )?;
    }
    Ok(())
}
