//! The `LearnRoutes` call.

use stoa_api::rows::ROUTES;
use stoa_api::v1;
use tokio::sync::mpsc;
use tonic::Status;

use super::{Audit, Message, RouteUpdate};
use crate::control::callers::{REPLIES, superseded_status};
use crate::control::service::Service;

/// From this number of prefix bytes on, a message is parsed on a blocking thread.
const LARGE: usize = 256 << 10;

impl Service {
    /// Applies the messages of a caller until it ends or is superseded.
    pub(in crate::control) fn learn_from(
        &self,
        requests_in: tonic::Streaming<v1::LearnedRoutes>,
    ) -> mpsc::Receiver<Result<v1::LearnedRoutesReply, Status>> {
        let (sender, receiver) = mpsc::channel(REPLIES);
        let (service, caller) = (self.clone(), self.callers.next(ROUTES));
        tokio::spawn(async move {
            let number = caller.number;
            caller
                .serve(None, requests_in, &sender, |message| service.learn(number, message))
                .await;
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
                    state.continue_update(update).map_err(|_| superseded_status(ROUTES))
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
}

#[cfg(test)]
mod tests;
