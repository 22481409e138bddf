//! What address translation reports besides its flows: for the export by IPFIX.

use super::create::Maker;
use super::first::First;
use super::{Allocation, Policy};
use crate::drops::Drop;
use crate::ipfix::{NatEvent, NatEventKind};

impl Maker<'_> {
    /// Reports that a packet gets no external address or port by a policy, or that its subscriber has as much as it may
    /// have, if that is the reason.
    #[cold]
    pub(super) fn report_refusal(&mut self, first: &First<'_>, policy: &Policy, reason: Drop) {
        let kind = match reason {
            Drop::Nat44NoPort => NatEventKind::PortsExhausted,
            Drop::Nat44NoAddress => NatEventKind::AddressesExhausted,
            // Of blocks, the control thread reports it.
            Drop::Nat44Quota
                if !matches!(policy.allocation, Allocation::Blocks(..))
                    && policy.counts.reports(self.now.tick) =>
            {
                NatEventKind::QuotaExceeded
            }
            _ => return,
        };
        let internal = first.internal();
        let event = NatEvent {
            kind,
            instance: policy.instance,
            subscriber: internal.address,
            protocol: internal.protocol,
            vrf: internal.vrf,
        };
        self.side.report_nat(event, self.now);
    }
}
