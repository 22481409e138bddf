//! Ctrl-C and termination: a flag that every wait of the lab looks at, so that everything unwinds and cleans up.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::signal::unix::{SignalKind, signal};

use crate::{LabError, Result};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
static WATCH: OnceLock<()> = OnceLock::new();

/// Starts to listen for SIGINT, SIGTERM and SIGHUP; from here on they no longer end the process but the waits.
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
                // The receiver waits until the handlers are in place; it cannot be gone before.
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
        // An error means that the thread could not listen; then the signals keep their usual effect.
        let _ = is_ready.recv();
    });
}

/// Whether Ctrl-C or a termination signal came.
pub(crate) fn came() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}

/// # Errors
/// [`LabError::Interrupted`] once a signal came.
pub(crate) fn check() -> Result<()> {
    if came() { Err(LabError::Interrupted) } else { Ok(()) }
}
