//! What `dpdk` ports cost by packet beside what DPDK's driver does: receive and send over devices that
//! hold packets in memory; the least disturbed round of each.
//!
//! `cargo run --release -p stoa-ports --features dpdk --example dpdk_cost`; beside it DPDK's own forwarder:
//! `dpdk-testpmd --lcores '(0,1)@0' --no-pci --no-huge --no-shconf --no-telemetry --vdev net_null0 --vdev net_null1 --
//! --burst=64 --forward-mode=io --auto-start --stats-period 1`.

use stoa_engine::clock::{tsc, tsc_hz};
use stoa_engine::pool::HugePages;
use stoa_engine::{Pool, PoolCache, Port, PortEvent, Queues, VECTOR, Vector};
use stoa_ports::{DpdkConfig, PortConfig};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pool = Pool::leak(16_384, HugePages::IfAvailable)?;
    let (mut cache, mut vector) = (PoolCache::new(pool), Vector::new(pool));
    let (_null, mut queues) = up("net_null0,size=60", pool)?;
    forward("net_null to net_null", &mut queues, &mut cache, &mut vector);
    for length in [60, 1514] {
        let (_ring, mut queues) = up(&format!("net_ring{length}"), pool)?;
        let name = format!("net_ring to itself, {length} B");
        send_and_receive(&name, &mut queues, (&mut cache, &mut vector), length)?;
    }
    Ok(())
}

fn up(
    device: &str,
    pool: &'static Pool,
) -> Result<(Box<dyn Port>, Queues), Box<dyn std::error::Error>> {
    let config = DpdkConfig { device: device.into(), ..DpdkConfig::default() };
    let mut port = stoa_ports::open(&PortConfig::Dpdk(config), pool)?;
    match port.service().into_iter().next() {
        Some(PortEvent::Up(queues)) => Ok((port, queues)),
        _ => Err("the device does not come up".into()),
    }
}

/// What comes is sent at once, as a worker without a graph does it.
fn forward(name: &str, queues: &mut Queues, cache: &mut PoolCache, vector: &mut Vector) {
    let (mut both, mut packets) = (f64::MAX, 0);
    for _ in 0..200 {
        let start = tsc();
        let mut round = 0;
        while round < 20_000 {
            round += queues.rx[0].receive(vector, cache);
            queues.tx[0].transmit(vector, cache);
            cache.free_from(vector, 0);
        }
        both = both.min((tsc() - start) as f64 / round as f64);
        packets += round;
    }
    let rate = tsc_hz() as f64 / both / 1e6;
    println!("{name}: {both:.1} cycles to receive and send, {rate:.0} Mpps ({packets} packets)");
}

fn send_and_receive(
    name: &str,
    queues: &mut Queues,
    (cache, vector): (&mut PoolCache, &mut Vector),
    length: u16,
) -> Result<(), Box<dyn std::error::Error>> {
    let (mut sending, mut receiving) = (f64::MAX, f64::MAX);
    for _ in 0..5000 {
        cache.fill(vector, VECTOR);
        vector.length.fill(length);
        let start = tsc();
        let sent = queues.tx[0].transmit(vector, cache);
        cache.free_from(vector, 0);
        sending = sending.min((tsc() - start) as f64 / VECTOR as f64);
        let start = tsc();
        let got = queues.rx[0].receive(vector, cache);
        receiving = receiving.min((tsc() - start) as f64 / VECTOR as f64);
        cache.free_from(vector, 0);
        if [sent, got] != [VECTOR; 2] {
            return Err(format!("{sent} of {VECTOR} frames sent, {got} received").into());
        }
    }
    println!("{name}: send {sending:.1}, receive {receiving:.1} cycles");
    Ok(())
}
