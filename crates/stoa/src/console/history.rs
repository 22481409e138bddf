//! The history of the console: a file that only its owner can read. Lines with secrets are not saved.

use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;

use reedline::{
    FileBackedHistory, History, HistoryItem, HistoryItemId, HistorySessionId, Result, SearchQuery,
};
use stoa_console::secret;

/// The mode of the history file.
const OWNER_ONLY: u32 = 0o600;

/// The history of the console.
pub struct ConsoleHistory(FileBackedHistory);

impl ConsoleHistory {
    /// Opens a history of at most `limit` lines; creates the file if it does not exist.
    ///
    /// # Errors
    /// The file cannot be created or read.
    pub fn open(file: PathBuf, limit: usize) -> io::Result<ConsoleHistory> {
        if let Some(folder) = file.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let mut options = OpenOptions::new();
        let open = options.append(true).create(true).mode(OWNER_ONLY).open(&file)?;
        // Older versions created the file with other permissions.
        open.set_permissions(Permissions::from_mode(OWNER_ONLY))?;
        let history = FileBackedHistory::with_file(limit, file).map_err(io::Error::other)?;
        Ok(ConsoleHistory(history))
    }
}

impl History for ConsoleHistory {
    fn save(&mut self, item: HistoryItem) -> Result<HistoryItem> {
        if secret::is_in(&item.command_line) {
            return Ok(item);
        }
        self.0.save(item)
    }

    fn load(&self, id: HistoryItemId) -> Result<HistoryItem> {
        self.0.load(id)
    }

    fn count(&self, query: SearchQuery) -> Result<i64> {
        self.0.count(query)
    }

    fn search(&self, query: SearchQuery) -> Result<Vec<HistoryItem>> {
        self.0.search(query)
    }

    fn update(
        &mut self,
        id: HistoryItemId,
        updater: &dyn Fn(HistoryItem) -> HistoryItem,
    ) -> Result<()> {
        self.0.update(id, updater)
    }

    fn clear(&mut self) -> Result<()> {
        self.0.clear()
    }

    fn delete(&mut self, id: HistoryItemId) -> Result<()> {
        self.0.delete(id)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync()
    }

    fn session(&self) -> Option<HistorySessionId> {
        self.0.session()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_owner_reads_the_file_and_it_has_no_secret() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("stoa/console-history");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, "show drops\n").unwrap();
        std::fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        let mut history = ConsoleHistory::open(file.clone(), 10).unwrap();
        for line in ["set interfaces interface a port memif secret xyz", "commit"] {
            history.save(HistoryItem::from_command_line(line)).unwrap();
        }
        history.sync().unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "show drops\ncommit\n");
        let mode = std::fs::metadata(&file).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, OWNER_ONLY);
    }
}
