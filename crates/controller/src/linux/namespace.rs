//! One network namespace through rtnetlink(7): reads the current state, adds what is missing, removes what
//! carries our mark and is not desired.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};

use ipnet::IpNet;
use rtnetlink::Handle;
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::address::{
    AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage, AddressProtocol,
};
use rtnetlink::packet_route::link::{LinkAttribute, LinkFlags};
use rtnetlink::packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteNextHop, RouteProtocol,
    RouteScope, RouteType,
};
use tokio_stream::StreamExt as _;

use super::desired::Namespace;
use super::host_paths::NextHop;
use super::message::RTPROT_STOA;
use super::netns::run_in;

/// Why a namespace could not be configured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The namespace cannot be entered.
    #[error("cannot enter it ({0}): create it (ip netns add), or fix netns of the host interface")]
    Enter(std::io::Error),
    /// The device of a host interface does not exist yet.
    #[error("the device {0} does not exist yet: see `stoa show interfaces`")]
    NoDevice(String),
    /// Linux refused an operation.
    #[error("{0}: {1}")]
    Refused(String, rtnetlink::Error),
}

/// A netlink connection into one namespace.
pub struct NamespaceHandle {
    handle: Handle,
}

/// A device as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceState {
    index: u32,
    mac: Vec<u8>,
    is_up: bool,
}

/// The state after which routes were last set: while it is unchanged, the routes are too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncedState {
    desired: Namespace,
    devices: BTreeMap<String, DeviceState>,
}

impl Namespace {
    /// Indices of the desired devices.
    pub fn indices(&self, devices: &BTreeMap<String, DeviceState>) -> BTreeMap<String, u32> {
        let desired = devices.iter().filter(|(name, _)| self.devices.contains_key(*name));
        desired.map(|(name, state)| (name.clone(), state.index)).collect()
    }
}

/// An error of Linux during `operation`.
fn refused(operation: impl Into<String>) -> impl FnOnce(rtnetlink::Error) -> Error {
    |error| Error::Refused(operation.into(), error)
}

impl NamespaceHandle {
    /// Opens a connection into the namespace of that name; "" is the controller's own.
    pub fn open(name: &str) -> Result<NamespaceHandle, Error> {
        let runtime = tokio::runtime::Handle::current();
        let connect = || {
            let _reactor = runtime.enter();
            let (connection, handle, _) = rtnetlink::new_connection()?;
            runtime.spawn(connection);
            Ok(NamespaceHandle { handle })
        };
        run_in(name, connect).map_err(Error::Enter)
    }

    /// All devices with that alias.
    pub async fn devices(&self, alias: &str) -> Result<BTreeMap<String, DeviceState>, Error> {
        let mut state = BTreeMap::new();
        let links = self.handle.link().get().execute();
        let mut links = std::pin::pin!(links);
        while let Some(link) = links.next().await {
            let link = link.map_err(refused("list devices"))?;
            let (mut name, mut mac, mut is_ours) = (String::new(), Vec::new(), false);
            for attribute in link.attributes {
                match attribute {
                    LinkAttribute::IfName(text) => name = text,
                    LinkAttribute::Address(bytes) => mac = bytes,
                    LinkAttribute::IfAlias(text) => is_ours = text == alias,
                    _ => {}
                }
            }
            if is_ours {
                let is_up = link.header.flags.contains(LinkFlags::Up);
                state.insert(name, DeviceState { index: link.header.index, mac, is_up });
            }
        }
        Ok(state)
    }

    /// Removes our devices that are not desired; returns their number.
    pub async fn sweep(&self, desired: &BTreeSet<&str>, alias: &str) -> Result<usize, Error> {
        let mut count = 0;
        for (name, state) in self.devices(alias).await? {
            if !desired.contains(name.as_str()) {
                let removed = self.handle.link().del(state.index).execute().await;
                removed.map_err(refused(format!("remove {name}")))?;
                count += 1;
            }
        }
        Ok(count)
    }

    /// Reconciles addresses and routes on our devices.
    pub async fn reconcile(
        &self,
        desired: &Namespace,
        devices: BTreeMap<String, DeviceState>,
        synced: Option<&SyncedState>,
    ) -> Result<SyncedState, Error> {
        for (name, device) in &desired.devices {
            let Some(state) = devices.get(name) else { return Err(Error::NoDevice(name.clone())) };
            let mut addresses: BTreeSet<IpNet> = device.addresses.iter().copied().collect();
            if device.link_local {
                addresses.extend(link_local(&state.mac));
            }
            self.reconcile_addresses(name, state, &addresses).await?;
        }
        let now = SyncedState { desired: desired.clone(), devices };
        // A million routes are not listed twice a second: Linux only removes them together with their device.
        if synced != Some(&now) {
            self.reconcile_routes(desired, &now.devices).await?;
        }
        Ok(now)
    }

    async fn reconcile_addresses(
        &self,
        name: &str,
        state: &DeviceState,
        desired: &BTreeSet<IpNet>,
    ) -> Result<(), Error> {
        let mut current = BTreeSet::new();
        let dump = self.handle.address().get().set_link_index_filter(state.index).execute();
        let mut dump = std::pin::pin!(dump);
        while let Some(message) = dump.next().await {
            let message = message.map_err(refused(format!("list addresses of {name}")))?;
            let Some(address) = address_of(&message) else { continue };
            let mark = AddressAttribute::Protocol(AddressProtocol::Other(RTPROT_STOA));
            if message.attributes.contains(&mark) && !desired.contains(&address) {
                let result = self.handle.address().del(message).execute().await;
                result.map_err(refused(format!("remove {address} from {name}")))?;
            } else {
                current.insert(address);
            }
        }
        for address in desired.difference(&current) {
            let (ip, length) = (address.addr(), address.prefix_len());
            let mut request = self.handle.address().add(state.index, ip, length).replace();
            let message = request.message_mut();
            message
                .attributes
                .push(AddressAttribute::Protocol(AddressProtocol::Other(RTPROT_STOA)));
            if ip.is_ipv6() {
                message.header.flags |= AddressHeaderFlags::Nodad;
                message.attributes.push(AddressAttribute::Flags(AddressFlags::Nodad));
            }
            request.execute().await.map_err(refused(format!("give {address} to {name}")))?;
        }
        Ok(())
    }

    async fn reconcile_routes(
        &self,
        desired: &Namespace,
        devices: &BTreeMap<String, DeviceState>,
    ) -> Result<(), Error> {
        // Linux has no routes through a device that is down.
        let usable = |(device, gateway, share): &NextHop| {
            let state = devices.get(device).filter(|state| state.is_up)?;
            Some((state.index, *gateway, *share))
        };
        let desired: BTreeMap<IpNet, Vec<KernelNextHop>> = desired
            .routes
            .iter()
            .map(|(prefix, next_hops)| {
                (*prefix, sorted(next_hops.iter().filter_map(usable).collect()))
            })
            .filter(|(_, hops)| !hops.is_empty())
            .collect();
        let ours: BTreeSet<u32> = devices.values().map(|state| state.index).collect();
        let mut current = BTreeMap::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut filter = RouteMessage::default();
            filter.header.address_family = family;
            let dump = self.handle.route().get(filter).execute();
            let mut dump = std::pin::pin!(dump);
            while let Some(message) = dump.next().await {
                let message = message.map_err(refused("list routes"))?;
                let Some((prefix, hops)) = route_of(&message) else { continue };
                if !hops.iter().all(|hop| ours.contains(&hop.0)) {
                    continue;
                }
                if desired.contains_key(&prefix) {
                    current.insert(prefix, hops);
                } else {
                    let result = self.handle.route().del(message).execute().await;
                    result.map_err(refused(format!("remove the route {prefix}")))?;
                }
            }
        }
        for (prefix, hops) in &desired {
            if current.get(prefix) != Some(hops) {
                let added = self.handle.route().add(route(*prefix, hops)).replace().execute().await;
                added.map_err(refused(format!("add the route {prefix}")))?;
            }
        }
        Ok(())
    }
}

/// One next hop in Linux: device, gateway, weight.
type KernelNextHop = (u32, Option<IpAddr>, u8);

fn sorted(mut hops: Vec<KernelNextHop>) -> Vec<KernelNextHop> {
    hops.sort();
    hops
}

/// The link-local address of a device (RFC 4291, appendix A), the same as the interface's.
fn link_local(mac: &[u8]) -> Option<IpNet> {
    let [a, b, c, d, e, f] = *mac else { return None };
    let octets = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ 2, b, c, 0xff, 0xfe, d, e, f];
    IpNet::new(Ipv6Addr::from(octets).into(), 64).ok()
}

fn address_of(message: &AddressMessage) -> Option<IpNet> {
    let mut ip = None;
    for attribute in &message.attributes {
        match attribute {
            AddressAttribute::Local(local) => ip = Some(*local),
            AddressAttribute::Address(address) if ip.is_none() => ip = Some(*address),
            _ => {}
        }
    }
    IpNet::new(ip?, message.header.prefix_len).ok()
}

fn plain(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(ip) => Some(IpAddr::V4(*ip)),
        RouteAddress::Inet6(ip) => Some(IpAddr::V6(*ip)),
        _ => None,
    }
}

/// A route with our mark: prefix and next hops.
fn route_of(message: &RouteMessage) -> Option<(IpNet, Vec<KernelNextHop>)> {
    let header = &message.header;
    if header.protocol != RouteProtocol::Other(RTPROT_STOA) || header.kind != RouteType::Unicast {
        return None;
    }
    let unspecified = match header.address_family {
        AddressFamily::Inet => IpAddr::from([0; 4]),
        _ => IpAddr::from([0; 16]),
    };
    let (mut destination, mut gateway, mut device, mut hops) =
        (unspecified, None, None, Vec::new());
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(address) => destination = plain(address)?,
            RouteAttribute::Gateway(address) => gateway = plain(address),
            RouteAttribute::Oif(index) => device = Some(*index),
            RouteAttribute::MultiPath(next_hops) => hops.extend(next_hops.iter().map(|next_hop| {
                let gateway = next_hop.attributes.iter().find_map(|attribute| match attribute {
                    RouteAttribute::Gateway(address) => plain(address),
                    _ => None,
                });
                (next_hop.interface_index, gateway, next_hop.hops.saturating_add(1))
            })),
            _ => {}
        }
    }
    hops.extend(device.map(|device| (device, gateway, 1)));
    let prefix = IpNet::new(destination, header.destination_prefix_length).ok()?;
    Some((prefix, sorted(hops)))
}

/// Builds the message of a route.
fn route(prefix: IpNet, hops: &[KernelNextHop]) -> RouteMessage {
    let mut message = RouteMessage::default();
    let is_ip4 = prefix.addr().is_ipv4();
    let has_gateway = hops.iter().any(|hop| hop.1.is_some());
    let header = &mut message.header;
    header.address_family = if is_ip4 { AddressFamily::Inet } else { AddressFamily::Inet6 };
    header.destination_prefix_length = prefix.prefix_len();
    header.table = RouteHeader::RT_TABLE_MAIN;
    header.protocol = RouteProtocol::Other(RTPROT_STOA);
    let scope = if is_ip4 && !has_gateway { RouteScope::Link } else { RouteScope::Universe };
    header.scope = scope;
    header.kind = RouteType::Unicast;
    let attributes = &mut message.attributes;
    if prefix.prefix_len() > 0 {
        attributes.push(RouteAttribute::Destination(prefix.network().into()));
    }
    if let [(device, gateway, _)] = hops {
        attributes.push(RouteAttribute::Oif(*device));
        attributes.extend(gateway.map(|gateway| RouteAttribute::Gateway(gateway.into())));
        return message;
    }
    let next_hop = |(device, gateway, share): &KernelNextHop| {
        let mut next_hop = RouteNextHop::default();
        next_hop.interface_index = *device;
        next_hop.hops = share - 1;
        next_hop.attributes.extend(gateway.map(|gateway| RouteAttribute::Gateway(gateway.into())));
        next_hop
    };
    attributes.push(RouteAttribute::MultiPath(hops.iter().map(next_hop).collect()));
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_survive_a_round_trip() {
        let hop = |device, gateway: &str, share| (device, gateway.parse().ok(), share);
        for (prefix, hops) in [
            ("0.0.0.0/0", vec![hop(3, "10.0.0.1", 1)]),
            ("10.1.0.0/16", vec![hop(3, "10.0.0.1", 1), hop(4, "10.0.1.1", 3)]),
            ("10.2.0.0/16", vec![hop(3, "", 1)]),
            ("2001:db8::/32", vec![hop(3, "fe80::1", 1)]),
        ] {
            let prefix: IpNet = prefix.parse().unwrap();
            assert_eq!(route_of(&route(prefix, &hops)), Some((prefix, hops)));
        }
    }

    #[test]
    fn the_link_local_address_is_derived_from_the_mac() {
        let address = link_local(&[2, 0, 0, 0, 4, 1]).unwrap();
        assert_eq!(address.to_string(), "fe80::ff:fe00:401/64");
        assert_eq!(link_local(&[]), None);
    }
}
