//! How fast `af-packet` and `af-xdp` are over a veth pair, in turn, so that the ratio is of one
//! run: frames from one port to another, a thread each. Needs root.
//!
//! `cargo run --release -p stoa-ports --example device_rate [SECONDS [FRAME BYTES]]`

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use stoa_engine::clock::{tsc, tsc_hz};
use stoa_engine::pool::HugePages;
use stoa_engine::{Pool, PoolCache, Port, PortEvent, Queues, VECTOR, Vector};
use stoa_lab::Namespace;
use stoa_ports::{AfPacketConfig, AfXdpConfig, PortConfig, XdpAttach};

/// Frames of one round: less than any ring holds.
const ROUND: usize = 1500;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let seconds = arguments.next().map_or(Ok(3), |text| text.parse())?;
    let frame = arguments.next().map_or(Ok(60), |text| text.parse())?;
    let (near, far) = (Namespace::new("near")?, Namespace::new("far")?);
    let peer = ["peer", "name", "far0", "netns", far.name()];
    near.ip(&[&["link", "add", "near0", "type", "veth"][..], &peer].concat())?;
    near.ip(&["link", "set", "near0", "up"])?;
    far.ip(&["link", "set", "far0", "up"])?;
    let pool = Pool::leak(16_384, HugePages::IfAvailable)?;
    println!("frames of {frame} bytes");
    for driver in ["af-packet", "af-xdp native", "af-xdp generic"] {
        println!("{driver}");
        let (_near_port, mut near) = open(&near, "near0", driver, pool)?;
        let (far_port, mut far) = open(&far, "far0", driver, pool)?;
        in_turn(&mut near, &mut far, frame, pool, Duration::from_secs(seconds));
        at_once(near, far, frame, pool, Duration::from_secs(seconds))?;
        println!("  missed {}", far_port.missed());
    }
    Ok(())
}

fn config(namespace: &Namespace, device: &str, driver: &str) -> PortConfig {
    let (device, netns) = (device.to_owned(), Some(namespace.name().to_owned()));
    let attach = match driver {
        "af-xdp native" => XdpAttach::Native,
        "af-xdp generic" => XdpAttach::Generic,
        _ => {
            let config = AfPacketConfig { device, netns, ..AfPacketConfig::default() };
            return PortConfig::AfPacket(config);
        }
    };
    PortConfig::AfXdp(AfXdpConfig { device, netns, attach, ..AfXdpConfig::default() })
}

/// One thread sends a ringful, then receives it: the cost of each, the least disturbed round.
fn in_turn(near: &mut Queues, far: &mut Queues, frame: usize, pool: &'static Pool, time: Duration) {
    let (mut cache, mut vector) = (PoolCache::new(pool), Vector::new(pool));
    let bytes = template(frame);
    let (mut sending, mut receiving) = (f64::MAX, f64::MAX);
    let end = Instant::now() + time;
    while Instant::now() < end {
        let (mut sent, mut got, start) = (0, 0, tsc());
        while sent < ROUND {
            sent += burst(near, &bytes, &mut vector, &mut cache);
        }
        let middle = tsc();
        while far.rx[0].receive(&mut vector, &mut cache) > 0 {
            got += vector.len();
            cache.free_from(&mut vector, 0);
        }
        sending = sending.min((middle - start) as f64 / sent as f64);
        receiving = receiving.min((tsc() - middle) as f64 / got.max(1) as f64);
    }
    for (what, cycles) in [("send", sending), ("receive", receiving)] {
        let rate = tsc_hz() as f64 / cycles / 1e6;
        println!("  {what:9} {rate:6.3} Mpps a core, {cycles:7.1} TSC cycles a packet");
    }
}

/// Two threads, as long as it takes.
fn at_once(
    near: Queues,
    far: Queues,
    frame: usize,
    pool: &'static Pool,
    time: Duration,
) -> Result<(), &'static str> {
    let taken = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    let received = std::thread::scope(|scope| {
        scope.spawn(|| send(near, frame, pool, &taken, &stop));
        let receiver = scope.spawn(|| receive(far, pool, &stop));
        std::thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
        receiver.join()
    });
    let received = received.map_err(|_| "the receiver panicked")?;
    let rate = |packets: u64| packets as f64 / time.as_secs_f64() / 1e6;
    let (sent, received) = (rate(taken.load(Ordering::Relaxed)), rate(received));
    println!("  at once   {sent:6.3} Mpps sent, {received:6.3} Mpps received");
    Ok(())
}

fn open(
    namespace: &Namespace,
    device: &str,
    driver: &str,
    pool: &'static Pool,
) -> Result<(Box<dyn Port>, Queues), Box<dyn std::error::Error>> {
    let mut port = stoa_ports::open(&config(namespace, device, driver), pool)?;
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

/// UDP from 198.18.0.1 to 198.18.0.2 (RFC 2544, C.2.2); no socket receives it.
fn template(frame: usize) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0];
    bytes.extend(((frame - 14) as u16).to_be_bytes());
    bytes.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2, 0, 9, 0, 9]);
    bytes.extend(((frame - 34) as u16).to_be_bytes());
    bytes.resize(frame, 0);
    bytes
}

/// Sends one vector of a frame and returns how many were taken.
fn burst(queues: &mut Queues, bytes: &[u8], vector: &mut Vector, cache: &mut PoolCache) -> usize {
    for lane in 0..cache.fill(vector, VECTOR) {
        vector.length[lane] = bytes.len() as u16;
        vector.bytes_mut(lane).copy_from_slice(bytes);
    }
    let sent = queues.tx[0].transmit(vector, cache);
    cache.free_from(vector, 0);
    sent
}

fn send(
    mut queues: Queues,
    frame: usize,
    pool: &'static Pool,
    taken: &AtomicU64,
    stop: &AtomicBool,
) {
    let (mut cache, mut vector) = (PoolCache::new(pool), Vector::new(pool));
    let bytes = template(frame);
    while !stop.load(Ordering::Relaxed) {
        let sent = burst(&mut queues, &bytes, &mut vector, &mut cache);
        taken.fetch_add(sent as u64, Ordering::Relaxed);
    }
}

/// Receives until `stop` is set; returns how many frames.
fn receive(mut queues: Queues, pool: &'static Pool, stop: &AtomicBool) -> u64 {
    let (mut cache, mut vector) = (PoolCache::new(pool), Vector::new(pool));
    let mut received = 0;
    while !stop.load(Ordering::Relaxed) {
        received += queues.rx[0].receive(&mut vector, &mut cache) as u64;
        cache.free_from(&mut vector, 0);
    }
    received
}
