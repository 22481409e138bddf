//! Texts in the state folder.

use std::path::Path;

use super::disk;
use super::refusal::Refusal;

/// Writes a text to a file of the state folder, which is created if there is none. It is on the disk afterwards.
///
/// # Errors
/// It cannot be written.
pub fn store(file: &Path, text: &str) -> Result<(), Refusal> {
    disk::create_folder(file.parent().unwrap_or(Path::new(".")))?;
    let new = disk::NewFile::write(file, text.as_bytes())?;
    new.rename().map_err(|error| Refusal::Disk(format!("{}: {error}", file.display())))
}
