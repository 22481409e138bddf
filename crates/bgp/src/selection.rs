//! Best-path selection (RFC 4271, section 9.1.2.2). With add-path the daemon advertises several paths without marking
//! the one that it selected, so Stoa selects again from the attributes.

use std::cmp::Reverse;
use std::net::IpAddr;
use std::sync::Arc;

use arrayvec::ArrayVec;

use crate::Attributes;
use crate::paths::MAX_PATHS;

/// The next hops selected for a prefix.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Selection {
    /// No usable path: there is none, or the best path is the daemon's own.
    Unreachable,
    /// One next hop, and its backup.
    Single(IpAddr, Option<IpAddr>),
    /// Several equally good next hops, and a backup for when all of them fail.
    Multipath(Arc<[IpAddr]>, Option<IpAddr>),
}

/// A path with its identifier.
pub(crate) type Path<'a> = (u32, &'a Attributes);

/// Some paths of a prefix, on the stack: allocating for each of a million selections would be slow.
pub(crate) type PathVec<'a> = ArrayVec<Path<'a>, MAX_PATHS>;

/// The IGP cost is unknown. The remaining tie breakers are the originator's identifier (0 for paths from other ASes),
/// the length of CLUSTER_LIST, the next hop instead of the neighbour's address, and the path identifier.
fn tie_breakers((id, path): &Path<'_>) -> (u32, u16, IpAddr, u32) {
    (path.originator, path.cluster_length, path.next_hop, *id)
}

/// Retains the paths that only the tie breakers distinguish, the best first.
fn best(paths: &mut PathVec<'_>) {
    // Steps a and b, after the degree of preference (section 9.1.1).
    let rank = |path: &Attributes| (Reverse(path.local_preference), path.path_length, path.origin);
    let Some(first) = paths.iter().map(|(_, path)| rank(path)).min() else { return };
    paths.retain(|(_, path)| rank(path) == first);
    // Step c compares MED only among paths from the same neighbouring AS.
    if paths.len() > 1 {
        let all = paths.clone();
        paths.retain(|(_, path)| {
            let beats =
                |other: &Attributes| other.neighbor_as == path.neighbor_as && other.med < path.med;
            !all.iter().any(|(_, other)| beats(other))
        });
    }
    // Step d: prefer paths that the daemon learned over eBGP to paths that it reflects.
    if paths.iter().any(|(_, path)| path.originator == 0) {
        paths.retain(|(_, path)| path.originator == 0);
    }
    // Step e does not apply: only the daemon knows the IGP cost to the next hop.
    paths.sort_unstable_by_key(tie_breakers);
}

/// Selects among the paths of a prefix; up to `multipath` next hops share the traffic.
pub(crate) fn select(paths: &[Path<'_>], multipath: usize) -> Selection {
    match paths {
        [] => return Selection::Unreachable,
        [(_, one)] if one.has_gateway() => return Selection::Single(one.next_hop, None),
        [_] => return Selection::Unreachable,
        _ => {}
    }
    let mut equal: PathVec<'_> = paths.iter().take(MAX_PATHS).copied().collect();
    best(&mut equal);
    match equal.first() {
        Some((_, winner)) if winner.has_gateway() => {}
        _ => return Selection::Unreachable,
    }
    let mut next_hops = ArrayVec::<IpAddr, MAX_PATHS>::new();
    for (_, path) in equal {
        if next_hops.len() < multipath && path.has_gateway() && !next_hops.contains(&path.next_hop)
        {
            next_hops.push(path.next_hop);
        }
    }
    let is_other = |path: &Attributes| path.has_gateway() && !next_hops.contains(&path.next_hop);
    let others = paths.iter().take(MAX_PATHS).filter(|(_, path)| is_other(path));
    let mut others: PathVec<'_> = others.copied().collect();
    best(&mut others);
    let backup = others.first().map(|(_, path)| path.next_hop);
    match next_hops.as_slice() {
        [one] => Selection::Single(*one, backup),
        _ => Selection::Multipath(next_hops.as_slice().into(), backup),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hop(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn path(last: u8) -> Attributes {
        Attributes {
            next_hop: hop(last),
            local_preference: 100,
            med: 0,
            neighbor_as: 1,
            originator: 0,
            path_length: 3,
            cluster_length: 0,
            origin: 0,
        }
    }

    fn selected(paths: &[Attributes], multipath: usize) -> Selection {
        let paths: Vec<Path<'_>> = (1..).zip(paths).collect();
        select(&paths, multipath)
    }

    #[test]
    fn each_step_decides_when_the_steps_before_it_tie() {
        let worse: [(&str, Attributes); 6] = [
            ("local preference", Attributes { local_preference: 99, ..path(1) }),
            ("length of the path", Attributes { path_length: 4, ..path(1) }),
            ("origin", Attributes { origin: 2, ..path(1) }),
            ("med", Attributes { med: 1, ..path(1) }),
            ("learned from a route reflector", Attributes { originator: 1, ..path(1) }),
            ("next hop", path(3)),
        ];
        for (step, worse) in worse {
            let better = path(2);
            let expected = Selection::Single(better.next_hop, Some(worse.next_hop));
            assert_eq!(selected(&[better, worse], 1), expected, "{step}");
            assert_eq!(selected(&[worse, better], 1), expected, "{step}");
        }
    }

    #[test]
    fn med_is_not_compared_between_neighbours() {
        let low = Attributes { med: 5, neighbor_as: 2, ..path(1) };
        let high = Attributes { med: 9, neighbor_as: 3, ..path(2) };
        assert_eq!(selected(&[low, high], 2), Selection::Multipath([hop(1), hop(2)].into(), None));
        // The third path rules out the other path of its own neighbour.
        let third = Attributes { med: 8, neighbor_as: 3, ..path(3) };
        assert_eq!(
            selected(&[low, high, third], 3),
            Selection::Multipath([hop(1), hop(3)].into(), Some(hop(2)))
        );
    }

    #[test]
    fn multipath_next_hops_are_distinct() {
        let same = Attributes { originator: 0, cluster_length: 1, ..path(1) };
        assert_eq!(
            selected(&[path(1), same, path(2)], 4),
            Selection::Multipath([hop(1), hop(2)].into(), None)
        );
        assert_eq!(selected(&[path(1), same], 4), Selection::Single(hop(1), None));
        assert_eq!(
            selected(&[path(1), path(2), path(3)], 2),
            Selection::Multipath([hop(1), hop(2)].into(), Some(hop(3)))
        );
    }

    #[test]
    fn the_daemons_own_best_path_yields_no_next_hop() {
        let own = Attributes { next_hop: IpAddr::from([127, 0, 0, 1]), path_length: 0, ..path(1) };
        assert_eq!(selected(&[own], 1), Selection::Unreachable);
        assert_eq!(selected(&[own, path(2)], 1), Selection::Unreachable);
        let worse = Attributes { local_preference: 50, ..own };
        assert_eq!(selected(&[worse, path(2)], 1), Selection::Single(hop(2), None));
        assert_eq!(selected(&[], 1), Selection::Unreachable);
    }

    /// The RFC's wording: each step removes every path that another path beats.
    fn naive(paths: &[Path<'_>]) -> Option<(u32, Attributes)> {
        let mut left: Vec<(u32, Attributes)> =
            paths.iter().map(|(id, path)| (*id, **path)).collect();
        type Beats = fn(&(u32, Attributes), &(u32, Attributes)) -> bool;
        let steps: [Beats; 9] = [
            |one, other| one.1.local_preference > other.1.local_preference,
            |one, other| one.1.path_length < other.1.path_length,
            |one, other| one.1.origin < other.1.origin,
            |one, other| one.1.neighbor_as == other.1.neighbor_as && one.1.med < other.1.med,
            |one, other| one.1.originator == 0 && other.1.originator != 0,
            |one, other| one.1.originator < other.1.originator,
            |one, other| one.1.cluster_length < other.1.cluster_length,
            |one, other| one.1.next_hop < other.1.next_hop,
            |one, other| one.0 < other.0,
        ];
        for beats in steps {
            let all = left.clone();
            left.retain(|path| !all.iter().any(|other| beats(other, path)));
        }
        left.first().copied()
    }

    prop_compose! {
        fn any_path()(
            last in 1_u8..5, local_preference in 99_u32..101, med in 0_u32..3, neighbor_as in 1_u32..3,
            originator in 0_u32..3, path_length in 1_u16..3, origin in 0_u8..2, cluster_length in 0_u16..2,
        ) -> Attributes {
            let next_hop = if last == 4 { IpAddr::from([127, 0, 0, 1]) } else { hop(last) };
            Attributes { next_hop, local_preference, med, neighbor_as, originator, path_length, cluster_length, origin }
        }
    }

    proptest! {
        #[test]
        fn selection_matches_the_naive_model(paths in prop::collection::vec(any_path(), 0..7)) {
            let paths: Vec<Path<'_>> = (0..).zip(&paths).collect();
            let winner = naive(&paths).filter(|(_, path)| path.has_gateway());
            let expected = winner.map_or(Selection::Unreachable, |(_, winner)| {
                let others = paths.iter().filter(|(_, path)| path.has_gateway() && path.next_hop != winner.next_hop);
                let others: Vec<Path<'_>> = others.copied().collect();
                Selection::Single(winner.next_hop, naive(&others).map(|(_, second)| second.next_hop))
            });
            prop_assert_eq!(select(&paths, 1), expected);
        }

        #[test]
        fn selection_does_not_depend_on_the_order_of_paths(paths in prop::collection::vec(any_path(), 0..7), multipath in 1_usize..4) {
            let forth: Vec<Path<'_>> = (0..).zip(&paths).collect();
            let back: Vec<Path<'_>> = forth.iter().rev().copied().collect();
            prop_assert_eq!(select(&forth, multipath), select(&back, multipath));
        }
    }
}
