//! Orders from Linux on their way to the forwarder: laid over the configuration in force, sent as one transaction.

use std::collections::BTreeSet;
use std::sync::Arc;

use stoa_api::v1;

use super::{Error, ForwarderConnection};
use crate::configuration::Configuration;
use crate::kernel_configuration::{InterfaceSettings, KernelConfiguration};

impl ForwarderConnection {
    /// The configuration in force with the orders of Linux over its desired state: what the forwarder holds.
    pub fn merged_configuration(&self) -> Option<Arc<Configuration>> {
        let state = self.state();
        state.merged.clone().or_else(|| state.desired.clone())
    }

    /// What was ordered through Linux.
    pub fn kernel_configuration(&self) -> Arc<KernelConfiguration> {
        Arc::clone(&self.state().kernel_configuration)
    }

    /// Sets the orders that were there when the controller began, before anything is sent.
    pub(crate) fn set_initial_kernel_configuration(&self, kernel_configuration: KernelConfiguration) {
        self.log_kernel_configuration(&kernel_configuration);
        self.state().kernel_configuration = Arc::new(kernel_configuration);
    }

    /// Brings orders into force. What cannot be is left out, and said in the log.
    pub(crate) async fn apply_kernel_configuration(&self, kernel_configuration: KernelConfiguration) {
        if *self.kernel_configuration() == kernel_configuration {
            return;
        }
        let _one = self.transaction.lock().await;
        self.log_kernel_configuration(&kernel_configuration);
        let (desired, before) = {
            let mut state = self.state();
            state.kernel_configuration = Arc::new(kernel_configuration);
            // What the forwarder does not hold yet is sent with the orders.
            let Some(synced) = state.synced.take() else { return };
            let Some(desired) = state.desired.clone() else { return };
            (desired, synced)
        };
        match self.apply_merged(&desired).await {
            Ok((_, merged)) => {
                let mut state = self.state();
                state.merged = Some(merged);
                state.synced = Some(before);
                self.changes.send_modify(|count| *count += 1);
            }
            // Nothing was changed.
            Err(Error::Refused(_)) => self.state().synced = Some(before),
            // Whoever looks sends it again.
            Err(error) => tracing::warn!("orders from Linux wait: {error}"),
        }
    }

    /// Sends a configuration with the orders over it. When the forwarder refuses that, without them.
    pub(super) async fn apply_merged(
        &self,
        configuration: &Arc<Configuration>,
    ) -> Result<(v1::Applied, Arc<Configuration>), Error> {
        let kernel_configuration = self.kernel_configuration();
        if kernel_configuration.is_empty() {
            self.state().rejected_settings.clear();
            let applied = self.apply(&configuration.desired).await?;
            return Ok((applied, Arc::clone(configuration)));
        }
        let mut merged = (**configuration).clone();
        let mut rejections = BTreeSet::new();
        for refused in kernel_configuration.merge(&mut merged.desired) {
            let rejection = format!("{}: {}", refused.interface, refused.reason);
            if !self.state().rejected_settings.contains(&rejection) {
                let (interface, fix) = (&refused.interface, refused.fix);
                tracing::warn!(
                    interface,
                    fix,
                    "an order from Linux is not followed: {}",
                    refused.reason
                );
            }
            rejections.insert(rejection);
        }
        self.state().rejected_settings = rejections;
        match self.apply(&merged.desired).await {
            Ok(applied) => Ok((applied, Arc::new(merged))),
            Err(Error::Refused(errors)) => {
                for error in errors {
                    tracing::warn!(
                        place = error.path,
                        fix = error.fix,
                        "orders from Linux are not followed: {}",
                        error.cause
                    );
                }
                let applied = self.apply(&configuration.desired).await?;
                Ok((applied, Arc::clone(configuration)))
            }
            Err(error) => Err(error),
        }
    }

    /// Says what is ordered anew.
    fn log_kernel_configuration(&self, kernel_configuration: &KernelConfiguration) {
        let before = self.kernel_configuration();
        let none = InterfaceSettings::default();
        if before.rules != kernel_configuration.rules {
            tracing::info!(rules = kernel_configuration.rules.len(), "rules ordered through Linux");
        }
        let names = before.interfaces.keys().chain(kernel_configuration.interfaces.keys());
        for interface in names.collect::<BTreeSet<_>>() {
            let of = |kernel_configuration: &'_ KernelConfiguration| kernel_configuration.interfaces.get(interface).cloned();
            let (old, new) = (of(&before).unwrap_or_default(), of(kernel_configuration).unwrap_or_default());
            if old == new {
                continue;
            }
            let addresses: Vec<String> = new.addresses.iter().map(ToString::to_string).collect();
            let neighbors = new.neighbors.len();
            let (addresses, is_down) = (addresses.join(" "), new.is_down);
            if new == none {
                tracing::info!(interface, "Linux orders nothing any more");
            } else {
                tracing::info!(interface, addresses, neighbors, is_down, "ordered through Linux");
            }
        }
    }
}
