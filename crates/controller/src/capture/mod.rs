//! Captures with a filter expression, written as pcapng. The command line and the HTTPS server use this module.

pub mod pcapng;

use std::io;

use stoa_api::v1::{self, CaptureInterface, CapturedFrame};
use tonic::{Status, Streaming};

use crate::apply::ForwarderConnection;
use crate::call_error::failed;
use crate::filter;

/// A writer of captured frames.
pub trait Sink {
    /// Writes the interfaces.
    ///
    /// # Errors
    /// When they cannot be written.
    fn interfaces(&mut self, interfaces: &[CaptureInterface]) -> io::Result<()>;
    /// Writes a frame.
    ///
    /// # Errors
    /// When it cannot be written.
    fn frame(&mut self, frame: &CapturedFrame) -> io::Result<()>;
    /// Flushes the output.
    ///
    /// # Errors
    /// When it cannot be written.
    fn flush(&mut self) -> io::Result<()>;
}

/// Starts a capture. It ends after the requested number of frames or when the stream is dropped.
///
/// # Errors
/// When the filter is wrong, there is no such interface, too many captures run, or the forwarder does not answer.
pub async fn open(
    connection: &ForwarderConnection,
    mut request: v1::CaptureRequest,
) -> Result<Streaming<v1::CaptureReply>, Status> {
    request.filter =
        filter::of_interface(connection, &request.interface, &request.expression).await?;
    connection.client().capture(request).await.map(tonic::Response::into_inner).map_err(failed)
}
