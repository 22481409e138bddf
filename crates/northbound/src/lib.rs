//! The management server: HTTPS, users, RESTCONF, gNMI.
//!
//! Programs and people come in here from the network. `server` (TLS, connections, limits) -> `auth` (who is it)
//! -> a client (`restconf`, `gnmi`, `capture`; `web` is the page that comes through them) -> `nacm` (may it) -> the
//! datastores of the controller. Everything that clients may cost has a limit, and nothing here can hold up the
//! router: it runs on threads of its own.
#![forbid(unsafe_code)]

pub mod audit;
pub mod auth;
pub mod capture;
pub mod gnmi;
pub mod nacm;
pub mod restconf;
pub mod server;
#[cfg(test)]
mod tests;
mod web;

use stoa_controller::datastore::Datastore;

/// The running server; it ends when this is dropped.
#[derive(Debug)]
pub struct Northbound {
    runtime: Option<tokio::runtime::Runtime>,
}

/// Threads that answer clients.
const THREADS: usize = 2;

impl Northbound {
    /// Starts the server beside the controller. It never refuses to: what is wrong is said in the log, and tried
    /// again.
    pub fn start(datastore: Datastore) -> Northbound {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            // Passwords, and trees too large to be printed on a thread that answers others.
            .max_blocking_threads(8)
            .thread_name("northbound")
            .enable_all()
            .build();
        match runtime {
            Ok(runtime) => {
                runtime.spawn(server::keep(datastore));
                Northbound { runtime: Some(runtime) }
            }
            Err(error) => {
                tracing::error!("the management server cannot start: {error}");
                Northbound { runtime: None }
            }
        }
    }
}

impl Drop for Northbound {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Clients that are being answered are not waited for: the router ends now.
            runtime.shutdown_background();
        }
    }
}
