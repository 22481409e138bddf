//! The flows of stateful rules over the contract.

use std::time::{Duration, Instant};

use stoa_api::v1;
use stoa_api::v1::flow_table_server::FlowTable;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::forwarder_state::ForwarderState;
use super::paging::First;
use super::service::Service;
use crate::flow::selection::Selection;

/// How long workers may take to remove flows: they look ten times a second, and remove thousands between packets.
const DEADLINE: Duration = Duration::from_secs(5);
const STEP: Duration = Duration::from_millis(10);
/// Flows that wait for the client.
const WAITING: usize = 1_024;

#[tonic::async_trait]
impl FlowTable for Service {
    type ListFlowsStream = ReceiverStream<Result<v1::FlowState, Status>>;
    type CountFlowsStream = ReceiverStream<Result<v1::FlowCount, Status>>;

    async fn list_flows(
        &self,
        request: Request<v1::FlowFilter>,
    ) -> Result<Response<Self::ListFlowsStream>, Status> {
        let filter = request.into_inner();
        let first = First { at_most: filter.at_most as usize, order: filter.order() };
        let selection = self.selection(filter).await?;
        let (sender, receiver) = tokio::sync::mpsc::channel(WAITING);
        let service = self.clone();
        tokio::spawn(async move { service.list_flows_to(selection, first, &sender).await });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn count_flows(
        &self,
        request: Request<v1::FlowFilter>,
    ) -> Result<Response<Self::CountFlowsStream>, Status> {
        let selection = self.selection(request.into_inner()).await?;
        let (sender, receiver) = tokio::sync::mpsc::channel(WAITING);
        let service = self.clone();
        tokio::spawn(async move { service.count_flows_to(selection, &sender).await });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn clear_flows(
        &self,
        request: Request<v1::ClearFlowsRequest>,
    ) -> Result<Response<v1::ClearFlowsReply>, Status> {
        let filter = request.into_inner().filter.unwrap_or_default();
        let selection = self.selection(filter).await?;
        let deadline = Instant::now() + DEADLINE;
        // How many flows had been cleared before; `None`: others are being cleared.
        let begin = move |state: &mut ForwarderState| {
            let before = state.cleared_flows();
            state.clear_flows(&selection).then_some(before)
        };
        let before = self.await_some(deadline, begin).await?;
        // A flow that begins after the answer stays.
        let end = |state: &mut ForwarderState| {
            let cleared = state.cleared_flows();
            state.are_flows_clear().then_some(cleared)
        };
        let flows = self.await_some(deadline, end).await?.saturating_sub(before);
        Ok(Response::new(v1::ClearFlowsReply { flows }))
    }
}

impl Service {
    /// The flows that a filter means.
    async fn selection(&self, filter: v1::FlowFilter) -> Result<Selection, Status> {
        self.on_control(move |forwarder| match forwarder.state() {
            Some(state) => state.flow_selection(&filter).map_err(Status::invalid_argument),
            None => Ok(Selection::default()),
        })
        .await
    }

    /// Asks again and again until there is an answer. Before the first configuration, it is 0.
    async fn await_some(
        &self,
        deadline: Instant,
        ask: impl Fn(&mut ForwarderState) -> Option<u64> + Copy + Send + 'static,
    ) -> Result<u64, Status> {
        loop {
            if let Some(answer) =
                self.on_control(move |it| Ok(it.state().map_or(Some(0), ask))).await?
            {
                return Ok(answer);
            }
            if Instant::now() > deadline {
                let text =
                    "the workers have not removed all flows yet; `stoa show flows` lists the rest";
                return Err(Status::deadline_exceeded(text));
            }
            tokio::time::sleep(STEP).await;
        }
    }
}
