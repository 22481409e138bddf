//! What ports that need no kernel cost by packet: `memif` with both ends in one thread, and the
//! `generator`; the least disturbed round of each.
//!
//! `cargo run --release -p stoa-ports --example driver_cost`

use stoa_engine::clock::tsc;
use stoa_engine::pool::HugePages;
use stoa_engine::{Pool, PoolCache, Port, PortEvent, Queues, VECTOR, Vector};
use stoa_ports::{Destinations, GeneratorConfig, MemifConfig, MemifRole, PortConfig};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pool = Pool::leak(16_384, HugePages::IfAvailable)?;
    memif(pool)?;
    generator(pool)
}

/// A port and its queues.
type Opened = (Box<dyn Port>, Queues);

/// Waits until every port has its queues.
fn up<const N: usize>(
    configs: [PortConfig; N],
    pool: &'static Pool,
) -> Result<[Opened; N], Box<dyn std::error::Error>> {
    let mut ports = Vec::new();
    for config in &configs {
        ports.push((stoa_ports::open(config, pool)?, Queues::default()));
    }
    for _ in 0..1000 {
        for (port, queues) in &mut ports {
            for event in port.service() {
                if let PortEvent::Up(fresh) = event {
                    *queues = fresh;
                }
            }
        }
        if ports.iter().all(|(_, queues)| !queues.rx.is_empty()) {
            return ports.try_into().map_err(|_| "as many ports as configurations".into());
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    Err("the ports do not come up".into())
}

fn memif(pool: &'static Pool) -> Result<(), Box<dyn std::error::Error>> {
    let end = |role| {
        let socket = format!("@stoa-driver-cost-{}", std::process::id());
        PortConfig::Memif(MemifConfig { socket, role, ..MemifConfig::default() })
    };
    let [mut master, mut slave] = up([end(MemifRole::Master), end(MemifRole::Slave)], pool)?;
    let (mut cache, mut vector) = (PoolCache::new(pool), Vector::new(pool));
    for (name, to_slave) in [("master to slave", true), ("slave to master", false)] {
        let (from, to) =
            if to_slave { (&mut master.1, &mut slave.1) } else { (&mut slave.1, &mut master.1) };
        for length in [60, 300, 1514] {
            let (mut sending, mut receiving) = (f64::MAX, f64::MAX);
            for _ in 0..2000 {
                cache.fill(&mut vector, VECTOR);
                vector.length.fill(length);
                let start = tsc();
                let sent = from.tx[0].transmit(&mut vector, &mut cache);
                sending = sending.min((tsc() - start) as f64 / VECTOR as f64);
                cache.free_from(&mut vector, 0);
                let start = tsc();
                let got = to.rx[0].receive(&mut vector, &mut cache);
                receiving = receiving.min((tsc() - start) as f64 / VECTOR as f64);
                cache.free_from(&mut vector, 0);
                if [sent, got] != [VECTOR; 2] {
                    return Err(format!("{sent} of {VECTOR} frames sent, {got} received").into());
                }
            }
            println!("memif, {name}, {length} B: send {sending:.1}, receive {receiving:.1} cycles");
        }
    }
    Ok(())
}

fn generator(pool: &'static Pool) -> Result<(), Box<dyn std::error::Error>> {
    let list: std::sync::Arc<[u32]> =
        (0..1 << 20).map(|n: u32| n.wrapping_mul(2_654_435_761)).collect();
    let cases = [
        ("one receiver", 60, Destinations::Range(1), false),
        ("a range in turn", 60, Destinations::Range(1 << 20), false),
        ("a range at random", 60, Destinations::Range(1 << 20), true),
        ("a list at random", 60, Destinations::List4(list), true),
        ("one receiver, 1514 B", 1514, Destinations::Range(1), false),
    ];
    let (mut cache, mut vector) = (PoolCache::new(pool), Vector::new(pool));
    for (name, frame, destinations, random) in cases {
        let config = GeneratorConfig { frame, destinations, random, ..GeneratorConfig::default() };
        let [(_port, mut queues)] = up([PortConfig::Generator(config)], pool)?;
        let mut best = f64::MAX;
        for _ in 0..20 {
            let (mut cycles, mut packets) = (0, 0);
            while packets < 200_000 {
                let start = tsc();
                packets += queues.rx[0].receive(&mut vector, &mut cache);
                cycles += tsc() - start;
                cache.free_from(&mut vector, 0);
            }
            best = best.min(cycles as f64 / packets as f64);
        }
        println!("generator, {name}: {best:.1} cycles");
    }
    Ok(())
}
