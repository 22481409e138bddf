//! Checks of a machine with several NUMA nodes: where its memory is, and where a running router has placed
//! its workers and queues.

use std::collections::BTreeSet;

use stoa_api::v1;

use super::check::{Check, Router, ok};
use super::machine::{Machine, Node};

const CPUS: &str = "/stoa-system:system/workers/cpus";

/// The checks; a machine with one node has only the first.
pub(super) fn all(machine: &Machine, router: Option<&Router>) -> Vec<Check> {
    let nodes: Vec<&Node> = machine.nodes.iter().filter(|node| !node.cpus.is_empty()).collect();
    let mut checks = vec![count(&nodes, router)];
    if nodes.len() > 1 {
        checks.push(huge_pages(&nodes, router));
        if let Some(router) = router {
            checks.push(queues(&nodes, router));
            checks.push(devices(&nodes, router));
        }
    }
    checks
}

fn count(nodes: &[&Node], router: Option<&Router>) -> Check {
    let found = match nodes {
        [] => "unknown".to_owned(),
        [_] => "one".to_owned(),
        several => {
            let one = |node: &&Node| format!("node {}: CPUs {}", node.number, node.cpus);
            several.iter().map(one).collect::<Vec<_>>().join("; ")
        }
    };
    let check = ok("NUMA nodes", found);
    let is_loose = |worker: &v1::WorkerState| worker.cpu < 0;
    if nodes.len() > 1 && router.is_some_and(|router| router.workers.iter().any(is_loose)) {
        return check.better(
            "the kernel moves workers between nodes, away from their memory and their devices",
            format!("list a CPU for each worker in {CPUS}"),
        );
    }
    check
}

/// The nodes of workers.
fn nodes_of(router: &Router) -> BTreeSet<u32> {
    router.workers.iter().filter_map(|worker| worker.numa_node).collect()
}

fn huge_pages(nodes: &[&Node], router: Option<&Router>) -> Check {
    let one = |node: &&Node| format!("node {}: {}", node.number, node.huge_pages);
    let found = nodes.iter().map(one).collect::<Vec<_>>().join("; ");
    let check = ok("huge pages by node", format!("{found} of 2 MiB"));
    // Without any, the check of the whole machine reports it.
    let most = nodes.iter().map(|node| node.huge_pages).max().unwrap_or(0);
    let used = router.map(nodes_of).unwrap_or_default();
    let has_workers = |node: &Node| used.is_empty() || used.contains(&node.number);
    let poor = nodes.iter().find(|node| node.huge_pages == 0 && has_workers(node));
    let Some(poor) = poor.filter(|_| most > 0) else { return check };
    check.better(
        "buffers of workers on that node use transparent huge pages: more TLB misses with many routes",
        format!(
            "echo {most} | sudo tee \
             /sys/devices/system/node/node{}/hugepages/hugepages-2048kB/nr_hugepages",
            poor.number
        ),
    )
}

/// The interface that a receive queue (`PORT:NUMBER`) belongs to.
fn interface_of<'a>(router: &'a Router, queue: &str) -> Option<&'a v1::InterfaceState> {
    let (name, _) = queue.rsplit_once(':')?;
    router.interfaces.iter().find(|interface| interface.name == name)
}

fn cpus_of(nodes: &[&Node], number: u32) -> String {
    let node = nodes.iter().find(|node| node.number == number);
    node.map_or_else(|| "unknown".to_owned(), |node| node.cpus.clone())
}

fn queues(nodes: &[&Node], router: &Router) -> Check {
    let queues = router
        .workers
        .iter()
        .flat_map(|worker| worker.queues.iter().map(move |queue| (worker, queue)));
    let placed = queues.filter_map(|(worker, queue)| {
        let device = interface_of(router, queue)?.numa_node?;
        Some((worker.index, worker.numa_node?, queue, device))
    });
    let (far, near): (Vec<_>, Vec<_>) = placed.partition(|(_, node, _, device)| node != device);
    let Some((_, _, _, device)) = far.first() else {
        return ok("queues by node", format!("{} on the node of their device", near.len()));
    };
    let one = |(worker, node, queue, device): &(u32, u32, &String, u32)| {
        format!("{queue} of node {device} on worker {worker} of node {node}")
    };
    let found = far.iter().map(one).collect::<Vec<_>>().join("; ");
    ok("queues by node", found).better(
        "the device writes each packet to memory that is far from it or from the worker",
        format!(
            "add a CPU of node {device} ({}) to {CPUS} and restart Stoa",
            cpus_of(nodes, *device)
        ),
    )
}

fn devices(nodes: &[&Node], router: &Router) -> Check {
    let devices: BTreeSet<u32> =
        router.interfaces.iter().filter_map(|interface| interface.numa_node).collect();
    let workers = nodes_of(router);
    let idle: Vec<u32> = workers.difference(&devices).copied().collect();
    let (Some(node), false) = (devices.first(), idle.is_empty()) else {
        return ok("workers by node", "each node with workers has a device");
    };
    let list = |nodes: &[u32]| nodes.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    let found = format!("workers, but no device, on node {}", list(&idle));
    ok("workers by node", found).better(
        "all packets of these workers come from another node, and most leave by another one",
        format!(
            "use CPUs of node {node} ({}) in {CPUS} and restart Stoa, or move a network card",
            cpus_of(nodes, *node)
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::super::check::State;
    use super::*;

    fn machine(nodes: &[(u32, &str, u64)]) -> Machine {
        let node = |(number, cpus, huge_pages): &(u32, &str, u64)| Node {
            number: *number,
            cpus: (*cpus).to_owned(),
            huge_pages: *huge_pages,
        };
        Machine { nodes: nodes.iter().map(node).collect(), ..Machine::default() }
    }

    const TWO: [(u32, &str, u64); 2] = [(0, "0-3", 64), (1, "4-7", 64)];

    /// Workers (CPU, node, queue) and interfaces (name, node).
    fn router(workers: &[(i32, u32, &str)], interfaces: &[(&str, u32)]) -> Router {
        let worker = |(index, (cpu, node, queue)): (usize, &(i32, u32, &str))| v1::WorkerState {
            index: index as u32,
            cpu: *cpu,
            numa_node: (*cpu >= 0).then_some(*node),
            queues: vec![(*queue).to_owned()],
            ..v1::WorkerState::default()
        };
        let interface = |(name, node): &(&str, u32)| v1::InterfaceState {
            name: (*name).to_owned(),
            numa_node: Some(*node),
            ..v1::InterfaceState::default()
        };
        Router {
            workers: workers.iter().enumerate().map(worker).collect(),
            interfaces: interfaces.iter().map(interface).collect(),
        }
    }

    #[track_caller]
    fn gaps(machine: &Machine, router: Option<&Router>) -> Vec<Check> {
        let mut checks = all(machine, router);
        checks.retain(|check| check.state != State::Ok);
        assert!(checks.iter().all(|check| !check.costs.is_empty() && !check.fix.is_empty()));
        checks
    }

    #[test]
    fn a_machine_with_one_node_has_nothing_to_place() {
        for nodes in [&[][..], &TWO[..1], &[(0, "0-3", 0), (1, "", 0)]] {
            let router = router(&[(-1, 0, "wan:0")], &[("wan", 7)]);
            let checks = all(&machine(nodes), Some(&router));
            assert_eq!((checks.len(), checks[0].state), (1, State::Ok), "{checks:?}");
        }
    }

    #[test]
    fn workers_near_their_devices_are_well_placed() {
        let good = router(&[(0, 0, "wan:0"), (4, 1, "lan:0")], &[("wan", 0), ("lan", 1)]);
        assert_eq!(gaps(&machine(&TWO), Some(&good)), []);
        assert_eq!(gaps(&machine(&TWO), None), []);
        let found = &all(&machine(&TWO), Some(&good))[0].found;
        assert_eq!(found, "node 0: CPUs 0-3; node 1: CPUs 4-7");
        // A queue of a port without a device is at home everywhere.
        let free = router(&[(0, 0, "wan:0"), (1, 0, "link:0")], &[("wan", 0)]);
        assert_eq!(gaps(&machine(&TWO), Some(&free)), []);
    }

    #[test]
    fn each_bad_place_is_named_with_its_fix() {
        let loose = router(&[(-1, 0, "wan:0")], &[("wan", 0)]);
        let found = gaps(&machine(&TWO), Some(&loose));
        assert_eq!((found.len(), found[0].name), (1, "NUMA nodes"));
        assert!(found[0].fix.contains("workers/cpus"));

        let far = router(&[(0, 0, "wan:0"), (4, 1, "wan:1")], &[("wan", 0)]);
        let found = gaps(&machine(&TWO), Some(&far));
        let names: Vec<_> = found.iter().map(|check| check.name).collect();
        assert_eq!(names, ["queues by node", "workers by node"]);
        assert_eq!(found[0].found, "wan:1 of node 0 on worker 1 of node 1");
        assert!(found[0].fix.contains("node 0 (0-3)"), "{found:?}");
        assert_eq!(found[1].found, "workers, but no device, on node 1");

        let poor = machine(&[(0, "0-3", 64), (1, "4-7", 0)]);
        let found = gaps(&poor, None);
        assert_eq!((found.len(), found[0].name), (1, "huge pages by node"));
        assert!(found[0].fix.starts_with("echo 64 ") && found[0].fix.contains("/node1/"));
        // Nobody works there.
        let near = router(&[(0, 0, "wan:0")], &[("wan", 0)]);
        assert_eq!(gaps(&poor, Some(&near)), []);
        // The check of the whole machine reports that there are none at all.
        assert_eq!(gaps(&machine(&[(0, "0-3", 0), (1, "4-7", 0)]), None), []);
    }
}
