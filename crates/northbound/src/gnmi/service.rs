//! What the calls share: the service, its client, and what no call supports.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use stoa_api::gnmi::ModelData;
use stoa_api::gnmi_ext::{Extension, extension::Ext};
use stoa_controller::datastore::{Author, Unconfirmed};
use tokio::sync::{Notify, Semaphore};
use tonic::Status;

use super::client_locks::ClientLocks;
use super::stored_values::StoredValues;
use crate::auth::Identity;
use crate::server::app_state::AppState;
use crate::server::quota::ClientQuotas;

/// Maximum number of paths in a Get, and of subscriptions in a stream.
pub const PATHS_LIMIT: usize = 256;
/// Aborts the connection of a request.
#[derive(Clone, Debug, Default)]
pub struct HangUp(pub Arc<Notify>);

/// The client of a call.
#[derive(Clone, Debug)]
pub struct Caller {
    pub(super) identity: Identity,
    /// The same as an author of changes.
    pub(super) author: Author,
    pub(super) from: IpAddr,
    /// The name and port by which the client reaches this machine.
    pub(super) host: String,
    pub(super) hang_up: HangUp,
}

/// State that all calls share.
#[derive(Debug)]
pub struct Service {
    pub(super) app: Arc<AppState>,
    /// Open streams.
    pub(super) streams: Arc<ClientQuotas>,
    /// Values that all streams store to detect changes.
    pub(super) values: StoredValues,
    /// Streams read one at a time: together they use at most one thread, and one request to the forwarder.
    pub(super) reads: Semaphore,
    /// The Set in progress of each client.
    pub(super) client_locks: ClientLocks,
    /// Sets run one after the other.
    pub(super) changes: tokio::sync::Mutex<()>,
    /// The id of the pending commit, and which commit it is.
    pub(super) waiting: Mutex<Option<(String, Unconfirmed)>>,
    pub(super) patience: Duration,
}

impl Service {
    pub(super) fn new(app: &Arc<AppState>, patience: Duration) -> Arc<Service> {
        Arc::new(Service {
            app: Arc::clone(app),
            streams: Arc::default(),
            values: StoredValues::default(),
            reads: Semaphore::new(1),
            client_locks: ClientLocks::default(),
            changes: tokio::sync::Mutex::default(),
            waiting: Mutex::default(),
            patience,
        })
    }
}

/// Nanoseconds since 1970.
pub(super) fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// Refuses unsupported parts that would change the meaning of a request. Unknown extensions are ignored.
pub(super) fn plain_only(models: &[ModelData], extensions: &[Extension]) -> Result<(), Status> {
    if !models.is_empty() {
        return Err(Status::unimplemented("use_models is not supported: select data by paths"));
    }
    extensions.iter().try_for_each(|extension| match &extension.ext {
        None | Some(Ext::RegisteredExt(_)) => Ok(()),
        Some(Ext::Commit(_)) => {
            Err(Status::invalid_argument("the extension Commit is only for a Set"))
        }
        Some(other) => Err(unserved(other)),
    })
}

/// The error for an extension that is not supported.
pub(super) fn unserved(extension: &Ext) -> Status {
    let name = match extension {
        Ext::MasterArbitration(_) => "MasterArbitration",
        Ext::History(_) => "History",
        Ext::Depth(_) => "Depth",
        Ext::ConfigSubscription(_) => "ConfigSubscription",
        Ext::Commit(_) | Ext::RegisteredExt(_) => "of this kind",
    };
    Status::unimplemented(format!("the extension {name} is not supported"))
}
