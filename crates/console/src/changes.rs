//! The differences of two configurations as lines.

mod deactivation;

use stoa_api::v1::{ChangeKind, ConfigurationChange};

use crate::line::{joined, quoted};
use crate::show::plain;
use crate::words::of_path;
use deactivation::Deactivations;

/// The differences as lines, each change once: a new entry by what is in it, a deleted one by itself, and a node that
/// was taken out of effect, or put back, as such.
pub fn lines(all: &[ConfigurationChange]) -> Vec<String> {
    let mut deactivations = Deactivations::of(all);
    let (mut lines, mut deleted) = (Vec::new(), None);
    for (at, one) in all.iter().enumerate() {
        if let Some(described) = deactivations.take(at) {
            lines.extend(described);
            continue;
        }
        match one.kind() {
            ChangeKind::Create if is_shown_below(all, at) => continue,
            ChangeKind::Delete if deleted.is_some_and(|above| is_below(&one.path, above)) => {
                continue;
            }
            ChangeKind::Delete => deleted = Some(one.path.as_str()),
            _ => {}
        }
        lines.push(line(one));
    }
    lines
}

fn is_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.starts_with('/'))
}

/// Whether a change is followed by one of its kind below its node, which tells it, too.
fn is_shown_below(all: &[ConfigurationChange], at: usize) -> bool {
    let one = &all[at];
    let next = all.get(at + 1);
    next.is_some_and(|next| next.kind() == one.kind() && is_below(&next.path, &one.path))
}

/// The words of a changed node, without the value of a leaf.
fn words(change: &ConfigurationChange) -> String {
    let mut words = of_path(&change.path);
    let value = change.new.as_ref().or(change.old.as_ref());
    if words.last() == value && change.path.contains("[.=") {
        words.pop();
    }
    joined(&words)
}

/// A difference in one line: `+` added, `-` removed, `~` changed.
fn line(change: &ConfigurationChange) -> String {
    let quoted_value = |value: &Option<String>| value.as_deref().map(|it| quoted(plain(it)));
    match (change.kind(), quoted_value(&change.old), quoted_value(&change.new)) {
        (ChangeKind::Create, ..) => format!("+ {}", statement(change)),
        (ChangeKind::Delete, ..) => format!("- {}", statement(change)),
        (ChangeKind::Replace, Some(old), Some(new)) => {
            format!("~ {} {old} -> {new}", words(change))
        }
        (ChangeKind::Replace, ..) => format!("~ {} (moved)", words(change)),
    }
}

/// The words of a changed node with its value: what follows `set`.
fn statement(change: &ConfigurationChange) -> String {
    let value = change.new.as_deref().or(change.old.as_deref());
    match value.map(|value| quoted(plain(value))) {
        Some(value) => format!("{} {value}", words(change)),
        None => words(change),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_one_line() {
        let of = |kind: ChangeKind, path: &str, old: Option<&str>, new: Option<&str>| {
            let [old, new] = [old, new].map(|it| it.map(str::to_owned));
            ConfigurationChange { kind: kind.into(), path: path.into(), old, new }
        };
        let entry =
            "/ietf-interfaces:interfaces/interface[name='lan']/ietf-ip:ipv4/address[ip='10.0.0.1']";
        let length = format!("{entry}/prefix-length");
        let new = [
            of(ChangeKind::Create, entry, None, None),
            of(ChangeKind::Create, &length, None, Some("24")),
        ];
        let words = "interfaces interface lan ipv4 address 10.0.0.1";
        assert_eq!(lines(&new), [format!("+ {words} prefix-length 24")]);
        let gone = [
            of(ChangeKind::Delete, entry, None, None),
            of(ChangeKind::Delete, &length, Some("24"), None),
        ];
        assert_eq!(lines(&gone), [format!("- {words}")]);
        assert_eq!(lines(&new[..1]), [format!("+ {words}")], "an entry with nothing in it");
        let other = of(ChangeKind::Create, "/stoa-vrf:vrfs/vrf[name='a']", None, None);
        assert_eq!(lines(&[other.clone(), new[0].clone()]).len(), 2);
    }

    #[test]
    fn changes_are_lines() {
        let path = "/stoa-system:system/workers/count".to_owned();
        let (old, new) = (Some("1".to_owned()), Some("2".to_owned()));
        let it = ConfigurationChange { kind: ChangeKind::Replace.into(), path, old, new };
        assert_eq!(line(&it), "~ system workers count 1 -> 2");
    }
}
