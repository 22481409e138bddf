//! Nodes that are taken out of effect or put back, among the differences of two configurations.
//!
//! `deactivate` moves a node into the list `deactivated` of `stoa-annotations`, as the lines of `set` that create it.
//! The differences have both: the nodes that are gone, and a new entry of that list.

use std::collections::{HashMap, HashSet};

use stoa_api::v1::{ChangeKind, ConfigurationChange};

use super::{is_below, statement};
use crate::line::{joined, split, statements};
use crate::notes::INACTIVE;
use crate::words::of_path;

/// Marks lines that are kept without effect.
const MARK: &str = "(inactive)";

/// A node that is out of effect in at least one of the configurations.
#[derive(Default)]
struct Part<'a> {
    words: Vec<String>,
    /// The kept lines in the old configuration, if it is out of effect there.
    before: Option<&'a str>,
    /// The same in the new one.
    after: Option<&'a str>,
    /// The nodes that came into effect, and those that went, at or below it.
    created: Vec<String>,
    deleted: Vec<String>,
}

/// What the differences tell about such nodes.
pub(super) struct Deactivations {
    /// The number of the part that each of the differences is about.
    of: Vec<Option<usize>>,
    /// The lines of each part, until they are taken.
    lines: Vec<Vec<String>>,
}

impl Deactivations {
    /// Finds them.
    pub(super) fn of(all: &[ConfigurationChange]) -> Deactivations {
        let mut parts: Vec<Part<'_>> = Vec::new();
        let mut of = vec![None; all.len()];
        let mut numbers: HashMap<Vec<String>, usize> = HashMap::new();
        for (at, change) in all.iter().enumerate() {
            let words = of_path(&change.path);
            let [list, entry, node, rest @ ..] = &words[..] else { continue };
            let Ok(node) = split(node) else { continue };
            if [list, entry] != INACTIVE || node.is_empty() {
                continue;
            }
            let number = *numbers.entry(node.clone()).or_insert(parts.len());
            if number == parts.len() {
                parts.push(Part { words: node, ..Part::default() });
            }
            of[at] = Some(number);
            if rest.first().is_some_and(|leaf| leaf == "inactive-lines") {
                parts[number].before = change.old.as_deref();
                parts[number].after = change.new.as_deref();
            }
        }
        if !parts.is_empty() {
            claim(all, &mut parts, &numbers, &mut of);
        }
        let lines = parts.iter().map(Part::lines).collect();
        Deactivations { of, lines }
    }

    /// The lines instead of the difference with this number; empty if they were taken before.
    pub(super) fn take(&mut self, at: usize) -> Option<Vec<String>> {
        self.of[at].map(|number| std::mem::take(&mut self.lines[number]))
    }
}

/// Gives each node that went or came to the deepest part that explains it.
fn claim(
    all: &[ConfigurationChange],
    parts: &mut [Part<'_>],
    numbers: &HashMap<Vec<String>, usize>,
    of: &mut [Option<usize>],
) {
    let mut claimed = Vec::new();
    for (at, change) in all.iter().enumerate() {
        let kind = change.kind();
        if of[at].is_some() || kind == ChangeKind::Replace {
            continue;
        }
        let words = of_path(&change.path);
        let explains = |number: &&usize| match kind {
            ChangeKind::Delete => parts[**number].is_deactivated(),
            _ => parts[**number].is_activated(),
        };
        let mut above = (1..=words.len()).rev().filter_map(|length| numbers.get(&words[..length]));
        of[at] = above.find(explains).copied();
        claimed.extend(of[at].map(|number| (at, number)));
    }
    for (at, number) in claimed {
        let change = &all[at];
        let below =
            (at + 1..all.len()).take_while(|below| is_below(&all[*below].path, &change.path));
        // What is in it shows it.
        if below.into_iter().any(|below| of[below] == Some(number)) {
            continue;
        }
        let lines = match change.kind() {
            ChangeKind::Delete => &mut parts[number].deleted,
            _ => &mut parts[number].created,
        };
        lines.push(statement(change));
    }
}

impl Part<'_> {
    fn is_deactivated(&self) -> bool {
        self.before.is_none() && self.after.is_some()
    }

    fn is_activated(&self) -> bool {
        self.before.is_some() && self.after.is_none()
    }

    /// What became of it: `!` if its node was taken out of effect or put back, and what changed besides.
    fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let node = joined(&self.words);
        if self.is_deactivated() && !self.deleted.is_empty() {
            lines.push(format!("! {node} (deactivated)"));
        } else if self.is_activated() && !self.created.is_empty() {
            lines.push(format!("! {node} (activated)"));
        }
        let [before, after] =
            [self.before, self.after].map(|kept| kept.map_or(Vec::new(), kept_lines));
        let old = Sides { active: &self.deleted, kept: &before };
        let new = Sides { active: &self.created, kept: &after };
        lines.extend(old.without(&new, '-'));
        lines.extend(new.without(&old, '+'));
        lines
    }
}

/// The lines of a part in one configuration: those in effect, as far as they changed, and those that are kept.
struct Sides<'a> {
    active: &'a [String],
    kept: &'a [String],
}

impl Sides<'_> {
    /// The lines that the other configuration lacks.
    fn without(&self, other: &Sides<'_>, sign: char) -> Vec<String> {
        let known: HashSet<&String> = other.active.iter().chain(other.kept).collect();
        let is_new = |line: &&String| !known.contains(line);
        let active = self.active.iter().filter(is_new).map(|line| format!("{sign} {line}"));
        let kept = self.kept.iter().filter(is_new).map(|line| format!("{sign} {line} {MARK}"));
        active.chain(kept).collect()
    }
}

/// The kept lines without `set`, quoted as differences are.
fn kept_lines(text: &str) -> Vec<String> {
    let normal = |line: &str| match split(line) {
        Ok(words) if words.first().is_some_and(|first| first == "set") => joined(&words[1..]),
        _ => line.to_owned(),
    };
    statements(text).map(|(_, line)| normal(line)).filter(|line| !line.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::lines;
    use super::*;

    const LAN: &str = "/ietf-interfaces:interfaces/interface[name='lan']";
    const KEPT: &str = "set interfaces interface lan description \"the core\"\n\
                        set interfaces interface lan type ethernetCsmacd\n";

    fn change(
        kind: ChangeKind,
        path: &str,
        old: Option<&str>,
        new: Option<&str>,
    ) -> ConfigurationChange {
        let [old, new] = [old, new].map(|it| it.map(str::to_owned));
        ConfigurationChange { kind: kind.into(), path: path.into(), old, new }
    }

    /// The entry of a node, which is created, deleted or changed.
    fn part(
        kind: ChangeKind,
        node: &str,
        old: Option<&str>,
        new: Option<&str>,
    ) -> Vec<ConfigurationChange> {
        let path = format!("/stoa-annotations:deactivated/part[node='{node}']");
        let lines = change(kind, &format!("{path}/inactive-lines"), old, new);
        match kind {
            ChangeKind::Replace => vec![lines],
            _ => vec![change(kind, &path, None, None), lines],
        }
    }

    /// The interface, which is created or deleted.
    fn lan(kind: ChangeKind, description: &str) -> Vec<ConfigurationChange> {
        let values = |value| match kind {
            ChangeKind::Delete => (Some(value), None),
            _ => (None, Some(value)),
        };
        let leaf = |name: &str, value| {
            let (old, new) = values(value);
            change(kind, &format!("{LAN}/{name}"), old, new)
        };
        vec![
            change(kind, LAN, None, None),
            leaf("description", description),
            leaf("type", "iana-if-type:ethernetCsmacd"),
        ]
    }

    const NODE: &str = "interfaces interface lan";

    #[test]
    fn a_deactivated_node_is_one_line() {
        let down = part(ChangeKind::Create, NODE, None, Some(KEPT));
        for all in [
            [lan(ChangeKind::Delete, "the core"), down.clone()].concat(),
            [down.clone(), lan(ChangeKind::Delete, "the core")].concat(),
        ] {
            assert_eq!(lines(&all), ["! interfaces interface lan (deactivated)"]);
        }
        let up = part(ChangeKind::Delete, NODE, Some(KEPT), None);
        let all = [up, lan(ChangeKind::Create, "the core")].concat();
        assert_eq!(lines(&all), ["! interfaces interface lan (activated)"]);
    }

    #[test]
    fn what_changed_besides_is_shown() {
        let all = [
            lan(ChangeKind::Delete, "an edge"),
            part(ChangeKind::Create, NODE, None, Some(KEPT)),
            vec![change(ChangeKind::Delete, "/stoa-vrf:vrfs/vrf[name='red']", None, None)],
        ];
        let expected = [
            "! interfaces interface lan (deactivated)",
            "- interfaces interface lan description \"an edge\"",
            "+ interfaces interface lan description \"the core\" (inactive)",
            "- vrfs vrf red",
        ];
        assert_eq!(lines(&all.concat()), expected);
        let up = part(ChangeKind::Delete, NODE, Some(KEPT), None);
        let all = [up, lan(ChangeKind::Create, "an edge")].concat();
        let expected = [
            "! interfaces interface lan (activated)",
            "- interfaces interface lan description \"the core\" (inactive)",
            "+ interfaces interface lan description \"an edge\"",
        ];
        assert_eq!(lines(&all), expected);
    }

    #[test]
    fn a_node_that_stays_out_of_effect_is_compared_by_its_lines() {
        let other = KEPT.replace("the core", "x");
        let all = part(ChangeKind::Replace, NODE, Some(KEPT), Some(&other));
        let expected = [
            "- interfaces interface lan description \"the core\" (inactive)",
            "+ interfaces interface lan description x (inactive)",
        ];
        assert_eq!(lines(&all), expected);
        let (gone, new) = (
            part(ChangeKind::Delete, NODE, Some(KEPT), None),
            part(ChangeKind::Create, NODE, None, Some(KEPT)),
        );
        let both = ["description \"the core\"", "type ethernetCsmacd"];
        let of =
            |sign| both.map(|line| format!("{sign} interfaces interface lan {line} (inactive)"));
        assert_eq!((lines(&gone), lines(&new)), (of('-').to_vec(), of('+').to_vec()));
    }

    #[test]
    fn a_change_belongs_to_the_deepest_part() {
        let node = "interfaces interface lan description";
        let text = "set interfaces interface lan description \"the core\"\n";
        let rest = "set interfaces interface lan type ethernetCsmacd\n";
        let all = [
            lan(ChangeKind::Delete, "the core"),
            part(ChangeKind::Create, NODE, None, Some(rest)),
            part(ChangeKind::Create, node, None, Some(text)),
        ];
        let expected = [
            "! interfaces interface lan (deactivated)",
            "! interfaces interface lan description (deactivated)",
        ];
        assert_eq!(lines(&all.concat()), expected);
        let all = [
            lan(ChangeKind::Delete, "the core")[..2].to_vec(),
            part(ChangeKind::Create, node, None, Some(text)),
        ];
        let bare = part(ChangeKind::Create, NODE, None, Some("set interfaces interface lan\n"));
        assert_eq!(lines(&[all.concat(), bare].concat()), expected);
        // The interface is removed, and only its description is kept.
        let all =
            [lan(ChangeKind::Delete, "the core"), part(ChangeKind::Create, node, None, Some(text))];
        let expected =
            ["- interfaces interface lan", "! interfaces interface lan description (deactivated)"];
        assert_eq!(lines(&all.concat()), expected);
    }
}
