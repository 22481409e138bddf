//! From what Linux and zebra say to what the table of learned routes understands: devices become interfaces, next-hop objects
//! become groups, and routes with one target become runs.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use stoa_api::v1;

use super::MARK;
use super::message::{self, NextHop, Prefix, Route, next_hop, route};
use crate::learned::{self, Event, Target, Update};

/// Targets that are kept in mind: routes with the same ways share one.
const TARGETS: usize = 16_384;
/// Next-hop objects at most, and members of one.
const OBJECTS: usize = 1 << 20;
const MEMBERS: usize = 256;
/// `rtm_protocol` of what the kernel does by itself.
const KERNEL: u8 = 2;

/// The interface of a device.
pub type Interfaces<'a> = &'a mut dyn FnMut(u32) -> Option<Arc<str>>;

/// What is to be done about a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It leads there.
    Leads(Target),
    /// It is none that is handed on, and none of its prefix is there any more: Stoa has it itself.
    Own,
    /// It cannot be done, for this reason.
    LeftOut(&'static str),
}

/// What a route does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning<'a> {
    /// It sends by these.
    Ways(&'a [message::Way]),
    /// It does what this next-hop object does.
    NextHop(u32),
    /// It sends nowhere.
    Special(v1::Special),
}

/// One next-hop object, and the groups that it is in.
#[derive(Debug, Default)]
struct Object {
    action: Option<Action>,
    groups: BTreeSet<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Action {
    Way(message::Way),
    Group(Vec<(u32, u32)>),
    Special(v1::Special),
}

/// Keeps next-hop objects and targets of one route source.
#[derive(Debug, Default)]
pub struct Translator {
    objects: HashMap<u32, Object>,
    targets: HashMap<Vec<message::Way>, Verdict>,
    /// Ways of the route at hand.
    ways: Vec<message::Way>,
    /// Objects for which routes were left out.
    refused: HashSet<u32>,
}

/// Whether the prefix is one that a router hands on: of unicast, beyond the link and the machine.
fn is_routed(prefix: &Prefix) -> bool {
    let top = |bits: u32| {
        if prefix.is_ip6 { prefix.bits >> (128 - bits) } else { prefix.bits >> (32 - bits) }
    };
    let holds = |value: u128, bits: u32| u32::from(prefix.length) >= bits && top(bits) == value;
    if prefix.is_ip6 {
        // ::1, fe80::/10, ff00::/8
        let is_loopback = prefix.bits == 1 && prefix.length == 128;
        return !(is_loopback || holds(0x3fa, 10) || holds(0xff, 8));
    }
    // 127/8, 169.254/16, 224/4 and above
    !(holds(127, 8) || holds(0xa9fe, 16) || holds(0x7, 3))
}

impl Translator {
    /// Forgets what depends on devices: they changed.
    pub fn devices_changed(&mut self) {
        self.targets.clear();
    }

    /// What a route of the route source's table is to Stoa.
    pub fn route(&mut self, route: &Route<'_>, interfaces: Interfaces<'_>) -> Verdict {
        if route.has_service {
            return Verdict::LeftOut("a route for one type of service");
        }
        let mut ways = std::mem::take(&mut self.ways);
        ways.clear();
        ways.extend(route.ways());
        let meaning = match route.action {
            route::Action::Special(special) => Meaning::Special(special),
            route::Action::NextHop(id) => Meaning::NextHop(id),
            route::Action::Way(_) | route::Action::Ways(_) => Meaning::Ways(&ways),
        };
        let verdict = self.verdict(&route.prefix, route.protocol, &meaning, interfaces);
        self.ways = ways;
        verdict
    }

    /// What a route to a prefix, of a protocol as Linux numbers them, is to Stoa.
    pub fn verdict(
        &mut self,
        prefix: &Prefix,
        protocol: u8,
        meaning: &Meaning<'_>,
        interfaces: Interfaces<'_>,
    ) -> Verdict {
        if protocol == MARK || !is_routed(prefix) {
            return Verdict::Own;
        }
        let verdict = match *meaning {
            Meaning::Special(special) => return Verdict::Leads(Target::Special(special)),
            Meaning::NextHop(id) => self.object(id, interfaces),
            Meaning::Ways(ways) => self.shared(ways, interfaces),
        };
        let is_connected = |target: &Target| match target {
            Target::Ways(ways, _) => ways.iter().all(|way| way.gateway.is_none()),
            _ => false,
        };
        let is_odd = |target: &Target| match target {
            Target::Ways(ways, _) => {
                ways.iter().any(|way| way.gateway.is_some_and(|it| it.is_ipv6() != prefix.is_ip6))
            }
            _ => false,
        };
        let verdict = match verdict {
            Verdict::Leads(target) if is_odd(&target) => {
                Verdict::LeftOut("its gateway is of the other family (RFC 8950)")
            }
            verdict => verdict,
        };
        match (verdict, meaning) {
            (Verdict::Leads(target), _) if protocol == KERNEL && is_connected(&target) => {
                Verdict::Own
            }
            (Verdict::Leads(_), Meaning::NextHop(id)) => Verdict::Leads(Target::Group(*id)),
            (Verdict::LeftOut(reason), Meaning::NextHop(id)) => {
                if self.refused.len() < OBJECTS {
                    self.refused.insert(*id);
                }
                Verdict::LeftOut(reason)
            }
            (verdict, _) => verdict,
        }
    }

    /// The target of ways that many routes share.
    fn shared(&mut self, ways: &[message::Way], interfaces: Interfaces<'_>) -> Verdict {
        if let Some(known) = self.targets.get(ways) {
            return known.clone();
        }
        let verdict = leads(ways, interfaces);
        if self.targets.len() >= TARGETS {
            self.targets.clear();
        }
        self.targets.insert(ways.to_vec(), verdict.clone());
        verdict
    }

    /// What a next-hop object comes to.
    fn object(&self, id: u32, interfaces: Interfaces<'_>) -> Verdict {
        let Some(object) = self.objects.get(&id) else {
            return Verdict::LeftOut("it is on a next-hop object that was never told");
        };
        match &object.action {
            None => Verdict::LeftOut("it is on a next-hop object that says nothing"),
            Some(Action::Special(special)) => Verdict::Leads(Target::Special(*special)),
            Some(Action::Way(way)) => leads(&[*way], interfaces),
            Some(Action::Group(members)) => {
                let mut ways = Vec::with_capacity(members.len());
                for (member, weight) in members {
                    match self.objects.get(member).and_then(|it| it.action.as_ref()) {
                        Some(Action::Way(way)) => {
                            let weight = u16::try_from(*weight).unwrap_or(u16::MAX).clamp(1, 256);
                            ways.push(message::Way { weight, ..*way });
                        }
                        // A group of one black hole: the kernel allows no other.
                        Some(Action::Special(special)) => {
                            return Verdict::Leads(Target::Special(*special));
                        }
                        // The kernel allows no groups in groups; a member that went is gone.
                        Some(Action::Group(_)) | None => {}
                    }
                }
                leads(&ways, interfaces)
            }
        }
    }

    /// Takes a new or changed next-hop object, and says which groups change with it. Gives whether routes that were left out
    /// for it are good now.
    ///
    /// # Errors
    /// When there are too many, or what it says cannot be done.
    pub fn next_hop(
        &mut self,
        next_hop: &NextHop<'_>,
        interfaces: Interfaces<'_>,
        events: &mut Vec<Event>,
    ) -> Result<bool, &'static str> {
        let id = next_hop.id;
        if self.objects.len() >= OBJECTS && !self.objects.contains_key(&id) {
            return Err("there are more next-hop objects than Stoa keeps");
        }
        let action = next_hop.action.map(|action| match action {
            next_hop::Action::Way(way) => Action::Way(way),
            next_hop::Action::Special(special) => Action::Special(special),
            next_hop::Action::Group(_) => Action::Group(next_hop.members().take(MEMBERS).collect()),
        });
        let mut touched = vec![id];
        touched.extend(self.objects.get(&id).into_iter().flat_map(|it| it.groups.iter().copied()));
        self.leave(id);
        if let Some(Action::Group(members)) = &action {
            for (member, _) in members {
                if *member != id {
                    self.objects.entry(*member).or_default().groups.insert(id);
                }
            }
        }
        self.objects.entry(id).or_default().action = action;
        let mut is_found = false;
        for id in touched {
            let target = match self.object(id, interfaces) {
                Verdict::Leads(target) => {
                    is_found |= self.refused.remove(&id);
                    target
                }
                _ => Target::Ways(Arc::default(), Arc::default()),
            };
            events.push(Event::Group(id, target));
        }
        Ok(is_found)
    }

    /// Takes back a next-hop object.
    pub fn next_hop_gone(&mut self, id: u32, interfaces: Interfaces<'_>, events: &mut Vec<Event>) {
        self.leave(id);
        let Some(object) = self.objects.get_mut(&id) else { return };
        object.action = None;
        let groups: Vec<u32> = object.groups.iter().copied().collect();
        if groups.is_empty() {
            self.objects.remove(&id);
        }
        events.push(Event::GroupGone(id));
        for group in groups {
            events.push(Event::Group(group, self.target(group, interfaces)));
        }
    }

    /// Takes an object out of the packet accounting of its members.
    fn leave(&mut self, id: u32) {
        let Some(Object { action: Some(Action::Group(members)), .. }) = self.objects.get(&id)
        else {
            return;
        };
        for (member, _) in members.clone() {
            let Some(object) = self.objects.get_mut(&member) else { continue };
            object.groups.remove(&id);
            if object.groups.is_empty() && object.action.is_none() {
                self.objects.remove(&member);
            }
        }
    }

    /// What all objects come to now, for a session that begins: routes on them are told by their numbers.
    pub fn all_objects(&self, interfaces: Interfaces<'_>) -> Vec<Event> {
        let groups = self.objects().map(|id| Event::Group(id, self.target(id, interfaces)));
        groups.collect()
    }

    /// What routes on an object do; ways to nowhere when they lead nowhere.
    fn target(&self, id: u32, interfaces: Interfaces<'_>) -> Target {
        match self.object(id, interfaces) {
            Verdict::Leads(target) => target,
            _ => Target::Ways(Arc::default(), Arc::default()),
        }
    }

    /// Numbers of all objects.
    pub fn objects(&self) -> impl Iterator<Item = u32> {
        self.objects.iter().filter(|(_, it)| it.action.is_some()).map(|(id, _)| *id)
    }
}

/// What ways come to: those through our host interfaces, and those that only have a gateway.
fn leads(ways: &[message::Way], interfaces: Interfaces<'_>) -> Verdict {
    let mut ours: Vec<learned::Way> = Vec::with_capacity(ways.len());
    for way in ways {
        let interface = match way.device {
            0 => None,
            device => match interfaces(device) {
                Some(interface) => Some(interface),
                None => continue,
            },
        };
        ours.push(learned::Way { interface, gateway: way.gateway, weight: way.weight });
    }
    ours.dedup();
    if ours.is_empty() {
        return Verdict::LeftOut("it leads through no host interface of Stoa");
    }
    Verdict::Leads(Target::Ways(ours.into(), Arc::default()))
}

/// Events in the making: routes with one target that follow each other become one run.
#[derive(Debug, Default)]
pub struct Batch {
    events: Vec<Event>,
    routes: usize,
}

impl Batch {
    /// Routes so far.
    pub fn routes(&self) -> usize {
        self.routes
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// The events, to add some that are no routes.
    pub fn events(&mut self) -> &mut Vec<Event> {
        &mut self.events
    }

    /// Adds a route, or one that goes.
    pub fn route(&mut self, prefix: &Prefix, protocol: v1::Protocol, target: Option<Target>) {
        self.routes += 1;
        let is_same =
            |it: &Update| it.target == target && (it.protocol == protocol || target.is_none());
        if !matches!(self.events.last(), Some(Event::Update(last)) if is_same(last)) {
            let update = Update { protocol, target, ip4: Vec::new(), ip6: Vec::new() };
            self.events.push(Event::Update(update));
        }
        if let Some(Event::Update(last)) = self.events.last_mut() {
            match u32::try_from(prefix.bits) {
                Ok(bits) if !prefix.is_ip6 => last.ip4.push((bits, prefix.length)),
                _ => last.ip6.push((prefix.bits, prefix.length)),
            }
        }
    }

    /// What was said, in its order; nothing is left.
    pub fn take(&mut self) -> Vec<Event> {
        self.routes = 0;
        std::mem::take(&mut self.events)
    }
}
