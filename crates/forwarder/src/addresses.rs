//! The addresses of all interfaces, as workers read them: for local delivery and as sources of replies. They are
//! published as a whole, but in pages that a new version shares with the former one, so that a change
//! costs what changed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// Interfaces in a page.
const PAGE: usize = 64;

/// The addresses of one interface, as sources of replies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterfaceAddresses {
    /// IPv4 addresses with prefix lengths, the primary first.
    pub ip4: Vec<(Ipv4Addr, u8)>,
    /// IPv6 addresses with prefix lengths, without the link-local one.
    pub ip6: Vec<(Ipv6Addr, u8)>,
    /// The link-local address.
    pub link_local: Option<Ipv6Addr>,
    /// IPv6 addresses of active virtual routers that the interface does not own.
    pub virtual6: Vec<Ipv6Addr>,
    /// The subnet-router anycast addresses of a router's prefixes (RFC 4291 2.6.1), without the interface's own
    /// addresses. To others of the router, [`Addresses::is_anycast`] says no.
    pub anycast6: Vec<Ipv6Addr>,
    /// The VRF of the interface, as [`Attributes::vrf`](crate::attributes::Attributes::vrf).
    pub vrf: u32,
}

impl InterfaceAddresses {
    /// Whether the address is on an IPv4 network of the interface.
    pub fn is_on_link4(&self, address: Ipv4Addr) -> bool {
        self.ip4.iter().any(|(own, length)| {
            let mask = u32::MAX.checked_shl(32 - u32::from(*length)).unwrap_or(0);
            (u32::from(*own) ^ u32::from(address)) & mask == 0
        })
    }

    /// Sets [`Self::anycast6`] from the prefixes of [`Self::ip6`]. Prefixes of 127 bits have none (RFC 6164
    /// 5.1), nor has one whose all-zeros address is the interface's own.
    pub fn set_anycast(&mut self) {
        let of_prefix = |(own, length): &(Ipv6Addr, u8)| {
            let mask = u128::MAX.checked_shl(128 - u32::from(*length)).unwrap_or(0);
            (*length < 127).then(|| Ipv6Addr::from_bits(own.to_bits() & mask))
        };
        let is_own = |address: &Ipv6Addr| self.ip6.iter().any(|(own, _)| own == address);
        let mut anycast: Vec<_> = self.ip6.iter().filter_map(of_prefix).collect();
        anycast.retain(|address| !is_own(address));
        anycast.sort();
        anycast.dedup();
        self.anycast6 = anycast;
    }
}

/// The addresses of consecutive interfaces.
#[derive(Clone, Debug)]
struct Page([Option<Arc<InterfaceAddresses>>; PAGE]);

impl Default for Page {
    fn default() -> Self {
        Self([const { None }; PAGE])
    }
}

/// The first addresses of a VRF: sources of replies from interfaces that have none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sources {
    ip4: Option<Ipv4Addr>,
    ip6: Option<Ipv6Addr>,
}

/// The addresses of all interfaces. A copy shares all pages.
#[derive(Clone, Debug, Default)]
pub struct Addresses {
    /// By interface index.
    pages: Vec<Arc<Page>>,
    /// By VRF.
    sources: Arc<BTreeMap<u32, Sources>>,
    virtual_addresses: Arc<VirtualAddresses>,
    /// By VRF: anycast addresses that no interface in it has as its own.
    anycast: Arc<BTreeSet<(u32, Ipv6Addr)>>,
}

/// Addresses of active virtual routers that this router does not own, by [`scope`], with the accept mode
/// (RFC 9568 6.1).
pub type VirtualAddresses = BTreeMap<(u64, IpAddr), bool>;

/// The scope in which an address is unique: its VRF or, for a link-local address, its interface.
pub fn scope(interface: u32, vrf: u32, address: IpAddr) -> u64 {
    match address {
        IpAddr::V6(ip) if ip.is_unicast_link_local() => 1 << 32 | u64::from(interface),
        _ => vrf.into(),
    }
}

impl Addresses {
    /// The addresses of an interface; `None`: it does not exist.
    pub fn of(&self, interface: u32) -> Option<&InterfaceAddresses> {
        let page = self.pages.get(interface as usize / PAGE)?;
        page.0[interface as usize % PAGE].as_deref()
    }

    /// The accept mode of an active virtual router with this address; `None`: no virtual router
    /// has the address.
    #[inline]
    pub fn accepts_virtual(&self, interface: u32, vrf: u32, address: IpAddr) -> Option<bool> {
        if self.virtual_addresses.is_empty() {
            return None;
        }
        self.virtual_addresses.get(&(scope(interface, vrf, address), address)).copied()
    }

    /// Whether an address is a subnet-router anycast address of an interface in a VRF, and not an interface's own.
    #[inline]
    pub fn is_anycast(&self, vrf: u32, address: Ipv6Addr) -> bool {
        self.anycast.contains(&(vrf, address))
    }

    /// Whether there are addresses of active virtual routers that this router does not own.
    #[inline]
    pub fn has_virtual(&self) -> bool {
        !self.virtual_addresses.is_empty()
    }

    /// The source address of IPv4 replies: the primary address of the interface, else the one of the
    /// first interface with an address in its VRF.
    pub fn source4(&self, interface: u32) -> Option<Ipv4Addr> {
        let own = self.of(interface)?;
        let any = || self.sources.get(&own.vrf)?.ip4;
        own.ip4.first().map(|(address, _)| *address).or_else(any)
    }

    /// The source address of IPv6 replies: an address of the interface, else a global address of the first
    /// interface with one in its VRF, else the link-local address of the interface.
    pub fn source6(&self, interface: u32) -> Option<Ipv6Addr> {
        let own = self.of(interface)?;
        let any = || self.sources.get(&own.vrf)?.ip6;
        own.ip6.first().map(|(address, _)| *address).or_else(any).or(own.link_local)
    }
}

/// How many interfaces have an IPv6 address.
#[derive(Clone, Copy, Default)]
struct Users {
    own: u32,
    anycast: u32,
}

/// The control thread's side of [`Addresses`].
#[derive(Default)]
pub struct AddressWriter {
    current: Addresses,
    /// VRFs and interfaces with addresses, IPv4 and IPv6.
    with_addresses: [BTreeSet<(u32, u32)>; 2],
    /// By VRF and IPv6 address.
    users6: BTreeMap<(u32, Ipv6Addr), Users>,
    is_changed: bool,
    writes: u64,
}

impl AddressWriter {
    /// The addresses of an interface; `None`: it does not exist.
    pub fn of(&self, interface: u32) -> Option<&InterfaceAddresses> {
        self.current.of(interface)
    }

    /// The number of entries written since the start: the cost of changes.
    pub fn writes(&self) -> u64 {
        self.writes
    }

    /// Sets the addresses of an interface; `None`: it does not exist any more. Returns the former ones if
    /// they differ.
    pub fn set(
        &mut self,
        interface: u32,
        new: Option<InterfaceAddresses>,
    ) -> Option<Option<Arc<InterfaceAddresses>>> {
        if self.of(interface) == new.as_ref() {
            return None;
        }
        let (page, at) = (interface as usize / PAGE, interface as usize % PAGE);
        if page >= self.current.pages.len() {
            self.current.pages.resize_with(page + 1, Arc::default);
        }
        (self.is_changed, self.writes) = (true, self.writes + 1);
        let new = new.map(Arc::new);
        let cell = &mut Arc::make_mut(&mut self.current.pages[page]).0[at];
        let former = std::mem::replace(cell, new.clone());
        for (addresses, is_there) in [(&former, false), (&new, true)] {
            let Some(addresses) = addresses else { continue };
            self.count_users(addresses, is_there);
            let has = [!addresses.ip4.is_empty(), !addresses.ip6.is_empty()];
            for (with_addresses, has) in self.with_addresses.iter_mut().zip(has) {
                match has && is_there {
                    true => with_addresses.insert((addresses.vrf, interface)),
                    false => with_addresses.remove(&(addresses.vrf, interface)),
                };
            }
        }
        for vrf in [&former, &new].into_iter().flatten().map(|addresses| addresses.vrf) {
            self.set_sources(vrf);
        }
        Some(former)
    }

    /// Counts the IPv6 addresses of an interface, or takes them off.
    fn count_users(&mut self, addresses: &InterfaceAddresses, is_there: bool) {
        let own = addresses.ip6.iter().map(|(address, _)| (*address, false));
        let anycast = addresses.anycast6.iter().map(|address| (*address, true));
        for (address, is_anycast) in own.chain(anycast) {
            let key = (addresses.vrf, address);
            let users = self.users6.entry(key).or_default();
            let count = if is_anycast { &mut users.anycast } else { &mut users.own };
            *count = if is_there { *count + 1 } else { count.saturating_sub(1) };
            let Users { own, anycast } = *users;
            if (own, anycast) == (0, 0) {
                self.users6.remove(&key);
            }
            let is_anycast = anycast > 0 && own == 0;
            if is_anycast != self.current.anycast.contains(&key) {
                let all = Arc::make_mut(&mut self.current.anycast);
                match is_anycast {
                    true => all.insert(key),
                    false => all.remove(&key),
                };
            }
        }
    }

    /// Sets the first addresses of a VRF.
    fn set_sources(&mut self, vrf: u32) {
        let first = |with_addresses: &BTreeSet<(u32, u32)>| {
            let (_, interface) = with_addresses.range((vrf, 0)..=(vrf, u32::MAX)).next()?;
            self.current.of(*interface)
        };
        let [of4, of6] = self.with_addresses.each_ref().map(first);
        let sources = Sources {
            ip4: of4.and_then(|of4| of4.ip4.first()).map(|(address, _)| *address),
            ip6: of6.and_then(|of6| of6.ip6.first()).map(|(address, _)| *address),
        };
        if self.current.sources.get(&vrf).copied().unwrap_or_default() != sources {
            let all = Arc::make_mut(&mut self.current.sources);
            match sources == Sources::default() {
                true => all.remove(&vrf),
                false => all.insert(vrf, sources),
            };
        }
    }

    /// Sets the addresses of virtual routers.
    pub fn set_virtual(&mut self, all: VirtualAddresses) {
        if *self.current.virtual_addresses != all {
            self.current.virtual_addresses = Arc::new(all);
            self.is_changed = true;
        }
    }

    /// The addresses for the workers if they have changed since the last call.
    pub fn finish(&mut self) -> Option<Addresses> {
        std::mem::take(&mut self.is_changed).then(|| self.current.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn addresses(vrf: u32, ip4: Option<u8>, ip6: Option<u8>) -> InterfaceAddresses {
        let ip4 = ip4.map(|n| (Ipv4Addr::new(10, 0, 0, n), 24)).into_iter().collect();
        let global = |n: u8| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, n.into());
        let ip6 = ip6.map(|n| (global(n), 64)).into_iter().collect();
        InterfaceAddresses { ip4, ip6, vrf, ..InterfaceAddresses::default() }
    }

    #[test]
    fn a_version_shares_the_pages_that_did_not_change() {
        let mut writer = AddressWriter::default();
        (0..200).for_each(|n| drop(writer.set(n, Some(addresses(0, Some(n as u8), None)))));
        let old = writer.finish().unwrap();
        assert!(writer.finish().is_none());
        assert!(writer.set(70, Some(addresses(0, Some(70), None))).is_none(), "nothing changed");
        assert!(writer.finish().is_none());
        assert!(writer.set(70, None).is_some());
        let new = writer.finish().unwrap();
        let shared: Vec<bool> =
            old.pages.iter().zip(&new.pages).map(|(old, new)| Arc::ptr_eq(old, new)).collect();
        assert_eq!(shared, [true, false, true, true]);
        assert!(old.of(70).is_some() && new.of(70).is_none());
        assert!(Arc::ptr_eq(&old.sources, &new.sources));
        assert_eq!(writer.writes(), 201);
    }

    #[test]
    fn an_own_address_of_any_interface_in_the_vrf_is_no_anycast_address() {
        let of = |vrf, address: &str, length| {
            let ip6 = vec![(address.parse().unwrap(), length)];
            let mut addresses = InterfaceAddresses { ip6, vrf, ..Default::default() };
            addresses.set_anycast();
            addresses
        };
        let zeros = "2001:db8::".parse().unwrap();
        let mut writer = AddressWriter::default();
        let mut set = |interface, new| {
            writer.set(interface, new);
            [1, 2].map(|vrf| writer.current.is_anycast(vrf, zeros))
        };
        assert_eq!(set(1, Some(of(1, "2001:db8::1", 64))), [true, false]);
        assert_eq!(set(2, Some(of(2, "2001:db8::2", 64))), [true, true]);
        assert_eq!(set(3, Some(of(1, "2001:db8::", 128))), [false, true]);
        assert_eq!(set(4, Some(of(1, "2001:db8::4", 64))), [false, true]);
        assert_eq!(set(3, None), [true, true]);
        // The other interface is there first.
        assert_eq!(set(1, None), [true, true]);
        assert_eq!(set(4, Some(of(1, "2001:db8::", 127))), [false, true]);
        assert_eq!(set(1, Some(of(1, "2001:db8::1", 64))), [false, true]);
        assert_eq!(set(4, None), [true, true]);
        assert_eq!(set(1, None), [false, true]);
        assert_eq!(set(2, None), [false, false]);
        assert!(writer.users6.is_empty());
    }

    type Change = (u32, Option<(u32, Option<u8>, Option<u8>)>);

    fn changes() -> impl Strategy<Value = Vec<Change>> {
        let one = (0_u32..3, any::<Option<u8>>(), any::<Option<u8>>());
        prop::collection::vec((0_u32..150, prop::option::of(one)), 0..40)
    }

    proptest! {
        /// The naive model scans all interfaces of the VRF.
        #[test]
        fn sources_are_those_of_the_first_interface_in_the_vrf(changes in changes()) {
            let (mut writer, mut model) = (AddressWriter::default(), BTreeMap::new());
            for (interface, change) in changes {
                let new = change.map(|(vrf, ip4, ip6)| addresses(vrf, ip4, ip6));
                writer.set(interface, new.clone());
                match new {
                    Some(new) => model.insert(interface, new),
                    None => model.remove(&interface),
                };
            }
            let published = writer.finish().unwrap_or_default();
            for interface in 0..160 {
                let own = model.get(&interface);
                prop_assert_eq!(published.of(interface), own);
                let in_vrf: Vec<&InterfaceAddresses> = own
                    .into_iter()
                    .chain(model.values())
                    .filter(|one| own.is_some_and(|own| own.vrf == one.vrf))
                    .collect();
                let source4 = in_vrf.iter().find_map(|one| one.ip4.first()).map(|one| one.0);
                let source6 = in_vrf.iter().find_map(|one| one.ip6.first()).map(|one| one.0);
                prop_assert_eq!(published.source4(interface), source4);
                prop_assert_eq!(published.source6(interface), source6);
            }
        }
    }
}
