//! The call of the controller: one half reads its messages, the other one writes packets; when either ends, or a newer
//! call begins, the subscription ends.

use std::future::pending;
use std::sync::Arc;

use stoa_api::v1;
use stoa_api::v1::punt_stream_server::PuntStream as Contract;
use stoa_api::v1::{punts_reply::Reply, punts_request::Request};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Response, Status, Streaming};

use super::message;
use super::outbox::Outbox;
use crate::control::ForwarderState;
use crate::control::callers::{Caller, superseded_status};
use crate::control::service::Service;
use crate::punt::Class;
use crate::punt::streamed;

/// The name of the stream among the tables of callers.
const NAME: &str = "punts";
/// Replies that may wait for the controller: few, as packets wait in the queues of their classes.
const REPLIES: usize = 4;

type Replies = mpsc::Sender<Result<v1::PuntsReply, Status>>;
/// The queues, once the call has subscribed.
type Subscribed = watch::Sender<Option<Arc<Outbox>>>;

#[tonic::async_trait]
impl Contract for Service {
    type PuntsStream = ReceiverStream<Result<v1::PuntsReply, Status>>;

    async fn punts(
        &self,
        request: tonic::Request<Streaming<v1::PuntsRequest>>,
    ) -> Result<Response<Self::PuntsStream>, Status> {
        let (replies, receiver) = mpsc::channel(REPLIES);
        let (service, messages) = (self.clone(), request.into_inner());
        let caller = self.callers.next(NAME);
        tokio::spawn(async move { service.serve_punts(caller, messages, replies).await });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }
}

impl Service {
    async fn serve_punts(
        &self,
        mut caller: Caller,
        messages: Streaming<v1::PuntsRequest>,
        replies: Replies,
    ) {
        let number = caller.number;
        let (subscribed, outbox) = watch::channel(None);
        let ended = tokio::select! {
            ended = self.read_punts(number, messages, &replies, &subscribed) => ended,
            ended = write_punts(number, outbox, &replies) => ended,
            () = caller.superseded() => Err(superseded_status(NAME)),
        };
        // A controller that has died must not keep its subscription: retried while the control thread is busy.
        let end = move |state: &mut ForwarderState, (): &mut ()| {
            state.end_punts(number);
            Ok(true)
        };
        let _ = self.run_slices((), end).await;
        if let Err(status) = ended {
            // It may be gone, or not read.
            let _ = replies.try_send(Err(status));
        }
    }

    /// Carries out the messages of a caller until it ends.
    async fn read_punts(
        &self,
        number: u64,
        mut messages: Streaming<v1::PuntsRequest>,
        replies: &Replies,
        subscribed: &Subscribed,
    ) -> Result<(), Status> {
        while let Some(message) = messages.message().await? {
            let reply = match message.request {
                Some(Request::Subscription(subscription)) => {
                    Reply::Subscribed(self.subscribe(number, subscription, subscribed).await?)
                }
                Some(Request::Taken(taken)) => {
                    if let Some(outbox) = &*subscribed.borrow() {
                        extend_window(outbox, number, &taken);
                    }
                    continue;
                }
                Some(Request::Injections(injections)) => {
                    let inject =
                        move |state: &mut ForwarderState, reply: &mut v1::PuntsInjected| {
                            *reply = state.inject_punts(number, &injections);
                            Ok(true)
                        };
                    let (reply, _) = self.run_slices(v1::PuntsInjected::default(), inject).await?;
                    Reply::Injected(reply)
                }
                // Of a newer version.
                None => continue,
            };
            let reply = v1::PuntsReply { reply: Some(reply) };
            if replies.send(Ok(reply)).await.is_err() {
                return Ok(());
            }
        }
        Ok(())
    }

    async fn subscribe(
        &self,
        number: u64,
        subscription: v1::PuntSubscription,
        subscribed: &Subscribed,
    ) -> Result<v1::PuntsSubscribed, Status> {
        let subscribe =
            move |state: &mut ForwarderState,
                  done: &mut Option<(v1::PuntsSubscribed, Arc<Outbox>)>| {
                let reply = state.subscribe_punts(number, &subscription);
                let reply = reply.ok_or_else(|| superseded_status(NAME))?;
                *done = Some((reply, state.punt_outbox()));
                Ok(true)
            };
        let (done, _) = self.run_slices(None, subscribe).await?;
        let (reply, outbox) = done.ok_or_else(|| Status::internal("no reply"))?;
        subscribed.send_replace(Some(outbox));
        Ok(reply)
    }
}

fn extend_window(outbox: &Outbox, number: u64, taken: &v1::PuntsTaken) {
    let class = Class::named(&taken.class).and_then(streamed::index_of);
    let mut contents = outbox.lock();
    if let Some(class) = class.filter(|_| contents.is_subscriber(number)) {
        contents.queues.extend_window(class, taken.packets);
        contents.wake();
    }
}

/// Sends packets from the moment on at which the call has subscribed, until it is not the subscriber any more.
async fn write_punts(
    number: u64,
    mut outbox: watch::Receiver<Option<Arc<Outbox>>>,
    replies: &Replies,
) -> Result<(), Status> {
    let outbox = match outbox.wait_for(Option::is_some).await {
        Ok(outbox) => outbox.clone(),
        Err(_) => None,
    };
    let Some(outbox) = outbox else { return pending().await };
    while let Some(next) = outbox.next(number).await {
        let reply = v1::PuntsReply { reply: Some(Reply::Packets(message(next))) };
        if replies.send(Ok(reply)).await.is_err() {
            return Ok(());
        }
    }
    Err(Status::unavailable("the forwarder starts anew: subscribe again"))
}

#[cfg(test)]
mod tests;
