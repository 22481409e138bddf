//! What routers say of a login.

use serde::{Deserialize, Serialize};
use stoa_api::login::{Key, is_host};

use crate::login::session::{Limits, Method, Sent, Session, Shared, Volume};

/// The most bytes of a name.
const NAME_BYTES: usize = 255;
/// The most bytes of all Class attributes of a RADIUS packet.
const CLASS_BYTES: usize = 4_096;

/// A login as routers say it. Times are ages: no clock is shared.
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
    pub(super) idle_s: u64,
    limits: Limits,
    address: String,
    class: Vec<Vec<u8>>,
    interim_s: Option<u32>,
    total: Volume,
}

impl Record {
    pub(super) fn of(it: &Session, now: u64) -> Self {
        Self {
            id: it.id,
            interface: it.interface.clone(),
            mac: it.mac,
            epoch: it.shared.epoch,
            is_standby: it.is_standby(),
            user: it.user.clone(),
            method: it.method,
            age_s: it.age_s(now),
            idle_s: it.idle_s(now),
            limits: it.limits.clone(),
            address: it.address.clone(),
            class: it.class.clone(),
            interim_s: it.interim_s,
            total: it.total,
        }
    }

    pub(super) fn key(&self) -> Key {
        Key { interface: self.interface.clone(), mac: self.mac }
    }

    /// Whether a login can be like this.
    pub(super) fn is_sound(&self) -> bool {
        let is_name = |it: &str| it.len() <= NAME_BYTES && !it.chars().any(char::is_control);
        is_host(&self.mac)
            && !self.interface.is_empty()
            && [&self.interface, &self.user, &self.address].into_iter().all(|it| is_name(it))
            && self.class.iter().map(|it| it.len() + 2).sum::<usize>() <= CLASS_BYTES
    }

    /// The standby login.
    pub(super) fn session(self, now: u64) -> Session {
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
            total: self.total,
            former: self.total,
            base: Volume::default(),
            run: 0,
            counted: Volume::default(),
            last_s: now.saturating_sub(self.idle_s),
            reported_s: now,
            shared: Shared {
                epoch: self.epoch,
                is_standby: true,
                partner_s: now.saturating_sub(self.idle_s),
                // It is not sent back.
                sent: Some(Sent {
                    epoch: self.epoch,
                    is_standby: true,
                    in_packets: self.total.in_packets,
                    at_s: now,
                }),
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

    pub(super) fn make_other(&mut self) {
        self.mac[5] = 99;
    }
}
