//! Drives ports without a forwarder: what a worker does, one call at a time.

use std::time::{Duration, Instant};

use stoa_engine::pool::FRAME_MAX;
use stoa_engine::{Pool, PoolCache, Port, PortEvent, Queues, VECTOR, Vector};
use stoa_ports::PortConfig;

/// How long anything may take that has to happen.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// Repeats `attempt` until it gives something.
///
/// # Panics
/// When it does not within [`DEADLINE`].
pub fn until<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = attempt() {
            return value;
        }
        assert!(start.elapsed() < DEADLINE, "{what}: not within {DEADLINE:?}");
        std::thread::yield_now();
    }
}

/// A port with its queues, as a worker holds them.
pub struct End {
    pub port: Box<dyn Port>,
    pub queues: Queues,
    pub cache: PoolCache,
    pub vector: Box<Vector>,
}

impl End {
    pub fn open(config: &PortConfig, pool: &'static Pool) -> Self {
        let port = stoa_ports::open(config, pool).unwrap_or_else(|error| panic!("{error}"));
        let (cache, vector) = (PoolCache::new(pool), Vector::new(pool));
        Self { port, queues: Queues::default(), cache, vector }
    }

    /// Services the port; `Some(true)` when it came up, `Some(false)` when it went down.
    pub fn service(&mut self) -> Option<bool> {
        let mut change = None;
        for event in self.port.service() {
            match event {
                PortEvent::Up(queues) => {
                    self.queues = queues;
                    change = Some(true);
                }
                PortEvent::Down(_) => {
                    self.queues = Queues::default();
                    change = Some(false);
                }
            }
        }
        change
    }

    /// Sends the first of `frames` in one burst through queue 0; returns how many were taken.
    pub fn send<F: AsRef<[u8]>>(&mut self, frames: &[F]) -> usize {
        let count = frames.len().min(VECTOR);
        let lanes = self.cache.fill(&mut self.vector, count);
        for (lane, frame) in frames[..lanes].iter().enumerate() {
            let frame = frame.as_ref();
            if frame.len() > FRAME_MAX {
                assert!(self.cache.enlarge(&mut self.vector, lane), "a jumbo buffer is free");
            }
            self.vector.length[lane] = frame.len() as u16;
            self.vector.bytes_mut(lane).copy_from_slice(frame);
        }
        let sent = self.queues.tx[0].transmit(&mut self.vector, &mut self.cache);
        self.cache.free_from(&mut self.vector, 0);
        sent
    }

    /// Receives one burst from queue 0.
    pub fn receive(&mut self) -> Vec<Vec<u8>> {
        let got = self.queues.rx[0].receive(&mut self.vector, &mut self.cache);
        assert_eq!(got, self.vector.len());
        let frames = (0..got).map(|lane| self.vector.bytes(lane).to_vec()).collect();
        self.cache.free_from(&mut self.vector, 0);
        frames
    }
}
