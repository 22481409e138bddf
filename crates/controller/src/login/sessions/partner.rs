//! Logins of two routers that share addresses by VRRP.
//!
//! Each router admits the hosts of both. One of them *owns* a login: it ends it, and reports it to RADIUS servers. At
//! the other one the login is *standby*. Each counts what it has forwarded, and sends its count: the volume is the sum.
//!
//! Who has the packets owns a login: a standby one whose host sends here, while the owner has had none for a while or
//! cannot be reached, is taken over. The number of such changes is its epoch; the higher one counts, then the address
//! of the router. Where a host has logged in at both, because they had no connection, the higher number stays.
//!
//! A router sends each login when it has changed and then again from time to time. Ends are kept until the partner has
//! got them. Once the partner has sent all that it has, standby logins that it has not named are over, unless its file
//! was lost.

mod ends;
mod record;

use std::cmp::Ordering;
use std::ops::Bound::{Excluded, Unbounded};

use serde::{Deserialize, Serialize};
use stoa_api::login::{Key, LOGINS};

pub(crate) use self::ends::Ended;
use self::ends::Ends;
pub(crate) use self::record::Record;
use super::{Event, Sessions};
use crate::login::cause::Cause;
use crate::login::session::{Sent, Session};

/// Seconds between records of a login that only counts.
const REFRESH_S: u64 = 10;
/// Seconds between records of a login of which nothing changes. Also seconds without a packet at the owner after which
/// the other router takes over: more than records of a busy login are apart.
const SILENCE_S: u64 = 3 * REFRESH_S;
/// Seconds for which a packet of a host says that it sends here.
const RECENT_S: u64 = 5;
/// Seconds that a standby login outlasts its times: its owner ends it.
const GRACE_S: u64 = 60;
/// The most logins while others come from the partner: some places are left to hosts that log in here.
const ROOM: usize = LOGINS - LOGINS / 16;

impl Session {
    /// Whether the partner owns it.
    pub fn is_standby(&self) -> bool {
        self.shared.is_standby
    }

    /// Whether the partner is to get it now.
    fn is_due(&self, now: u64) -> bool {
        let Some(sent) = self.shared.sent else { return true };
        let is_after = |seconds: u64| now >= sent.at_s.saturating_add(seconds);
        (sent.epoch, sent.is_standby) != (self.shared.epoch, self.is_standby())
            || is_after(REFRESH_S) && sent.here != self.here
            || is_after(SILENCE_S) && !self.is_standby()
    }

    /// Whether its host has sent something here within some seconds.
    fn sends_here(&self, seconds: u64, now: u64) -> bool {
        self.shared.here_s > 0 && now <= self.shared.here_s.saturating_add(seconds)
    }

    /// This router owns it from now on. Accounting learns it soon: not that of all logins at once.
    fn take_over(&mut self, interim_s: u32, now: u64) {
        self.shared.is_standby = false;
        self.shared.epoch = self.shared.epoch.saturating_add(1);
        let every = u64::from(self.interim_s.unwrap_or(interim_s));
        self.reported_s = (now + self.id % SILENCE_S).saturating_sub(every);
    }

    /// Follows what the partner sends of it. Returns whether it has another owner now.
    fn merge(&mut self, record: &Record, yields_ties: bool, now: u64) -> bool {
        let shared = &mut self.shared;
        shared.is_named = true;
        shared.there = shared.there.or_more(record.here);
        shared.partner_s = shared.partner_s.max(now.saturating_sub(record.idle_s));
        self.last_s = self.last_s.max(shared.partner_s);
        if record.is_standby {
            return false;
        }
        let yields = shared.is_standby
            || match record.epoch.cmp(&shared.epoch) {
                Ordering::Equal => yields_ties,
                order => order == Ordering::Greater,
            };
        if !yields {
            // The partner has to know who owns it.
            shared.sent = None;
            return false;
        }
        shared.epoch = shared.epoch.max(record.epoch);
        !std::mem::replace(&mut shared.is_standby, true)
    }
}

/// What one router sends to the other one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Message {
    /// The first one. `has_file`: whether it knows what it has ended. What it does not name is over then.
    Hello { has_file: bool },
    /// A login.
    Login(Record),
    /// A login has ended.
    Ended(Ended),
    /// All logins and ends were sent.
    Complete,
    /// It is there, and has got so many ends on this connection.
    Alive { ends: u64 },
}

impl Message {
    /// The interface of a login.
    pub(crate) fn interface(&self) -> Option<&str> {
        match self {
            Self::Login(record) => Some(&record.interface),
            _ => None,
        }
    }
}

/// What has become of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub sent_logins: u64,
    pub sent_ends: u64,
    pub received_logins: u64,
    pub received_ends: u64,
    /// Standby logins that were added.
    pub added: u64,
    /// Standby logins that this router has taken over.
    pub taken_over: u64,
    /// Logins of interfaces where nobody logs in here, without room, or that none can be like.
    pub refused: u64,
}

/// What concerns the partner.
#[derive(Clone, Debug, Default)]
pub(super) struct Partner {
    /// Whether there is one at all.
    is_used: bool,
    is_connected: bool,
    /// Whether this router leaves a login to the partner where both have an equal claim.
    yields_ties: bool,
    /// The time of the last call.
    now_s: u64,
    /// Whether logins may have been lost with the file of the state folder.
    lacks_file: bool,
    /// Whether what the partner does not name is over.
    has_file: bool,
    /// Ends that it may not know.
    ends: Ends,
    /// Ends that it has sent on this connection.
    received_ends: u64,
    counts: Counts,
}

impl Partner {
    /// Keeps an end for the partner. Returns whether this router reports it.
    pub(super) fn note_end(&mut self, it: &Session, cause: Cause) -> bool {
        if it.is_standby() && cause == Cause::Withdrawn {
            return false;
        }
        if self.is_used {
            self.ends.add(Ended::new(it, cause, self.now_s.max(it.last_s)));
        }
        // The owner reports it. One that cannot be reached may be dead.
        !it.is_standby() || !self.is_connected
    }
}

impl Sessions {
    /// Logins that ended before the program started. `has_file`: whether this is all.
    pub(crate) fn restore_ended(&mut self, ended: Vec<Ended>, has_file: bool) {
        ended.into_iter().for_each(|it| self.partner.ends.add(it));
        self.partner.lacks_file = !has_file;
    }

    /// Ends that the partner may not know, and whether all logins were known when the program started, or the partner
    /// has sent them since.
    pub(crate) fn ended(&self) -> (Vec<Ended>, bool) {
        (self.partner.ends.all().cloned().collect(), !self.partner.lacks_file)
    }

    /// What has become of messages.
    pub(crate) fn counts(&self) -> Counts {
        self.partner.counts
    }

    /// There is a partner or none, which is not connected.
    pub(crate) fn set_partner(&mut self, is_used: bool) {
        self.disconnected();
        self.partner.is_used = is_used;
        if !is_used {
            self.partner.ends = Ends::default();
        }
    }

    /// The partner is connected, and knows nothing yet. `yields_ties`: whether this router leaves a login to it where
    /// both have an equal claim. Returns the first message.
    pub(crate) fn connected(&mut self, yields_ties: bool) -> Message {
        self.disconnected();
        (self.partner.is_connected, self.partner.yields_ties) = (true, yields_ties);
        Message::Hello { has_file: !self.partner.lacks_file }
    }

    /// The partner cannot be reached.
    pub(crate) fn disconnected(&mut self) {
        (self.partner.is_connected, self.partner.has_file) = (false, false);
        self.partner.ends.restart();
        self.partner.received_ends = 0;
        for it in self.by_host.values_mut() {
            (it.shared.sent, it.shared.is_named) = (None, false);
        }
    }

    /// The message when there is no other one.
    pub(crate) fn alive(&self) -> Message {
        Message::Alive { ends: self.partner.received_ends }
    }

    /// At most `room` messages that the partner is to get now: ends, then logins of hosts behind `behind`, which the
    /// last one replaces. Returns fewer if there are no more. An end goes before all later logins of its host.
    pub(crate) fn take(&mut self, behind: &mut Option<Key>, room: usize, now: u64) -> Vec<Message> {
        self.partner.now_s = now;
        let ends = self.partner.ends.take(room);
        self.partner.counts.sent_ends += ends.len() as u64;
        let mut due: Vec<_> = ends.into_iter().map(Message::Ended).collect();
        let from = behind.as_ref().map_or(Unbounded, Excluded);
        let behind_it = self.by_host.range_mut::<Key, _>((from, Unbounded));
        let mut last = None;
        for (host, it) in behind_it.filter(|(_, it)| it.is_due(now)).take(room - due.len()) {
            let (epoch, is_standby) = (it.shared.epoch, it.is_standby());
            it.shared.sent = Some(Sent { epoch, is_standby, here: it.here, at_s: now });
            due.push(Message::Login(Record::of(it, now)));
            self.partner.counts.sent_logins += 1;
            last = Some(host.clone());
        }
        *behind = last.or(behind.take());
        due
    }

    /// Follows a message of the partner. `has_login`: whether hosts of its interface have to log in.
    pub(crate) fn receive(&mut self, message: Message, has_login: bool, now: u64) {
        match message {
            Message::Hello { has_file } => self.partner.has_file = has_file,
            Message::Login(record) => self.receive_login(record, has_login, now),
            Message::Ended(ended) => self.receive_end(&ended, now),
            Message::Complete => self.sweep(),
            Message::Alive { ends } => self.is_changed |= self.partner.ends.settle(ends),
        }
    }

    fn receive_login(&mut self, record: Record, has_login: bool, now: u64) {
        self.partner.counts.received_logins += 1;
        if !record.is_sound() || !has_login {
            self.partner.counts.refused += 1;
            return;
        }
        if self.partner.ends.has(record.id) {
            // It has ended here, which the partner does not know yet.
            return;
        }
        let host = record.key();
        let is_full = self.by_host.len() >= ROOM;
        match self.by_host.get_mut(&host) {
            Some(known) if known.id == record.id => {
                self.is_changed |= known.merge(&record, self.partner.yields_ties, now);
                return;
            }
            // The partner holds it for this router, which has ended it.
            Some(_) if record.is_standby => return,
            None if record.is_standby && !self.partner.lacks_file => return,
            Some(known) if known.is_standby() => {
                self.forget(&host);
            }
            // Its host has logged in at both routers: one of the logins stays, the same at both.
            Some(known) if record.id < known.id => {
                known.shared.sent = None;
                return;
            }
            Some(_) => {
                self.end(&host, Cause::User);
            }
            None if is_full => {
                self.partner.counts.refused += 1;
                return;
            }
            None => {}
        }
        self.partner.counts.added += 1;
        self.changed.push(host.clone());
        self.by_host.insert(host, record.session(now));
        self.is_changed = true;
    }

    fn receive_end(&mut self, ended: &Ended, now: u64) {
        self.partner.counts.received_ends += 1;
        self.partner.received_ends += 1;
        let host = Key { interface: ended.interface.clone(), mac: ended.mac };
        let Some(known) = self.by_host.get_mut(&host).filter(|it| it.id == ended.id) else {
            return;
        };
        if known.is_standby() && !ended.is_for_both() && known.sends_here(SILENCE_S, now) {
            // It is idle there, not here.
            known.take_over(0, now);
            self.partner.counts.taken_over += 1;
            self.is_changed = true;
        } else if known.is_standby() {
            self.forget(&host);
        } else if !ended.is_for_both() {
            known.shared.sent = None;
        } else if let Some(session) = self.forget(&host) {
            self.events.push(Event::Stopped(session, ended.cause));
        }
    }

    /// Removes a login that the partner has ended, or will end.
    fn forget(&mut self, host: &Key) -> Option<Session> {
        let session = self.by_host.remove(host)?;
        self.changed.push(host.clone());
        self.is_changed = true;
        Some(session)
    }

    /// The partner has named all that it has.
    fn sweep(&mut self) {
        if self.partner.has_file {
            let is_gone = |it: &Session| it.is_standby() && !it.shared.is_named;
            let gone = self.by_host.values().filter(|it| is_gone(it)).map(Session::key);
            for host in gone.collect::<Vec<_>>() {
                self.forget(&host);
            }
        }
        self.partner.lacks_file = false;
        self.is_changed = true;
    }

    /// Takes over standby logins whose hosts send here, and forgets those whose owner should have ended them.
    pub(super) fn pass_standby(&mut self, now: u64, interim_s: u32) {
        let is_connected = self.partner.is_connected;
        for it in self.by_host.values_mut().filter(|it| it.is_standby()) {
            let is_silent = !is_connected || now >= it.shared.partner_s.saturating_add(SILENCE_S);
            if is_silent && it.sends_here(RECENT_S, now) {
                it.take_over(interim_s, now);
                self.partner.counts.taken_over += 1;
                self.is_changed = true;
            }
        }
        // Its owner ends it by its volume, which is that of both.
        let is_over = |it: &Session| {
            let cause = it.is_over(now.saturating_sub(GRACE_S));
            it.is_standby() && cause.is_some_and(|it| it != Cause::Volume)
        };
        let over = self.by_host.values().filter(|it| is_over(it)).map(Session::key);
        for host in over.collect::<Vec<_>>() {
            self.forget(&host);
        }
        self.partner.ends.expire(now);
        self.partner.now_s = now;
    }
}

#[cfg(test)]
mod tests;
