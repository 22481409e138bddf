//! Routes through host interfaces, as programs on the router use them.

use std::collections::HashMap;
use std::net::IpAddr;

use ipnet::IpNet;
use stoa_api::text::ip;
use stoa_api::v1;
use stoa_api::v1::route::Action;

use crate::config::Interfaces;
use crate::prefix::prefix_from_proto;
use crate::rib::Routes;

/// One next hop of a route: device, gateway, weight.
pub type NextHop = (String, Option<IpAddr>, u8);

/// Interfaces with a host interface, by name.
pub type Hosts<'a> = HashMap<&'a str, (&'a v1::Interface, &'a v1::HostInterface)>;

/// All interfaces with a host interface.
pub fn hosts(interfaces: &Interfaces) -> Hosts<'_> {
    let with_host = interfaces
        .iter()
        .filter_map(|it| Some((it.name.as_str(), (it, it.host_interface.as_ref()?))));
    with_host.collect()
}

/// A next hop of a route through a host interface in the VRF of the route.
pub struct HostPath<'a> {
    /// The network namespace of the host interface; "" is the controller's own.
    pub netns: &'a str,
    /// The VRF of the route and of the interface; "" is the default one.
    pub vrf: &'a str,
    /// The destination.
    pub prefix: IpNet,
    /// The device, the gateway and the weight.
    pub next_hop: NextHop,
}

/// The next hops of all routes through host interfaces, by VRF, the default one first. The connected routes are not
/// among them: the kernel has these by itself.
pub fn host_paths<'a>(
    hosts: &'a Hosts<'a>,
    routes: &'a Routes,
) -> impl Iterator<Item = HostPath<'a>> {
    let added = routes.iter().filter(|it| it.protocol != v1::Protocol::Direct as i32);
    added.flat_map(move |route| {
        let (paths, prefix) = match (&route.action, &route.prefix) {
            (Some(Action::Paths(paths)), Some(prefix)) => {
                (&paths.paths[..], prefix_from_proto(prefix))
            }
            _ => (&[][..], None),
        };
        paths.iter().filter_map(move |path| {
            let (interface, host) = hosts.get(path.interface.as_str())?;
            // A route that leaks into this VRF is for packets of another one, not for programs on the router.
            if interface.vrf != route.vrf {
                return None;
            }
            let share = path.weight.clamp(1, 255) as u8;
            let next_hop = (host.device.clone(), ip(&path.next_hop), share);
            Some(HostPath { netns: &host.netns, vrf: &route.vrf, prefix: prefix?, next_hop })
        })
    })
}
