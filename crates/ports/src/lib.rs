//! How packets enter and leave: one folder per driver.
//!
//! A driver gives the forwarder a [`stoa_engine::Port`]: a control side that the
//! control thread services, and queues that workers own. Everything that a peer can
//! write (rings, control messages, files, packets) is read once, checked, then
//! used: a malicious peer loses its own packets or its link, nothing else.
//!
//! This crate is one of the crates that may use `unsafe`: each block states why it is sound.

pub mod af_packet;
pub mod af_xdp;
pub mod auto;
mod config;
mod device_lock;
pub mod device_opener;
#[cfg(feature = "dpdk")]
pub mod dpdk;
mod error;
mod ethtool;
pub mod folders;
mod follow;
pub mod generator;
pub mod host_interface;
mod link;
pub mod memif;
mod netdevice;
mod netns;
pub mod null;
pub mod offload;
pub mod pcap;
pub mod tap;
pub mod tunnel;

pub use config::{
    AfPacketConfig, AfXdpConfig, AutoConfig, Destinations, DpdkConfig, GeneratorConfig,
    HostInterfaceConfig, Kind, MemifConfig, MemifRole, Mix, NullConfig, PcapConfig, PortConfig,
    TapConfig, XdpAttach, XdpBind,
};
pub use error::OpenError;
pub use folders::Folders;
pub use generator::{GreTunnels, Senders};
pub use link::MTU_MAX;
pub use netns::{Identity, NotEntered, Step};
pub use tunnel::{Encapsulation, TunnelConfig};

use stoa_engine::{Pool, Port};

/// The drivers by name, in the order of [`INPUTS`].
pub const DRIVERS: &[&str] =
    &["af-packet", "af-xdp", "tap", "memif", "dpdk", "pcap", "generator", "null"];

/// Those of [`DRIVERS`] that this build has.
pub fn drivers() -> impl Iterator<Item = &'static str> {
    DRIVERS.iter().copied().filter(|name| cfg!(feature = "dpdk") || *name != "dpdk")
}

/// The graph's name for what each driver receives, in the order of [`DRIVERS`].
pub const INPUTS: &[&str] = &[
    "af-packet-input",
    "af-xdp-input",
    "tap-input",
    "memif-input",
    "dpdk-input",
    "pcap-input",
    "generator-input",
    "null-input",
];

/// The place of a driver in [`DRIVERS`] and [`INPUTS`]; the first one's for a name of none.
pub fn input_of(driver: &str) -> usize {
    DRIVERS.iter().position(|name| *name == driver).unwrap_or(0)
}

/// Opens a port. Its queues come with the first [`Port::service`] that finds the link up.
///
/// # Errors
/// The fault of the configuration or the system, and how to fix it.
pub fn open(config: &PortConfig, pool: &'static Pool) -> Result<Box<dyn Port>, OpenError> {
    match config {
        PortConfig::AfPacket(config) => Ok(Box::new(af_packet::open(config)?)),
        PortConfig::AfXdp(config) => Ok(Box::new(af_xdp::open(config)?)),
        PortConfig::Auto(config) => Ok(Box::new(auto::open(config)?)),
        PortConfig::Tap(config) => Ok(Box::new(tap::open(config)?)),
        PortConfig::Memif(config) => Ok(Box::new(memif::open(config)?)),
        #[cfg(feature = "dpdk")]
        PortConfig::Dpdk(config) => Ok(Box::new(dpdk::open(config, pool)?)),
        #[cfg(not(feature = "dpdk"))]
        PortConfig::Dpdk(_) => Err(OpenError::NotBuilt { driver: "dpdk" }),
        PortConfig::Pcap(config) => Ok(Box::new(pcap::open(config)?)),
        PortConfig::Generator(config) => Ok(Box::new(generator::open(config, pool)?)),
        PortConfig::Null(config) => Ok(Box::new(null::open(config)?)),
        PortConfig::Tunnel(config) => Ok(Box::new(tunnel::open(config)?)),
        PortConfig::HostInterface(config) => Ok(Box::new(host_interface::open(config)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(not(feature = "dpdk"))]
    #[test]
    fn a_driver_that_was_not_built_says_how_to_build_it() {
        let pool = Pool::leak(512, stoa_engine::pool::HugePages::Never).unwrap();
        let config = DpdkConfig { device: "net_null0".into(), ..DpdkConfig::default() };
        let error = open(&PortConfig::Dpdk(config), pool).err().unwrap();
        assert!(!error.may_pass() && error.to_string().contains("--features dpdk"), "{error}");
        assert!(drivers().all(|name| name != "dpdk"));
    }

    #[test]
    fn every_driver_has_one_input() {
        assert_eq!(DRIVERS.len(), INPUTS.len());
        for (driver, input) in DRIVERS.iter().zip(INPUTS) {
            assert_eq!(format!("{driver}-input"), *input);
            assert_eq!(INPUTS[input_of(driver)], *input);
        }
    }
}
