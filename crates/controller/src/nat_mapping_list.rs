//! The oldest dynamic mappings of those that a filter means: for commands and operations.

use stoa_api::nat::keep_oldest;
use stoa_api::v1;
use tonic::Status;

use crate::apply::ForwarderConnection;

/// Rows of a list, at most.
const ROWS: usize = 100_000;

/// The oldest `at_most` mappings, and how many the filter means.
///
/// # Errors
/// Those of the forwarder.
pub(crate) async fn oldest(
    connection: &ForwarderConnection,
    filter: v1::NatMappingFilter,
    at_most: usize,
) -> Result<v1::ShowNatMappingsReply, Status> {
    let at_most = at_most.clamp(1, ROWS);
    // The forwarder sends no more of each part of its table.
    let at_most_each = u32::try_from(at_most).unwrap_or(u32::MAX);
    let filter = v1::NatMappingFilter { at_most: at_most_each, ..filter };
    let mut listed = connection.nat_client().list_nat_mappings(filter).await?.into_inner();
    let (mut mappings, mut matching) = (Vec::new(), 0);
    while let Some(mut mapping) = listed.message().await? {
        matching += 1 + std::mem::take(&mut mapping.left_out);
        mappings.push(mapping);
        // Memory for the rows of the reply, and as much again.
        if mappings.len() > 2 * at_most.max(1024) {
            keep_oldest(&mut mappings, at_most);
        }
    }
    keep_oldest(&mut mappings, at_most);
    Ok(v1::ShowNatMappingsReply { mappings, matching })
}
