//! The stream to the forwarder: messages down, answers up, and a new stream whenever it breaks.

use std::sync::Arc;
use std::time::Duration;

use stoa_api::v1;
use tokio::sync::mpsc;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;

use crate::apply::Line;

/// Messages that wait to be sent: as many as may be under way.
pub const WINDOW: usize = 8;
/// Pause before the forwarder is called again.
const AGAIN: Duration = Duration::from_millis(100);

/// What the table hears of the line.
#[derive(Debug)]
pub enum Heard {
    /// A stream stands: say everything anew by this.
    Up(mpsc::Sender<v1::LearnedRoutes>),
    /// The forwarder has done what a message says.
    Answer(v1::LearnedRoutesReply),
    /// How many routes the forwarder holds.
    Counts(Vec<v1::RouteCount>),
    /// The stream broke: nothing that was said counts.
    Down,
}

/// Keeps a stream to the forwarder for ever.
pub async fn keep(line: Arc<Line>, heard: mpsc::Sender<Heard>) {
    loop {
        if line.in_sync()
            && let Err(status) = one(&line, &heard).await
        {
            tracing::debug!(%status, "the line for learned routes broke");
        }
        if heard.is_closed() {
            return;
        }
        tokio::time::sleep(AGAIN).await;
    }
}

async fn one(line: &Line, heard: &mpsc::Sender<Heard>) -> Result<(), tonic::Status> {
    let (sender, receiver) = mpsc::channel(WINDOW);
    let answers = line.client().learn_routes(ReceiverStream::new(receiver)).await?;
    let mut answers = answers.into_inner();
    // Who listens lives as long as the controller.
    let _ = heard.send(Heard::Up(sender)).await;
    let ended = loop {
        match answers.next().await {
            Some(Ok(answer)) => drop(heard.send(Heard::Answer(answer)).await),
            Some(Err(status)) => break Err(status),
            None => break Ok(()),
        }
    };
    let _ = heard.send(Heard::Down).await;
    ended
}
