//! Captured frames: asked for with a filter in words, and written as pcapng. The command line and the HTTPS server
//! both do it so.

pub mod pcapng;

use std::io;

use stoa_api::v1::{self, CaptureInterface, CapturedFrame};
use tonic::{Status, Streaming};

use crate::apply::ForwarderConnection;
use crate::filter;
use crate::operator::failed;

/// Takes captured frames.
pub trait Sink {
    /// These interfaces are there.
    ///
    /// # Errors
    /// When they cannot be written.
    fn interfaces(&mut self, interfaces: &[CaptureInterface]) -> io::Result<()>;
    /// The next frame.
    ///
    /// # Errors
    /// When it cannot be written.
    fn frame(&mut self, frame: &CapturedFrame) -> io::Result<()>;
    /// What was given so far shall be seen.
    ///
    /// # Errors
    /// When it cannot be written.
    fn flush(&mut self) -> io::Result<()>;
}

/// Begins a capture; it lasts until all frames that were asked for came, or the stream is dropped.
///
/// # Errors
/// When the filter is wrong, there is no such interface, too many captures run, or the forwarder does not answer.
pub async fn open(
    connection: &ForwarderConnection,
    mut request: v1::CaptureRequest,
) -> Result<Streaming<v1::CaptureReply>, Status> {
    request.filter = filter::of_interface(connection, &request.interface, &request.expression).await?;
    connection.client().capture(request).await.map(tonic::Response::into_inner).map_err(failed)
}
