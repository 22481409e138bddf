//! The state that all workers share. Workers read it without locks: it consists of atomic words,
//! of tables that change in place, and of tables that are published as a whole.

use std::any::Any;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use stoa_engine::INTERFACES;
use stoa_engine::counters::{OutOfMemory, zeroed};
use stoa_engine::quiescence::{Published, Quiescence, Reader};
use stoa_tables::adjacency::AdjacencyReader;
use stoa_tables::lpm::{Ip4LpmReader, Ip4LpmTables, Ip6LpmReader, Ip6LpmTables};
use stoa_tables::next_hop::{NextHopReader, Resolved};

use crate::acl::AccessLists;
use crate::acl::hits::{COUNTED, HitTable};
use crate::acl::log;
use crate::addresses::Addresses;
use crate::arcs::Arcs;
use crate::attributes::{Attributes, REVERSE_PATH};
use crate::bfd::Peers;
use crate::ethernet::InterfaceLine;
use crate::ethernet::virtual_macs::VirtualMacs;
use crate::ethernet::vlan_table::VlanTables;
use crate::flow::Seeds;
use crate::flow::flows::Flows;
use crate::flow::fragment_order::Waiting;
use crate::ip::identification::Identifications;
use crate::ip::policy::Policies;
use crate::ip::reassembly::Limits;
use crate::ipsec::table::Ipsec;
use crate::kernel::Kernel;
use crate::login::Logins;
use crate::login::shares::Shares;
use crate::login::traffic::LoginTraffic;
use crate::nat::Nat;
use crate::nat::mappings::RemotePeers;
use crate::nat64::Nat64;
use crate::nptv6::Nptv6;
use crate::pcp::PcpInterfaces;
use crate::plugin::Part;
use crate::punt::known_neighbors::KnownNeighbors;
use crate::punt::policer::Policers;
use crate::punt::routing_peers::RoutingPeers;
use crate::punt::subscriptions::Subscriptions;
use crate::reports::Reports;
use crate::siit::Siit;
use crate::tunnel::table::Tunnels;

/// A next hop that is not an adjacency: the code in `NextHop::Special`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum SpecialNextHop {
    /// No route; also the meaning of an id that was never published.
    NoRoute = 0,
    /// A local address.
    Local = 1,
    /// Drop silently.
    Blackhole = 2,
    /// Drop, with ICMP host unreachable.
    Unreachable = 3,
    /// Drop, with ICMP administratively prohibited.
    Prohibited = 4,
    /// The broadcast address of a connected network.
    Broadcast = 5,
    /// All paths are down.
    LinkDown = 6,
}

impl SpecialNextHop {
    /// The inverse of `as u8`; an unknown code means no route.
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

/// The id of the default VRF in [`Attributes::vrf`].
pub const DEFAULT_VRF: u32 = 0;

/// Bits of a VRF id that hold its slot; the other bits hold the generation of the slot.
const SLOT_BITS: u32 = 12;

/// The id of a VRF for workers: its slot and the generation of the slot. The generation keeps a
/// worker with an old id from reading the table of the next VRF in the slot.
pub fn vrf_id(slot: usize, generation: u32) -> u32 {
    slot as u32 & ((1 << SLOT_BITS) - 1) | generation << SLOT_BITS
}

/// The routes of all VRFs, by [`vrf_id`].
pub struct VrfTables {
    /// IPv4 routes.
    pub ip4: Ip4LpmTables,
    /// IPv6 routes.
    pub ip6: Ip6LpmTables,
}

/// The state that all workers share.
pub struct Shared {
    interfaces: Box<[InterfaceLine]>,
    /// What nodes need to know about the interface of each packet.
    pub attributes: Attributes,
    /// Sub-interfaces by VLAN tags.
    pub vlans: Published<VlanTables>,
    /// Source addresses of replies.
    pub addresses: Published<Addresses>,
    /// MAC addresses of active virtual routers.
    pub virtual_macs: Published<VirtualMacs>,
    /// Tunnels by interface and by endpoints.
    pub tunnels: Published<Tunnels>,
    /// Security associations.
    pub ipsec: Ipsec,
    /// The peers of BFD sessions.
    pub bfd: Published<Peers>,
    /// Which packets go to the controller.
    pub subscriptions: Published<Subscriptions>,
    /// IPv4 routes of the default VRF.
    pub ip4: Ip4LpmReader,
    /// IPv6 routes of the default VRF.
    pub ip6: Ip6LpmReader,
    /// Routes of all VRFs.
    pub vrfs: Published<VrfTables>,
    /// Policy routing rules.
    pub policies: Published<Policies>,
    /// Access lists of interfaces.
    pub acls: Published<AccessLists>,
    /// How often their rules have matched.
    pub hits: Arc<HitTable>,
    /// Packets that match rules with a log, as workers report them.
    pub acl_log: Reports<log::Record>,
    /// Address translation.
    pub nat: Published<Arc<Nat>>,
    /// Prefixes of NAT64.
    pub nat64: Published<Nat64>,
    /// Translation of IPv6 prefixes.
    pub nptv6: Published<Nptv6>,
    /// Translation without state.
    pub siit: Published<Siit>,
    /// Hosts that have logged in, and what others may do.
    pub logins: Published<Logins>,
    /// What hosts send and get that have logged in.
    pub login_traffic: LoginTraffic,
    /// What each host may cause that has not logged in.
    pub login_shares: Shares,
    /// Whom mappings let in that hosts have asked for.
    pub remote_peers: Published<RemotePeers>,
    /// Interfaces whose hosts may ask for mappings.
    pub pcp: Published<PcpInterfaces>,
    /// The flows that stateful rules have admitted.
    pub flows: Arc<Flows>,
    /// Next hops of the routes of all VRFs.
    pub next_hops: NextHopReader,
    /// Adjacencies.
    pub adjacencies: AdjacencyReader,
    /// Features that are on at interfaces.
    pub arcs: Arcs,
    /// Generates identifications for fragmented packets.
    pub identifications: Identifications,
    /// Limits of reassembly.
    pub reassembly: Limits,
    /// Fragments that wait for the first one of their packet.
    pub waiting_fragments: Waiting,
    /// The SIMD kernel in use.
    pub kernel: Kernel,
    /// What packets for the control plane may cost.
    pub policers: Policers,
    /// Whose answers are awaited.
    pub known_neighbors: KnownNeighbors,
    /// The parts of plugins, in the order of [`crate::plugin::all`].
    pub parts: Vec<Arc<dyn Part>>,
    /// The seeds of flow hashes.
    pub seeds: Seeds,
    /// With whom routing daemons have sessions.
    pub routing_peers: RoutingPeers,
}

/// Readers of the tables of a forwarder.
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

impl Shared {
    /// State without interfaces and addresses.
    pub fn new(
        readers: Readers,
        kernel: Kernel,
        policers: Policers,
        parts: Vec<Arc<dyn Part>>,
        flows: Flows,
        quiescence: &Arc<Quiescence>,
    ) -> Result<Self, OutOfMemory> {
        let Readers { ip4, ip6, next_hops, adjacencies } = readers;
        let lookup = kernel.lookup();
        let vrfs = VrfTables {
            ip4: Ip4LpmTables::new(lookup, [Some((DEFAULT_VRF, ip4.clone()))]),
            ip6: Ip6LpmTables::new(lookup, [Some((DEFAULT_VRF, ip6.clone()))]),
        };
        Ok(Self {
            interfaces: zeroed(INTERFACES)?,
            attributes: Attributes::new()?,
            vlans: Published::new(VlanTables::default(), quiescence),
            addresses: Published::new(Addresses::default(), quiescence),
            virtual_macs: Published::new(VirtualMacs::default(), quiescence),
            tunnels: Published::new(Tunnels::default(), quiescence),
            ipsec: Ipsec::new(quiescence)?,
            bfd: Published::new(Peers::default(), quiescence),
            subscriptions: Published::new(Subscriptions::default(), quiescence),
            ip4,
            ip6,
            vrfs: Published::new(vrfs, quiescence),
            policies: Published::new(Policies::default(), quiescence),
            acls: Published::new(AccessLists::default(), quiescence),
            hits: HitTable::new(quiescence.workers(), COUNTED)?,
            acl_log: Reports::new(log::RING),
            nat: Published::new(Arc::default(), quiescence),
            nat64: Published::new(Nat64::default(), quiescence),
            nptv6: Published::new(Nptv6::default(), quiescence),
            siit: Published::new(Siit::default(), quiescence),
            logins: Published::new(Logins::default(), quiescence),
            login_traffic: LoginTraffic::new(quiescence.workers())?,
            login_shares: Shares::new()?,
            remote_peers: Published::new(RemotePeers::default(), quiescence),
            pcp: Published::new(PcpInterfaces::default(), quiescence),
            flows: Arc::new(flows),
            next_hops,
            adjacencies,
            arcs: Arcs::new()?,
            identifications: Identifications::default(),
            reassembly: Limits::default(),
            waiting_fragments: Waiting::default(),
            kernel,
            policers,
            known_neighbors: KnownNeighbors::default(),
            parts,
            seeds: Seeds::default(),
            routing_peers: RoutingPeers::default(),
        })
    }

    /// The IPv4 routes of a VRF ([`Attributes::vrf`]); `None` when it was deleted.
    #[inline(always)]
    pub fn ip4_table<'a>(&'a self, vrf: u32, reader: &'a Reader) -> Option<&'a Ip4LpmReader> {
        if vrf == DEFAULT_VRF {
            return Some(&self.ip4);
        }
        self.vrfs.read(reader).ip4.get(vrf)
    }

    /// The IPv6 routes of a VRF ([`Attributes::vrf`]); `None` when it was deleted.
    #[inline(always)]
    pub fn ip6_table<'a>(&'a self, vrf: u32, reader: &'a Reader) -> Option<&'a Ip6LpmReader> {
        if vrf == DEFAULT_VRF {
            return Some(&self.ip6);
        }
        self.vrfs.read(reader).ip6.get(vrf)
    }

    /// Whether packets to an address in a VRF are delivered locally.
    #[inline]
    pub fn is_local4(&self, (vrf, reader): (u32, &Reader), address: Ipv4Addr) -> bool {
        self.is_local(self.ip4_table(vrf, reader).map_or(0, |table| table.lookup(address.into())))
    }

    /// The same for IPv6.
    #[inline]
    pub fn is_local6(&self, (vrf, reader): (u32, &Reader), address: Ipv6Addr) -> bool {
        self.is_local(self.ip6_table(vrf, reader).map_or(0, |table| table.lookup(address.into())))
    }

    fn is_local(&self, value: u32) -> bool {
        matches!(self.next_hops.resolve(value, 0), Resolved::Special { code, .. }
            if SpecialNextHop::of(code) == SpecialNextHop::Local)
    }

    /// Sets what workers know about an interface, but for its features; only the control thread
    /// calls this.
    pub fn set_interface(&self, index: u32, mac: &[u8; 6], flags: u32, modes: u32, vrf: u32) {
        self.interface(index).set(mac, flags);
        self.attributes.set(index, mac, flags | modes << REVERSE_PATH, vrf);
    }

    /// Withdraws what workers know about an interface that was removed, but for its VRF and its features;
    /// only the control thread calls this.
    pub fn clear_interface(&self, index: u32) {
        self.interface(index).set(&[0; 6], 0);
        self.attributes.clear(index);
    }

    /// Gives the feature with this node its argument at an interface; 0 switches it off there. Only the
    /// control thread calls this.
    pub fn set_feature(&self, index: u32, node: &str, argument: u32) {
        self.arcs.set(&self.attributes, index, node, argument);
    }

    /// The part of a plugin that has this type.
    pub fn part<T: Part>(&self) -> Option<Arc<T>> {
        let mut parts = self.parts.iter().cloned();
        parts.find_map(|part| (part as Arc<dyn Any + Send + Sync>).downcast().ok())
    }

    /// The state of an interface.
    #[inline(always)]
    pub fn interface(&self, index: u32) -> &InterfaceLine {
        &self.interfaces[index as usize % INTERFACES]
    }
}
