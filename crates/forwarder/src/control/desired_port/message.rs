//! The configuration of a driver as a message of the contract again. Parsing the message gives the same configuration.

use stoa_api::v1;
use stoa_api::v1::port::Driver;
use stoa_ports::{
    AfXdpConfig, Destinations, Encapsulation, GeneratorConfig, MemifConfig, MemifRole, PcapConfig,
    PortConfig, TunnelConfig, XdpAttach, XdpBind,
};

use crate::control::listing::octets;

fn text(text: Option<&String>) -> String {
    text.cloned().unwrap_or_default()
}

/// The port of an interface.
pub(in crate::control) fn message(
    interface: &str,
    config: &PortConfig,
    software_rss: bool,
) -> v1::Port {
    let (queues, mtu, driver) = match config {
        PortConfig::AfPacket(it) => {
            let (device, netns) = (it.device.clone(), text(it.netns.as_ref()));
            let driver = Driver::AfPacket(v1::AfPacket { device, netns });
            ((it.rx_queues, it.tx_queues), it.mtu, Some(driver))
        }
        PortConfig::Auto(it) => {
            let (device, netns) = (it.device.clone(), text(it.netns.as_ref()));
            let driver = v1::AfXdp { device, netns, auto: true, ..v1::AfXdp::default() };
            ((it.rx_queues, it.tx_queues), it.mtu, Some(Driver::AfXdp(driver)))
        }
        PortConfig::AfXdp(it) => ((it.queues, it.queues), it.mtu, Some(af_xdp(it))),
        PortConfig::Tap(it) => {
            let (device, netns) = (it.device.clone(), text(it.netns.as_ref()));
            ((it.queues, it.queues), it.mtu, Some(Driver::Tap(v1::Tap { device, netns })))
        }
        PortConfig::Memif(it) => ((it.rx_queues, it.tx_queues), it.mtu, Some(memif(it))),
        PortConfig::Dpdk(it) => {
            let (device, ring_size) = (it.device.clone(), it.ring_size.into());
            let driver = Driver::Dpdk(v1::Dpdk { device, ring_size });
            ((it.rx_queues, it.tx_queues), it.mtu, Some(driver))
        }
        PortConfig::Pcap(it) => ((0, 0), it.mtu, Some(pcap(it))),
        PortConfig::Generator(it) => ((it.queues, 0), it.mtu, Some(generator(it))),
        PortConfig::Null(it) => ((0, it.tx_queues), it.mtu, Some(Driver::Null(v1::Null {}))),
        PortConfig::Tunnel(it) => ((0, 0), it.mtu, Some(tunnel(it))),
        // It has no port of the desired state.
        PortConfig::HostInterface(_) => ((0, 0), 0, None),
    };
    let interface = interface.to_owned();
    let (rx_queues, tx_queues) = (queues.0.into(), queues.1.into());
    v1::Port { interface, rx_queues, tx_queues, mtu, driver, software_rss }
}

fn af_xdp(it: &AfXdpConfig) -> Driver {
    let attach = match it.attach {
        XdpAttach::Auto => v1::XdpAttach::AttachAuto,
        XdpAttach::Native => v1::XdpAttach::AttachNative,
        XdpAttach::Generic => v1::XdpAttach::AttachGeneric,
    };
    let bind = match it.bind {
        XdpBind::Auto => v1::XdpBind::BindAuto,
        XdpBind::Copy => v1::XdpBind::BindCopy,
        XdpBind::ZeroCopy => v1::XdpBind::BindZeroCopy,
    };
    Driver::AfXdp(v1::AfXdp {
        device: it.device.clone(),
        netns: text(it.netns.as_ref()),
        attach: attach.into(),
        bind: bind.into(),
        always_call: !it.need_wakeup,
        auto: false,
    })
}

fn memif(it: &MemifConfig) -> Driver {
    Driver::Memif(v1::Memif {
        socket: it.socket.clone(),
        id: it.id,
        master: it.role == MemifRole::Master,
        secret: text(it.secret.as_ref()),
        ring_size: it.ring_size,
        buffer_size: it.buffer_size,
        peer_user: it.peer_user,
    })
}

fn pcap(it: &PcapConfig) -> Driver {
    let path = |path: &Option<std::path::PathBuf>| {
        path.as_ref().map(|path| path.to_string_lossy().into_owned()).unwrap_or_default()
    };
    Driver::Pcap(v1::Pcap { input: path(&it.input), output: path(&it.output) })
}

fn generator(it: &GeneratorConfig) -> Driver {
    let destinations = match it.destinations {
        Destinations::Range(count) => count,
        // The contract has no lists.
        Destinations::List4(_) | Destinations::List6(_) => 0,
    };
    Driver::Generator(v1::Generator {
        frame: it.frame.into(),
        count: it.count,
        rate: it.rate,
        destination_mac: it.destination_mac.map(Vec::from).unwrap_or_default(),
        source: octets(it.source),
        destination: octets(it.destination),
        destinations,
        vlan: it.vlan.into(),
    })
}

fn tunnel(it: &TunnelConfig) -> Driver {
    let encapsulation = match it.encapsulation {
        Encapsulation::Ip => v1::Encapsulation::Ip,
        Encapsulation::Gre => v1::Encapsulation::Gre,
        Encapsulation::Esp => v1::Encapsulation::Esp,
    };
    Driver::Tunnel(v1::Tunnel {
        local: octets(it.local),
        remote: octets(it.remote),
        encapsulation: encapsulation.into(),
        hop_limit: it.hop_limit.into(),
    })
}

#[cfg(test)]
mod tests {
    use stoa_api::audit::{Kind, Tally, port_settings};

    use super::*;
    use crate::control::desired::ValidationErrors;
    use crate::control::desired_port::parse;

    /// Ports of all drivers, with no field at its default.
    fn ports() -> Vec<v1::Port> {
        let (device, netns) = ("d0".to_owned(), "blue".to_owned());
        let af_xdp = |auto| v1::AfXdp {
            device: device.clone(),
            netns: netns.clone(),
            attach: v1::XdpAttach::AttachGeneric.into(),
            bind: v1::XdpBind::BindCopy.into(),
            always_call: true,
            auto,
        };
        let drivers = [
            Driver::AfPacket(v1::AfPacket { device: device.clone(), netns: netns.clone() }),
            Driver::AfXdp(af_xdp(true)),
            Driver::AfXdp(af_xdp(false)),
            Driver::Tap(v1::Tap { device: device.clone(), netns: netns.clone() }),
            Driver::Memif(v1::Memif {
                socket: "memif.sock".into(),
                id: 3,
                master: true,
                secret: "secret".into(),
                ring_size: 512,
                buffer_size: 4096,
                peer_user: Some(7),
            }),
            Driver::Dpdk(v1::Dpdk { device, ring_size: 100_000 }),
            Driver::Pcap(v1::Pcap { input: "in.pcap".into(), output: "out.pcap".into() }),
            Driver::Generator(v1::Generator {
                frame: 80,
                count: 9,
                rate: 8,
                destination_mac: vec![2, 0, 0, 0, 0, 9],
                source: vec![10, 0, 0, 1],
                destination: vec![10, 0, 0, 2],
                destinations: 4,
                vlan: 6,
            }),
            Driver::Null(v1::Null {}),
            Driver::Tunnel(v1::Tunnel {
                local: vec![10, 0, 0, 1],
                remote: vec![10, 0, 0, 2],
                encapsulation: v1::Encapsulation::Gre.into(),
                hop_limit: 9,
            }),
        ];
        let port = |driver| v1::Port {
            interface: "p".into(),
            rx_queues: 3,
            tx_queues: 2,
            mtu: 1400,
            driver: Some(driver),
            software_rss: true,
        };
        drivers.map(port).into()
    }

    #[test]
    fn a_port_becomes_the_same_message_again() {
        for port in ports() {
            let mut errors = ValidationErrors::default();
            let config = parse(&port, &mut errors).expect("a valid port");
            assert!(errors.0.is_empty());
            let again = message("p", &config, true);
            assert_eq!(parse(&again, &mut errors), Some(config));
            let digest = |port: v1::Port| {
                let mut tally = Tally::default();
                port_settings(&mut tally, port, &v1::Desired::default());
                tally.sum(Kind::PortSettings)
            };
            assert_eq!(digest(again), digest(port.clone()), "{port:?}");
        }
    }
}
