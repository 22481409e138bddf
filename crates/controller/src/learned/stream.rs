//! The stream to the forwarder: messages down, replies up. It is reopened whenever it breaks.

use std::sync::Arc;
use std::time::Duration;

use stoa_api::v1;
use tokio::sync::mpsc;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;

use crate::apply::ForwarderConnection;

/// Messages that may be queued or unacknowledged.
pub const WINDOW: usize = 8;
/// Delay before the stream is opened again.
const RECONNECT_DELAY: Duration = Duration::from_millis(100);

/// What the table receives from the stream.
#[derive(Debug)]
pub enum StreamEvent {
    /// The stream is open: send everything again with this sender.
    Up(mpsc::Sender<v1::LearnedRoutes>),
    /// The forwarder has processed a message.
    Reply(v1::LearnedRoutesReply),
    /// How many routes the forwarder holds.
    Counts(Vec<v1::RouteCount>),
    /// The stream broke: nothing that was sent counts.
    Down,
}

/// Keeps a stream to the forwarder open, forever.
pub async fn run(connection: Arc<ForwarderConnection>, events: mpsc::Sender<StreamEvent>) {
    loop {
        if connection.in_sync()
            && let Err(status) = run_once(&connection, &events).await
        {
            tracing::debug!(%status, "the stream for learned routes broke");
        }
        if events.is_closed() {
            return;
        }
        tokio::time::sleep(RECONNECT_DELAY).await;
    }
}

async fn run_once(
    connection: &ForwarderConnection,
    events: &mpsc::Sender<StreamEvent>,
) -> Result<(), tonic::Status> {
    let (sender, receiver) = mpsc::channel(WINDOW);
    let replies = connection.client().learn_routes(ReceiverStream::new(receiver)).await?;
    let mut replies = replies.into_inner();
    // The receiver lives as long as the controller.
    let _ = events.send(StreamEvent::Up(sender)).await;
    let ended = loop {
        match replies.next().await {
            Some(Ok(reply)) => drop(events.send(StreamEvent::Reply(reply)).await),
            Some(Err(status)) => break Err(status),
            None => break Ok(()),
        }
    };
    let _ = events.send(StreamEvent::Down).await;
    ended
}
