//! The flows of stateful rules over the contract.

use stoa_api::v1;
use stoa_api::v1::flow_table_server::FlowTable;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::forwarder_state::ForwarderState;
use super::service::Service;

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
        Ok(Response::new(v1::ClearFlowsReply { flows }))
    }
}
