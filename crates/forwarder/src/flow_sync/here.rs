//! Flows of a partner with keys of this router: of NAT64, with the stand-in that the host has here.

use stoa_tables::flow_table::{FlowKey, FormerFlow};

use super::apply::Configured;
use crate::flow::adoption::LeftOut;
use crate::flow::flows::{Flows, Now};
use crate::nat64::hosts::{Answer, FIRST};
use crate::nat64::keys::{Crossing, is_crossed, is_of_both_families};

/// A flow that a partner has sent.
pub(super) struct Here {
    /// With keys of this router. A host that has no stand-in yet has the first one there is.
    pub(super) flow: FormerFlow,
    /// The key that packets of the host have, and what is behind it, until that has a stand-in here.
    unknown: Option<(FlowKey, Crossing)>,
    /// The stand-in of its host, if that is one of NAT64 and has one.
    stand_in: Option<u32>,
}

/// Gives a flow, whose packets to or from an IPv6 host have this key, a stand-in in place of that.
fn set(flow: &mut FormerFlow, key: FlowKey) {
    if flow.key.is_ip6() {
        flow.key = key;
    } else {
        flow.reply_key = Some(key);
    }
}

impl Here {
    /// Of a flow as the partner has sent it, in the numbers of this process.
    ///
    /// # Errors
    /// This router does not translate packets between its host and its server.
    pub(super) fn of(of: &Configured<'_>, sent: &FormerFlow, now: Now) -> Result<Self, LeftOut> {
        let mut flow = *sent;
        if !is_of_both_families(sent) {
            // Who sends a stand-in names a host that is known to one router only.
            let own = Self { flow, unknown: None, stand_in: None };
            return (!is_crossed(sent)).then_some(own).ok_or(LeftOut::Translation);
        }
        let key = sent.reply_key.filter(FlowKey::is_ip6).unwrap_or(sent.key);
        let crossing = of.nat64.crossing(&key, of.is_own).ok_or(LeftOut::Translation)?;
        let stand_in = of.flows.nat64_hosts().find(crossing.host, now.tick);
        set(&mut flow, crossing.key(key, stand_in.unwrap_or(FIRST)));
        Ok(Self { flow, unknown: stand_in.is_none().then_some((key, crossing)), stand_in })
    }

    /// Whether its keys may be those of a flow that is here.
    pub(super) fn may_be_known(&self) -> bool {
        self.unknown.is_none()
    }

    /// Gives its host a stand-in, if that has none; whether there is room.
    pub(super) fn take_stand_in(&mut self, sent: &FormerFlow, flows: &Flows, now: Now) -> bool {
        let Some((key, crossing)) = self.unknown else { return true };
        let longest = flows.profiles().longest();
        let Ok(it) = flows.nat64_hosts().standby(crossing.host, now.tick, longest) else {
            return false;
        };
        let keys = FormerFlow { key: sent.key, reply_key: sent.reply_key, ..self.flow };
        (self.flow, self.unknown, self.stand_in) = (keys, None, Some(it));
        set(&mut self.flow, crossing.key(key, it));
        true
    }

    /// The flow is here, and may live as long as an answered one: so must its host. One whose flow has found no room
    /// keeps its place for minutes only.
    pub(super) fn note_answer(&self, flows: &Flows, now: Now) {
        if let Some(it) = self.stand_in {
            flows.nat64_hosts().receiver(it, now.tick, Answer::of(self.flow.key.protocol()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use stoa_engine::quiescence::Quiescence;
    use stoa_tables::flow_hash::Flow;
    use stoa_tables::flow_table::Past;
    use stoa_tables::lpm::Kernel;
    use stoa_wire::protocol;
    use stoa_wire::siit::Prefix;

    use super::*;
    use crate::flow::flows::Sizes;

    const NETWORK: u128 = 0x2001_0db8_0001 << 80;
    const SERVER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);

    /// What the partner has sent of a host, to a server.
    fn sent(host: u128) -> FormerFlow {
        let prefix = Prefix::new("2001:db8:64::".parse().unwrap(), 96).unwrap();
        let (source_port, destination_port, protocol) = (5000, 80, protocol::TCP);
        let destination = prefix.embed(SERVER).to_bits();
        let there = Flow { source: host, destination, source_port, destination_port, protocol };
        let (source, destination) = (SERVER.to_bits(), 0xc000_0201);
        let back = Flow { source, destination, source_port: 80, destination_port: 7000, protocol };
        FormerFlow {
            key: FlowKey::ip6(there, 0),
            reply_key: Some(FlowKey::ip4(back, 0)),
            class: 0,
            flags: 0,
            owner: 0,
            zone_pair: 0,
            tcp: [0; _],
            past: Past::default(),
            spare: [0; 2],
        }
    }

    #[test]
    fn a_host_whose_flow_has_found_no_room_has_its_place_for_minutes() {
        let sizes = Sizes { ip4: 8, ip6: 8, translated: 8, mappings: 8 };
        let flows = Flows::new(sizes, Kernel::Bits, 1, &Quiescence::new(1)).unwrap();
        let hosts = flows.nat64_hosts();
        let at = |tick| Now { tick, ms: 0 };
        for (host, has_flow) in [(1, true), (2, false)] {
            let flow = sent(NETWORK + host);
            let crossing = Crossing { host: (NETWORK + host, 0), server: SERVER.to_bits() };
            let unknown = Some((flow.key, crossing));
            let mut here = Here { flow, unknown, stand_in: None };
            assert!(!here.may_be_known());
            assert!(here.take_stand_in(&flow, &flows, at(9)) && here.may_be_known());
            assert_eq!(here.flow.reply_key, flow.reply_key);
            assert!(!here.flow.key.is_ip6() && is_crossed(&here.flow));
            if has_flow {
                here.note_answer(&flows, at(9));
            }
        }
        // Others of their network need places by the time at which a host without answers has lost its own.
        let longest = flows.profiles().longest();
        let later = 9 + longest.unanswered + 100;
        assert!(later < longest.answered);
        for host in 100..80_000 {
            let _ = hosts.stand_in((NETWORK + host, 0), later, || longest);
        }
        let is_there = |host| hosts.known((NETWORK + host, 0)).is_some();
        assert_eq!([1, 2].map(is_there), [true, false]);
    }
}
