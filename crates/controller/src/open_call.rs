//! What tasks wait for that own a call to the forwarder and open it again whenever it breaks.

use tokio::task::JoinHandle;
use tonic::{Status, Streaming};

/// The next message of a call; never without one.
pub(crate) async fn next_reply<T>(replies: Option<&mut Streaming<T>>) -> Result<Option<T>, Status> {
    match replies {
        Some(replies) => replies.message().await,
        None => std::future::pending().await,
    }
}

/// The call that is being opened; never without one.
pub(crate) async fn opened<C>(
    opening: &mut Option<JoinHandle<Result<C, Status>>>,
) -> Result<C, Status> {
    match opening {
        Some(task) => {
            task.await.unwrap_or_else(|_| Err(Status::unavailable("the controller ends")))
        }
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn nothing_comes_without_a_call() {
        let mut opening: Option<JoinHandle<Result<u8, Status>>> = None;
        let both = async {
            tokio::select! {
                _ = next_reply::<u8>(None) => {}
                _ = opened(&mut opening) => {}
            }
        };
        assert!(tokio::time::timeout(Duration::from_millis(20), both).await.is_err());
        opening = Some(tokio::spawn(async { Ok(7) }));
        assert_eq!(opened(&mut opening).await.unwrap(), 7);
        let task = tokio::spawn(std::future::pending());
        task.abort();
        assert_eq!(
            opened::<u8>(&mut Some(task)).await.unwrap_err().message(),
            "the controller ends"
        );
    }
}
