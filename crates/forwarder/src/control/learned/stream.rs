//! Learned routes over the contract: one caller at a time, one message after the other, each
//! answered once it took effect. Who sends faster than that waits: the next message is read when the one
//! before is done.

use std::time::Duration;

use stoa_api::v1;
use tokio::sync::{mpsc, oneshot, watch};
use tonic::Status;

use super::{Audit, Learning, Message};
use crate::control::service::{Service, answer_of, full};
use crate::control::{Plane, Request};

/// Answers that may wait for the caller.
pub(in crate::control) const REPLIES: usize = 16;
/// Bytes of prefixes from which on a message is checked beside the thread that serves the contract.
const LARGE: usize = 256 << 10;
/// How often a place among the requests is asked for, and the pause before each: ten seconds in
/// all.
const TRIES: u32 = 500;
const PAUSE: Duration = Duration::from_millis(20);

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
    async fn is_superseded(&mut self) {
        let number = self.number;
        // An error means that the service is gone, and then this one is too.
        let _ = self.newest.wait_for(|newest| *newest > number).await;
    }
}

fn superseded() -> Status {
    Status::aborted("another caller tells the learned routes now: there is one controller")
}

fn nothing_runs() -> Status {
    Status::unavailable("nothing runs yet: apply a configuration first")
}

impl Service {
    /// Takes in what a caller says until it ends, or another one calls.
    pub(in crate::control) fn learn_from(
        &self,
        mut said: tonic::Streaming<v1::LearnedRoutes>,
    ) -> mpsc::Receiver<Result<v1::LearnedRoutesReply, Status>> {
        let (sender, receiver) = mpsc::channel(REPLIES);
        let (service, mut caller) = (self.clone(), self.callers.next());
        tokio::spawn(async move {
            loop {
                let message = tokio::select! {
                    () = caller.is_superseded() => Err(superseded()),
                    message = said.message() => message,
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
        said: v1::LearnedRoutes,
    ) -> Result<v1::LearnedRoutesReply, Status> {
        let bytes: usize = said.runs.iter().map(|run| run.ip4.len() + run.ip6.len()).sum();
        let message = if bytes < LARGE {
            Message::parse(said)
        } else {
            let parsed = tokio::task::spawn_blocking(|| Message::parse(said)).await;
            parsed.map_err(|_| Status::unavailable("the forwarder ends"))?
        };
        let mut learning = Learning::new(caller, message);
        loop {
            let (rest, is_done) = self
                .in_turn(learning, |plane, learning| {
                    plane.learn_more(learning).map_err(|_| superseded())
                })
                .await?;
            if is_done {
                return Ok(rest.reply());
            }
            learning = rest;
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
        let asked = v1::AuditRoutesRequest { vrf: vrf.clone(), ..request };
        let mut audit: Option<Audit> = None;
        loop {
            let asked = asked.clone();
            let (rest, is_done) = self
                .in_turn(audit, move |plane, audit| {
                    let audit = match audit {
                        Some(audit) => audit,
                        None => match plane.begin_audit(&asked) {
                            Some(begun) => audit.insert(begun),
                            None => return Ok(true),
                        },
                    };
                    Ok(plane.audit_more(audit))
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
    async fn in_turn<W: Send + 'static>(
        &self,
        mut work: W,
        go_on: impl FnOnce(&mut Plane, &mut W) -> Result<bool, Status> + Send + 'static,
    ) -> Result<(W, bool), Status> {
        let (answer, answered) = oneshot::channel();
        let mut request: Request = Box::new(move |forwarder| {
            let done = match forwarder.plane() {
                Some(plane) => go_on(plane, &mut work),
                None => Err(nothing_runs()),
            };
            // Nobody waits any more when the forwarder ends.
            let _ = answer.send(done.map(|is_done| (work, is_done)));
        });
        for _ in 0..TRIES {
            match self.requests.offer(request) {
                Ok(()) => return answer_of(answered).await,
                Err(back) => request = back,
            }
            tokio::time::sleep(PAUSE).await;
        }
        Err(full())
    }
}

#[cfg(test)]
mod tests;
