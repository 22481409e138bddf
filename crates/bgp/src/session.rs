//! The finite state machine of a session (RFC 4271, section 8), passive side. The caller provides the time.

use std::time::{Duration, Instant};

use crate::message::{self, HEADER_SIZE, MAX_MESSAGE_SIZE, MessageType, ProtocolError};
use crate::nlri::Nlri;
use crate::open::{self, LocalConfig, Negotiated};
use crate::{Attributes, Family, update};

/// Time until the daemon must have sent OPEN and KEEPALIVE. RFC 4271 suggests four minutes; this daemon is on the
/// same machine.
const OPEN_TIMEOUT: Duration = Duration::from_secs(30);

/// Receives the events of a session.
pub trait SessionHandler {
    /// The session is established; the daemon sends all its routes from the beginning.
    fn up(&mut self, negotiated: &Negotiated);
    /// Announced IPv4 paths.
    fn reach4(&mut self, set: &Attributes, prefixes: Nlri<'_, u32>);
    /// Announced IPv6 paths.
    fn reach6(&mut self, set: &Attributes, prefixes: Nlri<'_, u128>);
    /// Withdrawn IPv4 paths.
    fn unreach4(&mut self, prefixes: Nlri<'_, u32>);
    /// Withdrawn IPv6 paths.
    fn unreach6(&mut self, prefixes: Nlri<'_, u128>);
    /// End-of-RIB of a family (RFC 4724, section 2).
    fn end_of_rib(&mut self, family: Family);
}

/// Received messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionCounters {
    /// Messages of any type.
    pub messages: u64,
    /// UPDATE messages.
    pub updates: u64,
    /// UPDATE messages with malformed attributes, treated as withdraw (RFC 7606).
    pub treated_as_withdrawn: u64,
    /// The error of the last of them.
    pub last_error: Option<&'static str>,
}

/// Why a session ended. [`Session::take_output`] may still hold bytes to send.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// The daemon sent a NOTIFICATION.
    #[error("{reason}")]
    Notification {
        /// The NOTIFICATION as text.
        reason: String,
        /// Whether no routes may be retained (RFC 8538, section 3: hard reset).
        is_hard_reset: bool,
    },
    /// Stoa ended the session because of a protocol error or an expired hold timer.
    #[error("{0}")]
    Protocol(#[from] ProtocolError),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    OpenSent,
    OpenConfirm,
    Established,
    SessionError,
}

/// One session, from the connection to its end.
#[derive(Debug)]
pub struct Session {
    local: LocalConfig,
    state: State,
    negotiated: Option<Negotiated>,
    output: Vec<u8>,
    counts: SessionCounters,
    /// When the hold timer expires.
    hold_expires: Option<Instant>,
    /// When the next KEEPALIVE is due, and their interval.
    keepalive: Option<(Instant, Duration)>,
}

impl Session {
    /// Starts a session after the daemon has connected; the output contains OPEN.
    #[must_use]
    pub fn new(local: LocalConfig, now: Instant) -> Self {
        let output = open::open_message(&local);
        Self {
            local,
            state: State::OpenSent,
            negotiated: None,
            output,
            counts: SessionCounters::default(),
            hold_expires: Some(now + OPEN_TIMEOUT),
            keepalive: None,
        }
    }

    /// Takes the bytes to send.
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// What was negotiated, once both OPEN messages are exchanged.
    #[must_use]
    pub fn negotiated(&self) -> Option<&Negotiated> {
        self.negotiated.as_ref()
    }

    /// Whether the session is established.
    #[must_use]
    pub fn is_established(&self) -> bool {
        self.state == State::Established
    }

    /// Whether routes of a family are retained after this end. A NOTIFICATION removes them, whoever sent it (RFC
    /// 4724, section 4.2), unless both ends support graceful notification (RFC 8538, section 4) and the daemon
    /// supports graceful restart for the family.
    #[must_use]
    pub fn retains_routes(&self, ended: &SessionError, family: Family) -> bool {
        let is_hard_reset = matches!(ended, SessionError::Notification { is_hard_reset: true, .. });
        let may = |negotiated: &Negotiated| {
            let restarts =
                negotiated.family(family).is_some_and(|it| it.forwarding_state.is_some());
            negotiated.graceful_notification && restarts
        };
        !is_hard_reset && self.negotiated.as_ref().is_some_and(may)
    }

    /// Counters of received messages.
    #[must_use]
    pub fn counts(&self) -> &SessionCounters {
        &self.counts
    }

    /// When [`Session::tick`] is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let keepalive = self.keepalive.map(|(at, _)| at);
        self.hold_expires.into_iter().chain(keepalive).min()
    }

    /// Processes the complete messages in `bytes` and returns their size; the caller passes the remaining bytes again
    /// with what follows. A message has at most 65,535 bytes.
    ///
    /// # Errors
    /// When the session has ended.
    pub fn receive(
        &mut self,
        bytes: &[u8],
        now: Instant,
        handler: &mut impl SessionHandler,
    ) -> Result<usize, SessionError> {
        let mut read = 0;
        while self.state != State::SessionError {
            let max_message_size =
                self.negotiated.map_or(MAX_MESSAGE_SIZE, |negotiated| negotiated.max_message_size);
            let framed = message::frame(&bytes[read..], max_message_size);
            let Some((kind, message)) = framed.map_err(|fault| self.end(fault))? else { break };
            read += message.len();
            self.counts.messages += 1;
            self.restart_hold_timer(now);
            self.process(kind, message, now, handler)?;
        }
        Ok(read)
    }

    /// Handles expired timers.
    ///
    /// # Errors
    /// When the hold timer has expired: the session has ended.
    pub fn tick(&mut self, now: Instant) -> Result<(), SessionError> {
        if self.state == State::SessionError {
            return Ok(());
        }
        if self.hold_expires.is_some_and(|hold_expires| now >= hold_expires) {
            let reason = match self.negotiated {
                Some(negotiated) => format!(
                    "hold timer expired: no message from the daemon for {} s",
                    negotiated.hold_time_s
                ),
                None => format!("the daemon sent no OPEN within {} s", OPEN_TIMEOUT.as_secs()),
            };
            return Err(self.end(ProtocolError::new(4, 0, reason)));
        }
        self.send_due_keepalive(now);
        Ok(())
    }

    /// When [`Session::send_due_keepalive`] is due.
    #[must_use]
    pub fn keepalive_due(&self) -> Option<Instant> {
        self.keepalive.map(|(at, _)| at)
    }

    /// Sends KEEPALIVE if it is due. Does not check the hold timer: received messages may still wait to be processed.
    pub fn send_due_keepalive(&mut self, now: Instant) {
        if let Some((at, every)) = self.keepalive
            && now >= at
        {
            message::append(&mut self.output, 4, &[]);
            self.keepalive = Some((now + every, every));
        }
    }

    /// Ends the session with a Cease of that subcode (RFC 4486: 3 peer de-configured, 6 other configuration change, 7
    /// connection collision resolution).
    pub fn cease(&mut self, subcode: u8) {
        if self.state != State::SessionError {
            let _ = self.end(ProtocolError::new(6, subcode, "closed by Stoa"));
        }
    }

    fn end(&mut self, fault: ProtocolError) -> SessionError {
        self.state = State::SessionError;
        message::append_notification(&mut self.output, &fault);
        (self.hold_expires, self.keepalive) = (None, None);
        fault.into()
    }

    /// Any message restarts the hold timer.
    fn restart_hold_timer(&mut self, now: Instant) {
        if let Some(negotiated) = self.negotiated {
            let hold = Duration::from_secs(u64::from(negotiated.hold_time_s));
            self.hold_expires = (!hold.is_zero()).then(|| now + hold);
        }
    }

    fn process(
        &mut self,
        kind: MessageType,
        message: &[u8],
        now: Instant,
        handler: &mut impl SessionHandler,
    ) -> Result<(), SessionError> {
        match (self.state, kind) {
            (_, MessageType::Notification) => {
                self.state = State::SessionError;
                (self.hold_expires, self.keepalive) = (None, None);
                let (reason, is_hard_reset) =
                    (message::describe_notification(message), message::is_hard_reset(message));
                return Err(SessionError::Notification { reason, is_hard_reset });
            }
            (State::OpenSent, MessageType::Open) => {
                let negotiated =
                    open::negotiate(&self.local, message).map_err(|fault| self.end(fault))?;
                self.open(negotiated, now);
            }
            (State::OpenConfirm, MessageType::Keepalive) => self.establish(handler),
            (State::Established, MessageType::Update) => {
                if let Some(negotiated) = self.negotiated {
                    let body = &message[HEADER_SIZE..];
                    update::read(body, &negotiated, &mut self.counts, handler)
                        .map_err(|fault| self.end(fault))?;
                }
            }
            // Stoa has no routes to advertise again.
            (State::Established, MessageType::Keepalive | MessageType::RouteRefresh) => {}
            (state, kind) => {
                let (subcode, expected) = match state {
                    State::OpenSent => (1, "OPEN"),
                    State::OpenConfirm => (2, "KEEPALIVE"),
                    State::Established | State::SessionError => (3, "routes"),
                };
                let reason = format!("unexpected {kind:?} message, expected {expected}");
                return Err(self.end(ProtocolError::new(5, subcode, reason)));
            }
        }
        Ok(())
    }

    fn open(&mut self, negotiated: Negotiated, now: Instant) {
        self.state = State::OpenConfirm;
        self.negotiated = Some(negotiated);
        message::append(&mut self.output, 4, &[]);
        let every = Duration::from_secs(u64::from(negotiated.hold_time_s)) / 3;
        self.keepalive = (!every.is_zero()).then(|| (now + every, every));
        self.restart_hold_timer(now);
    }

    fn establish(&mut self, handler: &mut impl SessionHandler) {
        let Some(negotiated) = self.negotiated else { return };
        self.state = State::Established;
        handler.up(&negotiated);
        // A restarted daemon defers its selection until its neighbours have sent End-of-RIB (RFC 4724, section 4.1);
        // Stoa sends it at once because it advertises no routes.
        if negotiated.ip4.is_some() {
            message::append(&mut self.output, 2, &[0, 0, 0, 0]);
        }
        if negotiated.ip6.is_some() {
            message::append(&mut self.output, 2, &[0, 0, 0, 6, 0x80, 15, 3, 0, 2, 1]);
        }
    }
}
