//! Requests to a netlink route source to compare its table, and their results.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};

/// Maximum pending requests of a route source.
const MAX_PENDING: usize = 64;

/// The result of a comparison of a kernel table with what was announced from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ComparisonResult {
    /// Prefixes in the kernel that are forwarded.
    pub routes: u64,
    /// Prefixes that the table of learned routes held after processing exactly these announcements; `None`:
    /// it did not reply in time.
    pub held: Option<u64>,
    /// Prefixes that differed. They were announced again.
    pub different: u64,
    /// Whether the comparison was complete; it is not while the table keeps changing.
    pub is_complete: bool,
}

/// A request.
#[derive(Debug)]
pub struct ComparisonRequest {
    /// Whether to send all routes again.
    pub resend_all: bool,
    reply: oneshot::Sender<ComparisonResult>,
}

impl ComparisonRequest {
    /// Replies; the requester may have given up.
    pub fn reply(self, compared: ComparisonResult) {
        let _ = self.reply.send(compared);
    }
}

/// The pending requests of a route source.
#[derive(Debug, Default)]
pub struct ComparisonRequests {
    pending: Mutex<Vec<ComparisonRequest>>,
    added: Notify,
}

impl ComparisonRequests {
    /// Requests a comparison and waits for the result; `None`: it did not arrive in time, because the route
    /// source is busy or not open.
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

    /// Waits for requests, and takes all of them.
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
    async fn pending_requests_get_one_reply_each() {
        let comparison_requests = ComparisonRequests::default();
        // Without a reply the request times out and is dropped.
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
