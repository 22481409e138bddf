//! Which facts a data path asks for.

use super::Desired;
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

/// The facts at or below a path.
pub(super) fn desired(path: &str) -> Desired {
    let steps = steps(path);
    let mut steps = steps.iter();
    let Some(first) = steps.next() else { return Desired::overview() };
    let second = steps.next();
    match first.name {
        "interfaces" => interfaces(second, steps.next()),
        "routing" => routing(second, steps.next()),
        "forwarder" => forwarder(second),
        "vrrp" => Desired::of(&[StateSection::Interfaces, StateSection::Drops]),
        _ => Desired::of(&[]),
    }
}

fn interfaces(interface: Option<&Step<'_>>, part: Option<&Step<'_>>) -> Desired {
    let families = part.is_none_or(|part| matches!(part.name, "ipv4" | "ipv6"));
    let pieces: &[StateSection] =
        if families { &[StateSection::Interfaces, StateSection::Neighbors] } else { &[StateSection::Interfaces] };
    let name = interface.and_then(|step| step.key).map(str::to_owned);
    Desired { interface: name, ..Desired::of(pieces) }
}

fn routing(part: Option<&Step<'_>>, rib: Option<&Step<'_>>) -> Desired {
    match part {
        None => Desired::of(&[StateSection::RouteCounts, StateSection::RouteSources]),
        Some(part) if part.name == "control-plane-protocols" => Desired::of(&[StateSection::RouteSources]),
        Some(part) if part.name == "ribs" => {
            let mut desired = Desired::of(&[StateSection::RouteCounts, StateSection::Routes]);
            desired.routes.table = rib.and_then(|step| step.key).map(super::routing::table);
            desired
        }
        Some(_) => Desired::of(&[]),
    }
}

fn forwarder(part: Option<&Step<'_>>) -> Desired {
    let all = FORWARDER.iter().map(|(_, piece)| *piece);
    match part {
        None => Desired::of(&all.chain([StateSection::Program]).collect::<Vec<_>>()),
        Some(part) => {
            let known = FORWARDER.iter().find(|(name, _)| *name == part.name);
            Desired::of(&[known.map_or(StateSection::Program, |(_, piece)| *piece)])
        }
    }
}

/// The steps of a path. What stands in brackets, quoted slashes too, belongs to its step.
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

/// One step: a name, with its module or without, and a predicate or none.
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
