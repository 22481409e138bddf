//! The line to the forwarder: the desired state goes down as one transaction,
//! and goes down again whenever the forwarder was started anew.

mod orders;

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
use crate::learned::{self, Look};
use crate::management::Management;
use crate::overlay::Overlay;
use crate::rib::Note;
use crate::route_sources::States;
use crate::routes::Key;

/// How often the forwarder is asked who it is.
const HELLO_EVERY: Duration = Duration::from_millis(300);
/// How long it may take to answer that.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a transaction may take: millions of routes.
const APPLY_TIMEOUT: Duration = Duration::from_secs(120);
/// How long it may be away before that is told: at each start it takes a moment.
const SILENT_FOR: Duration = Duration::from_secs(2);
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
struct Facts {
    /// The last configuration that took effect, or the one to begin with.
    desired: Option<Arc<Configuration>>,
    hello: Option<HelloReply>,
    /// The forwarder that holds `desired`.
    synced: Option<u64>,
    /// What was ordered through Linux.
    overlay: Arc<Overlay>,
    /// `desired` with that over it, as the forwarder holds it.
    merged: Option<Arc<Configuration>>,
    /// Orders that are not followed: said once.
    refused_orders: BTreeSet<String>,
}

/// The line to one forwarder.
#[derive(Debug)]
pub struct Line {
    client: ForwarderClient<Channel>,
    facts: Mutex<Facts>,
    /// One transaction at a time.
    transaction: tokio::sync::Mutex<()>,
    /// How often what is known about the forwarder or desired of it has changed.
    changes: watch::Sender<u64>,
    /// How the route sources of routing daemons do.
    route_sources: Arc<States>,
    /// The table of their routes, once there is one.
    learned: OnceLock<Look>,
}

impl Line {
    /// A line over `channel` that brings `desired` to the forwarder.
    pub fn new(channel: Channel, desired: Configuration) -> Line {
        let client = ForwarderClient::new(channel).max_decoding_message_size(MESSAGE_LIMIT_BYTES);
        let facts = Facts { desired: Some(Arc::new(desired)), ..Facts::default() };
        let (transaction, changes) = (tokio::sync::Mutex::new(()), watch::Sender::new(0));
        Line {
            client,
            facts: Mutex::new(facts),
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
    pub fn route_sources(&self) -> &Arc<States> {
        &self.route_sources
    }

    /// There is a table of learned routes, to be looked at by this.
    pub(crate) fn show_learned(&self, look: Look) {
        // There is one for each line.
        let _ = self.learned.set(look);
    }

    /// Names the route sources of those of these routes that are learned.
    pub(crate) async fn name_route_sources(&self, routes: &mut [v1::RouteState]) {
        if let Some(look) = self.learned.get() {
            look.name_route_sources(routes).await;
        }
    }

    /// What is counted of learned routes; `None` while their table has no time.
    pub async fn learned(&self) -> Option<learned::Figures> {
        self.learned.get()?.figures().await
    }

    /// A client for calls that only look.
    pub fn client(&self) -> ForwarderClient<Channel> {
        self.client.clone()
    }

    /// The configuration in force.
    pub fn configuration(&self) -> Option<Arc<Configuration>> {
        self.facts().desired.clone()
    }

    /// A look at the configuration in force, without a copy of it.
    pub fn look<T>(&self, look: impl FnOnce(Option<&Configuration>) -> T) -> T {
        look(self.facts().desired.as_deref())
    }

    /// Who may manage the router, as the configuration in force says.
    pub fn management(&self) -> Arc<Management> {
        self.facts().desired.as_ref().map(|desired| desired.management.clone()).unwrap_or_default()
    }

    /// What is to be told of routes in force beside what the forwarder knows of them.
    pub(crate) fn notes(&self) -> Arc<BTreeMap<Key, Note>> {
        self.facts().desired.as_ref().map(|desired| desired.notes.clone()).unwrap_or_default()
    }

    /// What the forwarder last said of itself; `None` while it does not answer.
    pub fn forwarder(&self) -> Option<HelloReply> {
        self.facts().hello.clone()
    }

    /// Whether the forwarder holds the configuration in force.
    pub fn in_sync(&self) -> bool {
        let facts = self.facts();
        facts.hello.as_ref().is_some_and(|hello| facts.synced == Some(hello.boot_id))
    }

    fn facts(&self) -> std::sync::MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
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
        let before = self.facts().synced.take();
        let configuration = Arc::new(configuration);
        let applied = self.apply_with_orders(&configuration).await;
        let mut facts = self.facts();
        match applied {
            Ok((applied, merged)) => {
                facts.desired = Some(configuration);
                facts.merged = Some(merged);
                facts.synced = Some(hello.boot_id);
                self.changes.send_modify(|count| *count += 1);
                Ok(applied)
            }
            Err(error) => {
                // Refused, the forwarder holds what it held. Else nobody knows whether it took
                // effect: the old one is stated again.
                if let Error::Refused(_) = error {
                    facts.synced = before;
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
            let facts = self.facts();
            match &facts.desired {
                Some(desired) if facts.synced != Some(hello.boot_id) => Arc::clone(desired),
                _ => return Ok(None),
            }
        };
        let (applied, merged) = self.apply_with_orders(&desired).await?;
        {
            let mut facts = self.facts();
            facts.merged = Some(merged);
            facts.synced = Some(hello.boot_id);
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
                self.facts().hello = Some(hello.clone());
                if hello.contract == CONTRACT {
                    Ok(hello)
                } else {
                    Err(Error::Contract(hello.contract))
                }
            }
            Err(status) => {
                self.facts().hello = None;
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
    /// `in_force` is called after each time the state was sent.
    ///
    /// # Errors
    /// The errors of that refusal.
    pub async fn keep(&self, first: bool, in_force: impl Fn(&Line)) -> Vec<ValidationError> {
        let mut silence = Silence::default();
        let mut held_before = !first;
        loop {
            match self.sync().await {
                Ok(Some(applied)) => {
                    silence = Silence::default();
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
                    in_force(self);
                }
                Ok(None) => silence = Silence::default(),
                Err(Error::Refused(errors)) => {
                    if !held_before {
                        return errors;
                    }
                    silence = Silence::default();
                    for error in &errors {
                        tracing::error!(place = error.path, fix = error.fix, "{}", error.cause);
                    }
                    tracing::error!("the forwarder refused the configuration; trying again in 5 s");
                    tokio::time::sleep(REFUSED_WAIT).await;
                }
                Err(error) => {
                    if silence.is_to_be_told(Instant::now()) {
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
struct Silence {
    since: Option<Instant>,
    is_told: bool,
}

impl Silence {
    /// Whether it lasts, and was not told yet.
    fn is_to_be_told(&mut self, now: Instant) -> bool {
        let since = *self.since.get_or_insert(now);
        let is_long = now.duration_since(since) >= SILENT_FOR;
        let was_told = self.is_told;
        self.is_told |= is_long;
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
        let (begin, mut silence) = (Instant::now(), Silence::default());
        let told = [0, 300, 1_900, 2_100, 2_400]
            .map(|ms| silence.is_to_be_told(begin + Duration::from_millis(ms)));
        assert_eq!(told, [false, false, false, true, false]);
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
