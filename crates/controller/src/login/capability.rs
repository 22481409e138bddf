//! Login of hosts as a capability: checks, its part of the desired state, its state and its metrics.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::{Map, Value};
use stoa_api::text::ip_bytes;
use stoa_api::v1;
use stoa_yang::error::ValidationErrors;

use super::state;
use crate::capability::{Capability, Facts, Page, Settings, Translated, interface_path};
use crate::config::model::{Interface, InterfaceLogin, Login, Portal};
use crate::prefix::prefix_to_proto;

const PORTAL: &str = "/stoa-login:login/portal";

/// The capability.
pub(crate) struct HostLogin;

impl Capability for HostLogin {
    // A change of the portal has the whole configuration validated.
    fn is_by_interface(&self) -> bool {
        true
    }

    fn translate(
        &self,
        settings: &Settings<'_>,
        translated: &mut Translated,
        errors: &mut ValidationErrors,
    ) {
        let login = &settings.model.login;
        check(login, &settings.model.management.https, errors);
        let with = settings.model.interfaces.interface.iter().filter(|it| it.login.is_some());
        for (given, desired) in translated.interfaces_of(with) {
            let Some(of) = &given.login else { continue };
            let place = format!("{}/stoa-login:login", interface_path(&given.name));
            check_interface(given, &login.portal, &place, errors);
            desired.login = Some(translated_login(of, &login.portal));
            let advertising = desired.ip6.as_mut().and_then(|it| it.advertising.as_mut());
            if let (Some(advertising), Some(api)) = (advertising, login.portal.api()) {
                advertising.captive_portal = api;
            }
        }
        translated.login = login.clone();
    }

    fn state(&self, facts: &Facts<'_>, state: &mut Map<String, Value>) {
        if let Some(logins) = facts.logins {
            state::add(logins, state);
        }
    }

    fn metrics(&self, facts: &Facts<'_>, page: &mut Page<'_>) -> fmt::Result {
        facts.logins.map_or(Ok(()), |logins| state::metrics(logins, page))
    }
}

/// Checks the portal.
fn check(login: &Login, https: &crate::config::management::Https, errors: &mut ValidationErrors) {
    let portal = &login.portal;
    let unpaired = match (&portal.certificate, &portal.key) {
        (Some(_), None) => Some(("certificate", "key")),
        (None, Some(_)) => Some(("key", "certificate")),
        _ => None,
    };
    if let Some((given, missing)) = unpaired {
        errors.add(
            format!("{PORTAL}/{given}"),
            format!("the {given} has no {missing}"),
            format!("Set \"{missing}\" too, or remove both: then the portal generates them."),
        );
    }
    let is_group = |it: &&IpAddr| it.is_unspecified() || it.is_multicast();
    if let Some(address) = portal.address.iter().find(is_group) {
        errors.add(
            format!("{PORTAL}/address"),
            format!("{address} is not the address of a host"),
            "List the addresses where the portal listens: hosts reach these before they log in.",
        );
    }
    if let Some(url) = portal.url.as_deref().filter(|url| port_of(url) != Some(portal.port)) {
        errors.add(
            format!("{PORTAL}/url"),
            format!("hosts do not find the portal at {url}: it listens on port {}", portal.port),
            format!("Add :{} to the name, or set port to that of the URL.", portal.port),
        );
    }
    let is_taken = https.enabled
        && https.port == portal.port
        && portal.address.iter().any(|it| {
            let all = |own: &IpAddr| own.is_unspecified() && own.is_ipv4() == it.is_ipv4();
            https.address.iter().any(|own| own == it || all(own))
        });
    if is_taken {
        errors.add(
            format!("{PORTAL}/port"),
            format!("the management server listens on port {} of the same address", portal.port),
            "Use another port for the portal.",
        );
    }
}

/// The port of `https://HOST/` or `https://HOST:PORT/`.
fn port_of(url: &str) -> Option<u16> {
    let host = url.strip_prefix("https://")?.strip_suffix('/')?;
    let behind = host.rsplit_once(']').map_or(host, |(_, behind)| behind);
    behind.rsplit_once(':').map_or(Some(443), |(_, port)| port.parse().ok())
}

/// Checks an interface where hosts have to log in.
fn check_interface(
    interface: &Interface,
    portal: &Portal,
    place: &str,
    errors: &mut ValidationErrors,
) {
    if interface.is_tunnel() {
        errors.add(
            place,
            "hosts cannot log in behind a tunnel: their MAC addresses are not known there",
            "Remove login, or configure it on the interface with the hosts.",
        );
    }
    if !interface.cross_connect.is_empty() {
        errors.add(
            place,
            "all packets of the interface are cross-connected, so that nobody reaches a portal",
            "Remove login, or cross-connect.",
        );
    }
    if portal.address.is_empty() {
        errors.add(
            place,
            "hosts have to log in, and there is no portal",
            format!("Set {PORTAL}/address to an address of the router that these hosts reach."),
        );
    }
}

fn translated_login(of: &InterfaceLogin, portal: &Portal) -> v1::InterfaceLogin {
    let garden = of.garden.iter().filter_map(|it| it.parse::<IpNet>().ok());
    let redirect = |is_ip4| if of.redirect { portal.location(is_ip4) } else { String::new() };
    v1::InterfaceLogin {
        garden: garden.map(|it| prefix_to_proto(&it.trunc())).collect(),
        name_servers: of.name_server.iter().copied().map(ip_bytes).collect(),
        portal_addresses: portal.address.iter().copied().map(ip_bytes).collect(),
        portal_port: portal.port.into(),
        redirect4: redirect(true),
        redirect6: redirect(false),
        host_query_rate: of.host_query_rate,
        host_answer_rate: of.host_answer_rate,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_the_port_of_https_or_its_own() {
        for (url, port) in [
            ("https://portal.example/", Some(443)),
            ("https://portal.example:8444/", Some(8444)),
            ("https://[2001:db8::1]:8444/", Some(8444)),
            ("https://[2001:db8::1]/", Some(443)),
            ("https://portal.example:99999/", None),
            ("https://portal.example:/", None),
        ] {
            assert_eq!(port_of(url), port, "{url}");
        }
    }
}
