//! What the forwarder lists, as operators see it: interfaces, the export by IPFIX, flows at a partner, security
//! associations, and state as YANG data.

use stoa_api::text::by_number;
use stoa_api::v1;
use tonic::{Response, Status};

use super::Service;
use crate::call_error::failed;
use crate::state;

impl Service {
    /// The interfaces in their order, with counters since they were cleared.
    pub(super) async fn interfaces(
        &self,
        request: v1::ListInterfacesRequest,
    ) -> Result<Response<v1::ListInterfacesReply>, Status> {
        let listed = self.connection.client().list_interfaces(request).await;
        let mut reply = listed.map_err(failed)?;
        let interfaces = &mut reply.get_mut().interfaces;
        self.cleared.subtract(interfaces);
        interfaces.sort_by(|one, other| by_number(&one.name, &other.name));
        Ok(reply)
    }

    /// The export by IPFIX; nothing where nothing is exported.
    pub(super) async fn ipfix(&self) -> Result<Response<v1::ListIpfixReply>, Status> {
        if !self.connection.exports() {
            return Ok(Response::new(v1::ListIpfixReply::default()));
        }
        let listed = self.connection.ipfix_client().list_ipfix(v1::ListIpfixRequest {}).await;
        listed.map_err(failed)
    }

    /// Flows at a partner; nothing where there is none.
    pub(super) async fn flow_sync(&self) -> Result<Response<v1::ListFlowSyncReply>, Status> {
        if !self.connection.has_partner() {
            return Ok(Response::new(v1::ListFlowSyncReply::default()));
        }
        self.connection.list_flow_sync().await.map(Response::new).map_err(failed)
    }

    /// Security associations of the configuration.
    pub(super) async fn associations(&self) -> Result<Response<v1::ListSasReply>, Status> {
        let listed = self.connection.list_associations().await.map_err(failed)?;
        Ok(Response::new(listed.unwrap_or_default()))
    }

    /// The crypto engines of the forwarder.
    pub(super) async fn crypto_engines(&self) -> Result<Response<v1::ListCryptoReply>, Status> {
        let mut client = self.connection.ipsec_client();
        client.list_crypto(v1::ListCryptoRequest {}).await.map_err(failed)
    }

    /// The state at a path, as YANG data.
    pub(super) async fn state_data(
        &self,
        request: v1::ShowStateRequest,
    ) -> Result<v1::ShowStateReply, Status> {
        let v1::ShowStateRequest { path, routes } = request;
        let json = state::json(&self.connection, &path, routes.map(|routes| routes as usize)).await;
        let json = json.map_err(|error| match error {
            state::Error::Unreachable(status) => failed(status),
            state::Error::NotFound(_) => Status::not_found(error.to_string()),
            state::Error::Model(_) => Status::internal(error.to_string()),
        })?;
        Ok(v1::ShowStateReply { json })
    }
}
