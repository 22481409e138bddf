//! Host interfaces in Linux: open and close them, and keep them in sync with their interfaces. A host
//! interface is a port of its own. Its index counts down from the highest interface index, so that it never
//! collides with a configured interface.

mod pairing;

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use stoa_api::v1;
use stoa_engine::worker::Command;
use stoa_engine::{INTERFACES, Port, PortEvent, Queues};
use stoa_ports::{HostInterfaceConfig, OpenError, PortConfig};

use super::apply::ApplyError;
use super::capability::{Capability, Start, Step, Verbs};
use super::desired::HostInterface;
use super::forwarder_state::ForwarderState;
use super::limits::Table;
use crate::nodes::{self, HOST_INTERFACE_ENTRY};

/// Interval between attempts to open a host interface.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// A host interface: its desired configuration and its state.
struct HostInterfaceState {
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
    fn detail(&self) -> String {
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

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.port.as_ref().map(|port| port.descriptors()).unwrap_or_default()
    }
}

/// Interface, host interface and its port; `None`: another interface still holds its device.
type Opened = (String, HostInterface, Option<Result<Box<dyn Port>, OpenError>>);

/// All host interfaces.
#[derive(Default)]
pub(super) struct HostInterfaces {
    /// By the name of their interface.
    by_name: BTreeMap<String, HostInterfaceState>,
    indexes: BTreeSet<u32>,
    /// Marks our devices in Linux.
    alias: String,
    /// Those that were opened for the settings that are being applied.
    opened: Vec<Opened>,
}

impl Capability for HostInterfaces {
    const VERBS: Verbs = Verbs {
        prepare: ForwarderState::open_host_interfaces,
        finish: ForwarderState::set_host_interfaces,
        service: ForwarderState::service_host_interfaces,
        descriptors: |state| {
            let all = state.capabilities.host_interfaces.by_name.values();
            all.flat_map(HostInterfaceState::descriptors).collect()
        },
        facts: |state, index, facts| {
            let name = state.interface(index).map(|state| &state.name);
            let by_name = &state.capabilities.host_interfaces.by_name;
            let host_interface = name.and_then(|name| by_name.get(name));
            facts.host_interface = host_interface.map(|it| it.detail()).unwrap_or_default();
        },
        in_force: |state, _, interface| {
            // One that waits for Linux counts.
            let held = state.capabilities.host_interfaces.by_name.get(&interface.name);
            interface.host_interface = held.map(|HostInterfaceState { desired: it, .. }| {
                v1::HostInterface { device: it.device.clone(), netns: it.netns.clone() }
            });
        },
        ..Verbs::NONE
    };

    fn start(_: &Start<'_>) -> Self {
        Self::default()
    }
}

impl HostInterfaces {
    /// Sets the alias that marks our devices in Linux.
    pub(super) fn set_alias(&mut self, alias: &str) {
        alias.clone_into(&mut self.alias);
    }
}

/// The desired host interfaces of touched interfaces.
fn host_interfaces_of(step: &Step<'_>) -> Vec<(String, HostInterface)> {
    let all = &step.desired().interfaces;
    let host_interface =
        |name: &String| Some((name.clone(), all.get(name)?.host_interface.clone()?));
    step.touched.interfaces.keys().filter_map(host_interface).collect()
}

impl ForwarderState {
    /// The lowest index of a host interface: interfaces stay below.
    pub(super) fn lowest_host_interface(&self) -> u32 {
        self.capabilities.host_interfaces.indexes.first().copied().unwrap_or(INTERFACES as u32)
    }

    /// The highest index that neither an interface nor a host interface has used.
    fn free_host_interface_index(&self) -> Option<u32> {
        let (taken, lowest) =
            (&self.capabilities.host_interfaces.indexes, self.lowest_host_interface());
        let has_gap = lowest as usize + taken.len() < INTERFACES;
        let gap = has_gap.then(|| (lowest..INTERFACES as u32).rev().find(|at| !taken.contains(at)));
        let below = lowest.checked_sub(1).filter(|at| *at >= self.interface_indexes().end);
        gap.flatten().or(below)
    }

    /// The location of the host interface with that index; `None`: there is none.
    pub(super) fn host_interface_at(&self, index: u32) -> Option<String> {
        self.capabilities
            .host_interfaces
            .by_name
            .values()
            .find(|state| state.index == index)
            .map(HostInterfaceState::location)
    }

    fn open_host_interface(&self, desired: &HostInterface) -> Result<Box<dyn Port>, OpenError> {
        let config = HostInterfaceConfig {
            device: desired.device.clone(),
            netns: (!desired.netns.is_empty()).then(|| desired.netns.clone()),
            queues: self.worker_count() as u16,
            alias: self.capabilities.host_interfaces.alias.clone(),
        };
        self.open_own_port(&PortConfig::HostInterface(config))
    }

    /// Opens new host interfaces without changing anything else: programs use those that exist, and a refused
    /// change must not take them away. At the start, failures are retried later: forwarding does not wait for
    /// Linux.
    fn open_host_interfaces(&mut self, step: &Step<'_>) -> Result<(), ApplyError> {
        // What a refused change has opened.
        self.capabilities.host_interfaces.opened.clear();
        let desired = host_interfaces_of(step);
        if desired.is_empty() {
            return Ok(());
        }
        let held: BTreeSet<HostInterface> =
            self.capabilities.host_interfaces.by_name.values().map(|m| m.desired.clone()).collect();
        let (mut opened, mut errors) = (Vec::new(), Vec::new());
        for (name, host_interface) in &desired {
            if self
                .capabilities
                .host_interfaces
                .by_name
                .get(name)
                .is_some_and(|state| state.desired == *host_interface)
            {
                continue;
            }
            // A device that moves to another interface must be closed first.
            let moves = held.contains(host_interface);
            let port = if moves { None } else { Some(self.open_host_interface(host_interface)) };
            match port {
                Some(Err(error)) if !self.may_open_later() => {
                    errors.extend(ApplyError::host_interface(name, &error).errors);
                }
                port => opened.push((name.clone(), host_interface.clone(), port)),
            }
        }
        if !errors.is_empty() {
            return Err(ApplyError { errors, is_full: false });
        }
        self.capabilities.host_interfaces.opened = opened;
        Ok(())
    }

    /// Closes host interfaces that are no longer desired and adds the opened ones; runs when nothing else can
    /// be refused.
    fn set_host_interfaces(&mut self, step: &Step<'_>) -> Result<(), ApplyError> {
        for name in step.touched.interfaces.keys() {
            let by_name = &self.capabilities.host_interfaces.by_name;
            let Some(state) = by_name.get(name) else { continue };
            let interface = step.desired().interfaces.get(name);
            let stays =
                interface.is_some_and(|it| it.host_interface.as_ref() == Some(&state.desired));
            if !stays {
                self.close_host_interface(name);
            }
        }
        for (name, host_interface, port) in
            std::mem::take(&mut self.capabilities.host_interfaces.opened)
        {
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
            let full = self.fib.table_full(Table::Interfaces, reason);
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
        self.capabilities.host_interfaces.indexes.insert(index);
        self.capabilities.host_interfaces.by_name.insert(name.to_owned(), state);
        self.send_to_workers(|| Command::Map { interface: index, base: index });
        Ok(())
    }

    fn close_host_interface(&mut self, name: &str) {
        let Some(state) = self.capabilities.host_interfaces.by_name.get_mut(name) else { return };
        let (index, paired_interface) = (state.index, state.paired_interface.take());
        self.unpair(index, paired_interface);
        self.remove_queue_names(&queue_name(name));
        self.remove_queues(index);
        self.send_to_workers(|| Command::Map {
            interface: index,
            base: stoa_engine::output::NO_INTERFACE,
        });
        self.capabilities.host_interfaces.by_name.remove(name);
        self.capabilities.host_interfaces.indexes.remove(&index);
    }

    /// Runs host interfaces and keeps them in sync with their interfaces: those of these interfaces, or all.
    fn service_host_interfaces(&mut self, indexes: Option<&BTreeSet<u32>>) {
        let by_name = &self.capabilities.host_interfaces.by_name;
        let names: Vec<String> = match indexes {
            None => by_name.keys().cloned().collect(),
            Some(indexes) => {
                let names = indexes.iter().filter_map(|index| Some(&self.interface(*index)?.name));
                names.filter(|name| by_name.contains_key(*name)).cloned().collect()
            }
        };
        for name in names {
            self.reopen_host_interface(&name);
            self.sync_host_interface(&name);
            let Some(state) = self.capabilities.host_interfaces.by_name.get_mut(&name) else {
                continue;
            };
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

    /// Closes a host interface: for tests of the audit.
    #[cfg(test)]
    pub(super) fn lose_host_interface(&mut self, name: &str) {
        self.close_host_interface(name);
        assert!(!self.capabilities.host_interfaces.by_name.contains_key(name));
    }

    fn reopen_host_interface(&mut self, name: &str) {
        let Some(state) = self.capabilities.host_interfaces.by_name.get(name) else { return };
        if state.port.is_some() || state.last_try.elapsed() < RETRY_INTERVAL {
            return;
        }
        let port = self.open_host_interface(&state.desired);
        let Some(state) = self.capabilities.host_interfaces.by_name.get_mut(name) else { return };
        state.last_try = Instant::now();
        match port {
            Ok(port) => state.port = Some(port),
            Err(error) => state.reason_down = error.to_string(),
        }
    }

    fn host_interface_up(&mut self, name: &str, queues: Queues) {
        let Some(state) = self.capabilities.host_interfaces.by_name.get_mut(name) else { return };
        let (index, was_up) = (state.index, std::mem::replace(&mut state.is_up, true));
        if was_up {
            self.remove_queue_names(&queue_name(name));
            self.remove_queues(index);
        }
        self.add_tx_queues(index, queues.tx, (None, None));
        let input = (nodes::graph().nodes().len() + 1 + stoa_ports::input_of("tap")) as u16;
        let node = nodes::graph().index_of(HOST_INTERFACE_ENTRY).unwrap_or(0);
        for (number, queue) in queues.rx.into_iter().enumerate() {
            let at = number % self.worker_count();
            let software_rss = None;
            let command = Command::AddRx { interface: index, input, node, queue, software_rss };
            self.assign_rx_queue(at, format!("{}:{number}", queue_name(name)), command);
        }
        self.settle();
        tracing::info!(interface = name, "the host interface is up");
    }

    fn host_interface_down(&mut self, name: &str, reason: String) {
        let Some(state) = self.capabilities.host_interfaces.by_name.get_mut(name) else { return };
        if state.is_up {
            tracing::warn!(interface = name, reason, "the host interface is down");
        }
        (state.is_up, state.reason_down) = (false, reason);
        let (index, paired_interface) = (state.index, state.paired_interface.take());
        self.unpair(index, paired_interface);
        self.remove_queue_names(&queue_name(name));
        self.remove_queues(index);
    }
}

/// The name of a host interface's queues in `stoa show workers`, without their number.
fn queue_name(interface: &str) -> String {
    format!("host interface of {interface}")
}
