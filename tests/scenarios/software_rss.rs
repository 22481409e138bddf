//! `software-rss`: one receive queue, two workers, real ports. The workers share the flows, each flow keeps its order, and
//! the packet accounting balances.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use serde_json::{Value, json};
use stoa_lab::measure::{Load, iperf};
use stoa_lab::{Configuration, Host, Result, wait_until};
use stoa_scenarios::{Scenario, two_sides};

const FLOWS: u16 = 32;
const ROUNDS: u32 = 40;
/// Datagrams of one flow that follow each other at once.
const BURST: u32 = 4;
const PORT: u16 = 9_999;
/// How long datagrams of one round may take; after that they are lost.
const PATIENCE: Duration = Duration::from_secs(2);

/// Two untagged sides, each behind one port with one receive queue.
fn begin() -> Result<Scenario> {
    let sides = two_sides(&[])?;
    let mut configuration = Configuration::new(&sides).workers(json!({ "count": 2 }));
    for side in &sides {
        let port = &mut configuration.interface(&side.label)["stoa-interfaces:port"];
        port["rx-queues"] = json!(1);
        port["software-rss"] = json!(true);
    }
    let scenario = Scenario::with(&sides, &configuration)?;
    // Whoever is asked for first waits a while: not what is told here.
    scenario.hosts_reach_each_other()?;
    Ok(scenario)
}

/// Packets that each worker has looked at so far.
fn looked_at(scenario: &Scenario) -> Result<BTreeMap<u64, u64>> {
    let nodes = scenario.router.show("nodes")?;
    let list = nodes["nodes"].as_array().expect("a list");
    let share = |node: &Value| Some((node["worker"].as_u64()?, node["packets"].as_u64()?));
    Ok(list.iter().filter(|node| node["name"] == "ethernet-input").filter_map(share).collect())
}

/// Packets that one worker gave and another took.
fn handed(scenario: &Scenario) -> Result<(u64, u64)> {
    let workers = scenario.router.show("workers")?;
    let list = workers["workers"].as_array().expect("a list");
    let sum = |what: &str| list.iter().filter_map(|worker| worker[what].as_u64()).sum();
    Ok((sum("handed_out"), sum("handed_in")))
}

fn bind(host: &Host, port: u16, six: bool) -> Result<UdpSocket> {
    let address = SocketAddr::new(host.address(six)?, port);
    let socket = host.namespace().enter(|| UdpSocket::bind(address).expect("a free port"))?;
    socket.set_nonblocking(true).expect("it can");
    Ok(socket)
}

/// Numbers that arrived, by flow and in order of arrival.
#[derive(Default)]
struct Arrived(BTreeMap<(u16, u16), Vec<u32>>);

impl Arrived {
    fn take(&mut self, socket: &UdpSocket) {
        let mut data = [0; 4];
        let to = socket.local_addr().expect("it is bound").port();
        while let Ok((4, from)) = socket.recv_from(&mut data) {
            let numbers = self.0.entry((from.port(), to)).or_default();
            numbers.push(u32::from_be_bytes(data));
        }
    }

    fn count(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }

    /// Numbers that came after a greater one of their flow, or twice.
    fn late(&self) -> usize {
        let late = |numbers: &Vec<u32>| {
            let mut most = None;
            let is_late = |number: &&u32| {
                let is_late = most.is_some_and(|most| **number <= most);
                most = most.max(Some(**number));
                is_late
            };
            numbers.iter().filter(is_late).count()
        };
        self.0.values().map(late).sum()
    }
}

/// All flows in both directions at once, burst by burst.
fn exchange(scenario: &Scenario, six: bool) -> Result<Arrived> {
    let [a, b] = ["host-a", "host-b"].map(|label| scenario.host(label));
    let near = (0..FLOWS).map(|flow| bind(a, 20_000 + flow, six)).collect::<Result<Vec<_>>>()?;
    let far = bind(b, PORT, six)?;
    let mut arrived = Arrived::default();
    for round in 0..ROUNDS {
        for number in round * BURST..(round + 1) * BURST {
            for socket in &near {
                let data = number.to_be_bytes();
                socket.send_to(&data, far.local_addr().expect("bound")).expect("it is sent");
                far.send_to(&data, socket.local_addr().expect("bound")).expect("it is sent");
            }
        }
        let expected = arrived.count() + 2 * usize::from(FLOWS) * BURST as usize;
        // Datagrams may be lost on a busy machine: what is there by then counts.
        let deadline = Instant::now() + PATIENCE;
        while arrived.count() < expected && Instant::now() < deadline {
            near.iter().chain([&far]).for_each(|socket| arrived.take(socket));
            std::thread::yield_now();
        }
    }
    Ok(arrived)
}

/// Keeps this thread on one processor, the first that it may use: when Linux moves a sender, what it sent
/// before and after stands in two processors' backlogs, and passes each other before the router sees it.
fn stay_on_one_processor() {
    let this = Pid::from_raw(0);
    let allowed = sched_getaffinity(this).expect("it can be asked");
    let first = (0..CpuSet::count()).find(|cpu| allowed.is_set(*cpu).unwrap_or(false));
    let mut one = CpuSet::new();
    one.set(first.expect("we run on one")).expect("it is there");
    sched_setaffinity(this, &one).expect("it is allowed");
}

#[test]
fn flows_of_one_queue_are_distributed_in_order() -> Result<()> {
    let scenario = begin()?;
    // After the router has begun: it keeps its processors.
    stay_on_one_processor();
    for six in [false, true] {
        let (before, handed_before) = (looked_at(&scenario)?, handed(&scenario)?.0);
        let arrived = exchange(&scenario, six)?;
        let packets = u64::from(2 * u32::from(FLOWS) * ROUNDS * BURST);
        let came = arrived.count() as u64;
        assert!(came <= packets && came * 100 >= packets * 99, "{came} of {packets} arrived");
        assert_eq!(arrived.0.len(), 2 * usize::from(FLOWS));
        // Spread packet by packet, about half would be late or twice.
        assert_eq!(arrived.late(), 0, "of {came} out of order");
        let after = looked_at(&scenario)?;
        let shares: Vec<u64> = after.iter().map(|(worker, n)| n - before[worker]).collect();
        assert_eq!(shares.len(), 2);
        // 32 flows over two workers: fewer than 4 at one of them in 1 of 100,000 seeds, and the seed is fixed.
        assert!(shares.iter().all(|share| share * 8 >= packets), "{shares:?}");
        assert!(handed(&scenario)?.0 - handed_before >= packets / 8);
    }
    wait_until("who was given packets has taken them", Duration::from_secs(5), || {
        let (out, back) = handed(&scenario).map_err(|error| error.to_string())?;
        if out == back { Ok(()) } else { Err(format!("{out} given, {back} taken")) }
    })?;
    scenario.end()
}

/// What the kernel of a host says of its connections: how often it found segments out of order.
fn reordered(host: &Host) -> Result<u64> {
    let read = || std::fs::read_to_string("/proc/thread-self/net/netstat").expect("it is there");
    let text = host.namespace().enter(read)?;
    let mut rows =
        text.lines().filter(|line| line.starts_with("TcpExt:")).map(str::split_whitespace);
    let (names, values) = (rows.next(), rows.next());
    let pairs = names.into_iter().flatten().zip(values.into_iter().flatten());
    let found = pairs
        .filter(|(name, _)| matches!(*name, "TCPSACKReorder" | "TCPTSReorder" | "TCPRenoReorder"));
    Ok(found.filter_map(|(_, value)| value.parse::<u64>().ok()).sum())
}

#[test]
fn tcp_stays_in_order() -> Result<()> {
    let scenario = begin()?;
    let [a, b] = ["host-a", "host-b"].map(|label| scenario.host(label));
    let mut segments = 0;
    for six in [false, true] {
        // Both directions at once, and each connection has another port: another worker.
        for _ in 0..2 {
            let (there, back) = std::thread::scope(|scope| {
                let there = scope.spawn(|| iperf(a, b, six, Load::Tcp, 1));
                let back = iperf(b, a, six, Load::Tcp, 1);
                (there.join().expect("it ends"), back)
            });
            for rate in [there?, back?] {
                assert!(rate.bits_per_second > 1e5, "{rate:?}");
                segments += (rate.bits_per_second / 8.0 / 1448.0) as u64;
                println!(
                    "{:.2} Gbit/s, {} sent again",
                    rate.bits_per_second / 1e9,
                    rate.retransmits
                );
            }
        }
    }
    let reordered = reordered(a)? + reordered(b)?;
    println!("{reordered} of {segments} segments found out of order");
    // Packets of one connection over two workers would be found out of order all the time.
    assert!(reordered * 10_000 <= segments + 10_000, "{reordered} of {segments}");
    scenario.end()
}
