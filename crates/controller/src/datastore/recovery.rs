//! The mark that the startup file is older than the history, and what is done at a start that finds it.

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
}

fn file(state: &Path) -> PathBuf {
    state.join("unsaved.json")
}

/// Marks the startup file as older than the history, which has it as the entry `base`.
pub(super) fn mark(state: &Path, base: u64) -> Result<(), Refusal> {
    disk::create_folder(state)?;
    let refused = |error: String| Refusal::Disk(format!("unsaved.json: {error}"));
    let text = serde_json::to_vec(&Mark { base }).map_err(|error| refused(error.to_string()))?;
    NewFile::write(&file(state), &text)?.rename().map_err(|error| refused(error.to_string()))
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

/// Writes the last commits of an earlier Stoa to the startup file. A file that was edited since stays as it is.
///
/// # Errors
/// When the history cannot be read or the file cannot be written.
pub fn recover(startup: &Path, state: &Path) -> Result<(), Refusal> {
    let mark = std::fs::read(file(state)).ok();
    let Some(mark) = mark.and_then(|text| serde_json::from_slice::<Mark>(&text).ok()) else {
        return Ok(());
    };
    let past = History::new(state);
    let now = std::fs::read_to_string(startup).unwrap_or_default();
    match past.newest() {
        Some(newest) if newest > mark.base && past.text(mark.base)? == now => {
            let text = past.text(newest)?;
            NewFile::write(startup, text.as_bytes())?
                .rename()
                .map_err(|error| Refusal::Disk(format!("{}: {error}", startup.display())))?;
            tracing::warn!(number = newest, "completed the startup file");
        }
        _ => {}
    }
    unmark(state);
    Ok(())
}

/// A configuration of the history, changed by a difference.
pub(crate) fn past_text(state: &Path, number: u64, difference: &str) -> Result<String, Refusal> {
    let mut tree = stoa_yang::data::parse(&History::new(state).text(number)?)?;
    stoa_yang::data::apply_difference(&mut tree, difference)?;
    Ok(stoa_yang::data::print(&tree)?)
}
