//! Announcements of a server that has lost its leases (RFC 6887 section 14.1, RFC 6886 section 3.2.1): clients need not
//! wait until half of their lifetime is over to ask again.

use std::net::Ipv4Addr;

use stoa_wire::checksum::Pseudo;
use stoa_wire::ethernet::{Mac, ethertype};
use stoa_wire::{ipv4, nat_pmp, pcp, protocol, udp};

use crate::control::forwarder_state::ForwarderState;
use crate::nat::Allocation;

/// All hosts of a link.
const ALL_HOSTS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);
/// How often a loss is announced.
const TIMES: u32 = 10;
/// The first interval; each is twice as long as the one before.
const FIRST_MS: u64 = 250;

/// When announcements are due.
#[derive(Debug, Default)]
pub(super) struct Announcements {
    left: u32,
    next_ms: u64,
    interval_ms: u64,
}

impl Announcements {
    /// Begins anew.
    pub(super) fn begin(&mut self, now: u64) {
        *self = Self { left: TIMES, next_ms: now, interval_ms: FIRST_MS };
    }

    /// None is due any more.
    pub(super) fn stop(&mut self) {
        self.left = 0;
    }

    /// Whether one is due now.
    fn is_due(&mut self, now: u64) -> bool {
        if self.left == 0 || now < self.next_ms {
            return false;
        }
        self.left -= 1;
        self.next_ms = now + self.interval_ms;
        self.interval_ms *= 2;
        true
    }
}

impl ForwarderState {
    /// Sends announcements that are due.
    pub(super) fn announce_pcp(&mut self) {
        let now = self.now();
        if !self.capabilities.nat.pcp.announcements.is_due(now) {
            return;
        }
        let epoch_s = self.pcp_epoch_s();
        let interfaces: Vec<u32> = self.capabilities.nat.pcp.interfaces.iter().copied().collect();
        for interface in interfaces {
            let mut message = [0; pcp::HEADER];
            if let Ok(length) = pcp::build_announcement(&mut message, epoch_s) {
                self.send_pcp_announcement(interface, &message[..length]);
            }
            if let Some(address) = self.announced_address(interface) {
                let mut message = [0; nat_pmp::LONGEST];
                let (done, answer) =
                    ((nat_pmp::ResultCode::Success, epoch_s), nat_pmp::Answer::Address(address));
                if let Ok(length) = nat_pmp::build_response(&mut message, 0, done, &answer) {
                    self.send_pcp_announcement(interface, &message[..length]);
                }
            }
            self.pause(1);
        }
    }

    /// The external address that all hosts of an interface share, if NAT-PMP has one to announce.
    fn announced_address(&self, interface: u32) -> Option<Ipv4Addr> {
        let name = &self.interface(interface)?.name;
        let serves = |control: &crate::control::desired::PortControl| {
            control.has_nat_pmp && control.interfaces.contains(name)
        };
        let mut policies = self.capabilities.nat.policies.iter();
        let policy = policies.find(|it| it.policy.port_control.as_ref().is_some_and(serves))?;
        match (policy.pools().as_slice(), &policy.allocation) {
            ([pool], Allocation::Ports) if pool.length == 32 => {
                Some(Ipv4Addr::from_bits(pool.network))
            }
            _ => None,
        }
    }

    fn send_pcp_announcement(&mut self, interface: u32, message: &[u8]) {
        let Some(frame) = self.pcp_announcement(interface, message) else { return };
        self.send_frame(interface, &frame);
    }

    fn pcp_announcement(&self, interface: u32, message: &[u8]) -> Option<Vec<u8>> {
        let link = &self.interface(interface)?.link;
        let (source, _) = *self.addresses.of(interface)?.ip4.first()?;
        let mut packet = vec![0; ipv4::LENGTH + udp::LENGTH + message.len()];
        let (head, body) = packet.split_at_mut(ipv4::LENGTH);
        let pseudo = Pseudo::Ip4 { source, destination: ALL_HOSTS };
        let length = udp::build(body, &pseudo, pcp::PORT, pcp::CLIENT_PORT, message).ok()?;
        let header = ipv4::Builder {
            time_to_live: 1,
            ..ipv4::Builder::new(source, ALL_HOSTS, protocol::UDP)
        };
        header.build(head, length).ok()?;
        let mac = Mac::of_ip4_group(ALL_HOSTS);
        Some([&link.header(mac.0, ethertype::IP4), &packet[..]].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_announced_ten_times_ever_less_often() {
        let mut all = Announcements::default();
        assert!(!all.is_due(0));
        all.begin(1_000);
        let sent: Vec<u64> = (0..300_000).step_by(50).filter(|now| all.is_due(*now)).collect();
        assert_eq!(sent[..4], [1_000, 1_250, 1_750, 2_750]);
        assert_eq!((sent.len(), sent[9]), (10, 1_000 + 250 * 511));
        all.begin(400_000);
        all.stop();
        assert!(!all.is_due(400_000));
    }
}
