//! What all workers of a forwarder share. Everything here is read without locks:
//! it is atomic words, tables that change in place, or published as a whole.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use stoa_engine::INTERFACES;
use stoa_engine::arc::FeatureArc;
use stoa_engine::quiescence::{Published, Quiescence, Reader};
use stoa_tables::adjacency::AdjacencyReader;
use stoa_tables::lpm::{Ip4LpmReader, Ip6LpmReader};
use stoa_tables::next_hop::NextHopReader;

use crate::bfd::Peers;
use crate::ethernet::InterfaceLine;
use crate::ethernet::virtual_macs::VirtualMacs;
use crate::ethernet::vlan_table::VlanTables;
use crate::ip::identification::Identifications;
use crate::ip::policy::Policies;
use crate::ip::reassembly::Limits;
use crate::kernel::Kernel;
use crate::punt::budgets::Budgets;
use crate::punt::familiar::Familiar;
use crate::tunnel::Tunnels;

/// What a next hop says when it is no adjacency: the code in its drop kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Verdict {
    /// No route; also what an id that was never published means.
    NoRoute = 0,
    /// One of our own addresses.
    Local = 1,
    /// Drop silently.
    Blackhole = 2,
    /// Drop, and say that the host is unreachable.
    Unreachable = 3,
    /// Drop, and say that it is prohibited.
    Prohibited = 4,
    /// The broadcast address of one of our networks.
    Broadcast = 5,
    /// All paths are down.
    LinkDown = 6,
}

impl Verdict {
    /// The inverse of `as u8`; what is unknown is no route.
    #[inline(always)]
    pub fn of(code: u8) -> Self {
        match code {
            1 => Self::Local,
            2 => Self::Blackhole,
            3 => Self::Unreachable,
            4 => Self::Prohibited,
            5 => Self::Broadcast,
            6 => Self::LinkDown,
            _ => Self::NoRoute,
        }
    }
}

/// The addresses of one interface that answers are sent from.
#[derive(Clone, Debug, Default)]
pub struct InterfaceAddresses {
    /// IPv4 addresses with prefix lengths, the primary first.
    pub ip4: Vec<(Ipv4Addr, u8)>,
    /// IPv6 addresses with prefix lengths, link-local not among them.
    pub ip6: Vec<(Ipv6Addr, u8)>,
    /// The link-local address.
    pub link_local: Option<Ipv6Addr>,
    /// IPv6 addresses of virtual routers that are active here and not its own.
    pub virtual6: Vec<Ipv6Addr>,
    /// The VRF of the interface, as [`InterfaceLine::vrf`].
    pub vrf: u32,
}

impl InterfaceAddresses {
    /// Whether one of the interface's IPv4 networks has the address.
    pub fn is_on_link4(&self, address: Ipv4Addr) -> bool {
        self.ip4.iter().any(|(own, length)| {
            let mask = u32::MAX.checked_shl(32 - u32::from(*length)).unwrap_or(0);
            (u32::from(*own) ^ u32::from(address)) & mask == 0
        })
    }
}

/// The addresses of all interfaces.
#[derive(Clone, Debug, Default)]
pub struct Addresses {
    /// By interface index.
    pub by_interface: Vec<InterfaceAddresses>,
    /// Addresses of virtual routers that are active here and not our own, by [`scope`], and
    /// whether packets to them are taken in.
    pub virtuals: BTreeMap<(u64, IpAddr), bool>,
}

/// Where an address is the same address: in its VRF, or, link-local, on its interface.
pub fn scope(interface: u32, vrf: u32, address: IpAddr) -> u64 {
    match address {
        IpAddr::V6(ip) if ip.is_unicast_link_local() => 1 << 32 | u64::from(interface),
        _ => vrf.into(),
    }
}

impl Addresses {
    /// The addresses of an interface; nothing when it has none.
    pub fn of(&self, interface: u32) -> Option<&InterfaceAddresses> {
        self.by_interface.get(interface as usize)
    }

    /// Whether packets to the address of a virtual router that is active here are taken in;
    /// `None`: the address is none.
    #[inline]
    pub fn takes_in(&self, interface: u32, vrf: u32, address: IpAddr) -> Option<bool> {
        if self.virtuals.is_empty() {
            return None;
        }
        self.virtuals.get(&(scope(interface, vrf, address), address)).copied()
    }

    /// The IPv4 address to answer from: the interface's own, else any of ours in its VRF.
    pub fn source4(&self, interface: u32) -> Option<Ipv4Addr> {
        let own = self.of(interface).and_then(|addresses| addresses.ip4.first());
        let any = || self.beside(interface).find_map(|addresses| addresses.ip4.first());
        own.or_else(any).map(|(address, _)| *address)
    }

    /// The interfaces of the same VRF.
    fn beside(&self, interface: u32) -> impl Iterator<Item = &InterfaceAddresses> {
        let vrf = self.of(interface).map(|addresses| addresses.vrf);
        self.by_interface.iter().filter(move |addresses| Some(addresses.vrf) == vrf)
    }

    /// The IPv6 address to answer from: the interface's own, else any global one
    /// of ours in its VRF, else the link-local one.
    pub fn source6(&self, interface: u32) -> Option<Ipv6Addr> {
        let own = self.of(interface).and_then(|addresses| addresses.ip6.first());
        let any = || self.beside(interface).find_map(|addresses| addresses.ip6.first());
        let link_local = || self.of(interface).and_then(|addresses| addresses.link_local);
        own.or_else(any).map(|(address, _)| *address).or_else(link_local)
    }
}

/// The name of the default VRF in [`InterfaceLine::vrf`].
pub const DEFAULT_VRF: u32 = 0;

/// The slot in the name of a VRF; the rest of the name says which use of the slot it is.
const SLOT_BITS: u32 = 12;

/// The name by which workers know a VRF: its slot, and how often that was used before, so that
/// a worker that is late never looks into the table of a slot's next owner.
pub fn vrf_name(slot: usize, generation: u32) -> u32 {
    slot as u32 & ((1 << SLOT_BITS) - 1) | generation << SLOT_BITS
}

/// The routes of one VRF.
#[derive(Clone)]
pub struct VrfReaders {
    /// See [`vrf_name`].
    pub name: u32,
    /// IPv4 routes.
    pub ip4: Ip4LpmReader,
    /// IPv6 routes.
    pub ip6: Ip6LpmReader,
}

/// The routes of all VRFs but the default one.
#[derive(Clone, Default)]
pub struct VrfTables {
    /// By slot; the first is never used.
    pub by_slot: Vec<Option<VrfReaders>>,
}

impl VrfTables {
    /// The routes of the VRF of that name.
    pub fn of(&self, name: u32) -> Option<&VrfReaders> {
        let slot = (name & ((1 << SLOT_BITS) - 1)) as usize;
        self.by_slot.get(slot)?.as_ref().filter(|readers| readers.name == name)
    }
}

/// What all workers share.
pub struct Shared {
    interfaces: Box<[InterfaceLine]>,
    /// From VLAN tags to sub-interfaces.
    pub vlans: Published<VlanTables>,
    /// Addresses to answer from.
    pub addresses: Published<Addresses>,
    /// MAC addresses of virtual routers that are active here.
    pub virtual_macs: Published<VirtualMacs>,
    /// Tunnels by their interfaces and ends.
    pub tunnels: Published<Tunnels>,
    /// With whom there are BFD sessions.
    pub bfd: Published<Peers>,
    /// IPv4 routes of the default VRF.
    pub ip4: Ip4LpmReader,
    /// IPv6 routes of the default VRF.
    pub ip6: Ip6LpmReader,
    /// Routes of all other VRFs.
    pub vrfs: Published<VrfTables>,
    /// Rules of policy routing.
    pub policies: Published<Policies>,
    /// What routes of all VRFs lead to.
    pub next_hops: NextHopReader,
    /// How packets leave.
    pub adjacencies: AdjacencyReader,
    /// Features between `ip4-input` and `ip4-lookup`.
    pub features4: FeatureArc,
    /// Features between `ip6-input` and `ip6-lookup`.
    pub features6: FeatureArc,
    /// Names packets that are cut.
    pub identifications: Identifications,
    /// Limits of reassembly.
    pub reassembly: Limits,
    /// The SIMD kernel in use.
    pub kernel: Kernel,
    /// What packets for the control plane may cost.
    pub budgets: Budgets,
    /// Whose answers are awaited.
    pub familiar: Familiar,
}

/// The tables that a forwarder was made with.
pub struct Readers {
    /// IPv4 routes of the default VRF.
    pub ip4: Ip4LpmReader,
    /// IPv6 routes of the default VRF.
    pub ip6: Ip6LpmReader,
    /// Next hops.
    pub next_hops: NextHopReader,
    /// Adjacencies.
    pub adjacencies: AdjacencyReader,
}

/// Features of the IPv4 unicast arc in order.
pub const FEATURES4: &[&str] = &["ip4-reverse-path", "ip4-policy", "ip4-redirect"];
/// Features of the IPv6 unicast arc in order.
pub const FEATURES6: &[&str] = &["ip6-reverse-path", "ip6-policy", "ip6-redirect"];

impl Shared {
    /// Without interfaces and addresses.
    pub fn new(
        readers: Readers,
        kernel: Kernel,
        budgets: Budgets,
        quiescence: &Arc<Quiescence>,
    ) -> Self {
        let Readers { ip4, ip6, next_hops, adjacencies } = readers;
        Self {
            interfaces: (0..INTERFACES).map(|_| InterfaceLine::default()).collect(),
            vlans: Published::new(VlanTables::default(), quiescence),
            addresses: Published::new(Addresses::default(), quiescence),
            virtual_macs: Published::new(VirtualMacs::default(), quiescence),
            tunnels: Published::new(Tunnels::default(), quiescence),
            bfd: Published::new(Peers::default(), quiescence),
            ip4,
            ip6,
            vrfs: Published::new(VrfTables::default(), quiescence),
            policies: Published::new(Policies::default(), quiescence),
            next_hops,
            adjacencies,
            features4: FeatureArc::new(FEATURES4),
            features6: FeatureArc::new(FEATURES6),
            identifications: Identifications::default(),
            reassembly: Limits::default(),
            kernel,
            budgets,
            familiar: Familiar::default(),
        }
    }

    /// The IPv4 routes of a VRF ([`InterfaceLine::vrf`]); `None` when it is no more.
    #[inline(always)]
    pub fn ip4_table<'a>(&'a self, vrf: u32, reader: &'a Reader) -> Option<&'a Ip4LpmReader> {
        if vrf == DEFAULT_VRF {
            return Some(&self.ip4);
        }
        self.vrfs.read(reader).of(vrf).map(|readers| &readers.ip4)
    }

    /// The IPv6 routes of a VRF ([`InterfaceLine::vrf`]); `None` when it is no more.
    #[inline(always)]
    pub fn ip6_table<'a>(&'a self, vrf: u32, reader: &'a Reader) -> Option<&'a Ip6LpmReader> {
        if vrf == DEFAULT_VRF {
            return Some(&self.ip6);
        }
        self.vrfs.read(reader).of(vrf).map(|readers| &readers.ip6)
    }

    /// What workers know of an interface.
    #[inline(always)]
    pub fn interface(&self, index: u32) -> &InterfaceLine {
        &self.interfaces[index as usize % INTERFACES]
    }
}
