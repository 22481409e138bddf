//! Host interfaces in Linux: open and close them, and keep them in sync with their interfaces. A host
//! interface is a port of its own. Its index counts down from the highest interface index, so that it never
//! collides with a configured interface.

use std::collections::BTreeSet;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use stoa_engine::port::Followed;
use stoa_engine::worker::Command;
use stoa_engine::{INTERFACES, Packet, Port, PortEvent, Queues};
use stoa_ports::{HostInterfaceConfig, OpenError, PortConfig};
use stoa_wire::ethernet::ethertype;

use super::apply::ApplyError;
use super::desired::{DesiredChange, DesiredState, HostInterface};
use super::forwarder_state::ForwarderState;
use super::limits::Table;
use crate::nodes::{self, HOST_INTERFACE_ENTRY};

/// Interval between attempts to open a host interface.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// A host interface: its desired configuration and its state.
pub(super) struct HostInterfaceState {
    desired: HostInterface,
    /// Its index among the interfaces.
    index: u32,
    /// `None`: it could not be opened.
    port: Option<Box<dyn Port>>,
    last_try: Instant,
    is_up: bool,
    reason_down: String,
    /// The interface that is paired with it.
    paired_interface: Option<u32>,
}

impl HostInterfaceState {
    /// For display: location and state.
    pub(super) fn detail(&self) -> String {
        match &self.port {
            Some(port) => port.detail(),
            None => format!("{} down: {}", self.location(), self.reason_down),
        }
    }

    /// `NETNS/DEVICE`; the device alone in our own namespace.
    fn location(&self) -> String {
        let HostInterface { netns, device } = &self.desired;
        let slash = if netns.is_empty() { "" } else { "/" };
        format!("{netns}{slash}{device}")
    }

    pub(super) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.port.as_ref().map(|port| port.descriptors()).unwrap_or_default()
    }
}

/// Interface, host interface and its port; `None`: another interface still holds its device.
pub(super) type Opened = (String, HostInterface, Option<Result<Box<dyn Port>, OpenError>>);

fn host_interfaces_of(
    desired: &DesiredState,
    touched: &DesiredChange,
) -> Vec<(String, HostInterface)> {
    let host_interface =
        |name: &String| Some((name.clone(), desired.interfaces.get(name)?.host_interface.clone()?));
    touched.interfaces.keys().filter_map(host_interface).collect()
}

impl ForwarderState {
    /// The lowest index of a host interface: interfaces stay below.
    pub(super) fn lowest_host_interface(&self) -> u32 {
        self.host_interface_indexes.first().copied().unwrap_or(INTERFACES as u32)
    }

    /// The highest index that neither an interface nor a host interface has used.
    fn free_host_interface_index(&self) -> Option<u32> {
        let (taken, lowest) = (&self.host_interface_indexes, self.lowest_host_interface());
        let has_gap = lowest as usize + taken.len() < INTERFACES;
        let gap = has_gap.then(|| (lowest..INTERFACES as u32).rev().find(|at| !taken.contains(at)));
        let below = lowest.checked_sub(1).filter(|at| *at as usize >= self.interfaces.len());
        gap.flatten().or(below)
    }

    /// The location of the host interface with that index; `None`: there is none.
    pub(super) fn host_interface_at(&self, index: u32) -> Option<String> {
        self.host_interfaces
            .values()
            .find(|state| state.index == index)
            .map(HostInterfaceState::location)
    }

    fn open_host_interface(&self, desired: &HostInterface) -> Result<Box<dyn Port>, OpenError> {
        let config = HostInterfaceConfig {
            device: desired.device.clone(),
            netns: (!desired.netns.is_empty()).then(|| desired.netns.clone()),
            queues: self.worker_pool.workers.len() as u16,
            alias: self.alias.clone(),
        };
        (self.open)(&PortConfig::HostInterface(config), self.pool())
    }

    /// Opens new host interfaces without changing anything else: programs use those that exist, and a refused
    /// change must not take them away. At the start, failures are retried later: forwarding does not wait for
    /// Linux.
    pub(super) fn open_host_interfaces(
        &self,
        desired: &DesiredState,
        touched: &DesiredChange,
    ) -> Result<Vec<Opened>, ApplyError> {
        let desired = host_interfaces_of(desired, touched);
        if desired.is_empty() {
            return Ok(Vec::new());
        }
        let held: BTreeSet<HostInterface> =
            self.host_interfaces.values().map(|m| m.desired.clone()).collect();
        let (mut opened, mut errors) = (Vec::new(), Vec::new());
        for (name, host_interface) in &desired {
            if self.host_interfaces.get(name).is_some_and(|state| state.desired == *host_interface)
            {
                continue;
            }
            // A device that moves to another interface must be closed first.
            let moves = held.contains(host_interface);
            let port = if moves { None } else { Some(self.open_host_interface(host_interface)) };
            match port {
                Some(Err(error)) if !self.may_defer_ports => {
                    errors.extend(ApplyError::host_interface(name, &error).errors);
                }
                port => opened.push((name.clone(), host_interface.clone(), port)),
            }
        }
        if !errors.is_empty() {
            return Err(ApplyError { errors, is_full: false });
        }
        Ok(opened)
    }

    /// Closes host interfaces that are no longer desired and adds the opened ones; runs when nothing else can
    /// be refused.
    pub(super) fn set_host_interfaces(
        &mut self,
        desired: &DesiredState,
        touched: &DesiredChange,
        opened: Vec<Opened>,
    ) -> Result<(), ApplyError> {
        for name in touched.interfaces.keys() {
            let Some(state) = self.host_interfaces.get(name) else { continue };
            let interface = desired.interfaces.get(name);
            let stays =
                interface.is_some_and(|it| it.host_interface.as_ref() == Some(&state.desired));
            if !stays {
                self.close_host_interface(name);
            }
        }
        for (name, host_interface, port) in opened {
            self.add_host_interface(&name, host_interface, port)?;
        }
        Ok(())
    }

    fn add_host_interface(
        &mut self,
        name: &str,
        desired: HostInterface,
        port: Option<Result<Box<dyn Port>, OpenError>>,
    ) -> Result<(), ApplyError> {
        let free = self.free_host_interface_index();
        let Some(index) = free else {
            let reason = format!("all {INTERFACES} interfaces are in use");
            let full = self.fib.table_full_counts.full(Table::Interfaces, reason);
            return Err(ApplyError::full(format!("interface {name:?}"), &full));
        };
        let now = Instant::now();
        let (port, last_try, reason_down) = match port {
            Some(Ok(port)) => (Some(port), now, "not up yet".to_owned()),
            Some(Err(error)) => {
                tracing::warn!(
                    interface = name,
                    "cannot open the host interface: {error}; retrying every second"
                );
                (None, now, error.to_string())
            }
            // Another interface has just closed it.
            None => (None, now.checked_sub(RETRY_INTERVAL).unwrap_or(now), "moving".to_owned()),
        };
        let state = HostInterfaceState {
            desired,
            index,
            port,
            last_try,
            is_up: false,
            reason_down,
            paired_interface: None,
        };
        self.host_interface_indexes.insert(index);
        self.host_interfaces.insert(name.to_owned(), state);
        self.send_to_workers(|| Command::Map { interface: index, base: index });
        Ok(())
    }

    fn close_host_interface(&mut self, name: &str) {
        let Some(state) = self.host_interfaces.get_mut(name) else { return };
        let (index, paired_interface) = (state.index, state.paired_interface.take());
        self.unpair(index, paired_interface);
        self.remove_queue_names(&queue_name(name));
        self.remove_queues(index);
        self.send_to_workers(|| Command::Map {
            interface: index,
            base: stoa_engine::output::NO_INTERFACE,
        });
        self.host_interfaces.remove(name);
        self.host_interface_indexes.remove(&index);
    }

    fn unpair(&self, index: u32, paired_interface: Option<u32>) {
        self.shared.interface(index).set_host_pair(None, [0; 8]);
        if let Some(interface) = paired_interface {
            self.shared.interface(interface).set_host_pair(None, [0; 8]);
        }
    }

    /// Runs the host interfaces and keeps them in sync with their interfaces.
    pub(super) fn service_host_interfaces(&mut self) {
        self.service_host_interfaces_named(self.host_interfaces.keys().cloned().collect());
    }

    /// The same for the host interfaces of these interfaces.
    pub(super) fn service_host_interfaces_named(&mut self, names: Vec<String>) {
        for name in names {
            self.reopen_host_interface(&name);
            self.sync_host_interface(&name);
            let Some(state) = self.host_interfaces.get_mut(&name) else { continue };
            let events = state.port.as_mut().map(|port| port.service()).unwrap_or_default();
            for event in events {
                match event {
                    PortEvent::Up(queues) => self.host_interface_up(&name, queues),
                    PortEvent::Down(reason) => self.host_interface_down(&name, reason),
                }
            }
            self.pair(&name);
        }
    }

    fn reopen_host_interface(&mut self, name: &str) {
        let Some(state) = self.host_interfaces.get(name) else { return };
        if state.port.is_some() || state.last_try.elapsed() < RETRY_INTERVAL {
            return;
        }
        let port = self.open_host_interface(&state.desired);
        let Some(state) = self.host_interfaces.get_mut(name) else { return };
        state.last_try = Instant::now();
        match port {
            Ok(port) => state.port = Some(port),
            Err(error) => state.reason_down = error.to_string(),
        }
    }

    /// Copies MAC address, MTU and link state of an interface to its host interface.
    fn sync_host_interface(&mut self, name: &str) {
        let Some(interface) = self.index_of(name).and_then(|index| self.interface(index)) else {
            return;
        };
        let followed = Followed {
            mac: interface.link.mac,
            mtu: interface.mtu.0.max(interface.mtu.1).into(),
            is_up: interface.is_up,
        };
        if followed.mtu == 0 {
            // The interface is only reserved so far.
            return;
        }
        if let Some(port) = self.host_interfaces.get_mut(name).and_then(|state| state.port.as_mut())
        {
            port.follow(&followed);
        }
    }

    /// Pairs interface and host interface for the workers while both exist and the host interface is up.
    fn pair(&mut self, name: &str) {
        let interface = self.index_of(name).filter(|_| self.host_interfaces[name].is_up);
        let tags = interface.and_then(|index| self.interface(index)).map(|state| {
            let mut tags = [0; 8];
            for (at, (tpid, vid)) in state.link.tags.iter().take(2).enumerate() {
                tags[4 * at..][..2].copy_from_slice(&tpid.to_be_bytes());
                tags[4 * at + 2..][..2].copy_from_slice(&vid.to_be_bytes());
            }
            tags
        });
        let Some(state) = self.host_interfaces.get_mut(name) else { return };
        let (index, before) =
            (state.index, std::mem::replace(&mut state.paired_interface, interface));
        if before != interface {
            self.unpair(index, before);
        }
        if let (Some(interface), Some(tags)) = (interface, tags) {
            self.shared.interface(interface).set_host_pair(Some(index), tags);
            self.shared.interface(index).set_host_pair(Some(interface), [0; 8]);
        }
    }

    fn host_interface_up(&mut self, name: &str, queues: Queues) {
        let Some(state) = self.host_interfaces.get_mut(name) else { return };
        let (index, was_up) = (state.index, std::mem::replace(&mut state.is_up, true));
        if was_up {
            self.remove_queue_names(&queue_name(name));
            self.remove_queues(index);
        }
        self.add_tx_queues(index, queues.tx, (None, None));
        let input = (nodes::graph().nodes().len() + 1 + stoa_ports::input_of("tap")) as u16;
        let node = nodes::graph().index_of(HOST_INTERFACE_ENTRY).unwrap_or(0);
        for (number, queue) in queues.rx.into_iter().enumerate() {
            let at = number % self.worker_pool.workers.len();
            self.queues.push((format!("{}:{number}", queue_name(name)), at));
            let software_rss = None;
            let command = Command::AddRx { interface: index, input, node, queue, software_rss };
            self.worker_pool.workers[at].send(command);
        }
        self.settle();
        tracing::info!(interface = name, "the host interface is up");
    }

    fn host_interface_down(&mut self, name: &str, reason: String) {
        let Some(state) = self.host_interfaces.get_mut(name) else { return };
        if state.is_up {
            tracing::warn!(interface = name, reason, "the host interface is down");
        }
        (state.is_up, state.reason_down) = (false, reason);
        let (index, paired_interface) = (state.index, state.paired_interface.take());
        self.unpair(index, paired_interface);
        self.remove_queue_names(&queue_name(name));
        self.remove_queues(index);
    }

    /// Copies a packet that this thread has punted to Linux: ARP and neighbour advertisements concern both.
    /// Returns whether there is a host interface.
    pub(super) fn copy_to_host_interface(&mut self, packet: &Packet, source: [u8; 6]) -> bool {
        let Some(host_interface) = self.shared.interface(packet.rx_if).host_pair() else {
            return false;
        };
        let Some(state) = self.interface(packet.rx_if) else { return false };
        let bytes = packet.bytes();
        let kind = if bytes.first().is_some_and(|first| first >> 4 == 6) {
            ethertype::IP6
        } else {
            ethertype::ARP
        };
        let frame = [&state.link.mac, &source, &kind.to_be_bytes()[..], bytes].concat();
        self.send_frame(host_interface, &frame);
        true
    }
}

/// The name of a host interface's queues in `stoa show workers`, without their number.
fn queue_name(interface: &str) -> String {
    format!("host interface of {interface}")
}
