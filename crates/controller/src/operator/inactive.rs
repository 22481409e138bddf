//! Routes that are not in use, as operators ask for them: page by page, as they take them.

use std::collections::BTreeSet;
use std::sync::Arc;

use stoa_api::v1;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use crate::learned::{Learned, Query};
use crate::rib;

/// Routes that wait to be taken.
const WAITING: usize = 256;

/// All that a request asks for: first the static ones that the forwarder has taken out, if there is one, then those of route sources. Nothing is
/// looked for that nobody takes.
pub(super) fn stream(
    learned: &Learned,
    bfd_down: Option<Streaming<v1::RouteState>>,
    request: &v1::ListRoutesRequest,
) -> ReceiverStream<Result<v1::RouteState, Status>> {
    let covers = request.longest_match.as_ref().and_then(rib::prefix_from_proto);
    let mut query = Query {
        vrf: (request.vrf != "all").then(|| request.vrf.as_str().into()),
        family: request.family,
        within: request.within.as_ref().and_then(rib::prefix_from_proto),
        covers: covers.map(|net| net.addr()),
        protocol: request.protocol.map(|_| request.protocol()),
        ..Query::default()
    };
    let (sender, receiver) = mpsc::channel(WAITING);
    let learned = learned.clone();
    tokio::spawn(async move {
        let (mut bfd_down, mut out) = (bfd_down, BTreeSet::new());
        // One that breaks off has ended: what route sources have is told.
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
