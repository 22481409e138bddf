//! The mark that the startup file is older than the history, and what is done at a start that finds it.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::disk::{self, NewFile};
use super::history::History;
use super::refusal::Refusal;

/// The file `unsaved.json` of the state folder.
#[derive(Deserialize, Serialize)]
struct Mark {
    /// The entry of the history that is in the startup file.
    base: u64,
    /// A later entry that is being written to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next: Option<u64>,
}

fn file(state: &Path) -> PathBuf {
    state.join("unsaved.json")
}

/// Marks the startup file as older than the history, which has it as the entry `base`.
pub(super) fn mark(state: &Path, base: u64) -> Result<(), Refusal> {
    write(state, &Mark { base, next: None })
}

/// Notes, before the entry `next` replaces what is in the startup file, that it may have either after a crash.
pub(super) fn mark_next(state: &Path, next: u64) -> Result<(), Refusal> {
    match read(state) {
        Some(Mark { base, .. }) => write(state, &Mark { base, next: Some(next) }),
        None => Ok(()),
    }
}

fn write(state: &Path, mark: &Mark) -> Result<(), Refusal> {
    disk::create_folder(state)?;
    let refused = |error: String| Refusal::Disk(format!("unsaved.json: {error}"));
    let text = serde_json::to_vec(mark).map_err(|error| refused(error.to_string()))?;
    NewFile::write(&file(state), &text)?.rename().map_err(|error| refused(error.to_string()))
}

fn read(state: &Path) -> Option<Mark> {
    serde_json::from_slice(&std::fs::read(file(state)).ok()?).ok()
}

/// Removes the mark.
pub(super) fn unmark(state: &Path) {
    if let Err(error) = disk::remove(&file(state)) {
        tracing::error!("unsaved.json cannot be removed: {error}");
    }
}

/// Whether an earlier Stoa ended before it wrote its last commits to the startup file.
pub fn is_unsaved(state: &Path) -> bool {
    file(state).exists()
}

/// What [`recover`] did.
#[derive(Debug, PartialEq, Eq)]
enum Recovery {
    /// The startup file was complete.
    Nothing,
    /// Wrote this entry of the history.
    Completed(u64),
    /// The file was edited since: these entries of the history are not in it.
    Edited(RangeInclusive<u64>),
}

/// Writes the last commits of an earlier Stoa to the startup file. A file that was edited since stays as it is.
///
/// # Errors
/// When the history cannot be read or the file cannot be written.
pub fn recover(startup: &Path, state: &Path) -> Result<(), Refusal> {
    match complete(startup, state)? {
        Recovery::Nothing => {}
        Recovery::Completed(number) => tracing::warn!(number, "completed the startup file"),
        Recovery::Edited(missing) => tracing::error!(
            "{}: was edited before Stoa had saved the commits {} to {}, which it does not contain. See `stoa show \
             history`; `stoa rollback` restores one.",
            startup.display(),
            missing.start(),
            missing.end()
        ),
    }
    unmark(state);
    Ok(())
}

fn complete(startup: &Path, state: &Path) -> Result<Recovery, Refusal> {
    let Some(mark) = read(state) else { return Ok(Recovery::Nothing) };
    let past = History::new(state);
    let Some(newest) = past.newest().filter(|newest| *newest > mark.base) else {
        return Ok(Recovery::Nothing);
    };
    let now = std::fs::read_to_string(startup).unwrap_or_default();
    let is_next = mark.next.is_some_and(|next| past.text(next).is_ok_and(|text| text == now));
    if is_next && mark.next == Some(newest) {
        return Ok(Recovery::Nothing);
    }
    if !is_next && past.text(mark.base)? != now {
        return Ok(Recovery::Edited(mark.base + 1..=newest));
    }
    NewFile::write(startup, past.text(newest)?.as_bytes())?
        .rename()
        .map_err(|error| Refusal::Disk(format!("{}: {error}", startup.display())))?;
    Ok(Recovery::Completed(newest))
}

/// A configuration of the history, changed by a difference.
pub(crate) fn past_text(state: &Path, number: u64, difference: &str) -> Result<String, Refusal> {
    let mut tree = stoa_yang::data::parse(&History::new(state).text(number)?)?;
    stoa_yang::data::apply_difference(&mut tree, difference)?;
    Ok(stoa_yang::data::print(&tree)?)
}

#[cfg(test)]
mod tests {
    use super::super::author::{Author, Client};
    use super::*;

    #[test]
    fn a_file_that_was_edited_stays_and_the_missing_commits_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let (startup, state) = (folder.path().join("stoa.json"), folder.path().join("state"));
        assert_eq!(complete(&startup, &state).unwrap(), Recovery::Nothing);
        let (history, author) = (History::new(&state), Author::new("ann", Client::Shell));
        for text in ["{1}", "{2}", "{3}"] {
            history.write(&author, "", text).unwrap().1.rename().unwrap();
        }
        mark(&state, 1).unwrap();
        std::fs::write(&startup, "{edited}").unwrap();
        assert_eq!(complete(&startup, &state).unwrap(), Recovery::Edited(2..=3));
        recover(&startup, &state).unwrap();
        assert_eq!(std::fs::read_to_string(&startup).unwrap(), "{edited}");
        assert!(!is_unsaved(&state));
        mark(&state, 1).unwrap();
        std::fs::write(&startup, "{1}").unwrap();
        assert_eq!(complete(&startup, &state).unwrap(), Recovery::Completed(3));
        assert_eq!(std::fs::read_to_string(&startup).unwrap(), "{3}");
        // A crash while a save replaces the file: it has the old entry or the new one, and no edit.
        for (next, text, expected) in [
            (2, "{1}", Recovery::Completed(3)),
            (2, "{2}", Recovery::Completed(3)),
            (3, "{3}", Recovery::Nothing),
            (2, "{edited}", Recovery::Edited(2..=3)),
        ] {
            mark(&state, 1).unwrap();
            mark_next(&state, next).unwrap();
            std::fs::write(&startup, text).unwrap();
            assert_eq!(complete(&startup, &state).unwrap(), expected, "{next} {text}");
        }
        unmark(&state);
        mark_next(&state, 3).unwrap();
        assert!(!is_unsaved(&state), "without a mark there is nothing to note");
    }
}
