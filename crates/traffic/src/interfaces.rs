//! What interfaces cost the control thread: the time to apply many VLAN sub-interfaces and one change of them,
//! and memory. No packets are sent. Workers run on the same thread, so that times contain no waits for other threads.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use stoa_engine::worker::Polling;
use stoa_forwarder::control::desired::{
    Action, DesiredChange, DesiredState, Family, Interface, Path, Route, Workers,
};
use stoa_forwarder::control::{Forwarder, Limits};
use stoa_forwarder::shared::SpecialNextHop;
use stoa_ports::{NullConfig, PortConfig};

/// The most sub-interfaces: the ports and one more sub-interface are interfaces as well.
pub const MOST: u32 = 65_000;
/// Ports that carry the sub-interfaces.
const PORTS: u32 = 16;
/// Sub-interfaces with the same outer tag.
const INNER_TAGS: u32 = 64;
/// Interfaces of a page of the listing, as the forwarder's service asks for them.
const PAGE: usize = 512;
/// Time for ports to come up.
const DEADLINE: Duration = Duration::from_secs(600);

/// The results; times in milliseconds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Figures {
    /// Number of sub-interfaces.
    pub interfaces: u32,
    /// Applying all to an empty forwarder.
    pub apply_ms: f64,
    /// Until all are up.
    pub up_ms: f64,
    /// Applying the same again.
    pub same_ms: f64,
    /// One more interface by a change, which names only what differs; median.
    pub change_add_ms: f64,
    /// One less by a change; median.
    pub change_remove_ms: f64,
    /// Another address of one interface by a change; median.
    pub change_address_ms: f64,
    /// One more route by a change, four for each interface being there; median.
    pub change_route_ms: f64,
    /// Applying one more interface; median.
    pub add_ms: f64,
    /// Applying one less; median.
    pub remove_ms: f64,
    /// Applying another address of one interface; median.
    pub address_ms: f64,
    /// Interface entries of tables that these changes wrote: each of add, remove and address.
    pub writes: [u64; 3],
    /// A port goes down with all its sub-interfaces.
    pub port_down_ms: f64,
    /// One round of the periodic work at rest.
    pub tick_ms: f64,
    /// Listing all interfaces.
    pub list_ms: f64,
    /// The slowest page of the listing.
    pub page_ms: f64,
    /// Resident memory of the process beyond that of a forwarder without sub-interfaces, in bytes per interface.
    pub bytes_per_interface: f64,
    /// Resident memory of the process, in bytes.
    pub resident_bytes: u64,
}

/// Why there are no figures.
#[derive(Debug, thiserror::Error)]
pub enum InterfacesError {
    /// The forwarder refused a state.
    #[error("the forwarder refused: {0}")]
    Refused(String),
    /// The interfaces did not come up.
    #[error("the interfaces are not up after {} s", DEADLINE.as_secs())]
    Down,
}

/// Measures `interfaces` sub-interfaces, at most [`MOST`], with `rounds` of each change.
///
/// # Errors
/// The forwarder refuses, or the interfaces do not come up.
pub fn run(interfaces: u32, rounds: u32) -> Result<Figures, InterfacesError> {
    let mut bench =
        Bench { forwarder: Forwarder::stepped(Limits::default(), Arc::new(stoa_ports::open)) };
    bench.apply(desired(0))?;
    bench.settle(PORTS as usize)?;
    let resident = resident_bytes();
    let mut figures = Figures { interfaces, ..Figures::default() };
    let all = desired(interfaces);
    let up = PORTS as usize + interfaces as usize;
    figures.apply_ms = bench.apply(all.clone())?;
    figures.up_ms = figures.apply_ms + bench.settle(up)?;
    figures.same_ms = bench.apply(all.clone())?;
    let more = desired(interfaces + 1);
    let mut moved = all.clone();
    move_address(&mut moved, interfaces / 2);
    let mut times: [Vec<f64>; 3] = Default::default();
    for _ in 0..rounds {
        let steps = [(0, more.clone()), (1, all.clone()), (2, moved.clone()), (3, all.clone())];
        for (step, state) in steps {
            let before = bench.writes();
            let took = bench.apply(state)?;
            if let Some(times) = times.get_mut(step) {
                times.push(took);
                figures.writes[step] = bench.writes() - before;
            }
        }
    }
    [figures.add_ms, figures.remove_ms, figures.address_ms] = times.map(median);
    let mut times: [Vec<f64>; 4] = Default::default();
    let mut routed = all.clone();
    let blackhole = Action::Special(SpecialNextHop::Blackhole);
    let beyond = (IpAddr::V4(Ipv4Addr::new(203, 0, 113, 0)), 24);
    routed.routes.insert(beyond, Route { protocol: 1, action: blackhole });
    let pairs = [(&all, &more), (&more, &all), (&all, &moved), (&moved, &all), (&all, &routed)];
    let changes = pairs.map(|(from, to)| DesiredChange::difference(from, to.clone(), &mut |_| {}));
    let back = DesiredChange::difference(&routed, all.clone(), &mut |_| {});
    for _ in 0..rounds {
        for (step, change) in changes.iter().chain([&back]).enumerate() {
            let took = bench.change(change.clone())?;
            // To move the address back, and to remove the route, are no figures.
            let figure = [0, 1, 2, 4, 3, 4][step];
            times.get_mut(figure).into_iter().for_each(|times| times.push(took));
        }
    }
    let [add, remove, address, route] = times.map(median);
    (figures.change_add_ms, figures.change_remove_ms) = (add, remove);
    (figures.change_address_ms, figures.change_route_ms) = (address, route);
    bench.settle(up)?;
    figures.resident_bytes = resident_bytes();
    let more_bytes = figures.resident_bytes.saturating_sub(resident);
    figures.bytes_per_interface = more_bytes as f64 / f64::from(interfaces.max(1));
    bench.read(&mut figures);
    let mut down = all;
    if let Some(port) = down.interfaces.get_mut(&port_name(0)) {
        port.enabled = false;
    }
    figures.port_down_ms = bench.apply(down)?;
    Ok(figures)
}

struct Bench {
    forwarder: Forwarder,
}

impl Bench {
    /// Applies a state; returns the milliseconds that it took.
    fn apply(&mut self, state: DesiredState) -> Result<f64, InterfacesError> {
        let began = Instant::now();
        let applied = self.forwarder.apply(state);
        let took = millis(began);
        applied.map_err(|refused| InterfacesError::Refused(format!("{:?}", refused.errors)))?;
        Ok(took)
    }

    /// Applies a change; returns the milliseconds that it took.
    fn change(&mut self, change: DesiredChange) -> Result<f64, InterfacesError> {
        let generation = self.forwarder.generation();
        let began = Instant::now();
        let changed = self.forwarder.change(generation, change);
        let took = millis(began);
        changed.map_err(|refused| InterfacesError::Refused(format!("{refused:?}")))?;
        Ok(took)
    }

    /// Runs the control thread until so many interfaces are up; returns the milliseconds that it took.
    fn settle(&mut self, up: usize) -> Result<f64, InterfacesError> {
        let began = Instant::now();
        while began.elapsed() < DEADLINE {
            let Some(state) = self.forwarder.state() else { break };
            state.poll();
            state.tick();
            state.step();
            if state.list_interfaces().iter().filter(|one| one.up).count() >= up {
                return Ok(millis(began));
            }
        }
        Err(InterfacesError::Down)
    }

    fn writes(&mut self) -> u64 {
        self.forwarder.state().map_or(0, |state| state.interface_writes())
    }

    /// Times the periodic work and the listing.
    fn read(&mut self, figures: &mut Figures) {
        let Some(state) = self.forwarder.state() else { return };
        let ticks = (0..9).map(|_| {
            let began = Instant::now();
            state.poll();
            state.tick();
            millis(began)
        });
        figures.tick_ms = median(ticks.collect());
        let (began, mut after, mut slowest) = (Instant::now(), String::new(), 0.0_f64);
        loop {
            let began = Instant::now();
            let page = state.list_interfaces_after(&after, PAGE);
            slowest = slowest.max(millis(began));
            match page.last() {
                Some(last) => after.clone_from(&last.name),
                None => break,
            }
        }
        (figures.list_ms, figures.page_ms) = (millis(began), slowest);
    }
}

fn millis(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1e3
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(0.0)
}

/// The resident memory of this process; 0 where Linux does not tell.
fn resident_bytes() -> u64 {
    const PAGE_BYTES: u64 = 4096;
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * PAGE_BYTES
}

fn port_name(port: u32) -> String {
    format!("port{port}")
}

/// Ports with so many sub-interfaces, each with an IPv4 and an IPv6 network.
fn desired(interfaces: u32) -> DesiredState {
    let workers = Workers { polling: Polling::Interrupt, buffers: 4096, ..Workers::default() };
    let mut desired = DesiredState { workers, ..DesiredState::default() };
    for port in 0..PORTS {
        desired.ports.insert(port_name(port), PortConfig::Null(NullConfig::default()));
        let interface = Interface { enabled: true, ..Interface::default() };
        desired.interfaces.insert(port_name(port), interface);
    }
    for number in 0..interfaces {
        add_sub_interface(&mut desired, number);
    }
    desired
}

/// The name of a sub-interface.
fn sub_name(number: u32) -> String {
    let (port, on_port) = (number % PORTS, number / PORTS);
    format!("{}.{}.{}", port_name(port), 1 + on_port / INNER_TAGS, 1 + on_port % INNER_TAGS)
}

fn add_sub_interface(desired: &mut DesiredState, number: u32) {
    let on_port = number / PORTS;
    let tags = [(0x88a8, 1 + on_port / INNER_TAGS), (0x8100, 1 + on_port % INNER_TAGS)];
    let interface = Interface {
        parent: Some(port_name(number % PORTS)),
        tags: tags.map(|(tpid, vid)| (tpid, vid as u16)).to_vec(),
        enabled: true,
        ..Interface::default()
    };
    let name = sub_name(number);
    desired.interfaces.insert(name.clone(), interface);
    let group = u128::from(0x2001_0db8_u32) << 96 | u128::from(number) << 64;
    set_network(desired, &name, Ipv4Addr::from(10 << 24 | number << 2 | 1).into(), 30);
    set_network(desired, &name, Ipv6Addr::from(group | 1).into(), 64);
}

/// Sets the only address of a family, with its routes.
fn set_network(desired: &mut DesiredState, name: &str, address: IpAddr, length: u8) {
    let Some(interface) = desired.interfaces.get_mut(name) else { return };
    let family = match address {
        IpAddr::V4(_) => &mut interface.ip4,
        IpAddr::V6(_) => &mut interface.ip6,
    };
    let former = std::mem::take(&mut family.addresses);
    *family = Family {
        enabled: true,
        forwarding: true,
        addresses: vec![(address, length)],
        ..Family::default()
    };
    let routes: &mut BTreeMap<_, _> = &mut desired.routes;
    for (address, length) in former {
        routes.remove(&(address, bits(address)));
        routes.remove(&(network(address, length), length));
    }
    let path = Path { interface: name.to_owned(), next_hop: None, weight: 1 };
    let local = Action::Special(SpecialNextHop::Local);
    let route = |action| Route { protocol: 0, action };
    routes.insert((address, bits(address)), route(local));
    routes.insert((network(address, length), length), route(Action::Paths(vec![path])));
}

fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn network(address: IpAddr, length: u8) -> IpAddr {
    match address {
        IpAddr::V4(ip) => IpAddr::V4((u32::from(ip) & u32::MAX << (32 - u32::from(length))).into()),
        IpAddr::V6(ip) => {
            IpAddr::V6((u128::from(ip) & u128::MAX << (128 - u32::from(length))).into())
        }
    }
}

/// Gives a sub-interface an address of a network that no other one has.
fn move_address(desired: &mut DesiredState, number: u32) {
    set_network(desired, &sub_name(number), Ipv4Addr::new(172, 16, 0, 1).into(), 30);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sub_interfaces_differ() {
        let state = desired(1000);
        let tags: std::collections::BTreeSet<_> =
            state.interfaces.values().map(|one| (one.parent.clone(), one.tags.clone())).collect();
        // The ports have no tags.
        assert_eq!((state.interfaces.len(), tags.len()), (1016, 1001));
        assert_eq!(state.routes.len(), 4000);
        let last = &desired(MOST + 1).interfaces[&sub_name(MOST)];
        assert!(last.tags.iter().all(|(_, vid)| (1..=4094).contains(vid)));
    }

    #[test]
    fn one_change_writes_one_entry() {
        let figures = run(200, 1).unwrap();
        // Tags and addresses; the address alone.
        assert_eq!(figures.writes, [2, 2, 1]);
    }
}
