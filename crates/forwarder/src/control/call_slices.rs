//! Long work of a call on the control thread, in slices between which other requests run: messages of callers and
//! audits.

use std::time::Duration;

use tokio::sync::oneshot;
use tonic::Status;

use super::service::{Service, await_answer, full};
use super::{ForwarderState, Request};

/// Attempts to submit a request while the queue is full, and the pause before each: ten seconds in all.
const TRIES: u32 = 500;
const RETRY_PAUSE: Duration = Duration::from_millis(20);

fn not_configured() -> Status {
    Status::unavailable("no configuration is applied: apply one first")
}

impl Service {
    /// Runs one slice of work on the control thread, which returns the work and whether it is done. Retries
    /// while the request queue is full: work in progress is not aborted.
    pub(super) async fn run_slices<W: Send + 'static>(
        &self,
        mut work: W,
        run_slice: impl FnOnce(&mut ForwarderState, &mut W) -> Result<bool, Status> + Send + 'static,
    ) -> Result<(W, bool), Status> {
        let (reply_tx, reply_rx) = oneshot::channel();
        let mut request: Request = Box::new(move |forwarder| {
            let done = match forwarder.state() {
                Some(state) => run_slice(state, &mut work),
                None => Err(not_configured()),
            };
            // The receiver is gone when the forwarder ends.
            let _ = reply_tx.send(done.map(|is_done| (work, is_done)));
        });
        for _ in 0..TRIES {
            match self.requests.try_submit(request) {
                Ok(()) => return await_answer(reply_rx).await,
                Err(back) => request = back,
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
        Err(full())
    }
}
