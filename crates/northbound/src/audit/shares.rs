//! The shares of a full log: who wrote little keeps all of it, who wrote much keeps the newest of it.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use serde::Deserialize;

use crate::server::source::client;

/// Who has a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// The user.
    User,
    /// The address: the user is a claim of a stranger.
    Address,
}

#[derive(Deserialize)]
struct Line {
    #[serde(default)]
    user: String,
    #[serde(default)]
    address: Option<String>,
}

impl Owner {
    /// The owner of a line; "" if it cannot be read.
    fn of(self, line: &str) -> String {
        let Ok(read) = serde_json::from_str::<Line>(line) else { return String::new() };
        match self {
            Owner::User => read.user,
            Owner::Address => {
                let address = read.address.unwrap_or_default();
                let parsed = address.parse().map(|address| client(address).to_string());
                parsed.unwrap_or(address)
            }
        }
    }
}

/// The lines of these files, oldest first, that are within the shares of their owners of `limit` bytes.
pub(super) fn kept(files: &[&Path], owner: Owner, limit: u64) -> io::Result<Vec<u8>> {
    let (mut lines, mut numbers) = (Vec::new(), HashMap::new());
    let mut sizes: Vec<u64> = Vec::new();
    for file in files {
        let file = match std::fs::File::open(file) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        for line in BufReader::new(file).split(b'\n') {
            let line = line?;
            let next = numbers.len();
            let owner = owner.of(&String::from_utf8_lossy(&line));
            let number = *numbers.entry(owner).or_insert(next);
            if number == sizes.len() {
                sizes.push(0);
            }
            sizes[number] += line.len() as u64 + 1;
            lines.push((number, line));
        }
    }
    let share = share(&sizes, limit);
    let mut left = vec![share; sizes.len()];
    let mut is_kept = vec![false; lines.len()];
    for (at, (number, line)) in lines.iter().enumerate().rev() {
        match left[*number].checked_sub(line.len() as u64 + 1) {
            Some(rest) => (left[*number], is_kept[at]) = (rest, true),
            // None that is older, however short it is.
            None => left[*number] = 0,
        }
    }
    let mut text = Vec::new();
    for ((_, line), _) in lines.iter().zip(is_kept).filter(|(_, is_kept)| *is_kept) {
        text.extend_from_slice(line);
        text.push(b'\n');
    }
    Ok(text)
}

/// The largest share so that all together have at most `limit`: who needs less leaves the rest to the others.
fn share(sizes: &[u64], limit: u64) -> u64 {
    let mut sorted = sizes.to_vec();
    sorted.sort_unstable();
    let (mut left, mut owners) = (limit, sorted.len() as u64);
    for size in sorted {
        let share = left / owners;
        if size > share {
            return share;
        }
        (left, owners) = (left - size, owners - 1);
    }
    u64::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_writes_much_pushes_out_only_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (folder.path().join("old"), folder.path().join("new"));
        let line =
            |user: &str, number: usize| format!("{{\"user\":\"{user}\",\"n\":\"{number:05}\"}}\n");
        let ann: String = (0..20).map(|number| line("ann", number)).collect();
        let eve: String = (0..10_000).map(|number| line("eve", number)).collect();
        std::fs::write(&old, &ann).unwrap();
        std::fs::write(&new, &eve).unwrap();
        let kept = kept(&[&old, &new, &folder.path().join("none")], Owner::User, 10_000).unwrap();
        let kept = String::from_utf8(kept).unwrap();
        assert!(kept.len() <= 10_000 && kept.starts_with(&ann));
        assert!(kept.ends_with(&line("eve", 9_999)), "the newest");
        assert!(kept.matches("eve").count() > 300);
    }

    #[test]
    fn shares_are_fair_and_within_the_limit() {
        assert_eq!(share(&[10, 20], 30), u64::MAX);
        assert_eq!(share(&[10, 20, 70], 60), 30);
        assert_eq!(share(&[100, 100], 60), 30);
        assert_eq!(share(&[], 60), u64::MAX);
        let line = r#"{"user": "claimed", "address": "2001:db8::7"}"#;
        assert_eq!(Owner::Address.of(line), "2001:db8::");
        assert_eq!(
            (Owner::User.of(line), Owner::User.of("cut")),
            ("claimed".into(), String::new())
        );
    }
}
