//! `tunnel`: a port without a device. Its packets leave and come by other ports, inside packets to
//! the other end; the graph puts them in and takes them out. This is only what every port reports of
//! itself.

use std::net::IpAddr;

use stoa_engine::{Port, PortEvent, Queues};

use crate::error::OpenError;
use crate::link;

/// The encapsulation between the two IP headers of a tunnel's packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Encapsulation {
    /// Nothing: IP in IP (RFC 2003, RFC 2473, RFC 4213).
    #[default]
    Ip,
    /// A GRE header (RFC 2784, RFC 7676).
    Gre,
    /// ESP in tunnel mode (RFC 4303), by security associations of the interface.
    Esp,
}

/// A tunnel from one of our addresses to another router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunnelConfig {
    /// Our address.
    pub local: IpAddr,
    /// The other end, of the same family.
    pub remote: IpAddr,
    /// The encapsulation between the headers.
    pub encapsulation: Encapsulation,
    /// TTL or hop limit of outer packets, at least 1; 0: 64.
    pub hop_limit: u8,
    /// Bytes of an inner packet, 68 to 11,050, less what ESP and its outer header add; 0: what fits into 1,500 bytes.
    pub mtu: u32,
}

/// The most bytes that ESP adds: UDP header (8), ESP header (8), IV (16), padding (15), trailer (2), ICV (32).
const ESP: u32 = 81;

/// The path MTU between the ends, in bytes of an IP packet.
const WAY: u32 = 1500;

/// The port of a tunnel.
pub struct Tunnel {
    config: TunnelConfig,
    mac: [u8; 6],
    up: bool,
}

impl TunnelConfig {
    /// Bytes before an inner packet.
    pub fn overhead(&self) -> u32 {
        let outer = if self.local.is_ipv4() { 20 } else { 40 };
        outer
            + match self.encapsulation {
                Encapsulation::Ip => 0,
                Encapsulation::Gre => 4,
                Encapsulation::Esp => ESP,
            }
    }
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
    let most = match config.encapsulation {
        // The end of the packet, too, must find space in a buffer.
        Encapsulation::Esp => link::MTU_MAX - config.overhead(),
        Encapsulation::Ip | Encapsulation::Gre => link::MTU_MAX,
    };
    let mtu = link::mtu_up_to(config.mtu, WAY - config.overhead(), most)?;
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

    fn needs_service(&self) -> bool {
        !self.up
    }

    fn detail(&self) -> String {
        let TunnelConfig { local, remote, encapsulation, .. } = &self.config;
        let how = match encapsulation {
            Encapsulation::Ip => "IP in IP",
            Encapsulation::Gre => "GRE",
            Encapsulation::Esp => "ESP",
        };
        format!("{how} from {local} to {remote}")
    }
}
