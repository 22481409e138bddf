//! The connection from the command line to the running router: the operator's socket.

use std::path::PathBuf;

use stoa_api::v1::operator_client::OperatorClient;
use stoa_api::{MESSAGE_LIMIT_BYTES, unix};
use stoa_console::session::Session;
use stoa_controller::supervise::{DEFAULT_SOCKET, runs_on};
use tonic::transport::Channel;

use crate::failure::Failure;

/// A client of the running router.
pub type Client = OperatorClient<Channel>;

/// The socket of the running router.
#[derive(Debug, Default, clap::Args)]
pub struct SocketArgument {
    /// Socket of the running router [default: $STOA_SOCKET, else /run/stoa/stoa.sock]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

impl SocketArgument {
    /// The value of a `--socket` option.
    pub fn new(socket: Option<PathBuf>) -> SocketArgument {
        SocketArgument { socket }
    }

    /// The argument, else the environment, else the default.
    pub fn path(&self) -> PathBuf {
        self.socket
            .clone()
            .or_else(|| std::env::var_os("STOA_SOCKET").map(PathBuf::from))
            .unwrap_or_else(|| PathBuf::from(DEFAULT_SOCKET))
    }

    /// Connects to the running router.
    pub async fn connect(&self) -> Result<Client, Failure> {
        let path = self.path();
        let channel =
            unix::connect(&path).await.map_err(|error| match (error, runs_on(&path)) {
                (unix::Error::NoListener(_), Some(pid)) => Failure::Message(format!(
                    "the router on {} (process {pid}) is starting its controller: try again in a few \
                     seconds",
                    path.display()
                )),
                (unix::Error::NoListener(_), None) => Failure::Message(format!(
                    "no router runs on {}: start one with `stoa run --config FILE`, or name its \
                 socket with --socket",
                    path.display()
                )),
                (other, _) => Failure::Message(other.to_string()),
            })?;
        Ok(OperatorClient::new(channel).max_decoding_message_size(MESSAGE_LIMIT_BYTES))
    }
}

impl SocketArgument {
    /// A session that changes the configuration.
    pub async fn session(&self) -> Result<Session, Failure> {
        Ok(Session::new(self.connect().await?, false))
    }
}

/// Runs a future to its end.
pub fn block_on<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::context("cannot start the async runtime", error))?;
    runtime.block_on(future)
}
