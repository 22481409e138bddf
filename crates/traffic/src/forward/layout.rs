//! The layout of ports, sub-interfaces, VRFs and next hops, without any state of the forwarder.
//!
//! Half of the ports receive and half send. The interfaces of a side are numbered through: first
//! the first sub-interface of each port, then the second of each, and so on. Numbers modulo the
//! number of VRFs give the VRF, so that ports and VRFs have equal shares.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{Ip, Workload};

/// The VLAN of all frames with `--vlan`.
pub(super) const VLAN: u16 = 100;
/// Tag protocols: IEEE 802.1Q and 802.1ad.
const TPIDS: [u16; 2] = [0x8100, 0x88a8];
/// Bits of a side's IPv4 addresses: 198.18.0.0/16 or 198.19.0.0/16.
const SIDE_BITS: u32 = 16;
/// The most interfaces of a side: each needs at least four IPv4 addresses.
pub(super) const SIDE_MAX: usize = 1 << (SIDE_BITS - 2);

/// A side of the router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// Ports that receive.
    In,
    /// Ports that send.
    Out,
}

/// How packets are tagged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tagging {
    Untagged,
    Single,
    Double,
}

/// Ports, sub-interfaces, VRFs and next hops of a workload.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    /// Ports of a side.
    pub(super) ports: usize,
    /// Interfaces of a port that carry packets: its sub-interfaces, or 1.
    pub(super) each: usize,
    /// VRFs other than the default one; 0: packets are routed in the default VRF.
    pub(super) vrfs: usize,
    /// Next hops of each VRF.
    pub(super) next_hops: usize,
    tagging: Tagging,
    first_vlan: u16,
}

impl Layout {
    pub(super) fn new(workload: &Workload) -> Self {
        let (ports, vrfs) = (usize::from(workload.ports), usize::from(workload.vrfs));
        // VRFs need interfaces: a VLAN each.
        let vlans = if workload.vlans == 0 { workload.vrfs.into() } else { workload.vlans };
        let (tagging, each, first_vlan) = match vlans {
            0 if workload.is_tagged => (Tagging::Single, 1, VLAN),
            0 => (Tagging::Untagged, 1, 1),
            vlans if workload.is_qinq => (Tagging::Double, vlans as usize, 1),
            vlans => (Tagging::Single, vlans as usize, 1),
        };
        // At least one for each sending port.
        let least = ports.div_ceil(vrfs.max(1));
        let next_hops = (workload.next_hops as usize).max(least);
        Self { ports, each, vrfs, next_hops, tagging, first_vlan }
    }

    /// The same with another number of sub-interfaces.
    pub(super) fn with_each(&self, each: usize) -> Self {
        Self { each, ..self.clone() }
    }

    /// Interfaces of a side that carry packets.
    pub(super) fn interfaces(&self) -> usize {
        self.ports * self.each
    }

    /// Routing tables.
    pub(super) fn tables(&self) -> usize {
        self.vrfs.max(1)
    }

    /// Name of a VRF; the default one has none.
    pub(super) fn vrf_name(&self, table: usize) -> String {
        if self.vrfs == 0 { String::new() } else { format!("vrf{}", table + 1) }
    }

    /// The table of an interface.
    pub(super) fn table_of(&self, at: usize) -> usize {
        at % self.tables()
    }

    /// Interfaces of a side in a table.
    pub(super) fn interfaces_of(&self, table: usize) -> usize {
        (self.interfaces() - table).div_ceil(self.tables())
    }

    /// The interface with this number among those of a table.
    pub(super) fn interface_of(&self, table: usize, at: usize) -> usize {
        table + self.tables() * (at % self.interfaces_of(table))
    }

    /// The interface of a next hop, and its number among the neighbours there.
    pub(super) fn next_hop(&self, table: usize, hop: usize) -> (usize, usize) {
        (self.interface_of(table, hop), hop / self.interfaces_of(table))
    }

    /// The sending interfaces that next hops use.
    pub(super) fn sending(&self) -> BTreeSet<usize> {
        let of = |table| (0..self.next_hops).map(move |hop| self.next_hop(table, hop).0);
        (0..self.tables()).flat_map(of).collect()
    }

    /// All interfaces, those of ports included.
    pub(super) fn total(&self) -> usize {
        let used = |table| self.next_hops.min(self.interfaces_of(table));
        let subs = self.interfaces() + (0..self.tables()).map(used).sum::<usize>();
        2 * self.ports + if self.is_tagged() { subs } else { 0 }
    }

    /// Whether frames have tags.
    pub(super) fn is_tagged(&self) -> bool {
        self.tagging != Tagging::Untagged
    }

    /// Tags of a frame.
    pub(super) fn depth(&self) -> u8 {
        self.tagging as u8
    }

    /// The port of an interface.
    pub(super) fn port_of(&self, at: usize) -> usize {
        at % self.ports
    }

    /// The interfaces of a port.
    pub(super) fn of_port(&self, port: usize) -> impl Iterator<Item = usize> {
        (port..self.interfaces()).step_by(self.ports)
    }

    /// The VLAN IDs of an interface, the outer first; the second is 0 without an inner tag.
    pub(super) fn vlans(&self, at: usize) -> [u16; 2] {
        let sub = at / self.ports;
        match self.tagging {
            Tagging::Untagged => [0, 0],
            Tagging::Single => [self.first_vlan + sub as u16, 0],
            Tagging::Double => {
                // As many outer as inner tags, or nearly.
                let inners = self.each.isqrt().max(1);
                [1 + (sub / inners) as u16, 1 + (sub % inners) as u16]
            }
        }
    }

    /// The tags of an interface: protocol and VLAN ID.
    pub(super) fn tags(&self, at: usize) -> Vec<(u16, u16)> {
        let [outer, inner] = self.vlans(at);
        match self.tagging {
            Tagging::Untagged => Vec::new(),
            Tagging::Single => vec![(TPIDS[0], outer)],
            Tagging::Double => vec![(TPIDS[1], outer), (TPIDS[0], inner)],
        }
    }

    /// Name of a port.
    pub(super) fn port_name(&self, side: Side, port: usize) -> String {
        let name = if side == Side::In { "in" } else { "out" };
        if self.ports == 1 { name.to_owned() } else { format!("{name}{}", port + 1) }
    }

    /// Name of an interface.
    pub(super) fn name(&self, side: Side, at: usize) -> String {
        let mut name = self.port_name(side, self.port_of(at));
        for (_, vlan) in self.tags(at) {
            name += &format!(".{vlan}");
        }
        name
    }

    /// Address bits of an interface: all have equal shares of their side's IPv4 addresses.
    fn bits(&self) -> u32 {
        SIDE_BITS - self.interfaces().next_power_of_two().ilog2()
    }

    /// An address on an interface: 1 is the router's, the next are those of its neighbours.
    fn host(&self, ip: Ip, (side, at): (Side, usize), host: usize) -> IpAddr {
        match ip {
            // RFC 2544 C.2.2.
            Ip::V4 => {
                let first = 0xc612_0000 + ((side as u32) << SIDE_BITS);
                IpAddr::V4(Ipv4Addr::from(first + ((at as u32) << self.bits()) + host as u32))
            }
            // RFC 5180 8.
            Ip::V6 => {
                let network = side as u16 + 2 * at as u16;
                let first = u128::from(Ipv6Addr::new(0x2001, 2, 0, network, 0, 0, 0, 0));
                IpAddr::V6(Ipv6Addr::from(first + host as u128))
            }
        }
    }

    /// The router's address on an interface.
    pub(super) fn ours(&self, ip: Ip, on: (Side, usize)) -> (IpAddr, u8) {
        let length = if ip == Ip::V4 { 32 - self.bits() as u8 } else { 64 };
        (self.host(ip, on, 1), length)
    }

    /// The neighbour with this number on an interface.
    pub(super) fn neighbor(&self, ip: Ip, on: (Side, usize), number: usize) -> IpAddr {
        self.host(ip, on, 2 + number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forward::workload::tests::workload;

    fn layout(change: impl FnOnce(&mut Workload)) -> Layout {
        let mut workload = workload();
        change(&mut workload);
        Layout::new(&workload)
    }

    #[test]
    fn one_port_is_as_it_always_was() {
        let plain = layout(|_| {});
        assert_eq!(
            (plain.name(Side::In, 0), plain.name(Side::Out, 0)),
            ("in".into(), "out".into())
        );
        assert_eq!((plain.total(), plain.depth(), plain.next_hops), (2, 0, 1));
        let ours = |ip, side| plain.ours(ip, (side, 0));
        assert_eq!(ours(Ip::V4, Side::In), ("198.18.0.1".parse().unwrap(), 16));
        assert_eq!(ours(Ip::V4, Side::Out), ("198.19.0.1".parse().unwrap(), 16));
        assert_eq!(ours(Ip::V6, Side::Out), ("2001:2:0:1::1".parse().unwrap(), 64));
        let neighbor = plain.neighbor(Ip::V4, (Side::Out, 0), 256);
        assert_eq!(neighbor, "198.19.1.2".parse::<IpAddr>().unwrap());
        let tagged = layout(|it| it.is_tagged = true);
        assert_eq!((tagged.name(Side::Out, 0), tagged.total()), ("out.100".into(), 4));
        assert_eq!(tagged.tags(0), [(0x8100, 100)]);
    }

    #[test]
    fn next_hops_are_spread_over_ports_and_vlans() {
        let many = layout(|it| (it.ports, it.vlans, it.next_hops) = (4, 64, 512));
        assert_eq!((many.interfaces(), many.each, many.tables()), (256, 64, 1));
        assert_eq!(many.sending().len(), 256);
        assert_eq!(many.total(), 8 + 512);
        assert_eq!(many.next_hop(0, 257), (1, 1));
        assert_eq!((many.name(Side::Out, 5), many.port_of(5)), ("out2.2".into(), 1));
        assert_eq!(many.of_port(3).collect::<Vec<_>>()[..2], [3, 7]);
        let few = layout(|it| it.ports = 8);
        assert_eq!((few.next_hops, few.sending().len(), few.total()), (8, 8, 16));
        let all: BTreeSet<IpAddr> =
            (0..256).map(|at| many.neighbor(Ip::V4, (Side::Out, at), 1)).collect();
        assert_eq!(all.len(), 256);
        assert_eq!(many.ours(Ip::V4, (Side::Out, 255)), ("198.19.255.1".parse().unwrap(), 24));
    }

    #[test]
    fn vrfs_have_their_own_interfaces_and_next_hops() {
        let vrfs = layout(|it| (it.vrfs, it.next_hops) = (16, 3));
        assert_eq!((vrfs.each, vrfs.tables(), vrfs.total()), (16, 16, 2 + 32));
        let more = layout(|it| (it.vrfs, it.vlans, it.ports, it.next_hops) = (3, 5, 2, 8));
        for table in 0..3 {
            assert_eq!(more.interfaces_of(table), if table == 0 { 4 } else { 3 });
            for hop in 0..8 {
                let (at, _) = more.next_hop(table, hop);
                assert!(at < 10 && more.table_of(at) == table);
            }
        }
        assert_eq!((more.vrf_name(0), vrfs.vrf_name(15)), ("vrf1".into(), "vrf16".into()));
    }

    #[test]
    fn double_tags_are_unique() {
        let double = layout(|it| (it.vlans, it.is_qinq) = (4090, true));
        let all: BTreeSet<[u16; 2]> = (0..4090).map(|at| double.vlans(at)).collect();
        assert_eq!((all.len(), double.depth()), (4090, 2));
        assert!(all.iter().flatten().all(|vlan| (1..=65).contains(vlan)));
        assert_eq!(double.tags(63), [(0x88a8, 2), (0x8100, 1)]);
        assert_eq!(double.name(Side::In, 63), "in.2.1");
        assert_eq!(double.total(), 2 + 4090 + 1);
    }
}
