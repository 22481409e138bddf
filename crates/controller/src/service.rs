//! The controller process: serves operators and keeps the forwarder in sync.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use stoa_api::unix;
use stoa_api::v1::operator_server::OperatorServer;
use stoa_warm_restart::Regions;
use stoa_yang::error::ValidationError;
use tokio::signal::unix::{SignalKind, signal};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;

use crate::apply::ForwarderConnection;
use crate::capability::{self, list};
use crate::configuration::Configuration;
use crate::datastore::{Datastore, hash_seed, recover, stored_text};
use crate::ipsec::used_keys::UsedKeys;
use crate::learned::Learned;
use crate::linux::{Reconciler, alias, kernel_configuration, spare_queues};
use crate::lock::Lock;
use crate::operator::Service;
use crate::operator_peers::ForwarderProcess;
use crate::route_sources;
use crate::running::Running;
use crate::supervise;

/// Time for open calls to end when the controller stops.
pub(crate) const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);
/// Time to write the startup file at the end.
pub(crate) const SAVE_TIMEOUT: Duration = Duration::from_secs(4);

/// Options of the controller.
#[derive(Clone, Debug)]
pub struct Options {
    /// The configuration file.
    pub config: PathBuf,
    /// The state folder: history, keys and tokens.
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
    /// The operator's socket cannot be used.
    #[error(transparent)]
    Socket(#[from] unix::Error),
    /// Serving operators failed.
    #[error("cannot serve operators: {0}")]
    Serve(#[from] tonic::transport::Error),
    /// Another Stoa uses the state folder.
    #[error(transparent)]
    State(#[from] supervise::Error),
    /// A system call failed at the start.
    #[error("cannot listen for signals: {0}")]
    System(#[from] std::io::Error),
    /// A capability does not start.
    #[error("a capability does not start: {0}; free memory of this machine, then start Stoa again")]
    Capability(capability::StartFailure),
}

/// Runs the controller until SIGTERM or SIGINT. SIGHUP reloads the configuration file. `start_servers` starts the other
/// servers of the datastores, which stop when its result is dropped.
///
/// # Errors
/// When another Stoa uses the state folder, the first configuration is refused, or the operator's socket cannot be
/// served.
pub async fn run<T>(
    options: Options,
    start_servers: impl FnOnce(Datastore) -> T,
) -> Result<(), Error> {
    // The supervisor holds that of its controller.
    let _state = match supervise::supervisor() {
        0 => Lock::take_state(&options.state)?,
        _ => None,
    };
    let _writer = Lock::take_writer(&options.state)?;
    let _regions = start_capabilities()?;
    let running = Running::beside(&options.socket);
    if let Err(refusal) = recover(&options.config, &options.state) {
        tracing::error!("the last commits are not in the startup file: {refusal}");
    }
    let resumed = running.read(&options.state);
    let first = resumed.is_none();
    let (configuration, given) = match resumed {
        Some(resumed) => resumed,
        None => Configuration::read_as_data(&options.config).map_err(Error::Refused)?,
    };
    let listener = unix::listen(&options.socket)?;
    let forwarder = ForwarderProcess::default();
    let channel = unix::connect_lazily_to(&options.forwarder_socket, {
        let forwarder = forwarder.clone();
        move |stream| forwarder.learn(stream)
    });
    let connection =
        ForwarderConnection::new(channel, configuration)
            .with_used_keys(UsedKeys::kept(&options.state, |file, text| {
                stored_text::store(file, text).map_err(|refusal| refusal.to_string())
            }));
    let connection = Arc::new(connection.with_hash_seed(hash_seed::kept(&options.state)));
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
    let _servers = start_servers(datastore.clone());

    let linux = Reconciler::new(&options.forwarder_socket, options.spare_queue);
    let mut kernel_configuration = kernel_configuration::Monitor::new(
        alias(&options.forwarder_socket),
        Arc::clone(&connection),
    );
    kernel_configuration.read_initial().await;
    let states = Arc::clone(connection.route_sources());
    let route_sources =
        route_sources::Reconciler::new(&options.forwarder_socket, states, learned.clone());
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let hang_up = signal(SignalKind::hangup())?;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let operators = UnixListenerStream::new(listener)
        .filter(move |connection| connection.as_ref().map_or(true, |it| forwarder.may_connect(it)));
    let server = Server::builder()
        .add_service(OperatorServer::new(service.clone()))
        .serve_with_incoming_shutdown(operators, async {
            let _ = stopped.await;
        });
    tokio::pin!(server);
    let ended = tokio::select! {
        served = &mut server => served.map_err(Error::from),
        errors = connection.keep_in_sync(first, |connection| on_in_sync(connection, &running)) => Err(Error::Refused(errors)),
        () = linux.run(&connection) => Ok(()),
        () = kernel_configuration.run() => Ok(()),
        () = datastore.run_confirm_timer() => Ok(()),
        () = datastore.run_saver() => Ok(()),
        () = learned.watch() => Ok(()),
        () = connection.rows().watch() => Ok(()),
        () = connection.logins().run(&connection, &options.state) => Ok(()),
        () = connection.watch_desired() => Ok(()),
        () = connection.punts().run() => Ok(()),
        () = connection.recent.run() => Ok(()),
        () = route_sources.run(&connection) => Ok(()),
        () = reload_on(hang_up, service) => Ok(()),
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
    };
    // What is not saved in time is saved at the next start.
    let _ = tokio::time::timeout(SAVE_TIMEOUT, datastore.end()).await;
    let _ = stop.send(());
    let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, server).await;
    let _ = std::fs::remove_file(&options.socket);
    ended
}

/// Starts the capabilities, with state of an earlier controller: docs/dev/warm-restart.md.
fn start_capabilities() -> Result<Regions, Error> {
    let mut regions = stoa_warm_restart::regions();
    list::start(&mut capability::Start::new(&mut regions)).map_err(Error::Capability)?;
    Ok(regions)
}

/// Stores the running configuration, and notifies systemd if it started this process directly.
fn on_in_sync(connection: &ForwarderConnection, running: &Running) {
    running.store(connection);
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
}

/// Reloads the configuration at each signal.
async fn reload_on(mut signal: tokio::signal::unix::Signal, service: Service) {
    while signal.recv().await.is_some() {
        match service.reload(None).await {
            Ok(reply) => {
                for error in reply.errors {
                    tracing::error!(path = error.path, fix = error.fix, "{}", error.cause);
                }
            }
            Err(status) => tracing::error!("{}", status.message()),
        }
    }
    // Must not complete: that would stop the controller.
    std::future::pending::<()>().await;
}
