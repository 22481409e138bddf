//! Messages in sealed frames: each is a JSON value.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use stoa_seal::{FRAME_MAX, HELLO, Handshake, Opener, Protocol, Refusal, Sealer, frame_length};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;

use crate::login::sessions::partner::Message;

/// How long an end may send nothing, or take nothing.
pub(super) const SILENCE: Duration = Duration::from_secs(10);
/// What both ends speak.
pub(super) const PROTOCOL: Protocol = Protocol { name: *b"stoalogn", version: 1 };
/// Bytes of messages after which a frame is sealed.
const BATCH: usize = FRAME_MAX / 2;

/// Why a connection is over.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The system says so.
    #[error("{0}")]
    System(#[from] io::Error),
    /// The partner has closed it.
    #[error("the partner has closed the connection")]
    Closed,
    /// The partner has another secret or version.
    #[error("{0}")]
    Refused(#[from] Refusal),
    /// The partner has closed it before it has proven that it knows the secret.
    #[error("the partner has refused the connection: compare the secrets of both")]
    Refuses,
    /// The partner sends what is none of the protocol.
    #[error("the partner sends what is no login")]
    Malformed,
    /// Another host has connected.
    #[error("{0} has connected, which is not the partner")]
    OtherHost(IpAddr),
    /// It has sent nothing for too long, or taken nothing.
    #[error("the partner does not answer")]
    Silent,
}

impl Error {
    /// Whether one of the ends was refused.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::Malformed | Self::OtherHost(_) | Self::Refuses)
    }
}

/// A connection whose other end knows the secret, and its first messages.
pub(super) type Opened = (Frames<OwnedReadHalf>, Writer<OwnedWriteHalf>, Vec<Message>);

/// Exchanges hellos, and proofs that both know the secret. `connects`: this end has begun the connection.
pub(super) async fn open(
    mut stream: TcpStream,
    secret: &str,
    connects: bool,
) -> Result<Opened, Error> {
    let handshake = Handshake::new(PROTOCOL);
    let handshake = handshake.ok_or_else(|| io::Error::other("no random numbers"))?;
    stream.write_all(handshake.hello()).await?;
    let mut hello = [0; HELLO];
    stream.read_exact(&mut hello).await?;
    let (sealer, opener) = handshake.finish(&hello, secret, connects)?;
    let (stream, sink) = stream.into_split();
    let (mut frames, mut writer) =
        (Frames { stream, opener, incoming: Vec::new() }, Writer { sink, sealer });
    // Who can read no frame cannot know what it was: nothing else is sent before the other end has proven itself.
    writer.send([Message::Alive { ends: 0 }]).await?;
    let first = frames.next().await.map_err(|error| match error {
        Error::Closed => Error::Refuses,
        Error::System(error) if error.kind() == io::ErrorKind::ConnectionReset => Error::Refuses,
        error => error,
    })?;
    Ok((frames, writer, first))
}

/// Messages of the other end.
pub(super) struct Frames<S> {
    stream: S,
    opener: Opener,
    incoming: Vec<u8>,
}

impl<S: AsyncRead + Unpin> Frames<S> {
    /// The messages of the next frame.
    ///
    /// # Errors
    /// The connection is over.
    pub(super) async fn next(&mut self) -> Result<Vec<Message>, Error> {
        loop {
            if let Some(length) = frame_length(&self.incoming)?
                && let Some(frame) = self.incoming.get_mut(..length)
            {
                let messages = serde_json::Deserializer::from_slice(self.opener.open(frame)?);
                // The words of the error would repeat those of the partner.
                let messages: Result<_, _> = messages.into_iter().collect();
                let messages = messages.map_err(|_: serde_json::Error| Error::Malformed)?;
                self.incoming.drain(..length);
                return Ok(messages);
            }
            if self.stream.read_buf(&mut self.incoming).await? == 0 {
                return Err(Error::Closed);
            }
        }
    }
}

/// Sends messages to the other end.
pub(super) struct Writer<S> {
    sink: S,
    sealer: Sealer,
}

impl<S: AsyncWrite + Unpin> Writer<S> {
    /// Sends messages, as soon as the other end takes them.
    ///
    /// # Errors
    /// The connection is over.
    pub(super) async fn send(
        &mut self,
        messages: impl IntoIterator<Item = Message>,
    ) -> Result<(), Error> {
        let (mut items, mut sealed) = (Vec::new(), Vec::new());
        for message in messages {
            let item = serde_json::to_vec(&message).map_err(io::Error::other)?;
            if items.len() + item.len() > BATCH && !items.is_empty() {
                self.sealer.seal(&items, &mut sealed)?;
                items.clear();
            }
            items.extend(item);
        }
        if !items.is_empty() {
            self.sealer.seal(&items, &mut sealed)?;
        }
        timeout(SILENCE, self.sink.write_all(&sealed)).await.map_err(|_| Error::Silent)??;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
