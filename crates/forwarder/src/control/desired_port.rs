//! From the contract's port to the driver's configuration.

use std::net::IpAddr;

use stoa_api::v1;
use stoa_api::v1::port::Driver;
use stoa_ports::{
    AfPacketConfig, AfXdpConfig, AutoConfig, Destinations, DpdkConfig, Encapsulation,
    GeneratorConfig, MemifConfig, MemifRole, NullConfig, PcapConfig, PortConfig, TapConfig,
    TunnelConfig, XdpAttach, XdpBind,
};

use super::desired::{Reasons, address};

fn text(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// The driver's configuration, or reasons why there is none.
pub(super) fn parse(port: &v1::Port, reasons: &mut Reasons) -> Option<PortConfig> {
    let (rx, tx) = (queues(port.rx_queues), queues(port.tx_queues));
    let place = || format!("port {:?}", port.interface);
    let Some(driver) = &port.driver else {
        reasons.add(
            place(),
            "has no driver",
            "Choose one: auto, af-xdp, af-packet, tap, memif, dpdk, pcap, generator, tunnel or null.",
        );
        return None;
    };
    Some(match driver {
        Driver::AfPacket(given) => PortConfig::AfPacket(AfPacketConfig {
            device: given.device.clone(),
            netns: text(&given.netns),
            rx_queues: rx,
            tx_queues: tx,
            mtu: port.mtu,
        }),
        Driver::AfXdp(given) if given.auto => PortConfig::Auto(AutoConfig {
            device: given.device.clone(),
            netns: text(&given.netns),
            rx_queues: rx,
            tx_queues: tx,
            mtu: port.mtu,
        }),
        Driver::AfXdp(given) => PortConfig::AfXdp(AfXdpConfig {
            device: given.device.clone(),
            netns: text(&given.netns),
            queues: rx.max(tx),
            attach: match given.attach() {
                v1::XdpAttach::AttachAuto => XdpAttach::Auto,
                v1::XdpAttach::AttachNative => XdpAttach::Native,
                v1::XdpAttach::AttachGeneric => XdpAttach::Generic,
            },
            bind: match given.bind() {
                v1::XdpBind::BindAuto => XdpBind::Auto,
                v1::XdpBind::BindCopy => XdpBind::Copy,
                v1::XdpBind::BindZeroCopy => XdpBind::ZeroCopy,
            },
            need_wakeup: !given.always_call,
            mtu: port.mtu,
        }),
        Driver::Tap(given) => PortConfig::Tap(TapConfig {
            device: given.device.clone(),
            netns: text(&given.netns),
            queues: rx.max(tx),
            mtu: port.mtu,
        }),
        Driver::Memif(given) => PortConfig::Memif(MemifConfig {
            socket: given.socket.clone(),
            id: given.id,
            role: if given.master { MemifRole::Master } else { MemifRole::Slave },
            secret: text(&given.secret),
            trust_memory: false,
            ring_size: given.ring_size,
            buffer_size: given.buffer_size,
            rx_queues: rx,
            tx_queues: tx,
            mtu: port.mtu,
            mac: None,
        }),
        Driver::Dpdk(given) => PortConfig::Dpdk(DpdkConfig {
            device: given.device.clone(),
            rx_queues: rx,
            tx_queues: tx,
            workers: 1,
            ring_size: queues(given.ring_size),
            mtu: port.mtu,
        }),
        Driver::Pcap(given) => PortConfig::Pcap(PcapConfig {
            input: text(&given.input).map(Into::into),
            output: text(&given.output).map(Into::into),
            mtu: port.mtu,
            mac: None,
        }),
        Driver::Generator(given) => {
            PortConfig::Generator(generator(given, (rx, port.mtu), reasons, &place)?)
        }
        Driver::Tunnel(given) => PortConfig::Tunnel(tunnel(given, port.mtu, reasons, &place)?),
        Driver::Null(_) => PortConfig::Null(NullConfig { tx_queues: tx, mtu: port.mtu, mac: None }),
    })
}

fn queues(count: u32) -> u16 {
    count.min(u16::MAX.into()) as u16
}

fn tunnel(
    given: &v1::Tunnel,
    mtu: u32,
    reasons: &mut Reasons,
    place: &dyn Fn() -> String,
) -> Option<TunnelConfig> {
    let ends = (address(&given.local), address(&given.remote));
    let is_end = |ip: &IpAddr| !ip.is_multicast() && !ip.is_unspecified();
    let (Some(local), Some(remote)) = (ends.0.filter(is_end), ends.1.filter(is_end)) else {
        let reason = "is a tunnel without two unicast addresses";
        reasons.add(place(), reason, "Give our own address and that of the other end.");
        return None;
    };
    if local.is_ipv4() != remote.is_ipv4() || local == remote {
        let reason = format!("is a tunnel from {local} to {remote}");
        reasons.add(place(), reason, "Give two addresses of one family.");
        return None;
    }
    let encapsulation = match given.encapsulation() {
        v1::Encapsulation::IpInIp => Encapsulation::Ip,
        v1::Encapsulation::Gre => Encapsulation::Gre,
    };
    let Ok(hop_limit) = u8::try_from(given.hop_limit) else {
        let reason = format!("is a tunnel with the hop limit {}", given.hop_limit);
        reasons.add(place(), reason, "Give 1 to 255, or 0 for the usual one.");
        return None;
    };
    Some(TunnelConfig { local, remote, encapsulation, hop_limit, mtu })
}

fn generator(
    given: &v1::Generator,
    (queues, mtu): (u16, u32),
    reasons: &mut Reasons,
    place: &dyn Fn() -> String,
) -> Option<GeneratorConfig> {
    let usual = GeneratorConfig::default();
    let mac = <[u8; 6]>::try_from(given.destination_mac.as_slice()).ok();
    if mac.is_none() && !given.destination_mac.is_empty() {
        reasons.add(
            place(),
            "has a destination MAC that is not six bytes",
            "Give six bytes or none.",
        );
        return None;
    }
    Some(GeneratorConfig {
        frame: if given.frame == 0 { usual.frame } else { given.frame.min(u16::MAX.into()) as u16 },
        count: given.count,
        rate: given.rate,
        destination_mac: mac,
        source: address(&given.source).unwrap_or(usual.source),
        destination: address(&given.destination).unwrap_or(usual.destination),
        destinations: Destinations::Range(given.destinations.max(1)),
        vlan: given.vlan.min(4095) as u16,
        queues,
        mtu,
        ..usual
    })
}
