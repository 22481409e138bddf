//! Logins of two routers that share addresses by VRRP.
//!
//! Each router admits the hosts of both. One of them *owns* a login: it ends it, and reports it to RADIUS servers. At
//! the other one the login is *standby*: what the owner says replaces it. Who has the packets owns a login: a standby
//! one whose host sends here, while the owner has had none for a while or cannot be reached, is taken over. The number
//! of such changes is its epoch; the higher one counts. Where both own the same login, because they could not speak,
//! the one with the later packet keeps it.
//!
//! An owner sends each login when it has changed and then again from time to time. Ends are kept until the partner has
//! got them. Once the partner has sent all that it knows, standby logins that it has not named are over, unless it has
//! lost its memory.

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
/// Seconds without a packet at the owner after which the other router takes over: more than records are apart.
const SILENCE_S: u64 = 3 * REFRESH_S;
/// Seconds that a standby login outlasts its limits: its owner ends it.
const GRACE_S: u64 = 60;

impl Session {
    /// Whether the partner owns it.
    pub fn is_standby(&self) -> bool {
        self.shared.is_standby
    }

    /// Whether the partner is to get it now.
    fn is_due(&self, now: u64) -> bool {
        let Some(sent) = self.shared.sent else { return true };
        let is_same = (sent.epoch, sent.is_standby) == (self.shared.epoch, self.is_standby());
        let is_old = now >= sent.at_s.saturating_add(REFRESH_S);
        // What the partner has said itself is not sent back.
        !self.is_standby() && (!is_same || is_old && sent.in_packets != self.total.in_packets)
    }
}

/// What one router says to the other one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Message {
    /// The first one. `has_memory`: whether it knows what it has ended. What it does not name is over then.
    Hello { has_memory: bool },
    /// A login.
    Login(Record),
    /// A login has ended.
    Ended(Ended),
    /// All logins and ends were sent.
    Complete,
    /// It is there, and has got so many ends on this connection.
    Alive { ends: u64 },
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
    /// Whether this router gives in where both have an equal claim.
    gives_in: bool,
    /// When [`Sessions::pass`] was called last.
    now_s: u64,
    /// Whether logins may have been lost with the file of the state folder.
    lacks_memory: bool,
    /// Whether what the partner does not name is over.
    has_memory: bool,
    /// Ends that it may not know.
    ends: Ends,
    /// Ends that it has sent on this connection.
    received_ends: u64,
    counts: Counts,
}

impl Partner {
    /// Keeps an end for the partner. Returns whether this router reports it.
    pub(super) fn note_end(&mut self, it: &Session, cause: Cause) -> bool {
        // The owner reports it. One that cannot be reached may be dead.
        let is_reported = !it.is_standby() || !self.is_connected;
        if it.is_standby() && cause == Cause::Withdrawn {
            return false;
        }
        if self.is_used {
            self.ends.add(Ended::new(it, cause, is_reported, self.now_s.max(it.last_s)));
        }
        is_reported
    }
}

impl Sessions {
    /// Logins that ended before the program started, and whether it knows them.
    pub(crate) fn restore_ended(&mut self, ended: Vec<Ended>, has_memory: bool) {
        ended.into_iter().for_each(|it| self.partner.ends.add(it));
        self.partner.lacks_memory = !has_memory;
    }

    /// Ends that the partner may not know.
    pub(crate) fn ended(&self) -> Vec<Ended> {
        self.partner.ends.all().cloned().collect()
    }

    /// What has become of messages.
    pub(crate) fn counts(&self) -> Counts {
        self.partner.counts
    }

    /// There is a partner or none, which is not connected.
    pub(crate) fn set_partner(&mut self, is_used: bool) {
        self.part();
        self.partner.is_used = is_used;
        if !is_used {
            self.partner.ends = Ends::default();
        }
    }

    /// The partner is connected, and knows nothing yet. `gives_in`: whether this router leaves a login to the partner
    /// where both have an equal claim. Returns what is said first.
    pub(crate) fn meet_partner(&mut self, gives_in: bool) -> Message {
        self.part();
        (self.partner.is_connected, self.partner.gives_in) = (true, gives_in);
        Message::Hello { has_memory: !self.partner.lacks_memory }
    }

    /// The partner cannot be reached.
    pub(crate) fn part(&mut self) {
        (self.partner.is_connected, self.partner.has_memory) = (false, false);
        self.partner.ends.restart();
        self.partner.received_ends = 0;
        for it in self.by_host.values_mut() {
            (it.shared.sent, it.shared.is_named) = (None, false);
        }
    }

    /// What is said when there is nothing else to say.
    pub(crate) fn alive(&self) -> Message {
        Message::Alive { ends: self.partner.received_ends }
    }

    /// At most `room` messages that the partner is to get now: ends, then logins of hosts behind `behind`, which the
    /// last one replaces. Returns fewer if there are no more. An end goes before all later logins of its host.
    pub(crate) fn take(&mut self, behind: &mut Option<Key>, room: usize, now: u64) -> Vec<Message> {
        let ends = self.partner.ends.take(room);
        self.partner.counts.sent_ends += ends.len() as u64;
        let mut due: Vec<_> = ends.into_iter().map(Message::Ended).collect();
        let from = behind.as_ref().map_or(Unbounded, Excluded);
        let behind_it = self.by_host.range_mut::<Key, _>((from, Unbounded));
        let mut last = None;
        for (host, it) in behind_it.filter(|(_, it)| it.is_due(now)).take(room - due.len()) {
            let (epoch, is_standby) = (it.shared.epoch, it.is_standby());
            let in_packets = it.total.in_packets;
            it.shared.sent = Some(Sent { epoch, is_standby, in_packets, at_s: now });
            due.push(Message::Login(Record::of(it, now)));
            self.partner.counts.sent_logins += 1;
            last = Some(host.clone());
        }
        *behind = last.or(behind.take());
        due
    }

    /// Follows a message of the partner. `has_login`: whether hosts of an interface have to log in.
    pub(crate) fn hear(&mut self, message: Message, has_login: impl Fn(&str) -> bool, now: u64) {
        match message {
            Message::Hello { has_memory } => self.partner.has_memory = has_memory,
            Message::Login(record) => self.hear_login(record, has_login, now),
            Message::Ended(ended) => self.hear_end(&ended),
            Message::Complete => self.sweep(),
            Message::Alive { ends } => self.partner.ends.settle(ends),
        }
    }

    fn hear_login(&mut self, record: Record, has_login: impl Fn(&str) -> bool, now: u64) {
        self.partner.counts.received_logins += 1;
        if !record.is_sound() || !has_login(&record.interface) {
            self.partner.counts.refused += 1;
            return;
        }
        if self.partner.ends.has(record.id) {
            // It has ended here, which the partner does not know yet.
            return;
        }
        let host = record.key();
        if let Some(known) = self.by_host.get_mut(&host) {
            known.shared.is_named |= known.id == record.id;
            if !known.yields_to(&record, self.partner.gives_in, now) {
                if !known.is_standby() && !record.is_standby {
                    // The partner has to know who owns it.
                    known.shared.sent = None;
                }
                return;
            }
            if known.id == record.id {
                known.follow(record, now);
                self.is_changed = true;
                return;
            }
            if known.is_standby() {
                self.forget(&host);
            } else {
                // Its host has logged in at both routers.
                self.end(&host, Cause::User);
            }
        } else if record.is_standby && !self.partner.lacks_memory {
            // The partner holds it for this router, which has ended it.
            return;
        } else if self.by_host.len() >= LOGINS {
            self.partner.counts.refused += 1;
            return;
        }
        self.partner.counts.added += 1;
        self.changed.push(host.clone());
        self.by_host.insert(host, record.session(now));
        self.is_changed = true;
    }

    fn hear_end(&mut self, ended: &Ended) {
        self.partner.counts.received_ends += 1;
        self.partner.received_ends += 1;
        let host = Key { interface: ended.interface.clone(), mac: ended.mac };
        let Some(known) = self.by_host.get_mut(&host).filter(|it| it.id == ended.id) else {
            return;
        };
        if known.is_standby() {
            self.forget(&host);
        } else if !ended.is_for_both() {
            known.shared.sent = None;
        } else if let Some(session) = self.forget(&host)
            && !ended.is_reported
        {
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

    /// The partner has named all that it knows.
    fn sweep(&mut self) {
        if self.partner.has_memory {
            let is_gone = |it: &Session| it.is_standby() && !it.shared.is_named;
            let gone = self.by_host.values().filter(|it| is_gone(it)).map(Session::key);
            for host in gone.collect::<Vec<_>>() {
                self.forget(&host);
            }
        }
        self.partner.lacks_memory = false;
        self.is_changed = true;
    }

    /// Takes over standby logins whose hosts send here, and forgets those whose owner should have ended them.
    pub(super) fn pass_standby(&mut self, now: u64) {
        let is_connected = self.partner.is_connected;
        for it in self.by_host.values_mut().filter(|it| it.is_standby()) {
            let sends_here = it.counted.in_packets > it.base.in_packets;
            if sends_here && (!is_connected || now >= it.shared.partner_s + SILENCE_S) {
                it.shared.is_standby = false;
                it.shared.epoch = it.shared.epoch.saturating_add(1);
                it.reported_s = now;
                // Accounting learns which router reports from now on.
                self.events.push(Event::Interim(it.clone()));
                self.partner.counts.taken_over += 1;
                self.is_changed = true;
            }
        }
        let is_over =
            |it: &Session| it.is_standby() && it.is_over(now.saturating_sub(GRACE_S)).is_some();
        let over = self.by_host.values().filter(|it| is_over(it)).map(Session::key);
        for host in over.collect::<Vec<_>>() {
            self.forget(&host);
        }
        self.partner.ends.expire(now);
        self.partner.now_s = now;
    }
}

impl Session {
    /// Whether what the partner says counts more than what this router knows.
    fn yields_to(&self, record: &Record, gives_in: bool, now: u64) -> bool {
        let idle_s = self.idle_s(now);
        let is_later = record.idle_s < idle_s || gives_in && record.idle_s == idle_s;
        match record.epoch.cmp(&self.shared.epoch) {
            _ if record.is_standby => false,
            _ if self.is_standby() => true,
            _ if self.id != record.id => is_later,
            Ordering::Equal => is_later,
            order => order == Ordering::Greater,
        }
    }

    /// Is standby from now on, as the partner says.
    fn follow(&mut self, record: Record, now: u64) {
        let (run, counted) = (self.run, self.counted);
        *self = record.session(now);
        (self.run, self.counted, self.base) = (run, counted, counted);
    }
}

#[cfg(test)]
mod tests;
