//! The state machine of a virtual router (RFC 9568 section 6.4). It takes time and advertisements, and
//! returns actions: it has no side effects.

use std::cmp::Ordering;
use std::net::IpAddr;

use stoa_wire::vrrp::{OWNER, RESIGNS};

use crate::neighbor::entry::Millis;

/// The parameters of a virtual router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// 1 to 254, or [`OWNER`].
    pub priority: u8,
    /// Preempt_Mode: whether it preempts an active router of lower priority.
    pub preempt: bool,
    /// Preemption delay.
    pub hold_ms: Millis,
    /// Our own Advertisement_Interval.
    pub interval_ms: Millis,
}

/// The state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The interface is down, or has no source address.
    Initialize,
    /// Another router is active.
    Backup,
    /// This router is active.
    Active,
}

/// What to do, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VrrpAction {
    /// Accept packets to the addresses, and announce them.
    TakeOver,
    /// Release the addresses.
    GiveUp,
    /// Send an advertisement with this priority.
    Advertise(u8),
}

/// Why it became active last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MasterReason {
    /// It never was active.
    NotYet,
    /// It owns the addresses.
    Priority,
    /// It preempted a router of lower priority.
    Preempted,
    /// The active router timed out or resigned.
    NoResponse,
}

/// A received advertisement of this virtual router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Its source.
    pub source: IpAddr,
    /// Its priority.
    pub priority: u8,
    /// Its interval.
    pub interval_ms: Millis,
}

/// A virtual router.
#[derive(Clone, Debug)]
pub struct Machine {
    parameters: Parameters,
    state: State,
    /// When the timer expires; unused in [`State::Initialize`].
    due: Millis,
    /// The interval of the active router: Active_Adver_Interval.
    active_interval_ms: Millis,
    /// When to preempt a router of lower priority that is advertising.
    preempt_at: Option<Millis>,
    reason: MasterReason,
}

impl Machine {
    /// In [`State::Initialize`].
    pub fn new(parameters: Parameters) -> Self {
        let active_interval_ms = parameters.interval_ms;
        let (state, due, reason) = (State::Initialize, 0, MasterReason::NotYet);
        Self { parameters, state, due, active_interval_ms, preempt_at: None, reason }
    }

    /// The state.
    pub fn state(&self) -> State {
        self.state
    }

    /// Why it became active last.
    pub fn reason(&self) -> MasterReason {
        self.reason
    }

    /// When to call [`Self::expire`]; `None`: no timer runs.
    pub fn due(&self) -> Option<Millis> {
        (self.state != State::Initialize).then_some(self.due)
    }

    /// Skew_Time: the higher the priority, the sooner it takes over (RFC 9568 section 6.1).
    pub fn skew_ms(&self) -> Millis {
        (256 - Millis::from(self.parameters.priority)) * self.active_interval_ms / 256
    }

    /// Active_Down_Interval: after this time without an advertisement, the active router is down.
    pub fn down_ms(&self) -> Millis {
        3 * self.active_interval_ms + self.skew_ms()
    }

    /// Changes the parameters; ownership of the addresses must not change.
    pub fn set_parameters(&mut self, parameters: Parameters) {
        self.parameters = parameters;
        if self.state == State::Active {
            self.active_interval_ms = parameters.interval_ms;
        }
    }

    /// The current priority.
    pub fn priority(&self) -> u8 {
        self.parameters.priority
    }

    /// The interface is up and has an address.
    pub fn start(&mut self, now: Millis) -> Vec<VrrpAction> {
        if self.state != State::Initialize {
            return Vec::new();
        }
        self.active_interval_ms = self.parameters.interval_ms;
        if self.parameters.priority == OWNER {
            return self.take_over(now, MasterReason::Priority);
        }
        self.state = State::Backup;
        self.due = now + self.down_ms();
        Vec::new()
    }

    /// Shuts down; an active router that can send resigns.
    pub fn stop(&mut self, can_send: bool) -> Vec<VrrpAction> {
        let was = std::mem::replace(&mut self.state, State::Initialize);
        self.preempt_at = None;
        match (was, can_send) {
            (State::Active, true) => vec![VrrpAction::Advertise(RESIGNS), VrrpAction::GiveUp],
            (State::Active, false) => vec![VrrpAction::GiveUp],
            _ => Vec::new(),
        }
    }

    /// The timer may have expired.
    pub fn expire(&mut self, now: Millis) -> Vec<VrrpAction> {
        match self.state {
            _ if now < self.due => Vec::new(),
            State::Initialize => Vec::new(),
            State::Active => {
                // After a delay, skip the missed advertisements.
                let next = self.due + self.parameters.interval_ms;
                self.due = if next > now { next } else { now + self.parameters.interval_ms };
                vec![VrrpAction::Advertise(self.parameters.priority)]
            }
            State::Backup => {
                let preempts = self.preempt_at.is_some();
                let reason =
                    if preempts { MasterReason::Preempted } else { MasterReason::NoResponse };
                self.take_over(now, reason)
            }
        }
    }

    fn take_over(&mut self, now: Millis, reason: MasterReason) -> Vec<VrrpAction> {
        (self.state, self.reason, self.preempt_at) = (State::Active, reason, None);
        self.active_interval_ms = self.parameters.interval_ms;
        self.due = now + self.parameters.interval_ms;
        vec![VrrpAction::Advertise(self.parameters.priority), VrrpAction::TakeOver]
    }

    /// Handles an advertisement; `own` is the source address of ours.
    pub fn receive(&mut self, now: Millis, received: &Received, own: IpAddr) -> Vec<VrrpAction> {
        match self.state {
            State::Initialize => Vec::new(),
            State::Backup => {
                self.receive_as_backup(now, received);
                Vec::new()
            }
            State::Active => self.receive_as_active(now, received, own),
        }
    }

    fn receive_as_backup(&mut self, now: Millis, received: &Received) {
        if received.priority == RESIGNS {
            self.preempt_at = None;
            self.due = now + self.skew_ms();
            return;
        }
        if !self.parameters.preempt || received.priority >= self.parameters.priority {
            self.preempt_at = None;
            self.restart_timer(now, received);
            return;
        }
        // A router of lower priority: after the preemption delay, its advertisements do not restart the
        // timer.
        let since = *self.preempt_at.get_or_insert(now + self.parameters.hold_ms);
        if now < since {
            self.restart_timer(now, received);
        }
    }

    /// Restarts the timer of the active router.
    fn restart_timer(&mut self, now: Millis, received: &Received) {
        // An interval of 0 is invalid: use ours.
        let interval_ms = Some(received.interval_ms).filter(|interval_ms| *interval_ms > 0);
        self.active_interval_ms = interval_ms.unwrap_or(self.parameters.interval_ms);
        self.due = now + self.down_ms();
    }

    fn receive_as_active(
        &mut self,
        now: Millis,
        received: &Received,
        own: IpAddr,
    ) -> Vec<VrrpAction> {
        if received.priority == RESIGNS {
            self.due = now + self.parameters.interval_ms;
            return vec![VrrpAction::Advertise(self.parameters.priority)];
        }
        // The higher priority is active; the higher address breaks a tie.
        let is_higher = match received.priority.cmp(&self.parameters.priority) {
            Ordering::Equal => received.source > own,
            order => order == Ordering::Greater,
        };
        if !is_higher {
            // RFC 9568 6.4.3: it must learn at once that another router is active.
            self.due = now + self.parameters.interval_ms;
            return vec![VrrpAction::Advertise(self.parameters.priority)];
        }
        self.state = State::Backup;
        self.restart_timer(now, received);
        vec![VrrpAction::GiveUp]
    }
}

#[cfg(test)]
mod tests;
