//! The export over the contract.

use stoa_api::v1;
use stoa_api::v1::ipfix_exporter_server::IpfixExporter;
use tonic::{Request, Response, Status};

use crate::control::forwarder_state::ForwarderState;
use crate::control::service::Service;

#[tonic::async_trait]
impl IpfixExporter for Service {
    async fn list_ipfix(
        &self,
        _: Request<v1::ListIpfixRequest>,
    ) -> Result<Response<v1::ListIpfixReply>, Status> {
        self.read(ForwarderState::ipfix).await.map(Response::new)
    }
}
