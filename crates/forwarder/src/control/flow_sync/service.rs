//! Flows at a partner over the contract.

use stoa_api::v1;
use stoa_api::v1::flow_synchronizer_server::FlowSynchronizer;
use tonic::{Request, Response, Status};

use crate::control::forwarder_state::ForwarderState;
use crate::control::service::Service;

#[tonic::async_trait]
impl FlowSynchronizer for Service {
    async fn list_flow_sync(
        &self,
        _: Request<v1::ListFlowSyncRequest>,
    ) -> Result<Response<v1::ListFlowSyncReply>, Status> {
        self.read(ForwarderState::flow_sync).await.map(Response::new)
    }
}
