//! The flows of stateful rules: those with the most bytes first, or how many there are, and which to clear.

use stoa_api::v1;
use tonic::{Response, Status};

use super::{Service, failed};
use crate::{flow_counts, flow_list};

/// The limits of flows.
const LIMITS: [&str; 2] = ["ipv4-flows", "ipv6-flows"];

impl Service {
    /// A filter whose VRF exists.
    fn checked(&self, filter: Option<v1::FlowFilter>) -> Result<v1::FlowFilter, Status> {
        let filter = filter.unwrap_or_default();
        self.check_vrf(filter.vrf.as_deref().unwrap_or_default())?;
        Ok(filter)
    }

    /// Clears the flows that a filter means.
    pub(super) async fn clear_some_flows(
        &self,
        request: v1::ClearFlowsRequest,
    ) -> Result<v1::ClearFlowsReply, Status> {
        let request = v1::ClearFlowsRequest { filter: Some(self.checked(request.filter)?) };
        let cleared = self.connection.flow_client().clear_flows(request).await;
        cleared.map(Response::into_inner).map_err(failed)
    }

    /// How many of the flows that a filter means have each state, and what became of all flows.
    pub(super) async fn flow_summary(
        &self,
        request: v1::SummarizeFlowsRequest,
    ) -> Result<v1::SummarizeFlowsReply, Status> {
        let filter = self.checked(request.filter)?;
        let states = flow_counts::read(&self.connection, filter).await.map_err(failed)?;
        let listed = self.connection.client().list_limits(v1::ListLimitsRequest {}).await;
        let v1::ListLimitsReply { mut limits, flows, algs } = listed.map_err(failed)?.into_inner();
        limits.retain(|limit| LIMITS.contains(&limit.name.as_str()));
        Ok(v1::SummarizeFlowsReply { states, families: flows, limits, algs })
    }

    /// The flows that meet a filter.
    pub(super) async fn flows(
        &self,
        request: v1::ShowFlowsRequest,
    ) -> Result<v1::ShowFlowsReply, Status> {
        let filter = self.checked(request.filter)?;
        let listed = flow_list::first(&self.connection, filter, request.at_most as usize).await;
        listed.map_err(failed)
    }
}
