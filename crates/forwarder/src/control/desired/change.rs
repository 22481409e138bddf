//! A change of the desired state: objects by their keys, each with its new value, or without one where it is
//! removed. [`Held::exchange`](super::Held::exchange) carries it out and returns its inverse.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use stoa_api::v1;
use stoa_ports::PortConfig;

use super::pacer::{Pacer, Pause};
use super::{
    AclRule, AclRuleKey, Association, DesiredState, FlowLimits, Interface, Nat, NptPrefix, Prefix,
    Route, Rule, SiitPolicy, ValidationErrors, Workers, ZonePair, ZonePairKey, address,
};
use crate::control::desired_port;
use crate::control::limits::LimitOverrides;
use crate::flow_sync;
use crate::ipfix::Settings;
use crate::punt::{Class, Limit};

/// Values by key; `None`: the object is removed.
pub type Changes<K, V> = BTreeMap<K, Option<V>>;

/// A change of the desired state. `None` outside of a map: unchanged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DesiredChange {
    /// The workers.
    pub workers: Option<Workers>,
    /// Sizes of the tables.
    pub limits: Option<LimitOverrides>,
    /// Ports by interface name, and whether they have software RSS.
    pub ports: Changes<String, (PortConfig, bool)>,
    /// Interfaces by name.
    pub interfaces: Changes<String, Interface>,
    /// VRFs by name. They have routes only where a change is taken back that removed a VRF with routes.
    pub vrfs: Changes<String, BTreeMap<Prefix, Route>>,
    /// Routes by VRF and prefix.
    pub routes: BTreeMap<String, Changes<Prefix, Route>>,
    /// Permanent neighbours by interface and address.
    pub neighbors: Changes<(String, IpAddr), [u8; 6]>,
    /// All rules, as in [`DesiredState`].
    pub rules: Option<BTreeMap<(String, bool), Vec<Rule>>>,
    /// Rules of access lists by list and name.
    pub acl_rules: Changes<AclRuleKey, AclRule>,
    /// Pairs of zones by both names.
    pub zone_pairs: Changes<ZonePairKey, ZonePair>,
    /// Address translation.
    pub nat: Option<Nat>,
    /// Translation of IPv6 prefixes.
    pub nptv6: Option<Vec<NptPrefix>>,
    /// Translation without state.
    pub siit: Option<Vec<SiitPolicy>>,
    /// Export by IPFIX.
    pub ipfix: Option<Settings>,
    /// The partner that has the flows.
    pub flow_sync: Option<Option<flow_sync::Settings>>,
    /// Security associations by name.
    pub ipsec: Option<BTreeMap<String, Association>>,
    /// Limits of flows.
    pub flow_limits: Option<FlowLimits>,
    /// Whether flows go on when rules change.
    pub keeps_flows: Option<bool>,
    /// Policers; one that is removed has its default limits.
    pub punts: Changes<Class, Limit>,
    /// Most packets in reassembly, in all and per source.
    pub reassembly: Option<(u32, u32)>,
    /// Seed of the flow hashes that choose a path.
    pub hash_seed: Option<u32>,
    /// The log.
    pub logging: Option<v1::Logging>,
    /// As in [`DesiredState`]; the contract cannot set it.
    pub noop_origin: Option<bool>,
}

/// Adds an object or a removal to a change; an error when its key is there already.
pub(super) fn add_once<K: Ord, V>(
    changes: &mut Changes<K, V>,
    (key, value): (K, Option<V>),
    path: impl FnOnce() -> String,
    fix: &str,
    errors: &mut ValidationErrors,
) {
    if changes.insert(key, value).is_some() {
        errors.add(path(), "is configured twice", fix);
    }
}

impl DesiredChange {
    /// Checks a message of the contract on its own; [`Held::check`](super::Held::check) checks its references.
    ///
    /// # Errors
    /// All errors of the message.
    pub fn parse(message: &v1::DesiredChange) -> Result<Self, Vec<v1::ValidationError>> {
        let (mut errors, mut change) = (ValidationErrors::default(), Self::default());
        change.add_objects(
            (&message.ports, &message.interfaces, &message.vrfs),
            (&message.routes, &message.neighbors, &message.punts),
            &mut errors,
        );
        change.add_acl_rules(&message.acl_rules, &mut errors);
        change.add_zone_pairs(&message.zone_pairs, &mut errors);
        change.add_removals(message, &mut errors);
        if message.workers.is_some() {
            change.workers = Some(super::interface::workers(message.workers.as_ref(), &mut errors));
        }
        change.limits = message.limits.as_ref().map(LimitOverrides::from);
        if let Some(reassembly) = &message.reassembly {
            change.set_reassembly(reassembly, &mut errors);
        }
        change.hash_seed = message.multipath.map(|multipath| multipath.hash_seed);
        change.logging.clone_from(&message.logging);
        if let Some(rules) = &message.rules {
            change.set_rules(&rules.rules, &mut errors);
        }
        change.set_nat(message.nat.as_ref(), &mut errors);
        change.set_nptv6(message.nptv6.as_ref(), &mut errors);
        change.set_siit(message.siit.as_ref(), &mut errors);
        change.set_ipfix(message.ipfix.as_ref(), &mut errors);
        change.set_flow_limits(message.flow_limits.as_ref(), &mut errors);
        change.keeps_flows =
            message.existing_flows.map(|_| message.existing_flows() == v1::ExistingFlows::Keep);
        change.set_flow_sync(message.flow_sync.as_ref(), &mut errors);
        change.set_ipsec(message.ipsec.as_ref(), &mut errors);
        if errors.0.is_empty() { Ok(change) } else { Err(errors.0) }
    }

    /// The change from nothing to a whole state of the contract.
    pub(super) fn whole(message: &v1::Desired, errors: &mut ValidationErrors) -> Self {
        let mut change = Self {
            workers: Some(super::interface::workers(message.workers.as_ref(), errors)),
            limits: message.limits.as_ref().map(LimitOverrides::from),
            hash_seed: message.multipath.map(|multipath| multipath.hash_seed),
            logging: message.logging.clone(),
            keeps_flows: Some(message.existing_flows() == v1::ExistingFlows::Keep),
            ..Self::default()
        };
        change.add_objects(
            (&message.ports, &message.interfaces, &message.vrfs),
            (&message.routes, &message.neighbors, &message.punts),
            errors,
        );
        if let Some(reassembly) = &message.reassembly {
            change.set_reassembly(reassembly, errors);
        }
        change.set_rules(&message.rules, errors);
        change.add_acl_rules(&message.acl_rules, errors);
        change.add_zone_pairs(&message.zone_pairs, errors);
        change.set_nat(message.nat.as_ref(), errors);
        change.set_nptv6(message.nptv6.as_ref(), errors);
        change.set_siit(message.siit.as_ref(), errors);
        change.set_ipfix(message.ipfix.as_ref(), errors);
        change.set_flow_limits(message.flow_limits.as_ref(), errors);
        change.set_flow_sync(message.flow_sync.as_ref(), errors);
        change.set_ipsec(message.ipsec.as_ref(), errors);
        change
    }

    fn add_objects(
        &mut self,
        (ports, interfaces, vrfs): (&[v1::Port], &[v1::Interface], &[v1::Vrf]),
        (routes, neighbors, punts): (&[v1::Route], &[v1::Neighbor], &[v1::PuntLimit]),
        errors: &mut ValidationErrors,
    ) {
        for port in ports {
            let Some(config) = desired_port::parse(port, errors) else { continue };
            let (name, path) = (port.interface.clone(), || format!("port {:?}", port.interface));
            let value = Some((config, port.software_rss));
            let fix = "Give each port its own interface.";
            add_once(&mut self.ports, (name, value), path, fix, errors);
        }
        for vrf in vrfs {
            let path = || format!("vrf {:?}", vrf.name);
            if vrf.name.is_empty() {
                errors.add(path(), "has no name", "Set a name; the default VRF needs no entry.");
                continue;
            }
            let object = (vrf.name.clone(), Some(BTreeMap::new()));
            add_once(&mut self.vrfs, object, path, "Give each VRF a unique name.", errors);
        }
        interfaces.iter().for_each(|interface| self.add_interface(interface, errors));
        routes.iter().for_each(|route| self.add_route(route, errors));
        neighbors.iter().for_each(|neighbor| self.add_neighbor(neighbor, errors));
        punts.iter().for_each(|punt| self.add_punt(punt, errors));
    }

    fn add_removals(&mut self, message: &v1::DesiredChange, errors: &mut ValidationErrors) {
        let fix = "Send each object once, or its removal.";
        for name in &message.removed_ports {
            let path = || format!("port {name:?}");
            add_once(&mut self.ports, (name.clone(), None), path, fix, errors);
        }
        for name in &message.removed_interfaces {
            let path = || format!("interface {name:?}");
            add_once(&mut self.interfaces, (name.clone(), None), path, fix, errors);
        }
        for name in &message.removed_vrfs {
            let path = || format!("vrf {name:?}");
            add_once(&mut self.vrfs, (name.clone(), None), path, fix, errors);
        }
        for key in &message.removed_routes {
            if let Some((prefix, path)) =
                super::route::prefix(key.prefix.as_ref(), &key.vrf, errors)
            {
                let routes = self.routes.entry(key.vrf.clone()).or_default();
                add_once(routes, (prefix, None), || path, fix, errors);
            }
        }
        for key in &message.removed_neighbors {
            let path = format!("neighbor on {:?}", key.interface);
            match address(&key.address) {
                Some(ip) => {
                    let object = ((key.interface.clone(), ip), None);
                    add_once(&mut self.neighbors, object, || path, fix, errors);
                }
                None => errors.add(path, "has no address", "Send its address."),
            }
        }
        self.remove_acl_rules(&message.removed_acl_rules, errors);
        self.remove_zone_pairs(&message.removed_zone_pairs, errors);
        for name in &message.removed_punts {
            let path = || format!("punt class {name:?}");
            match Class::named(name) {
                Some(class) => add_once(&mut self.punts, (class, None), path, fix, errors),
                None => errors.add(path(), "does not exist", "Use the name of a class."),
            }
        }
    }

    fn set_reassembly(&mut self, config: &v1::Reassembly, errors: &mut ValidationErrors) {
        let max = crate::ip::reassembly::CONTEXTS_MAX;
        if config.packets > max || config.per_source > max {
            let cause = format!("{} packets, {} of one source", config.packets, config.per_source);
            errors.add("reassembly".to_owned(), cause, "Use at most 1,024 for both.");
        }
        self.reassembly = Some((config.packets, config.per_source));
    }

    /// What makes `new` of `held`.
    pub fn difference(held: &DesiredState, new: DesiredState, pause: Pause<'_>) -> Self {
        let pacer = &mut Pacer::new(pause);
        let mut change = Self {
            workers: (held.workers != new.workers).then_some(new.workers),
            limits: (held.limits != new.limits).then_some(new.limits),
            nat: (held.nat != new.nat).then_some(new.nat),
            nptv6: (held.nptv6 != new.nptv6).then_some(new.nptv6),
            siit: (held.siit != new.siit).then_some(new.siit),
            ipfix: (held.ipfix != new.ipfix).then_some(new.ipfix),
            flow_limits: (held.flow_limits != new.flow_limits).then_some(new.flow_limits),
            keeps_flows: (held.keeps_flows != new.keeps_flows).then_some(new.keeps_flows),
            flow_sync: (held.flow_sync != new.flow_sync).then_some(new.flow_sync),
            ipsec: (held.ipsec != new.ipsec).then_some(new.ipsec),
            rules: (held.rules != new.rules).then_some(new.rules),
            reassembly: (held.reassembly != new.reassembly).then_some(new.reassembly),
            hash_seed: (held.hash_seed != new.hash_seed).then_some(new.hash_seed),
            logging: new.logging.filter(|new| held.logging.as_ref() != Some(new)),
            noop_origin: (held.noop_origin != new.noop_origin).then_some(new.noop_origin),
            interfaces: difference(&held.interfaces, new.interfaces, pacer),
            neighbors: difference(&held.neighbors, new.neighbors, pacer),
            punts: difference(&held.punts, new.punts, pacer),
            acl_rules: difference(&held.acl_rules, new.acl_rules, pacer),
            zone_pairs: difference(&held.zone_pairs, new.zone_pairs, pacer),
            ..Self::default()
        };
        let names: BTreeSet<&String> = held.ports.keys().chain(new.ports.keys()).collect();
        for name in names {
            let of = |state: &BTreeMap<String, PortConfig>, software_rss: &BTreeSet<String>| {
                Some((state.get(name)?.clone(), software_rss.contains(name)))
            };
            let port = of(&new.ports, &new.software_rss);
            if of(&held.ports, &held.software_rss) != port {
                change.ports.insert(name.clone(), port);
            }
        }
        let none = BTreeMap::new();
        change.add_routes(String::new(), difference(&held.routes, new.routes, pacer));
        for name in held.vrfs.keys().filter(|name| !new.vrfs.contains_key(*name)) {
            change.vrfs.insert(name.clone(), None);
            let routes = held.vrfs.get(name).unwrap_or(&none);
            change.add_routes(name.clone(), difference(routes, BTreeMap::new(), pacer));
        }
        for (name, routes) in new.vrfs {
            let held = held.vrfs.get(&name);
            let routes = difference(held.unwrap_or(&none), routes, pacer);
            if held.is_none() {
                change.vrfs.insert(name.clone(), Some(BTreeMap::new()));
            }
            change.add_routes(name, routes);
        }
        change
    }

    fn add_routes(&mut self, vrf: String, routes: Changes<Prefix, Route>) {
        if !routes.is_empty() {
            self.routes.insert(vrf, routes);
        }
    }

    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The names of the interfaces and ports that it touches.
    pub(in crate::control) fn names(&self) -> BTreeSet<&String> {
        self.interfaces.keys().chain(self.ports.keys()).collect()
    }

    /// Leaves out interfaces that are held as they are: the contract has fields that only the controller uses.
    pub(in crate::control) fn leave_out_same(&mut self, held: &DesiredState) {
        self.interfaces.retain(|name, new| held.interfaces.get(name) != new.as_ref());
    }

    /// Whether the sub-interfaces of `name` change with it. The change is the inverse of one that led to `desired`, or
    /// the other way round.
    pub(in crate::control) fn passes_on(&self, name: &String, desired: &DesiredState) -> bool {
        match (self.interfaces.get(name), desired.interfaces.get(name)) {
            _ if self.ports.contains_key(name) => true,
            (Some(Some(former)), Some(now)) => !former.passes_on_the_same(now),
            _ => true,
        }
    }

    /// Frees the memory of a change in pieces.
    pub(in crate::control) fn discard(self, pause: Pause<'_>) {
        let pacer = &mut Pacer::new(pause);
        self.interfaces.into_iter().for_each(|_| pacer.item());
        self.acl_rules.into_iter().for_each(|_| pacer.item());
        for routes in self.routes.into_values() {
            routes.into_iter().for_each(|_| pacer.item());
        }
    }
}

/// The changes from one map to another.
fn difference<K: Clone + Ord, V: PartialEq>(
    held: &BTreeMap<K, V>,
    new: BTreeMap<K, V>,
    pacer: &mut Pacer<'_>,
) -> Changes<K, V> {
    let (mut old, mut changes) = (held.iter().peekable(), Changes::new());
    for (key, value) in new {
        while let Some((gone, _)) = old.next_if(|(other, _)| **other < key) {
            pacer.item();
            changes.insert(gone.clone(), None);
        }
        pacer.item();
        let here = old.next_if(|(other, _)| **other == key);
        if here.is_none_or(|(_, here)| *here != value) {
            changes.insert(key, Some(value));
        }
    }
    for (gone, _) in old {
        pacer.item();
        changes.insert(gone.clone(), None);
    }
    changes
}
