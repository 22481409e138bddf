//! The callers of streams: of each table, the newest one wins. Their messages are applied one after the other, each
//! answered once it has taken effect. Flow control: the next message is read when the one before is done.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{mpsc, watch};
use tonic::Status;

/// Replies that may wait for the caller.
pub(super) const REPLIES: usize = 16;

/// The number of the newest caller of each table.
#[derive(Clone, Debug, Default)]
pub(super) struct Callers(Arc<Mutex<BTreeMap<&'static str, watch::Sender<u64>>>>);

impl Callers {
    /// Registers a new caller of a table, which supersedes the previous one.
    pub(super) fn next(&self, table: &'static str) -> Caller {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = all.entry(table).or_insert_with(|| watch::Sender::new(0));
        let mut number = 0;
        newest.send_modify(|newest| {
            *newest += 1;
            number = *newest;
        });
        Caller { table, number, newest: newest.subscribe() }
    }
}

/// One of the callers.
pub(super) struct Caller {
    table: &'static str,
    pub(super) number: u64,
    newest: watch::Receiver<u64>,
}

impl Caller {
    /// Applies the messages of a caller, after an optional one that was read already, until the caller ends or is
    /// superseded, or a message fails.
    pub(super) async fn serve<M, R, F: Future<Output = Result<R, Status>>>(
        mut self,
        mut first: Option<M>,
        mut messages: tonic::Streaming<M>,
        replies: &mpsc::Sender<Result<R, Status>>,
        apply: impl Fn(M) -> F,
    ) {
        loop {
            let message = match first.take() {
                Some(first) => Ok(Some(first)),
                None => tokio::select! {
                    () = self.superseded() => Err(superseded_status(self.table)),
                    message = messages.message() => message,
                },
            };
            let reply = match message {
                Ok(Some(message)) => apply(message).await,
                Ok(None) => return,
                Err(status) => Err(status),
            };
            let is_over = reply.is_err();
            if replies.send(reply).await.is_err() || is_over {
                return;
            }
        }
    }

    /// Waits until another caller has superseded this one.
    pub(super) async fn superseded(&mut self) {
        let number = self.number;
        // An error means that the service ends, and this caller with it.
        let _ = self.newest.wait_for(|newest| *newest > number).await;
    }
}

/// The end of a superseded caller.
pub(super) fn superseded_status(table: &str) -> Status {
    Status::aborted(format!(
        "another caller has taken over the table {table:?}: run one controller"
    ))
}
