//! A device that drops, repeats and holds packets back by its own packet accounting, which the analyser must
//! find to the packet.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use stoa_engine::pool::HugePages;
use stoa_engine::{Pool, PoolCache, Port, PortEvent, Queues, Vector};
use stoa_ports::{MemifConfig, MemifRole, PortConfig};
use stoa_traffic::results::Results;
use stoa_traffic::{Load, plan};

/// Frames of one stream that come before the run and teach paths.
const LESSONS: u64 = 3;

/// What the device does with the packet of a number.
#[derive(Clone, Copy)]
enum Fate {
    Pass,
    Drop,
    /// Two of them go on.
    Repeat,
    /// So many others go first.
    Hold(u64),
    /// A bit of the payload is turned over: nobody's packet any more.
    Spoil,
}

/// What the device did.
#[derive(Default)]
struct Accounting {
    came: u64,
    dropped: u64,
    repeated: u64,
    held: u64,
    spoiled: u64,
    /// Answers to a question of its own.
    answers: u64,
}

struct Side {
    port: Box<dyn Port>,
    queues: Option<Queues>,
}

impl Side {
    fn open(socket: &str, pool: &'static Pool) -> Self {
        let (socket, role) = (socket.to_owned(), MemifRole::Master);
        let config = MemifConfig { socket, role, ring_size: 4096, ..MemifConfig::default() };
        let port = stoa_ports::open(&PortConfig::Memif(config), pool).unwrap();
        Self { port, queues: None }
    }

    fn service(&mut self) {
        for event in self.port.service() {
            self.queues = match event {
                PortEvent::Up(queues) => Some(queues),
                PortEvent::Down(_) => None,
            };
        }
    }
}

/// Sends all frames; what the ring has no room for waits.
fn send(to: &mut Side, cache: &mut PoolCache, vector: &mut Vector, frames: &mut VecDeque<Vec<u8>>) {
    let Some(queues) = &mut to.queues else { return frames.clear() };
    while let Some(frame) = frames.front() {
        assert_eq!(cache.fill(vector, 1), 1);
        vector.length[0] = frame.len() as u16;
        vector.bytes_mut(0).copy_from_slice(frame);
        let sent = queues.tx[0].transmit(vector, cache);
        cache.free_from(vector, 0);
        if sent == 0 {
            return;
        }
        frames.pop_front();
    }
}

/// Who has 198.18.1.77?
fn request() -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend([2, 0, 0, 0, 0, 0xd, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 0xd]);
    frame.extend([198, 18, 1, 1, 0, 0, 0, 0, 0, 0, 198, 18, 1, 77]);
    frame.resize(60, 0);
    frame
}

/// Whether 198.18.1.77 answers the device.
fn is_answer(frame: &[u8]) -> bool {
    frame[..6] == [2, 0, 0, 0, 0, 0xd]
        && frame[20..22] == [0, 2]
        && frame[28..32] == [198, 18, 1, 77]
}

/// The device: left to right by `fate`, until it is stopped.
fn relay(
    mut sides: [Side; 2],
    pool: &'static Pool,
    end: &AtomicBool,
    fate: impl Fn(u64) -> Fate,
) -> Accounting {
    let (mut cache, mut vector, mut out) =
        (PoolCache::new(pool), Vector::new(pool), Vector::new(pool));
    let (mut accounting, mut seen) = (Accounting::default(), 0);
    let mut held: Vec<(u64, Vec<u8>)> = Vec::new();
    let mut frames = VecDeque::new();
    while !end.load(Ordering::Relaxed) {
        sides.iter_mut().for_each(Side::service);
        let [left, right] = &mut sides;
        let came = match &mut left.queues {
            Some(queues) => queues.rx[0].receive(&mut vector, &mut cache),
            None => 0,
        };
        for lane in 0..came {
            let mut frame = vector.bytes(lane).to_vec();
            seen += 1;
            if seen <= LESSONS {
                frames.push_back(frame);
                continue;
            }
            let number = accounting.came;
            accounting.came += 1;
            if number == 100 {
                frames.push_back(request());
            }
            match fate(number) {
                Fate::Pass => frames.push_back(frame),
                Fate::Drop => accounting.dropped += 1,
                Fate::Repeat => {
                    frames.push_back(frame.clone());
                    frames.push_back(frame);
                    accounting.repeated += 1;
                }
                Fate::Hold(others) => {
                    accounting.held += 1;
                    held.push((number + others, frame));
                    continue;
                }
                Fate::Spoil => {
                    let last = frame.len() - 1;
                    frame[last] ^= 0x10;
                    frames.push_back(frame);
                    accounting.spoiled += 1;
                }
            }
            let ready = held.iter().position(|(until, _)| *until <= number);
            if let Some(at) = ready {
                frames.push_back(held.remove(at).1);
            }
        }
        cache.free_from(&mut vector, 0);
        if let Some(queues) = &mut right.queues {
            queues.rx[0].receive(&mut vector, &mut cache);
            let answers = (0..vector.len()).filter(|lane| is_answer(vector.bytes(*lane)));
            accounting.answers += answers.count() as u64;
            cache.free_from(&mut vector, 0);
        }
        send(right, &mut cache, &mut out, &mut frames);
        if came == 0 {
            std::thread::sleep(std::time::Duration::from_micros(200));
        }
    }
    accounting
}

/// One run through the device.
fn run(name: &str, count: u64, fate: impl Fn(u64) -> Fate + Send) -> (Results, Accounting) {
    let socket = |side: &str| format!("@stoa-faulty-{name}-{side}-{}", std::process::id());
    let pool = Pool::leak(8192, HugePages::Never).unwrap();
    let sides = [Side::open(&socket("left"), pool), Side::open(&socket("right"), pool)];
    let text = format!(
        "ports:
  left: {{ memif: {{ socket: '{}', role: slave, ring-size: 4096 }} }}
  right: {{ memif: {{ socket: '{}', role: slave, ring-size: 4096 }}, addresses: [198.18.1.0/24] }}
streams: [ {{ name: s, from: left, to: right, rate: 20kpps, count: {count}, flows: 100 }} ]
duration: 20s
settle: 1s
threads: one",
        socket("left"),
        socket("right"),
    );
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let device = scope.spawn(|| relay(sides, pool, &end, fate));
        let plan = plan::parse(&text).unwrap_or_else(|error| panic!("{error}"));
        let results = stoa_traffic::run(plan, &Load::default(), &mut |_| true);
        end.store(true, Ordering::Relaxed);
        let accounting = device.join().unwrap();
        let results = results.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((results.total.sent, accounting.came), (count, count));
        (results, accounting)
    })
}

#[test]
fn a_device_without_faults_has_none() {
    let (results, accounting) = run("sound", 3000, |_| Fate::Pass);
    let (stream, port) = (&results.streams[0], &results.ports[1]);
    assert_eq!((stream.received, stream.lost, stream.duplicates), (3000, 0, 0));
    assert_eq!((stream.reordered, stream.stray), (0, 0));
    assert_eq!(
        (port.foreign, port.neighbor, accounting.answers),
        (1, 1, 1),
        "it sent a request and received a reply"
    );
}

#[test]
fn what_is_dropped_is_lost() {
    let (results, accounting) = run("drops", 5000, |number| match number % 10 {
        3 => Fate::Drop,
        _ => Fate::Pass,
    });
    let stream = &results.streams[0];
    assert_eq!((stream.lost, accounting.dropped), (500, 500));
    assert_eq!((stream.duplicates, stream.reordered), (0, 0), "a gap is no reordering");
    assert!((stream.loss - 0.1).abs() < 1e-9);
}

#[test]
fn what_is_repeated_is_counted_once() {
    let (results, accounting) = run("repeats", 5000, |number| match number % 7 {
        0 => Fate::Repeat,
        _ => Fate::Pass,
    });
    let stream = &results.streams[0];
    assert_eq!((stream.received, stream.lost), (5000, 0));
    assert_eq!(stream.duplicates, accounting.repeated);
    assert_eq!(stream.reordered, 0);
}

#[test]
fn what_is_held_back_is_reordered() {
    let (results, accounting) = run("holds", 5000, |number| match number % 50 {
        5 => Fate::Hold(1),
        20 => Fate::Hold(7),
        _ => Fate::Pass,
    });
    let stream = &results.streams[0];
    assert_eq!((stream.received, stream.lost, stream.duplicates), (5000, 0, 0));
    assert_eq!((stream.reordered, accounting.held), (200, 200));
    assert_eq!(stream.reorder_extent, 7);
}

#[test]
fn all_at_once_are_distinguished_and_spoiled_ones_are_nobodys() {
    let (results, accounting) = run("all", 10_000, |number| match number % 20 {
        2 => Fate::Drop,
        5 => Fate::Repeat,
        8 => Fate::Hold(3),
        15 => Fate::Spoil,
        _ => Fate::Pass,
    });
    let stream = &results.streams[0];
    assert_eq!(stream.lost, accounting.dropped + accounting.spoiled);
    assert_eq!(stream.duplicates, accounting.repeated);
    assert_eq!(stream.reordered, accounting.held);
    let port = &results.ports[1];
    assert_eq!(port.foreign - port.neighbor, accounting.spoiled);
}
