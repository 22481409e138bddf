//! `dpdk`: any device that DPDK has a driver for, a network card by its address on the bus or a
//! virtual one.
//!
//! ```text
//! device -> buffers of the pool -> packets
//! packets -> their buffers -> device -> pool
//! ```
//! The device writes into the pool's buffers and reads out of them: no copy. DPDK requires a header of
//! its own for each; those lie beside the pool (decision 21). Only frames that lie in
//! several buffers are copied, into one.

mod device;
mod eal;
mod mempool;
mod name;
mod queue;
mod shim;

use std::sync::Arc;

use stoa_engine::{Pool, Port, PortEvent, Queues};

use crate::config::DpdkConfig;
use crate::error::OpenError;
use crate::link;
use device::Device;
use queue::{Receiver, Sender};

/// A port on a device of DPDK.
pub struct Dpdk {
    device: Arc<Device>,
    mac: [u8; 6],
    /// Speed of the link in Mbit/s; `None`: it is down, or not yet queried.
    speed: Option<u32>,
    was_reported: bool,
}

/// Opens a port on the device that the configuration names, and starts DPDK if it does not run.
///
/// # Errors
/// What DPDK cannot do and what to do about it: no such device or driver, a device in use
/// by another port, more queues than it has, an MTU that it does not carry.
pub fn open(config: &DpdkConfig, pool: &'static Pool) -> Result<Dpdk, OpenError> {
    let device = Device::start(config, pool)?;
    let mac = device.facts().mac;
    // Some virtual devices have none.
    let mac = link::mac((mac != [0; 6]).then_some(mac));
    Ok(Dpdk { device: Arc::new(device), mac, speed: None, was_reported: false })
}

impl Dpdk {
    fn queues(&self) -> Queues {
        let (device, mut queues) = (&self.device, Queues::default());
        let longest = link::longest(self.mtu());
        for queue in 0..device.receiving.len() as u16 {
            queues.rx.push(Box::new(Receiver::new(device, queue, longest)));
        }
        for queue in 0..device.sending.len() as u16 {
            queues.tx.push(Box::new(Sender::new(device, queue, longest)));
        }
        queues
    }
}

impl Port for Dpdk {
    fn driver(&self) -> &'static str {
        "dpdk"
    }

    fn mac(&self) -> [u8; 6] {
        self.mac
    }

    fn mtu(&self) -> u32 {
        self.device.facts().mtu.min(link::MTU_MAX)
    }

    fn service(&mut self) -> Vec<PortEvent> {
        let speed = self.device.link();
        let (was_up, is_up) = (self.speed.is_some(), speed.is_some());
        self.speed = speed;
        let was_reported = std::mem::replace(&mut self.was_reported, true);
        match (was_up, is_up) {
            (false, true) => vec![PortEvent::Up(self.queues())],
            (_, false) if was_up || !was_reported => {
                let reason = format!("{} has no link", self.device.name());
                vec![PortEvent::Down(reason)]
            }
            _ => Vec::new(),
        }
    }

    fn pool(&self) -> Option<&'static Pool> {
        Some(self.device.pool())
    }

    fn set_enabled(&mut self, enabled: bool) {
        self.device.set_link(enabled);
    }

    fn missed(&self) -> u64 {
        self.device.missed()
    }

    fn detail(&self) -> String {
        let (name, driver) = (self.device.name(), self.device.driver());
        let (rx, tx) = (self.device.receiving.len(), self.device.sending.len());
        let facts = self.device.facts();
        let speed = match self.speed {
            None => "no link".to_owned(),
            Some(0) => "link up".to_owned(),
            Some(speed) => format!("link up, {} Gbit/s", f64::from(speed) / 1000.0),
        };
        let rss = match (rx, facts.spreads) {
            (1, _) => "",
            (_, 0) => "; the device does not support RSS",
            _ => "; RSS distributes packets by flow",
        };
        format!(
            "{name} by DPDK's {driver}: {speed}; queues {rx} in, {tx} out, rings {} and {}{rss}; \
             zero-copy; no interrupts: always polled",
            facts.rx_ring, facts.tx_ring
        )
    }
}
