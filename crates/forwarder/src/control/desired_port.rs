//! Converts a port of the contract to the driver's configuration, and back for audits.

mod message;

use std::net::IpAddr;

use stoa_api::v1;
use stoa_api::v1::port::Driver;
use stoa_ports::{
    AfPacketConfig, AfXdpConfig, AutoConfig, Destinations, DpdkConfig, Encapsulation,
    GeneratorConfig, MemifConfig, MemifRole, NullConfig, PcapConfig, PortConfig, TapConfig,
    TunnelConfig, XdpAttach, XdpBind,
};

use super::desired::{ValidationErrors, address};

pub(super) use message::message;

fn text(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// The driver's configuration; `None` after an error.
pub(super) fn parse(port: &v1::Port, errors: &mut ValidationErrors) -> Option<PortConfig> {
    let (rx, tx) = (queues(port.rx_queues), queues(port.tx_queues));
    let path = || format!("port {:?}", port.interface);
    let Some(driver) = &port.driver else {
        errors.add(
            path(),
            "has no driver",
            "Choose one: auto, af-xdp, af-packet, tap, memif, dpdk, pcap, generator, tunnel or null.",
        );
        return None;
    };
    Some(match driver {
        Driver::AfPacket(config) => PortConfig::AfPacket(AfPacketConfig {
            device: config.device.clone(),
            netns: text(&config.netns),
            rx_queues: rx,
            tx_queues: tx,
            mtu: port.mtu,
        }),
        Driver::AfXdp(config) if config.auto => PortConfig::Auto(AutoConfig {
            device: config.device.clone(),
            netns: text(&config.netns),
            rx_queues: rx,
            tx_queues: tx,
            mtu: port.mtu,
        }),
        Driver::AfXdp(config) => PortConfig::AfXdp(AfXdpConfig {
            device: config.device.clone(),
            netns: text(&config.netns),
            queues: rx.max(tx),
            attach: match config.attach() {
                v1::XdpAttach::AttachAuto => XdpAttach::Auto,
                v1::XdpAttach::AttachNative => XdpAttach::Native,
                v1::XdpAttach::AttachGeneric => XdpAttach::Generic,
            },
            bind: match config.bind() {
                v1::XdpBind::BindAuto => XdpBind::Auto,
                v1::XdpBind::BindCopy => XdpBind::Copy,
                v1::XdpBind::BindZeroCopy => XdpBind::ZeroCopy,
            },
            need_wakeup: !config.always_call,
            mtu: port.mtu,
        }),
        Driver::Tap(config) => PortConfig::Tap(TapConfig {
            device: config.device.clone(),
            netns: text(&config.netns),
            queues: rx.max(tx),
            mtu: port.mtu,
        }),
        Driver::Memif(config) => PortConfig::Memif(MemifConfig {
            socket: config.socket.clone(),
            id: config.id,
            role: if config.master { MemifRole::Master } else { MemifRole::Slave },
            secret: text(&config.secret),
            peer_user: config.peer_user,
            trust_memory: false,
            ring_size: config.ring_size,
            buffer_size: config.buffer_size,
            rx_queues: rx,
            tx_queues: tx,
            mtu: port.mtu,
            mac: None,
        }),
        Driver::Dpdk(config) => PortConfig::Dpdk(DpdkConfig {
            device: config.device.clone(),
            rx_queues: rx,
            tx_queues: tx,
            workers: 1,
            ring_size: queues(config.ring_size),
            mtu: port.mtu,
        }),
        Driver::Pcap(config) => PortConfig::Pcap(PcapConfig {
            input: text(&config.input).map(Into::into),
            output: text(&config.output).map(Into::into),
            folder: None,
            mtu: port.mtu,
            mac: None,
        }),
        Driver::Generator(config) => {
            PortConfig::Generator(generator(config, (rx, port.mtu), errors, &path)?)
        }
        Driver::Tunnel(config) => PortConfig::Tunnel(tunnel(config, port.mtu, errors, &path)?),
        Driver::Null(_) => PortConfig::Null(NullConfig { tx_queues: tx, mtu: port.mtu, mac: None }),
    })
}

fn queues(count: u32) -> u16 {
    count.min(u16::MAX.into()) as u16
}

fn tunnel(
    config: &v1::Tunnel,
    mtu: u32,
    errors: &mut ValidationErrors,
    path: &dyn Fn() -> String,
) -> Option<TunnelConfig> {
    let ends = (address(&config.local), address(&config.remote));
    let is_end = |ip: &IpAddr| !ip.is_multicast() && !ip.is_unspecified();
    let (Some(local), Some(remote)) = (ends.0.filter(is_end), ends.1.filter(is_end)) else {
        let cause = "is a tunnel without two unicast addresses";
        errors.add(path(), cause, "Set the local and the remote address.");
        return None;
    };
    if local.is_ipv4() != remote.is_ipv4() || local == remote {
        let cause = format!("is a tunnel from {local} to {remote}");
        errors.add(path(), cause, "Use two different addresses of one family.");
        return None;
    }
    let encapsulation = match config.encapsulation() {
        v1::Encapsulation::Ip => Encapsulation::Ip,
        v1::Encapsulation::Gre => Encapsulation::Gre,
        v1::Encapsulation::Esp => Encapsulation::Esp,
    };
    let Ok(hop_limit) = u8::try_from(config.hop_limit) else {
        let cause = format!("is a tunnel with the hop limit {}", config.hop_limit);
        errors.add(path(), cause, "Use 1 to 255, or 0 for the default.");
        return None;
    };
    Some(TunnelConfig { local, remote, encapsulation, hop_limit, mtu })
}

fn generator(
    config: &v1::Generator,
    (queues, mtu): (u16, u32),
    errors: &mut ValidationErrors,
    path: &dyn Fn() -> String,
) -> Option<GeneratorConfig> {
    let default = GeneratorConfig::default();
    let mac = <[u8; 6]>::try_from(config.destination_mac.as_slice()).ok();
    if mac.is_none() && !config.destination_mac.is_empty() {
        errors.add(path(), "has a destination MAC that is not six bytes", "Use six bytes or none.");
        return None;
    }
    Some(GeneratorConfig {
        frame: if config.frame == 0 {
            default.frame
        } else {
            config.frame.min(u16::MAX.into()) as u16
        },
        count: config.count,
        rate: config.rate,
        destination_mac: mac,
        source: address(&config.source).unwrap_or(default.source),
        destination: address(&config.destination).unwrap_or(default.destination),
        destinations: Destinations::Range(config.destinations.max(1)),
        vlan: config.vlan.min(4095) as u16,
        queues,
        mtu,
        ..default
    })
}
