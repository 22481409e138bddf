//! The sections of the state that a data path selects.

use stoa_yang::instance_path::{Predicate, Step, bare, steps};

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

impl StateRequest {
    /// The state at or below a data path such as
    /// `/ietf-interfaces:interfaces/interface[name='a']/statistics`. "/" is the overview.
    ///
    /// Neighbours are included at or below `interface`, routes at or below `/ietf-routing:routing/ribs` up to
    /// [`super::ROUTE_LIMIT`] of each table. A path without state selects no section.
    pub fn at(path: &str) -> StateRequest {
        request(path)
    }

    /// The same for these members of the node at the path alone.
    pub fn of_members<'a>(path: &str, members: impl IntoIterator<Item = &'a str>) -> StateRequest {
        let mut whole = request(path);
        let base = path.trim_end_matches('/');
        let parts =
            members.into_iter().flat_map(|name| request(&format!("{base}/{name}")).sections);
        let parts: Vec<StateSection> = parts.collect();
        whole.sections.retain(|section| parts.contains(section));
        whole
    }
}

/// The state at or below a path.
fn request(path: &str) -> StateRequest {
    let Some(steps) = steps(path) else { return StateRequest::of(&[]) };
    let mut steps = steps.iter();
    let Some(first) = steps.next() else { return StateRequest::overview() };
    let second = steps.next();
    match bare(first.name) {
        "interfaces" => interfaces(second, steps.next()),
        "routing" => routing(second, steps.next()),
        "forwarder" => forwarder(second),
        "acls" => access_lists(second),
        "nat" => StateRequest::of(&[StateSection::Nat]),
        "flow-sync" => StateRequest::of(&[StateSection::FlowSync]),
        "ipsec" => StateRequest::of(&[StateSection::Ipsec]),
        "ipfix" => StateRequest::of(&[StateSection::Ipfix]),
        "logins" => StateRequest::of(&[StateSection::Logins]),
        "vrrp" => StateRequest::of(&[StateSection::Interfaces, StateSection::Drops]),
        _ => StateRequest::of(&[]),
    }
}

fn interfaces(interface: Option<&Step<'_>>, part: Option<&Step<'_>>) -> StateRequest {
    let families = part.is_none_or(|part| matches!(bare(part.name), "ipv4" | "ipv6"));
    let sections: &[StateSection] = if families {
        &[StateSection::Interfaces, StateSection::Neighbors]
    } else {
        &[StateSection::Interfaces]
    };
    let name = interface.and_then(key).map(str::to_owned);
    StateRequest { interface: name, ..StateRequest::of(sections) }
}

/// Flows are counted one by one, so only where the path leads to them.
fn access_lists(part: Option<&Step<'_>>) -> StateRequest {
    StateRequest::of(match part.map(|part| bare(part.name)) {
        None => &[StateSection::Acls, StateSection::Flows],
        Some("flows") => &[StateSection::Flows],
        Some(_) => &[StateSection::Acls],
    })
}

fn routing(part: Option<&Step<'_>>, rib: Option<&Step<'_>>) -> StateRequest {
    match part {
        None => StateRequest::of(&[
            StateSection::RouteCounts,
            StateSection::RouteSources,
            StateSection::Rules,
        ]),
        Some(part) if bare(part.name) == "policy" => StateRequest::of(&[StateSection::Rules]),
        Some(part) if bare(part.name) == "control-plane-protocols" => {
            StateRequest::of(&[StateSection::RouteSources])
        }
        Some(part) if bare(part.name) == "ribs" => {
            let mut request = StateRequest::of(&[StateSection::RouteCounts, StateSection::Routes]);
            request.routes.table = rib.and_then(key).map(table_of);
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
            let known = FORWARDER.iter().find(|(name, _)| *name == bare(part.name));
            StateRequest::of(&[known.map_or(StateSection::Program, |(_, section)| *section)])
        }
    }
}

/// The value of the only key of a step.
fn key<'a>(step: &Step<'a>) -> Option<&'a str> {
    match step.predicates.as_slice() {
        [Predicate { key, value }] if !key.is_empty() => Some(value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_select_no_more_than_they_need() {
        let of = |path, members: &[&str]| {
            StateRequest::of_members(path, members.iter().copied()).sections
        };
        let acls = "/ietf-access-control-list:acls";
        assert_eq!(StateRequest::at(acls).sections, [StateSection::Acls, StateSection::Flows]);
        assert_eq!(of(acls, &["acl", "zones"]), [StateSection::Acls]);
        assert_eq!(of(acls, &["flows"]), [StateSection::Flows]);
        assert_eq!(of("/ietf-routing:routing", &["ribs"]), [StateSection::RouteCounts]);
        assert_eq!(of("/stoa-forwarder:forwarder", &["drops", "version"]).len(), 2);
    }
}
