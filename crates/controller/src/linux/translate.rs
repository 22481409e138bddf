//! Translates messages of Linux and zebra for the table of learned routes: devices become interfaces,
//! next-hop objects become groups, and routes with a common target become runs.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use stoa_api::v1;

use super::message::{self, NextHopObject, Prefix, RTPROT_STOA, Route, next_hop, route};
use crate::learned::{self, Event, Target, Update};

/// Cached targets: routes with the same next hops share one.
const TARGET_CACHE_SIZE: usize = 16_384;
/// Maximum next-hop objects, and members of one.
const MAX_OBJECTS: usize = 1 << 20;
const MAX_MEMBERS: usize = 256;
/// `rtm_protocol` of the kernel's own routes.
const RTPROT_KERNEL: u8 = 2;

/// Maps a device index to its interface.
pub type Interfaces<'a> = &'a mut dyn FnMut(u32) -> Option<Arc<str>>;

/// The translation of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Translation {
    /// It leads to this target.
    Forward(Target),
    /// It is not imported, and no route to its prefix is: Stoa has it itself.
    Ignored,
    /// It cannot be imported, for this reason.
    NotImported(&'static str),
}

/// The action of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelTarget<'a> {
    /// It uses these next hops.
    NextHops(&'a [message::NextHop]),
    /// It uses this next-hop object.
    NextHopObject(u32),
    /// It is a blackhole or similar.
    Special(v1::Special),
}

/// One next-hop object, and the groups that contain it.
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

/// The next-hop objects and targets of one route source.
#[derive(Debug, Default)]
pub struct Translator {
    objects: HashMap<u32, ObjectEntry>,
    targets: HashMap<Vec<message::NextHop>, Translation>,
    /// Buffer for the next hops of the current route.
    next_hops: Vec<message::NextHop>,
    /// Objects because of which routes were not imported.
    unresolved_objects: HashSet<u32>,
}

/// Whether a router forwards to the prefix: unicast, neither link-local nor loopback.
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
    /// Discards what depends on devices: they changed.
    pub fn devices_changed(&mut self) {
        self.targets.clear();
    }

    /// Translates a route of the route source's table.
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
            route::Action::NextHop(_) | route::Action::Multipath(_) => {
                KernelTarget::NextHops(&next_hops)
            }
        };
        let translation = self.translation(&route.prefix, route.protocol, &meaning, interfaces);
        self.next_hops = next_hops;
        translation
    }

    /// Translates a route to a prefix; `protocol` is `rtm_protocol`.
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
            KernelTarget::Special(special) => {
                return Translation::Forward(Target::Special(special));
            }
            KernelTarget::NextHopObject(id) => self.translate_object(id, interfaces),
            KernelTarget::NextHops(next_hops) => self.translate_shared(next_hops, interfaces),
        };
        let is_connected = |target: &Target| match target {
            Target::Paths(next_hops, _) => {
                next_hops.iter().all(|next_hop| next_hop.gateway.is_none())
            }
            _ => false,
        };
        let has_other_family = |target: &Target| match target {
            Target::Paths(next_hops, _) => next_hops
                .iter()
                .any(|next_hop| next_hop.gateway.is_some_and(|it| it.is_ipv6() != prefix.is_ip6)),
            _ => false,
        };
        let translation = match translation {
            Translation::Forward(target) if has_other_family(&target) => {
                Translation::NotImported("the gateway is of the other address family (RFC 8950)")
            }
            translation => translation,
        };
        match (translation, meaning) {
            (Translation::Forward(target), _)
                if protocol == RTPROT_KERNEL && is_connected(&target) =>
            {
                Translation::Ignored
            }
            (Translation::Forward(_), KernelTarget::NextHopObject(id)) => {
                Translation::Forward(Target::Group(*id))
            }
            (Translation::NotImported(reason), KernelTarget::NextHopObject(id)) => {
                if self.unresolved_objects.len() < MAX_OBJECTS {
                    self.unresolved_objects.insert(*id);
                }
                Translation::NotImported(reason)
            }
            (translation, _) => translation,
        }
    }

    /// The target of next hops that many routes share.
    fn translate_shared(
        &mut self,
        next_hops: &[message::NextHop],
        interfaces: Interfaces<'_>,
    ) -> Translation {
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

    /// Translates a next-hop object.
    fn translate_object(&self, id: u32, interfaces: Interfaces<'_>) -> Translation {
        let Some(translate_object) = self.objects.get(&id) else {
            return Translation::NotImported("its next-hop object is unknown");
        };
        match &translate_object.action {
            None => Translation::NotImported("its next-hop object is empty"),
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
                        // A group with a blackhole: the kernel allows no other member in it.
                        Some(Action::Special(special)) => {
                            return Translation::Forward(Target::Special(*special));
                        }
                        // The kernel allows no nested groups; deleted members are skipped.
                        Some(Action::Group(_)) | None => {}
                    }
                }
                translate_next_hops(&next_hops, interfaces)
            }
        }
    }

    /// Adds or changes a next-hop object, and emits the groups that change with it. Returns whether routes
    /// that were not imported because of it could be imported now.
    ///
    /// # Errors
    /// When there are too many objects, or this one is not supported.
    pub fn update_object(
        &mut self,
        next_hop: &NextHopObject<'_>,
        interfaces: Interfaces<'_>,
        events: &mut Vec<Event>,
    ) -> Result<bool, &'static str> {
        let id = next_hop.id;
        if self.objects.len() >= MAX_OBJECTS && !self.objects.contains_key(&id) {
            return Err("the limit of next-hop objects is exceeded");
        }
        let action = next_hop.action.map(|action| match action {
            next_hop::Action::NextHop(next_hop) => Action::NextHop(next_hop),
            next_hop::Action::Special(special) => Action::Special(special),
            next_hop::Action::Group(_) => {
                Action::Group(next_hop.members().take(MAX_MEMBERS).collect())
            }
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

    /// Deletes a next-hop object.
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

    /// Removes an object from the group lists of its members.
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

    /// All objects as groups, for a new session: routes refer to them by id.
    pub fn all_objects(&self, interfaces: Interfaces<'_>) -> Vec<Event> {
        let groups = self.objects().map(|id| Event::Group(id, self.target(id, interfaces)));
        groups.collect()
    }

    /// The target of routes on an object; no paths when it leads nowhere.
    fn target(&self, id: u32, interfaces: Interfaces<'_>) -> Target {
        match self.translate_object(id, interfaces) {
            Translation::Forward(target) => target,
            _ => Target::Paths(Arc::default(), Arc::default()),
        }
    }

    /// Ids of all objects.
    pub fn objects(&self) -> impl Iterator<Item = u32> {
        self.objects.iter().filter(|(_, it)| it.action.is_some()).map(|(id, _)| *id)
    }
}

/// Translates next hops: those through our host interfaces, and those with a gateway only.
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
        usable.push(learned::NextHopPath {
            interface,
            gateway: next_hop.gateway,
            weight: next_hop.weight,
        });
    }
    usable.dedup();
    if usable.is_empty() {
        return Translation::NotImported("no next hop leads through a host interface of Stoa");
    }
    Translation::Forward(Target::Paths(usable.into(), Arc::default()))
}

/// A batch of events: consecutive routes with one target become one run.
#[derive(Debug, Default)]
pub struct EventBatch {
    events: Vec<Event>,
    routes: usize,
}

impl EventBatch {
    /// Number of routes in it.
    pub fn routes(&self) -> usize {
        self.routes
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// The events, to add other ones than routes.
    pub fn events(&mut self) -> &mut Vec<Event> {
        &mut self.events
    }

    /// Adds a route or a withdrawal.
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

    /// Takes the events, in order.
    pub fn take_events(&mut self) -> Vec<Event> {
        self.routes = 0;
        std::mem::take(&mut self.events)
    }
}
