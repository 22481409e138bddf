//! The way on which an operator is connected, and whether a change would take it away.
//!
//! Nobody shall cut off the own access unawares: such a change is refused, with its causes, unless it undoes itself or
//! was asked for all the same.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use stoa_api::v1;

use super::{Author, Refusal};
use crate::apply::Line;
use crate::configuration::Configuration;
use crate::error::{ValidationError, ValidationErrors};
use crate::management::{self, Action, Https, Management, User};

/// How to go on.
const FIX: &str = "Put it into the candidate and commit that with a time to confirm in (`confirm-within`, `commit \
                    confirmed 5`): it undoes itself when you do not confirm it. Or commit it all the same (`force`).";

/// By what the HTTPS server knows a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// A password, now or when the session began.
    Password,
    /// A token.
    Token,
    /// A client certificate.
    Certificate,
}

/// The way on which somebody is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// The address and port that the client came to.
    pub local: SocketAddr,
    /// By what the HTTPS server knows the user; `None`: it came by another one, as by SSH.
    pub proof: Option<Proof>,
}

/// What of a configuration decides on a way.
#[derive(Clone, Copy, Debug)]
struct Clients<'a> {
    management: &'a Management,
    interfaces: &'a [v1::Interface],
}

impl<'a> Clients<'a> {
    fn of(configuration: &'a Configuration) -> Clients<'a> {
        Clients {
            management: &configuration.management,
            interfaces: &configuration.desired.interfaces,
        }
    }
}

/// Refuses a configuration that takes away the way on which its author is connected.
///
/// # Errors
/// Every cause.
pub(super) fn check(line: &Line, author: &Author, after: &Configuration) -> Result<(), Refusal> {
    let Some(way) = &author.way else { return Ok(()) };
    let lost = line.look(|before| {
        before.map(|before| lost(&author.name, way, Clients::of(before), Clients::of(after)))
    });
    match lost.unwrap_or_default() {
        none if none.is_empty() => Ok(()),
        lost => Err(Refusal::CutsOff(lost)),
    }
}

/// What was a part of the way before and is none after.
fn lost(name: &str, way: &Way, before: Clients<'_>, after: Clients<'_>) -> Vec<ValidationError> {
    let mut errors = ValidationErrors::default();
    let mut add = |(path, reason): (String, String)| {
        errors.add(path, format!("this would cut off your own access: {reason}"), FIX);
    };
    if let Some(proof) = way.proof {
        let (old, new) = (before.management, after.management);
        server(&old.https, &new.https, way.local).into_iter().for_each(&mut add);
        user(name, proof, old, new).into_iter().for_each(&mut add);
    }
    interface(before.interfaces, after.interfaces, way.local.ip()).into_iter().for_each(add);
    errors.into_vec()
}

// ===== the server =====

fn is_heard(https: &Https, address: IpAddr) -> bool {
    if https.address.is_empty() {
        return address == Ipv4Addr::LOCALHOST || address == Ipv6Addr::LOCALHOST;
    }
    let is_any = |it: &IpAddr| it.is_unspecified() && it.is_ipv4() == address.is_ipv4();
    https.address.iter().any(|it| *it == address || is_any(it))
}

fn server(old: &Https, new: &Https, local: SocketAddr) -> Option<(String, String)> {
    let told = |leaf: &str, reason: String| {
        Some((format!("/stoa-management:management/https/{leaf}"), reason))
    };
    // An open connection may be older than the settings before: what is not there cannot be lost.
    if !old.enabled || old.port != local.port() || !is_heard(old, local.ip()) {
        return None;
    }
    if !new.enabled {
        return told("enabled", "the HTTPS server is switched off".into());
    }
    if new.port != old.port {
        let reason = format!("the HTTPS server leaves port {} for {}", old.port, new.port);
        return told("port", reason);
    }
    if !is_heard(new, local.ip()) {
        let reason = format!("the HTTPS server listens on {} no more", local.ip());
        return told("address", reason);
    }
    None
}

// ===== the user =====

/// How much somebody may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reach {
    Nothing,
    Something,
    All,
}

fn reach(user: &User, management: &Management) -> Reach {
    let access = &management.access;
    if user.admin || !access.enable_nacm {
        return Reach::All;
    }
    let named = |group: &str| {
        let is_named =
            |it: &management::Group| it.name == group && it.user_name.contains(&user.name);
        let is_own = access.enable_external_groups && user.group.iter().any(|own| own == group);
        group == "*" || is_own || access.groups.group.iter().any(is_named)
    };
    let lists = access.rule_list.iter().filter(|list| list.group.iter().any(|group| named(group)));
    let changes = |rule: &management::Rule| {
        let mut operations = rule.access_operations.split_whitespace();
        rule.action == Action::Permit
            && operations.any(|it| ["*", "create", "update", "delete"].contains(&it))
    };
    let is_permitted =
        access.write_default == Action::Permit || lists.flat_map(|list| &list.rule).any(changes);
    if is_permitted { Reach::Something } else { Reach::Nothing }
}

fn user(name: &str, proof: Proof, old: &Management, new: &Management) -> Vec<(String, String)> {
    let find = |all: &Management| all.user.iter().find(|user| user.name == name).cloned();
    let Some(was) = find(old) else { return Vec::new() };
    let place = format!("/stoa-management:management/user[name='{name}']");
    let Some(is) = find(new) else {
        return vec![(place, format!("the user {name} is removed"))];
    };
    let mut lost = Vec::new();
    if proof == Proof::Password && was.password_hash.is_some() && is.password_hash.is_none() {
        lost.push((format!("{place}/password-hash"), format!("{name} has no password any more")));
    }
    let ca = &old.https.client_ca;
    if proof == Proof::Certificate && ca.is_some() && *ca != new.https.client_ca {
        let reason = match &new.https.client_ca {
            None => "client certificates are not taken any more".to_owned(),
            Some(file) => format!("whether {} knows your certificate is not known", file.display()),
        };
        lost.push(("/stoa-management:management/https/client-ca".into(), reason));
    }
    if reach(&was, old) > reach(&is, new) {
        let (place, what) = match was.admin && !is.admin {
            true => (format!("{place}/admin"), "is no administrator any more".to_owned()),
            false => ("/ietf-netconf-acm:nacm".into(), "may not change what it may now".to_owned()),
        };
        lost.push((place, format!("{name} {what}")));
    }
    lost
}

// ===== the interface =====

fn family(interface: &v1::Interface, address: IpAddr) -> (&'static str, Option<&v1::Family>) {
    match address {
        IpAddr::V4(_) => ("ipv4", interface.ip4.as_ref()),
        IpAddr::V6(_) => ("ipv6", interface.ip6.as_ref()),
    }
}

fn has(interface: &v1::Interface, address: IpAddr) -> bool {
    let bytes = match address {
        IpAddr::V4(four) => four.octets().to_vec(),
        IpAddr::V6(six) => six.octets().to_vec(),
    };
    let family = family(interface, address).1;
    family.is_some_and(|it| it.enabled && it.addresses.iter().any(|own| own.address == bytes))
}

/// Whether the interface and the one that carries it are enabled.
fn is_up(interface: &v1::Interface, all: &[v1::Interface]) -> bool {
    let parent = all.iter().find(|one| one.name == interface.parent);
    // A port's own interface has no parent; a sub-interface of a sub-interface there is not.
    interface.enabled && parent.is_none_or(|parent| parent.enabled)
}

fn interface(
    old: &[v1::Interface],
    new: &[v1::Interface],
    address: IpAddr,
) -> Option<(String, String)> {
    let was = old.iter().find(|it| has(it, address) && is_up(it, old))?;
    let is_way = |it: &&v1::Interface| {
        has(it, address)
            && is_up(it, new)
            && it.host_interface.is_some() == was.host_interface.is_some()
    };
    if new.iter().any(|it| is_way(&it)) {
        return None;
    }
    let name = &was.name;
    let quote = if name.contains('\'') { '"' } else { '\'' };
    let place = format!("/ietf-interfaces:interfaces/interface[name={quote}{name}{quote}]");
    let Some(is) = new.iter().find(|it| it.name == *name) else {
        return Some((place, format!("the interface {name}, which has {address}, is removed")));
    };
    if !is.enabled {
        let reason = format!("the interface {name}, which has {address}, is disabled");
        return Some((format!("{place}/enabled"), reason));
    }
    let (kind, family) = family(is, address);
    if !has(is, address) {
        let is_off = family.is_some_and(|family| !family.enabled);
        let place = match is_off {
            true => format!("{place}/ietf-ip:{kind}/enabled"),
            false => format!("{place}/ietf-ip:{kind}/address[ip='{address}']"),
        };
        return Some((place, format!("the interface {name} loses the address {address}")));
    }
    let what = match is_up(is, new) {
        true => format!("the interface {name}, which has {address}, leads to Linux no more"),
        false => format!("the interface that carries {name}, which has {address}, is disabled"),
    };
    Some((place, what))
}

#[cfg(test)]
mod tests;
