//! Which forwarder has used which key of a security association: a key of GCM, GMAC or ChaCha20-Poly1305 must not be
//! used by a second one, whose sequence numbers, and so nonces, would begin anew (RFC 4106 section 9).
//!
//! A key is marked in a file of the state folder, and the file is on the disk, before the key is sent. A key whose mark
//! cannot be written or read is not sent.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::{fs, io};

use stoa_api::ipsec::without_keys;
use stoa_api::v1;
use stoa_crypto::{Algorithm, Fingerprint};

/// Writes a text to a file, and syncs it.
pub type Store = fn(&Path, &str) -> Result<(), String>;

/// The name of the file.
const FILE: &str = "ipsec-used-keys";
/// Keys that it has at most.
const KEYS: usize = 65_536;

/// The boot ids of the forwarders that have used keys.
type Known = BTreeMap<Fingerprint, u64>;

/// The marks of used keys.
#[derive(Debug, Default)]
pub struct UsedKeys {
    /// `None`: they are kept as long as the process runs, for tests.
    file: Option<(PathBuf, Store)>,
    /// `None`: not read yet.
    known: Mutex<Option<Known>>,
}

impl UsedKeys {
    /// Those in a state folder, which `store` writes.
    pub fn kept(state: &Path, store: Store) -> UsedKeys {
        UsedKeys { file: Some((state.join(FILE), store)), known: Mutex::default() }
    }

    /// The associations for a forwarder. Those whose keys another one has used are withheld, without keys.
    pub(crate) fn mark(&self, ipsec: v1::Ipsec, boot_id: u64) -> v1::Ipsec {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut ipsec = v1::Ipsec { boot_id, ..ipsec };
        if !ipsec.associations.iter().any(needs_mark) {
            return ipsec;
        }
        let read = match known.take() {
            Some(known) => Ok(known),
            None => self.read(),
        };
        let mut marked = read.as_ref().cloned().unwrap_or_default();
        let mut reason = read.as_ref().err().cloned();
        let at_risk = ipsec.associations.iter().filter(|it| needs_mark(it));
        let news: Vec<Fingerprint> = at_risk.map(|it| Fingerprint::of(&it.key)).collect();
        let is_new = |it: &&Fingerprint| !marked.contains_key(*it);
        let news: Vec<Fingerprint> = news.iter().filter(is_new).copied().collect();
        marked.extend(news.iter().map(|it| (*it, boot_id)));
        if reason.is_none() && !news.is_empty() {
            reason = self.write(&marked).err();
        }
        let before = read.ok();
        for it in ipsec.associations.iter_mut().filter(|it| needs_mark(it)) {
            let key = Fingerprint::of(&it.key);
            let by = before.as_ref().and_then(|known| known.get(&key)).copied();
            let why = match (by, &reason) {
                (Some(by), _) if by == boot_id => continue,
                (Some(_), _) => {
                    "an earlier process of the forwarder has used its key: replace the key at both ends"
                }
                (None, Some(reason)) => reason.as_str(),
                (None, None) => continue,
            };
            tracing::warn!(name = it.name, "a security association is not in force: {why}");
            *it = v1::SecurityAssociation { withheld: why.to_owned(), ..without_keys(it) };
        }
        *known = if reason.is_none() { Some(marked) } else { before };
        ipsec
    }

    fn read(&self) -> Result<Known, String> {
        let Some((file, _)) = &self.file else { return Ok(Known::new()) };
        let text = match fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Known::new()),
            Err(error) => return Err(format!("{} cannot be read: {error}", file.display())),
        };
        let parsed: Option<Known> = text.lines().map(parse).collect();
        parsed.ok_or_else(|| format!("{} is damaged: restore it, or use new keys", file.display()))
    }

    fn write(&self, known: &Known) -> Result<(), String> {
        let Some((file, store)) = &self.file else { return Ok(()) };
        if known.len() > KEYS {
            return Err(format!("{} has {KEYS} keys already", file.display()));
        }
        let mut text = String::with_capacity(known.len() * 50);
        for (key, boot_id) in known {
            // A text grows.
            let _ = writeln!(text, "{:032x} {boot_id:016x}", u128::from_be_bytes(key.0));
        }
        store(file, &text)
    }
}

/// Whether nonces of an association repeat if its key is used again.
fn needs_mark(it: &v1::SecurityAssociation) -> bool {
    it.direction() == v1::IpsecDirection::IpsecOutbound
        && it.withheld.is_empty()
        && Algorithm::from_name(&it.algorithm).is_none_or(Algorithm::needs_unique_nonces)
}

fn parse(line: &str) -> Option<(Fingerprint, u64)> {
    let (key, boot_id) = line.split_once(' ')?;
    let key = u128::from_str_radix(key, 16).ok().filter(|_| key.len() == 32)?;
    Some((Fingerprint(key.to_be_bytes()), u64::from_str_radix(boot_id, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(state: &Path) -> UsedKeys {
        UsedKeys::kept(state, |file, text| {
            fs::create_dir_all(file.parent().unwrap())
                .map_err(|error| format!("{file:?}: {error}"))?;
            fs::write(file, text).map_err(|error| error.to_string())
        })
    }

    fn ipsec(algorithm: &str, key: u8) -> v1::Ipsec {
        let association = v1::SecurityAssociation {
            name: "out".to_owned(),
            direction: v1::IpsecDirection::IpsecOutbound.into(),
            algorithm: algorithm.to_owned(),
            key: vec![key; 16],
            ..v1::SecurityAssociation::default()
        };
        v1::Ipsec { associations: vec![association], boot_id: 0 }
    }

    /// Whether the key is sent to the forwarder, and otherwise the reason.
    fn sent(keys: &UsedKeys, given: v1::Ipsec, boot_id: u64) -> Result<(), String> {
        let marked = keys.mark(given, boot_id);
        assert_eq!(marked.boot_id, boot_id);
        let it = &marked.associations[0];
        assert_eq!(it.key.is_empty(), !it.withheld.is_empty());
        if it.withheld.is_empty() { Ok(()) } else { Err(it.withheld.clone()) }
    }

    #[test]
    fn a_key_is_for_one_forwarder() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        let keys = kept(&state);
        let gcm = |key| ipsec("aes-128-gcm", key);
        assert_eq!(sent(&keys, gcm(1), 7), Ok(()));
        assert_eq!(sent(&keys, gcm(1), 7), Ok(()), "the same forwarder");
        assert!(sent(&keys, gcm(1), 8).unwrap_err().contains("has used its key"));
        assert_eq!(sent(&keys, gcm(2), 8), Ok(()), "another key");
        assert!(sent(&keys, gcm(2), 7).is_err());
        // The next controller.
        let keys = kept(&state);
        assert!(sent(&keys, gcm(1), 8).is_err());
        assert_eq!(sent(&keys, gcm(2), 8), Ok(()));
        assert!(sent(&keys, ipsec("aes-256-gmac", 1), 9).is_err(), "whatever the algorithm");
        assert_eq!(sent(&keys, ipsec("aes-128-cbc-sha256", 1), 9), Ok(()));
    }

    #[test]
    fn a_key_without_mark_is_not_sent() {
        let nowhere = kept(Path::new("/dev/null/state"));
        assert!(sent(&nowhere, ipsec("aes-128-gcm", 1), 7).unwrap_err().contains("/dev/null"));
        assert!(sent(&nowhere, ipsec("aes-128-gcm", 1), 7).is_err(), "nor the next time");
        assert_eq!(sent(&nowhere, ipsec("aes-128-cbc-sha1", 1), 7), Ok(()));
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(FILE), "damaged\n").unwrap();
        let keys = kept(folder.path());
        assert!(sent(&keys, ipsec("aes-128-gcm", 1), 7).unwrap_err().contains("damaged"));
    }
}
