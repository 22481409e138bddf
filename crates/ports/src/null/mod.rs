//! `null`: receives nothing, and discards what is sent; the worker frees it.

use stoa_engine::{Doze, PoolCache, Port, PortEvent, Queues, RxQueue, TxQueue, Vector};

use crate::config::NullConfig;
use crate::error::OpenError;
use crate::link;

/// A port that receives nothing and discards what is sent.
pub struct Null {
    mac: [u8; 6],
    tx_queues: u16,
    mtu: u32,
    up: bool,
}

/// Opens the port.
///
/// # Errors
/// More than 64 queues, or an impossible MTU.
pub fn open(config: &NullConfig) -> Result<Null, OpenError> {
    let tx_queues = link::queues("tx-queues", config.tx_queues, link::QUEUES_MAX)?;
    let mtu = link::mtu(config.mtu, link::MTU)?;
    Ok(Null { mac: link::mac(config.mac), tx_queues, mtu, up: false })
}

impl Port for Null {
    fn driver(&self) -> &'static str {
        "null"
    }

    fn mac(&self) -> [u8; 6] {
        self.mac
    }

    fn mtu(&self) -> u32 {
        self.mtu
    }

    fn service(&mut self) -> Vec<PortEvent> {
        if std::mem::replace(&mut self.up, true) {
            return Vec::new();
        }
        let tx = (0..self.tx_queues).map(|_| Box::new(NullTx) as Box<dyn TxQueue>).collect();
        vec![PortEvent::Up(Queues { rx: vec![Box::new(NullRx)], tx })]
    }

    fn needs_service(&self) -> bool {
        !self.up
    }

    fn detail(&self) -> String {
        "swallows what is sent".into()
    }
}

struct NullRx;

impl RxQueue for NullRx {
    fn receive(&mut self, _: &mut Vector, _: &mut PoolCache) -> usize {
        0
    }

    fn doze(&mut self) -> Doze {
        Doze::Never
    }
}

/// Takes everything; the worker frees it.
pub(crate) struct NullTx;

impl TxQueue for NullTx {
    fn transmit(&mut self, vector: &mut Vector, _: &mut PoolCache) -> usize {
        vector.len()
    }
}
