//! Security associations as a capability: their part of the desired state, their state and their metrics.

use std::collections::HashMap;
use std::fmt;

use serde_json::{Map, Value};
use stoa_api::v1;
use stoa_crypto::Fingerprint;
use stoa_yang::error::ValidationErrors;

use super::{checks, entry_path, state};
use crate::capability::{Capability, Facts, Page, Settings, Translated};
use crate::config::model::{SaDirection, SadEntry};
use crate::config::others::tunnel_of;

/// The capability.
pub(crate) struct Ipsec;

impl Capability for Ipsec {
    /// An association is checked with the tunnel that it names.
    fn is_by_interface(&self) -> bool {
        true
    }

    fn translate(
        &self,
        settings: &Settings<'_>,
        translated: &mut Translated,
        errors: &mut ValidationErrors,
    ) {
        let entries = &settings.model.ipsec.sad.sad_entry;
        if entries.is_empty() {
            return;
        }
        let mut among = Among::default();
        let mut associations = Vec::with_capacity(entries.len());
        for entry in entries {
            check_tunnel(entry, settings, translated, errors);
            if let Some((association, key)) = checks::association(entry, errors) {
                among.check(entry, key, errors);
                associations.push(association);
            }
        }
        translated.desired.ipsec = Some(v1::Ipsec { associations, boot_id: 0 });
    }

    fn state(&self, facts: &Facts<'_>, state: &mut Map<String, Value>) {
        if let Some(listed) = facts.ipsec {
            state::add(listed, state);
        }
    }

    fn metrics(&self, facts: &Facts<'_>, page: &mut Page<'_>) -> fmt::Result {
        facts.ipsec.map_or(Ok(()), |listed| state::metrics(listed, page))
    }
}

/// Refuses an interface that is no tunnel with ESP.
fn check_tunnel(
    entry: &SadEntry,
    settings: &Settings<'_>,
    translated: &Translated,
    errors: &mut ValidationErrors,
) {
    let name = &entry.interface;
    let mut ports = translated.desired.ports.iter().chain(settings.others.ports());
    let port = ports.find(|port| port.interface == *name);
    let tunnel = port.and_then(tunnel_of);
    if tunnel.is_some_and(|it| it.encapsulation() == v1::Encapsulation::Esp) {
        return;
    }
    let cause = match tunnel {
        Some(_) => format!("the tunnel \"{name}\" has another encapsulation than esp"),
        None => format!("\"{name}\" is no tunnel"),
    };
    let fix = "Use a tunnel, and set its encapsulation: set interfaces interface NAME port tunnel encapsulation esp.";
    errors.add_about(format!("{}/interface", entry_path(&entry.name)), cause, fix, &[name]);
}

/// What associations must not have in common, with the names of those that have it.
#[derive(Default)]
struct Among<'a> {
    spis: HashMap<u32, &'a str>,
    senders: HashMap<&'a str, &'a str>,
    keys: HashMap<Fingerprint, &'a str>,
}

impl<'a> Among<'a> {
    /// `key`: that of an algorithm whose nonces must be unique.
    fn check(
        &mut self,
        entry: &'a SadEntry,
        key: Option<Fingerprint>,
        errors: &mut ValidationErrors,
    ) {
        let (path, spi) = (entry_path(&entry.name), entry.ipsec_sa_config.spi);
        if entry.direction == SaDirection::Outbound {
            if let Some(other) = self.senders.insert(&entry.interface, &entry.name) {
                errors.add_about(
                    format!("{path}/interface"),
                    format!("the tunnel sends by the association \"{other}\" already"),
                    "Remove one of them: a tunnel has one outbound association.",
                    &[&other],
                );
            }
        } else if let Some(other) = self.spis.insert(spi, &entry.name) {
            errors.add_about(
                format!("{path}/ipsec-sa-config/spi"),
                format!("the inbound association \"{other}\" has the SPI {spi}, too"),
                "Use another SPI at both ends.",
                &[&other],
            );
        }
        if let Some(other) = key.and_then(|key| self.keys.insert(key, &entry.name)) {
            errors.add_about(
                format!("{path}/ipsec-sa-config/esp-sa/encryption/key"),
                format!(
                    "the association \"{other}\" has the same key, so that nonces would repeat"
                ),
                "Use another key at both ends: each direction of each tunnel has its own.",
                &[&other],
            );
        }
    }
}
