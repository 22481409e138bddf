//! Merges the kernel configuration into the configuration in force, and sends the result to the forwarder as
//! one transaction.

use std::collections::BTreeSet;
use std::sync::Arc;

use stoa_api::v1;

use super::{Error, ForwarderConnection};
use crate::configuration::Configuration;
use crate::kernel_configuration::{InterfaceSettings, KernelConfiguration};

impl ForwarderConnection {
    /// The configuration in force merged with the kernel configuration: what the forwarder holds.
    pub fn merged_configuration(&self) -> Option<Arc<Configuration>> {
        let state = self.state();
        state.merged.clone().or_else(|| state.desired.clone())
    }

    /// The kernel configuration.
    pub fn kernel_configuration(&self) -> Arc<KernelConfiguration> {
        Arc::clone(&self.state().kernel_configuration)
    }

    /// Sets the initial kernel configuration, before anything is sent.
    pub(crate) fn set_initial_kernel_configuration(
        &self,
        kernel_configuration: KernelConfiguration,
    ) {
        self.log_kernel_configuration(&kernel_configuration);
        self.state().kernel_configuration = Arc::new(kernel_configuration);
    }

    /// Applies a kernel configuration. Rejected settings are skipped and logged.
    pub(crate) async fn apply_kernel_configuration(
        &self,
        kernel_configuration: KernelConfiguration,
    ) {
        if *self.kernel_configuration() == kernel_configuration {
            return;
        }
        let _one = self.transaction.lock().await;
        self.log_kernel_configuration(&kernel_configuration);
        let (desired, before) = {
            let mut state = self.state();
            state.kernel_configuration = Arc::new(kernel_configuration);
            // If the forwarder is out of sync, the next sync sends both.
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
            // The next sync tries again.
            Err(error) => tracing::warn!("the kernel configuration is applied later: {error}"),
        }
    }

    /// Sends a configuration merged with the kernel configuration. If the forwarder refuses it, sends the
    /// configuration alone.
    pub(super) async fn apply_merged(
        &self,
        configuration: &Arc<Configuration>,
    ) -> Result<(v1::Applied, Arc<Configuration>), Error> {
        let kernel_configuration = self.kernel_configuration();
        if kernel_configuration.is_empty() {
            self.state().rejected_settings.clear();
            let applied = self.apply(configuration).await?;
            return Ok((applied, Arc::clone(configuration)));
        }
        let mut merged = Configuration::clone(configuration);
        let mut rejections = BTreeSet::new();
        let Configuration { desired, interfaces, routes, .. } = &mut merged;
        for refused in kernel_configuration.merge(desired, interfaces, routes) {
            let rejection = format!("{}: {}", refused.interface, refused.reason);
            if !self.state().rejected_settings.contains(&rejection) {
                let (interface, fix) = (&refused.interface, refused.fix);
                tracing::warn!(
                    interface,
                    fix,
                    "a setting of Linux was rejected: {}",
                    refused.reason
                );
            }
            rejections.insert(rejection);
        }
        self.state().rejected_settings = rejections;
        let merged = Arc::new(merged);
        match self.apply(&merged).await {
            Ok(applied) => Ok((applied, merged)),
            Err(Error::Refused(errors)) => {
                for error in errors {
                    tracing::warn!(
                        place = error.path,
                        fix = error.fix,
                        "the forwarder refused settings of Linux: {}",
                        error.cause
                    );
                }
                let applied = self.apply(configuration).await?;
                Ok((applied, Arc::clone(configuration)))
            }
            Err(error) => Err(error),
        }
    }

    /// Logs changes of the kernel configuration.
    fn log_kernel_configuration(&self, kernel_configuration: &KernelConfiguration) {
        let before = self.kernel_configuration();
        let none = InterfaceSettings::default();
        if before.rules != kernel_configuration.rules {
            tracing::info!(
                rules = kernel_configuration.rules.len(),
                "policy rules imported from Linux"
            );
        }
        let names = before.interfaces.keys().chain(kernel_configuration.interfaces.keys());
        for interface in names.collect::<BTreeSet<_>>() {
            let of = |kernel_configuration: &'_ KernelConfiguration| {
                kernel_configuration.interfaces.get(interface).cloned()
            };
            let (old, new) =
                (of(&before).unwrap_or_default(), of(kernel_configuration).unwrap_or_default());
            if old == new {
                continue;
            }
            let addresses: Vec<String> = new.addresses.iter().map(ToString::to_string).collect();
            let neighbors = new.neighbors.len();
            let (addresses, is_down) = (addresses.join(" "), new.is_down);
            if new == none {
                tracing::info!(interface, "the interface has no settings of Linux any more");
            } else {
                tracing::info!(
                    interface,
                    addresses,
                    neighbors,
                    is_down,
                    "settings imported from Linux"
                );
            }
        }
    }
}
