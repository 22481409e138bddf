//! A server with a runtime of its own: dropping it closes open connections, as when a process dies.

use std::path::Path;

use stoa_api::unix;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::server::Router;

/// A server on a Unix socket.
pub struct Served(Option<tokio::runtime::Runtime>);

impl Served {
    /// Serves `services` on `socket`.
    pub fn start(socket: &Path, services: Router) -> Served {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let inside = runtime.enter();
        let listener = unix::listen(socket).expect("the socket");
        runtime.spawn(services.serve_with_incoming(UnixListenerStream::new(listener)));
        drop(inside);
        Served(Some(runtime))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
