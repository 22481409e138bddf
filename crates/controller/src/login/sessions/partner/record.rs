//! A login as routers send it to each other.

use serde::{Deserialize, Serialize};
use stoa_api::login::{Key, is_host};

use crate::login::session::{Limits, Method, Sent, Session, Shared, Volume};

/// The most bytes of a name.
const NAME_BYTES: usize = 255;
/// The most Class attributes, and bytes of one (RFC 2865 section 5).
const CLASSES: usize = 8;
const CLASS_BYTES: usize = 253;
/// The shortest time between reports (RFC 2869 section 2.1).
const INTERIM_S: u32 = 60;

/// A login as routers send it. Times are ages: no clock is shared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(super) id: u64,
    pub(super) interface: String,
    mac: [u8; 6],
    pub(super) epoch: u32,
    pub(super) is_standby: bool,
    user: String,
    method: Method,
    age_s: u64,
    /// Since the host has last sent something by the router that sends this.
    pub(super) idle_s: u64,
    limits: Limits,
    address: String,
    class: Vec<Vec<u8>>,
    interim_s: Option<u32>,
    /// What this router has counted.
    pub(super) here: Volume,
    /// What it knows of the other one.
    there: Volume,
}

impl Record {
    pub(super) fn of(it: &Session, now: u64) -> Self {
        // Where the forwarder does not answer, the owner takes the host for busy.
        let last_s =
            if it.is_standby() { it.shared.here_s } else { it.last_s.max(it.shared.here_s) };
        Self {
            id: it.id,
            interface: it.interface.clone(),
            mac: it.mac,
            epoch: it.shared.epoch,
            is_standby: it.is_standby(),
            user: it.user.clone(),
            method: it.method,
            age_s: it.age_s(now),
            idle_s: now.saturating_sub(last_s.max(it.since_s)),
            limits: it.limits.clone(),
            address: it.address.clone(),
            class: it.class.clone(),
            interim_s: it.interim_s,
            here: it.here,
            there: it.shared.there,
        }
    }

    pub(super) fn key(&self) -> Key {
        Key { interface: self.interface.clone(), mac: self.mac }
    }

    /// Whether a login can be like this.
    pub(super) fn is_sound(&self) -> bool {
        // Besides control characters, those that change the direction of text.
        let is_foreign = |it: char| {
            it.is_control() || matches!(it, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        };
        let is_name = |it: &str| it.len() <= NAME_BYTES && !it.chars().any(is_foreign);
        is_host(&self.mac)
            && !self.interface.is_empty()
            && [&self.interface, &self.user, &self.address].into_iter().all(|it| is_name(it))
            && self.class.len() <= CLASSES
            && self.class.iter().all(|it| (1..=CLASS_BYTES).contains(&it.len()))
            && self.interim_s.is_none_or(|it| it == 0 || it >= INTERIM_S)
    }

    /// The standby login.
    pub(super) fn session(self, now: u64) -> Session {
        let last_s = now.saturating_sub(self.idle_s);
        let (here, there) = (self.there, self.here);
        let sent = Sent { epoch: self.epoch, is_standby: true, here, at_s: now };
        Session {
            id: self.id,
            interface: self.interface,
            mac: self.mac,
            user: self.user,
            method: self.method,
            since_s: now.saturating_sub(self.age_s),
            limits: self.limits,
            address: self.address,
            class: self.class,
            interim_s: self.interim_s,
            here,
            former: here,
            run: 0,
            last_s,
            reported_s: now,
            shared: Shared {
                epoch: self.epoch,
                is_standby: true,
                is_foreign: true,
                there,
                partner_s: last_s,
                here_s: 0,
                // It is not sent back.
                sent: Some(sent),
                is_named: true,
            },
        }
    }
}

#[cfg(test)]
impl Record {
    pub(super) fn make_group(&mut self) {
        self.mac[0] |= 1;
    }

    pub(super) fn make_long(&mut self) {
        self.user = "a".repeat(NAME_BYTES + 1);
    }

    pub(super) fn make_backwards(&mut self) {
        self.user = "ann\u{202e}".to_owned();
    }

    pub(super) fn set_class(&mut self, class: Vec<Vec<u8>>) {
        self.class = class;
    }

    pub(super) fn make_eager(&mut self) {
        self.interim_s = Some(1);
    }

    pub(super) fn make_other(&mut self) {
        self.mac[5] = 99;
    }
}
