//! Keys of flows with the stand-in of a host, and the same keys as packets of the host are: with its IPv6 address and
//! that of the server in the prefix. Another router ([`crate::flow_sync`]) knows the latter only.

use std::net::Ipv6Addr;

use stoa_tables::flow_hash::Flow;
use stoa_tables::flow_table::{FlowKey, FormerFlow, Tuple};
use stoa_wire::siit::Prefix;

use super::hosts::{Hosts, is_stand_in};
use super::input6::is_host;
use super::{Nat64, is_host4};
use crate::acl::flow_vrf;

/// Whether an end of a key is a stand-in.
pub fn has_stand_in(key: &FlowKey) -> bool {
    match key.tuple {
        Tuple::Ip4(it) => is_stand_in(it.source) || is_stand_in(it.destination),
        Tuple::Ip6(_) => false,
    }
}

/// Whether a flow has one in any of its keys.
pub fn is_crossed(flow: &FormerFlow) -> bool {
    has_stand_in(&flow.key) || flow.reply_key.as_ref().is_some_and(has_stand_in)
}

/// Whether a flow has keys of two families: it is one of NAT64, as [`Hosts::flow6`] returns it.
pub fn is_of_both_families(flow: &FormerFlow) -> bool {
    flow.reply_key.is_some_and(|reply| reply.is_ip6() != flow.key.is_ip6())
}

/// What is behind a key as packets of an IPv6 host are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crossing {
    /// The host, with its VRF.
    pub host: (u128, u16),
    /// The IPv4 address of the server.
    pub server: u32,
}

impl Crossing {
    /// The key of its packets behind `ip6-nat64-input`. `key`: as they are.
    pub fn key(&self, key: FlowKey, stand_in: u32) -> FlowKey {
        let Tuple::Ip6(it) = key.tuple else { return key };
        let Flow { source_port, destination_port, protocol, .. } = it;
        let (source, destination) = (stand_in, self.server);
        FlowKey::ip4(Flow { source, destination, source_port, destination_port, protocol }, key.vrf)
    }
}

impl Hosts {
    /// A key as packets of the host are, if its source is a stand-in; any other key as it is. `None`: the host has
    /// gone, or a host is the destination.
    pub fn key6(&self, key: &FlowKey) -> Option<FlowKey> {
        let Tuple::Ip4(it) = key.tuple else { return Some(*key) };
        if !has_stand_in(key) {
            return Some(*key);
        }
        if is_stand_in(it.destination) {
            return None;
        }
        let [source, destination] = self.ends(it.source, it.destination)?;
        let Flow { source_port, destination_port, protocol, .. } = it;
        let flow = Flow { source, destination, source_port, destination_port, protocol };
        Some(FlowKey::ip6(flow, key.vrf))
    }

    /// The key that [`Self::key6`] makes this one of, where its VRF has this prefix. `None`: the host has no stand-in,
    /// or the server is not in the prefix. It does not count as a packet.
    pub fn key4(&self, key: &FlowKey, prefix: Prefix) -> Option<FlowKey> {
        let Tuple::Ip6(it) = key.tuple else { return Some(*key) };
        let server = prefix.extract(Ipv6Addr::from_bits(it.destination))?.to_bits();
        let crossing = Crossing { host: (it.source, key.vrf), server };
        Some(crossing.key(*key, self.known(crossing.host)?))
    }

    /// A flow with the keys that [`Self::key6`] makes of its own. `None`: as there.
    pub fn flow6(&self, flow: &FormerFlow) -> Option<FormerFlow> {
        let key = self.key6(&flow.key)?;
        let reply_key = flow.reply_key.map(|it| self.key6(&it).ok_or(()));
        Some(FormerFlow { key, reply_key: reply_key.transpose().ok()?, ..*flow })
    }
}

impl Nat64 {
    /// The prefix of a VRF, as in keys of flows, with the id of that.
    fn prefix_of(&self, vrf: u16) -> Option<&(u32, Prefix)> {
        self.prefixes.iter().find(|(id, _)| flow_vrf(*id) == vrf)
    }

    /// The key of [`Hosts::key4`], by the prefixes of this table: for workers, which take no lock.
    pub fn key4(&self, hosts: &Hosts, key: &FlowKey) -> Option<FlowKey> {
        hosts.key4(key, self.prefix_of(key.vrf)?.1)
    }

    /// What is behind a key as packets of an IPv6 host are, if this router translates them. `is_own`: whether an
    /// address in a VRF, by its id, is one of the router.
    pub fn crossing(
        &self,
        key: &FlowKey,
        is_own: &dyn Fn(u32, Ipv6Addr) -> bool,
    ) -> Option<Crossing> {
        let Tuple::Ip6(it) = key.tuple else { return None };
        let (vrf, prefix) = self.prefix_of(key.vrf)?;
        let (host, server) = (Ipv6Addr::from_bits(it.source), Ipv6Addr::from_bits(it.destination));
        let server = prefix.extract(server)?;
        let is_translated = is_host4(server)
            && prefix.may_have(server)
            && is_host(*prefix, host)
            && !is_own(*vrf, host);
        let crossing = Crossing { host: (it.source, key.vrf), server: server.to_bits() };
        is_translated.then_some(crossing)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use stoa_tables::flow_table::Past;
    use stoa_wire::protocol;

    use super::*;
    use crate::flow::profiles::Longest;

    const HOST: &str = "2001:db8:1::7";
    const SERVER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);

    fn prefix() -> Prefix {
        Prefix::new("2001:db8:64::".parse().unwrap(), 96).unwrap()
    }

    fn six(host: &str, server: Ipv6Addr) -> FlowKey {
        let (source, destination) = (host.parse::<Ipv6Addr>().unwrap().to_bits(), server.to_bits());
        let (source_port, destination_port, protocol) = (5000, 53, protocol::UDP);
        FlowKey::ip6(Flow { source, destination, source_port, destination_port, protocol }, 0)
    }

    fn four(source: u32, destination: u32) -> FlowKey {
        let (source_port, destination_port, protocol) = (5000, 53, protocol::UDP);
        FlowKey::ip4(Flow { source, destination, source_port, destination_port, protocol }, 0)
    }

    #[test]
    fn a_key_is_the_same_behind_both_families() {
        let hosts = Hosts::new().unwrap();
        let there = six(HOST, prefix().embed(SERVER));
        hosts.set_prefixes([(0, prefix())].into_iter());
        assert_eq!(hosts.key4(&there, prefix()), None, "the host has no stand-in");
        let longest = || Longest::default();
        let host = HOST.parse::<Ipv6Addr>().unwrap().to_bits();
        let stand_in = hosts.stand_in((host, 0), 9, longest).unwrap();
        let here = four(stand_in, SERVER.to_bits());
        assert!(has_stand_in(&here));
        assert_eq!((hosts.key6(&here), hosts.key4(&there, prefix())), (Some(there), Some(here)));
        let other = Prefix::new("2001:db8:65::".parse().unwrap(), 96).unwrap();
        assert_eq!(hosts.key4(&there, other), None, "another prefix");
        // Workers have prefixes in a table.
        let [with, without] = [vec![(0, prefix())], vec![]].map(|prefixes| Nat64 { prefixes });
        assert_eq!((with.key4(&hosts, &there), without.key4(&hosts, &there)), (Some(here), None));
        // A host as destination is one of a hairpin; another stand-in has no host.
        assert_eq!(hosts.key6(&here.reversed()), None);
        assert_eq!(hosts.key6(&four(stand_in ^ 1, 9)), None);
        let plain = four(1, 2);
        assert_eq!((hosts.key6(&plain), hosts.key4(&plain, prefix())), (Some(plain), Some(plain)));
        // Of a flow, only one key has another family.
        let flow = FormerFlow {
            key: plain,
            reply_key: Some(here),
            class: 0,
            flags: 0,
            owner: 0,
            zone_pair: 0,
            tcp: [0; _],
            past: Past::default(),
            spare: [0; 2],
        };
        let crossed = hosts.flow6(&flow).unwrap();
        assert_eq!((crossed.key, crossed.reply_key), (plain, Some(there)));
        assert!(is_crossed(&flow) && !is_crossed(&crossed));
        assert!(is_of_both_families(&crossed) && !is_of_both_families(&flow));
    }

    #[test]
    fn a_crossing_is_one_that_this_router_makes() {
        let table = Nat64 { prefixes: vec![(0, prefix())] };
        let own = "2001:db8:1::1";
        let of = |host, server| {
            table.crossing(&six(host, server), &|vrf, it| (vrf, it) == (0, own.parse().unwrap()))
        };
        let there = prefix().embed(SERVER);
        let found = of(HOST, there).unwrap();
        assert_eq!(found.host, (HOST.parse::<Ipv6Addr>().unwrap().to_bits(), 0));
        assert_eq!(found.key(six(HOST, there), 0xf000_0001), four(0xf000_0001, SERVER.to_bits()));
        // The router itself, what is no host, a host in the prefix, and servers that nobody has.
        for host in [own, "::1", "ff02::1", "fe80::7", "::", "2001:db8:64::9"] {
            assert_eq!(of(host, there), None, "{host}");
        }
        for server in [Ipv4Addr::LOCALHOST, Ipv4Addr::BROADCAST, Ipv4Addr::UNSPECIFIED] {
            assert_eq!(of(HOST, prefix().embed(server)), None, "{server}");
        }
        let other = Prefix::new("2001:db8:65::".parse().unwrap(), 96).unwrap();
        assert_eq!(of(HOST, other.embed(SERVER)), None, "another prefix");
        let elsewhere = FlowKey { vrf: 3, ..six(HOST, there) };
        assert_eq!(table.crossing(&elsewhere, &|_, _| false), None, "a VRF without a prefix");
    }
}
