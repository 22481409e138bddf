//! The connection to the forwarder: sends what has changed of the desired state as one transaction, and the whole
//! whenever the forwarder has restarted.

mod audit;
mod clients;
mod difference;
mod kernel_configuration;
mod outage;
mod send;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use stoa_api::v1::forwarder_client::ForwarderClient;
use stoa_api::v1::{self, HelloReply, HelloRequest};
use stoa_api::{CONTRACT, MESSAGE_LIMIT_BYTES};
use stoa_yang::error::ValidationError;
use tokio::sync::{Notify, watch};
use tonic::transport::Channel;
use tonic::{Request, Status};

pub use self::audit::{AuditedKind, AuditedState, DesiredAudits};
use self::outage::Outage;
use crate::config::management::Management;
use crate::config::routes::Key;
use crate::configuration::Configuration;
use crate::ipsec::used_keys::UsedKeys;
use crate::kernel_configuration::KernelConfiguration;
use crate::learned::{LearnedStatistics, TableHandle};
use crate::login::Logins;
use crate::punt_stream::Punts;
use crate::rib::RouteAnnotation;
use crate::route_sources::RouteSourceStates;
use crate::rows::RowTables;

/// Interval of `Hello` requests.
const HELLO_EVERY: Duration = Duration::from_millis(300);
/// Time limit of a `Hello` request.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
/// Delay after a refusal before the same state is sent again.
const REFUSED_WAIT: Duration = Duration::from_secs(5);

/// Why a desired state did not take effect.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The forwarder refused it, with the reasons. Nothing has changed.
    #[error("the forwarder refused the configuration")]
    Refused(Vec<ValidationError>),
    /// The forwarder is unreachable or did not reply.
    #[error("the forwarder does not answer: {}", .0.message())]
    Unreachable(Status),
    /// The forwarder has another version of the contract.
    #[error(
        "the forwarder has version {0} of the contract, this controller version {CONTRACT}: update both"
    )]
    Contract(u32),
}

/// What is known about the forwarder and what it holds.
#[derive(Debug, Default)]
struct ConnectionState {
    /// The last configuration that took effect, or the initial one.
    desired: Option<Arc<Configuration>>,
    hello: Option<HelloReply>,
    /// Boot id of the forwarder that holds `desired`.
    synced: Option<u64>,
    /// The kernel configuration.
    kernel_configuration: Arc<KernelConfiguration>,
    /// `desired` merged with it, as the forwarder holds it.
    merged: Option<Arc<Configuration>>,
    /// What a change starts from; `None`: only the whole state can be sent.
    held: Option<Held>,
    /// Rejected settings: logged once.
    rejected_settings: BTreeSet<String>,
    /// What audits have found.
    audits: DesiredAudits,
    /// For which differences the whole state was sent.
    sent_for: Option<audit::Differences>,
}

/// The state that the forwarder holds, if nobody else has changed it.
#[derive(Debug)]
struct Held {
    boot_id: u64,
    /// The forwarder's number of it.
    generation: u64,
    configuration: Arc<Configuration>,
}

/// The connection to one forwarder.
#[derive(Debug)]
pub struct ForwarderConnection {
    client: ForwarderClient<Channel>,
    channel: Channel,
    state: Mutex<ConnectionState>,
    /// One transaction at a time.
    transaction: tokio::sync::Mutex<()>,
    /// Counts changes of the forwarder's state and of the desired state.
    changes: watch::Sender<u64>,
    /// The forwarder has got its state after a start of either process: an audit is due.
    synced: Notify,
    /// The states of the route sources.
    route_sources: Arc<RouteSourceStates>,
    /// The table of learned routes, once started.
    learned: OnceLock<TableHandle>,
    /// The rows of capabilities.
    rows: RowTables,
    /// Hosts that have logged in.
    logins: Logins,
    /// Protocols in the controller.
    punts: Punts,
    /// What happened recently: traffic and log messages.
    pub recent: crate::recent::Recent,
    /// The seed of flow hashes where none is configured; 0: that of the forwarder.
    hash_seed: u32,
    /// Which forwarder has used which key.
    used_keys: UsedKeys,
}

impl ForwarderConnection {
    /// A connection over `channel` that brings `desired` to the forwarder.
    pub fn new(channel: Channel, desired: Configuration) -> ForwarderConnection {
        let (rows, punts) = (RowTables::new(channel.clone()), Punts::new(channel.clone()));
        let recent = crate::recent::Recent::new(channel.clone());
        let client =
            ForwarderClient::new(channel.clone()).max_decoding_message_size(MESSAGE_LIMIT_BYTES);
        let state =
            ConnectionState { desired: Some(Arc::new(desired)), ..ConnectionState::default() };
        let (transaction, changes) = (tokio::sync::Mutex::new(()), watch::Sender::new(0));
        ForwarderConnection {
            client,
            channel,
            state: Mutex::new(state),
            transaction,
            changes,
            synced: Notify::new(),
            route_sources: Arc::default(),
            learned: OnceLock::new(),
            rows,
            logins: Logins::default(),
            punts,
            recent,
            hash_seed: 0,
            used_keys: UsedKeys::default(),
        }
    }

    /// Wakes whenever a state took effect.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// The states of the route sources.
    pub fn route_sources(&self) -> &Arc<RouteSourceStates> {
        &self.route_sources
    }

    /// The rows of capabilities.
    pub fn rows(&self) -> &RowTables {
        &self.rows
    }

    /// Hosts that have logged in.
    pub fn logins(&self) -> &Logins {
        &self.logins
    }

    /// Protocols in the controller.
    pub fn punts(&self) -> &Punts {
        &self.punts
    }

    /// Sets the handle to the table of learned routes.
    pub(crate) fn set_learned(&self, handle: TableHandle) {
        // There is one table per connection.
        let _ = self.learned.set(handle);
    }

    /// Sets the route source of each learned route.
    pub(crate) async fn name_route_sources(&self, routes: &mut [v1::RouteState]) {
        if let Some(handle) = self.learned.get() {
            handle.name_route_sources(routes).await;
        }
    }

    /// Counters of learned routes; `None` while the table is busy.
    pub async fn learned(&self) -> Option<LearnedStatistics> {
        self.learned.get()?.statistics().await
    }

    /// The configuration in force.
    pub fn configuration(&self) -> Option<Arc<Configuration>> {
        self.state().desired.clone()
    }

    /// Reads the configuration in force, without a copy of it.
    pub fn with_configuration<T>(&self, read: impl FnOnce(Option<&Configuration>) -> T) -> T {
        read(self.state().desired.as_deref())
    }

    /// Who may manage the router, according to the configuration in force.
    pub fn management(&self) -> Arc<Management> {
        self.state().desired.as_ref().map(|desired| desired.management.clone()).unwrap_or_default()
    }

    /// Annotations of routes in force.
    pub(crate) fn route_annotations(&self) -> Arc<BTreeMap<Key, RouteAnnotation>> {
        self.state().desired.as_ref().map(|desired| desired.annotations.clone()).unwrap_or_default()
    }

    /// The last `Hello` reply; `None` while the forwarder does not answer.
    pub fn identity(&self) -> Option<HelloReply> {
        self.state().hello.clone()
    }

    /// Whether the forwarder holds the configuration in force.
    pub fn in_sync(&self) -> bool {
        let state = self.state();
        state.hello.as_ref().is_some_and(|hello| state.synced == Some(hello.boot_id))
    }

    fn state(&self) -> std::sync::MutexGuard<'_, ConnectionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Brings a new configuration into force: all of it or none of it.
    ///
    /// # Errors
    /// When the forwarder refuses or does not answer; the previous configuration stays in force.
    pub async fn commit(&self, configuration: Configuration) -> Result<v1::Applied, Error> {
        let _one = self.transaction.lock().await;
        let hello = self.hello().await?;
        // Until the outcome is known, the next sync sends the desired state again.
        let before = self.state().synced.take();
        let configuration = Arc::new(configuration);
        let applied = self.apply_merged(&configuration).await;
        let mut state = self.state();
        match applied {
            Ok((applied, merged)) => {
                state.desired = Some(configuration);
                state.merged = Some(merged);
                state.synced = Some(hello.boot_id);
                self.changes.send_modify(|count| *count += 1);
                Ok(applied)
            }
            Err(error) => {
                // After a refusal the forwarder holds what it held. After another error the outcome is
                // unknown, and the old configuration is sent again.
                if let Error::Refused(_) = error {
                    state.synced = before;
                }
                Err(error)
            }
        }
    }

    /// Sends the configuration in force if the forwarder does not hold it. Returns what changed, or `None` if
    /// the forwarder held it.
    ///
    /// # Errors
    /// When the forwarder refuses or does not answer.
    pub async fn sync(&self) -> Result<Option<v1::Applied>, Error> {
        let _one = self.transaction.lock().await;
        let hello = self.hello().await?;
        let desired = {
            let state = self.state();
            match &state.desired {
                Some(desired) if state.synced != Some(hello.boot_id) => Arc::clone(desired),
                _ => return Ok(None),
            }
        };
        let (applied, merged) = self.apply_merged(&desired).await?;
        {
            let mut state = self.state();
            state.merged = Some(merged);
            state.synced = Some(hello.boot_id);
        }
        self.changes.send_modify(|count| *count += 1);
        self.synced.notify_one();
        Ok(Some(applied))
    }

    async fn hello(&self) -> Result<HelloReply, Error> {
        let mut request = Request::new(HelloRequest {});
        request.set_timeout(HELLO_TIMEOUT);
        match self.client().hello(request).await {
            Ok(reply) => {
                let hello = reply.into_inner();
                self.state().hello = Some(hello.clone());
                if hello.contract == CONTRACT {
                    Ok(hello)
                } else {
                    Err(Error::Contract(hello.contract))
                }
            }
            Err(status) => {
                self.state().hello = None;
                Err(Error::Unreachable(status))
            }
        }
    }

    /// Keeps the forwarder in sync, forever. With `first`, a refusal before the configuration was ever in
    /// force ends it: there is no earlier configuration.
    ///
    /// `on_applied` is called each time the state was sent.
    ///
    /// # Errors
    /// The errors of that refusal.
    pub async fn keep_in_sync(
        &self,
        first: bool,
        on_applied: impl Fn(&ForwarderConnection),
    ) -> Vec<ValidationError> {
        let mut outage = Outage::default();
        let mut held_before = !first;
        loop {
            match self.sync().await {
                Ok(Some(applied)) => {
                    outage = Outage::default();
                    held_before = true;
                    let totals = self.configuration().map(|it| Totals::of(&it));
                    let Totals { ports, interfaces, routes } = totals.unwrap_or_default();
                    tracing::info!(
                        ports,
                        interfaces,
                        routes,
                        changed = applied.changed,
                        "the forwarder holds the configuration"
                    );
                    on_applied(self);
                }
                Ok(None) => outage = Outage::default(),
                Err(Error::Refused(errors)) => {
                    if !held_before {
                        return errors;
                    }
                    outage = Outage::default();
                    for error in &errors {
                        tracing::error!(path = error.path, fix = error.fix, "{}", error.cause);
                    }
                    tracing::error!("the forwarder refused the configuration; trying again in 5 s");
                    tokio::time::sleep(REFUSED_WAIT).await;
                }
                Err(error) => {
                    if outage.should_log(Instant::now()) {
                        tracing::warn!("{error}; retrying");
                    }
                }
            }
            tokio::time::sleep(HELLO_EVERY).await;
        }
    }
}

/// Numbers of desired objects, whether or not the forwarder held them before.
#[derive(Debug, Default, PartialEq, Eq)]
struct Totals {
    ports: usize,
    interfaces: usize,
    routes: usize,
}

impl Totals {
    fn of(configuration: &Configuration) -> Totals {
        let Configuration { desired, interfaces, routes, .. } = configuration;
        let ports = desired.ports.len();
        Totals { ports, interfaces: interfaces.len(), routes: routes.len() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_count_desired_objects() {
        let empty = Configuration::parse(std::path::Path::new("t"), "{}".to_owned()).unwrap();
        let configuration = Configuration {
            desired: v1::Desired { ports: vec![v1::Port::default()], ..v1::Desired::default() },
            interfaces: ["a", "b"]
                .map(|name| v1::Interface { name: name.into(), ..v1::Interface::default() })
                .to_vec()
                .into(),
            routes: (0..3)
                .map(|at| v1::Route { vrf: at.to_string(), ..v1::Route::default() })
                .collect::<Vec<_>>()
                .into(),
            ..empty
        };
        assert_eq!(Totals::of(&configuration), Totals { ports: 1, interfaces: 2, routes: 3 });
    }
}
