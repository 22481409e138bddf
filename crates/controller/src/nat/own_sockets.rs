//! Ports that Linux gives to its own sockets, at addresses to which policies translate.

use std::net::Ipv4Addr;

use stoa_api::v1;

use super::paths::policy_path;
use crate::warning::{Warning, interface_node};

/// First and last port of sockets that ask for none, unless Linux is configured otherwise.
const DEFAULT: (u32, u32) = (32_768, 60_999);
const SETTING: &str = "/proc/sys/net/ipv4/ip_local_port_range";

/// The warning about a policy that gives hosts ports which Linux gives to its own sockets. `own`: the addresses of the
/// router to which it translates, with their interfaces.
pub(super) fn shared_ports<'a>(
    policy: &v1::NatPolicy,
    mut own: impl Iterator<Item = (Ipv4Addr, &'a v1::Interface)>,
) -> Option<Warning> {
    let v1::NatPolicy { instance, policy: id, first_port, last_port, .. } = policy;
    if policy.static_only {
        return None;
    }
    let (address, interface, (first, last)) = own.find_map(|(address, interface)| {
        let ports = local_ports(&interface.host_interface.as_ref()?.netns);
        let is_shared = *first_port <= ports.1 && ports.0 <= *last_port;
        is_shared.then_some((address, &interface.name, ports))
    })?;
    let fix = match free_ports((first, last)) {
        Some((from, to)) => {
            format!("set port-set-restrict to other ports ({from} to {to}), or use a pool")
        }
        None => "use a pool".to_owned(),
    };
    Some(Warning {
        text: format!(
            "NAT policy {id} of instance {instance}: at {address} of interface {interface}, which has a host \
             interface, hosts get ports that Linux gives to its own sockets ({first} to {last}): some answers to \
             programs of the router, such as of DNS, go to hosts; {fix}"
        ),
        nodes: vec![
            policy_path(*instance, *id),
            interface_node(interface, "stoa-host-interface:host-interface"),
        ],
    })
}

/// The larger of both ranges besides that of Linux; `None`: it has all ports.
fn free_ports((first, last): (u32, u32)) -> Option<(u32, u32)> {
    let both = [(last + 1, 65_535), (1024, first.saturating_sub(1))];
    let count = |(first, last): &(u32, u32)| (last + 1).saturating_sub(*first);
    both.into_iter().filter(|it| count(it) > 0).max_by_key(count)
}

/// First and last port of sockets that ask for none, in a network namespace.
fn local_ports(netns: &str) -> (u32, u32) {
    // Only processes of another namespace know its setting.
    let text = if netns.is_empty() { std::fs::read_to_string(SETTING).ok() } else { None };
    text.and_then(|it| ports(&it)).unwrap_or(DEFAULT)
}

fn ports(text: &str) -> Option<(u32, u32)> {
    let mut words = text.split_whitespace().map(str::parse);
    Some((words.next()?.ok()?, words.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_setting_of_linux_is_read() {
        assert_eq!(ports("32768\t60999\n"), Some((32_768, 60_999)));
        assert_eq!(ports("1024 9999"), Some((1024, 9999)));
        assert_eq!(ports(""), None);
        assert_eq!(free_ports(DEFAULT), Some((1024, 32_767)));
        assert_eq!(free_ports((1024, 9999)), Some((10_000, 65_535)));
        assert_eq!(free_ports((0, 65_535)), None);
    }
}
