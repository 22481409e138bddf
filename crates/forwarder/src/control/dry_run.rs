//! A desired state without a machine: the transaction of the forwarder, with ports that open no device. `stoa check`
//! refuses with it what `stoa run` would refuse, since both run the same code on tables of the same size.

use std::sync::Arc;

use stoa_api::audit::{Kind, Tally};
use stoa_api::v1;
use stoa_engine::pool::HugePages;
use stoa_engine::{Pool, Port};
use stoa_ports::{Folders, NullConfig, OpenError, PortConfig};

use super::apply::Forwarder;
use super::desired::{DesiredState, Workers};
use super::limits::Limits;
use crate::ipfix;

/// What a forwarder that starts with `desired` and these folders refuses, whatever devices and CPUs its machine has.
///
/// # Errors
/// All errors that were found.
pub fn check(desired: &v1::Desired, folders: Folders) -> Result<(), Vec<v1::ValidationError>> {
    apply(alone(DesiredState::parse(desired)?), folders).map(drop)
}

/// The same without what opens sockets: a partner or a collector would take this process for the router. Nor is the log
/// of this process the forwarder's.
fn alone(desired: DesiredState) -> DesiredState {
    let ipfix = ipfix::Settings { collectors: Vec::new(), ..desired.ipfix };
    DesiredState { logging: None, flow_sync: None, ipfix, ..desired }
}

/// What such a forwarder has in force of `desired`, for audits, and what it has where nothing is configured. Its
/// workers run on no CPU of their own, and without huge pages.
///
/// # Errors
/// All errors that were found.
pub fn audit(
    desired: &v1::Desired,
    folders: Folders,
) -> Result<(Tally, v1::Desired), Vec<v1::ValidationError>> {
    let forwarder = apply(DesiredState::parse(desired)?, folders)?;
    Ok((forwarder.audit_desired(&Kind::ALL), forwarder.audit_defaults()))
}

fn apply(desired: DesiredState, folders: Folders) -> Result<Forwarder, Vec<v1::ValidationError>> {
    let workers =
        Workers { cpus: Vec::new(), huge_pages: HugePages::Never, ..desired.workers.clone() };
    let open = move |config: &PortConfig, pool| open(&folders.confine(config)?, pool);
    let mut forwarder = Forwarder::stepped(Limits::default(), Arc::new(open));
    match forwarder.apply(DesiredState { workers, ..desired }) {
        Ok(_) => Ok(forwarder),
        Err(refused) => Err(refused.errors),
    }
}

/// Opens a port that needs no device, and a stand-in for one that does.
fn open(config: &PortConfig, pool: &'static Pool) -> Result<Box<dyn Port>, OpenError> {
    let (tx_queues, mtu) = match config {
        PortConfig::Generator(_) | PortConfig::Null(_) | PortConfig::Tunnel(_) => {
            return stoa_ports::open(config, pool);
        }
        PortConfig::AfPacket(it) => (it.rx_queues.max(it.tx_queues), it.mtu),
        PortConfig::AfXdp(it) => (it.queues, it.mtu),
        PortConfig::Auto(it) => (it.rx_queues.max(it.tx_queues), it.mtu),
        PortConfig::Tap(it) => (it.queues, it.mtu),
        PortConfig::Memif(it) => (it.rx_queues.max(it.tx_queues), it.mtu),
        PortConfig::Dpdk(it) => (it.rx_queues.max(it.tx_queues), it.mtu),
        PortConfig::Pcap(it) => (0, it.mtu),
        PortConfig::HostInterface(it) => (it.queues, 0),
    };
    stoa_ports::open(&PortConfig::Null(NullConfig { tx_queues, mtu, mac: None }), pool)
}

#[cfg(test)]
mod tests {
    use stoa_api::v1::port::Driver;

    use super::*;

    /// A device that this machine does not have, with 5,000 VLANs.
    fn with_vlans(adjacencies: u32) -> v1::Desired {
        let device = "no-such-device".to_owned();
        let driver = Driver::AfPacket(v1::AfPacket { device, netns: "nowhere".to_owned() });
        let interface = |name: &str, parent: &str, tags: Option<(u32, u32)>| {
            let tag = |vid: u32| Some(v1::Tag { tpid: 0x8100, vid });
            v1::Interface {
                name: name.to_owned(),
                parent: parent.to_owned(),
                enabled: true,
                outer: tags.and_then(|(outer, _)| tag(outer)),
                inner: tags.and_then(|(_, inner)| tag(inner)),
                ..v1::Interface::default()
            }
        };
        let vlan =
            |at: u32| interface(&format!("lan.{at}"), "lan", Some((1 + at / 4000, 1 + at % 4000)));
        let mut interfaces = vec![interface("lan", "", None)];
        interfaces.extend((0..5000).map(vlan));
        v1::Desired {
            workers: Some(v1::Workers {
                count: 2,
                cpus: vec![3000, 3001],
                ..v1::Workers::default()
            }),
            ports: vec![v1::Port {
                interface: "lan".to_owned(),
                driver: Some(driver),
                ..v1::Port::default()
            }],
            interfaces,
            limits: Some(v1::Limits { adjacencies, ..v1::Limits::default() }),
            ..v1::Desired::default()
        }
    }

    #[test]
    fn it_needs_no_device_and_knows_the_tables() {
        assert_eq!(check(&with_vlans(0), Folders::default()), Ok(()));
        let errors = check(&with_vlans(5000), Folders::default()).unwrap_err();
        assert!(errors[0].path.starts_with("interface"), "{errors:?}");
        assert!(errors[0].fix.contains("limits/adjacencies"), "{errors:?}");
    }

    #[test]
    fn it_talks_to_nobody() {
        let collector = v1::IpfixCollector {
            name: "flows".to_owned(),
            address: vec![127, 0, 0, 1],
            port: 4739,
            ..v1::IpfixCollector::default()
        };
        let ipfix = v1::Ipfix {
            collectors: vec![collector],
            active_timeout_s: 60,
            idle_timeout_s: 15,
            template_interval_s: 60,
            message_size: 1400,
            ..v1::Ipfix::default()
        };
        let flow_sync = v1::FlowSync {
            local_address: vec![127, 0, 0, 1],
            local_port: 8784,
            partner_address: vec![127, 0, 0, 2],
            partner_port: 8784,
            secret: "a long random value".to_owned(),
            minimum_age_s: 5,
        };
        let desired =
            v1::Desired { ipfix: Some(ipfix), flow_sync: Some(flow_sync), ..with_vlans(0) };
        let desired = DesiredState::parse(&desired).unwrap();
        assert!(desired.flow_sync.is_some() && !desired.ipfix.collectors.is_empty());
        let mut forwarder = apply(alone(desired), Folders::default()).unwrap();
        let state = forwarder.state().unwrap();
        assert_eq!(state.flow_sync(), v1::ListFlowSyncReply::default());
        assert_eq!(state.ipfix(), v1::ListIpfixReply::default());
    }
}
