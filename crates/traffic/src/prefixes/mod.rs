//! Prefixes for measurements: real tables from files, and synthetic ones with the same lengths.

mod family;

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::random::Random;

pub use family::Family;

/// The most prefixes of a table, from a file or synthetic.
pub const PREFIXES_MAX: usize = 8 << 20;
/// The most bytes of an uncompressed file.
const TEXT_MAX: u64 = 1 << 30;
/// The first bytes of a gzip file (RFC 1952, section 2.3.1).
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Source of prefixes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// This many synthetic prefixes.
    Synthetic(usize),
    /// A text file with one `address/length` a line, plain or compressed with gzip.
    File(PathBuf),
}

impl FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("synthetic:") {
            Some(count) => {
                let range = 1..=PREFIXES_MAX;
                let count = count.parse().ok().filter(|count| range.contains(count));
                count.map(Self::Synthetic).ok_or_else(|| {
                    format!("give a number from 1 to {PREFIXES_MAX} after \"synthetic:\"")
                })
            }
            None => Ok(Self::File(text.into())),
        }
    }
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Synthetic(count) => write!(f, "synthetic:{count}"),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Why prefixes or keys could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum PrefixError {
    /// The file cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A malformed line.
    #[error("{}, line {line}: {reason}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// The file has none of this family.
    #[error("{}: the file has no {family} {what}; use another file or another family", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
        /// `IPv4` or `IPv6`.
        family: &'static str,
        /// The expected content.
        what: &'static str,
    },
    /// More than a table can hold.
    #[error("{0} prefixes are too many: give at most {1}")]
    Many(usize, usize),
}

/// Prefixes of one family, without duplicates, in ascending order. Lines of the other family are
/// skipped, so that one file can serve both.
///
/// # Errors
///
/// The file cannot be read, has a malformed line, or has more than [`PREFIXES_MAX`] prefixes.
pub fn load<K: Family>(source: &Source) -> Result<Vec<(K, u8)>, PrefixError> {
    match source {
        Source::Synthetic(count) => synthetic(*count),
        Source::File(path) => {
            let mut prefixes = read(path, (K::NAME, "prefix"), prefix::<K>)?;
            prefixes.sort_unstable();
            prefixes.dedup();
            Ok(prefixes)
        }
    }
}

/// Addresses of one family, one a line, in file order.
pub(crate) fn addresses<K: Family>(path: &Path) -> Result<Vec<K>, PrefixError> {
    let address = |text: &str| {
        let address: IpAddr =
            text.parse().map_err(|_| format!("{text:?} is no address; give one a line"))?;
        Ok(K::of(address))
    };
    read(path, (K::NAME, "address"), address)
}

fn synthetic<K: Family>(count: usize) -> Result<Vec<(K, u8)>, PrefixError> {
    if count > K::SYNTHETIC_MAX {
        return Err(PrefixError::Many(count, K::SYNTHETIC_MAX));
    }
    let mut random = Random::new(0x1234_5678);
    let mut made = HashSet::with_capacity(count);
    // A duplicate is drawn again, so frequent lengths fill up.
    while made.len() < count {
        made.insert(K::synthetic(&mut random));
    }
    let mut prefixes: Vec<_> = made.into_iter().collect();
    prefixes.sort_unstable();
    Ok(prefixes)
}

fn prefix<K: Family>(text: &str) -> Result<Option<(K, u8)>, String> {
    let wrong = || format!("{text:?} is no prefix; write one address/length a line");
    let (address, len) = text.split_once('/').ok_or_else(wrong)?;
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let len: u8 = len.parse().map_err(|_| wrong())?;
    let Some(network) = K::of(address) else { return Ok(None) };
    if len > K::BITS {
        return Err(format!("{text:?}: the length is out of range; the greatest is {}", K::BITS));
    }
    if network.cut(len) != network {
        let meant = network.cut(len).address();
        return Err(format!("{text:?} has host bits set; did you mean {meant}/{len}?"));
    }
    Ok(Some((network, len)))
}

/// Parses the lines of a file; skips empty lines and lines that start with `#`.
fn read<T>(
    path: &Path,
    (family, what): (&'static str, &'static str),
    parse: impl Fn(&str) -> Result<Option<T>, String>,
) -> Result<Vec<T>, PrefixError> {
    let at = |error| PrefixError::Read { path: path.to_owned(), error };
    let mut file = BufReader::new(File::open(path).map_err(at)?);
    let is_packed = file.fill_buf().map_err(at)?.starts_with(&GZIP);
    let text: Box<dyn Read> = if is_packed {
        Box::new(flate2::bufread::MultiGzDecoder::new(file))
    } else {
        Box::new(file)
    };
    let mut all = Vec::new();
    for (number, line) in BufReader::new(text.take(TEXT_MAX)).lines().enumerate() {
        let line = line.map_err(at)?;
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |reason| PrefixError::Line { path: path.to_owned(), line: number + 1, reason };
        all.extend(parse(line).map_err(wrong)?);
        if all.len() > PREFIXES_MAX {
            return Err(PrefixError::Many(all.len(), PREFIXES_MAX));
        }
    }
    if all.is_empty() {
        return Err(PrefixError::Empty { path: path.to_owned(), family, what });
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn written(bytes: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    fn load_text<K: Family>(text: &str) -> Result<Vec<(K, u8)>, String> {
        let file = written(text.as_bytes());
        load(&Source::File(file.path().to_owned())).map_err(|error| error.to_string())
    }

    #[test]
    fn loads_both_families_and_gzip() {
        let text = "# a table\n10.0.0.0/8\n\n2001:db8::/32\n 1.0.0.0/24 \n10.0.0.0/8\n0.0.0.0/0\n";
        let four = vec![(0, 0), (0x0100_0000, 24), (0x0a00_0000, 8)];
        assert_eq!(load_text::<u32>(text).unwrap(), four);
        assert_eq!(load_text::<u128>(text).unwrap(), [(0x2001_0db8 << 96, 32)]);
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(text.as_bytes()).unwrap();
        let file = written(&packer.finish().unwrap());
        assert_eq!(load::<u32>(&Source::File(file.path().to_owned())).unwrap(), four);
    }

    #[test]
    fn rejects_malformed_lines_with_their_number() {
        for (text, reason) in [
            ("1.0.0.0/24\n1.0.0.0", "line 2: \"1.0.0.0\" is no prefix"),
            ("1.0.0.0/33", "the greatest is 32"),
            ("1.0.0.1/24", "did you mean 1.0.0.0/24?"),
            ("x/8", "is no prefix"),
            ("2001:db8::/32", "the file has no IPv4 prefix"),
            ("", "the file has no IPv4 prefix"),
        ] {
            let error = load_text::<u32>(text).unwrap_err();
            assert!(error.contains(reason), "{text:?}: {error}");
        }
        let gone = load::<u32>(&Source::File("/no/such/file".into())).unwrap_err();
        assert!(gone.to_string().contains("cannot read /no/such/file"), "{gone}");
        let cut = written(&[0x1f, 0x8b, 8, 0]);
        assert!(load::<u32>(&Source::File(cut.path().to_owned())).is_err());
    }

    #[test]
    fn synthetic_prefixes_have_realistic_lengths() {
        fn check<K: Family>(usual: u8, share: std::ops::Range<usize>) {
            let prefixes = load::<K>(&Source::Synthetic(100_000)).unwrap();
            assert_eq!(prefixes.len(), 100_000);
            assert!(prefixes.is_sorted());
            assert!(prefixes.iter().all(|(network, len)| network.cut(*len) == *network));
            let often = prefixes.iter().filter(|(_, len)| *len == usual).count();
            assert!(share.contains(&often), "{often}");
            let mut random = Random::new(3);
            for (network, len) in prefixes.into_iter().take(1000) {
                assert_eq!(network.inside(len, &mut random).cut(len), network);
            }
        }
        check::<u32>(24, 58_000..63_000);
        check::<u128>(48, 46_000..52_000);
        assert!(load::<u128>(&Source::Synthetic(1_000_001)).is_err());
    }

    #[test]
    fn parses_files_and_synthetic_sources() {
        assert_eq!("synthetic:5".parse(), Ok(Source::Synthetic(5)));
        assert_eq!("a/b".parse(), Ok(Source::File("a/b".into())));
        for wrong in ["synthetic:", "synthetic:0", "synthetic:9000000", "synthetic:x"] {
            assert!(wrong.parse::<Source>().is_err(), "{wrong}");
        }
    }
}
