//! Receives advertisements of other routers (RFC 9568 section 7.1).

use std::net::IpAddr;

use stoa_engine::Packet;
use stoa_wire::checksum::Pseudo;
use stoa_wire::vrrp::{self, RESIGNS, VrrpError};
use stoa_wire::{ipv4, ipv6, protocol};

use super::state_machine::{Received, State, VrrpAction};
use super::{Event, Key};
use crate::control::forwarder_state::ForwarderState;
use crate::drops::Drop;
use crate::neighbor::entry::Millis;

/// Source, pseudo header, hop limit and message of a VRRP packet.
fn open(bytes: &[u8]) -> Option<(IpAddr, Pseudo, u8, &[u8])> {
    if bytes.first()? >> 4 == 4 {
        let view = ipv4::check(bytes).ok()?;
        let is_it = view.header().protocol == protocol::VRRP && !view.header().is_fragment();
        let source = IpAddr::V4(view.source());
        return is_it.then(|| (source, view.pseudo(), view.header().time_to_live, view.payload()));
    }
    let view = ipv6::check(bytes).ok()?;
    let upper = view.upper().ok().filter(|upper| upper.protocol == protocol::VRRP)?;
    Some((IpAddr::V6(view.source()), view.pseudo(), view.header().hop_limit, upper.payload))
}

impl ForwarderState {
    /// Handles an advertisement.
    pub(super) fn receive_vrrp(&mut self, packet: &Packet) {
        let interface = packet.rx_if;
        let Some((source, pseudo, hop_limit, message)) = open(packet.bytes()) else {
            return self.count_drop(Drop::VrrpMalformed);
        };
        let view = match vrrp::check(&pseudo, hop_limit, message) {
            Ok(view) => view,
            Err(error) => return self.count_drop(drop_reason(error)),
        };
        let key: Key = (interface, source.is_ipv6(), view.fields.vrid);
        let own = self.vrrp_source(key);
        if own == Some(source) {
            return self.count_drop(Drop::LoopedBack);
        }
        let now = self.now();
        let (Some(router), Some(own)) = (self.capabilities.vrrp.routers.get_mut(&key), own) else {
            return self.count_drop(Drop::VrrpUnknown);
        };
        if view.fields.version != router.desired.version {
            return self.count_drop(Drop::VrrpVersion);
        }
        router.counts.received += 1;
        if router.desired.is_owner() {
            // The addresses are the interface's own.
            return self.count_drop(Drop::VrrpIgnored);
        }
        let priority = view.fields.priority;
        router.counts.priority_zero_received += u64::from(priority == RESIGNS);
        let is_other = view.fields.interval_cs != router.desired.interval_cs;
        router.counts.interval_errors += u64::from(is_other);
        // RFC 3768 7.1: with version 2 all routers have one interval. An interval of 0 would make us take
        // over at once.
        if view.fields.interval_cs == 0 || is_other && view.fields.version == vrrp::Version::Two {
            return self.count_drop(Drop::VrrpIgnored);
        }
        let mut theirs: Vec<IpAddr> = view.addresses().collect();
        let mut ours = router.desired.addresses.clone();
        theirs.sort();
        ours.sort();
        router.counts.address_errors += u64::from(theirs != ours);
        router.last_advertisement_source = Some(source);
        let interval_ms = Millis::from(view.fields.interval_cs) * 10;
        let received = Received { source, priority, interval_ms };
        let was_active = router.machine.state() == State::Active;
        let actions = router.machine.receive(now, &received, own);
        if actions.contains(&VrrpAction::GiveUp) {
            router.event = Event::HigherPriority;
        } else if was_active && !actions.is_empty() {
            router.event = Event::LowerPriority;
        }
        self.run_actions(key, &actions);
        if actions.contains(&VrrpAction::GiveUp) {
            self.publish_virtual_routers();
        }
    }
}

/// The drop reason of an invalid advertisement.
fn drop_reason(error: VrrpError) -> Drop {
    match error {
        VrrpError::BadHopLimit => Drop::VrrpHopLimit,
        VrrpError::BadVersion => Drop::VrrpVersion,
        VrrpError::BadChecksum => Drop::VrrpChecksum,
        VrrpError::Truncated
        | VrrpError::BadType
        | VrrpError::NoAddress
        | VrrpError::BadAuthentication => Drop::VrrpMalformed,
    }
}
