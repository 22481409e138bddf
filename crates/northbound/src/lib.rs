//! The management server: HTTPS, users, RESTCONF, gNMI.
//!
//! Entry point for clients in the network: `server` (TLS, connections, limits) -> `auth` (authentication) -> an
//! interface (`restconf`, `gnmi`, `capture`; `web` is the page that uses them) -> `nacm` (authorization) -> the
//! datastores of the controller. Everything that clients can use up has a limit. Nothing here can block the router:
//! it runs on threads of its own.
#![forbid(unsafe_code)]

pub mod audit;
pub mod auth;
pub mod capture;
pub mod gnmi;
mod machine;
pub mod nacm;
pub mod portal;
pub mod restconf;
pub mod server;
#[cfg(test)]
mod tests;
mod web;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use server::app_state::AppState;
use stoa_controller::datastore::Datastore;

/// The running server; it ends on drop.
#[derive(Debug)]
pub struct Northbound {
    runtime: Option<tokio::runtime::Runtime>,
    state: Arc<OnceLock<Arc<AppState>>>,
}

/// Threads that answer clients.
const THREADS: usize = 2;

impl Northbound {
    /// Starts the server beside the controller. It does not fail: errors are logged, and listening is retried. The
    /// forwarder writes to the folders `of_ports`: no file there is a certificate or key.
    pub fn start(datastore: Datastore, of_ports: Vec<PathBuf>) -> Northbound {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            // For passwords, and for trees that take too long to print on a thread that answers clients.
            .max_blocking_threads(8)
            .thread_name("northbound")
            .enable_all()
            .build();
        match runtime {
            Ok(runtime) => {
                let state = Arc::default();
                runtime.spawn(portal::run(datastore.clone(), of_ports.clone()));
                runtime.spawn(server::run(datastore, Arc::clone(&state), of_ports));
                Northbound { runtime: Some(runtime), state }
            }
            Err(error) => {
                tracing::error!("cannot start the management server: {error}");
                Northbound { runtime: None, state: Arc::default() }
            }
        }
    }
}

impl Drop for Northbound {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // The router ends now and does not wait for clients.
            runtime.shutdown_background();
        }
        if let Some(state) = self.state.get() {
            state.end();
        }
    }
}
