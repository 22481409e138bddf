//! The flows of stateful rules over the contract.

use std::time::{Duration, Instant};

use stoa_api::v1;
use stoa_api::v1::flow_table_server::FlowTable;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::forwarder_state::ForwarderState;
use super::service::Service;

/// How long workers may take to remove flows: they look ten times a second, and remove thousands between packets.
const DEADLINE: Duration = Duration::from_secs(5);
const STEP: Duration = Duration::from_millis(10);
/// Flows that wait for the client.
const WAITING: usize = 1_024;

#[tonic::async_trait]
impl FlowTable for Service {
    type ListFlowsStream = ReceiverStream<Result<v1::FlowState, Status>>;

    async fn list_flows(
        &self,
        request: Request<v1::ListFlowsRequest>,
    ) -> Result<Response<Self::ListFlowsStream>, Status> {
        let (sender, receiver) = tokio::sync::mpsc::channel(WAITING);
        let (service, filter) = (self.clone(), request.into_inner());
        tokio::spawn(async move { service.list_flows_to(filter, &sender).await });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn clear_flows(
        &self,
        _: Request<v1::ClearFlowsRequest>,
    ) -> Result<Response<v1::ClearFlowsReply>, Status> {
        let flows = self
            .on_control(|forwarder| {
                Ok(forwarder.state().map(ForwarderState::clear_flows).unwrap_or_default())
            })
            .await?;
        // A flow that begins after the answer stays.
        let deadline = Instant::now() + DEADLINE;
        while !self
            .on_control(|it| Ok(it.state().is_none_or(|state| state.are_flows_clear())))
            .await?
        {
            if Instant::now() > deadline {
                let text =
                    "the workers have not removed all flows yet; `stoa show flows` lists the rest";
                return Err(Status::deadline_exceeded(text));
            }
            tokio::time::sleep(STEP).await;
        }
        Ok(Response::new(v1::ClearFlowsReply { flows }))
    }
}
