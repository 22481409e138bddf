//! Checks the ports of a run file.

use stoa_ports::{
    AfPacketConfig, AfXdpConfig, AutoConfig, DpdkConfig, MemifConfig, MemifRole, NullConfig,
    PcapConfig, PortConfig, TapConfig,
};
use stoa_wire::ethernet::Mac;

use super::check::Faults;
use super::file::{DeviceText, MemifText, PortText, RoleText};
use super::{PortPlan, Rate};

/// One port; `None` when it has errors, which were added.
pub(super) fn port(name: &str, text: &PortText, faults: &mut Faults) -> Option<PortPlan> {
    let place = format!("ports.{name}");
    let mac = match &text.mac {
        None => None,
        Some(mac) => match mac.parse::<Mac>() {
            Ok(mac) if mac.is_unicast() => Some(mac.0),
            Ok(_) => return faults.add(&format!("{place}.mac"), "give one station's address"),
            Err(error) => {
                return faults.add(&format!("{place}.mac"), format!("{mac:?} is {error}"));
            }
        },
    };
    let mut configs = drivers(text, mac);
    let config = match configs.len() {
        1 => configs.remove(0),
        count => {
            let reason = format!(
                "{count} drivers: give exactly one of memif, af-packet, af-xdp, auto, tap, \
                 dpdk, pcap and discard"
            );
            return faults.add(&place, reason);
        }
    };
    let line = match text.line_rate {
        Some(Rate::Bits(bits)) => Some(bits),
        None => speed(&config),
        Some(_) => return faults.add(&format!("{place}.line-rate"), "write it as 10gbps"),
    };
    let mut families = text.gateways.iter().map(std::net::IpAddr::is_ipv4).collect::<Vec<_>>();
    families.dedup();
    if families.len() < text.gateways.len() || families.len() > 2 {
        return faults.add(&format!("{place}.gateways"), "give at most one of each family");
    }
    Some(PortPlan {
        name: name.to_owned(),
        config,
        mac,
        addresses: text.addresses.clone(),
        gateways: text.gateways.clone(),
        line,
    })
}

/// The settings of all drivers in the file.
fn drivers(text: &PortText, mac: Option<[u8; 6]>) -> Vec<PortConfig> {
    let mtu = text.mtu.unwrap_or(0);
    let of = |device: &DeviceText| (device.device.clone(), device.netns.clone(), device.queues);
    let mut configs = Vec::new();
    if let Some(text) = &text.memif {
        configs.push(memif(text, mtu, mac));
    }
    if let Some((device, netns, queues)) = text.af_packet.as_ref().map(of) {
        let (rx_queues, tx_queues) = (queues, queues);
        configs.push(PortConfig::AfPacket(AfPacketConfig {
            device,
            netns,
            rx_queues,
            tx_queues,
            mtu,
        }));
    }
    if let Some((device, netns, queues)) = text.af_xdp.as_ref().map(of) {
        let config = AfXdpConfig { device, netns, queues, mtu, ..AfXdpConfig::default() };
        configs.push(PortConfig::AfXdp(config));
    }
    if let Some((device, netns, queues)) = text.auto.as_ref().map(of) {
        let (rx_queues, tx_queues) = (queues, queues);
        configs.push(PortConfig::Auto(AutoConfig { device, netns, rx_queues, tx_queues, mtu }));
    }
    if let Some((device, netns, queues)) = text.tap.as_ref().map(of) {
        configs.push(PortConfig::Tap(TapConfig { device, netns, queues, mtu }));
    }
    if let Some(text) = &text.dpdk {
        configs.push(PortConfig::Dpdk(DpdkConfig {
            device: text.device.clone(),
            rx_queues: text.queues,
            tx_queues: text.queues,
            workers: 1,
            ring_size: text.ring_size,
            mtu,
        }));
    }
    if let Some(text) = &text.pcap {
        let (input, output) = (text.input.clone(), text.output.clone());
        configs.push(PortConfig::Pcap(PcapConfig { input, output, mtu, mac, folder: None }));
    }
    if text.discard.is_some() {
        configs.push(PortConfig::Null(NullConfig { tx_queues: 1, mtu, mac }));
    }
    configs
}

fn memif(text: &MemifText, mtu: u32, mac: Option<[u8; 6]>) -> PortConfig {
    PortConfig::Memif(MemifConfig {
        socket: text.socket.clone(),
        id: text.id,
        role: match text.role {
            RoleText::Master => MemifRole::Master,
            RoleText::Slave => MemifRole::Slave,
        },
        secret: text.secret.clone(),
        ring_size: text.ring_size,
        buffer_size: text.buffer_size,
        rx_queues: text.queues,
        tx_queues: text.queues,
        peer_user: None,
        trust_memory: text.trust_memory,
        mtu,
        mac,
    })
}

/// The line rate that the system reports for a device.
fn speed(config: &PortConfig) -> Option<f64> {
    let device = match config {
        PortConfig::AfPacket(it) if it.netns.is_none() => &it.device,
        PortConfig::AfXdp(it) if it.netns.is_none() => &it.device,
        PortConfig::Auto(it) if it.netns.is_none() => &it.device,
        _ => return None,
    };
    if device.is_empty() || device.contains('/') {
        return None;
    }
    let text = std::fs::read_to_string(format!("/sys/class/net/{device}/speed")).ok()?;
    let megabits: f64 = text.trim().parse().ok()?;
    (megabits > 0.0).then_some(megabits * 1e6)
}
