//! The flows of stateful rules: those with the most bytes first, or how many there are, and which to clear.

use std::cmp::Reverse;

use stoa_api::v1;
use tonic::{Response, Status};

use super::{Service, failed};
use crate::flow_counts;

/// Rows of a reply, at most.
const ROWS: usize = 100_000;

/// Bytes of both directions.
fn bytes(flow: &v1::FlowState) -> u64 {
    flow.bytes + flow.reply_bytes
}

/// The first `at_most` flows, by bytes.
fn top(flows: &mut Vec<v1::FlowState>, at_most: usize) {
    flows.sort_by_key(|flow| Reverse(bytes(flow)));
    flows.truncate(at_most);
}

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
        let at_most = (request.at_most as usize).min(ROWS);
        let filter = self.checked(request.filter)?;
        let listed = self.connection.flow_client().list_flows(filter).await.map_err(failed)?;
        let (mut listed, mut flows, mut matching) = (listed.into_inner(), Vec::new(), 0);
        while let Some(flow) = listed.message().await.map_err(failed)? {
            matching += 1;
            flows.push(flow);
            // Memory for the rows of the reply, and as much again.
            if flows.len() > 2 * at_most.max(1024) {
                top(&mut flows, at_most);
            }
        }
        top(&mut flows, at_most);
        Ok(v1::ShowFlowsReply { flows, matching })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_with_the_most_bytes_come_first() {
        let flow =
            |bytes, reply_bytes| v1::FlowState { bytes, reply_bytes, ..v1::FlowState::default() };
        let mut flows = vec![flow(5, 0), flow(1, 9), flow(0, 7), flow(2, 2)];
        top(&mut flows, 2);
        assert_eq!(flows, [flow(1, 9), flow(0, 7)]);
    }
}
