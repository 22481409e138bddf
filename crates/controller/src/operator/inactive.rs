//! Routes that are not in use, as operators ask for them: page by page, as they take them.

use stoa_api::v1;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use crate::learned::{Learned, Query};
use crate::rib;

/// Routes that wait to be taken.
const WAITING: usize = 256;

/// All that a request asks for. Nothing is looked for that nobody takes.
pub(super) fn stream(
    learned: &Learned,
    request: &v1::ListRoutesRequest,
) -> ReceiverStream<Result<v1::RouteState, Status>> {
    let covers = request.longest_match.as_ref().and_then(rib::net);
    let query = Query {
        vrf: (request.vrf != "all").then(|| request.vrf.as_str().into()),
        family: request.family,
        within: request.within.as_ref().and_then(rib::net),
        covers: covers.map(|net| net.addr()),
    };
    let (sender, receiver) = mpsc::channel(WAITING);
    let learned = learned.clone();
    tokio::spawn(async move {
        let mut after = None;
        loop {
            let page = learned.inactive(query.clone(), after).await;
            for state in page.routes {
                if sender.send(Ok(state)).await.is_err() {
                    return;
                }
            }
            after = page.next;
            if after.is_none() {
                return;
            }
        }
    });
    ReceiverStream::new(receiver)
}
