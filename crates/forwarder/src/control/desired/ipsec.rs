//! Security associations of the contract, checked.

use std::collections::BTreeMap;

use stoa_api::ipsec::without_keys;
use stoa_api::v1;
use stoa_crypto::{Algorithm, Fingerprint, KeyError, Salt, Secret};
use stoa_ports::{Encapsulation, PortConfig};

use super::change::DesiredChange;
use super::{DesiredState, ValidationErrors};
use crate::control::ipsec::{AssociationError, check_inbound, check_outbound};
use crate::ipsec::association::{DontFragment, Settings, UdpPorts};
use crate::ipsec::table::CAPACITY;

/// What an association has beside what both directions have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// To us: the size of the anti-replay window; 0: none.
    Inbound(u32),
    /// From us: the don't-fragment flag and the DSCP of outer packets; `None`: that of inner ones.
    Outbound(DontFragment, Option<u8>),
}

/// One direction of a tunnel with ESP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Association {
    /// As in the contract, without keys.
    pub message: v1::SecurityAssociation,
    /// What workers need.
    pub settings: Settings,
    /// Encrypts.
    pub key: Secret,
    /// Authenticates, where the algorithm has a key for it.
    pub integrity_key: Secret,
    /// Its direction.
    pub way: Way,
}

/// A wrong value: the cause and the fix.
pub type Wrong = (String, &'static str);

impl Association {
    /// Whether it sends.
    #[must_use]
    pub fn is_outbound(&self) -> bool {
        matches!(self.way, Way::Outbound(..))
    }

    /// What tells its keys from those of others. Algorithms whose nonces must be unique have one key alone.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        match self.settings.algorithm.needs_unique_nonces() {
            true => Fingerprint::of(self.key.bytes()),
            false => Fingerprint::of_both(self.key.bytes(), self.integrity_key.bytes()),
        }
    }

    /// Checks a message.
    ///
    /// # Errors
    /// The cause and the fix of what is wrong.
    pub fn parse(given: &v1::SecurityAssociation) -> Result<Self, Wrong> {
        let fix = "Use the name of a supported algorithm.";
        let algorithm = Algorithm::from_name(&given.algorithm)
            .ok_or_else(|| (format!("has the algorithm {:?}", given.algorithm), fix))?;
        let refused = |error: AssociationError| (format!("is refused: {error}"), FIX);
        let (key, integrity_key) =
            (Secret::from(&given.key[..]), Secret::from(&given.integrity_key[..]));
        let has_keys = given.withheld.is_empty();
        if has_keys && key.bytes().len() != algorithm.key_bytes() {
            let error = KeyError::Encryption { algorithm, given: key.bytes().len() };
            return Err(refused(error.into()));
        }
        if has_keys && integrity_key.bytes().len() != algorithm.integrity_key_bytes() {
            let error = KeyError::Integrity { algorithm, given: integrity_key.bytes().len() };
            return Err(refused(error.into()));
        }
        if has_keys && given.salt.len() != algorithm.salt_bytes() {
            let (is, should) = (given.salt.len(), algorithm.salt_bytes());
            return Err((format!("has a salt of {is} bytes, and not {should}"), FIX));
        }
        let salt = <[u8; 4]>::try_from(&given.salt[..]).map(Salt::from).unwrap_or_default();
        let settings = Settings {
            spi: given.spi,
            algorithm,
            salt,
            is_extended: given.extended,
            is_implicit: given.implicit_iv,
            udp: given.udp.as_ref().map(udp).transpose()?,
        };
        let way = match given.direction() {
            v1::IpsecDirection::IpsecInbound => {
                check_inbound(&settings, given.window).map_err(refused)?;
                Way::Inbound(given.window)
            }
            v1::IpsecDirection::IpsecOutbound => {
                let dscp = given.dscp.map(|it| u8::try_from(it).unwrap_or(u8::MAX));
                check_outbound(&settings, dscp, 0).map_err(refused)?;
                let dont_fragment = match given.dont_fragment() {
                    v1::DontFragment::DfCopy => DontFragment::Copy,
                    v1::DontFragment::DfSet => DontFragment::Set,
                    v1::DontFragment::DfClear => DontFragment::Clear,
                };
                Way::Outbound(dont_fragment, dscp)
            }
        };
        Ok(Self { message: without_keys(given), settings, key, integrity_key, way })
    }
}

const FIX: &str = "Correct it, or remove the association.";

fn udp(given: &v1::IpsecUdp) -> Result<UdpPorts, Wrong> {
    let port = |it: u32| u16::try_from(it).ok().filter(|it| *it > 0);
    match (port(given.local_port), port(given.remote_port)) {
        (Some(source), Some(destination)) => Ok(UdpPorts { source, destination }),
        _ => Err(("has a wrong UDP port".to_owned(), "Use ports from 1 to 65535.")),
    }
}

fn path(name: &str) -> String {
    format!("security association {name:?}")
}

impl DesiredChange {
    /// Sets the associations, if they are there.
    pub(super) fn set_ipsec(&mut self, ipsec: Option<&v1::Ipsec>, errors: &mut ValidationErrors) {
        let Some(ipsec) = ipsec else { return };
        let mut all = BTreeMap::new();
        for given in &ipsec.associations {
            match Association::parse(given) {
                Ok(association) if !given.name.is_empty() => {
                    if all.insert(given.name.clone(), association).is_some() {
                        let fix = "Give each association its own name.";
                        errors.add(path(&given.name), "is configured twice", fix);
                    }
                }
                Ok(_) => errors.add(path(""), "has no name", "Give it a name."),
                Err((cause, fix)) => errors.add(path(&given.name), cause, fix),
            }
        }
        self.ipsec = Some(all);
    }
}

impl DesiredState {
    /// Checks that associations belong to tunnels with ESP, that a tunnel sends by one of them, that SPIs of inbound
    /// ones differ, and that no key is used twice whose nonces would repeat.
    pub(super) fn check_ipsec(&self, errors: &mut ValidationErrors) {
        let is_esp = |name: &String| {
            let esp = |it: &PortConfig| matches!(it, PortConfig::Tunnel(it) if it.encapsulation == Encapsulation::Esp);
            self.ports.get(name).is_some_and(esp) && self.interfaces.contains_key(name)
        };
        let (mut spis, mut senders, mut keys) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        for (name, it) in &self.ipsec {
            let interface = &it.message.interface;
            if !is_esp(interface) {
                let cause = format!("is of {interface:?}, which is no tunnel with ESP");
                errors.add(path(name), cause, "Use a tunnel with the encapsulation esp.");
            }
            if it.is_outbound() {
                if let Some(other) = senders.insert(interface, name) {
                    let cause = format!("sends for {interface:?}, as {other:?} does");
                    errors.add(path(name), cause, "Remove one of them.");
                }
            } else if let Some(other) = spis.insert(it.settings.spi, name) {
                let cause = format!("has the SPI {} of {other:?}", it.settings.spi);
                errors.add(path(name), cause, "Use another SPI at both ends.");
            }
            let is_unique = it.settings.algorithm.needs_unique_nonces();
            if is_unique
                && it.message.withheld.is_empty()
                && let Some(other) = keys.insert(it.fingerprint(), name)
            {
                let cause = format!("has the key of {other:?}, so that nonces would repeat");
                errors.add(path(name), cause, "Use another key at both ends.");
            }
        }
        if spis.len() > CAPACITY as usize {
            let cause = format!("{} inbound associations are more than {CAPACITY}", spis.len());
            errors.add("security associations".to_owned(), cause, "Remove some.");
        }
    }
}
