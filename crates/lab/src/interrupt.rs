//! Ctrl-C and termination: a flag that every wait of the lab checks, so that everything unwinds and cleans up.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::signal::unix::{SignalKind, signal};

use crate::{LabError, Result};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
static WATCH: OnceLock<()> = OnceLock::new();

/// Handles SIGINT, SIGTERM and SIGHUP; from now on they end the waits instead of the process.
pub(crate) fn watch() {
    WATCH.get_or_init(|| {
        let (ready, is_ready) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
            let Ok(runtime) = runtime else { return };
            runtime.block_on(async move {
                let kinds =
                    [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
                let mut streams = Vec::new();
                for kind in kinds {
                    streams.extend(signal(kind));
                }
                // The receiver exists: it waits until the handlers are in place.
                let _ = ready.send(());
                let mut waits = tokio::task::JoinSet::new();
                for mut stream in streams {
                    waits.spawn(async move { stream.recv().await });
                }
                while waits.join_next().await.is_some() {
                    INTERRUPTED.store(true, Ordering::SeqCst);
                }
            });
        });
        // An error means that the thread could not install the handlers; the signals keep their default action.
        let _ = is_ready.recv();
    });
}

/// Whether Ctrl-C or a termination signal arrived.
pub(crate) fn came() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}

/// # Errors
///
/// [`LabError::Interrupted`] after a signal.
pub(crate) fn check() -> Result<()> {
    if came() { Err(LabError::Interrupted) } else { Ok(()) }
}
