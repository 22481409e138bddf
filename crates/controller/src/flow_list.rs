//! The first flows of those that a filter means, whatever the size of the flow tables: for commands and operations.

use stoa_api::flow::keep_first;
use stoa_api::v1;
use tonic::Status;

use crate::apply::ForwarderConnection;

/// Rows of a list, at most.
const ROWS: usize = 100_000;

/// The first `at_most` flows in the order of the filter, and how many flows it means.
///
/// # Errors
/// Those of the forwarder.
pub(crate) async fn first(
    connection: &ForwarderConnection,
    filter: v1::FlowFilter,
    at_most: usize,
) -> Result<v1::ShowFlowsReply, Status> {
    let (at_most, order) = (at_most.clamp(1, ROWS), filter.order());
    // The forwarder sends no more of each part of its tables.
    let filter = v1::FlowFilter { at_most: u32::try_from(at_most).unwrap_or(u32::MAX), ..filter };
    let mut listed = connection.flow_client().list_flows(filter).await?.into_inner();
    let (mut flows, mut matching) = (Vec::new(), 0);
    while let Some(mut flow) = listed.message().await? {
        matching += 1 + std::mem::take(&mut flow.left_out);
        flows.push(flow);
        // Memory for the rows of the reply, and as much again.
        if flows.len() > 2 * at_most.max(1024) {
            keep_first(&mut flows, at_most, order);
        }
    }
    keep_first(&mut flows, at_most, order);
    Ok(v1::ShowFlowsReply { flows, matching })
}
