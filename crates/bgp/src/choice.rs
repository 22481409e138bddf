//! Which paths of a prefix are used (RFC 4271, section 9.1.2.2). With add-path a daemon hands over its paths but does not say
//! which of them it took: the choice is made again, by what the attributes tell.

use std::cmp::Reverse;
use std::net::IpAddr;
use std::sync::Arc;

use arrayvec::ArrayVec;

use crate::Attributes;
use crate::paths::PATHS;

/// Where packets to a prefix go.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Choice {
    /// Nowhere by this session: there is no path, or the best one is the daemon's own.
    Nothing,
    /// By one next hop, and by the second while the first cannot be used.
    One(IpAddr, Option<IpAddr>),
    /// By several that are equally good, and by the last one while none of them can be used.
    Many(Arc<[IpAddr]>, Option<IpAddr>),
}

/// A path with its identifier.
pub(crate) type Path<'a> = (u32, &'a Attributes);

/// Some of the paths of a prefix. On the stack: a million choices would otherwise wait for the allocator.
pub(crate) type Few<'a> = ArrayVec<Path<'a>, PATHS>;

/// What is unknown of paths from other ASes, then what is left: identifier of the speaker (0 for all of these), length of CLUSTER_LIST, next hop in the place of
/// the neighbour's address, identifier of the path.
fn tie_breakers((id, path): &Path<'_>) -> (u32, u16, IpAddr, u32) {
    (path.originator, path.cluster_length, path.next_hop, *id)
}

/// Leaves the paths that nothing but the tie breakers tells apart, the winner first.
fn best(paths: &mut Few<'_>) {
    // Steps a and b, and the degree of preference before them (section 9.1.1).
    let rank = |path: &Attributes| (Reverse(path.local_preference), path.path_length, path.origin);
    let Some(first) = paths.iter().map(|(_, path)| rank(path)).min() else { return };
    paths.retain(|(_, path)| rank(path) == first);
    // Step c: among paths from the same neighbouring AS only.
    if paths.len() > 1 {
        let all = paths.clone();
        paths.retain(|(_, path)| {
            let beats =
                |other: &Attributes| other.neighbor_as == path.neighbor_as && other.med < path.med;
            !all.iter().any(|(_, other)| beats(other))
        });
    }
    // Step d: what the daemon has learned from another AS goes before what it passes on from our own.
    if paths.iter().any(|(_, path)| path.originator == 0) {
        paths.retain(|(_, path)| path.originator == 0);
    }
    // Step e is not for us: what it costs to get to the next hop only the daemon knows.
    paths.sort_unstable_by_key(tie_breakers);
}

/// Chooses among the paths of a prefix; up to `most` next hops share the packets.
pub(crate) fn choose(paths: &[Path<'_>], most: usize) -> Choice {
    match paths {
        [] => return Choice::Nothing,
        [(_, one)] if one.has_gateway() => return Choice::One(one.next_hop, None),
        [_] => return Choice::Nothing,
        _ => {}
    }
    let mut equal: Few<'_> = paths.iter().take(PATHS).copied().collect();
    best(&mut equal);
    match equal.first() {
        Some((_, winner)) if winner.has_gateway() => {}
        _ => return Choice::Nothing,
    }
    let mut ways = ArrayVec::<IpAddr, PATHS>::new();
    for (_, path) in equal {
        if ways.len() < most && path.has_gateway() && !ways.contains(&path.next_hop) {
            ways.push(path.next_hop);
        }
    }
    let is_other = |path: &Attributes| path.has_gateway() && !ways.contains(&path.next_hop);
    let others = paths.iter().take(PATHS).filter(|(_, path)| is_other(path));
    let mut others: Few<'_> = others.copied().collect();
    best(&mut others);
    let backup = others.first().map(|(_, path)| path.next_hop);
    match ways.as_slice() {
        [one] => Choice::One(*one, backup),
        _ => Choice::Many(ways.as_slice().into(), backup),
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

    fn chosen(paths: &[Attributes], most: usize) -> Choice {
        let paths: Vec<Path<'_>> = (1..).zip(paths).collect();
        choose(&paths, most)
    }

    #[test]
    fn each_step_decides_when_those_before_it_do_not() {
        let worse: [(&str, Attributes); 6] = [
            ("local preference", Attributes { local_preference: 99, ..path(1) }),
            ("length of the path", Attributes { path_length: 4, ..path(1) }),
            ("origin", Attributes { origin: 2, ..path(1) }),
            ("med", Attributes { med: 1, ..path(1) }),
            ("learned inside", Attributes { originator: 1, ..path(1) }),
            ("next hop", path(3)),
        ];
        for (step, worse) in worse {
            let better = path(2);
            let wanted = Choice::One(better.next_hop, Some(worse.next_hop));
            assert_eq!(chosen(&[better, worse], 1), wanted, "{step}");
            assert_eq!(chosen(&[worse, better], 1), wanted, "{step}");
        }
    }

    #[test]
    fn meds_of_different_neighbours_are_not_compared() {
        let low = Attributes { med: 5, neighbor_as: 2, ..path(1) };
        let high = Attributes { med: 9, neighbor_as: 3, ..path(2) };
        assert_eq!(chosen(&[low, high], 2), Choice::Many([hop(1), hop(2)].into(), None));
        // A third one rules out the one of its own neighbour.
        let third = Attributes { med: 8, neighbor_as: 3, ..path(3) };
        assert_eq!(
            chosen(&[low, high, third], 3),
            Choice::Many([hop(1), hop(3)].into(), Some(hop(2)))
        );
    }

    #[test]
    fn several_ways_are_next_hops_that_differ() {
        let same = Attributes { originator: 0, cluster_length: 1, ..path(1) };
        assert_eq!(
            chosen(&[path(1), same, path(2)], 4),
            Choice::Many([hop(1), hop(2)].into(), None)
        );
        assert_eq!(chosen(&[path(1), same], 4), Choice::One(hop(1), None));
        assert_eq!(
            chosen(&[path(1), path(2), path(3)], 2),
            Choice::Many([hop(1), hop(2)].into(), Some(hop(3)))
        );
    }

    #[test]
    fn what_the_daemon_has_of_its_own_is_left_to_others() {
        let own = Attributes { next_hop: IpAddr::from([127, 0, 0, 1]), path_length: 0, ..path(1) };
        assert_eq!(chosen(&[own], 1), Choice::Nothing);
        assert_eq!(chosen(&[own, path(2)], 1), Choice::Nothing);
        let worse = Attributes { local_preference: 50, ..own };
        assert_eq!(chosen(&[worse, path(2)], 1), Choice::One(hop(2), None));
        assert_eq!(chosen(&[], 1), Choice::Nothing);
    }

    /// The RFC's own words: take away, pair by pair, what another path beats, step by step.
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
        fn the_choice_is_that_of_the_naive_model(paths in prop::collection::vec(any_path(), 0..7)) {
            let paths: Vec<Path<'_>> = (0..).zip(&paths).collect();
            let winner = naive(&paths).filter(|(_, path)| path.has_gateway());
            let wanted = winner.map_or(Choice::Nothing, |(_, winner)| {
                let others = paths.iter().filter(|(_, path)| path.has_gateway() && path.next_hop != winner.next_hop);
                let others: Vec<Path<'_>> = others.copied().collect();
                Choice::One(winner.next_hop, naive(&others).map(|(_, second)| second.next_hop))
            });
            prop_assert_eq!(choose(&paths, 1), wanted);
        }

        #[test]
        fn the_order_of_paths_plays_no_part(paths in prop::collection::vec(any_path(), 0..7), most in 1_usize..4) {
            let forth: Vec<Path<'_>> = (0..).zip(&paths).collect();
            let back: Vec<Path<'_>> = forth.iter().rev().copied().collect();
            prop_assert_eq!(choose(&forth, most), choose(&back, most));
        }
    }
}
