//! A port whose device is not there yet: it is down and says why, and opens by itself when it
//! can. So a router that starts again comes up with the ports that are there.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use stoa_engine::{Pool, Port, PortEvent};
use stoa_ports::PortConfig;

use super::ports::Open;

/// How often it is tried again.
const AGAIN: Duration = Duration::from_millis(250);

/// A port that is not there, or no longer waits.
pub(super) struct Waiting {
    config: PortConfig,
    pool: &'static Pool,
    open: Open,
    port: Option<Box<dyn Port>>,
    tried: Instant,
    why: String,
    told: bool,
}

impl Waiting {
    /// Waits until `config` can be opened, which just failed because of `why`.
    pub(super) fn new(config: PortConfig, pool: &'static Pool, open: Open, why: String) -> Self {
        Self { config, pool, open, port: None, tried: Instant::now(), why, told: false }
    }
}

impl Port for Waiting {
    fn driver(&self) -> &'static str {
        self.port.as_ref().map_or(self.config.driver(), |port| port.driver())
    }

    fn mac(&self) -> [u8; 6] {
        self.port.as_ref().map_or([0; 6], |port| port.mac())
    }

    fn mtu(&self) -> u32 {
        self.port.as_ref().map_or(1500, |port| port.mtu())
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.port.iter().flat_map(|port| port.descriptors()).collect()
    }

    fn service(&mut self) -> Vec<PortEvent> {
        if let Some(port) = &mut self.port {
            return port.service();
        }
        if self.told && self.tried.elapsed() < AGAIN {
            return Vec::new();
        }
        self.tried = Instant::now();
        match (self.open)(&self.config, self.pool) {
            Ok(port) => self.port.insert(port).service(),
            Err(error) => {
                let why = error.to_string();
                if self.told && why == self.why {
                    return Vec::new();
                }
                (self.told, self.why) = (true, why.clone());
                vec![PortEvent::Down(why)]
            }
        }
    }

    fn missed(&self) -> u64 {
        self.port.as_ref().map_or(0, |port| port.missed())
    }

    fn detail(&self) -> String {
        self.port.as_ref().map_or_else(|| self.why.clone(), |port| port.detail())
    }
}
