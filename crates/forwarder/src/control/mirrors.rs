//! Mirrors of interfaces in Linux: opening, closing, and following what becomes of the interface.
//! A mirror is a port of our own. Its number counts down from the last interface's, where it meets
//! none that an operator has named.

use std::collections::BTreeSet;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use stoa_engine::port::Followed;
use stoa_engine::worker::Command;
use stoa_engine::{INTERFACES, Packet, Port, PortEvent, Queues, graph};
use stoa_ports::{MirrorConfig, OpenError, PortConfig};
use stoa_wire::ethernet::ethertype;

use super::apply::Refused;
use super::limits::Table;
use super::plane::Plane;
use super::wanted::{Mirror, Wanted};
use crate::nodes::{MIRROR_ENTRY, NODES};

/// How often a mirror that could not be opened is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// A mirror as it is wanted, and what became of it.
pub(super) struct MirrorState {
    wanted: Mirror,
    /// Its number among the interfaces.
    index: u32,
    /// `None`: it could not be opened.
    port: Option<Box<dyn Port>>,
    tried: Instant,
    is_up: bool,
    why_down: String,
    /// The interface that packets for Linux come from now.
    twin: Option<u32>,
}

impl MirrorState {
    /// For eyes: where it is and how it does.
    pub(super) fn detail(&self) -> String {
        match &self.port {
            Some(port) => port.detail(),
            None => format!("{} down: {}", self.place(), self.why_down),
        }
    }

    /// Namespace and device; the device alone in our own.
    fn place(&self) -> String {
        let Mirror { netns, device } = &self.wanted;
        let slash = if netns.is_empty() { "" } else { "/" };
        format!("{netns}{slash}{device}")
    }

    pub(super) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.port.as_ref().map(|port| port.descriptors()).unwrap_or_default()
    }
}

/// Interface, mirror and its port; `None`: its device is still held by another interface.
pub(super) type Opened = (String, Mirror, Option<Result<Box<dyn Port>, OpenError>>);

fn mirrors_of(wanted: &Wanted) -> Vec<(String, Mirror)> {
    let mirror = |(name, interface): (&String, &super::wanted::Interface)| {
        Some((name.clone(), interface.mirror.clone()?))
    };
    wanted.interfaces.iter().filter_map(mirror).collect()
}

impl Plane {
    /// The number that the lowest mirror has: interfaces stay below.
    pub(super) fn mirrors_begin(&self) -> u32 {
        self.mirrors.values().map(|mirror| mirror.index).min().unwrap_or(INTERFACES as u32)
    }

    /// Where the mirror with that number is; `None`: it is none.
    pub(super) fn mirror_at(&self, index: u32) -> Option<String> {
        self.mirrors.values().find(|state| state.index == index).map(MirrorState::place)
    }

    fn open_mirror(&self, wanted: &Mirror) -> Result<Box<dyn Port>, OpenError> {
        let config = MirrorConfig {
            device: wanted.device.clone(),
            netns: (!wanted.netns.is_empty()).then(|| wanted.netns.clone()),
            queues: self.crew.workers.len() as u16,
            alias: self.alias.clone(),
        };
        (self.open)(&PortConfig::Mirror(config), self.pool)
    }

    /// Opens the mirrors that are new, and changes nothing yet: programs live on those that are
    /// there, and a change that is refused must not take them away. A forwarder that begins takes
    /// what it gets, and tries again: packets do not wait for Linux.
    pub(super) fn open_mirrors(&self, wanted: &Wanted) -> Result<Vec<Opened>, Refused> {
        let wanted = mirrors_of(wanted);
        let held: BTreeSet<Mirror> = self.mirrors.values().map(|m| m.wanted.clone()).collect();
        let (mut opened, mut reasons) = (Vec::new(), Vec::new());
        for (name, mirror) in &wanted {
            if self.mirrors.get(name).is_some_and(|state| state.wanted == *mirror) {
                continue;
            }
            // A device that moves from one interface to another must be let go first.
            let moves = held.contains(mirror);
            let port = if moves { None } else { Some(self.open_mirror(mirror)) };
            match port {
                Some(Err(error)) if !self.may_wait => {
                    reasons.extend(Refused::mirror(name, &error).reasons);
                }
                port => opened.push((name.clone(), mirror.clone(), port)),
            }
        }
        if !reasons.is_empty() {
            return Err(Refused { reasons, is_full: false });
        }
        Ok(opened)
    }

    /// Closes the mirrors that are not wanted any more, and takes in those that were opened: when
    /// nothing else can be refused.
    pub(super) fn set_mirrors(
        &mut self,
        wanted: &Wanted,
        opened: Vec<Opened>,
    ) -> Result<(), Refused> {
        let wanted = mirrors_of(wanted);
        let stays = |name: &String, state: &MirrorState| {
            wanted.iter().any(|(other, mirror)| other == name && *mirror == state.wanted)
        };
        let stale = self.mirrors.iter().filter(|(name, state)| !stays(name, state));
        for name in stale.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
            self.close_mirror(&name);
        }
        for (name, mirror, port) in opened {
            self.add_mirror(&name, mirror, port)?;
        }
        Ok(())
    }

    fn add_mirror(
        &mut self,
        name: &str,
        wanted: Mirror,
        port: Option<Result<Box<dyn Port>, OpenError>>,
    ) -> Result<(), Refused> {
        let taken: BTreeSet<u32> = self.mirrors.values().map(|mirror| mirror.index).collect();
        let lowest = self.interfaces.len() as u32;
        let free = (lowest..INTERFACES as u32).rev().find(|index| !taken.contains(index));
        let Some(index) = free else {
            let why = format!("all {INTERFACES} interfaces are in use");
            let full = self.fib.refusals.full(Table::Interfaces, why);
            return Err(Refused::full(format!("interface {name:?}"), &full));
        };
        let now = Instant::now();
        let (port, tried, why_down) = match port {
            Some(Ok(port)) => (Some(port), now, "not up yet".to_owned()),
            Some(Err(error)) => {
                tracing::warn!(interface = name, "no mirror: {error}; trying again");
                (None, now, error.to_string())
            }
            // Let go by another interface just now.
            None => (None, now.checked_sub(AGAIN).unwrap_or(now), "moves".to_owned()),
        };
        let state = MirrorState { wanted, index, port, tried, is_up: false, why_down, twin: None };
        self.mirrors.insert(name.to_owned(), state);
        self.tell(|| Command::Map { interface: index, base: index });
        Ok(())
    }

    fn close_mirror(&mut self, name: &str) {
        let Some(state) = self.mirrors.get_mut(name) else { return };
        let (index, twin) = (state.index, state.twin.take());
        self.untwin(index, twin);
        self.forget_queues(&queue_name(name));
        self.withdraw(index);
        self.tell(|| Command::Map { interface: index, base: stoa_engine::output::NO_INTERFACE });
        self.mirrors.remove(name);
    }

    fn untwin(&self, index: u32, twin: Option<u32>) {
        self.shared.interface(index).set_twin(None, [0; 8]);
        if let Some(interface) = twin {
            self.shared.interface(interface).set_twin(None, [0; 8]);
        }
    }

    /// Lets mirrors do what they have to, and follow their interfaces.
    pub(super) fn service_mirrors(&mut self) {
        let names: Vec<String> = self.mirrors.keys().cloned().collect();
        for name in names {
            self.reopen_mirror(&name);
            self.follow_interface(&name);
            let Some(state) = self.mirrors.get_mut(&name) else { continue };
            let events = state.port.as_mut().map(|port| port.service()).unwrap_or_default();
            for event in events {
                match event {
                    PortEvent::Up(queues) => self.mirror_up(&name, queues),
                    PortEvent::Down(why) => self.mirror_down(&name, why),
                }
            }
            self.twin(&name);
        }
    }

    fn reopen_mirror(&mut self, name: &str) {
        let Some(state) = self.mirrors.get(name) else { return };
        if state.port.is_some() || state.tried.elapsed() < AGAIN {
            return;
        }
        let port = self.open_mirror(&state.wanted);
        let Some(state) = self.mirrors.get_mut(name) else { return };
        state.tried = Instant::now();
        match port {
            Ok(port) => state.port = Some(port),
            Err(error) => state.why_down = error.to_string(),
        }
    }

    /// Tells a mirror what is true of its interface.
    fn follow_interface(&mut self, name: &str) {
        let Some(interface) = self.index_of(name).and_then(|index| self.interface(index)) else {
            return;
        };
        let followed = Followed {
            mac: interface.link.mac,
            mtu: interface.mtu.0.max(interface.mtu.1).into(),
            is_up: interface.is_up,
        };
        if followed.mtu == 0 {
            // Its place is only reserved yet.
            return;
        }
        if let Some(port) = self.mirrors.get_mut(name).and_then(|state| state.port.as_mut()) {
            port.follow(&followed);
        }
    }

    /// Joins interface and mirror for the workers while both are there and the mirror is up.
    fn twin(&mut self, name: &str) {
        let interface = self.index_of(name).filter(|_| self.mirrors[name].is_up);
        let tags = interface.and_then(|index| self.interface(index)).map(|state| {
            let mut tags = [0; 8];
            for (at, (tpid, vid)) in state.link.tags.iter().take(2).enumerate() {
                tags[4 * at..][..2].copy_from_slice(&tpid.to_be_bytes());
                tags[4 * at + 2..][..2].copy_from_slice(&vid.to_be_bytes());
            }
            tags
        });
        let Some(state) = self.mirrors.get_mut(name) else { return };
        let (index, before) = (state.index, std::mem::replace(&mut state.twin, interface));
        if before != interface {
            self.untwin(index, before);
        }
        if let (Some(interface), Some(tags)) = (interface, tags) {
            self.shared.interface(interface).set_twin(Some(index), tags);
            self.shared.interface(index).set_twin(Some(interface), [0; 8]);
        }
    }

    fn mirror_up(&mut self, name: &str, queues: Queues) {
        let Some(state) = self.mirrors.get_mut(name) else { return };
        let (index, was_up) = (state.index, std::mem::replace(&mut state.is_up, true));
        if was_up {
            self.forget_queues(&queue_name(name));
            self.withdraw(index);
        }
        self.send_through(index, queues.tx);
        let input = (NODES.len() + 1 + stoa_ports::input_of("tap")) as u16;
        let node = graph::index_of(NODES, MIRROR_ENTRY).unwrap_or(0);
        for (number, queue) in queues.rx.into_iter().enumerate() {
            let at = number % self.crew.workers.len();
            self.queues.push((format!("{}:{number}", queue_name(name)), at));
            let spread = None;
            let command = Command::AddRx { interface: index, input, node, queue, spread };
            self.crew.workers[at].tell(command);
        }
        self.settle();
        tracing::info!(interface = name, "the mirror is up");
    }

    fn mirror_down(&mut self, name: &str, why: String) {
        let Some(state) = self.mirrors.get_mut(name) else { return };
        if state.is_up {
            tracing::warn!(interface = name, why, "the mirror is down");
        }
        (state.is_up, state.why_down) = (false, why);
        let (index, twin) = (state.index, state.twin.take());
        self.untwin(index, twin);
        self.forget_queues(&queue_name(name));
        self.withdraw(index);
    }

    /// What this thread has taken from the graph is for Linux as well: answers about neighbours.
    /// Says whether there is a mirror.
    pub(super) fn tell_mirror(&mut self, packet: &Packet, source: [u8; 6]) -> bool {
        let Some(mirror) = self.shared.interface(packet.rx_if).twin() else { return false };
        let Some(state) = self.interface(packet.rx_if) else { return false };
        let bytes = packet.bytes();
        let kind = if bytes.first().is_some_and(|first| first >> 4 == 6) {
            ethertype::IP6
        } else {
            ethertype::ARP
        };
        let frame = [&state.link.mac, &source, &kind.to_be_bytes()[..], bytes].concat();
        self.send_frame(mirror, &frame);
        true
    }
}

/// What `stoa show workers` calls the queues of a mirror, but for their number.
fn queue_name(interface: &str) -> String {
    format!("mirror of {interface}")
}
