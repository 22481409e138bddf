//! Sends a desired state to the forwarder: what has changed, or the whole.

use std::sync::Arc;
use std::time::Duration;

use stoa_api::{refusal, v1};
use stoa_yang::error;
use tonic::{Code, Request, Status};

use super::{Error, ForwarderConnection, Held, difference};
use crate::configuration::Configuration;
use crate::ipsec::used_keys::UsedKeys;

/// Time limit of a transaction: it may contain millions of routes.
const APPLY_TIMEOUT: Duration = Duration::from_secs(120);

impl ForwarderConnection {
    /// The same with a seed of flow hashes where none is configured.
    pub fn with_hash_seed(self, hash_seed: u32) -> ForwarderConnection {
        ForwarderConnection { hash_seed, ..self }
    }

    /// The same with marks of used keys that outlive this process.
    pub fn with_used_keys(self, used_keys: UsedKeys) -> ForwarderConnection {
        ForwarderConnection { used_keys, ..self }
    }

    /// Sends what has changed, or the whole state where the forwarder does not hold what a change starts from.
    pub(super) async fn apply(
        &self,
        configuration: &Arc<Configuration>,
    ) -> Result<v1::Applied, Error> {
        let (boot_id, held) = {
            let mut state = self.state();
            let boot_id = state.hello.as_ref().map_or(0, |hello| hello.boot_id);
            // Until the outcome is known, nobody knows what the forwarder holds.
            (boot_id, state.held.take().filter(|held| held.boot_id == boot_id))
        };
        let mut sent = None;
        if let Some(held) = &held {
            sent = self.send_change(held, configuration, boot_id).await;
        }
        let sent = match sent {
            Some(sent) => sent,
            None => self.send_whole(configuration, boot_id).await,
        };
        match sent {
            Ok(applied) => {
                if let Some(logging) = &configuration.desired.logging {
                    stoa_log::follow(logging);
                }
                let (generation, configuration) = (applied.generation, Arc::clone(configuration));
                let held = Held { boot_id, generation, configuration };
                self.state().held = Some(held).filter(|held| held.generation != 0);
                Ok(applied)
            }
            Err(status) => Err(match refusal::errors(&status) {
                Some(errors) => {
                    self.state().held = held;
                    Error::Refused(error::counted(errors))
                }
                None => Error::Unreachable(status),
            }),
        }
    }

    /// The seed of flow hashes in effect; 0: that of the forwarder.
    pub fn flow_hash_seed(&self) -> u32 {
        let configuration = self.configuration();
        let configured = configuration.and_then(|it| it.desired.multipath);
        self.multipath(configured).hash_seed
    }

    /// The settings of multipath with the seed of this router where none is configured.
    pub(super) fn multipath(&self, configured: Option<v1::Multipath>) -> v1::Multipath {
        let configured = configured.unwrap_or_default();
        match configured.hash_seed {
            0 => v1::Multipath { hash_seed: self.hash_seed },
            _ => configured,
        }
    }

    async fn send_whole(
        &self,
        configuration: &Configuration,
        boot_id: u64,
    ) -> Result<v1::Applied, Status> {
        let mut desired = configuration.whole_desired();
        desired.ipsec = desired.ipsec.map(|it| self.used_keys.mark(it, boot_id));
        desired.multipath = Some(self.multipath(desired.multipath));
        let mut request = Request::new(desired);
        request.set_timeout(APPLY_TIMEOUT);
        self.client().apply(request).await.map(tonic::Response::into_inner)
    }

    /// Sends the change from what the forwarder holds. `None`: the whole state must be sent.
    async fn send_change(
        &self,
        held: &Held,
        new: &Arc<Configuration>,
        boot_id: u64,
    ) -> Option<Result<v1::Applied, Status>> {
        let states = [&held.configuration, new];
        let change = difference::difference(
            states.map(|it| &it.desired),
            states.map(|it| &it.interfaces),
            states.map(|it| &it.routes),
        );
        let is_of_workers = change.workers.is_some() || change.limits.is_some();
        if is_of_workers && !self.state().hello.as_ref().is_some_and(|hello| hello.changes_workers)
        {
            return None;
        }
        let multipath = change.multipath.map(|it| self.multipath(Some(it)));
        let ipsec = change.ipsec.map(|it| self.used_keys.mark(it, boot_id));
        let change = v1::DesiredChange { generation: held.generation, multipath, ipsec, ..change };
        let mut request = Request::new(change);
        request.set_timeout(APPLY_TIMEOUT);
        match self.client().change(request).await {
            // Another state than this controller knows, or a forwarder that does not know changes.
            Err(status)
                if status.code() == Code::Unimplemented
                    || status.code() == Code::FailedPrecondition
                        && refusal::errors(&status).is_none() =>
            {
                tracing::info!("sending the whole desired state: {}", status.message());
                None
            }
            sent => Some(sent.map(tonic::Response::into_inner)),
        }
    }
}
