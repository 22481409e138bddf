//! Our side of a link in a test: a port, its queues, and what one does with them.

use std::time::{Duration, Instant};

use stoa_engine::pool::HugePages;
use stoa_engine::vector::flags;
use stoa_engine::{Pool, PoolCache, Port, PortEvent, Queues, Vector};
use stoa_lab::Namespace;
use stoa_ports::PortConfig;

/// The deadline of every wait.
pub const DEADLINE: Duration = Duration::from_secs(10);

/// Waits until `is_so`.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !is_so() {
        assert!(Instant::now() < end, "{what}: not within {DEADLINE:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Two namespaces for a test; `None` and a message when this user may not make them.
pub fn namespaces(test: &str) -> Option<[Namespace; 2]> {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("SKIPPED {test}: network namespaces need root; run the tests as root");
        return None;
    }
    crate::device_opener::use_opener();
    Some([Namespace::new("near"), Namespace::new("far")].map(|one| one.expect("a namespace")))
}

/// Joins `near0` of the first namespace to `far0` of the second, both up.
pub fn join([near, far]: &[Namespace; 2]) {
    let peer = ["peer", "name", "far0", "netns", far.name()];
    let link = [&["link", "add", "near0", "type", "veth"][..], &peer].concat();
    near.ip(&link).expect("a veth pair");
    for (namespace, device) in [(near, "near0"), (far, "far0")] {
        // The kernel's own IPv6 messages would disturb the test.
        namespace.sysctl(&format!("ipv6/conf/{device}/disable_ipv6"), "1").expect("quiet");
        namespace.ip(&["link", "set", device, "up"]).expect("up");
    }
}

/// A port under test.
pub struct Side {
    pub port: Box<dyn Port>,
    pub queues: Queues,
    pub pool: PoolCache,
    /// Frames of the last [`Self::send`] that were marked as refused, by number.
    pub marked: Vec<usize>,
    vector: Box<Vector>,
}

impl Side {
    /// Opens a port and waits until it is up.
    pub fn open(config: &PortConfig) -> Self {
        let pool = Pool::leak(8192, HugePages::Never).expect("memory");
        let port = stoa_ports::open(config, pool).expect("a port");
        let (pool, vector) = (PoolCache::new(pool), Vector::new(pool));
        let (queues, marked) = Default::default();
        let mut side = Self { port, queues, pool, marked, vector };
        side.until_up();
        side
    }

    /// Services the port until it is up.
    pub fn until_up(&mut self) {
        let end = Instant::now() + DEADLINE;
        loop {
            for event in self.port.service() {
                if let PortEvent::Up(queues) = event {
                    self.queues = queues;
                    return;
                }
            }
            assert!(Instant::now() < end, "the port is not up: {}", self.port.detail());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Services the port until it reports that it is down; returns the reason.
    pub fn until_down(&mut self) -> String {
        let end = Instant::now() + DEADLINE;
        loop {
            for event in self.port.service() {
                if let PortEvent::Down(reason) = event {
                    self.queues = Queues::default();
                    return reason;
                }
            }
            assert!(Instant::now() < end, "the port is not down: {}", self.port.detail());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Sends frames by the first queue and returns how many were taken.
    pub fn send(&mut self, frames: &[Vec<u8>]) -> usize {
        let mut taken = 0;
        self.marked.clear();
        for burst in frames.chunks(stoa_engine::VECTOR) {
            for frame in burst {
                let mut packet = self.pool.packet().expect("a buffer");
                assert!(packet.set_bytes(frame));
                self.vector.push(packet).expect("a free lane");
            }
            let before = taken;
            taken += self.queues.tx[0].transmit(&mut self.vector, &mut self.pool);
            let is_marked = |lane: &usize| self.vector.flags[*lane] & flags::REFUSED != 0;
            self.marked.extend((0..burst.len()).filter(is_marked).map(|lane| before + lane));
            self.pool.free_from(&mut self.vector, 0);
        }
        taken
    }

    /// What the queues have now.
    pub fn receive_now(&mut self) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        for queue in &mut self.queues.rx {
            let got = queue.receive(&mut self.vector, &mut self.pool);
            assert_eq!(got, self.vector.len());
            frames.extend((0..got).map(|lane| self.vector.bytes(lane).to_vec()));
            self.pool.free_from(&mut self.vector, 0);
        }
        frames
    }

    /// Receives until `enough` frames for which `matches` holds are there.
    pub fn receive(&mut self, enough: usize, matches: impl Fn(&[u8]) -> bool) -> Vec<Vec<u8>> {
        let end = Instant::now() + DEADLINE;
        let mut frames = Vec::new();
        while frames.len() < enough {
            let now = self.receive_now();
            if now.is_empty() {
                let detail = self.port.detail();
                assert!(Instant::now() < end, "{} of {enough} frames: {detail}", frames.len());
                std::thread::yield_now();
            }
            frames.extend(now.into_iter().filter(|frame| matches(frame)));
        }
        frames
    }
}
