//! Messages in sealed frames: each is a JSON value.

use std::io;
use std::net::IpAddr;

use stoa_seal::{FRAME_MAX, HELLO, Handshake, Opener, Protocol, Refusal, Sealer, frame_length};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;

use super::SILENCE;
use crate::login::sessions::partner::Message;

/// What both ends speak.
const PROTOCOL: Protocol = Protocol { name: *b"stoalogn", version: 1 };
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
    /// The partner sends what is none of the protocol.
    #[error("the partner sends what is no login: {0}")]
    Malformed(#[from] serde_json::Error),
    /// Another host has connected.
    #[error("{0} has connected, which is not the partner")]
    Stranger(IpAddr),
    /// It has sent nothing for too long, or taken nothing.
    #[error("the partner does not answer")]
    Silent,
}

impl Error {
    /// Whether this router has refused the other end.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::Malformed(_) | Self::Stranger(_))
    }
}

/// Says hello, and hears that of the other end. `connects`: this end has begun the connection.
pub(super) async fn open(
    mut stream: TcpStream,
    secret: &str,
    connects: bool,
) -> Result<(Frames<OwnedReadHalf>, Writer<OwnedWriteHalf>), Error> {
    let handshake = Handshake::new(PROTOCOL);
    let handshake = handshake.ok_or_else(|| io::Error::other("no random numbers"))?;
    stream.write_all(handshake.hello()).await?;
    let mut hello = [0; HELLO];
    stream.read_exact(&mut hello).await?;
    let (sealer, opener) = handshake.finish(&hello, secret, connects)?;
    let (stream, sink) = stream.into_split();
    Ok((Frames { stream, opener, incoming: Vec::new() }, Writer { sink, sealer }))
}

/// What the other end says.
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
                let messages = messages.into_iter().collect::<Result<_, _>>();
                self.incoming.drain(..length);
                return Ok(messages?);
            }
            if self.stream.read_buf(&mut self.incoming).await? == 0 {
                return Err(Error::Closed);
            }
        }
    }
}

/// Says something to the other end.
pub(super) struct Writer<S> {
    sink: S,
    sealer: Sealer,
}

impl<S: AsyncWrite + Unpin> Writer<S> {
    /// Sends messages, as soon as the other end takes them.
    ///
    /// # Errors
    /// The connection is over.
    pub(super) async fn send(&mut self, messages: Vec<Message>) -> Result<(), Error> {
        let (mut items, mut sealed) = (Vec::new(), Vec::new());
        for message in messages {
            let item = serde_json::to_vec(&message)?;
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
