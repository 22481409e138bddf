//! Inactive routes, read page by page as the client takes them.

use std::collections::BTreeSet;
use std::sync::Arc;

use stoa_api::v1;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use crate::learned::{Learned, Query};
use crate::rib;

/// Length of the queue to the client.
const QUEUE_LENGTH: usize = 256;

/// The inactive routes of a request: first the static ones that the forwarder withdrew, then those of route sources.
/// The search stops when the client does.
pub(super) fn stream(
    learned: &Learned,
    bfd_down: Option<Streaming<v1::RouteState>>,
    request: &v1::ListRoutesRequest,
) -> ReceiverStream<Result<v1::RouteState, Status>> {
    let covers = request.longest_match.as_ref().and_then(crate::prefix::prefix_from_proto);
    let mut query = Query {
        vrf: (request.vrf != "all").then(|| request.vrf.as_str().into()),
        family: request.family,
        within: request.within.as_ref().and_then(crate::prefix::prefix_from_proto),
        covers: covers.map(|net| net.addr()),
        protocol: request.protocol.map(|_| request.protocol()),
        ..Query::default()
    };
    let (sender, receiver) = mpsc::channel(QUEUE_LENGTH);
    let learned = learned.clone();
    tokio::spawn(async move {
        let (mut bfd_down, mut out) = (bfd_down, BTreeSet::new());
        // Without a reply of the forwarder, those of route sources are still sent.
        while let Some(stream) = &mut bfd_down
            && let Some(Ok(state)) = stream.next().await
        {
            out.extend(rib::key_of(&state));
            if sender.send(Ok(state)).await.is_err() {
                return;
            }
        }
        query.bfd_down = Arc::new(out);
        let mut inactive = learned.inactive(query);
        while let Some(page) = inactive.next().await {
            for state in page {
                if sender.send(Ok(state)).await.is_err() {
                    return;
                }
            }
        }
    });
    ReceiverStream::new(receiver)
}
