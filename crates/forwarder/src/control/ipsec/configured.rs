//! Security associations of the configuration: brings them into force.
//!
//! Inbound ones are changed while a change may still be refused. Outbound ones follow when it cannot be refused any
//! more: then no number of a key is lost with a state that never was in force.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use stoa_api::v1;
use stoa_crypto::{Fingerprint, Key};

use super::numbers::Numbers;
use super::{AssociationError, Keys};
use crate::control::apply::ApplyError;
use crate::control::capability::Step;
use crate::control::desired::{Association, Way};
use crate::control::forwarder_state::ForwarderState;
use crate::ipsec::association::{Inbound, Outbound};
use crate::ipsec::engines::engines;
use crate::tunnel::Tunnel;
use crate::tunnel::line::TunnelLine;

/// An association as workers have it.
pub(super) enum Published {
    Inbound(Arc<Inbound>),
    /// With its tunnel, and the number behind which it has begun.
    Outbound(Arc<Outbound>, Tunnel, u64),
}

/// An association in force.
pub(super) struct Active {
    pub(super) association: Association,
    pub(super) published: Published,
}

/// An outbound association that is published next.
struct Ready {
    name: String,
    association: Association,
    tunnel: Tunnel,
    key: Key,
    line: TunnelLine,
}

/// The associations of the configuration.
#[derive(Default)]
pub(super) struct Configured {
    pub(super) active: BTreeMap<String, Active>,
    /// Those that are not brought into force.
    pub(super) withheld: Vec<v1::SecurityAssociation>,
    pub(super) numbers: Numbers,
    ready: Vec<Ready>,
    /// Interfaces that lose their outbound association.
    leaving: Vec<u32>,
    /// The highest numbers of inbound associations that a change has removed: one with the same key goes on behind.
    tops: BTreeMap<Fingerprint, u64>,
}

fn refused(name: &str, error: &AssociationError) -> ApplyError {
    let is_full = matches!(
        error,
        AssociationError::Full | AssociationError::NoMemory | AssociationError::Keys(_)
    );
    let fix = match error {
        AssociationError::Keys(_) => "Restart the forwarder; then use new keys.",
        _ => "Correct the security association, or remove it.",
    };
    let path = format!("security association {name:?}");
    ApplyError { is_full, ..ApplyError::one(path, error, fix) }
}

impl ForwarderState {
    /// Brings inbound associations into force, and prepares outbound ones.
    pub(super) fn apply_ipsec(&mut self, step: &Step<'_>) -> Result<(), ApplyError> {
        let desired = &step.desired().ipsec;
        let configured = &mut self.capabilities.ipsec.configured;
        // Those of a change that was refused.
        configured.ready.clear();
        configured.leaving.clear();
        let is_touched = step.touched.ipsec.is_some() || !step.interfaces.indexes.is_empty();
        let are_none =
            desired.is_empty() && configured.active.is_empty() && configured.withheld.is_empty();
        if !is_touched || are_none {
            return Ok(());
        }
        let withheld = desired.values().map(|it| &it.message).filter(|it| !it.withheld.is_empty());
        configured.withheld = withheld.cloned().collect();
        self.take_out(desired);
        for (name, association) in desired {
            self.pause(1);
            let is_active = self.capabilities.ipsec.configured.active.contains_key(name);
            if is_active || !association.message.withheld.is_empty() {
                continue;
            }
            self.add_configured(name, association).map_err(|error| refused(name, &error))?;
        }
        Ok(())
    }

    /// Takes out what is not desired any more, or is not in force as it should be.
    fn take_out(&mut self, desired: &BTreeMap<String, Association>) {
        let names = self.capabilities.ipsec.configured.active.keys();
        for name in names.cloned().collect::<Vec<_>>() {
            self.pause(1);
            let active = &self.capabilities.ipsec.configured.active;
            let Some(it) = active.get(&name) else { continue };
            let is_in_place = self.is_in_place(it);
            if desired.get(&name) == Some(&it.association) && self.is_in_force(it) {
                continue;
            }
            let configured = &mut self.capabilities.ipsec.configured;
            let Some(it) = configured.active.remove(&name) else { continue };
            let key = it.association.fingerprint();
            match it.published {
                Published::Inbound(inbound) => {
                    let top = inbound.window().map_or(0, |it| it.top());
                    configured.tops.insert(key, top);
                    if is_in_place {
                        self.remove_inbound_association(it.association.settings.spi);
                    }
                }
                Published::Outbound(outbound, tunnel, _) => {
                    configured.numbers.part(key, outbound);
                    configured.leaving.extend(is_in_place.then_some(tunnel.interface));
                }
            }
        }
    }

    /// Whether workers have an association.
    pub(super) fn is_in_place(&self, it: &Active) -> bool {
        let associations = &self.capabilities.ipsec;
        match &it.published {
            Published::Inbound(inbound) => {
                let found = associations.inbound.get(&it.association.settings.spi);
                found.is_some_and(|(_, found)| Arc::ptr_eq(found, inbound))
            }
            Published::Outbound(outbound, tunnel, _) => {
                let found = associations.tunnels.get(&tunnel.interface);
                let found = found.and_then(|it| it.outbound.as_ref());
                found.is_some_and(|found| Arc::ptr_eq(found, outbound))
            }
        }
    }

    /// Whether they have it for the tunnel as it is.
    fn is_in_force(&self, it: &Active) -> bool {
        let now = self.index_of(&it.association.message.interface);
        self.is_in_place(it)
            && match &it.published {
                Published::Inbound(inbound) => now == Some(inbound.interface()),
                Published::Outbound(_, tunnel, _) => {
                    now.and_then(|index| self.esp_tunnel_at(index)).as_ref() == Some(tunnel)
                }
            }
    }

    fn add_configured(&mut self, name: &str, it: &Association) -> Result<(), AssociationError> {
        let interface = &it.message.interface;
        let keys = Keys { encryption: it.key.bytes(), integrity: it.integrity_key.bytes() };
        let (settings, key) = (&it.settings, it.fingerprint());
        if let Way::Inbound(window) = it.way {
            let tops = &self.capabilities.ipsec.configured.tops;
            let floor = tops.get(&key).copied().unwrap_or_default();
            let inbound = self.add_inbound(interface, (settings, keys), (window, floor))?;
            let (association, published) = (it.clone(), Published::Inbound(inbound));
            let active = &mut self.capabilities.ipsec.configured.active;
            active.insert(name.to_owned(), Active { association, published });
            return Ok(());
        }
        let no_tunnel = || AssociationError::NoTunnel(interface.clone());
        let index = self.index_of(interface).ok_or_else(no_tunnel)?;
        let tunnel = self.esp_tunnel_at(index).ok_or_else(no_tunnel)?;
        if settings.algorithm.needs_unique_nonces() {
            let numbers = &self.capabilities.ipsec.configured.numbers;
            numbers.has_room(key).map_err(AssociationError::Keys)?;
        }
        let line = self.line_of(&tunnel, settings).ok_or_else(no_tunnel)?;
        let key = engines().key(settings.algorithm, keys.encryption, keys.integrity)?;
        let (name, association) = (name.to_owned(), it.clone());
        let ready = Ready { name, association, tunnel, key, line };
        self.capabilities.ipsec.configured.ready.push(ready);
        Ok(())
    }

    /// Publishes the outbound associations that are prepared, each behind the last number of its key.
    pub(super) fn publish_outbound(&mut self) {
        let configured = &mut self.capabilities.ipsec.configured;
        configured.tops.clear();
        let ready = std::mem::take(&mut configured.ready);
        let leaving = std::mem::take(&mut configured.leaving);
        let replaced: BTreeSet<u32> = ready.iter().map(|it| it.tunnel.interface).collect();
        for index in leaving.into_iter().filter(|it| !replaced.contains(it)) {
            self.unset_outbound(index);
        }
        for Ready { name, association, tunnel, key, line } in ready {
            let Way::Outbound(dont_fragment, dscp) = association.way else { continue };
            let numbers = &mut self.capabilities.ipsec.configured.numbers;
            let last = numbers.after(association.fingerprint());
            let how = (dont_fragment, dscp);
            let outbound = Outbound::new(&association.settings, key, line, how, last);
            let outbound = Arc::new(outbound);
            self.set_outbound(&tunnel, outbound.clone());
            let published = Published::Outbound(outbound, tunnel, last);
            let active = &mut self.capabilities.ipsec.configured.active;
            active.insert(name, Active { association, published });
        }
    }
}
