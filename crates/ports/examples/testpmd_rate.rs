//! How fast `memif` is against DPDK's `net_memif`: testpmd sends, we send back what comes. Needs
//! root and Debian's `dpdk` package.
//!
//! `cargo run --release -p stoa-ports --example testpmd_rate`

#[path = "../tests/harness/testpmd.rs"]
mod testpmd;

use std::time::{Duration, Instant};

use stoa_engine::pool::HugePages;
use stoa_engine::{Pool, PoolCache, PortEvent, Queues, Vector};
use stoa_ports::{MemifConfig, MemifRole, PortConfig};

use testpmd::Testpmd;

/// Longer than DPDK takes to begin.
const DEADLINE: Duration = Duration::from_secs(20);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for (ours, theirs) in [(MemifRole::Master, "client"), (MemifRole::Slave, "server")] {
        let folder = tempfile::tempdir()?;
        let socket = folder.path().join("memif.sock").display().to_string();
        let pool = Pool::leak(16_384, HugePages::IfAvailable)?;
        let config =
            MemifConfig { socket: socket.clone(), id: 7, role: ours, ..MemifConfig::default() };
        let mut port = stoa_ports::open(&PortConfig::Memif(config), pool)?;
        let Some(mut testpmd) = Testpmd::start(&socket, theirs, "flowgen", [1, 1]) else {
            return Ok(());
        };
        let mut queues = Queues::default();
        let start = Instant::now();
        while queues.rx.is_empty() {
            for event in port.service() {
                if let PortEvent::Up(fresh) = event {
                    queues = fresh;
                }
            }
            if testpmd.ended().is_some() || start.elapsed() > DEADLINE {
                return Err(format!("testpmd does not connect: {}", testpmd.log()).into());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let [got, sent] = echo(&mut queues, pool);
        println!("{ours:?}: {got:.2} Mpps in, {sent:.2} Mpps sent back");
    }
    Ok(())
}

/// Sends back what comes; millions of packets a second received and sent, the best of six windows.
fn echo(queues: &mut Queues, pool: &'static Pool) -> [f64; 2] {
    let (mut cache, mut vector) = (PoolCache::new(pool), Vector::new(pool));
    let mut best = [0.0_f64; 2];
    for _ in 0..6 {
        let (start, mut got, mut sent) = (Instant::now(), 0, 0);
        while start.elapsed() < Duration::from_millis(500) {
            let received = queues.rx[0].receive(&mut vector, &mut cache);
            if received > 0 {
                got += received;
                sent += queues.tx[0].transmit(&mut vector, &mut cache);
                cache.free_from(&mut vector, 0);
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        best = [best[0].max(got as f64 / seconds / 1e6), best[1].max(sent as f64 / seconds / 1e6)];
    }
    best
}
