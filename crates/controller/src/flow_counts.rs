//! How many flows of stateful rules have each state, added up from the parts that the forwarder counts.

use std::collections::BTreeMap;

use stoa_api::{flow, v1};
use tonic::Status;

use crate::apply::ForwarderConnection;

/// The counts of the flows that a filter means, by family and in the order of [`flow::STATES`].
///
/// # Errors
/// Those of the forwarder.
pub(crate) async fn read(
    connection: &ForwarderConnection,
    filter: v1::FlowFilter,
) -> Result<Vec<v1::FlowCount>, Status> {
    let mut parts = connection.flow_client().count_flows(filter).await?.into_inner();
    let mut all = Vec::new();
    while let Some(part) = parts.message().await? {
        all.push(part);
    }
    Ok(sum(all))
}

fn sum(parts: Vec<v1::FlowCount>) -> Vec<v1::FlowCount> {
    let mut all: BTreeMap<(u32, usize), v1::FlowCount> = BTreeMap::new();
    for part in parts {
        let at = flow::STATES.iter().position(|state| *state == part.state);
        let empty = v1::FlowCount { flows: 0, suspended: 0, ..part.clone() };
        let of_state = all.entry((part.family, at.unwrap_or(usize::MAX))).or_insert(empty);
        of_state.flows += part.flows;
        of_state.suspended += part.suspended;
    }
    all.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_added_by_family_and_state() {
        let count = |family, state: &str, flows, suspended| v1::FlowCount {
            family,
            state: state.to_owned(),
            flows,
            suspended,
        };
        let parts = vec![
            count(6, "icmp", 1, 0),
            count(4, "udp-new", 2, 1),
            count(4, "tcp-opening", 3, 0),
            count(4, "udp-new", 40, 10),
        ];
        let all =
            [count(4, "tcp-opening", 3, 0), count(4, "udp-new", 42, 11), count(6, "icmp", 1, 0)];
        assert_eq!(sum(parts), all);
    }
}
