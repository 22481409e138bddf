//! Logins as a state machine: hosts, time and counters in; rows and events out. Times are seconds of a
//! clock that goes evenly ([`super::clock_s`]). [`partner`] is what two routers say of their logins.

pub mod partner;

use std::collections::BTreeMap;

use stoa_api::login::{Key, LOGINS};
use stoa_api::v1;

use self::partner::Partner;
use super::cause::Cause;
use super::session::Shared;
pub use super::session::{Limits, Method, Session, Volume, mac_of};

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
    /// What concerns the partner.
    partner: Partner,
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
            let (of_login, shared) = (&mut session.since_s, &mut session.shared);
            let moments = [of_login, &mut session.last_s, &mut session.reported_s];
            let moments = moments.into_iter().chain([&mut shared.partner_s, &mut shared.here_s]);
            moments.for_each(|moment| *moment = moment.saturating_sub(back));
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
        let is_other =
            |(it, session): &(&Key, &Session)| **it != host && is_same_user(&session.user, &user);
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
            here: Volume::default(),
            former: Volume::default(),
            run: 0,
            last_s: now,
            reported_s: now,
            shared: Shared::default(),
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
        self.is_changed = true;
        if self.partner.note_end(&session, cause) {
            self.events.push(Event::Stopped(session, cause));
        }
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
                // Of a login that was here before, the row may have counted all the time.
                let known = if session.run == 0 { Volume::of(it) } else { Volume::default() };
                (session.former, session.run) = (session.here.minus(known), run);
            }
            session.here = session.former.plus(Volume::of(it));
            if let Some(idle_ms) = it.idle_ms {
                let last = now.saturating_sub(idle_ms / 1_000);
                session.last_s = session.last_s.max(last);
                session.shared.here_s = session.shared.here_s.max(last);
            }
        }
    }

    /// The forwarder does not answer: nobody knows who sends, so that nobody counts as idle until it does.
    pub fn count_none(&mut self, now: u64) {
        let own = self.by_host.values_mut().filter(|it| !it.is_standby());
        own.for_each(|session| session.last_s = now);
    }

    /// Time has passed: ends logins that are over, and reports others each `interim_s` seconds, unless it is 0.
    pub fn pass(&mut self, now: u64, interim_s: u32) {
        self.pass_standby(now, interim_s);
        let own = self.by_host.iter().filter(|(_, it)| !it.is_standby());
        let over = |(host, it): (&Key, &Session)| Some((host.clone(), it.is_over(now)?));
        let over: Vec<_> = own.filter_map(over).collect();
        for (host, cause) in over {
            self.end(&host, cause);
        }
        for session in self.by_host.values_mut().filter(|it| !it.is_standby()) {
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
        // The users of the partner are its own.
        let is_gone = |it: &Session| {
            it.method == Method::Local && !it.shared.is_foreign && !has_user(&it.user)
        };
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

/// Whether two names are those of one user for the number of its hosts. Many RADIUS servers take a name in any case,
/// and each would be another user otherwise.
fn is_same_user(one: &str, other: &str) -> bool {
    let folded = |name: &str| name.chars().flat_map(char::to_lowercase).collect::<String>();
    one.eq_ignore_ascii_case(other)
        || !(one.is_ascii() && other.is_ascii()) && folded(one) == folded(other)
}

#[cfg(test)]
mod tests;
