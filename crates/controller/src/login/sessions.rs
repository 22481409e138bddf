//! Logins as a state machine: hosts, time and counters in; rows and events out. Times are seconds of a
//! clock that goes evenly ([`super::clock_s`]).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use stoa_api::login::{Key, LOGINS, is_host};
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

    fn of(it: &v1::LoginState) -> Self {
        let v1::LoginState { in_packets, in_bytes, out_packets, out_bytes, .. } = *it;
        Self { in_packets, in_bytes, out_packets, out_bytes }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            in_packets: self.in_packets + other.in_packets,
            in_bytes: self.in_bytes + other.in_bytes,
            out_packets: self.out_packets + other.out_packets,
            out_bytes: self.out_bytes + other.out_bytes,
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
    /// What it has sent and got.
    pub total: Volume,
    /// What former forwarders have counted.
    former: Volume,
    /// The run of the forwarder that counts now.
    run: u64,
    /// When it has last sent a packet.
    last_s: u64,
    /// When it was last reported.
    reported_s: u64,
}

/// The MAC address in a text, such as `02:00:00:00:00:09`; `None`: it is no address of a host.
pub fn mac_of(text: &str) -> Option<[u8; 6]> {
    let Mac(mac) = text.parse().ok()?;
    is_host(&mac).then_some(mac)
}

impl Session {
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
        self.limits.bytes.map(|limit| limit.saturating_sub(self.total.bytes()))
    }

    /// Why it is over.
    fn is_over(&self, now: u64) -> Option<Cause> {
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

/// What has happened to a login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It has begun.
    Started(Session),
    /// It goes on.
    Interim(Session),
    /// It has ended.
    Stopped(Session, Cause),
}

/// All logins.
#[derive(Clone, Debug, Default)]
pub struct Sessions {
    by_host: BTreeMap<Key, Session>,
    /// Keys whose row in the forwarder differs.
    changed: Vec<Key>,
    events: Vec<Event>,
    is_changed: bool,
}

/// A login to begin.
#[derive(Clone, Debug)]
pub struct New {
    /// The host.
    pub host: Key,
    /// A number that no other login has.
    pub id: u64,
    /// The user.
    pub user: String,
    /// Who admits it.
    pub method: Method,
    /// When it ends.
    pub limits: Limits,
    /// Hosts of the user at the same time, at most; `None`: any.
    pub hosts_most: Option<u32>,
    /// Its address as text; "": none.
    pub address: String,
    /// The Class attributes of the RADIUS server.
    pub class: Vec<Vec<u8>>,
    /// Seconds between reports; `None`: as configured.
    pub interim_s: Option<u32>,
}

/// Why a host cannot log in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// As many hosts as there may be have logged in.
    Logins,
    /// The user has logged in on as many hosts as a user may.
    OfUser,
}

impl Sessions {
    /// Adds those of an earlier controller, which it has stored at a moment. Hosts that have logged in since this one
    /// has started keep their login. A clock that was set back meanwhile prolongs none.
    pub fn restore(&mut self, stored: Vec<Session>, stored_s: u64, now: u64) {
        let back = stored_s.saturating_sub(now);
        for mut session in stored {
            let moments = [&mut session.since_s, &mut session.last_s, &mut session.reported_s];
            moments.into_iter().for_each(|moment| *moment = moment.saturating_sub(back));
            if self.by_host.len() < LOGINS {
                self.by_host.entry(session.key()).or_insert(session);
            }
        }
        self.changed = self.by_host.keys().cloned().collect();
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &Session> {
        self.by_host.values()
    }

    /// That of a host.
    pub fn of(&self, host: &Key) -> Option<&Session> {
        self.by_host.get(host)
    }

    /// A host has logged in.
    ///
    /// # Errors
    /// There is no room for it, or its user has enough hosts.
    pub fn begin(&mut self, new: New, now: u64) -> Result<(), Full> {
        if self.by_host.len() >= LOGINS && !self.by_host.contains_key(&new.host) {
            return Err(Full::Logins);
        }
        let New { host, id, user, method, limits, hosts_most, address, class, interim_s } = new;
        let is_other = |(it, session): &(&Key, &Session)| **it != host && session.user == user;
        let others = || self.by_host.iter().filter(is_other).count();
        if hosts_most.is_some_and(|most| others() >= most as usize) {
            return Err(Full::OfUser);
        }
        self.end(&host, Cause::User);
        let session = Session {
            id,
            interface: host.interface.clone(),
            mac: host.mac,
            user,
            method,
            since_s: now,
            limits,
            address,
            class,
            interim_s,
            total: Volume::default(),
            former: Volume::default(),
            run: 0,
            last_s: now,
            reported_s: now,
        };
        self.events.push(Event::Started(session.clone()));
        self.changed.push(host.clone());
        self.by_host.insert(host, session);
        self.is_changed = true;
        Ok(())
    }

    /// A host has logged out; whether it had logged in.
    pub fn end(&mut self, host: &Key, cause: Cause) -> bool {
        let Some(session) = self.by_host.remove(host) else { return false };
        self.changed.push(host.clone());
        self.events.push(Event::Stopped(session, cause));
        self.is_changed = true;
        true
    }

    /// Takes over counters of a run of the forwarder. Those of another login of the host are not counted; those of
    /// another run are added to what the former one has counted.
    pub fn count(&mut self, counters: &[v1::LoginState], run: u64, now: u64) {
        for it in counters {
            let Ok(mac) = it.mac.as_slice().try_into() else { continue };
            let host = Key { interface: it.interface.clone(), mac };
            let Some(session) = self.by_host.get_mut(&host).filter(|known| known.id == it.id)
            else {
                continue;
            };
            if run != session.run {
                (session.former, session.run) = (session.total, run);
            }
            session.total = session.former.plus(Volume::of(it));
            if let Some(idle_ms) = it.idle_ms {
                let last = now.saturating_sub(idle_ms / 1_000);
                session.last_s = session.last_s.max(last);
            }
        }
    }

    /// The forwarder does not answer: nobody knows who sends, so that nobody counts as idle until it does.
    pub fn count_none(&mut self, now: u64) {
        self.by_host.values_mut().for_each(|session| session.last_s = now);
    }

    /// Time has passed: ends logins that are over, and reports others each `interim_s` seconds, unless it is 0.
    pub fn pass(&mut self, now: u64, interim_s: u32) {
        let over = |(host, it): (&Key, &Session)| Some((host.clone(), it.is_over(now)?));
        let over: Vec<_> = self.by_host.iter().filter_map(over).collect();
        for (host, cause) in over {
            self.end(&host, cause);
        }
        for session in self.by_host.values_mut() {
            let every = u64::from(session.interim_s.unwrap_or(interim_s));
            // A clock that was set back reports late, not always.
            if every != 0 && now >= session.reported_s.saturating_add(every) {
                session.reported_s = now;
                self.events.push(Event::Interim(session.clone()));
            }
        }
    }

    /// Ends the logins of interfaces where hosts need not log in.
    pub fn retain_interfaces(&mut self, has_login: impl Fn(&str) -> bool) {
        let gone = self.by_host.keys().filter(|host| !has_login(&host.interface));
        for host in gone.cloned().collect::<Vec<_>>() {
            self.end(&host, Cause::Withdrawn);
        }
    }

    /// Ends the logins of users who are in the configuration no more.
    pub fn retain_users(&mut self, has_user: impl Fn(&str) -> bool) {
        let is_gone = |it: &Session| it.method == Method::Local && !has_user(&it.user);
        let gone = self.by_host.values().filter(|it| is_gone(it)).map(Session::key);
        for host in gone.collect::<Vec<_>>() {
            self.end(&host, Cause::Operator);
        }
    }

    /// Rows that have changed since the last call, with the number of the login.
    pub fn take_rows(&mut self) -> Vec<(Key, Option<u64>)> {
        let changed = std::mem::take(&mut self.changed);
        changed
            .into_iter()
            .map(|host| (host.clone(), self.by_host.get(&host).map(|it| it.id)))
            .collect()
    }

    /// What has happened since the last call.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Whether logins have begun or ended since the last call.
    pub fn take_is_changed(&mut self) -> bool {
        std::mem::take(&mut self.is_changed)
    }
}

#[cfg(test)]
mod tests;
