//! Edits of whole nodes: copy, deactivate, activate and annotate. [`crate::rename`] has the edits of `rename`.
//!
//! A part that is not in effect, and what is written about a node, are configuration themselves, of the module
//! `stoa-annotations`: they are committed, rolled back and saved like all other settings.

use stoa_api::v1::configuration_edit::Edit;
use stoa_api::v1::{SetEdit, Store};
use stoa_yang::data::parse;
use yang5::data::{Data, DataTree};
use yang5::schema::SchemaNodeKind;

use crate::line::{joined, split, statements};
use crate::notes::{ANNOTATIONS, INACTIVE, entry};
use crate::position::{self, Order};
use crate::session::{Failure, Session, Which, sets};
use crate::show;
use crate::words::{self, Target, of_path};

/// `copy ENTRY to KEY`: the entry, and the words of the new one.
pub(crate) struct EntryCopy {
    pub(crate) from: Target<'static>,
    pub(crate) to: Target<'static>,
}

impl EntryCopy {
    pub(crate) fn of(words: &[String]) -> Result<EntryCopy, Failure> {
        let usage = || {
            Failure::Words(
                "use a list entry and its new key, such as `interfaces interface eth0 to eth1`"
                    .into(),
            )
        };
        let at = words.iter().rposition(|word| word == "to").ok_or_else(usage)?;
        EntryCopy::around(words, at, &usage)
    }

    /// The entry before a word, and the one of its list that is named behind it: by its keys, or by all its words.
    pub(crate) fn around(
        words: &[String],
        at: usize,
        usage: &dyn Fn() -> Failure,
    ) -> Result<EntryCopy, Failure> {
        let (old, new) = (&words[..at], &words[at + 1..]);
        words::to_delete(old)?;
        let from = words::parse(old)?;
        let node = from.node.clone().filter(|node| node.kind() == SchemaNodeKind::List);
        let names: Vec<String> =
            node.ok_or_else(usage)?.list_keys().map(|key| key.name().to_owned()).collect();
        let keys = names.len();
        if new.is_empty() || keys == 0 {
            return Err(usage());
        }
        if new.len() < keys {
            let names = names.join(", ");
            let cause = format!(
                "an entry of this list has {keys} keys ({names}): give all of them after `{}`",
                words[at]
            );
            return Err(Failure::Words(cause));
        }
        let to = match new.len() == keys {
            true => {
                let list = &from.words[..from.words.len() - keys];
                words::parse(&[list, new].concat())?
            }
            false => {
                words::to_delete(new)?;
                words::parse(new)?
            }
        };
        let is_same_list = to.words.len() == from.words.len() && to.node == from.node;
        if !is_same_list { Err(usage()) } else { Ok(EntryCopy { from, to }) }
    }

    /// The edits that make the new entry.
    pub(crate) fn edits(&self, tree: &DataTree<'static>) -> Result<Vec<Edit>, Failure> {
        if find(tree, &self.to.path) {
            return Err(exists(&self.to.words));
        }
        if !find(tree, &self.from.path) {
            return Err(missing(&self.from.words));
        }
        let entry = tree.find_path(&self.from.path);
        let above = of_path(&entry.map_err(|_| missing(&self.from.words))?.path());
        let mut edits = Vec::new();
        for rest in below(&show::lines(tree, &self.from.path), &above)? {
            edits.extend(sets(&[self.to.words.as_slice(), rest.as_slice()].concat())?);
        }
        Ok(edits)
    }
}

/// The words of `set` lines that follow those of a node, which all the lines must begin with.
fn below(lines: &str, node: &[String]) -> Result<Vec<Vec<String>>, Failure> {
    let mut all = Vec::new();
    for (number, line) in statements(lines) {
        let words = split(line).unwrap_or_default();
        let rest = words.split_first().filter(|(first, _)| *first == "set");
        let Some(rest) = rest.and_then(|(_, words)| words.strip_prefix(node)) else {
            let node = joined(node);
            let cause =
                format!("line {number} of the kept lines does not set `{node}` or a part of it");
            return Err(Failure::Words(cause));
        };
        all.push(rest.to_vec());
    }
    Ok(all)
}

/// The words of a node, as lines of `set` have them: its keys may be typed in other ways, such as without a module.
fn canonical(target: &Target<'static>, path: &str) -> Option<Vec<String>> {
    let node = target.node.as_ref()?;
    let is_leaf = node.kind() == SchemaNodeKind::Leaf;
    let above = if is_leaf { path.rsplit_once('/')?.0 } else { path };
    if above.is_empty() || above.contains('\0') {
        return Some(target.words.clone());
    }
    let mut alone = parse("{}").ok()?;
    alone.new_path(above, None, false).ok()?;
    let mut words = of_path(&alone.find_path(above).ok()?.path());
    words.extend(is_leaf.then(|| node.name().to_owned()));
    Some(words)
}

/// The name of a node in the lists of `stoa-annotations`: as `show` has it, however it was typed.
fn name_of(target: &Target<'static>, path: &str) -> String {
    joined(&canonical(target, path).unwrap_or_else(|| target.words.clone()))
}

pub(crate) fn find(tree: &DataTree<'static>, path: &str) -> bool {
    tree.reference().is_some()
        && !path.contains('\0')
        && tree.find_path(path).is_ok_and(|node| !node.is_default())
}

fn active(words: &[String]) -> Failure {
    let line = joined(words);
    Failure::Words(format!("`{line}` is not deactivated: `show deactivated` lists what is"))
}

pub(crate) fn exists(words: &[String]) -> Failure {
    Failure::Words(format!("`{}` exists: delete it first", joined(words)))
}

pub(crate) fn missing(words: &[String]) -> Failure {
    Failure::Words(format!("`{}` is not configured", joined(words)))
}

/// The node and the text of `annotate NODE TEXT`: the longest path, then the text.
fn annotated(words: &[String]) -> Result<(Target<'static>, String), Failure> {
    let usage = "use a node and a text, such as `interfaces interface eth0 \"to the core\"`";
    let is_node = |at: &usize| {
        let parsed = words::parse(&words[..*at]);
        let is_plain = |target: &Target<'_>| target.keys_missing == 0 && target.value.is_none();
        // Words with blanks are text.
        parsed.is_ok_and(|target| is_plain(&target)) && !words[at - 1].contains(' ')
    };
    let has_text = words.len() > 1 && !is_node(&words.len());
    let at = (1..words.len()).rev().find(is_node).filter(|_| has_text);
    let at = at.ok_or_else(|| Failure::Words(usage.into()))?;
    Ok((words::parse(&words[..at])?, words[at..].join(" ")))
}

impl Session {
    /// `copy ENTRY to KEY`: a list entry with everything in it under another key.
    ///
    /// # Errors
    /// When the entry does not exist, the new one exists, or the words are wrong.
    pub async fn copy(&mut self, words: &[String]) -> Result<(), Failure> {
        let copy = EntryCopy::of(words)?;
        let tree = self.tree(Which::Store(Store::Candidate)).await?;
        self.edit(copy.edits(&tree)?).await
    }

    /// `deactivate NODE`: takes a node out of the configuration and keeps it, and its position in a list that has an
    /// order of its own.
    ///
    /// # Errors
    /// When it does not exist or is not in effect already.
    pub async fn deactivate(&mut self, words: &[String]) -> Result<(), Failure> {
        let path = words::to_delete(words)?;
        let target = words::parse(words)?;
        let is_own = |word: &String| [INACTIVE[0], ANNOTATIONS[0]].contains(&word.as_str());
        if target.words.first().is_none_or(is_own) {
            return Err(Failure::Words("`deactivate` needs a node of the configuration".into()));
        }
        let tree = self.tree(Which::Store(Store::Candidate)).await?;
        let lines = show::lines(&tree, &path);
        if lines.is_empty() {
            return Err(missing(&target.words));
        }
        let part = entry(INACTIVE, &name_of(&target, &path), &["inactive-lines"]);
        let place = words::parse(&part)?.path;
        if find(&tree, &place) {
            return Err(Failure::Words("it is not in effect already: `activate` it first".into()));
        }
        let node = canonical(&target, &path).unwrap_or_else(|| target.words.clone());
        let position = Order::of(&tree, &target, &node).map(|order| order.before(&node));
        let keep = SetEdit { path: place, value: Some(lines) };
        let mut edits = vec![Edit::Delete(path), Edit::Set(keep)];
        if let Some(before) = position {
            edits.extend(position::edits(&joined(&node), &before)?);
        }
        self.edit(edits).await
    }

    /// `activate NODE`: puts back what `deactivate` took out.
    ///
    /// # Errors
    /// When it was not taken out, or exists, or the kept lines set something else.
    pub async fn activate(&mut self, words: &[String]) -> Result<(), Failure> {
        let (path, target) = (words::to_delete(words)?, words::parse(words)?);
        let tree = self.tree(Which::Store(Store::Candidate)).await?;
        let part = words::parse(&entry(INACTIVE, &name_of(&target, &path), &[]))?.path;
        if find(&tree, &path) {
            // Without a deactivated part beside it, "delete it first" would be bad advice.
            return Err(match find(&tree, &part) {
                true => exists(&target.words),
                false => active(&target.words),
            });
        }
        let kept = match find(&tree, &part) {
            true => tree.find_path(&format!("{part}/inactive-lines")).ok(),
            false => None,
        };
        let lines = kept.and_then(|leaf| leaf.value_canonical());
        let lines = lines.ok_or_else(|| active(&target.words))?;
        let node = canonical(&target, &path).unwrap_or_else(|| target.words.clone());
        let mut edits = vec![Edit::Delete(part)];
        for rest in below(&lines, &node)? {
            edits.extend(sets(&[node.as_slice(), rest.as_slice()].concat())?);
        }
        let order = Order::of(&tree, &target, &node);
        edits.extend(order.and_then(|order| order.back(&node, path)));
        self.edit(edits).await
    }

    /// `annotate NODE TEXT`: writes a text about a node; an empty one removes it.
    ///
    /// # Errors
    /// When the node does not exist.
    pub async fn annotate(&mut self, words: &[String]) -> Result<(), Failure> {
        let (target, text) = annotated(words)?;
        let tree = self.tree(Which::Store(Store::Candidate)).await?;
        if !find(&tree, &target.path) {
            return Err(missing(&target.words));
        }
        let node = name_of(&target, &target.path);
        let edit = match text.is_empty() {
            true => vec![Edit::Delete(words::to_delete(&entry(ANNOTATIONS, &node, &[]))?)],
            false => sets(&entry(ANNOTATIONS, &node, &["text", &text]))?,
        };
        self.edit(edit).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{"ietf-interfaces:interfaces": {"interface": [{"name": "eth0",
        "description": "the \"core\"\nset interfaces interface eth0 enabled false",
        "type": "iana-if-type:ethernetCsmacd",
        "ietf-ip:ipv4": {"address": [{"ip": "10.0.0.1", "prefix-length": 24}]}}]}}"#;

    fn words(line: &str) -> Vec<String> {
        split(line).unwrap()
    }

    #[test]
    fn a_copy_has_everything_under_the_new_key() {
        let mut tree = parse(TEXT).unwrap();
        for new in ["eth1", "interfaces interface eth2"] {
            let copy = EntryCopy::of(&words(&format!("int int eth0 to {new}"))).unwrap();
            for edit in copy.edits(&tree).unwrap() {
                let Edit::Set(SetEdit { path, value }) = edit else { panic!("{edit:?}") };
                tree.new_path(&path, value.as_deref(), false).unwrap();
            }
        }
        let of = |name: &str| {
            show::braces(&tree, &format!("/ietf-interfaces:interfaces/interface[name='{name}']"))
        };
        assert_eq!((of("eth1"), of("eth2")), (of("eth0"), of("eth0")));
        let again = EntryCopy::of(&words("interfaces interface eth0 to eth1")).unwrap();
        assert!(matches!(again.edits(&tree), Err(Failure::Words(text)) if text.contains("exists")));
        let none = EntryCopy::of(&words("interfaces interface eth8 to eth9")).unwrap();
        assert!(
            matches!(none.edits(&tree), Err(Failure::Words(text)) if text.contains("not configured"))
        );
        for wrong in [
            "interfaces to x",
            "interfaces interface eth0",
            "interfaces interface eth0 to",
            "to eth1",
        ] {
            assert!(EntryCopy::of(&words(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn kept_lines_are_those_of_the_node() {
        let text = r#"{"ietf-interfaces:interfaces": {"interface": [{"name": "eth0",
            "description": "one\n\"two\"",
            "ietf-ip:ipv6": {"address": [{"ip": "fd00::1", "prefix-length": 64}]}}]},
            "stoa-system:system": {"workers": {"cpus": [1, 0]}},
            "ietf-routing:routing": {"control-plane-protocols": {"control-plane-protocol": [
                {"type": "ietf-routing:static", "name": "s", "description": "a"}]}}}"#;
        let tree = parse(text).unwrap();
        for (line, count) in [
            ("interfaces interface eth0", 2),
            ("int int eth0 desc", 1),
            ("interfaces interface eth0 ipv6 address FD00::1", 1),
            ("routing control-plane-protocols control-plane-protocol static s", 1),
            ("system workers cpus 0", 1),
        ] {
            let (path, target) =
                (words::to_delete(&words(line)).unwrap(), words::parse(&words(line)).unwrap());
            let lines = show::lines(&tree, &path);
            let node = canonical(&target, &path).unwrap();
            // `show` finds notes by the words of the path.
            let at = tree.find_path(&path).unwrap();
            if at.schema().kind() != SchemaNodeKind::LeafList {
                assert_eq!(name_of(&target, &path), joined(&of_path(&at.path())), "{line}");
            }
            let rests = below(&lines, &node).unwrap_or_else(|error| panic!("{error:?}: {lines}"));
            assert_eq!(rests.len(), count, "{lines}");
            for rest in rests {
                sets(&[node.as_slice(), rest.as_slice()].concat()).unwrap();
            }
            // Others may have written the lines.
            for other in ["set management user mallory admin true", "delete interfaces", "set \"x"]
            {
                let wrong = below(&format!("{lines}{other}\n"), &node);
                assert!(matches!(wrong, Err(Failure::Words(_))), "{line}: {other}");
            }
        }
    }

    #[test]
    fn an_annotation_is_what_follows_the_node() {
        let of = |line: &str| {
            let (target, text) = annotated(&words(line)).unwrap();
            (target.words.join(" "), text)
        };
        let eth0 = "interfaces interface eth0".to_owned();
        assert_eq!(of("int int eth0 what a port"), (eth0.clone(), "what a port".to_owned()));
        assert_eq!(
            of("int int eth0 \"enabled for now\""),
            (eth0.clone(), "enabled for now".to_owned())
        );
        assert_eq!(of("int int eth0 enabled \"\""), (format!("{eth0} enabled"), String::new()));
        assert!(annotated(&words("interfaces interface eth0")).is_err());
    }
}
