//! From what Linux and zebra say to what the table of learned routes understands: devices become interfaces, next-hop objects
//! become groups, and routes with one target become runs.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use stoa_api::v1;

use super::RTPROT_STOA;
use super::message::{self, NextHopObject, Prefix, Route, next_hop, route};
use crate::learned::{self, Event, Target, Update};

/// Targets that are kept in mind: routes with the same ways share one.
const TARGET_CACHE_SIZE: usize = 16_384;
/// Next-hop objects at most, and members of one.
const MAX_OBJECTS: usize = 1 << 20;
const MAX_MEMBERS: usize = 256;
/// `rtm_protocol` of what the kernel does by itself.
const RTPROT_KERNEL: u8 = 2;

/// The interface of a device.
pub type Interfaces<'a> = &'a mut dyn FnMut(u32) -> Option<Arc<str>>;

/// What is to be done about a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Translation {
    /// It leads there.
    Forward(Target),
    /// It is none that is handed on, and none of its prefix is there any more: Stoa has it itself.
    Ignored,
    /// It cannot be done, for this reason.
    NotImported(&'static str),
}

/// What a route does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelTarget<'a> {
    /// It sends by these.
    NextHops(&'a [message::NextHop]),
    /// It does what this next-hop object does.
    NextHopObject(u32),
    /// It sends nowhere.
    Special(v1::Special),
}

/// One next-hop object, and the groups that it is in.
#[derive(Debug, Default)]
struct ObjectEntry {
    action: Option<Action>,
    groups: BTreeSet<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Action {
    NextHop(message::NextHop),
    Group(Vec<(u32, u32)>),
    Special(v1::Special),
}

/// Keeps next-hop objects and targets of one route source.
#[derive(Debug, Default)]
pub struct Translator {
    objects: HashMap<u32, ObjectEntry>,
    targets: HashMap<Vec<message::NextHop>, Translation>,
    /// Ways of the route at hand.
    next_hops: Vec<message::NextHop>,
    /// Objects for which routes were left out.
    unresolved_objects: HashSet<u32>,
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
    pub fn route(&mut self, route: &Route<'_>, interfaces: Interfaces<'_>) -> Translation {
        if route.has_service {
            return Translation::NotImported("a route for one type of service");
        }
        let mut next_hops = std::mem::take(&mut self.next_hops);
        next_hops.clear();
        next_hops.extend(route.next_hops());
        let meaning = match route.action {
            route::Action::Special(special) => KernelTarget::Special(special),
            route::Action::NextHopObject(id) => KernelTarget::NextHopObject(id),
            route::Action::NextHop(_) | route::Action::Multipath(_) => KernelTarget::NextHops(&next_hops),
        };
        let translation = self.translation(&route.prefix, route.protocol, &meaning, interfaces);
        self.next_hops = next_hops;
        translation
    }

    /// What a route to a prefix, of a protocol as Linux numbers them, is to Stoa.
    pub fn translation(
        &mut self,
        prefix: &Prefix,
        protocol: u8,
        meaning: &KernelTarget<'_>,
        interfaces: Interfaces<'_>,
    ) -> Translation {
        if protocol == RTPROT_STOA || !is_routed(prefix) {
            return Translation::Ignored;
        }
        let translation = match *meaning {
            KernelTarget::Special(special) => return Translation::Forward(Target::Special(special)),
            KernelTarget::NextHopObject(id) => self.translate_object(id, interfaces),
            KernelTarget::NextHops(next_hops) => self.translate_shared(next_hops, interfaces),
        };
        let is_connected = |target: &Target| match target {
            Target::Paths(next_hops, _) => next_hops.iter().all(|next_hop| next_hop.gateway.is_none()),
            _ => false,
        };
        let has_other_family = |target: &Target| match target {
            Target::Paths(next_hops, _) => {
                next_hops.iter().any(|next_hop| next_hop.gateway.is_some_and(|it| it.is_ipv6() != prefix.is_ip6))
            }
            _ => false,
        };
        let translation = match translation {
            Translation::Forward(target) if has_other_family(&target) => {
                Translation::NotImported("its gateway is of the other family (RFC 8950)")
            }
            translation => translation,
        };
        match (translation, meaning) {
            (Translation::Forward(target), _) if protocol == RTPROT_KERNEL && is_connected(&target) => {
                Translation::Ignored
            }
            (Translation::Forward(_), KernelTarget::NextHopObject(id)) => Translation::Forward(Target::Group(*id)),
            (Translation::NotImported(reason), KernelTarget::NextHopObject(id)) => {
                if self.unresolved_objects.len() < MAX_OBJECTS {
                    self.unresolved_objects.insert(*id);
                }
                Translation::NotImported(reason)
            }
            (translation, _) => translation,
        }
    }

    /// The target of ways that many routes share.
    fn translate_shared(&mut self, next_hops: &[message::NextHop], interfaces: Interfaces<'_>) -> Translation {
        if let Some(known) = self.targets.get(next_hops) {
            return known.clone();
        }
        let translation = translate_next_hops(next_hops, interfaces);
        if self.targets.len() >= TARGET_CACHE_SIZE {
            self.targets.clear();
        }
        self.targets.insert(next_hops.to_vec(), translation.clone());
        translation
    }

    /// What a next-hop object comes to.
    fn translate_object(&self, id: u32, interfaces: Interfaces<'_>) -> Translation {
        let Some(translate_object) = self.objects.get(&id) else {
            return Translation::NotImported("it is on a next-hop object that was never told");
        };
        match &translate_object.action {
            None => Translation::NotImported("it is on a next-hop object that says nothing"),
            Some(Action::Special(special)) => Translation::Forward(Target::Special(*special)),
            Some(Action::NextHop(next_hop)) => translate_next_hops(&[*next_hop], interfaces),
            Some(Action::Group(members)) => {
                let mut next_hops = Vec::with_capacity(members.len());
                for (member, weight) in members {
                    match self.objects.get(member).and_then(|it| it.action.as_ref()) {
                        Some(Action::NextHop(next_hop)) => {
                            let weight = u16::try_from(*weight).unwrap_or(u16::MAX).clamp(1, 256);
                            next_hops.push(message::NextHop { weight, ..*next_hop });
                        }
                        // A group of one black hole: the kernel allows no other.
                        Some(Action::Special(special)) => {
                            return Translation::Forward(Target::Special(*special));
                        }
                        // The kernel allows no groups in groups; a member that went is gone.
                        Some(Action::Group(_)) | None => {}
                    }
                }
                translate_next_hops(&next_hops, interfaces)
            }
        }
    }

    /// Takes a new or changed next-hop object, and says which groups change with it. Gives whether routes that were left out
    /// for it are good now.
    ///
    /// # Errors
    /// When there are too many, or what it says cannot be done.
    pub fn update_object(
        &mut self,
        next_hop: &NextHopObject<'_>,
        interfaces: Interfaces<'_>,
        events: &mut Vec<Event>,
    ) -> Result<bool, &'static str> {
        let id = next_hop.id;
        if self.objects.len() >= MAX_OBJECTS && !self.objects.contains_key(&id) {
            return Err("there are more next-hop objects than Stoa keeps");
        }
        let action = next_hop.action.map(|action| match action {
            next_hop::Action::NextHop(next_hop) => Action::NextHop(next_hop),
            next_hop::Action::Special(special) => Action::Special(special),
            next_hop::Action::Group(_) => Action::Group(next_hop.members().take(MAX_MEMBERS).collect()),
        });
        let mut affected = vec![id];
        affected.extend(self.objects.get(&id).into_iter().flat_map(|it| it.groups.iter().copied()));
        self.leave_groups(id);
        if let Some(Action::Group(members)) = &action {
            for (member, _) in members {
                if *member != id {
                    self.objects.entry(*member).or_default().groups.insert(id);
                }
            }
        }
        self.objects.entry(id).or_default().action = action;
        let mut needs_retranslation = false;
        for id in affected {
            let target = match self.translate_object(id, interfaces) {
                Translation::Forward(target) => {
                    needs_retranslation |= self.unresolved_objects.remove(&id);
                    target
                }
                _ => Target::Paths(Arc::default(), Arc::default()),
            };
            events.push(Event::Group(id, target));
        }
        Ok(needs_retranslation)
    }

    /// Takes back a next-hop object.
    pub fn remove_object(&mut self, id: u32, interfaces: Interfaces<'_>, events: &mut Vec<Event>) {
        self.leave_groups(id);
        let Some(translate_object) = self.objects.get_mut(&id) else { return };
        translate_object.action = None;
        let groups: Vec<u32> = translate_object.groups.iter().copied().collect();
        if groups.is_empty() {
            self.objects.remove(&id);
        }
        events.push(Event::GroupDeleted(id));
        for group in groups {
            events.push(Event::Group(group, self.target(group, interfaces)));
        }
    }

    /// Takes an object out of the packet accounting of its members.
    fn leave_groups(&mut self, id: u32) {
        let Some(ObjectEntry { action: Some(Action::Group(members)), .. }) = self.objects.get(&id)
        else {
            return;
        };
        for (member, _) in members.clone() {
            let Some(translate_object) = self.objects.get_mut(&member) else { continue };
            translate_object.groups.remove(&id);
            if translate_object.groups.is_empty() && translate_object.action.is_none() {
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
        match self.translate_object(id, interfaces) {
            Translation::Forward(target) => target,
            _ => Target::Paths(Arc::default(), Arc::default()),
        }
    }

    /// Numbers of all objects.
    pub fn objects(&self) -> impl Iterator<Item = u32> {
        self.objects.iter().filter(|(_, it)| it.action.is_some()).map(|(id, _)| *id)
    }
}

/// What ways come to: those through our host interfaces, and those that only have a gateway.
fn translate_next_hops(next_hops: &[message::NextHop], interfaces: Interfaces<'_>) -> Translation {
    let mut usable: Vec<learned::NextHopPath> = Vec::with_capacity(next_hops.len());
    for next_hop in next_hops {
        let interface = match next_hop.device {
            0 => None,
            device => match interfaces(device) {
                Some(interface) => Some(interface),
                None => continue,
            },
        };
        usable.push(learned::NextHopPath { interface, gateway: next_hop.gateway, weight: next_hop.weight });
    }
    usable.dedup();
    if usable.is_empty() {
        return Translation::NotImported("it leads through no host interface of Stoa");
    }
    Translation::Forward(Target::Paths(usable.into(), Arc::default()))
}

/// Events in the making: routes with one target that follow each other become one run.
#[derive(Debug, Default)]
pub struct EventBatch {
    events: Vec<Event>,
    routes: usize,
}

impl EventBatch {
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
    pub fn take_events(&mut self) -> Vec<Event> {
        self.routes = 0;
        std::mem::take(&mut self.events)
    }
}
