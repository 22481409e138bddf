//! TCP through two ports of Linux devices and nothing between them: what the drivers leave of
//! the kernel's speed. One thread carries frames between two hosts in network namespaces; iperf3
//! runs at both ends. Needs root and iperf3.
//!
//! `cargo run --release -p stoa-ports --example linux_relay [SECONDS [af-packet | tap]]`

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, poll};
use stoa_engine::pool::HugePages;
use stoa_engine::{Doze, Pool, PoolCache, Port, PortEvent, Queues, Vector};
use stoa_lab::{Namespace, Tool};
use stoa_ports::{AfPacketConfig, PortConfig, TapConfig};

/// How long to poll for frames before a nap, as adaptive polling does.
const PATIENCE: Duration = Duration::from_micros(50);

/// What a relay counts.
#[derive(Default)]
struct Stats {
    bursts: u64,
    packets: u64,
    lost: u64,
    naps: u64,
    /// Time on a processor, what the kernel does in its name included.
    busy: Duration,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let seconds = arguments.next().unwrap_or_else(|| "3".into());
    let is_tap = arguments.next().is_some_and(|driver| driver == "tap");
    let (middle, hosts) = (Namespace::new("relay")?, [Namespace::new("a")?, Namespace::new("b")?]);
    let pool = Pool::leak(16_384, HugePages::IfAvailable)?;
    let join = |number: usize| {
        let host = &hosts[number];
        let port = if is_tap { tap(host) } else { veth(&middle, host, number)? };
        let opened = open(&port, pool)?;
        host.ip(&["addr", "add", &format!("198.18.0.{}/24", number + 1), "dev", "eth0"])?;
        Ok::<_, Box<dyn std::error::Error>>(opened)
    };
    let ((port0, queues0), (port1, queues1)) = (join(0)?, join(1)?);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let relay = scope.spawn(|| relay([queues0, queues1], pool, &stop));
        let rate = iperf(&hosts, &seconds);
        stop.store(true, Ordering::Relaxed);
        let stats = relay.join().map_err(|_| "the relay panicked")?;
        println!("{:.2} Gbit/s", rate? / 1e9);
        println!(
            "{} packets in {} bursts, {} not sent, {} naps; missed {} and {}",
            stats.packets,
            stats.bursts,
            stats.lost,
            stats.naps,
            port0.missed(),
            port1.missed()
        );
        let each = stats.busy.as_nanos() as f64 / stats.packets.max(1) as f64;
        println!("{each:.0} ns of processor time a packet");
        Ok(())
    })
}

fn iperf(hosts: &[Namespace; 2], seconds: &str) -> Result<f64, String> {
    let run = || {
        let server = hosts[1].command(Tool::IPERF3)?.args(["-s", "-1", "--forceflush"]).spawn()?;
        server.wait_for("listening", Duration::from_secs(10))?;
        let client = ["-c", "198.18.0.2", "-t", seconds, "--json"];
        hosts[0].command(Tool::IPERF3)?.args(client).deadline(Duration::from_secs(60)).run()?.ok()
    };
    let report = run().map_err(|error| error.to_string())?.stdout;
    let report: serde_json::Value =
        serde_json::from_str(&report).map_err(|error| error.to_string())?;
    println!("retransmits {}", report["end"]["sum_sent"]["retransmits"]);
    let cpu = &report["end"]["cpu_utilization_percent"];
    println!("CPU: sender {} %, receiver {} %", cpu["host_total"], cpu["remote_total"]);
    let rate = &report["end"]["sum_received"]["bits_per_second"];
    rate.as_f64().ok_or_else(|| report.to_string())
}

/// A TAP device as the host's `eth0`.
fn tap(host: &Namespace) -> PortConfig {
    let netns = Some(host.name().to_owned());
    PortConfig::Tap(TapConfig { device: "eth0".into(), netns, queues: 1, mtu: 0 })
}

/// A veth pair: the host's `eth0`, and our end of it.
fn veth(middle: &Namespace, host: &Namespace, number: usize) -> stoa_lab::Result<PortConfig> {
    let (device, netns) = (format!("to{number}"), Some(middle.name().to_owned()));
    let peer = ["peer", "name", "eth0", "netns", host.name()];
    middle.ip(&[&["link", "add", &device, "type", "veth"][..], &peer].concat())?;
    middle.ip(&["link", "set", &device, "up"])?;
    host.ip(&["link", "set", "eth0", "up"])?;
    Ok(PortConfig::AfPacket(AfPacketConfig { device, netns, ..AfPacketConfig::default() }))
}

fn open(
    config: &PortConfig,
    pool: &'static Pool,
) -> Result<(Box<dyn Port>, Queues), Box<dyn std::error::Error>> {
    let mut port = stoa_ports::open(config, pool)?;
    let end = Instant::now() + Duration::from_secs(5);
    while Instant::now() < end {
        for event in port.service() {
            if let PortEvent::Up(queues) = event {
                return Ok((port, queues));
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Err(port.detail().into())
}

/// Carries frames both ways; naps when there are none.
fn relay(mut ends: [Queues; 2], pool: &'static Pool, stop: &AtomicBool) -> Stats {
    let (mut cache, mut vector) = (PoolCache::new(pool), Vector::new(pool));
    let mut stats = Stats::default();
    let mut idle = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let before = stats.packets;
        for (from, to) in [(0, 1), (1, 0)] {
            let got = ends[from].rx[0].receive(&mut vector, &mut cache);
            if got > 0 {
                let sent = ends[to].tx[0].transmit(&mut vector, &mut cache);
                cache.free_from(&mut vector, 0);
                stats.bursts += 1;
                stats.packets += got as u64;
                stats.lost += (got - sent) as u64;
            }
        }
        if stats.packets != before {
            idle = Instant::now();
        } else if idle.elapsed() >= PATIENCE
            && ends.iter_mut().all(|end| end.rx[0].doze() == Doze::OnDescriptor)
        {
            let watched = ends.iter().filter_map(|end| end.rx[0].descriptor());
            let mut watched: Vec<_> =
                watched.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
            let _ = poll(&mut watched, 100u8);
            drop(watched);
            stats.naps += 1;
        }
    }
    let clock = nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID;
    stats.busy = clock.now().map_or(Duration::ZERO, Duration::from);
    stats
}
