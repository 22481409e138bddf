//! A load for a device under test: one thread fills a memif with IP frames as fast as the device takes
//! them, and counts what comes back by another. `scripts/bench-compare` sets all devices the same task by it.
//!
//! `load SEND RECEIVE ROLE SIZE [DESTINATIONS [SECONDS [QUEUES]]]`: two sockets, our role on both (`slave` or
//! `master`), bytes of a frame with FCS (IPv4) or a mix of sizes (`imix1` IPv4, `imix3` IPv6, `imix2` half of each),
//! addresses from 198.18.1.1 and fd00::1 on, how long, and how many queues the device may send back by. One
//! JSON object at the end.
//!
//! `load SEND RECEIVE ROLE SIZE 0`: the other end that does least, for the ceiling of the load itself: what comes
//! is not inspected, and as many frames of its own go back. It runs until it is ended.
use std::time::{Duration, Instant};

use stoa_memif::{BATCH, Config, Event, Memif, Receiver, Role, Sender};

/// Where frames go and come from, unless the device has its own: Stoa's port is given this address.
const DEVICE: [u8; 6] = [2, 0xfe, 0, 0, 0, 1];
const OURS: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// Time for the device to start, and to warm up.
const PATIENCE: Duration = Duration::from_secs(30);
const WARM: Duration = Duration::from_millis(400);
/// A run is cut into windows; the least disturbed one counts.
const WINDOW: Duration = Duration::from_millis(100);
/// One in so many batches is checked against what was sent.
const CHECK_INTERVAL: u64 = 1024;

type Failure = Box<dyn std::error::Error>;

/// An interface that is up.
struct Link {
    memif: Memif,
    receivers: Vec<Receiver>,
    sender: Sender,
}

/// Opens both interfaces, and waits for the peer.
fn up(sockets: [&str; 2], role: Role, rx_queues: u16) -> Result<[Link; 2], Failure> {
    let open = |socket: &str| {
        let socket = socket.to_owned();
        Memif::open(&Config { socket, role, rx_queues, trust_memory: true, ..Config::default() })
    };
    let mut waiting = [(open(sockets[0])?, None), (open(sockets[1])?, None)];
    let begun = Instant::now();
    while waiting.iter().any(|(_, rings)| rings.is_none()) {
        for (memif, rings) in &mut waiting {
            match memif.service() {
                Some(Event::Up(fresh)) => *rings = Some(fresh),
                Some(Event::Down(_)) => *rings = None,
                None => {}
            }
        }
        if begun.elapsed() > PATIENCE {
            return Err(
                format!("no link: {}; {}", waiting[0].0.detail(), waiting[1].0.detail()).into()
            );
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut links = Vec::new();
    for (memif, rings) in waiting {
        let rings = rings.ok_or("no rings")?;
        let receivers = rings.receivers;
        let sender = rings.senders.into_iter().next().ok_or("no queue towards the peer")?;
        links.push(Link { memif, receivers, sender });
    }
    links.try_into().map_err(|_| "two links".into())
}

/// Sizes of a mix with FCS, and their shares in per cent.
const IMIX4: [(usize, usize); 3] = [(64, 55), (594, 25), (1518, 20)];
const IMIX6: [(usize, usize); 4] = [(78, 58), (496, 3), (594, 24), (1518, 15)];

/// A hundred frames of a mix, the sizes spread evenly among them.
fn mixed(shares: &[(usize, usize)], make: fn(usize, u16) -> Vec<u8>, to: u16) -> Vec<Vec<u8>> {
    let sizes: Vec<_> =
        shares.iter().flat_map(|&(size, share)| std::iter::repeat_n(size, share)).collect();
    // 37 and 100 have no divisor in common: all are visited.
    (0..100).map(|at| make(sizes[at * 37 % 100], at as u16 % to)).collect()
}

/// What is sent, again and again.
fn frames(size: &str, destinations: u16) -> Result<Vec<Vec<u8>>, Failure> {
    let to = destinations.clamp(1, 254);
    let four = mixed(&IMIX4, frame, to);
    let six = mixed(&IMIX6, frame6, to);
    Ok(match size {
        "imix1" => four,
        "imix2" => four.into_iter().zip(six).flat_map(|(four, six)| [four, six]).collect(),
        "imix3" => six,
        size => {
            let size = size.parse::<usize>()?.clamp(64, 2048);
            (0..to).map(|number| frame(size, number)).collect()
        }
    })
}

/// A UDP packet over IPv6 to the destination of that number.
fn frame6(size: usize, destination: u16) -> Vec<u8> {
    let mut frame = [&DEVICE[..], &OURS, &[0x86, 0xdd, 0x60, 0, 0, 0]].concat();
    let length = (size - 4 - 14 - 40) as u16;
    frame.extend([&length.to_be_bytes()[..], &[17, 64, 0xfd, 1]].concat());
    frame.extend([0; 13]);
    frame.extend([2, 0xfd, 0]);
    frame.extend([0; 12]);
    frame.extend((1 + destination).to_be_bytes());
    let ports = [(1024 + destination).to_be_bytes(), [0, 9], length.to_be_bytes(), [0x5a, 0x5a]];
    frame.extend(ports.concat());
    frame.resize(size - 4, 0x5a);
    frame
}

/// A UDP packet to the destination of that number.
fn frame(size: usize, destination: u16) -> Vec<u8> {
    let mut frame = [&DEVICE[..], &OURS, &[8, 0, 0x45, 0]].concat();
    let length = size - 4 - 14;
    frame.extend((length as u16).to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 198, 18, 0, 2, 198, 18]);
    frame.extend((256 + 1 + destination % 254).to_be_bytes());
    let sum: u32 =
        frame[14..34].chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    let udp = (length - 20) as u16;
    frame.extend([(1024 + destination).to_be_bytes(), [0, 9], udp.to_be_bytes(), [0, 0]].concat());
    frame.resize(size - 4, 0x5a);
    frame
}

/// What was counted.
#[derive(Clone, Copy, Default)]
struct Count {
    sent: u64,
    received: u64,
    bytes: u64,
    /// Time of iterations that moved frames.
    busy: Duration,
    looked_at: u64,
    foreign: u64,
}

/// Receives, and compares what comes with what was sent.
fn check(receiver: &mut Receiver, frames: &[Vec<u8>], count: &mut Count) {
    count.received += receiver.receive(|frame| {
        let is_like =
            |sent: &Vec<u8>| frame.len() == sent.len() && frame.get(26..32) == sent.get(26..32);
        count.looked_at += 1;
        count.foreign += u64::from(!frames.iter().any(is_like));
        count.bytes += frame.len() as u64;
    }) as u64;
}

/// Sends and receives until `until`.
fn drive(links: &mut [Link; 2], frames: &[Vec<u8>], until: Instant, count: &mut Count) {
    let [out, back] = links;
    let (mut next, mut iteration, mut now) = (0, 0_u64, Instant::now());
    while now < until {
        let (mut sent, before) = (0, count.received);
        let mut batch = out.sender.batch();
        while sent < BATCH as u64 && batch.put(&frames[next]).is_ok() {
            next = if next + 1 == frames.len() { 0 } else { next + 1 };
            sent += 1;
        }
        drop(batch);
        if iteration.is_multiple_of(CHECK_INTERVAL) {
            back.receivers.iter_mut().for_each(|receiver| check(receiver, frames, count));
        } else {
            for receiver in &mut back.receivers {
                let (frames, bytes) = receiver.discard();
                count.received += frames as u64;
                count.bytes += bytes;
            }
        }
        // What a device returns on the interface that it came from is not counted.
        out.receivers.iter_mut().for_each(|receiver| _ = receiver.discard());
        count.sent += sent;
        iteration += 1;
        let after = Instant::now();
        if sent > 0 || count.received > before {
            count.busy += after - now;
        }
        now = after;
    }
}

/// Measures, and prints the window in which most came back.
fn load(
    mut links: [Link; 2],
    size: &str,
    destinations: u16,
    time: Duration,
) -> Result<(), Failure> {
    let frames = frames(size, destinations)?;
    drive(&mut links, &frames, Instant::now() + WARM, &mut Count::default());
    let (begun, mut all, mut best, mut best_time) =
        (Instant::now(), Count::default(), Count::default(), WINDOW);
    while begun.elapsed() < time {
        let (start, mut count) = (Instant::now(), Count::default());
        drive(&mut links, &frames, start + WINDOW, &mut count);
        let lasted = start.elapsed();
        if count.received > best.received {
            (best, best_time) = (count, lasted);
        }
        all.sent += count.sent;
        all.received += count.received;
        all.looked_at += count.looked_at;
        all.foreign += count.foreign;
        for Link { memif, .. } in &mut links {
            if let Some(Event::Down(reason)) = memif.service() {
                return Err(format!("the link went down: {reason}").into());
            }
        }
    }
    let mega = |number: u64| number as f64 / best_time.as_secs_f64() / 1e6;
    println!(
        "{{\"frame\": \"{size}\", \"destinations\": {destinations}, \"sent_mpps\": {:.3}, \"mpps\": {:.3}, \
         \"bytes\": {:.1}, \"busy\": {:.4}, \"mean_mpps\": {:.3}, \"sent\": {}, \"received\": {}, \
         \"looked_at\": {}, \"foreign\": {}}}",
        mega(best.sent),
        mega(best.received),
        best.bytes as f64 / best.received.max(1) as f64,
        best.busy.as_secs_f64() / best_time.as_secs_f64(),
        all.received as f64 / begun.elapsed().as_secs_f64() / 1e6,
        all.sent,
        all.received,
        all.looked_at,
        all.foreign,
    );
    Ok(())
}

/// The other end that does least.
fn do_least([mut come, mut go]: [Link; 2], size: &str) -> Result<(), Failure> {
    let frames = frames(size, 1)?;
    let mut next = frames.iter().cycle();
    loop {
        for _ in 0..1 << 16 {
            let count = come.receivers.iter_mut().map(|receiver| receiver.discard().0).sum();
            let mut batch = go.sender.batch();
            next.by_ref().take(count).for_each(|frame| _ = batch.put(frame));
        }
        if let Some(Event::Down(_)) = come.memif.service() {
            return Ok(());
        }
    }
}

fn main() -> Result<(), Failure> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let [send, receive, role, size, more @ ..] = given.as_slice() else {
        return Err(
            "usage: load SEND RECEIVE slave|master SIZE [DESTINATIONS [SECONDS [QUEUES]]]".into()
        );
    };
    let role = if role == "master" { Role::Master } else { Role::Slave };
    let destinations = more.first().map_or(Ok(1), |text| text.parse::<u16>())?;
    let seconds = more.get(1).map_or(Ok(2.0), |text| text.parse::<f64>())?;
    let queues = more.get(2).map_or(Ok(1), |text| text.parse::<u16>())?;
    let links = up([send, receive], role, queues)?;
    match destinations {
        0 => do_least(links, size),
        _ => load(links, size, destinations.min(254), Duration::try_from_secs_f64(seconds)?),
    }
}
