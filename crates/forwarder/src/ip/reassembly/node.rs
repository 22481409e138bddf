//! What `ip4-reassembly` and `ip6-reassembly` do alike: every lane finds its packet's table, and
//! the fragment that completes a packet sends it on.

use std::marker::PhantomData;
use std::sync::Arc;

use stoa_engine::{Context, Next, Node, Packet, Vector};

use super::table::Outcome;
use super::{FragmentView, WorkerTable, packet};
use crate::drops::Drop;
use crate::icmp::IcmpCause;
use crate::shared::Shared;

/// The edge to the node of packets for ourselves.
const LOCAL: u16 = 0;
/// The edge to the node that tells senders what is wrong.
const ERROR: u16 = 1;

/// What the families do differently.
pub(super) trait Family: Send + 'static {
    const IS_IP4: bool;

    /// The fragment in a packet that came from an interface of a VRF.
    ///
    /// # Errors
    /// Why it is dropped without a word.
    fn piece(bytes: &[u8], place: (u32, u32)) -> Result<FragmentView<'_>, Drop>;

    /// What is wrong with a fragment in itself, and is told to its sender.
    fn fault(piece: &FragmentView<'_>) -> Option<IcmpCause>;

    /// A whole packet from the head of its first fragment and all its data, in a buffer of the
    /// length that `allocate` is asked for; `None` when there is no room.
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
    family: PhantomData<F>,
}

impl<F: Family> Reassembly<F> {
    pub(super) fn boxed(shared: &Arc<Shared>) -> Box<dyn Node> {
        let worker_table = WorkerTable::new(F::IS_IP4);
        Box::new(Self { shared: shared.clone(), worker_table, family: PhantomData })
    }

    fn lane(&mut self, cx: &mut Context<'_>, vector: &mut Vector, lane: usize) {
        let rx_if = vector.rx_if[lane];
        let place = (rx_if, self.shared.interface(rx_if).vrf());
        let piece = match F::piece(vector.bytes(lane), place) {
            Ok(piece) => piece,
            Err(reason) => return vector.drop_lane(lane, reason.reason()),
        };
        if let Some(cause) = F::fault(&piece) {
            vector.adjacency[lane] = cause.code();
            vector.next[lane] = ERROR;
            return;
        }
        let hash = self.shared.identifications.hash(piece.key);
        if !WorkerTable::admits(&self.shared, cx, vector, lane, hash) {
            return;
        }
        let now = self.shared.reassembly.now(cx.now);
        let limits = self.shared.reassembly.get();
        // Looked at again, for the lane was changeable in between.
        let outcome = match F::piece(vector.bytes(lane), place) {
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

    /// Sends a whole packet on.
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
        for lane in 0..vector.len() {
            self.lane(cx, vector, lane);
        }
        self.worker_table.publish_counters(cx, &self.shared);
        Next::Lanes
    }

    fn tick(&mut self, cx: &mut Context<'_>) {
        self.worker_table.expire(cx, &self.shared, ERROR);
    }
}
