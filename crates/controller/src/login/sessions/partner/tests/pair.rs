//! Two routers, their forwarders and their accounting.

use std::collections::{BTreeMap, VecDeque};

use stoa_api::login::Key;
use stoa_api::v1;

use super::super::super::{Event, Limits, Method, New, Session, Sessions};
use super::super::Message;

pub(super) const IDLE_S: u32 = 300;

pub(super) fn host(last: u8) -> Key {
    Key { interface: "guests".to_owned(), mac: [2, 0, 0, 0, 0, last] }
}

pub(super) fn new(last: u8, id: u64) -> New {
    New {
        host: host(last),
        id,
        user: "ann".to_owned(),
        method: Method::Radius,
        limits: Limits { idle_s: Some(IDLE_S), ..Limits::default() },
        hosts_most: None,
        address: "10.0.0.9".to_owned(),
        class: vec![vec![7; 3]],
        interim_s: None,
    }
}

/// Two routers. Each forwarder counts packets of hosts since it has their login.
pub(super) struct Pair {
    pub(super) routers: [Sessions; 2],
    packets: [BTreeMap<(u8, u64), u64>; 2],
    /// What each router has sent, and the other one has not got.
    wires: [VecDeque<Message>; 2],
    pub(super) is_connected: bool,
    /// Seconds for which nothing arrives.
    pub(super) hold_s: u8,
    /// Whether both have got everything once on this connection.
    is_complete: [bool; 2],
    /// What accounting got: starts and stops of each login, and the most packets.
    pub(super) starts: Vec<u64>,
    pub(super) stops: Vec<u64>,
    pub(super) reported: BTreeMap<u64, u64>,
    pub(super) sent: BTreeMap<u64, u64>,
    pub(super) now: u64,
}

impl Pair {
    pub(super) fn new() -> Self {
        let mut routers = [Sessions::default(), Sessions::default()];
        routers.iter_mut().for_each(|it| it.set_partner(true));
        Self {
            routers,
            packets: Default::default(),
            wires: Default::default(),
            is_connected: false,
            hold_s: 0,
            is_complete: [false; 2],
            starts: Vec::new(),
            stops: Vec::new(),
            reported: BTreeMap::new(),
            sent: BTreeMap::new(),
            now: 10_000,
        }
    }

    pub(super) fn begin(&mut self, at: usize, last: u8, id: u64) {
        self.routers[at].begin(new(last, id), self.now).unwrap();
    }

    pub(super) fn connect(&mut self) {
        (self.is_connected, self.is_complete) = (true, [false; 2]);
        for at in [0, 1] {
            let hello = self.routers[at].connected(at == 1);
            self.wires[at].push_back(hello);
        }
        self.exchange();
    }

    pub(super) fn part(&mut self) {
        self.routers.iter_mut().for_each(Sessions::disconnected);
        self.wires = Default::default();
        (self.is_connected, self.hold_s) = (false, 0);
    }

    /// Both send what they have to send; all of it arrives, if nothing holds it up.
    fn exchange(&mut self) {
        for from in [0, 1] {
            let mut behind = None;
            loop {
                let taken = self.routers[from].take(&mut behind, 2, self.now);
                let is_over = taken.len() < 2;
                self.wires[from].extend(taken);
                if is_over {
                    break;
                }
            }
            let last = match std::mem::replace(&mut self.is_complete[from], true) {
                true => self.routers[from].alive(),
                false => Message::Complete,
            };
            self.wires[from].push_back(last);
        }
        self.deliver();
    }

    fn deliver(&mut self) {
        while self.hold_s == 0 {
            let mut is_empty = true;
            for from in [0, 1] {
                let Some(message) = self.wires[from].pop_front() else { continue };
                is_empty = false;
                let text = serde_json::to_vec(&message).unwrap();
                let message = serde_json::from_slice(&text).unwrap();
                self.routers[1 - from].receive(message, true, self.now);
            }
            if is_empty {
                break;
            }
        }
    }

    /// The host sends a packet by a router; whether it passes.
    pub(super) fn send(&mut self, at: usize, last: u8) -> bool {
        let Some(id) = self.routers[at].of(&host(last)).map(|it| it.id) else { return false };
        *self.packets[at].entry((last, id)).or_default() += 1;
        *self.sent.entry(id).or_default() += 1;
        true
    }

    /// A second passes.
    pub(super) fn pass(&mut self) {
        self.now += 1;
        for at in [0, 1] {
            for (host, id) in self.routers[at].take_rows() {
                self.packets[at].retain(|(last, of), _| *last != host.mac[5] || Some(*of) == id);
            }
            let states: Vec<_> =
                self.routers[at].all().filter_map(|it| self.state(at, it)).collect();
            self.routers[at].count(&states, 1 + at as u64, self.now);
            self.routers[at].pass(self.now, 60);
        }
        if self.is_connected {
            self.hold_s = self.hold_s.saturating_sub(1);
            self.exchange();
        }
        self.account();
    }

    /// What the forwarder has counted of a login. The host has sent something, if the count has grown.
    fn state(&self, at: usize, it: &Session) -> Option<v1::LoginState> {
        let packets = *self.packets[at].get(&(it.mac[5], it.id))?;
        let is_new = it.run == 0 || packets > it.here.minus(it.former).in_packets;
        Some(v1::LoginState {
            interface: it.interface.clone(),
            mac: it.mac.to_vec(),
            id: it.id,
            in_packets: packets,
            in_bytes: 100 * packets,
            idle_ms: is_new.then_some(0),
            ..v1::LoginState::default()
        })
    }

    pub(super) fn account(&mut self) {
        for router in &mut self.routers {
            for event in router.take_events() {
                let (Event::Started(it) | Event::Interim(it) | Event::Stopped(it, _)) = &event;
                let most = self.reported.entry(it.id).or_default();
                *most = it.total().in_packets.max(*most);
                match event {
                    Event::Started(it) => self.starts.push(it.id),
                    Event::Interim(_) => {}
                    Event::Stopped(it, _) => self.stops.push(it.id),
                }
            }
        }
    }

    pub(super) fn owners(&self, last: u8) -> [Option<bool>; 2] {
        [0, 1].map(|at| self.routers[at].of(&host(last)).map(|it| !it.is_standby()))
    }

    pub(super) fn total(&self, at: usize) -> u64 {
        self.routers[at].of(&host(1)).unwrap().total().in_packets
    }
}
