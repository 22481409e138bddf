//! The history: a file for each committed configuration.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};

use super::author::{Author, Client};
use super::disk::{self, NewFile};
use super::refusal::Refusal;

/// Maximum number of configurations.
pub const HISTORY_LIMIT: usize = 100;
/// Maximum size on disk. The newest configuration is kept whatever its size.
const BYTES_LIMIT: u64 = 256 << 20;
/// Maximum length of a comment in characters.
pub(super) const COMMENT_LIMIT: usize = 1_000;

/// A configuration of the history.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Entry {
    /// Counts from 1 up.
    pub number: u64,
    /// When it took effect (RFC 3339, UTC).
    pub time: String,
    /// Its author.
    pub author: String,
    /// The client of the author. Earlier versions wrote another name.
    #[serde(alias = "door")]
    pub client: Client,
    /// The comment of the commit.
    #[serde(default)]
    pub comment: String,
}

/// The folder of the history. The first line of a file is its [`Entry`]; the configuration follows.
#[derive(Debug)]
pub(super) struct History {
    folder: PathBuf,
}

impl History {
    pub fn new(state: &Path) -> History {
        History { folder: state.join("history") }
    }

    fn file(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{number:09}.json.gz"))
    }

    /// Numbers and sizes, newest first.
    fn numbers(&self) -> Vec<(u64, u64)> {
        let Ok(files) = fs::read_dir(&self.folder) else { return Vec::new() };
        let number = |file: fs::DirEntry| {
            let name = file.file_name();
            let number = name.to_str()?.strip_suffix(".json.gz")?.parse().ok()?;
            Some((number, file.metadata().map_or(0, |data| data.len())))
        };
        let mut numbers: Vec<_> = files.flatten().filter_map(number).collect();
        numbers.sort_unstable_by(|one, other| other.cmp(one));
        numbers
    }

    fn open(&self, number: u64) -> Option<(Entry, GzDecoder<fs::File>)> {
        let mut text = GzDecoder::new(fs::File::open(self.file(number)).ok()?);
        let mut line = Vec::new();
        let mut byte = [0];
        while line.len() < 16 * COMMENT_LIMIT
            && text.read_exact(&mut byte).is_ok()
            && byte != *b"\n"
        {
            line.push(byte[0]);
        }
        Some((serde_json::from_slice(&line).ok()?, text))
    }

    /// The entries that can be read, newest first.
    pub fn list(&self) -> Vec<Entry> {
        let entry = |(number, _)| Some(self.open(number)?.0);
        self.numbers().into_iter().filter_map(entry).collect()
    }

    /// The configuration of an entry.
    pub fn text(&self, number: u64) -> Result<String, Refusal> {
        let missing = || Refusal::Missing(format!("configuration {number} of the history"));
        let (_, mut rest) = self.open(number).ok_or_else(missing)?;
        let mut text = String::new();
        rest.read_to_string(&mut text).map_err(|_| missing())?;
        Ok(text)
    }

    /// Whether the newest configuration has this text.
    pub fn is_newest(&self, text: &str) -> bool {
        let newest = self.numbers().first().map(|(number, _)| self.text(*number));
        matches!(newest, Some(Ok(newest)) if newest == text)
    }

    /// Writes the next entry to a temporary file.
    pub fn write(
        &self,
        author: &Author,
        comment: &str,
        text: &str,
    ) -> Result<(u64, NewFile), Refusal> {
        disk::create_folder(&self.folder)?;
        let number = self.numbers().first().map_or(1, |(number, _)| number + 1);
        let entry = Entry {
            number,
            time: jiff::Timestamp::now().to_string(),
            author: author.name.clone(),
            client: author.client,
            comment: comment.chars().take(COMMENT_LIMIT).collect(),
        };
        let refused = |error| Refusal::Disk(format!("the history cannot be written: {error}"));
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        serde_json::to_writer(&mut packed, &entry).map_err(|error| refused(error.into()))?;
        packed
            .write_all(b"\n")
            .and_then(|()| packed.write_all(text.as_bytes()))
            .map_err(refused)?;
        let packed = packed.finish().map_err(refused)?;
        Ok((number, NewFile::write(&self.file(number), &packed)?))
    }

    /// Removes the oldest beyond the limits.
    pub fn prune(&self) {
        let mut bytes = 0;
        for (at, (number, size)) in self.numbers().into_iter().enumerate() {
            bytes += size;
            if at > 0 && (at >= HISTORY_LIMIT || bytes > BYTES_LIMIT) {
                let _ = fs::remove_file(self.file(number));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_kept_up_to_the_limit_and_broken_ones_skipped() {
        let folder = tempfile::tempdir().unwrap();
        let history = History::new(folder.path());
        assert!(history.list().is_empty() && !history.is_newest("{}"));
        let author = Author::new("ann", Client::Shell);
        for number in 1..=HISTORY_LIMIT as u64 + 3 {
            let (given, new) = history.write(&author, "a\nline", &format!("{{{number}}}")).unwrap();
            assert_eq!(given, number);
            new.rename().unwrap();
            history.prune();
        }
        let list = history.list();
        assert_eq!(list.len(), HISTORY_LIMIT);
        assert_eq!((list[0].number, list[0].comment.as_str()), (103, "a\nline"));
        assert_eq!(history.text(103).unwrap(), "{103}");
        assert!(history.is_newest("{103}"));
        assert!(matches!(history.text(3), Err(Refusal::Missing(_))));
        fs::write(history.file(102), "cut").unwrap();
        assert_eq!(history.list()[1].number, 101);
    }

    #[test]
    fn entries_of_earlier_versions_are_read() {
        let old = r#"{"number":7,"time":"2026-11-01T00:00:00Z","author":"ann","door":"shell"}"#;
        let entry: Entry = serde_json::from_str(old).unwrap();
        assert_eq!((entry.number, entry.client), (7, Client::Shell));
    }
}
