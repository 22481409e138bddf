//! The controller as a process: serves the operator, keeps the forwarder in sync.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use stoa_api::unix;
use stoa_api::v1::operator_server::OperatorServer;
use tokio::signal::unix::{SignalKind, signal};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;

use crate::apply::ForwarderConnection;
use crate::configuration::Configuration;
use crate::datastore::Datastore;
use crate::error::ValidationError;
use crate::learned::Learned;
use crate::linux::{Reconciler, alias, kernel_configuration, spare_queues};
use crate::operator::Service;
use crate::route_sources;
use crate::running::Running;

/// How long open calls may take to end when the controller ends.
const GOODBYE: Duration = Duration::from_secs(1);

/// How the controller is started.
#[derive(Clone, Debug)]
pub struct Options {
    /// The configuration file.
    pub config: PathBuf,
    /// The folder of what is kept beside the configuration: its history, keys, users' tokens.
    pub state: PathBuf,
    /// Socket for operators.
    pub socket: PathBuf,
    /// Socket of the forwarder.
    pub forwarder_socket: PathBuf,
    /// Opens a spare queue of a host interface's device.
    pub spare_queue: spare_queues::OpenQueue,
}

/// Why the controller ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration is wrong, or the forwarder refused it at the start.
    #[error("the configuration is refused")]
    Refused(Vec<ValidationError>),
    /// The operator's socket cannot be had.
    #[error(transparent)]
    Socket(#[from] unix::Error),
    /// Serving operators failed.
    #[error("cannot serve operators: {0}")]
    Serve(#[from] tonic::transport::Error),
    /// The system refused something at the start.
    #[error("cannot listen for signals: {0}")]
    System(#[from] std::io::Error),
}

/// Runs the controller until SIGTERM or SIGINT. SIGHUP reads the configuration
/// file again.
///
/// # Errors
/// When the configuration is refused before it was ever in force, or the
/// operator's socket cannot be served.
///
/// `open` opens the other route sources to the datastores; they stay open as long as what it gives lives.
pub async fn run<T>(options: Options, open: impl FnOnce(Datastore) -> T) -> Result<(), Error> {
    let running = Running::beside(&options.socket);
    let resumed = running.read();
    let first = resumed.is_none();
    let (configuration, given) = match resumed {
        Some(found) => found,
        None => Configuration::read_as_data(&options.config).map_err(Error::Refused)?,
    };
    let listener = unix::listen(&options.socket)?;
    let connection = Arc::new(ForwarderConnection::new(unix::connect_lazily(&options.forwarder_socket), configuration));
    let datastore = Datastore::open(
        Arc::clone(&connection),
        given,
        options.config.clone(),
        options.state.clone(),
        running.clone(),
        !first,
    );
    let learned = Learned::start(Arc::clone(&connection))?;
    let service = Service::new(datastore.clone(), options.config.clone(), learned.clone());
    let _route_sources = open(datastore.clone());

    let linux = Reconciler::new(&options.forwarder_socket, options.spare_queue);
    let mut kernel_configuration = kernel_configuration::Monitor::new(alias(&options.forwarder_socket), Arc::clone(&connection));
    kernel_configuration.read_initial().await;
    let states = Arc::clone(connection.route_sources());
    let route_sources =
        route_sources::Reconciler::new(&options.forwarder_socket, states, learned.clone());
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let hang_up = signal(SignalKind::hangup())?;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let server = Server::builder()
        .add_service(OperatorServer::new(service.clone()))
        .serve_with_incoming_shutdown(UnixListenerStream::new(listener), async {
            let _ = stopped.await;
        });
    tokio::pin!(server);
    let ended = tokio::select! {
        served = &mut server => served.map_err(Error::from),
        errors = connection.keep_in_sync(first, |connection| in_force(connection, &running)) => Err(Error::Refused(errors)),
        () = linux.run(&connection) => Ok(()),
        () = kernel_configuration.run() => Ok(()),
        () = datastore.run_confirm_timer() => Ok(()),
        () = learned.watch() => Ok(()),
        () = route_sources.run(&connection) => Ok(()),
        () = reload_on(hang_up, service) => Ok(()),
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
    };
    let _ = stop.send(());
    let _ = tokio::time::timeout(GOODBYE, server).await;
    let _ = std::fs::remove_file(&options.socket);
    ended
}

/// What follows when the forwarder holds the configuration: it is kept, and systemd is told where it
/// started this process itself.
fn in_force(connection: &ForwarderConnection, running: &Running) {
    running.keep(connection);
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
}

/// Reads the configuration again at each signal.
async fn reload_on(mut signal: tokio::signal::unix::Signal, service: Service) {
    while signal.recv().await.is_some() {
        match service.reload(None).await {
            Ok(reply) => {
                for error in reply.errors {
                    tracing::error!(place = error.path, fix = error.fix, "{}", error.cause);
                }
            }
            Err(status) => tracing::error!("{}", status.message()),
        }
    }
    // No more signals can come: never end the others for it.
    std::future::pending::<()>().await;
}
