//! `insert ENTRY before KEY`: places an entry of a list that has an order of its own, such as a rule of an access list.

use stoa_api::v1::MoveEdit;
use stoa_api::v1::configuration_edit::Edit;
use stoa_api::v1::move_edit::Place;
use yang5::schema::SchemaNode;

use crate::completion::{self, Completion};
use crate::line::joined;
use crate::session::{Failure, Session};
use crate::whole::EntryCopy;
use crate::words;

fn usage() -> Failure {
    let text = "use an entry, `before` or `after`, and the key of another entry, such as `acls acl edge aces ace web \
                before rest`, or an entry and `first` or `last`";
    Failure::Words(text.into())
}

/// The edit of `insert ENTRY before|after KEY` or `insert ENTRY first|last`.
fn edit(words: &[String]) -> Result<Edit, Failure> {
    let ends = [("first", Place::First), ("last", Place::Last)];
    let end = ends.into_iter().find(|(word, _)| words.last().is_some_and(|last| last == word));
    let before = &words[..words.len().saturating_sub(1)];
    if let Some((_, place)) = end
        && let Ok(path) = words::to_delete(before)
    {
        check(words::parse(before)?.node.as_ref(), before)?;
        return Ok(Edit::Move(MoveEdit { path, place: place.into(), point: String::new() }));
    }
    let at = before.iter().rposition(|word| word == "before" || word == "after");
    let at = at.ok_or_else(usage)?;
    let EntryCopy { from, to } = EntryCopy::around(words, at, &usage)?;
    check(from.node.as_ref(), &words[..at])?;
    let place = if words[at] == "before" { Place::Before } else { Place::After };
    Ok(Edit::Move(MoveEdit { path: from.path, place: place.into(), point: to.path }))
}

/// Where an entry goes, with a short help.
const PLACES: [(&str, &str); 4] = [
    ("before", "In front of another entry"),
    ("after", "Behind another entry"),
    ("first", "In front of all others"),
    ("last", "Behind all others"),
];

/// The words that may follow `insert` and these words: those of an entry, its place, and the key of another entry.
/// `configured` as in [`completion::next`].
pub fn next(before: &[String], configured: &dyn Fn(&str) -> Vec<String>) -> Vec<Completion> {
    let at = before.iter().rposition(|word| word == "before" || word == "after");
    if let Some((at, keys)) = at.and_then(|at| Some((at, keys_of(&before[..at])?))) {
        let (list, entry) = before[..at].split_at(at - keys);
        let given = &before[at + 1..];
        if given.len() >= keys {
            return Vec::new();
        }
        let mut offers = completion::next(&[list, given].concat(), configured);
        // Not the entry itself.
        offers.retain(|offer| given.len() + 1 < keys || Some(&offer.word) != entry.last());
        return offers;
    }
    let mut offers = completion::next(before, configured);
    if keys_of(before).is_some() {
        let places =
            PLACES.map(|(word, help)| Completion { word: word.to_owned(), help: help.to_owned() });
        offers.splice(.., places);
    }
    offers
}

/// The number of keys of the entry that the words name, if its list has an order of its own.
fn keys_of(words: &[String]) -> Option<usize> {
    let target = words::parse(words).ok()?;
    let node = target.node.filter(|node| node.is_user_ordered() && target.value.is_none())?;
    (target.keys_missing == 0).then(|| node.list_keys().count())
}

/// Refuses what has no order of its own.
fn check(node: Option<&SchemaNode<'_>>, words: &[String]) -> Result<(), Failure> {
    match node.is_some_and(SchemaNode::is_user_ordered) {
        true => Ok(()),
        false => Err(Failure::Words(format!(
            "`{}` is no entry of a list with an order of its own, such as the rules of an access list",
            joined(words)
        ))),
    }
}

impl Session {
    /// `insert ENTRY before|after KEY`, or `insert ENTRY first|last`: places an entry in its list.
    ///
    /// # Errors
    /// When one of the entries does not exist, the list has no order of its own, or the words are wrong.
    pub async fn insert(&mut self, words: &[String]) -> Result<(), Failure> {
        let edit = edit(words)?;
        self.edit(vec![edit]).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::split;

    fn of(line: &str) -> Result<Edit, Failure> {
        edit(&split(line).unwrap())
    }

    #[test]
    fn an_entry_has_a_place_and_a_point() {
        let list = "/ietf-access-control-list:acls/acl[name='edge']/aces/ace";
        let path = |name: &str| format!("{list}[name='{name}']");
        let edit = |place: Place, point: &str| {
            let point = if point.is_empty() { String::new() } else { path(point) };
            Edit::Move(MoveEdit { path: path("web"), place: place.into(), point })
        };
        let web = "acls acl edge aces ace web";
        for (rest, expected) in [
            ("before rest", edit(Place::Before, "rest")),
            ("after acls acl edge aces ace rest", edit(Place::After, "rest")),
            ("before last", edit(Place::Before, "last")),
            ("after before", edit(Place::After, "before")),
            ("first", edit(Place::First, "")),
            ("last", edit(Place::Last, "")),
        ] {
            assert_eq!(of(&format!("{web} {rest}")).unwrap(), expected, "{rest}");
        }
    }

    #[test]
    fn places_and_other_entries_are_offered() {
        let offered = |line: &str| {
            let configured = |path: &str| match path.ends_with("/aces/ace") {
                true => ["web", "rest"].map(str::to_owned).to_vec(),
                false => Vec::new(),
            };
            let offers = next(&split(line).unwrap(), &configured);
            offers.into_iter().map(|it| it.word).collect::<Vec<_>>()
        };
        let web = "acls acl edge aces ace web";
        assert_eq!(offered("acls acl edge aces ace"), ["web", "rest", "<name>"]);
        assert_eq!(offered(web), ["before", "after", "first", "last"]);
        assert_eq!(offered(&format!("{web} before")), ["rest", "<name>"]);
        assert_eq!(offered(&format!("{web} after rest")), [""; 0]);
        assert_eq!(offered("acls acl edge aces ace before"), ["before", "after", "first", "last"]);
        assert!(offered("acls acl edge").contains(&"aces".to_owned()));
    }

    #[test]
    fn what_has_no_place_is_refused() {
        for wrong in [
            "",
            "acls acl edge aces ace web",
            "acls acl edge aces ace web before",
            "acls acl edge first",
            "acls acl edge before other",
            "interfaces first",
            "acls acl edge aces ace web before acls acl other aces ace rest matches",
        ] {
            assert!(matches!(of(wrong), Err(Failure::Words(_))), "{wrong}");
        }
    }
}
