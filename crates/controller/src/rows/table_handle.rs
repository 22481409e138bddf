//! What audits ask the stream of a table, whatever the types of its keys and rows.

use stoa_delta::Digests;
use tokio::sync::{mpsc, oneshot};

/// The desired rows at one moment.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    /// Number and digests of rows that should be in force.
    pub(super) expected: Digests,
    /// Refused rows, which are not among them.
    pub(super) refused: u64,
    /// Counts changes of desired rows.
    pub(super) changes: u64,
    /// The forwarder has acknowledged everything.
    pub(super) is_synced: bool,
    /// Why the forwarder rejects the whole table; empty if it does not.
    pub(super) rejection: String,
}

/// A request to the stream of a table.
#[derive(Debug)]
pub(super) enum Request {
    /// The desired rows.
    Snapshot(oneshot::Sender<Snapshot>),
    /// Compares slices with the forwarder's list, if nothing has changed since a snapshot, and sends differences
    /// again. Answers with their number.
    Repair { changes: u64, slices: Vec<u32>, listed: Vec<u8>, answer: oneshot::Sender<Option<u64>> },
}

/// A handle for audits; it does not keep the stream open.
#[derive(Clone, Debug)]
pub(super) struct TableHandle {
    requests: mpsc::Sender<Request>,
}

impl TableHandle {
    /// A handle, and the requests that the stream answers.
    pub(super) fn new() -> (TableHandle, mpsc::Receiver<Request>) {
        let (requests, received) = mpsc::channel(4);
        (TableHandle { requests }, received)
    }

    /// Whether the stream has ended.
    pub(super) fn is_closed(&self) -> bool {
        self.requests.is_closed()
    }

    /// Asks the stream; `None` when it has ended.
    pub(super) async fn ask<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<T>) -> Request,
    ) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        self.requests.send(request(answer)).await.ok()?;
        answered.await.ok()
    }
}
