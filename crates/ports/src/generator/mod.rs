//! `generator`: packets made in memory, for benches and tests. What is sent to the
//! port is swallowed.

mod pace;
mod queue;
mod receivers;
mod senders;
mod template;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use stoa_engine::pool::FRAME_MAX;
use stoa_engine::{Pool, Port, PortEvent, Queues, RxQueue, VECTOR};

use crate::config::GeneratorConfig;
use crate::error::OpenError;
use crate::link;
use crate::null::NullTx;

use queue::{GeneratorRx, Kind, Variety};
use receivers::receivers;
use senders::SenderTurn;
use template::Template;

pub use senders::{GreTunnels, Senders};

/// Packets prepared in a queue by default:
/// more than the first-level cache has lines.
pub const PREPARED: u32 = 8192;
/// The same for packets that need jumbo buffers.
const PREPARED_JUMBO: u32 = 64;
/// The most flows of a sender.
pub const FLOWS_MAX: u32 = 1 << 24;
/// Packets that may lie prepared in a queue.
const PREPARED_MAX: u32 = 1 << 20;

/// A port whose received packets are made in memory.
pub struct Generator {
    mac: [u8; 6],
    queues: Vec<Box<dyn RxQueue>>,
    missed: Arc<AtomicU64>,
    /// Of the prepared packets.
    pool: &'static Pool,
    mtu: u32,
    detail: String,
}

/// Opens the port and prepares its packets.
///
/// # Errors
/// An invalid configuration, or fewer free buffers than the port prepares.
pub fn open(config: &GeneratorConfig, pool: &'static Pool) -> Result<Generator, OpenError> {
    let mac = link::mac(config.mac);
    let queues = u64::from(link::queues("queues", config.queues, link::QUEUES_MAX)?);
    let prepared = prepared(config, queues)?;
    let required = prepared * queues;
    let is_jumbo = usize::from(config.frame) > FRAME_MAX;
    // Half of the jumbo buffers stay for packets of others.
    let there = if is_jumbo {
        pool.jumbo_free().saturating_sub(u64::from(pool.jumbo_count()) / 2)
    } else {
        pool.free().saturating_sub(VECTOR as u64)
    };
    if required > there {
        return Err(OpenError::Buffers { required, buffers: there.min(u32::MAX.into()) as u32 });
    }
    // Frames of its own are the least that the port carries.
    let usual = link::MTU.max(u32::from(config.frame).saturating_sub(14));
    let mtu = link::mtu(config.mtu, usual)?;
    let missed = Arc::new(AtomicU64::new(0));
    let mut rx: Vec<Box<dyn RxQueue>> = Vec::new();
    for queue in 0..queues {
        let (first, variety) = kinds(config, mac, (queue, queues))?;
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
        let sizes = (prepared as usize, usize::from(config.burst));
        let missed = missed.clone();
        rx.push(Box::new(GeneratorRx::new(pool, first, variety, limits, sizes, missed)));
    }
    let what = match &config.mix {
        Some(mix) => format!("{} kinds of packets", mix.kinds.len()),
        None => format!("{} bytes to {}", config.frame, config.destination),
    };
    let detail = format!("{what}, {prepared} prepared");
    Ok(Generator { mac, queues: rx, missed, pool, mtu, detail })
}

/// What a queue writes: packets of a first kind, and what else there is; `share` is (queue, queues).
fn kinds(
    config: &GeneratorConfig,
    mac: [u8; 6],
    share: (u64, u64),
) -> Result<(Kind, Option<Variety>), OpenError> {
    let wrong = |field, reason: String| OpenError::Config { field, reason };
    let flows = config.flows.max(1);
    if flows > FLOWS_MAX {
        return Err(wrong("flows", format!("{flows}: give at most {FLOWS_MAX}")));
    }
    let kind = |config: &GeneratorConfig| {
        let template = Template::new(config, mac)?;
        if !template.has_room_for(flows) {
            let reason = "give a source address whose last 16 bits leave space for all flows";
            return Err(wrong("flows", reason.to_owned()));
        }
        let (receivers, order) = receivers(config, share)?;
        let senders = SenderTurn::new(config, share)?;
        Ok(Kind { template, receivers, order, senders })
    };
    let Some(mix) = &config.mix else {
        let one = Variety { kinds: Vec::new(), order: vec![0], flows, at: 0 };
        let varies = flows > 1 || config.senders.is_some();
        return Ok((kind(config)?, varies.then_some(one)));
    };
    let mut all = Vec::new();
    for part in &mix.kinds {
        if usize::from(part.frame) > FRAME_MAX {
            let reason = format!("{} bytes: give at most {FRAME_MAX}", part.frame);
            return Err(wrong("mix", reason));
        }
        let (frame, source) = (part.frame, part.source);
        let (destinations, senders) = (part.destinations.clone(), part.senders.clone());
        let of_kind = GeneratorConfig { frame, source, destinations, senders, ..config.clone() };
        all.push(kind(&of_kind)?);
    }
    let knows = |kind: &u8| usize::from(*kind) < all.len();
    if all.is_empty() || mix.order.is_empty() || !mix.order.iter().all(knows) {
        return Err(wrong("mix", "give kinds, and an order that names no other".to_owned()));
    }
    let order = mix.order.clone();
    // Queues begin at different places, as they do with destinations.
    let at = order.len() as u64 * share.0 / share.1;
    let first = all.remove(0);
    Ok((first, Some(Variety { kinds: all, order, flows, at })))
}

/// Packets to prepare in each queue.
fn prepared(config: &GeneratorConfig, queues: u64) -> Result<u64, OpenError> {
    if config.prepared > PREPARED_MAX {
        let reason = format!("{}: give at most {PREPARED_MAX}", config.prepared);
        return Err(OpenError::Config { field: "prepared", reason });
    }
    let requested = match config.prepared {
        0 if usize::from(config.frame) > FRAME_MAX => PREPARED_JUMBO,
        0 => PREPARED,
        requested => requested,
    };
    // No more than the total count.
    let most = if config.count == 0 { u64::MAX } else { config.count.div_ceil(queues) };
    Ok(u64::from(requested).min(most))
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
        self.mtu
    }

    fn service(&mut self) -> Vec<PortEvent> {
        let rx = std::mem::take(&mut self.queues);
        if rx.is_empty() {
            return Vec::new();
        }
        // As many transmit as receive queues, so that no worker hands packets over.
        let tx = rx.iter().map(|_| Box::new(NullTx) as Box<_>).collect();
        vec![PortEvent::Up(Queues { rx, tx })]
    }

    fn needs_service(&self) -> bool {
        !self.queues.is_empty()
    }

    fn pool(&self) -> Option<&'static Pool> {
        Some(self.pool)
    }

    fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    fn detail(&self) -> String {
        self.detail.clone()
    }
}
