//! Operational state of virtual routers, as in ietf-vrrp (RFC 8347).

use stoa_api::audit::{self, Tally};
use stoa_api::v1;

use super::state_machine::{MasterReason, State};
use super::{Event, Router};
use crate::control::desired::message;
use crate::control::forwarder_state::ForwarderState;
use crate::control::listing::octets;

impl ForwarderState {
    /// The virtual routers of an interface.
    pub(in crate::control) fn virtual_router_states(
        &self,
        interface: u32,
    ) -> Vec<v1::VirtualRouterState> {
        let of = |is_ip6: bool| {
            self.virtual_routers_of(interface, is_ip6)
                .map(move |(vrid, router)| state(vrid, is_ip6, router))
        };
        of(false).chain(of(true)).collect()
    }

    /// Forgets the virtual routers of a family, as a fault would: for tests of the audit.
    #[cfg(test)]
    pub(in crate::control) fn lose_virtual_router(&mut self, is_ip6: bool) {
        self.capabilities.vrrp.routers.retain(|key, _| key.1 != is_ip6);
    }

    /// Adds the virtual routers of an interface to an audit.
    pub(super) fn add_virtual_router_entries(&self, index: u32, tally: &mut Tally) {
        let Some(interface) = self.interface(index) else { return };
        for is_ip6 in [false, true] {
            for (_, router) in self.virtual_routers_of(index, is_ip6) {
                let router = message::virtual_router(&router.desired);
                audit::virtual_router(tally, &interface.name, !is_ip6, router);
            }
        }
    }
}

fn state(vrid: u8, is_ip6: bool, router: &Router) -> v1::VirtualRouterState {
    let (machine, counts) = (&router.machine, &router.counts);
    let state = match machine.state() {
        State::Initialize => "initialize",
        State::Backup => "backup",
        State::Active => "master",
    };
    let reason = match machine.reason() {
        MasterReason::NotYet => "not-master",
        MasterReason::Priority => "priority",
        MasterReason::Preempted => "preempted",
        MasterReason::NoResponse => "no-response",
    };
    let event = match router.event {
        Event::None => "vrrp-event-none",
        Event::Startup => "vrrp-event-startup",
        Event::InterfaceUp => "vrrp-event-interface-up",
        Event::InterfaceDown => "vrrp-event-interface-down",
        Event::NoPrimaryAddress => "vrrp-event-no-primary-ip-address",
        Event::HigherPriority => "vrrp-event-higher-priority-backup",
        Event::LowerPriority => "vrrp-event-lower-priority-master",
        Event::ActiveTimeout => "vrrp-event-master-timeout",
    };
    v1::VirtualRouterState {
        vrid: vrid.into(),
        ip6: is_ip6,
        state: state.to_owned(),
        owner: router.desired.is_owner(),
        priority: machine.priority().into(),
        last_advertisement_source: router.last_advertisement_source.map(octets).unwrap_or_default(),
        up_unix_s: if machine.state() == State::Initialize { 0 } else { router.up_unix_s },
        created_unix_s: router.created_unix_s,
        down_cs: (machine.down_ms() / 10) as u32,
        skew_us: (machine.skew_ms() * 1000) as u32,
        event: event.to_owned(),
        reason: reason.to_owned(),
        transitions: counts.transitions,
        received: counts.received,
        sent: counts.sent,
        interval_errors: counts.interval_errors,
        priority_zero_received: counts.priority_zero_received,
        priority_zero_sent: counts.priority_zero_sent,
        address_errors: counts.address_errors,
        changed_unix_s: router.changed_unix_s,
        configured_priority: router.desired.priority.into(),
        addresses: router.desired.addresses.iter().map(|address| octets(*address)).collect(),
    }
}
