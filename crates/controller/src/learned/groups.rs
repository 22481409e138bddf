//! Groups: the routes of one route source with the same target. A group is one hop in the forwarder.

use std::collections::HashMap;

use stoa_api::v1;

use super::route_source::Target;

/// What a group resolves to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resolved {
    /// Paths on links; none when nothing is resolved.
    pub paths: Vec<v1::Path>,
    /// Paths that are used while none of `paths` is usable.
    pub backup: Vec<v1::Path>,
    /// Something else than paths.
    pub special: Option<v1::Special>,
    /// Why some next hops are not resolved.
    pub reasons: Vec<String>,
}

impl Resolved {
    /// Whether routes of the group are usable.
    pub fn is_usable(&self) -> bool {
        self.special.is_some() || !self.paths.is_empty() || !self.backup.is_empty()
    }
}

/// One group.
#[derive(Clone, Debug)]
pub struct Group {
    /// Index of the route source.
    pub source: usize,
    /// Protocol of the routes.
    pub protocol: v1::Protocol,
    /// The target that the route source announced.
    pub target: Target,
    /// The session that announced it, if the target is a group number: such numbers are valid in one session
    /// only.
    pub session: u32,
    /// Routes of the route source in the group.
    pub routes: u32,
    /// What the target resolves to.
    pub resolved: Resolved,
}

impl Group {
    /// The hop as a protobuf message.
    pub fn hop(&self, id: u32) -> v1::LearnedHop {
        let Resolved { paths, backup, special, .. } = &self.resolved;
        let action = match special {
            Some(special) => v1::learned_hop::Action::Special((*special).into()),
            None => v1::learned_hop::Action::Paths(v1::Paths { paths: paths.clone() }),
        };
        let backup = (!backup.is_empty()).then(|| v1::Paths { paths: backup.clone() });
        v1::LearnedHop { id, protocol: self.protocol.into(), action: Some(action), backup }
    }
}

type Key = (usize, u32, i32, Target);

/// Group numbers are valid in one session; all other targets mean the same in every session.
fn session_of(target: &Target, session: u32) -> u32 {
    if matches!(target, Target::Group(_)) { session } else { 0 }
}

/// All groups. Ids begin with 1 and serve as the forwarder's hop ids.
#[derive(Debug, Default)]
pub struct Groups {
    slots: Vec<Option<Group>>,
    by_key: HashMap<Key, u32>,
    free: Vec<u32>,
    /// Ids freed since the last message was closed: they must not be reused within it.
    freed: Vec<u32>,
}

impl Groups {
    /// The group with that id.
    pub fn get(&self, id: u32) -> Option<&Group> {
        self.slots.get(id as usize - 1)?.as_ref()
    }

    /// The group with that id, mutable.
    pub fn get_mut(&mut self, id: u32) -> Option<&mut Group> {
        self.slots.get_mut(id as usize - 1)?.as_mut()
    }

    /// Whether routes of the group are usable.
    pub fn is_usable(&self, id: u32) -> bool {
        self.get(id).is_some_and(|group| group.resolved.is_usable())
    }

    /// All groups with their ids.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Group)> + Clone {
        self.slots.iter().enumerate().filter_map(|(at, slot)| Some((at as u32 + 1, slot.as_ref()?)))
    }

    /// The id of a group, and whether the group is new.
    pub fn of(
        &mut self,
        (source, session): (usize, u32),
        protocol: v1::Protocol,
        target: &Target,
    ) -> (u32, bool) {
        let session = session_of(target, session);
        let key = (source, session, protocol.into(), target.clone());
        if let Some(id) = self.by_key.get(&key) {
            return (*id, false);
        }
        let (routes, resolved) = (0, Resolved::default());
        let target = target.clone();
        let group = Group { source, protocol, target, session, routes, resolved };
        let id = match self.free.pop() {
            Some(id) => {
                self.slots[id as usize - 1] = Some(group);
                id
            }
            None => {
                self.slots.push(Some(group));
                self.slots.len() as u32
            }
        };
        self.by_key.insert(key, id);
        (id, true)
    }

    /// The groups with a number of the route source, of any protocol.
    pub fn on_number(&self, (source, session): (usize, u32), number: u32) -> Vec<u32> {
        let protocols = (0..).map_while(|it| v1::Protocol::try_from(it).ok());
        let target = Target::Group(number);
        let keys = protocols.map(|it| (source, session, it.into(), target.clone()));
        keys.filter_map(|key| self.by_key.get(&key).copied()).collect()
    }

    /// Adds a route to the group.
    pub fn hold(&mut self, id: u32) {
        if let Some(group) = self.get_mut(id) {
            group.routes += 1;
        }
    }

    /// Removes a route from the group; returns whether it was the last.
    pub fn release(&mut self, id: u32) -> bool {
        let Some(group) = self.get_mut(id) else { return false };
        group.routes = group.routes.saturating_sub(1);
        group.routes == 0
    }

    /// Removes groups without routes; returns their ids.
    pub fn forget(&mut self, ids: impl IntoIterator<Item = u32>) -> Vec<u32> {
        let mut withdraw = Vec::new();
        for id in ids {
            let Some(slot) = self.slots.get_mut(id as usize - 1) else { continue };
            if let Some(group) = slot.take_if(|group| group.routes == 0) {
                let Group { source, session, protocol, target, .. } = group;
                self.by_key.remove(&(source, session, protocol.into(), target));
                self.freed.push(id);
                withdraw.push(id);
            }
        }
        withdraw
    }

    /// A message was closed: freed ids may be reused.
    pub fn close(&mut self) {
        self.free.append(&mut self.freed);
    }
}
