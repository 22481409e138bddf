//! Policy rules in both directions: imports rules of `ip rule`, and exports those of the configuration with
//! our protocol number, one per host interface of their VRF. Only rules with our number, and with our device
//! or one that does not exist, are ever removed.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;

use ipnet::IpNet;
use stoa_api::v1;
use stoa_api::v1::rule::Action;

use super::message::{FAMILY_ANY, Link, RTPROT_STOA, Rule, RuleAction, TOS, kind};
use super::socket::{self, Socket};
use crate::configuration::Configuration;
use crate::prefix::prefix_to_proto;
use crate::route_sources::Kind;

/// The kernel's table main.
const MAIN: u32 = 254;
/// `EEXIST`, and the error for a rule that does not exist.
const EXISTS: i32 = 17;
const NO_ENTRY: i32 = 2;

/// Maximum exported rules per namespace: Linux walks them one by one.
const MAX_EXPORTED: usize = 4_096;
/// Maximum reads of rules that keep changing.
const MAX_READS: usize = 8;

/// The meaning of table numbers and devices in one network namespace.
struct Names {
    /// VRFs by table number.
    vrfs: BTreeMap<u32, String>,
    /// Table numbers by VRF.
    tables: BTreeMap<String, u32>,
    /// Interfaces and their VRFs, by device of the host interface.
    devices: BTreeMap<String, (String, String)>,
}

impl Names {
    fn of(configuration: &Configuration, netns: &str) -> Names {
        let mut names = Names {
            vrfs: BTreeMap::from([(MAIN, String::new())]),
            tables: BTreeMap::from([(String::new(), MAIN)]),
            devices: BTreeMap::new(),
        };
        for route_source in
            configuration.route_sources.iter().filter(|route_source| route_source.netns == netns)
        {
            if let Kind::Netlink { table, .. } = route_source.kind {
                names.vrfs.insert(table, route_source.source.vrf.to_string());
                names.tables.entry(route_source.source.vrf.to_string()).or_insert(table);
            }
        }
        for (vrf, table) in configuration.kernel_tables.iter() {
            names.vrfs.insert(*table, vrf.clone());
            names.tables.insert(vrf.clone(), *table);
        }
        for interface in configuration.interfaces.iter() {
            if let Some(host_interface) =
                interface.host_interface.as_ref().filter(|it| it.netns == netns)
            {
                let of = (interface.name.clone(), interface.vrf.clone());
                names.devices.insert(host_interface.device.clone(), of);
            }
        }
        names
    }

    /// Devices with their interfaces, by VRF.
    fn by_vrf(&self) -> BTreeMap<&str, Vec<(&str, &str)>> {
        let mut all: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
        for (device, (interface, vrf)) in &self.devices {
            all.entry(vrf).or_default().push((device, interface));
        }
        all
    }

    /// The VRFs of the interfaces with host interfaces.
    fn vrfs_here(&self) -> BTreeSet<&String> {
        self.devices.values().map(|(_, vrf)| vrf).collect()
    }
}

/// Imports the rules of one namespace: rules of the contract, and why the others are not imported.
pub fn import(
    rules: &[Rule],
    configuration: &Configuration,
    netns: &str,
) -> (Vec<v1::Rule>, Vec<String>) {
    if rules.is_empty() {
        return (Vec::new(), Vec::new());
    }
    let names = Names::of(configuration, netns);
    let (mut imported, mut rejected) = (Vec::new(), Vec::new());
    for rule in rules {
        match import_rule(rule, &names) {
            Ok(rules) => imported.extend(rules),
            Err(reason) => rejected.push(format!("{rule}: {reason}")),
        }
    }
    (imported, rejected)
}

/// The rule for each VRF that it applies to.
fn import_rule(rule: &Rule, names: &Names) -> Result<Vec<v1::Rule>, String> {
    if rule.unsupported == Some(TOS) {
        return Err(format!("the rule matches {TOS}; use dscp"));
    }
    if let Some(what) = rule.unsupported {
        return Err(format!("the rule uses {what}; use VRFs instead"));
    }
    if rule.priority == 0 {
        return Err("priority 0 is reserved for local addresses; use a higher one".to_owned());
    }
    let action = match rule.action {
        RuleAction::Table(table) => {
            let Some(vrf) = names.vrfs.get(&table) else {
                return Err(format!(
                    "table {table} belongs to no VRF: set kernel-table {table} of a VRF, or add a netlink route source for it"
                ));
            };
            let suppress_default = match rule.suppressed {
                None => false,
                Some(0) => true,
                Some(length) => {
                    return Err(format!("suppress_prefixlength {length} is not supported: use 0"));
                }
            };
            Action::Table(v1::RuleTable { vrf: vrf.clone(), suppress_default })
        }
        RuleAction::Goto(to) => Action::GotoPriority(to),
        RuleAction::Nothing => return Ok(Vec::new()),
        RuleAction::Blackhole => Action::Special(v1::Special::Blackhole.into()),
        RuleAction::Unreachable => Action::Special(v1::Special::Unreachable.into()),
        RuleAction::Prohibit => Action::Special(v1::Special::Prohibit.into()),
    };
    let (interface, vrfs) = match names.devices.get(&rule.device) {
        _ if rule.device.is_empty() => (String::new(), names.vrfs_here()),
        Some((interface, vrf)) => (interface.clone(), BTreeSet::from([vrf])),
        None if rule.device == "lo" => {
            return Err("the rule matches packets that this machine sends (iif lo)".to_owned());
        }
        None => return Err(format!("the device {} is not a host interface", rule.device)),
    };
    let prefix = |net: Option<IpNet>| net.map(|net| prefix_to_proto(&net));
    let ports = |ports: Option<(u16, u16)>| {
        ports.map(|(first, last)| v1::PortRange { first: first.into(), last: last.into() })
    };
    // Without a device, main stands for the table of each packet's own VRF: other VRFs do not use the table
    // of the default one.
    let is_own = rule.device.is_empty()
        && rule.action == RuleAction::Table(MAIN)
        && names.vrfs.get(&MAIN).is_some_and(String::is_empty);
    let action = |vrf: &String| match action.clone() {
        Action::Table(table) if is_own => {
            Action::Table(v1::RuleTable { vrf: vrf.clone(), ..table })
        }
        other => other,
    };
    let of = |vrf: &String| v1::Rule {
        vrf: vrf.clone(),
        family: if rule.is_ip6 { 6 } else { 4 },
        priority: rule.priority,
        from: prefix(rule.from),
        to: prefix(rule.to),
        interface: interface.clone(),
        dscp: rule.dscp.map(u32::from),
        ip_protocol: rule.ip_protocol.map(u32::from),
        source_ports: ports(rule.source_ports),
        destination_ports: ports(rule.destination_ports),
        action: Some(action(vrf)),
        protocol: v1::Protocol::Kernel.into(),
    };
    Ok(vrfs.into_iter().map(of).collect())
}

/// Exports the rules of the configuration to one namespace; also returns why it lacks the others.
///
/// Each exported rule applies to the host interfaces of its VRF only, not to packets of other VRFs or of
/// programs there.
pub fn export(configuration: &Configuration, netns: &str) -> (BTreeSet<Rule>, Vec<String>) {
    let (mut rules, mut skipped) = (BTreeSet::new(), Vec::new());
    if configuration.desired.rules.is_empty() {
        return (rules, skipped);
    }
    let names = Names::of(configuration, netns);
    let here = names.by_vrf();
    let mut too_many = 0;
    for rule in &configuration.desired.rules {
        let Some(devices) = here.get(rule.vrf.as_str()) else { continue };
        let is_about = |interface: &str| rule.interface.is_empty() || rule.interface == interface;
        let about = devices.iter().filter(|(_, it)| is_about(it));
        let devices: Vec<&str> = about.map(|(device, _)| *device).collect();
        match export_rule(rule, &names, &devices) {
            Ok(exported) if rules.len() + exported.len() > MAX_EXPORTED => too_many += 1,
            Ok(exported) => rules.extend(exported),
            Err(reason) => {
                skipped.push(format!("IPv{} rule {}: {reason}", rule.family, rule.priority));
            }
        }
    }
    if too_many > 0 {
        skipped.push(format!(
            "{too_many} rules exceed the limit of {MAX_EXPORTED} per namespace: match an interface in them, or distribute the host interfaces over namespaces"
        ));
    }
    (rules, skipped)
}

/// A rule of the configuration as Linux must have it: one per device.
fn export_rule(rule: &v1::Rule, names: &Names, devices: &[&str]) -> Result<Vec<Rule>, String> {
    let mut suppressed = None;
    let action = match &rule.action {
        Some(Action::Table(table)) => {
            suppressed = table.suppress_default.then_some(0);
            match names.tables.get(&table.vrf) {
                Some(number) => RuleAction::Table(*number),
                None => return Err(format!("VRF {} has no kernel-table: set one", table.vrf)),
            }
        }
        Some(Action::GotoPriority(to)) => RuleAction::Goto(*to),
        Some(Action::Special(special)) => match v1::Special::try_from(*special) {
            Ok(v1::Special::Unreachable) => RuleAction::Unreachable,
            Ok(v1::Special::Prohibit) => RuleAction::Prohibit,
            _ => RuleAction::Blackhole,
        },
        None => RuleAction::Nothing,
    };
    if devices.is_empty() {
        return Err(format!("interface {} has no host interface there", rule.interface));
    }
    if rule.ip_protocol == Some(0) {
        return Err("Linux cannot match protocol 0".to_owned());
    }
    let net = |prefix: &Option<v1::Prefix>| {
        let prefix = prefix.as_ref()?;
        let address = stoa_api::text::ip(&prefix.address)?;
        IpNet::new(address, u8::try_from(prefix.length).ok()?).ok()
    };
    let ports = |range: &Option<v1::PortRange>| {
        range.as_ref().map(|range| (range.first as u16, range.last as u16))
    };
    let exported = Rule {
        from: net(&rule.from),
        to: net(&rule.to),
        dscp: rule.dscp.map(|dscp| dscp as u8),
        ip_protocol: rule.ip_protocol.map(|protocol| protocol as u8),
        source_ports: ports(&rule.source_ports),
        destination_ports: ports(&rule.destination_ports),
        suppressed,
        protocol: RTPROT_STOA,
        ..Rule::new(rule.family == 6, rule.priority, action)
    };
    let of = |device: &&str| Rule { device: (*device).to_owned(), ..exported.clone() };
    Ok(devices.iter().map(of).collect())
}

/// Reads the rules of a namespace.
///
/// # Errors
/// Those of the kernel, and when the rules keep changing.
pub async fn read_all(socket: &mut Socket) -> io::Result<Vec<Rule>> {
    let mut buffer = vec![0; socket::BUFFER_SIZE];
    let mut body = [0; 12];
    body[0] = FAMILY_ANY;
    for _ in 0..MAX_READS {
        let mut rules = Vec::new();
        let mut dump = socket.dump(kind::GET_RULE, &body)?;
        let mut take = |body: &[u8]| rules.extend(Rule::read(body).ok().flatten());
        while socket.read_dump(&mut dump, &mut buffer, |message| take(message.body)).await? {}
        if dump.is_consistent() {
            return Ok(rules);
        }
    }
    Err(io::Error::other("rules change faster than they can be read"))
}

/// The devices of a namespace.
#[derive(Debug, Default)]
struct Devices {
    /// Host interfaces of ours.
    ours: HashSet<String>,
    /// All others.
    others: HashSet<String>,
}

impl Devices {
    async fn read(socket: &mut Socket, alias: &str) -> io::Result<Devices> {
        let mut devices = Devices::default();
        let mut buffer = vec![0; socket::BUFFER_SIZE];
        let mut dump = socket.dump(kind::GET_LINK, &[0; 16])?;
        let mut take = |body: &[u8]| {
            if let Ok(link) = Link::read(body) {
                let is_ours = link.alias == alias;
                let place = if is_ours { &mut devices.ours } else { &mut devices.others };
                place.insert(link.name.to_owned());
            }
        };
        while socket.read_dump(&mut dump, &mut buffer, |message| take(message.body)).await? {}
        Ok(devices)
    }

    /// The rules that we added: another Stoa in the namespace has the same protocol number but its own host
    /// interfaces.
    fn ours(&self, rules: Vec<Rule>) -> BTreeSet<Rule> {
        let is_ours = |rule: &Rule| {
            let is_known = !rule.device.is_empty() && !self.others.contains(&rule.device);
            rule.protocol == RTPROT_STOA && is_known
        };
        let ours = rules.into_iter().filter(is_ours);
        // A goto to a missing rule is still our rule.
        ours.map(|rule| Rule { unsupported: None, ..rule }).collect()
    }
}

/// The result of [`reconcile`].
#[derive(Debug, Default)]
pub struct Reconciled {
    /// Whether none of our rules was there, and none is desired.
    pub is_empty: bool,
    /// Rules that this kernel alters: they were removed again.
    pub unsupported: BTreeSet<Rule>,
    /// Rules that the kernel refused, with the error.
    pub errors: Vec<String>,
}

/// Reconciles our rules in a namespace, on existing host interfaces with that alias.
///
/// # Errors
/// When rules or devices cannot be read.
pub async fn reconcile(
    netns: &str,
    alias: &str,
    desired: &BTreeSet<Rule>,
) -> io::Result<Reconciled> {
    let mut socket = Socket::open(netns, 0, socket::BUFFER_SIZE)?;
    let devices = Devices::read(&mut socket, alias).await?;
    let ours = devices.ours(read_all(&mut socket).await?);
    let mut result =
        Reconciled { is_empty: ours.is_empty() && desired.is_empty(), ..Reconciled::default() };
    for rule in ours.difference(desired) {
        result.run(&mut socket, kind::DEL_RULE, 0, rule, NO_ENTRY);
    }
    let is_there = |rule: &&Rule| devices.ours.contains(&rule.device);
    let missing: Vec<&Rule> = desired.difference(&ours).filter(is_there).collect();
    for rule in &missing {
        // NLM_F_CREATE, NLM_F_EXCL: a rule that somebody else added is as good.
        result.run(&mut socket, kind::NEW_RULE, 0x600, rule, EXISTS);
    }
    if !missing.is_empty() {
        let installed = devices.ours(read_all(&mut socket).await?);
        for (rule, other) in altered_rules(&missing, desired, &installed) {
            result.run(&mut socket, kind::DEL_RULE, 0, other, NO_ENTRY);
            result.unsupported.insert(rule.clone());
        }
    }
    Ok(result)
}

impl Reconciled {
    fn run(&mut self, socket: &mut Socket, kind: u16, flags: u16, rule: &Rule, ignored_errno: i32) {
        if let Err(error) = socket.execute(kind, flags, &rule.write())
            && error.raw_os_error() != Some(ignored_errno)
        {
            self.errors.push(format!("{rule}: {error}"));
        }
    }
}

/// Added rules that are missing, each with the rule that the kernel made of it: it ignores unknown
/// attributes.
fn altered_rules<'a>(
    added: &[&'a Rule],
    desired: &'a BTreeSet<Rule>,
    installed: &'a BTreeSet<Rule>,
) -> Vec<(&'a Rule, &'a Rule)> {
    let place = |rule: &'a Rule| (rule.is_ip6, rule.priority, rule.device.as_str());
    let strays: BTreeMap<_, &Rule> =
        installed.difference(desired).map(|rule| (place(rule), rule)).collect();
    let gone = added.iter().filter(|rule| !installed.contains(**rule));
    gone.filter_map(|rule| Some((*rule, *strays.get(&place(rule))?))).collect()
}

/// Why the kernel cannot have a rule.
pub fn unsupported_reason(rule: &Rule) -> String {
    match rule.dscp {
        Some(_) => {
            format!("{rule}: this kernel cannot match DSCP: use Linux 6.12")
        }
        None => format!("{rule}: this kernel does not support one of its attributes"),
    }
}

#[cfg(test)]
mod tests;
