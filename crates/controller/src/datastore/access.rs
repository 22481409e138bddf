//! Protection against a commit that cuts off its author.
//!
//! A commit that removes the address, port, credential or interface over which its author is connected is refused,
//! unless it is a confirmed commit (which is rolled back without confirmation) or forced.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use stoa_api::v1;
use stoa_api::zones::ROUTER;
use stoa_yang::error::{ValidationError, ValidationErrors};

use super::author::{AccessPath, Author, Credential};
use super::refusal::Refusal;
use crate::acl::{Packet, evaluate, pair_path, point_path};
use crate::apply::ForwarderConnection;
use crate::config::management::{self, Action, Https, Management, User};
use crate::config::{Interfaces, has_address, interface_path};
use crate::configuration::Configuration;
use crate::nat::mapping_at;

const FIX: &str = "Change the candidate and use a confirmed commit (`confirm-within`, `commit confirmed 5`): it is rolled \
                    back unless you confirm it. Or force the commit (`force`).";

/// The settings that decide about access.
#[derive(Clone, Copy, Debug)]
struct AccessSettings<'a> {
    management: &'a Management,
    interfaces: &'a Interfaces,
    configuration: &'a Configuration,
}

impl<'a> AccessSettings<'a> {
    fn of(configuration: &'a Configuration) -> AccessSettings<'a> {
        AccessSettings {
            management: &configuration.management,
            interfaces: &configuration.interfaces,
            configuration,
        }
    }
}

/// Refuses a configuration that cuts off its author.
///
/// # Errors
/// Each lost part of the access.
pub(super) fn check(
    connection: &ForwarderConnection,
    author: &Author,
    after: &Configuration,
) -> Result<(), Refusal> {
    let Some(path) = &author.access_path else { return Ok(()) };
    let lost = connection.with_configuration(|before| {
        before.map(|before| {
            lost(&author.name, path, AccessSettings::of(before), AccessSettings::of(after))
        })
    });
    match lost.unwrap_or_default() {
        none if none.is_empty() => Ok(()),
        lost => Err(Refusal::AccessLost(lost)),
    }
}

/// The parts of the access that the new configuration lacks.
fn lost(
    name: &str,
    path: &AccessPath,
    before: AccessSettings<'_>,
    after: AccessSettings<'_>,
) -> Vec<ValidationError> {
    let mut errors = ValidationErrors::default();
    let mut add = |(path, cause): (String, String)| {
        errors.add(path, format!("this would cut off your own access: {cause}"), FIX);
    };
    if let Some(credential) = path.credential {
        let (old, new) = (before.management, after.management);
        server(&old.https, &new.https, path.local).into_iter().for_each(&mut add);
        user(name, credential, old, new).into_iter().for_each(&mut add);
    }
    interface(before.interfaces, after.interfaces, path.local.ip()).into_iter().for_each(&mut add);
    access_list(path, before.configuration, after.configuration).into_iter().for_each(&mut add);
    translation(path.local, before.configuration, after.configuration).into_iter().for_each(add);
    errors.into_vec()
}

// ===== the server =====

fn listens_on(https: &Https, address: IpAddr) -> bool {
    if https.address.is_empty() {
        return address == Ipv4Addr::LOCALHOST || address == Ipv6Addr::LOCALHOST;
    }
    let is_any = |it: &IpAddr| it.is_unspecified() && it.is_ipv4() == address.is_ipv4();
    https.address.iter().any(|it| *it == address || is_any(it))
}

fn server(old: &Https, new: &Https, local: SocketAddr) -> Option<(String, String)> {
    let lost = |leaf: &str, cause: String| {
        Some((format!("/stoa-management:management/https/{leaf}"), cause))
    };
    // The connection may be older than the current settings, which may have no such server any more.
    if !old.enabled || old.port != local.port() || !listens_on(old, local.ip()) {
        return None;
    }
    if !new.enabled {
        return lost("enabled", "the HTTPS server is disabled".into());
    }
    if new.port != old.port {
        let cause = format!("the HTTPS server moves from port {} to {}", old.port, new.port);
        return lost("port", cause);
    }
    if !listens_on(new, local.ip()) {
        let cause = format!("the HTTPS server stops listening on {}", local.ip());
        return lost("address", cause);
    }
    None
}

// ===== the user =====

/// How much of the configuration a user may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum WriteAccess {
    None,
    Partial,
    Full,
}

fn write_access(user: &User, management: &Management) -> WriteAccess {
    let access = &management.access;
    if user.admin || !access.enable_nacm {
        return WriteAccess::Full;
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
    if is_permitted { WriteAccess::Partial } else { WriteAccess::None }
}

fn user(
    name: &str,
    credential: Credential,
    old: &Management,
    new: &Management,
) -> Vec<(String, String)> {
    let find = |all: &Management| all.user.iter().find(|user| user.name == name).cloned();
    let Some(was) = find(old) else { return Vec::new() };
    let path = format!("/stoa-management:management/user[name='{name}']");
    let Some(is) = find(new) else {
        return vec![(path, format!("the user {name} is removed"))];
    };
    let mut lost = Vec::new();
    if credential == Credential::Password
        && was.password_hash.is_some()
        && is.password_hash.is_none()
    {
        lost.push((format!("{path}/password-hash"), format!("{name} loses the password")));
    }
    let ca = &old.https.client_ca;
    if credential == Credential::Certificate && ca.is_some() && *ca != new.https.client_ca {
        let cause = match &new.https.client_ca {
            None => "client certificates are not accepted any more".to_owned(),
            Some(file) => format!("{} may not have signed your certificate", file.display()),
        };
        lost.push(("/stoa-management:management/https/client-ca".into(), cause));
    }
    if write_access(&was, old) > write_access(&is, new) {
        let (path, what) = match was.admin && !is.admin {
            true => (format!("{path}/admin"), "is no administrator any more".to_owned()),
            false => (
                "/ietf-netconf-acm:nacm".into(),
                "loses rights to change the configuration".to_owned(),
            ),
        };
        lost.push((path, format!("{name} {what}")));
    }
    lost
}

// ===== the access lists =====

/// The input list that would drop the author's session, at the interface that has the local address, or the pair of its
/// zone and the router. A session that comes in by another interface, or that lists drop already, is not checked.
fn access_list(
    path: &AccessPath,
    before: &Configuration,
    after: &Configuration,
) -> Option<(String, String)> {
    let (local, peer) = (path.local, path.peer?);
    let interface = after.interfaces.iter().find(|it| has_address(it, local.ip()))?;
    let of = v1::TestAclRequest {
        interface: interface.name.clone(),
        direction: "in".to_owned(),
        to_zone: ROUTER.to_owned(),
        protocol: 6,
        // The client's port is another one next time.
        source_port: 49_152,
        destination_port: local.port().into(),
        tcp_flags: 16,
        hop_limit: 64,
        ..v1::TestAclRequest::default()
    };
    let packet = Packet { source: peer, destination: local.ip(), of };
    let passes = |configuration: &Configuration| {
        evaluate(configuration, &packet).map_or(true, |decision| decision.action == "accept")
    };
    if peer.is_ipv4() != local.is_ipv4() || !passes(before) || passes(after) {
        return None;
    }
    let decision = evaluate(after, &packet).ok()?;
    let by = match decision.rule.as_str() {
        "" => "no rule of the access lists accepts".to_owned(),
        rule => format!("the rule {rule} of the access list {} drops", decision.acl),
    };
    let cause = format!("{by} packets from {peer} to {local}");
    let path = match decision.place.starts_with("zones ") {
        true => pair_path(&interface.zone, ROUTER),
        false => format!("{}/ingress", point_path(&interface.name)),
    };
    Some((path, cause))
}

// ===== address translation =====

/// A static mapping that would take the packets of the author's session from the router.
fn translation(
    local: SocketAddr,
    before: &Configuration,
    after: &Configuration,
) -> Option<(String, String)> {
    let vrf = &after.interfaces.iter().find(|it| has_address(it, local.ip()))?.vrf;
    if mapping_at(before.desired.nat.as_ref(), vrf, local).is_some() {
        return None;
    }
    let (path, mapping) = mapping_at(after.desired.nat.as_ref(), vrf, local)?;
    let cause = format!("NAT mapping {} takes packets to {local} from the router", mapping.index);
    Some((path, cause))
}

// ===== the interface =====

fn family(interface: &v1::Interface, address: IpAddr) -> (&'static str, Option<&v1::Family>) {
    match address {
        IpAddr::V4(_) => ("ipv4", interface.ip4.as_ref()),
        IpAddr::V6(_) => ("ipv6", interface.ip6.as_ref()),
    }
}

/// Whether the interface and its parent are enabled.
fn is_up(interface: &v1::Interface, all: &Interfaces) -> bool {
    let parent = all.named(&interface.parent);
    // The parent of a sub-interface is the interface of a port, which has no parent.
    interface.enabled && parent.is_none_or(|parent| parent.enabled)
}

fn interface(old: &Interfaces, new: &Interfaces, address: IpAddr) -> Option<(String, String)> {
    let was = old.iter().find(|it| has_address(it, address) && is_up(it, old))?;
    let gives_access = |it: &&v1::Interface| {
        has_address(it, address)
            && is_up(it, new)
            && it.host_interface.is_some() == was.host_interface.is_some()
    };
    let name = &was.name;
    // Mostly it is the same one.
    if new.named(name).is_some_and(|it| gives_access(&it)) || new.iter().any(|it| gives_access(&it))
    {
        return None;
    }
    let path = interface_path(name);
    let Some(is) = new.named(name) else {
        return Some((path, format!("the interface {name}, which has {address}, is removed")));
    };
    if !is.enabled {
        let cause = format!("the interface {name}, which has {address}, is disabled");
        return Some((format!("{path}/enabled"), cause));
    }
    let (kind, family) = family(is, address);
    if !has_address(is, address) {
        let is_off = family.is_some_and(|family| !family.enabled);
        let path = match is_off {
            true => format!("{path}/ietf-ip:{kind}/enabled"),
            false => format!("{path}/ietf-ip:{kind}/address[ip='{address}']"),
        };
        return Some((path, format!("the interface {name} loses the address {address}")));
    }
    let cause = match is_up(is, new) {
        true => format!("the interface {name}, which has {address}, loses its host interface"),
        false => format!("the parent of {name}, which has {address}, is disabled"),
    };
    Some((path, cause))
}

#[cfg(test)]
mod tests;
