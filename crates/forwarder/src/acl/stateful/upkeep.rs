//! What a worker does for its flows between packets.

use stoa_engine::{Context, clock};

use super::{AclNode, Family, OfWorker, tracker};
use crate::flow::adoption;
use crate::flow::flows::Now;
use crate::flow_sync::apply::{Configured, apply};

/// How often a second a worker looks for more records during a bulk of the partner, if it is idle otherwise.
const LOOKS_HZ: u64 = 1_000;

impl<F: Family> AclNode<F> {
    /// Adopts the flows of a former process that are of this worker.
    #[cold]
    fn adopt(&self, cx: &mut Context<'_>, now: Now) {
        let (shared, reader, workers) = (&*self.shared, cx.reader, cx.workers());
        let (nat, policy) = (&**shared.nat.read(reader), shared.acls.read(reader).policy());
        let Some(OfWorker { flows, nat: worker, .. }) = cx.local::<OfWorker>() else { return };
        let Some(tracker) = flows.as_mut() else { return };
        if !tracker.begins_adoption() {
            return;
        }
        let adoption = shared.flows.adoption();
        if let Some(request) = adoption.request() {
            let of_all = (&*shared.flows, nat, policy);
            adoption::adopt(&request, of_all, (tracker, worker), (workers, now));
        }
        adoption.note_done();
    }

    /// Does some of what the partner has sent for this worker; whether more is left.
    #[cold]
    fn apply_records(&self, cx: &mut Context<'_>, now: Now) -> bool {
        let (shared, reader) = (&*self.shared, cx.reader);
        let (nat, policy) = (&**shared.nat.read(reader), shared.acls.read(reader).policy());
        let Some(OfWorker { flows, nat: worker, .. }) = cx.local::<OfWorker>() else {
            return false;
        };
        let Some(tracker) = flows.as_mut() else { return false };
        let leaves = |from, interface| nat.leaves_by((shared, reader), from, interface);
        let is_own = |vrf, address| shared.is_local6((vrf, reader), address);
        let (flows, nat64) = (&*shared.flows, shared.nat64.read(reader));
        let of = Configured { flows, nat, nat64, policy, leaves: &leaves, is_own: &is_own };
        apply(&of, (tracker, worker), now)
    }

    /// Ends flows that are due: the node of one place does it for all of its worker. When to go on, as a time stamp
    /// counter, if that is sooner than after the usual time.
    pub(in crate::acl) fn maintain(&mut self, cx: &mut Context<'_>) -> Option<u64> {
        if !(F::IS_IP4 && self.place.is_input()) {
            return None;
        }
        let now = self.shared.flows.now(cx.now);
        if self.shared.flows.adoption().is_pending() {
            self.adopt(cx, now);
        }
        let epoch = self.shared.acls.read(cx.reader).policy().map(|it| it.epoch);
        self.shared.flows.expectations().sweep(now.tick, epoch);
        let expects_more = tracker(cx).is_some_and(|it| it.intake().expects_more(now.ms));
        let is_behind =
            tracker(cx).is_some_and(|it| it.intake().has_work()) && self.apply_records(cx, now);
        if tracker(cx).is_some_and(|tracker| tracker.maintain(now)) || is_behind {
            return Some(cx.now);
        }
        expects_more.then(|| cx.now.saturating_add(clock::tsc_hz() / LOOKS_HZ))
    }
}
