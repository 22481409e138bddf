//! Active routes with their route sources.

use std::sync::Arc;

use stoa_api::v1;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::Status;

use crate::apply::ForwarderConnection;

/// Number of routes whose route sources are looked up together.
const BATCH: usize = 512;

/// The routes of the forwarder in their order.
pub(super) fn stream(
    connection: &Arc<ForwarderConnection>,
    mut held: impl Stream<Item = Result<v1::RouteState, Status>> + Unpin + Send + 'static,
) -> ReceiverStream<Result<v1::RouteState, Status>> {
    let (sender, receiver) = mpsc::channel(BATCH);
    let connection = Arc::clone(connection);
    tokio::spawn(async move {
        let mut failed = None;
        while failed.is_none() {
            let mut batch = Vec::with_capacity(BATCH);
            while let Some(state) = held.next().await {
                match state {
                    Ok(state) => batch.push(state),
                    Err(status) => failed = Some(status),
                }
                if batch.len() == BATCH || failed.is_some() {
                    break;
                }
            }
            let is_last = batch.len() < BATCH;
            connection.name_route_sources(&mut batch).await;
            for state in batch.into_iter().map(Ok).chain(failed.clone().map(Err)) {
                if sender.send(state).await.is_err() {
                    return;
                }
            }
            if is_last {
                return;
            }
        }
    });
    ReceiverStream::new(receiver)
}
