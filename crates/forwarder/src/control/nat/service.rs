//! Address translation over the contract.

use stoa_api::v1;
use stoa_api::v1::nat_table_server::NatTable;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::listing::NatUse;
use super::whois::is_about_blocks;
use crate::control::forwarder_state::ForwarderState;
use crate::control::service::Service;

/// Mappings that wait for the client.
const WAITING: usize = 1_024;

#[tonic::async_trait]
impl NatTable for Service {
    type ListNatBlocksStream = ReceiverStream<Result<v1::NatBlock, Status>>;
    type ListNatMappingsStream = ReceiverStream<Result<v1::NatDynamicMapping, Status>>;

    async fn list_nat(
        &self,
        _: Request<v1::ListNatRequest>,
    ) -> Result<Response<v1::ListNatReply>, Status> {
        let (mut sum, mut next) = (NatUse::default(), Some((false, 0)));
        // Page by page, so that large tables do not delay other work.
        while let Some(from) = next {
            let add = move |state: &mut ForwarderState| (state.add_nat_use(from, &mut sum), sum);
            let Some((after, added)) = self.on_state(add).await? else {
                return Ok(Response::new(v1::ListNatReply::default()));
            };
            (next, sum) = (after, added);
        }
        let reply = self.on_state(move |state| state.list_nat(&sum)).await?;
        Ok(Response::new(reply.unwrap_or_default()))
    }

    async fn list_nat_mappings(
        &self,
        request: Request<v1::NatMappingFilter>,
    ) -> Result<Response<Self::ListNatMappingsStream>, Status> {
        let filter = request.into_inner();
        let of_check = filter.clone();
        let checked = self.on_state(move |state| state.check_nat_filter(&of_check)).await?;
        checked.unwrap_or(Ok(())).map_err(Status::invalid_argument)?;
        let (sender, receiver) = tokio::sync::mpsc::channel(WAITING);
        let service = self.clone();
        tokio::spawn(async move { service.list_nat_mappings_to(filter, &sender).await });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn nat_whois(
        &self,
        request: Request<v1::NatWhoisRequest>,
    ) -> Result<Response<v1::NatWhoisReply>, Status> {
        let request = request.into_inner();
        let of_users = request.clone();
        let found = self.on_state(move |state| state.nat_users(&of_users)).await?;
        let mut users = found.unwrap_or(Ok(Vec::new())).map_err(Status::invalid_argument)?;
        let mut next = Some(0);
        while let Some(first) = next {
            let of_page = request.clone();
            let add = move |state: &mut ForwarderState| {
                let next = match is_about_blocks(&of_page) {
                    true => state.add_nat_blocks(&of_page, first, &mut users),
                    false => state.add_nat_flows(&of_page, first, &mut users),
                };
                (next, users)
            };
            let Some((after, added)) = self.on_state(add).await? else {
                return Ok(Response::new(v1::NatWhoisReply::default()));
            };
            (next, users) = (after, added);
        }
        let since = self.on_state(|state| state.nat_known_since()).await?;
        let known_since_unix_s = since.unwrap_or(0);
        Ok(Response::new(v1::NatWhoisReply { users, known_since_unix_s }))
    }

    async fn list_nat_blocks(
        &self,
        request: Request<v1::NatBlockFilter>,
    ) -> Result<Response<Self::ListNatBlocksStream>, Status> {
        let filter = request.into_inner();
        let (sender, receiver) = tokio::sync::mpsc::channel(WAITING);
        let service = self.clone();
        tokio::spawn(async move { service.list_nat_blocks_to(filter, &sender).await });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn list_nat_block_events(
        &self,
        request: Request<v1::ListNatBlockEventsRequest>,
    ) -> Result<Response<v1::ListNatBlockEventsReply>, Status> {
        let request = request.into_inner();
        let listed = self.on_state(move |state| state.nat_block_events(request)).await?;
        Ok(Response::new(listed.unwrap_or_default()))
    }
}

impl Service {
    /// Asks the forwarder; `None`: it has no configuration yet.
    pub(in crate::control) async fn on_state<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&mut ForwarderState) -> T + Send + 'static,
    ) -> Result<Option<T>, Status> {
        self.on_control(move |forwarder| Ok(forwarder.state().map(ask))).await
    }
}

#[cfg(test)]
mod tests;
