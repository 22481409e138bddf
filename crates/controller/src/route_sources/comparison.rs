//! Questions to a route source: whoever audits has it compare, and waits for the answer.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};

/// Questions that may wait for one route source.
const MAX_PENDING: usize = 64;

/// What a route source found when it compared what it had told with what is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ComparisonResult {
    /// Prefixes that are there and lead somewhere.
    pub routes: u64,
    /// Prefixes that the table of learned routes had of the route source when it had heard exactly these; `None`: it did not say in time.
    pub held: Option<u64>,
    /// Prefixes that were not as they had been told. They were told again.
    pub different: u64,
    /// Whether everything was seen: it changes all the time when not.
    pub is_complete: bool,
}

/// Somebody who waits for an answer.
#[derive(Debug)]
pub struct ComparisonRequest {
    /// Whether everything is to be told again, too.
    pub resend_all: bool,
    reply: oneshot::Sender<ComparisonResult>,
}

impl ComparisonRequest {
    /// Answers; who asked may have gone away.
    pub fn reply(self, compared: ComparisonResult) {
        let _ = self.reply.send(compared);
    }
}

/// Those who wait at a route source.
#[derive(Debug, Default)]
pub struct ComparisonRequests {
    pending: Mutex<Vec<ComparisonRequest>>,
    added: Notify,
}

impl ComparisonRequests {
    /// Asks, and waits for the answer; `None`: there is none in time, because the route source is busy or not open.
    pub async fn request(&self, resend_all: bool, timeout: Duration) -> Option<ComparisonResult> {
        let (reply, received) = oneshot::channel();
        {
            let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
            pending.retain(|requests| !requests.reply.is_closed());
            if pending.len() >= MAX_PENDING {
                return None;
            }
            pending.push(ComparisonRequest { resend_all, reply });
        }
        self.added.notify_one();
        tokio::time::timeout(timeout, received).await.ok()?.ok()
    }

    /// Waits until somebody asks, and gives all who do.
    pub async fn next_requests(&self) -> Vec<ComparisonRequest> {
        loop {
            let added = self.added.notified();
            let mut requests = {
                let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
                std::mem::take(&mut *pending)
            };
            requests.retain(|requests| !requests.reply.is_closed());
            if !requests.is_empty() {
                return requests;
            }
            added.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_who_ask_are_answered_together_and_who_went_away_is_not() {
        let comparison_requests = ComparisonRequests::default();
        // Nobody answers: that is said in time, and the question is forgotten.
        assert_eq!(comparison_requests.request(false, Duration::from_millis(1)).await, None);
        let found = ComparisonResult { routes: 7, held: Some(7), different: 1, is_complete: true };
        let timeout = Duration::from_secs(30);
        let route_source = async {
            let requests = comparison_requests.next_requests().await;
            assert!(requests.len() == 2 && requests[1].resend_all);
            requests.into_iter().for_each(|requests| requests.reply(found));
        };
        let (one, two, ()) = tokio::join!(
            comparison_requests.request(false, timeout),
            comparison_requests.request(true, timeout),
            route_source
        );
        assert_eq!((one, two), (Some(found), Some(found)));
    }
}
