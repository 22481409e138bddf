//! Multicast listener reports: snooping switches need them to forward neighbour solicitations to us (RFC
//! 3810, RFC 4541 3). All-nodes is never reported (RFC 3810 6), and neither are IPv4's link-local groups,
//! which switches always forward (RFC 4541 2.1.2).

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use stoa_wire::ethernet::{Mac, ethertype};
use stoa_wire::ipv6;
use stoa_wire::mld::{self, Record};
use stoa_wire::vrrp;

use super::capability::{Capability, Punted, Start, Verbs};
use super::forwarder_state::ForwarderState;
use crate::neighbor::entry::Millis;
use crate::punt::Class;

/// How often a change is reported (RFC 3810 9.1: the robustness variable).
const ROBUSTNESS: u32 = 2;
/// Interval between reports of one change (RFC 3810 9.11: the unsolicited report interval).
const REPORT_INTERVAL_MS: Millis = 1000;
/// Groups per report: its packet stays below 1,280 bytes.
const MAX_GROUPS: usize = 60;

/// Reports to send, by interface: time, and how many are left.
type Pending = BTreeMap<u32, (Millis, u32)>;

/// The reports.
#[derive(Default)]
pub(super) struct Reports {
    pending: Pending,
}

impl Capability for Reports {
    const VERBS: Verbs = Verbs {
        publish: |state, published| {
            published.regrouped.iter().for_each(|index| state.report_groups(*index));
        },
        punts: &[Punted {
            class: Class::Listener,
            takes: |_| true,
            receive: |state, _, packet| state.answer_query(packet.rx_if),
        }],
        link_up: ForwarderState::report_groups,
        tick: ForwarderState::tick_reports,
        ..Verbs::NONE
    };

    fn start(_: &Start<'_>) -> Self {
        Self::default()
    }
}

impl ForwarderState {
    /// Reports the groups of an interface now and once more, after they changed or the interface came up.
    fn report_groups(&mut self, interface: u32) {
        self.capabilities.listener_reports.pending.remove(&interface);
        if !self.interface(interface).is_some_and(|state| state.is_up) {
            // Reported when it comes up.
            return;
        }
        self.send_report(interface, Record::ToExclude);
        self.capabilities
            .listener_reports
            .pending
            .insert(interface, (self.now() + REPORT_INTERVAL_MS, ROBUSTNESS - 1));
    }

    /// Sends the reports that are due.
    fn tick_reports(&mut self) {
        let now = self.now();
        let due = self
            .capabilities
            .listener_reports
            .pending
            .extract_if(.., |_, (at, _)| *at <= now)
            .collect::<Pending>();
        for (interface, (_, left)) in due {
            self.send_report(interface, Record::ToExclude);
            if left > 1 {
                self.capabilities
                    .listener_reports
                    .pending
                    .insert(interface, (now + REPORT_INTERVAL_MS, left - 1));
            }
        }
    }

    /// Answers a query with all our groups, at once and in one packet. RFC 3810 5.1.3 allows any delay up to
    /// that of the query.
    fn answer_query(&mut self, interface: u32) {
        self.send_report(interface, Record::IsExclude);
    }

    fn send_report(&mut self, interface: u32, record: Record) {
        let Some(state) = self.interface(interface).filter(|state| state.is_up) else { return };
        let Some(own) = self.addresses.of(interface) else { return };
        let Some(local) = own.link_local else { return };
        // While the address is tentative, reports have an unspecified source (RFC 3590 section 4), which
        // snooping switches accept.
        let source = self.confirmed_link_local(interface).unwrap_or(Ipv6Addr::UNSPECIFIED);
        let addresses = own.ip6.iter().map(|(address, _)| *address).chain([local]);
        let addresses = addresses.chain(own.virtual6.iter().copied());
        let addresses = addresses.chain(own.anycast6.iter().copied());
        let mut groups: Vec<Ipv6Addr> = addresses.map(ipv6::solicited_node).collect();
        if state.desired.ip6.forwarding {
            groups.push(ipv6::ALL_ROUTERS);
        }
        if self.has_virtual_routers(interface, true) {
            groups.push(vrrp::GROUP6);
        }
        groups.sort();
        groups.dedup();
        let header = state.link.header(Mac::of_ip6_group(mld::REPORTS).0, ethertype::IP6);
        for groups in groups.chunks(MAX_GROUPS) {
            let mut packet = [0; ipv6::LEAST_MTU];
            let Ok(length) = mld::build_report(&mut packet, source, record, groups) else { return };
            self.send_frame(interface, &[&header, &packet[..length]].concat());
        }
    }
}
