//! `auto`: a Linux network device by the driver that suits it best.
//!
//! Hardware that can attach an XDP program in its driver gets `af-xdp`. A virtual device gets
//! `af-packet`: the Linux at its other end hands over super-frames and unfinished checksums,
//! which a packet socket carries as they are and AF_XDP makes it cut and finish one by one.

use std::os::fd::BorrowedFd;

use stoa_engine::{Port, PortEvent};

use crate::af_packet::{self, AfPacket};
use crate::af_xdp::{self, AfXdp};
use crate::config::{AfPacketConfig, AfXdpConfig, AutoConfig, XdpAttach};
use crate::error::OpenError;
use crate::ethtool::{self, Driver};
use crate::follow::{Follower, Retry};
use crate::netns::Namespace;

/// A port on a Linux network device.
pub struct Auto {
    config: AutoConfig,
    inner: Inner,
    /// Why it is this driver.
    reason: String,
    /// The device may come back as another one.
    is_open: bool,
    retry: Retry,
}

enum Inner {
    Packet(Box<AfPacket>),
    Xdp(Box<AfXdp>),
}

impl Inner {
    fn port(&self) -> &dyn Port {
        match self {
            Self::Packet(port) => &**port,
            Self::Xdp(port) => &**port,
        }
    }

    fn port_mut(&mut self) -> &mut dyn Port {
        match self {
            Self::Packet(port) => &mut **port,
            Self::Xdp(port) => &mut **port,
        }
    }
}

/// Opens a port on the device that the configuration names.
///
/// # Errors
/// Those of [`af_packet::open`].
pub fn open(config: &AutoConfig) -> Result<Auto, OpenError> {
    let (inner, reason) = choose(config)?;
    let mut retry = Retry::new();
    // It was examined just now.
    retry.failed();
    Ok(Auto { config: config.clone(), inner, reason, is_open: false, retry })
}

fn choose(config: &AutoConfig) -> Result<(Inner, String), OpenError> {
    let namespace = Namespace::find(config.netns.as_deref())?;
    let (follower, _) = Follower::new(&config.device, namespace)?;
    let driver = follower.watch().map(|watch| ethtool::driver(watch, &config.device));
    let Driver { name, is_virtual } = driver.unwrap_or_default();
    if is_virtual {
        let reason = format!("{name} is virtual: super-frames pass whole");
        return Ok((packet(config)?, reason));
    }
    let xdp = AfXdpConfig {
        device: config.device.clone(),
        netns: config.netns.clone(),
        queues: config.rx_queues,
        attach: XdpAttach::Native,
        mtu: config.mtu,
        ..AfXdpConfig::default()
    };
    match af_xdp::open(&xdp) {
        Ok(port) => Ok((Inner::Xdp(Box::new(port)), format!("{name} is hardware"))),
        Err(error) => Ok((packet(config)?, format!("af-xdp: {error}"))),
    }
}

fn packet(config: &AutoConfig) -> Result<Inner, OpenError> {
    let AutoConfig { device, netns, rx_queues, tx_queues, mtu } = config.clone();
    let config = AfPacketConfig { device, netns, rx_queues, tx_queues, mtu };
    Ok(Inner::Packet(Box::new(af_packet::open(&config)?)))
}

impl Auto {
    /// On failure the other driver is tried; a device that is made anew is examined
    /// anew.
    fn reconsider(&mut self) {
        if let Inner::Xdp(port) = &self.inner
            && let Some(refused) = port.refused()
        {
            let reason = format!("af-xdp: {refused}");
            if let Ok(inner) = packet(&self.config) {
                (self.inner, self.reason) = (inner, reason);
            }
            return;
        }
        if self.is_open || !self.retry.is_due() {
            return;
        }
        self.retry.failed();
        if let Ok((inner, reason)) = choose(&self.config)
            && inner.port().driver() != self.inner.port().driver()
            && !self.reason.starts_with("af-xdp: ")
        {
            (self.inner, self.reason) = (inner, reason);
        }
    }
}

impl Port for Auto {
    fn driver(&self) -> &'static str {
        self.inner.port().driver()
    }

    fn mac(&self) -> [u8; 6] {
        self.inner.port().mac()
    }

    fn mtu(&self) -> u32 {
        self.inner.port().mtu()
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.inner.port().descriptors()
    }

    fn service(&mut self) -> Vec<PortEvent> {
        if !self.is_open {
            self.reconsider();
        }
        let events = self.inner.port_mut().service();
        for event in &events {
            self.is_open = matches!(event, PortEvent::Up(_));
            if self.is_open {
                self.retry.reset();
            }
        }
        events
    }

    fn missed(&self) -> u64 {
        self.inner.port().missed()
    }

    fn detail(&self) -> String {
        let port = self.inner.port();
        format!("{} (auto: {} because {})", port.detail(), port.driver(), self.reason)
    }
}
