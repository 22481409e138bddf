//! The protocol of a session (RFC 4271, section 8), on the side that was called. Time comes from outside.

use std::time::{Duration, Instant};

use crate::message::{self, Fault, HEADER, Kind, LARGEST};
use crate::nlri::Nlri;
use crate::open::{self, Local, Terms};
use crate::{Attributes, Family, update};

/// How long the daemon has until it has said OPEN and KEEPALIVE. RFC 4271 suggests four minutes; it is on the same machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Who is told what a session brings.
pub trait Listener {
    /// The session is established: everything will be said from the beginning.
    fn up(&mut self, terms: &Terms);
    /// IPv4 paths.
    fn reach4(&mut self, set: &Attributes, prefixes: Nlri<'_, u32>);
    /// IPv6 paths.
    fn reach6(&mut self, set: &Attributes, prefixes: Nlri<'_, u128>);
    /// IPv4 paths that went.
    fn unreach4(&mut self, prefixes: Nlri<'_, u32>);
    /// IPv6 paths that went.
    fn unreach6(&mut self, prefixes: Nlri<'_, u128>);
    /// All paths of a family were said (RFC 4724, section 2).
    fn end_of_rib(&mut self, family: Family);
}

/// What came in a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages of any type.
    pub messages: u64,
    /// UPDATE messages.
    pub updates: u64,
    /// UPDATE messages with wrong attributes, whose routes were taken as withdrawn (RFC 7606).
    pub treated_as_withdrawn: u64,
    /// What was wrong with the last of them.
    pub last_wrong: Option<&'static str>,
}

/// Why a session is over. What is in [`Session::take_output`] is still to be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ended {
    /// The daemon said so.
    #[error("{reason}")]
    Peer {
        /// In words.
        reason: String,
        /// Whether nothing is to outlive the session (RFC 8538, section 3: hard reset).
        is_hard: bool,
    },
    /// What the daemon sent, or did not send, made us end it.
    #[error("{0}")]
    Fault(#[from] Fault),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    OpenSent,
    OpenConfirm,
    Established,
    Ended,
}

/// One session, from the connection to its end.
#[derive(Debug)]
pub struct Session {
    local: Local,
    state: State,
    terms: Option<Terms>,
    output: Vec<u8>,
    counts: Counts,
    /// When the daemon was silent for too long.
    expires: Option<Instant>,
    /// When we have to say that we are there, and how often.
    keepalive: Option<(Instant, Duration)>,
}

impl Session {
    /// The daemon has connected: OPEN is in the output.
    #[must_use]
    pub fn new(local: Local, now: Instant) -> Self {
        let output = open::offer(&local);
        Self {
            local,
            state: State::OpenSent,
            terms: None,
            output,
            counts: Counts::default(),
            expires: Some(now + PATIENCE),
            keepalive: None,
        }
    }

    /// What has to be sent.
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// What was agreed on, once both have said OPEN.
    #[must_use]
    pub fn terms(&self) -> Option<&Terms> {
        self.terms.as_ref()
    }

    /// Whether routes may come.
    #[must_use]
    pub fn is_established(&self) -> bool {
        self.state == State::Established
    }

    /// Whether routes of a family outlive a session that ended so. A NOTIFICATION takes them along, whoever sent it (RFC 4724,
    /// section 4.2), unless both sides said that it does not (RFC 8538, section 4) and the daemon restarts gracefully in the family.
    #[must_use]
    pub fn outlives(&self, ended: &Ended, family: Family) -> bool {
        let is_hard = matches!(ended, Ended::Peer { is_hard: true, .. });
        let may = |terms: &Terms| {
            let restarts = terms.family(family).is_some_and(|it| it.forwarded.is_some());
            terms.outlives_notification && restarts
        };
        !is_hard && self.terms.as_ref().is_some_and(may)
    }

    /// What came.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// When [`Session::tick`] has something to do.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let keepalive = self.keepalive.map(|(at, _)| at);
        self.expires.into_iter().chain(keepalive).min()
    }

    /// Reads the messages that are whole in `bytes` and says how many bytes these were: the rest is to be given again with what
    /// comes behind it. A message has at most 65,535 bytes.
    ///
    /// # Errors
    /// When the session is over.
    pub fn receive(
        &mut self,
        bytes: &[u8],
        now: Instant,
        listener: &mut impl Listener,
    ) -> Result<usize, Ended> {
        let mut read = 0;
        while self.state != State::Ended {
            let largest = self.terms.map_or(LARGEST, |terms| terms.largest);
            let framed = message::frame(&bytes[read..], largest);
            let Some((kind, message)) = framed.map_err(|fault| self.end(fault))? else { break };
            read += message.len();
            self.counts.messages += 1;
            self.hear(now);
            self.take(kind, message, now, listener)?;
        }
        Ok(read)
    }

    /// Looks at the time.
    ///
    /// # Errors
    /// When the daemon was silent for too long: the session is over.
    pub fn tick(&mut self, now: Instant) -> Result<(), Ended> {
        if self.state == State::Ended {
            return Ok(());
        }
        if self.expires.is_some_and(|expires| now >= expires) {
            let reason = match self.terms {
                Some(terms) => format!("the daemon was silent for {} s", terms.hold_time_s),
                None => format!("the daemon said no OPEN in {} s", PATIENCE.as_secs()),
            };
            return Err(self.end(Fault::new(4, 0, reason)));
        }
        self.say_alive(now);
        Ok(())
    }

    /// When [`Session::say_alive`] has something to say.
    #[must_use]
    pub fn keepalive_at(&self) -> Option<Instant> {
        self.keepalive.map(|(at, _)| at)
    }

    /// Says KEEPALIVE when it is time to, and nothing else: while what came waits to be read, nobody was silent.
    pub fn say_alive(&mut self, now: Instant) {
        if let Some((at, every)) = self.keepalive
            && now >= at
        {
            message::append(&mut self.output, 4, &[]);
            self.keepalive = Some((now + every, every));
        }
    }

    /// Ends the session from our side, with the subcode of a Cease (RFC 4486: 3 not configured any more, 6 configuration changed, 7 another
    /// connection).
    pub fn cease(&mut self, subcode: u8) {
        if self.state != State::Ended {
            let _ = self.end(Fault::new(6, subcode, "ended by Stoa"));
        }
    }

    fn end(&mut self, fault: Fault) -> Ended {
        self.state = State::Ended;
        message::notify(&mut self.output, &fault);
        (self.expires, self.keepalive) = (None, None);
        fault.into()
    }

    /// Something was heard: the daemon is there.
    fn hear(&mut self, now: Instant) {
        if let Some(terms) = self.terms {
            let hold = Duration::from_secs(u64::from(terms.hold_time_s));
            self.expires = (!hold.is_zero()).then(|| now + hold);
        }
    }

    fn take(
        &mut self,
        kind: Kind,
        message: &[u8],
        now: Instant,
        listener: &mut impl Listener,
    ) -> Result<(), Ended> {
        match (self.state, kind) {
            (_, Kind::Notification) => {
                self.state = State::Ended;
                (self.expires, self.keepalive) = (None, None);
                let (reason, is_hard) =
                    (message::notified(message), message::is_hard_reset(message));
                return Err(Ended::Peer { reason, is_hard });
            }
            (State::OpenSent, Kind::Open) => {
                let terms = open::agree(&self.local, message).map_err(|fault| self.end(fault))?;
                self.open(terms, now);
            }
            (State::OpenConfirm, Kind::Keepalive) => self.establish(listener),
            (State::Established, Kind::Update) => {
                if let Some(terms) = self.terms {
                    let body = &message[HEADER..];
                    update::read(body, &terms, &mut self.counts, listener)
                        .map_err(|fault| self.end(fault))?;
                }
            }
            // We have no routes that could be said again.
            (State::Established, Kind::Keepalive | Kind::RouteRefresh) => {}
            (state, kind) => {
                let (subcode, waited) = match state {
                    State::OpenSent => (1, "OPEN"),
                    State::OpenConfirm => (2, "KEEPALIVE"),
                    State::Established | State::Ended => (3, "routes"),
                };
                let reason = format!("{kind:?} came while {waited} was waited for");
                return Err(self.end(Fault::new(5, subcode, reason)));
            }
        }
        Ok(())
    }

    fn open(&mut self, terms: Terms, now: Instant) {
        self.state = State::OpenConfirm;
        self.terms = Some(terms);
        message::append(&mut self.output, 4, &[]);
        let every = Duration::from_secs(u64::from(terms.hold_time_s)) / 3;
        self.keepalive = (!every.is_zero()).then(|| (now + every, every));
        self.hear(now);
    }

    fn establish(&mut self, listener: &mut impl Listener) {
        let Some(terms) = self.terms else { return };
        self.state = State::Established;
        listener.up(&terms);
        // A daemon that has restarted waits until its neighbours have said all (RFC 4724, section 4.1): we have nothing to say.
        if terms.ip4.is_some() {
            message::append(&mut self.output, 2, &[0, 0, 0, 0]);
        }
        if terms.ip6.is_some() {
            message::append(&mut self.output, 2, &[0, 0, 0, 6, 0x80, 15, 3, 0, 2, 1]);
        }
    }
}
