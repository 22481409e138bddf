//! The line to the forwarder: the desired state goes down as one transaction,
//! and goes down again whenever the forwarder was started anew.

mod kernel_configuration;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use stoa_api::v1::forwarder_client::ForwarderClient;
use stoa_api::v1::{self, HelloReply, HelloRequest};
use stoa_api::{CONTRACT, MESSAGE_LIMIT_BYTES, refusal};
use tokio::sync::watch;
use tonic::transport::Channel;
use tonic::{Request, Status};

use crate::configuration::Configuration;
use crate::error::ValidationError;
use crate::learned::{self, TableHandle};
use crate::management::Management;
use crate::kernel_configuration::KernelConfiguration;
use crate::rib::RouteAnnotation;
use crate::route_sources::RouteSourceStates;
use crate::routes::Key;

/// How often the forwarder is asked who it is.
const HELLO_EVERY: Duration = Duration::from_millis(300);
/// How long it may take to answer that.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a transaction may take: millions of routes.
const APPLY_TIMEOUT: Duration = Duration::from_secs(120);
/// How long it may be away before that is told: at each start it takes a moment.
const OUTAGE_LOG_DELAY: Duration = Duration::from_secs(2);
/// How long to wait after a refusal before the same state is sent again.
const REFUSED_WAIT: Duration = Duration::from_secs(5);

/// Why a desired state did not take effect.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The forwarder says why it cannot do it. Nothing was changed.
    #[error("the forwarder refused the configuration")]
    Refused(Vec<ValidationError>),
    /// The forwarder could not be asked, or did not answer.
    #[error("the forwarder does not answer: {}", .0.message())]
    Unreachable(Status),
    /// The forwarder is of another version.
    #[error("the forwarder speaks version {0} of the contract, this controller version {CONTRACT}")]
    Contract(u32),
}

/// What is known about the forwarder and what it holds.
#[derive(Debug, Default)]
struct ConnectionState {
    /// The last configuration that took effect, or the one to begin with.
    desired: Option<Arc<Configuration>>,
    hello: Option<HelloReply>,
    /// The forwarder that holds `desired`.
    synced: Option<u64>,
    /// What was ordered through Linux.
    kernel_configuration: Arc<KernelConfiguration>,
    /// `desired` with that over it, as the forwarder holds it.
    merged: Option<Arc<Configuration>>,
    /// Orders that are not followed: said once.
    rejected_settings: BTreeSet<String>,
}

/// The line to one forwarder.
#[derive(Debug)]
pub struct ForwarderConnection {
    client: ForwarderClient<Channel>,
    state: Mutex<ConnectionState>,
    /// One transaction at a time.
    transaction: tokio::sync::Mutex<()>,
    /// How often what is known about the forwarder or desired of it has changed.
    changes: watch::Sender<u64>,
    /// How the route sources of routing daemons do.
    route_sources: Arc<RouteSourceStates>,
    /// The table of their routes, once there is one.
    learned: OnceLock<TableHandle>,
}

impl ForwarderConnection {
    /// A line over `channel` that brings `desired` to the forwarder.
    pub fn new(channel: Channel, desired: Configuration) -> ForwarderConnection {
        let client = ForwarderClient::new(channel).max_decoding_message_size(MESSAGE_LIMIT_BYTES);
        let state = ConnectionState { desired: Some(Arc::new(desired)), ..ConnectionState::default() };
        let (transaction, changes) = (tokio::sync::Mutex::new(()), watch::Sender::new(0));
        ForwarderConnection {
            client,
            state: Mutex::new(state),
            transaction,
            changes,
            route_sources: Arc::default(),
            learned: OnceLock::new(),
        }
    }

    /// Wakes whenever a state took effect.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// How the route sources of routing daemons do.
    pub fn route_sources(&self) -> &Arc<RouteSourceStates> {
        &self.route_sources
    }

    /// There is a table of learned routes, to be looked at by this.
    pub(crate) fn set_learned(&self, handle: TableHandle) {
        // There is one for each line.
        let _ = self.learned.set(handle);
    }

    /// Names the route sources of those of these routes that are learned.
    pub(crate) async fn name_route_sources(&self, routes: &mut [v1::RouteState]) {
        if let Some(handle) = self.learned.get() {
            handle.name_route_sources(routes).await;
        }
    }

    /// What is counted of learned routes; `None` while their table has no time.
    pub async fn learned(&self) -> Option<learned::LearnedStatistics> {
        self.learned.get()?.statistics().await
    }

    /// A client for calls that only look.
    pub fn client(&self) -> ForwarderClient<Channel> {
        self.client.clone()
    }

    /// The configuration in force.
    pub fn configuration(&self) -> Option<Arc<Configuration>> {
        self.state().desired.clone()
    }

    /// A look at the configuration in force, without a copy of it.
    pub fn with_configuration<T>(&self, read: impl FnOnce(Option<&Configuration>) -> T) -> T {
        read(self.state().desired.as_deref())
    }

    /// Who may manage the router, as the configuration in force says.
    pub fn management(&self) -> Arc<Management> {
        self.state().desired.as_ref().map(|desired| desired.management.clone()).unwrap_or_default()
    }

    /// What is to be told of routes in force beside what the forwarder knows of them.
    pub(crate) fn route_annotations(&self) -> Arc<BTreeMap<Key, RouteAnnotation>> {
        self.state().desired.as_ref().map(|desired| desired.annotations.clone()).unwrap_or_default()
    }

    /// What the forwarder last said of itself; `None` while it does not answer.
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
    /// When the forwarder refuses or does not answer; then the configuration
    /// before stays in force.
    pub async fn commit(&self, configuration: Configuration) -> Result<v1::Applied, Error> {
        let _one = self.transaction.lock().await;
        let hello = self.hello().await?;
        // Until it is known what became of it: whoever looks states what is desired again.
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
                // Refused, the forwarder holds what it held. Else nobody knows whether it took
                // effect: the old one is stated again.
                if let Error::Refused(_) = error {
                    state.synced = before;
                }
                Err(error)
            }
        }
    }

    /// Sends the configuration in force when the forwarder does not hold it.
    /// Gives what changed, or `None` when it held it already.
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

    async fn apply(&self, desired: &v1::Desired) -> Result<v1::Applied, Error> {
        let mut request = Request::new(desired.clone());
        request.set_timeout(APPLY_TIMEOUT);
        match self.client().apply(request).await {
            Ok(applied) => {
                if let Some(logging) = &desired.logging {
                    stoa_log::follow(logging);
                }
                Ok(applied.into_inner())
            }
            Err(status) => Err(match refusal::errors(&status) {
                Some(errors) => Error::Refused(errors.into_iter().map(error).collect()),
                None => Error::Unreachable(status),
            }),
        }
    }

    /// Keeps the forwarder in sync for ever. With `first`, a refusal before the
    /// configuration was ever in force ends it: there is nothing to go back to.
    ///
    /// `on_applied` is called after each time the state was sent.
    ///
    /// # Errors
    /// The errors of that refusal.
    pub async fn keep_in_sync(&self, first: bool, on_applied: impl Fn(&ForwarderConnection)) -> Vec<ValidationError> {
        let mut outage = Outage::default();
        let mut held_before = !first;
        loop {
            match self.sync().await {
                Ok(Some(applied)) => {
                    outage = Outage::default();
                    held_before = true;
                    let totals = self.configuration().map(|c| Totals::of(&c.desired));
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
                        tracing::error!(place = error.path, fix = error.fix, "{}", error.cause);
                    }
                    tracing::error!("the forwarder refused the configuration; trying again in 5 s");
                    tokio::time::sleep(REFUSED_WAIT).await;
                }
                Err(error) => {
                    if outage.should_log(Instant::now()) {
                        tracing::warn!("{error}; waiting for it");
                    }
                }
            }
            tokio::time::sleep(HELLO_EVERY).await;
        }
    }
}

/// The forwarder does not answer.
#[derive(Debug, Default)]
struct Outage {
    since: Option<Instant>,
    is_logged: bool,
}

impl Outage {
    /// Whether it lasts, and was not told yet.
    fn should_log(&mut self, now: Instant) -> bool {
        let since = *self.since.get_or_insert(now);
        let is_long = now.duration_since(since) >= OUTAGE_LOG_DELAY;
        let was_told = self.is_logged;
        self.is_logged |= is_long;
        is_long && !was_told
    }
}

/// How much is desired, whether or not the forwarder held it before.
#[derive(Debug, Default, PartialEq, Eq)]
struct Totals {
    ports: usize,
    interfaces: usize,
    routes: usize,
}

impl Totals {
    fn of(desired: &v1::Desired) -> Totals {
        let v1::Desired { ports, interfaces, routes, .. } = desired;
        Totals { ports: ports.len(), interfaces: interfaces.len(), routes: routes.len() }
    }
}

fn error(error: v1::ValidationError) -> ValidationError {
    let v1::ValidationError { path, cause, fix } = error;
    ValidationError { path, cause, fix }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silence_is_told_once_and_only_when_it_lasts() {
        let (begin, mut outage) = (Instant::now(), Outage::default());
        let logged = [0, 300, 1_900, 2_100, 2_400]
            .map(|ms| outage.should_log(begin + Duration::from_millis(ms)));
        assert_eq!(logged, [false, false, false, true, false]);
    }

    #[test]
    fn totals_are_of_what_is_desired() {
        let desired = v1::Desired {
            ports: vec![v1::Port::default()],
            interfaces: vec![v1::Interface::default(); 2],
            routes: vec![v1::Route::default(); 3],
            ..v1::Desired::default()
        };
        assert_eq!(Totals::of(&desired), Totals { ports: 1, interfaces: 2, routes: 3 });
    }
}
