//! The sections of the state that a data path selects.

use super::request::StateRequest;
use super::routing::table as table_of;
use crate::operational_state::StateSection;

/// Below `/stoa-forwarder:forwarder`.
const FORWARDER: [(&str, StateSection); 6] = [
    ("workers", StateSection::Workers),
    ("nodes", StateSection::Nodes),
    ("drops", StateSection::Drops),
    ("punts", StateSection::Punts),
    ("limits", StateSection::Limits),
    ("conservation", StateSection::Conservation),
];

/// A step of a path: its name without module, and the value of its only key.
struct Step<'a> {
    name: &'a str,
    key: Option<&'a str>,
}

impl StateRequest {
    /// The state at or below a data path such as
    /// `/ietf-interfaces:interfaces/interface[name='a']/statistics`. "/" is the overview.
    ///
    /// Neighbours are included at or below `interface`, routes at or below `/ietf-routing:routing/ribs` up to
    /// [`super::ROUTE_LIMIT`] of each table. A path without state selects no section.
    pub fn at(path: &str) -> StateRequest {
        request(path)
    }
}

/// The state at or below a path.
fn request(path: &str) -> StateRequest {
    let steps = steps(path);
    let mut steps = steps.iter();
    let Some(first) = steps.next() else { return StateRequest::overview() };
    let second = steps.next();
    match first.name {
        "interfaces" => interfaces(second, steps.next()),
        "routing" => routing(second, steps.next()),
        "forwarder" => forwarder(second),
        "acls" => StateRequest::of(&[StateSection::Acls]),
        "vrrp" => StateRequest::of(&[StateSection::Interfaces, StateSection::Drops]),
        _ => StateRequest::of(&[]),
    }
}

fn interfaces(interface: Option<&Step<'_>>, part: Option<&Step<'_>>) -> StateRequest {
    let families = part.is_none_or(|part| matches!(part.name, "ipv4" | "ipv6"));
    let sections: &[StateSection] = if families {
        &[StateSection::Interfaces, StateSection::Neighbors]
    } else {
        &[StateSection::Interfaces]
    };
    let name = interface.and_then(|step| step.key).map(str::to_owned);
    StateRequest { interface: name, ..StateRequest::of(sections) }
}

fn routing(part: Option<&Step<'_>>, rib: Option<&Step<'_>>) -> StateRequest {
    match part {
        None => StateRequest::of(&[
            StateSection::RouteCounts,
            StateSection::RouteSources,
            StateSection::Rules,
        ]),
        Some(part) if part.name == "policy" => StateRequest::of(&[StateSection::Rules]),
        Some(part) if part.name == "control-plane-protocols" => {
            StateRequest::of(&[StateSection::RouteSources])
        }
        Some(part) if part.name == "ribs" => {
            let mut request = StateRequest::of(&[StateSection::RouteCounts, StateSection::Routes]);
            request.routes.table = rib.and_then(|step| step.key).map(table_of);
            request
        }
        Some(_) => StateRequest::of(&[]),
    }
}

fn forwarder(part: Option<&Step<'_>>) -> StateRequest {
    let all = FORWARDER.iter().map(|(_, section)| *section);
    match part {
        None => StateRequest::of(&all.chain([StateSection::Program]).collect::<Vec<_>>()),
        Some(part) => {
            let known = FORWARDER.iter().find(|(name, _)| *name == part.name);
            StateRequest::of(&[known.map_or(StateSection::Program, |(_, section)| *section)])
        }
    }
}

/// The steps of a path. Predicates, with quoted slashes, belong to their step.
fn steps(path: &str) -> Vec<Step<'_>> {
    let (mut quote, mut begin, mut pieces) = (None, 0, Vec::new());
    for (at, letter) in path.char_indices() {
        match (quote, letter) {
            (None, '/') => {
                pieces.push(&path[begin..at]);
                begin = at + 1;
            }
            (None, '\'' | '"') => quote = Some(letter),
            (Some(open), letter) if open == letter => quote = None,
            _ => {}
        }
    }
    pieces.push(&path[begin..]);
    pieces.into_iter().filter(|piece| !piece.is_empty()).map(step).collect()
}

/// One step: a name with or without module, and an optional predicate.
fn step(piece: &str) -> Step<'_> {
    let (name, predicate) = piece.split_once('[').unwrap_or((piece, ""));
    let name = name.rsplit(':').next().unwrap_or(name);
    let value = predicate.split_once('=').map(|(_, value)| value.trim_end_matches(']').trim());
    let key = value.and_then(|value| {
        let quote = value.chars().next().filter(|letter| matches!(letter, '\'' | '"'))?;
        value.strip_prefix(quote)?.strip_suffix(quote)
    });
    Step { name, key }
}
