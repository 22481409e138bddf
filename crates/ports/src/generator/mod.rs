//! `generator`: packets made in memory, for benches and tests. What is sent to the
//! port is swallowed.

mod pace;
mod queue;
mod receivers;
mod template;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use stoa_engine::{Pool, Port, PortEvent, Queues, RxQueue, VECTOR};

use crate::config::GeneratorConfig;
use crate::error::OpenError;
use crate::link;
use crate::null::NullTx;

use queue::GeneratorRx;
use receivers::receivers;
use template::Template;

/// Packets that lie prepared in a queue unless the configuration says otherwise:
/// more than the first-level cache has lines.
pub const PREPARED: u32 = 8192;
/// Packets that may lie prepared in a queue.
const PREPARED_MAX: u32 = 1 << 20;

/// A port whose received packets are made in memory.
pub struct Generator {
    mac: [u8; 6],
    queues: Vec<Box<dyn RxQueue>>,
    missed: Arc<AtomicU64>,
    detail: String,
}

/// Opens the port and prepares its packets.
///
/// # Errors
/// A senseless configuration, or fewer free buffers than the port prepares.
pub fn open(config: &GeneratorConfig, pool: &'static Pool) -> Result<Generator, OpenError> {
    let mac = link::mac(config.mac);
    let queues = u64::from(link::queues("queues", config.queues, link::QUEUES_MAX)?);
    let prepared = prepared(config, queues)?;
    let wanted = prepared * queues;
    if wanted + VECTOR as u64 > pool.free() {
        return Err(OpenError::Buffers {
            wanted,
            buffers: pool.free().min(u32::MAX.into()) as u32,
        });
    }
    let missed = Arc::new(AtomicU64::new(0));
    let mut rx: Vec<Box<dyn RxQueue>> = Vec::new();
    for queue in 0..queues {
        let template = Template::new(config, mac)?;
        let whom = receivers(config, (queue, queues))?;
        let count = match config.count {
            0 => u64::MAX,
            count => share(count, queue, queues),
        };
        // A rate below one per queue still has to flow.
        let rate = match config.rate {
            0 => 0,
            rate => share(rate, queue, queues).max(1),
        };
        let limits = (count, rate);
        let prepared = prepared as usize;
        let missed = missed.clone();
        rx.push(Box::new(GeneratorRx::new(pool, template, whom, limits, prepared, missed)));
    }
    let detail = format!("{} bytes to {}, {prepared} prepared", config.frame, config.destination);
    Ok(Generator { mac, queues: rx, missed, detail })
}

/// Packets to prepare in each queue.
fn prepared(config: &GeneratorConfig, queues: u64) -> Result<u64, OpenError> {
    if config.prepared > PREPARED_MAX {
        let reason = format!("{}: give at most {PREPARED_MAX}", config.prepared);
        return Err(OpenError::Config { field: "prepared", reason });
    }
    let asked = if config.prepared == 0 { PREPARED } else { config.prepared };
    // More than there will ever be need not be prepared.
    let most = if config.count == 0 { u64::MAX } else { config.count.div_ceil(queues) };
    Ok(u64::from(asked).min(most))
}

/// What `queue` of `queues` gets of `total`.
fn share(total: u64, queue: u64, queues: u64) -> u64 {
    total / queues + u64::from(queue < total % queues)
}

impl Port for Generator {
    fn driver(&self) -> &'static str {
        "generator"
    }

    fn mac(&self) -> [u8; 6] {
        self.mac
    }

    fn mtu(&self) -> u32 {
        link::MTU
    }

    fn service(&mut self) -> Vec<PortEvent> {
        let rx = std::mem::take(&mut self.queues);
        if rx.is_empty() {
            return Vec::new();
        }
        // As many ways out as in, so that no worker has to hand packets over.
        let tx = rx.iter().map(|_| Box::new(NullTx) as Box<_>).collect();
        vec![PortEvent::Up(Queues { rx, tx })]
    }

    fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    fn detail(&self) -> String {
        self.detail.clone()
    }
}
