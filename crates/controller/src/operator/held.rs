//! Routes that are in use, as operators ask for them: with the route sources that have told them.

use std::sync::Arc;

use stoa_api::v1;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::Status;

use crate::apply::ForwarderConnection;

/// Routes whose route sources are asked for together.
const TOGETHER: usize = 512;

/// What the forwarder tells, in its order.
pub(super) fn stream(
    connection: &Arc<ForwarderConnection>,
    mut held: impl Stream<Item = Result<v1::RouteState, Status>> + Unpin + Send + 'static,
) -> ReceiverStream<Result<v1::RouteState, Status>> {
    let (sender, receiver) = mpsc::channel(TOGETHER);
    let connection = Arc::clone(connection);
    tokio::spawn(async move {
        let mut failed = None;
        while failed.is_none() {
            let mut some = Vec::with_capacity(TOGETHER);
            while let Some(state) = held.next().await {
                match state {
                    Ok(state) => some.push(state),
                    Err(status) => failed = Some(status),
                }
                if some.len() == TOGETHER || failed.is_some() {
                    break;
                }
            }
            let is_last = some.len() < TOGETHER;
            connection.name_route_sources(&mut some).await;
            for state in some.into_iter().map(Ok).chain(failed.clone().map(Err)) {
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
