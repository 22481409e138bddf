//! The flows of stateful rules: those with the most bytes first.

use std::cmp::Reverse;

use stoa_api::v1;
use tonic::Status;

use super::{Service, failed};

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

impl Service {
    /// The flows that meet a filter.
    pub(super) async fn flows(
        &self,
        request: v1::ShowFlowsRequest,
    ) -> Result<v1::ShowFlowsReply, Status> {
        let at_most = (request.at_most as usize).min(ROWS);
        let filter = request.filter.unwrap_or_default();
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
