//! A made-up machine with two NUMA nodes: where queues and buffers are, and packets that cross from one
//! node to the other. The test steps workers and control thread itself, so no CPU has to exist.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use stoa_api::v1;
use stoa_engine::Pool;
use stoa_engine::pool::JUMBOS;
use stoa_forwarder::control::{Forwarder, ForwarderState, PortOpener, Topology};
use stoa_ports::{AutoConfig, PortConfig};

use crate::harness::*;

/// CPUs 0 to 3 and device `west` on node 0, CPUs 4 to 7 and device `east` on node 1.
fn machine(root: &Path) -> Topology {
    for (path, content) in [
        ("devices/system/node/node0/cpulist", "0-3\n"),
        ("devices/system/node/node1/cpulist", "4-7\n"),
        ("class/net/west/device/numa_node", "0\n"),
        ("class/net/east/device/numa_node", "1\n"),
    ] {
        let path = root.join("sys").join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    Topology::read(root)
}

/// Opens a device as the wire of its name.
fn opener(wires: &Wires) -> PortOpener {
    let open = wire::opener(wires);
    Arc::new(move |config: &PortConfig, pool: &'static Pool| match config {
        PortConfig::Auto(config) => {
            let n = if config.device == "west" { 1 } else { 2 };
            open(&wire::config(&config.device, our_mac(n)), pool)
        }
        other => open(other, pool),
    })
}

/// A forwarder with workers on these CPUs.
struct TwoNodes {
    forwarder: Forwarder,
    wires: Wires,
    /// What had crossed when the ports were up: messages of the control thread.
    before: Vec<u64>,
    _root: tempfile::TempDir,
}

impl TwoNodes {
    /// Ports `west` and `east` with two receive queues, and with so many transmit queues.
    fn new(setup: Setup, cpus: &[usize], tx_queues: usize) -> Self {
        let (root, wires) = (tempfile::tempdir().unwrap(), Wires::default());
        let mut setup = setup.workers(cpus.len());
        setup.0.workers.cpus = cpus.to_vec();
        for name in ["west", "east"] {
            locked(&wires).insert(name.to_owned(), Wire::new(2, tx_queues));
            let config = AutoConfig { device: name.into(), ..AutoConfig::default() };
            setup.0.ports.insert(name.into(), PortConfig::Auto(config));
        }
        let forwarder = Forwarder::stepped(LIMITS, opener(&wires));
        let mut forwarder = forwarder.with_topology(machine(root.path()));
        forwarder.apply(setup.0).expect("the state is valid");
        let mut lab = Self { forwarder, wires, before: vec![0; cpus.len()], _root: root };
        lab.run();
        lab.before = lab.crossed();
        lab.frames("west");
        lab.frames("east");
        lab
    }

    fn state(&mut self) -> &mut ForwarderState {
        self.forwarder.state().expect("the forwarder runs")
    }

    /// Steps everything until nothing is left to do; the packet accounting balances, and all buffers
    /// of both pools are free.
    fn run(&mut self) {
        for _ in 0..12 {
            self.state().poll();
            self.state().step();
        }
        let accounting = self.state().conservation();
        assert!(accounting.balanced, "{accounting:?}");
        assert_eq!((accounting.held, accounting.buffers_busy), (0, 0), "{accounting:?}");
    }

    fn put(&self, port: &str, queue: usize, frames: impl IntoIterator<Item = Vec<u8>>) {
        locked(&self.wires)[port].put(queue, frames);
    }

    fn frames(&self, port: &str) -> Vec<Vec<u8>> {
        locked(&self.wires)[port].take()
    }

    /// The payloads of UDP datagrams that a port has sent.
    fn sent(&self, port: &str) -> Vec<Vec<u8>> {
        let frames = self.frames(port).into_iter().filter(|frame| frame[12..14] == [8, 0]);
        frames.map(|frame| parse(&frame).payload).collect()
    }

    /// Of each worker: its node, its queues, and packets that it received from the other node.
    fn workers(&mut self) -> Vec<(Option<u32>, Vec<String>, u64)> {
        let workers = self.state().list_workers().into_iter();
        workers.map(|worker| (worker.numa_node, worker.queues, worker.cross_node)).collect()
    }

    /// Of each worker, packets that it received from the other node since the start.
    fn crossed(&mut self) -> Vec<u64> {
        let now = self.workers().into_iter().map(|worker| worker.2);
        now.zip(&self.before).map(|(now, before)| now - before).collect()
    }
}

fn two_ports() -> Setup {
    Setup::new().port("west", 1).port("east", 2).host("west", 1).host("east", 2)
}

fn packet(n: u16) -> Vec<u8> {
    packet_from(1, &udp_ports(host4(1), host4(2), (1000 + n % 16, 9), &n.to_be_bytes()))
}

#[test]
fn queues_and_buffers_are_near_their_devices() {
    let mut lab = TwoNodes::new(two_ports(), &[4, 0, 5, 1], 4);
    let queues = |port: &str, number: u8| vec![format!("{port}:{number}")];
    assert_eq!(
        lab.workers(),
        [
            (Some(1), queues("east", 0), 0),
            (Some(0), queues("west", 1), 0),
            (Some(1), queues("east", 1), 0),
            (Some(0), queues("west", 0), 0),
        ]
    );
    let interfaces = lab.state().list_interfaces();
    let nodes: BTreeMap<_, _> = interfaces.into_iter().map(|it| (it.name, it.numa_node)).collect();
    assert_eq!(nodes, [("east".into(), Some(1)), ("west".into(), Some(0))].into());
    let pools = lab.state().pools().iter().map(|pool| (pool.node().unwrap().0, pool.count()));
    assert_eq!(pools.collect::<Vec<_>>(), [(1, 2048), (0, 2048)]);
    assert_eq!(lab.state().conservation().buffers, 4096 + 2 * u64::from(JUMBOS));
    let limits = lab.state().list_limits().into_iter();
    let buffers = limits.filter(|limit| limit.name.starts_with("buffers"));
    let buffers: Vec<_> = buffers.map(|it| (it.name, it.used, it.limit)).collect();
    assert_eq!(
        buffers,
        [("buffers-node-1".into(), Some(0), 2048), ("buffers-node-0".into(), Some(0), 2048)]
    );
    // Each worker sends by itself: nothing crosses.
    lab.put("west", 0, (0..100).map(packet));
    lab.put("west", 1, (100..200).map(packet));
    lab.run();
    assert_eq!((lab.sent("east").len(), lab.crossed()), (200, vec![0; 4]));
}

#[test]
fn packets_for_a_queue_of_the_other_node_are_copied_there() {
    // East has one transmit queue, which a worker of its node owns.
    let mut lab = TwoNodes::new(two_ports(), &[0, 1, 4, 5], 1);
    let request =
        v1::StartTraceRequest { interface: "west".into(), count: 1, ..Default::default() };
    lab.state().start_trace(&request).expect("a trace starts");
    lab.put("west", 0, (0..300).map(packet));
    lab.put("west", 1, (300..400).map(packet));
    lab.run();
    let mut sent: Vec<u16> =
        lab.sent("east").iter().map(|data| u16::from_be_bytes([data[0], data[1]])).collect();
    sent.sort_unstable();
    assert_eq!(sent, (0..400).collect::<Vec<_>>());
    assert_eq!(lab.crossed(), [0, 0, 400, 0]);
    let traced = lab.state().trace(0).packets;
    assert_eq!(traced.len(), 1, "the copy is the same packet: {traced:#?}");
    let steps = traced[0].steps.iter().map(|step| (step.worker, step.what.as_str()));
    let steps: Vec<_> = steps.skip(3).collect();
    assert_eq!(
        steps,
        [
            (0, "to port-output"),
            (0, "handed to worker 2"),
            (2, "copied to the NUMA node of worker 2"),
            (2, "sent on east"),
        ]
    );
    // Worker 3 is on the node of the owner.
    lab.put("east", 1, [packet_from(2, &udp(host4(2), host4(1), b"xx"))]);
    lab.run();
    assert_eq!(lab.sent("west"), [b"xx"]);
    assert_eq!(lab.crossed(), [1, 0, 400, 0]);
}

#[test]
fn packets_that_waited_for_a_neighbor_return_to_their_node() {
    let setup = Setup::new().port("west", 1).port("east", 2).host("west", 1);
    let mut lab = TwoNodes::new(setup, &[0, 4], 2);
    // Worker 1 receives both, and the control thread keeps them.
    lab.put("east", 0, [packet_from(2, &udp(host4(1), host4(2), b"x1"))]);
    for _ in 0..6 {
        lab.state().poll();
        lab.state().step();
    }
    assert_eq!(lab.state().conservation().buffers_waiting, 1);
    lab.put("east", 1, [arp_reply(host_mac(2), (our_mac(2), our4(2)), host4(2))]);
    lab.run();
    assert_eq!(lab.sent("east"), [b"x1"]);
    assert_eq!(lab.crossed(), [0, 0], "it went back to worker 1");
}
