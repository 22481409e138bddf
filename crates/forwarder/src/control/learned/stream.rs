//! The `LearnRoutes` call: one caller at a time, and one message after the other, each answered once it has
//! taken effect. Flow control: the next message is read when the one before is done.

use std::time::Duration;

use stoa_api::v1;
use tokio::sync::{mpsc, oneshot, watch};
use tonic::Status;

use super::{Audit, Message, RouteUpdate};
use crate::control::service::{Service, await_answer, full};
use crate::control::{ForwarderState, Request};

/// Replies that may wait for the caller.
pub(in crate::control) const REPLIES: usize = 16;
/// From this number of prefix bytes on, a message is parsed on a blocking thread.
const LARGE: usize = 256 << 10;
/// Attempts to submit a request while the queue is full, and the pause before each: ten seconds in all.
const TRIES: u32 = 500;
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// The callers of `LearnRoutes`: the newest one wins.
#[derive(Clone, Debug)]
pub(in crate::control) struct Callers(std::sync::Arc<watch::Sender<u64>>);

impl Default for Callers {
    fn default() -> Self {
        Self(std::sync::Arc::new(watch::Sender::new(0)))
    }
}

impl Callers {
    /// Registers a new caller, which supersedes the previous one.
    fn next(&self) -> Caller {
        let mut number = 0;
        self.0.send_modify(|newest| {
            *newest += 1;
            number = *newest;
        });
        Caller { number, newest: self.0.subscribe() }
    }
}

/// One of the callers.
struct Caller {
    number: u64,
    newest: watch::Receiver<u64>,
}

impl Caller {
    /// Waits until another caller has superseded this one.
    async fn superseded(&mut self) {
        let number = self.number;
        // An error means that the service ends, and this caller with it.
        let _ = self.newest.wait_for(|newest| *newest > number).await;
    }
}

fn superseded_status() -> Status {
    Status::aborted("another caller has taken over the learned routes: run one controller")
}

fn not_configured() -> Status {
    Status::unavailable("no configuration is applied: apply one first")
}

impl Service {
    /// Applies the messages of a caller until it ends or is superseded.
    pub(in crate::control) fn learn_from(
        &self,
        mut requests_in: tonic::Streaming<v1::LearnedRoutes>,
    ) -> mpsc::Receiver<Result<v1::LearnedRoutesReply, Status>> {
        let (sender, receiver) = mpsc::channel(REPLIES);
        let (service, mut caller) = (self.clone(), self.callers.next());
        tokio::spawn(async move {
            loop {
                let message = tokio::select! {
                    () = caller.superseded() => Err(superseded_status()),
                    message = requests_in.message() => message,
                };
                let reply = match message {
                    Ok(Some(message)) => service.learn(caller.number, message).await,
                    Ok(None) => return,
                    Err(status) => Err(status),
                };
                let is_over = reply.is_err();
                if sender.send(reply).await.is_err() || is_over {
                    return;
                }
            }
        });
        receiver
    }

    /// Applies one message.
    async fn learn(
        &self,
        caller: u64,
        requests_in: v1::LearnedRoutes,
    ) -> Result<v1::LearnedRoutesReply, Status> {
        let bytes: usize = requests_in.runs.iter().map(|run| run.ip4.len() + run.ip6.len()).sum();
        let message = if bytes < LARGE {
            Message::parse(requests_in)
        } else {
            let parsed = tokio::task::spawn_blocking(|| Message::parse(requests_in)).await;
            parsed.map_err(|_| Status::unavailable("the forwarder ends"))?
        };
        let mut update = RouteUpdate::new(caller, message);
        loop {
            let (rest, is_done) = self
                .run_slices(update, |state, update| {
                    state.continue_update(update).map_err(|_| superseded_status())
                })
                .await?;
            if is_done {
                return Ok(rest.reply());
            }
            update = rest;
        }
    }

    /// Audits the learned routes in slices.
    pub(in crate::control) async fn audit(
        &self,
        request: v1::AuditRoutesRequest,
    ) -> Result<v1::AuditRoutesReply, Status> {
        let (vrf, family) = (request.vrf.clone(), request.family);
        let none = move || {
            let reason = format!("there is no VRF {:?} with family {family}", request.vrf);
            Status::not_found(reason)
        };
        let request_template = v1::AuditRoutesRequest { vrf: vrf.clone(), ..request };
        let mut audit: Option<Audit> = None;
        loop {
            let request_template = request_template.clone();
            let (rest, is_done) = self
                .run_slices(audit, move |state, audit| {
                    let audit = match audit {
                        Some(audit) => audit,
                        None => match state.begin_audit(&request_template) {
                            Some(new) => audit.insert(new),
                            None => return Ok(true),
                        },
                    };
                    Ok(state.audit_more(audit))
                })
                .await?;
            if is_done {
                return rest.map(|audit| audit.reply(&vrf)).ok_or_else(none);
            }
            audit = rest;
        }
    }

    /// Runs one slice of work on the control thread, which returns the work and whether it is done. Retries
    /// while the request queue is full: work in progress is not aborted.
    async fn run_slices<W: Send + 'static>(
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

#[cfg(test)]
mod tests;
