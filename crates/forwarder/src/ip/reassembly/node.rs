//! The common part of `ip4-reassembly` and `ip6-reassembly`: stores each fragment in the table of its
//! worker and emits completed packets.

use std::marker::PhantomData;
use std::sync::Arc;

use stoa_engine::vector::{Column, LaneSet};
use stoa_engine::{Context, Next, Node, Packet, Vector};

use super::table::Outcome;
use super::{FragmentView, WorkerTable, packet};
use crate::drops::Drop;
use crate::icmp::IcmpCause;
use crate::shared::Shared;

/// The edge to the node for local delivery.
const LOCAL: u16 = 0;
/// The edge to the ICMP error node.
const ERROR: u16 = 1;

/// The differences between IPv4 and IPv6.
pub(super) trait Family: Send + 'static {
    const IS_IP4: bool;

    /// Parses a fragment; `source` is the receiving interface and its VRF.
    ///
    /// # Errors
    /// The reason to drop it silently.
    fn parse(bytes: &[u8], source: (u32, u32)) -> Result<FragmentView<'_>, Drop>;

    /// The ICMP cause of a malformed fragment.
    fn fault(piece: &FragmentView<'_>) -> Option<IcmpCause>;

    /// The reassembled packet from the headers of its first fragment and all its data; `None` when
    /// `allocate` has no buffer.
    fn whole(
        head: &[u8],
        data: &[u8],
        allocate: impl FnOnce(usize) -> Option<Packet>,
    ) -> Option<Packet>;
}

/// The node of one family, of one worker.
pub(super) struct Reassembly<F> {
    shared: Arc<Shared>,
    worker_table: WorkerTable,
    /// By lane: the worker that it is handed to.
    owners: Column<u16>,
    family: PhantomData<F>,
}

impl<F: Family> Reassembly<F> {
    pub(super) fn boxed(shared: &Arc<Shared>) -> Box<dyn Node> {
        let worker_table = WorkerTable::new(F::IS_IP4);
        let (shared, owners) = (shared.clone(), Column::of(0));
        Box::new(Self { shared, worker_table, owners, family: PhantomData })
    }

    /// Processes a lane, or adds it to those that belong to another worker.
    fn lane(
        &mut self,
        cx: &mut Context<'_>,
        vector: &mut Vector,
        lane: usize,
        others: &mut LaneSet,
    ) {
        let rx_if = vector.rx_if[lane];
        let source = (rx_if, self.shared.attributes.vrf_of(rx_if));
        let piece = match F::parse(vector.bytes(lane), source) {
            Ok(piece) => piece,
            Err(reason) => return vector.drop_lane(lane, reason.reason()),
        };
        if let Some(cause) = F::fault(&piece) {
            vector.arg[lane] = cause.code();
            vector.next[lane] = ERROR;
            return;
        }
        let hash = self.shared.identifications.hash(piece.key);
        let owner = WorkerTable::owner(cx, hash);
        if owner != cx.worker {
            self.owners[lane] = owner as u16;
            return others.insert(lane);
        }
        if !WorkerTable::admits(&self.shared, cx, vector, lane) {
            return;
        }
        let now = self.shared.reassembly.now(cx.now);
        let limits = self.shared.reassembly.get();
        // Parsed again, because `admits` borrows the vector mutably.
        let outcome = match F::parse(vector.bytes(lane), source) {
            Ok(piece) => self.worker_table.table.insert(&piece, now, limits),
            Err(reason) => Outcome::Refused(reason),
        };
        match outcome {
            Outcome::Refused(reason) => vector.drop_lane(lane, reason.reason()),
            Outcome::Incomplete => drop(vector.take(lane)),
            Outcome::Complete(at) => {
                self.finish(cx, vector, lane, at);
                drop(vector.take(lane));
            }
        }
    }

    /// Emits a completed packet.
    fn finish(&mut self, cx: &mut Context<'_>, vector: &Vector, lane: usize, at: usize) {
        let table = &mut self.worker_table.table;
        let context = table.context(at);
        let sent = table.whole(at).and_then(|(head, data)| {
            let mut whole = F::whole(head, data, |length| packet(cx, length))?;
            (whole.rx_if, whole.flags) = (context.rx_if, 0);
            cx.descend(vector, lane, &mut whole);
            cx.emit(LOCAL, whole).ok()
        });
        if sent.is_none() {
            cx.lost(Drop::FragmentNoBuffer.reason(), context.fragments().into());
        }
        table.remove(at);
    }
}

impl<F: Family> Node for Reassembly<F> {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> Next {
        let mut others = LaneSet::first_of(0);
        for lane in 0..vector.len() {
            self.lane(cx, vector, lane, &mut others);
        }
        while let Some(first) = others.lowest() {
            let owner = self.owners[first];
            let lanes = others.take_equal(&self.owners, owner);
            cx.hand_over(vector, &lanes, owner.into());
        }
        self.worker_table.publish_counters(cx, &self.shared);
        Next::Lanes
    }

    fn tick(&mut self, cx: &mut Context<'_>) {
        self.worker_table.expire(cx, &self.shared, ERROR);
    }
}
