//! The login of a host: who, since when, until when, how much.

use serde::{Deserialize, Serialize};
use stoa_api::login::{Key, is_host};
use stoa_api::v1;
use stoa_wire::ethernet::Mac;

use super::cause::Cause;

/// Who has admitted a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// A user of the configuration.
    Local,
    /// A user of a RADIUS server.
    Radius,
    /// An operator or a program.
    Api,
}

impl Method {
    /// The name in YANG.
    pub fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Radius => "radius",
            Self::Api => "api",
        }
    }
}

/// When a login ends by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Seconds from its begin on.
    pub session_s: Option<u32>,
    /// Seconds without a packet of the host.
    pub idle_s: Option<u32>,
    /// Bytes of both directions together.
    pub bytes: Option<u64>,
}

/// Packets and bytes of both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    /// That the host has sent.
    pub in_packets: u64,
    /// Bytes of these IP packets.
    pub in_bytes: u64,
    /// That it has got.
    pub out_packets: u64,
    /// Bytes of these IP packets.
    pub out_bytes: u64,
}

impl Volume {
    /// Bytes of both directions.
    pub fn bytes(&self) -> u64 {
        self.in_bytes.saturating_add(self.out_bytes)
    }

    pub(super) fn of(it: &v1::LoginState) -> Self {
        let v1::LoginState { in_packets, in_bytes, out_packets, out_bytes, .. } = *it;
        Self { in_packets, in_bytes, out_packets, out_bytes }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        self.each(other, u64::saturating_add)
    }

    pub(super) fn minus(self, other: Self) -> Self {
        self.each(other, u64::saturating_sub)
    }

    /// The larger counters.
    pub(super) fn or_more(self, other: Self) -> Self {
        self.each(other, u64::max)
    }

    fn each(self, other: Self, of: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            in_packets: of(self.in_packets, other.in_packets),
            in_bytes: of(self.in_bytes, other.in_bytes),
            out_packets: of(self.out_packets, other.out_packets),
            out_bytes: of(self.out_bytes, other.out_bytes),
        }
    }
}

/// A host that has logged in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Its number, never that of another one.
    pub id: u64,
    /// The interface.
    pub interface: String,
    /// The MAC address.
    pub mac: [u8; 6],
    /// The user.
    pub user: String,
    /// Who has admitted it.
    pub method: Method,
    /// When it has logged in.
    pub since_s: u64,
    /// When it ends.
    pub limits: Limits,
    /// The address from which it has logged in, as text; "": none.
    pub address: String,
    /// The Class attributes of the RADIUS server.
    pub class: Vec<Vec<u8>>,
    /// Seconds between reports to RADIUS servers; `None`: as configured.
    pub interim_s: Option<u32>,
    /// What this router has counted.
    #[serde(default)]
    pub(super) here: Volume,
    /// What former forwarders have counted of it.
    pub(super) former: Volume,
    /// The run of the forwarder that counts now.
    pub(super) run: u64,
    /// When it has last sent a packet.
    pub(super) last_s: u64,
    /// When it was last reported.
    pub(super) reported_s: u64,
    /// Which router has it, and what the partner knows of it.
    #[serde(flatten)]
    pub(super) shared: Shared,
}

/// The MAC address in a text, such as `02:00:00:00:00:09`; `None`: it is no address of a host.
pub fn mac_of(text: &str) -> Option<[u8; 6]> {
    let Mac(mac) = text.parse().ok()?;
    is_host(&mac).then_some(mac)
}

impl Session {
    /// What it has sent and got, by both routers.
    pub fn total(&self) -> Volume {
        self.here.plus(self.shared.there)
    }

    /// The row of the forwarder.
    pub fn key(&self) -> Key {
        Key { interface: self.interface.clone(), mac: self.mac }
    }

    /// The Acct-Session-Id (RFC 2866 section 5.5).
    pub fn session_id(&self) -> String {
        format!("{:016x}", self.id)
    }

    /// Seconds since it has logged in.
    pub fn age_s(&self, now: u64) -> u64 {
        now.saturating_sub(self.since_s)
    }

    /// Seconds since its last packet.
    pub fn idle_s(&self, now: u64) -> u64 {
        now.saturating_sub(self.last_s.max(self.since_s))
    }

    /// Seconds until its time is over.
    pub fn remaining_s(&self, now: u64) -> Option<u64> {
        self.limits.session_s.map(|limit| u64::from(limit).saturating_sub(self.age_s(now)))
    }

    /// Bytes until its volume is used up.
    pub fn remaining_bytes(&self) -> Option<u64> {
        self.limits.bytes.map(|limit| limit.saturating_sub(self.total().bytes()))
    }

    /// Why it is over.
    pub(super) fn is_over(&self, now: u64) -> Option<Cause> {
        if self.remaining_s(now) == Some(0) {
            return Some(Cause::SessionTimeout);
        }
        if self.remaining_bytes() == Some(0) {
            return Some(Cause::Volume);
        }
        let is_idle = self.limits.idle_s.is_some_and(|limit| self.idle_s(now) >= limit.into());
        is_idle.then_some(Cause::IdleTimeout)
    }
}

/// Which router has a login, and what the partner knows of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Shared {
    /// How often it has changed its owner.
    pub(super) epoch: u32,
    /// Whether the partner owns it.
    pub(super) is_standby: bool,
    /// Whether it has begun at the partner.
    pub(super) is_foreign: bool,
    /// What the partner has counted.
    pub(super) there: Volume,
    /// When its host has last sent something by the partner.
    pub(super) partner_s: u64,
    /// When its host has last sent something by this router.
    pub(super) here_s: u64,
    /// What the partner has got on this connection, and when.
    #[serde(skip)]
    pub(super) sent: Option<Sent>,
    /// Whether the partner has named it on this connection.
    #[serde(skip)]
    pub(super) is_named: bool,
}

/// What the partner has got of a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(super) epoch: u32,
    pub(super) is_standby: bool,
    /// What this router had counted.
    pub(super) here: Volume,
    pub(super) at_s: u64,
}
