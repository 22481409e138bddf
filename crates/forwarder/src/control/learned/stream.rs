//! Learned routes over the contract: one caller at a time, one message after the other, each
//! answered once it took effect. Who sends faster than that waits: the next message is read when the one
//! before is done.

use std::time::Duration;

use stoa_api::v1;
use tokio::sync::{mpsc, oneshot, watch};
use tonic::Status;

use super::{Audit, RouteUpdate, Message};
use crate::control::service::{Service, await_answer, full};
use crate::control::{ForwarderState, Request};

/// Answers that may wait for the caller.
pub(in crate::control) const REPLIES: usize = 16;
/// Bytes of prefixes from which on a message is checked beside the thread that serves the contract.
const LARGE: usize = 256 << 10;
/// How often a place among the requests is asked for, and the pause before each: ten seconds in
/// all.
const TRIES: u32 = 500;
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// Who may tell routes: the caller with the greatest number.
#[derive(Clone, Debug)]
pub(in crate::control) struct Callers(std::sync::Arc<watch::Sender<u64>>);

impl Default for Callers {
    fn default() -> Self {
        Self(std::sync::Arc::new(watch::Sender::new(0)))
    }
}

impl Callers {
    /// A new caller, who takes the place of the one before.
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
    /// Waits until another one has taken the place of this one.
    async fn superseded(&mut self) {
        let number = self.number;
        // An error means that the service is gone, and then this one is too.
        let _ = self.newest.wait_for(|newest| *newest > number).await;
    }
}

fn superseded_status() -> Status {
    Status::aborted("another caller tells the learned routes now: there is one controller")
}

fn not_configured() -> Status {
    Status::unavailable("nothing runs yet: apply a configuration first")
}

impl Service {
    /// Takes in what a caller says until it ends, or another one calls.
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

    /// Does one message.
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

    /// Reads what is held of learned routes, some of it at a time.
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
                            Some(begun) => audit.insert(begun),
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

    /// Goes on with some work on the control thread, which gives it back with whether it is done.
    /// Waits for a place while too many requests wait: what has begun is not broken off.
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
            // Nobody waits any more when the forwarder ends.
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
