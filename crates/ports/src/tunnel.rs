//! `tunnel`: a port without a device. Its packets leave and come by other ports, inside packets to
//! the other end; the graph puts them in and takes them out. Here is only what every port tells of
//! itself.

use stoa_engine::{Port, PortEvent, Queues};

use crate::config::{Encapsulation, TunnelConfig};
use crate::error::OpenError;
use crate::link;

/// What the way between the ends carries, bytes of an IP packet.
const WAY: u32 = 1500;

/// The port of a tunnel.
pub struct Tunnel {
    config: TunnelConfig,
    mac: [u8; 6],
    up: bool,
}

/// Bytes before an inner packet.
fn overhead(config: &TunnelConfig) -> u32 {
    let outer = if config.local.is_ipv4() { 20 } else { 40 };
    outer + if config.encapsulation == Encapsulation::Gre { 4 } else { 0 }
}

/// Opens the port.
///
/// # Errors
/// Ends of two families, or an impossible MTU.
pub fn open(config: &TunnelConfig) -> Result<Tunnel, OpenError> {
    if config.local.is_ipv4() != config.remote.is_ipv4() {
        let reason = format!("{} is not of the family of {}", config.remote, config.local);
        return Err(OpenError::Config { field: "remote", reason });
    }
    let mtu = link::mtu(config.mtu, WAY - overhead(config))?;
    let config = TunnelConfig { mtu, ..config.clone() };
    Ok(Tunnel { config, mac: link::mac(None), up: false })
}

impl Port for Tunnel {
    fn driver(&self) -> &'static str {
        "tunnel"
    }

    fn mac(&self) -> [u8; 6] {
        self.mac
    }

    fn mtu(&self) -> u32 {
        self.config.mtu
    }

    fn service(&mut self) -> Vec<PortEvent> {
        if std::mem::replace(&mut self.up, true) {
            return Vec::new();
        }
        vec![PortEvent::Up(Queues::default())]
    }

    fn detail(&self) -> String {
        let TunnelConfig { local, remote, encapsulation, .. } = &self.config;
        let how = match encapsulation {
            Encapsulation::Ip => "IP in IP",
            Encapsulation::Gre => "GRE",
        };
        format!("{how} from {local} to {remote}")
    }
}
