//! Orders from Linux on their way to the forwarder: laid over the configuration in force, sent as one transaction.

use std::collections::BTreeSet;
use std::sync::Arc;

use stoa_api::v1;

use super::{Error, Line};
use crate::configuration::Configuration;
use crate::overlay::{Orders, Overlay};

impl Line {
    /// The configuration in force with the orders of Linux over its desired state: what the forwarder holds.
    pub fn in_force(&self) -> Option<Arc<Configuration>> {
        let facts = self.facts();
        facts.merged.clone().or_else(|| facts.desired.clone())
    }

    /// What was ordered through Linux.
    pub fn overlay(&self) -> Arc<Overlay> {
        Arc::clone(&self.facts().overlay)
    }

    /// Sets the orders that were there when the controller began, before anything is sent.
    pub(crate) fn order_before_anything(&self, overlay: Overlay) {
        self.say(&overlay);
        self.facts().overlay = Arc::new(overlay);
    }

    /// Brings orders into force. What cannot be is left out, and said in the log.
    pub(crate) async fn order(&self, overlay: Overlay) {
        if *self.overlay() == overlay {
            return;
        }
        let _one = self.transaction.lock().await;
        self.say(&overlay);
        let (desired, before) = {
            let mut facts = self.facts();
            facts.overlay = Arc::new(overlay);
            // What the forwarder does not hold yet is sent with the orders.
            let Some(synced) = facts.synced.take() else { return };
            let Some(desired) = facts.desired.clone() else { return };
            (desired, synced)
        };
        match self.apply_with_orders(&desired).await {
            Ok((_, merged)) => {
                let mut facts = self.facts();
                facts.merged = Some(merged);
                facts.synced = Some(before);
                self.changes.send_modify(|count| *count += 1);
            }
            // Nothing was changed.
            Err(Error::Refused(_)) => self.facts().synced = Some(before),
            // Whoever looks sends it again.
            Err(error) => tracing::warn!("orders from Linux wait: {error}"),
        }
    }

    /// Sends a configuration with the orders over it. When the forwarder refuses that, without them.
    pub(super) async fn apply_with_orders(
        &self,
        configuration: &Arc<Configuration>,
    ) -> Result<(v1::Applied, Arc<Configuration>), Error> {
        let overlay = self.overlay();
        if overlay.is_nothing() {
            self.facts().refused_orders.clear();
            let applied = self.apply(&configuration.desired).await?;
            return Ok((applied, Arc::clone(configuration)));
        }
        let mut merged = (**configuration).clone();
        let mut said = BTreeSet::new();
        for refused in overlay.merge(&mut merged.desired) {
            let line = format!("{}: {}", refused.interface, refused.reason);
            if !self.facts().refused_orders.contains(&line) {
                let (interface, fix) = (&refused.interface, refused.fix);
                tracing::warn!(
                    interface,
                    fix,
                    "an order from Linux is not followed: {}",
                    refused.reason
                );
            }
            said.insert(line);
        }
        self.facts().refused_orders = said;
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
    fn say(&self, overlay: &Overlay) {
        let before = self.overlay();
        let none = Orders::default();
        if before.rules != overlay.rules {
            tracing::info!(rules = overlay.rules.len(), "rules ordered through Linux");
        }
        let names = before.interfaces.keys().chain(overlay.interfaces.keys());
        for interface in names.collect::<BTreeSet<_>>() {
            let of = |overlay: &'_ Overlay| overlay.interfaces.get(interface).cloned();
            let (old, new) = (of(&before).unwrap_or_default(), of(overlay).unwrap_or_default());
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
