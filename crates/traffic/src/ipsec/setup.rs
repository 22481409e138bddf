//! The forwarder state: a generator in a VRF of its own, whose routes lead into tunnels of the default one.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use stoa_engine::worker::Polling;
use stoa_forwarder::control::ForwarderState;
use stoa_forwarder::control::desired::{
    Action, DesiredState, Family, Interface, Path, Route, Workers,
};
use stoa_forwarder::control::ipsec::Keys;
use stoa_forwarder::ipsec::association::{DontFragment, Settings};
use stoa_forwarder::shared::SpecialNextHop;
use stoa_ports::{
    Destinations, Encapsulation, GeneratorConfig, NullConfig, PortConfig, TunnelConfig,
};

use super::{Direction, IpsecError, Salt, Workload};
use crate::random::Random;

/// The VRF of clear text.
const CLEAR: &str = "clear";
/// The first destination; each tunnel has one (RFC 6598).
const DESTINATIONS: Ipv4Addr = Ipv4Addr::new(100, 64, 0, 0);
/// The first remote end.
const REMOTES: Ipv4Addr = Ipv4Addr::new(10, 128, 0, 0);
const OURS_IN: [u8; 4] = [10, 1, 0, 1];
const OURS_OUT: [u8; 4] = [10, 2, 0, 1];
/// The local end of all tunnels. No route says that it is local: the router refuses packets for itself from itself.
const LOCAL: [u8; 4] = [10, 3, 0, 1];
const NEXT_HOP: [u8; 4] = [10, 2, 0, 2];
/// Bytes of an Ethernet header.
const ETHERNET: u16 = 14;
/// SPIs begin here.
const SPIS: u32 = 0x0001_0000;
/// Numbers of each anti-replay window.
const REPLAY_WINDOW: u32 = 1_024;
/// Frames until destinations repeat, at least.
const TURNS: usize = 1 << 16;

fn tunnel(at: u32) -> String {
    format!("esp{}", at + 1)
}

fn address(first: Ipv4Addr, at: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(first.to_bits() + at)
}

fn route(action: Action) -> Route {
    Route { protocol: 1, action }
}

fn through(interface: &str, next_hop: Option<IpAddr>) -> Route {
    let path = Path { interface: interface.to_owned(), next_hop, weight: 1 };
    route(Action::Paths(vec![path]))
}

fn interface(addresses: &[([u8; 4], u8)], vrf: &str) -> Interface {
    let addresses = addresses.iter().map(|(ip, length)| (IpAddr::from(*ip), *length)).collect();
    let ip4 = Family { enabled: true, forwarding: true, addresses, ..Family::default() };
    Interface { enabled: true, ip4, vrf: vrf.to_owned(), ..Interface::default() }
}

/// The desired state.
pub(super) fn desired(workload: &Workload) -> DesiredState {
    let mut desired = DesiredState {
        workers: Workers {
            count: workload.workers,
            cpus: workload.cpus.clone(),
            polling: Polling::Always,
            buffers: 32_768 * workload.workers as u32,
            ..Workers::default()
        },
        ..DesiredState::default()
    };
    let generator = PortConfig::Generator(generator(workload));
    let queues = workload.workers as u16;
    let null = PortConfig::Null(NullConfig { tx_queues: queues, ..NullConfig::default() });
    desired.ports.extend([("in".to_owned(), generator), ("out".to_owned(), null)]);
    desired.interfaces.insert("in".to_owned(), interface(&[(OURS_IN, 24)], CLEAR));
    desired.interfaces.insert("out".to_owned(), interface(&[(OURS_OUT, 24)], ""));
    let next_hop = IpAddr::from(NEXT_HOP);
    desired.neighbors.insert(("out".to_owned(), next_hop), [2, 0, 0, 0, 0, 2]);
    let clear = desired.vrfs.entry(CLEAR.to_owned()).or_default();
    for at in 0..workload.tunnels {
        clear.insert((address(DESTINATIONS, at).into(), 32), through(&tunnel(at), None));
        let config = TunnelConfig {
            local: LOCAL.into(),
            remote: address(REMOTES, at).into(),
            encapsulation: Encapsulation::Esp,
            hop_limit: 0,
            mtu: 1_500,
        };
        desired.interfaces.insert(tunnel(at), interface(&[], ""));
        desired.ports.insert(tunnel(at), PortConfig::Tunnel(config));
    }
    desired.routes.insert((DESTINATIONS.into(), 10), through("out", Some(next_hop)));
    let remotes = match workload.direction {
        Direction::Encrypt => through("out", Some(next_hop)),
        Direction::Decrypt => route(Action::Special(SpecialNextHop::Local)),
    };
    desired.routes.insert((REMOTES.into(), 9), remotes);
    desired
}

fn generator(workload: &Workload) -> GeneratorConfig {
    let mut turns: Vec<u32> =
        (0..workload.tunnels).map(|at| address(DESTINATIONS, at).to_bits()).collect();
    let copies = if workload.tunnels == 1 { 1 } else { TURNS.div_ceil(turns.len()) };
    turns = turns.iter().copied().cycle().take(copies * turns.len()).collect();
    Random::new(0xe59).shuffle(&mut turns);
    GeneratorConfig {
        frame: workload.inner + ETHERNET,
        queues: workload.workers as u16,
        source: [10, 1, 0, 2].into(),
        destination: DESTINATIONS.into(),
        destinations: Destinations::List4(Arc::from(turns)),
        ..GeneratorConfig::default()
    }
}

/// Adds the associations of all tunnels: inbound ones with the keys and numbers of the outbound ones.
pub(super) fn associate(state: &mut ForwarderState, workload: &Workload) -> Result<(), IpsecError> {
    let algorithm = workload.algorithm;
    let mut random = Random::new(0x1ce);
    for at in 0..workload.tunnels {
        let name = tunnel(at);
        let mut bytes =
            |count: usize| -> Vec<u8> { (0..count).map(|_| random.next() as u8).collect() };
        let (encryption, integrity) =
            (bytes(algorithm.key_bytes()), bytes(algorithm.integrity_key_bytes()));
        let keys = Keys { encryption: &encryption, integrity: &integrity };
        let settings = Settings {
            spi: SPIS + at,
            algorithm,
            salt: if algorithm.salt_bytes() > 0 {
                at.to_be_bytes().into()
            } else {
                Salt::default()
            },
            is_extended: true,
            is_implicit: false,
            udp: None,
        };
        let how = (DontFragment::Copy, None);
        let outbound = state.set_outbound_association(&name, (&settings, keys), how, 0);
        let inbound = match workload.direction {
            Direction::Encrypt => Ok(()),
            Direction::Decrypt => {
                state.add_inbound_association(&name, (&settings, keys), REPLAY_WINDOW)
            }
        };
        outbound.and(inbound).map_err(|error| IpsecError::Refused(error.to_string()))?;
    }
    Ok(())
}
