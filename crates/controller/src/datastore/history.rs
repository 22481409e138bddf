//! The history: a file for each committed configuration.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};

use super::author::{Author, Client, file_author};
use super::disk::{self, NewFile};
use super::refusal::Refusal;

/// Most differences between an entry and the whole configuration that it is based on.
pub(super) const CHAIN_LIMIT: usize = 16;

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
    /// The entry before it, if the file has the difference to that one instead of the whole configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<u64>,
}

/// The folder of the history. The first line of a file is its [`Entry`]; the configuration follows, or the difference
/// to that of another entry.
#[derive(Debug)]
pub(crate) struct History {
    folder: PathBuf,
}

impl History {
    pub fn new(state: &Path) -> History {
        History { folder: state.join("history") }
    }

    fn file(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{number:09}.json.gz"))
    }

    /// The number of the newest entry.
    pub fn newest(&self) -> Option<u64> {
        self.numbers().first().map(|(number, _)| *number)
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

    /// An entry and what follows it in its file.
    fn read(&self, number: u64) -> Result<(Entry, String), Refusal> {
        let missing = || Refusal::Missing(format!("configuration {number} of the history"));
        let (entry, mut rest) = self.open(number).ok_or_else(missing)?;
        let mut text = String::new();
        rest.read_to_string(&mut text).map_err(|_| missing())?;
        Ok((entry, text))
    }

    /// The configuration of an entry.
    pub fn text(&self, number: u64) -> Result<String, Refusal> {
        let (mut entry, mut text) = self.read(number)?;
        let mut differences = Vec::new();
        while let Some(base) = entry.base {
            if base >= entry.number {
                return Err(Refusal::Missing(format!("configuration {number} of the history")));
            }
            let (before, its) = self.read(base)?;
            differences.push(std::mem::replace(&mut text, its));
            entry = before;
        }
        if differences.is_empty() {
            return Ok(text);
        }
        let mut tree = stoa_yang::data::parse(&text)?;
        for difference in differences.iter().rev() {
            stoa_yang::data::apply_difference(&mut tree, difference)?;
        }
        Ok(stoa_yang::data::print(&tree)?)
    }

    /// How many of the newest entries are differences, one based on the other.
    pub fn chain(&self) -> usize {
        self.numbers().iter().take_while(|(number, _)| self.is_difference(*number)).count()
    }

    fn is_difference(&self, number: u64) -> bool {
        self.open(number).is_some_and(|(entry, _)| entry.base.is_some())
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
        self.write_next(author, comment, None, text)
    }

    /// Adds the rollback to `text` of a commit that was not confirmed.
    pub fn add_rollback(&self, author: &Author, comment: &str, text: &str) -> Result<(), Refusal> {
        if !self.is_newest(text) {
            self.write(&file_author(), "", text)?.1.rename().map_err(refused)?;
        }
        let (_, file) = self.write_next(author, comment, None, text)?;
        file.rename().map_err(refused)?;
        self.prune();
        Ok(())
    }

    /// Writes the next entry, as the `difference` to the newest one, to a temporary file.
    pub fn write_difference(
        &self,
        author: &Author,
        comment: &str,
        difference: &str,
    ) -> Result<(u64, NewFile), Refusal> {
        self.write_next(author, comment, self.newest(), difference)
    }

    fn write_next(
        &self,
        author: &Author,
        comment: &str,
        base: Option<u64>,
        text: &str,
    ) -> Result<(u64, NewFile), Refusal> {
        disk::create_folder(&self.folder)?;
        let number = self.newest().map_or(1, |number| number + 1);
        let entry = Entry {
            number,
            time: jiff::Timestamp::now().to_string(),
            author: author.name.clone(),
            client: author.client,
            comment: comment.chars().take(COMMENT_LIMIT).collect(),
            base,
        };
        Ok((number, self.pack(&entry, text)?))
    }

    /// Replaces the difference of an entry by its whole configuration.
    pub fn complete(&self, number: u64, text: &str) -> Result<(), Refusal> {
        let Some((entry, _)) = self.open(number) else { return Ok(()) };
        let renamed = self.pack(&Entry { base: None, ..entry }, text)?.rename();
        renamed.map_err(refused)
    }

    /// Writes the file of an entry under its temporary name.
    fn pack(&self, entry: &Entry, text: &str) -> Result<NewFile, Refusal> {
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        serde_json::to_writer(&mut packed, entry).map_err(|error| refused(error.into()))?;
        packed
            .write_all(b"\n")
            .and_then(|()| packed.write_all(text.as_bytes()))
            .map_err(refused)?;
        let packed = packed.finish().map_err(refused)?;
        NewFile::write(&self.file(entry.number), &packed)
    }

    /// Removes the oldest beyond the limits, but none that a younger one is based on.
    pub fn prune(&self) {
        self.prune_to(BYTES_LIMIT);
    }

    fn prune_to(&self, bytes_limit: u64) {
        let (mut bytes, mut younger) = (0, None);
        for (at, (number, size)) in self.numbers().into_iter().enumerate() {
            bytes += size;
            let is_beyond = at > 0 && (at >= HISTORY_LIMIT || bytes > bytes_limit);
            if is_beyond && !younger.is_some_and(|younger| self.is_difference(younger)) {
                let _ = fs::remove_file(self.file(number));
                younger = None;
            } else {
                younger = Some(number);
            }
        }
    }
}

fn refused(error: std::io::Error) -> Refusal {
    Refusal::Disk(format!("the history cannot be written: {error}"))
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

    fn tree(text: &str) -> yang5::data::DataTree<'static> {
        stoa_yang::data::parse(text).unwrap()
    }

    fn text(polling: &str) -> String {
        let text =
            format!(r#"{{"stoa-system:system": {{"workers": {{"polling": "{polling}"}}}}}}"#);
        stoa_yang::data::print(&tree(&text)).unwrap()
    }

    #[test]
    fn the_base_of_a_kept_difference_is_kept_at_the_byte_limit() {
        let folder = tempfile::tempdir().unwrap();
        let history = History::new(folder.path());
        let author = Author::new("ann", Client::Shell);
        let (old, new) = (text("polling"), text("interrupt"));
        for _ in 0..2 {
            history.write(&author, "", &old).unwrap().1.rename().unwrap();
        }
        let difference = stoa_yang::data::difference(&tree(&old), &tree(&new)).unwrap();
        let (number, file) = history.write_difference(&author, "", &difference).unwrap();
        file.rename().unwrap();
        // The difference is within the limit, its base is beyond it.
        let size = history.numbers()[0].1;
        history.prune_to(size);
        assert_eq!(history.text(number).unwrap(), new);
        let kept: Vec<u64> = history.numbers().into_iter().map(|(number, _)| number).collect();
        assert_eq!(kept, [number, number - 1]);
    }

    #[test]
    fn differences_are_read_and_their_base_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let history = History::new(folder.path());
        let author = Author::new("ann", Client::Shell);
        history.write(&author, "", &text("adaptive")).unwrap().1.rename().unwrap();
        let states = ["polling", "interrupt"].map(text);
        for step in 1..HISTORY_LIMIT + 20 {
            let (old, new) = (&states[step % 2], &states[(step + 1) % 2]);
            let old = if step == 1 { &text("adaptive") } else { old };
            let difference = stoa_yang::data::difference(&tree(old), &tree(new)).unwrap();
            let (number, file) = history.write_difference(&author, "", &difference).unwrap();
            file.rename().unwrap();
            if step % CHAIN_LIMIT == 0 {
                assert_eq!(history.text(number).unwrap(), *new);
                assert_eq!(history.chain(), CHAIN_LIMIT);
                history.complete(number, new).unwrap();
                assert_eq!(history.chain(), 0);
            }
            history.prune();
            assert_eq!(history.text(number).unwrap(), *new);
        }
        let kept = history.list();
        assert!((HISTORY_LIMIT..HISTORY_LIMIT + CHAIN_LIMIT).contains(&kept.len()));
        assert!(kept.last().unwrap().base.is_none(), "the oldest can be read");
    }

    #[test]
    fn entries_of_earlier_versions_are_read() {
        let old = r#"{"number":7,"time":"2026-11-01T00:00:00Z","author":"ann","door":"shell"}"#;
        let entry: Entry = serde_json::from_str(old).unwrap();
        assert_eq!((entry.number, entry.client), (7, Client::Shell));
    }
}
