//! Next-hop tracking: gateways that are on no link are resolved through other routes, and again when one of
//! those changes. The default route resolves nothing, as for static routes (`recursion.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use stoa_api::text::ip_bytes;
use stoa_api::v1;
use stoa_api::v1::route::Action;

use super::groups::{Group, Resolved};
use super::prefixes::{Address, Ip6Words};
use super::route_source::{NextHopPath, Target};
use super::table::{Family, SourceEntry, Table};
use crate::config::routes::{PATH_LIMIT, VrfName};
use crate::recursion::{LEVEL_LIMIT, weigh};

/// Addresses whose routes matter to some gateway, sorted.
#[derive(Debug, Default)]
pub struct TrackedGateways {
    ip4: BTreeMap<VrfName, Vec<u32>>,
    ip6: BTreeMap<VrfName, Vec<Ip6Words>>,
}

/// One family of [`TrackedGateways`].
pub trait TrackedFamily: Address {
    /// The addresses of a VRF.
    fn tracked<'a>(tracked: &'a TrackedGateways, vrf: &VrfName) -> &'a [Self];
}

impl TrackedFamily for u32 {
    fn tracked<'a>(tracked: &'a TrackedGateways, vrf: &VrfName) -> &'a [Self] {
        tracked.ip4.get(vrf).map_or(&[], Vec::as_slice)
    }
}

impl TrackedFamily for Ip6Words {
    fn tracked<'a>(tracked: &'a TrackedGateways, vrf: &VrfName) -> &'a [Self] {
        tracked.ip6.get(vrf).map_or(&[], Vec::as_slice)
    }
}

impl TrackedGateways {
    /// Whether a prefix covers one of them.
    pub fn covers_any<A: Family>(&self, vrf: &VrfName, address: A, length: u8) -> bool {
        let addresses = A::tracked(self, vrf);
        if addresses.is_empty() {
            return false;
        }
        let first = addresses.partition_point(|it| *it < address);
        let shift = u32::from(A::BITS - length);
        let part = |it: A| it.widen().checked_shr(shift).unwrap_or(0);
        addresses.get(first).is_some_and(|it| part(*it) == part(address))
    }

    /// Whether there is any.
    pub fn is_any(&self) -> bool {
        !self.ip4.is_empty() || !self.ip6.is_empty()
    }

    fn add(&mut self, vrf: &VrfName, address: IpAddr) {
        match address {
            IpAddr::V4(ip) => insert(self.ip4.entry(vrf.clone()).or_default(), ip.to_bits()),
            IpAddr::V6(ip) => {
                insert(self.ip6.entry(vrf.clone()).or_default(), Ip6Words::narrow(ip.to_bits()));
            }
        }
    }
}

fn insert<A: Address>(addresses: &mut Vec<A>, address: A) {
    if let Err(at) = addresses.binary_search(&address) {
        addresses.insert(at, address);
    }
}

/// Why a gateway is unresolved.
type Reason = String;

/// Maximum gateways visited for one group: peers choose next hops, and many that resolve through each other
/// would keep the search busy forever.
const MAX_STEPS: usize = 1_024;

/// A search for the paths of one group.
struct Search<'a> {
    vrf: &'a VrfName,
    /// All visited gateways: a route to one of them may change the result.
    visited: BTreeSet<IpAddr>,
    /// Gateways between the group and the current one.
    in_progress: Vec<IpAddr>,
    steps: usize,
}

impl<'a> Search<'a> {
    fn new(vrf: &'a VrfName) -> Self {
        Self { vrf, visited: BTreeSet::new(), in_progress: Vec::new(), steps: 0 }
    }
}

impl Table {
    /// Resolves a group, sends its hop to the forwarder if it is new or has changed, and records a change of
    /// usability.
    pub(super) fn resolve_group(&mut self, id: u32, is_new: bool) {
        let Some(group) = self.groups.get(id) else { return };
        let Some(entry) = self.sources.get(group.source).and_then(Option::as_ref) else { return };
        let vrf = entry.source.vrf.clone();
        let Some(target) = entry.current_target(group) else { return };
        let mut search = Search::new(&vrf);
        let resolved = match target.cloned() {
            Some(Target::Special(special)) => {
                Resolved { special: Some(special), ..Resolved::default() }
            }
            Some(Target::Paths(best, backup)) => {
                let mut reasons = Vec::new();
                let paths = self.paths(&best, &mut search, &mut reasons);
                let backup = self.paths(&backup, &mut search, &mut reasons);
                Resolved { paths, backup, special: None, reasons }
            }
            Some(Target::Group(_)) | None => Resolved {
                reasons: vec!["the daemon forgot the group of next hops".to_owned()],
                ..Resolved::default()
            },
        };
        for address in std::mem::take(&mut search.visited) {
            self.tracked.add(&vrf, address);
        }
        let Some(group) = self.groups.get_mut(id) else { return };
        let was_usable = group.resolved.is_usable();
        let changed = group.resolved != resolved;
        group.resolved = resolved;
        let is_flipped = group.resolved.is_usable() != was_usable;
        if changed || is_new {
            self.messages.hop(group.hop(id));
        }
        if is_flipped && !is_new {
            self.usability_changed.insert(id);
        }
        // Other gateways may resolve through its routes.
        self.needs_resolution |= changed && !is_new && self.tracked.is_any();
    }

    /// A group number of a route source is new, has changed, or was deleted.
    pub(super) fn set_group(&mut self, at: usize, number: u32, target: Option<Target>) {
        let Some(entry) = &mut self.sources[at] else { return };
        match target {
            Some(target) => drop(entry.group_targets.insert(number, target)),
            None => drop(entry.group_targets.remove(&number)),
        }
        for id in self.groups.on_number((at, entry.sessions), number) {
            self.resolve_group(id, false);
        }
    }

    /// Reselects the routes of groups whose usability changed, and resolves all groups again when a route
    /// changed that gateways may depend on. A change may cause further changes; cycles end after as many
    /// rounds as there may be levels.
    pub(super) fn resolve_pending(&mut self) {
        for _ in 0..LEVEL_LIMIT {
            let mut usability_changed = std::mem::take(&mut self.usability_changed);
            usability_changed
                .retain(|id| self.groups.get(*id).is_some_and(|group| group.routes > 0));
            if !usability_changed.is_empty() {
                self.reselect(&usability_changed);
            }
            if !std::mem::take(&mut self.needs_resolution) {
                return;
            }
            let ids: Vec<u32> = self.groups.iter().map(|(id, _)| id).collect();
            self.tracked = TrackedGateways::default();
            for id in ids {
                self.resolve_group(id, false);
            }
        }
        let usability_changed = std::mem::take(&mut self.usability_changed);
        self.reselect(&usability_changed);
    }

    fn paths(
        &self,
        paths: &[NextHopPath],
        search: &mut Search<'_>,
        reasons: &mut Vec<Reason>,
    ) -> Vec<v1::Path> {
        let mut shares = Vec::new();
        for path in paths {
            match self.resolve_path(path, search) {
                Ok(paths) if paths.is_empty() => {}
                Ok(paths) => shares.push((u64::from(path.weight.max(1)), paths)),
                Err(reason) => reasons.push(reason),
            }
        }
        // The common case needs no arithmetic.
        if let [(_, paths)] = shares.as_mut_slice()
            && paths.len() == 1
        {
            paths[0].weight = 1;
            return std::mem::take(paths);
        }
        let mut paths = weigh(shares);
        paths.truncate(PATH_LIMIT);
        paths
    }

    fn resolve_path(
        &self,
        path: &NextHopPath,
        search: &mut Search<'_>,
    ) -> Result<Vec<v1::Path>, Reason> {
        let next_hop = path.gateway.map(ip_bytes).unwrap_or_default();
        if let Some(interface) = &path.interface {
            return Ok(vec![v1::Path { interface: interface.to_string(), next_hop, weight: 1 }]);
        }
        let Some(gateway) = path.gateway else {
            return Err("a next hop has neither interface nor gateway".to_owned());
        };
        if search.in_progress.contains(&gateway) {
            return Err(format!("{gateway} resolves through itself"));
        }
        if search.in_progress.len() >= LEVEL_LIMIT {
            return Err(format!("{gateway} needs more than {LEVEL_LIMIT} levels of recursion"));
        }
        if search.steps == MAX_STEPS {
            return Err(format!("{gateway} depends on more than {MAX_STEPS} gateways"));
        }
        search.steps += 1;
        search.visited.insert(gateway);
        search.in_progress.push(gateway);
        let resolve_gateway = self.resolve_gateway(gateway, search);
        search.in_progress.pop();
        resolve_gateway
    }

    /// The paths to a gateway: of the longest matching route that leads to a link.
    fn resolve_gateway(
        &self,
        gateway: IpAddr,
        search: &mut Search<'_>,
    ) -> Result<Vec<v1::Path>, Reason> {
        let on_link = |mut paths: Vec<v1::Path>| {
            for path in paths.iter_mut().filter(|path| path.next_hop.is_empty()) {
                path.next_hop = ip_bytes(gateway);
            }
            paths
        };
        let vrf = search.vrf;
        let mut reason = None;
        for length in (1..=if gateway.is_ipv4() { 32 } else { 128 }).rev() {
            let Ok(net) = ipnet::IpNet::new(gateway, length) else { continue };
            let net = net.trunc();
            if let Some(action) = self.configured.get(vrf, net.addr(), length) {
                return match action {
                    Action::Paths(paths) => Ok(on_link(paths.paths.clone())),
                    Action::Special(special) => {
                        let kind = v1::Special::try_from(*special).unwrap_or_default();
                        Err(format!("{gateway} resolves through {net}, which is {kind}"))
                    }
                };
            }
            let winner = match net.addr() {
                IpAddr::V4(ip) => self.winner::<u32>(vrf, ip.to_bits(), length),
                IpAddr::V6(ip) => {
                    self.winner::<Ip6Words>(vrf, Ip6Words::narrow(ip.to_bits()), length)
                }
            };
            let Some(winner) = winner.and_then(|id| self.groups.get(id)) else { continue };
            match self.resolve_via_learned(winner, net, search) {
                Ok(paths) => return Ok(on_link(paths)),
                // A less specific route may lead to a link.
                Err(other) => reason = reason.or(Some(other)),
            }
        }
        Err(reason.unwrap_or_else(|| {
            format!(
                "{gateway} is in no connected subnet, and no other route leads there (the default \
                 route does not count)"
            )
        }))
    }

    fn resolve_via_learned(
        &self,
        group: &Group,
        net: ipnet::IpNet,
        search: &mut Search<'_>,
    ) -> Result<Vec<v1::Path>, Reason> {
        let entry = self.sources.get(group.source).and_then(Option::as_ref);
        match entry.and_then(|entry| entry.current_target(group)) {
            // A number of a former session: its last resolution is all that is known.
            None => Ok(group.resolved.paths.clone()),
            Some(Some(Target::Paths(best, _))) => {
                let mut all = Vec::new();
                let mut reason = format!("{net} is unresolved itself");
                for path in best.iter().take(PATH_LIMIT) {
                    match self.resolve_path(path, search) {
                        Ok(paths) => all.extend(paths),
                        Err(other) => reason = other,
                    }
                }
                all.truncate(PATH_LIMIT);
                if all.is_empty() { Err(reason) } else { Ok(all) }
            }
            Some(Some(Target::Special(special))) => {
                Err(format!("the gateway resolves through {net}, which is {special}"))
            }
            Some(Some(Target::Group(_)) | None) => Err(format!("{net} is unresolved itself")),
        }
    }
}

impl SourceEntry {
    /// The current target of a group of this route source; `None`: its number is of a former session and may
    /// mean something else now.
    fn current_target<'a>(&'a self, group: &'a Group) -> Option<Option<&'a Target>> {
        match &group.target {
            Target::Group(_) if group.session != self.sessions => None,
            Target::Group(number) => Some(self.group_targets.get(number)),
            target => Some(Some(target)),
        }
    }
}
