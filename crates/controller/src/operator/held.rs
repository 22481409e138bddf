//! Routes: active ones with their route sources.

use std::pin::Pin;
use std::sync::Arc;

use stoa_api::v1;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::{Response, Status};

use super::{Service, inactive};
use crate::apply::ForwarderConnection;
use crate::call_error::failed;
use crate::merged_routes::MergedRoutes;
use crate::rib;

/// Number of routes whose route sources are looked up together.
const BATCH: usize = 512;

/// Routes, one after another.
pub(super) type Routes =
    Pin<Box<dyn Stream<Item = Result<v1::RouteState, Status>> + Send + 'static>>;

impl Service {
    /// The routes of a request: active ones, or inactive ones with their reasons.
    pub(super) async fn routes(&self, request: v1::ListRoutesRequest) -> Result<Routes, Status> {
        self.check_vrf(&request.vrf)?;
        let mut client = self.connection.client();
        let held = client.list_routes(request.clone()).await.map_err(failed);
        if request.inactive {
            // Works without a forwarder too: then route sources still have the reasons.
            let silent = held.ok().map(Response::into_inner);
            return Ok(Box::pin(inactive::stream(&self.learned, silent, &request)));
        }
        let held = held?.into_inner();
        let annotations = self.connection.route_annotations();
        let inactive = rib::inactive(&annotations, &request);
        let held = MergedRoutes::new(held, annotations, inactive);
        Ok(Box::pin(stream(&self.connection, held)))
    }
}

/// The routes of the forwarder in their order.
fn stream(
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
