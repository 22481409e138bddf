//! Placement on made-up machines: no worker gets what it cannot serve, and the node of a device wins.

use std::collections::BTreeMap;

use proptest::prelude::*;
use stoa_engine::pool::HugePages;

use super::super::topology::tests::machine;
use super::*;

/// Workers on these CPUs.
fn pinned(cpus: &[usize]) -> Workers {
    Workers {
        count: cpus.len(),
        cpus: cpus.to_vec(),
        buffers: 4096,
        huge_pages: HugePages::Never,
        ..Workers::default()
    }
}

/// Two nodes of four CPUs: 0 to 3 and 4 to 7.
fn two_nodes(workers: &Workers) -> Placement {
    let (_root, topology) = machine(&["0-3\n", "4-7\n"], &[("eth0", "0\n"), ("eth1", "1\n")]);
    Placement::new(topology, workers, &mut Vec::new()).unwrap()
}

fn sizes(placement: &Placement) -> Vec<(Option<u32>, u32)> {
    placement.pools().iter().map(|pool| (pool.node().map(|node| node.0), pool.count())).collect()
}

#[test]
fn each_node_with_workers_has_its_share_of_the_buffers() {
    for (cpus, expected) in [
        (&[0, 4][..], &[(Some(0), 2048), (Some(1), 2048)][..]),
        // The control thread uses the pool of the first worker.
        (&[4, 0, 1, 2], &[(Some(1), 1024), (Some(0), 3072)]),
        (&[5, 6], &[(Some(1), 4096)]),
        (&[0, 1, 2, 3, 0, 1, 2, 3, 4], &[(Some(0), 3640), (Some(1), 512)]),
        // No node has this CPU: its worker uses the buffers of the first.
        (&[9, 4], &[(Some(1), 4096)]),
        (&[9], &[(None, 4096)]),
    ] {
        let placement = two_nodes(&pinned(cpus));
        assert_eq!(sizes(&placement), expected, "{cpus:?}");
        for worker in 0..cpus.len() {
            let node = placement.node_of(worker);
            let pool = placement.pool_of(worker);
            assert!(node.is_none() || pool.node() == node, "{cpus:?}");
        }
    }
}

#[test]
fn workers_that_the_kernel_moves_share_one_pool() {
    let placement = two_nodes(&Workers { count: 3, ..pinned(&[]) });
    assert_eq!(sizes(&placement), [(None, 4096)]);
    assert_eq!(placement.node_of(0), None);
    assert!(placement.place_rings(None).is_none());
}

#[test]
fn one_node_changes_nothing() {
    for cpus in [&[][..], &[0, 1]] {
        let (_root, topology) = machine(&["0-3\n"], &[("eth0", "0\n")]);
        let workers = Workers { count: 2, ..pinned(cpus) };
        let mut placement = Placement::new(topology, &workers, &mut Vec::new()).unwrap();
        assert_eq!(sizes(&placement), [(None, 4096)]);
        assert_eq!(placement.node_of(1), Some(NumaNode(0)), "shown, though it does not matter");
        assert!(!placement.has_several_nodes());
        assert!(placement.place_rings(Some(NumaNode(0))).is_none());
        let node = Some(NumaNode(0));
        let turns: Vec<usize> = (0..4).map(|_| placement.receiver(node, None, |_| 9)).collect();
        assert_eq!(turns, [0, 1, 0, 1]);
        let senders = Senders { own: vec![0], via: vec![(1, 0)] };
        assert_eq!(placement.senders(1, node, None), senders);
    }
}

#[test]
fn buffers_stay_where_they_are_for_the_next_workers() {
    let first = two_nodes(&pinned(&[0, 4]));
    let (_root, topology) = machine(&["0-3\n", "4-7\n"], &[]);
    let again =
        Placement::new(topology.clone(), &pinned(&[5, 1]), &mut first.pools().to_vec()).unwrap();
    assert_eq!(sizes(&again), [(Some(1), 2048), (Some(0), 2048)]);
    assert!(std::ptr::eq(again.pools()[1], first.pools()[0]));
    assert!(std::ptr::eq(again.pools()[0], first.pools()[1]));
    let other = Placement::new(topology, &pinned(&[5]), &mut again.pools().to_vec()).unwrap();
    assert_eq!(sizes(&other), [(Some(1), 4096)]);
}

#[test]
fn ports_on_two_nodes_in_turn_use_all_workers() {
    let mut placement = two_nodes(&pinned(&[0, 1, 4, 5]));
    let mut queues = Vec::new();
    for port in 0..8 {
        let load = |worker| queues.iter().filter(|queue| **queue == worker).count();
        let worker = placement.receiver(Some(NumaNode(port % 2)), None, load);
        queues.push(worker);
    }
    queues.sort_unstable();
    assert_eq!(queues, [0, 0, 1, 1, 2, 2, 3, 3]);
}

#[test]
fn a_port_that_is_bound_to_a_pool_is_served_by_its_workers_only() {
    let mut placement = two_nodes(&pinned(&[0, 4, 5]));
    let pool = placement.pools()[1];
    assert_eq!(placement.workers_of(pool), 2);
    let senders = placement.senders(8, Some(NumaNode(1)), Some(pool));
    assert_eq!(senders, Senders { own: vec![1, 2], via: vec![(0, 1)] });
    // Its device is on the other node, or has none.
    for node in [Some(NumaNode(0)), None] {
        assert!([1, 2].contains(&placement.receiver(node, Some(pool), |_| 0)));
    }
}

/// A machine with workers, and a port.
fn case() -> impl Strategy<Value = (Vec<usize>, Option<u32>, Option<usize>, usize)> {
    let cpus = proptest::collection::vec(0..10_usize, 1..9);
    (cpus, proptest::option::of(0..3_u32), proptest::option::of(0..2_usize), 0..10_usize)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Against a model: a worker gets a queue only if its pool is that of the port, and only workers of the
    /// device's node do if there are any. Each worker sends in exactly one way, and queues go first to workers
    /// of the device's node.
    #[test]
    fn queues_are_served_near_their_device((cpus, node, bound, queues) in case()) {
        let workers = Workers { buffers: 1024, ..pinned(&cpus) };
        let mut placement = two_nodes(&workers);
        let count = cpus.len();
        let node = node.map(NumaNode);
        let pool = bound.map(|at| placement.pools()[at % placement.pools().len()]);
        let may: Vec<usize> = (0..count)
            .filter(|at| pool.is_none_or(|pool| std::ptr::eq(placement.pool_of(*at), pool)))
            .collect();
        prop_assert!(!may.is_empty());
        let near: Vec<usize> = may
            .iter()
            .copied()
            .filter(|at| node.is_some() && placement.node_of(*at) == node)
            .collect();
        let expected = if near.is_empty() { &may } else { &near };
        let mut load = BTreeMap::new();
        for _ in 0..queues {
            let at = placement.receiver(node, pool, |at| load.get(&at).copied().unwrap_or(0));
            prop_assert!(expected.contains(&at));
            *load.entry(at).or_insert(0) += 1;
        }
        // All of them get the same number, give or take one.
        let of = |at: &usize| load.get(at).copied().unwrap_or(0);
        let (least, most) = (expected.iter().map(of).min(), expected.iter().map(of).max());
        prop_assert!(most <= least.map(|least| least + 1));

        let senders = placement.senders(queues, node, pool);
        prop_assert_eq!(senders.own.len(), queues.min(may.len()));
        prop_assert!(senders.own.iter().all(|at| may.contains(at)));
        let first = senders.own.len().min(near.len());
        prop_assert!(senders.own[..first].iter().all(|at| near.contains(at)));
        let mut all: Vec<usize> =
            senders.own.iter().copied().chain(senders.via.iter().map(|via| via.0)).collect();
        all.sort_unstable();
        let everyone: Vec<usize> = if queues == 0 { vec![] } else { (0..count).collect() };
        prop_assert_eq!(all, everyone);
        prop_assert!(senders.via.iter().all(|via| senders.own.contains(&via.1)));
    }
}
