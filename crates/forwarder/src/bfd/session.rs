//! One BFD session, asynchronous mode (RFC 5880 section 6.8): packets and time in, packets and states out.

use stoa_wire::bfd::{Packet, State};

/// Microseconds on a monotonic clock.
pub type Micros = u64;

/// Shortest transmit interval of a session that is not up (RFC 5880 section 6.8.3).
const SLOW_TX_US: u32 = 1_000_000;

/// Diagnostics (RFC 5880 section 4.1).
const EXPIRED: u8 = 1;
const NEIGHBOR_DOWN: u8 = 3;
const ADMIN_DOWN: u8 = 7;

/// The parameters of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Shortest interval between our packets while the session is up, in microseconds.
    pub desired_min_tx: u32,
    /// Shortest interval between received packets that we support, in microseconds.
    pub required_min_rx: u32,
    /// Detect Mult: the session fails when this many packets are missed; not 0.
    pub multiplier: u8,
}

/// A change of the state of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateChange {
    /// The old state.
    pub from: State,
    /// The new state.
    pub to: State,
}

/// A session.
#[derive(Clone, Debug)]
pub struct Session {
    config: Config,
    /// The parameters before a change, until the other side answers our poll: until then we send no less
    /// often and detect no sooner than before (RFC 5880 section 6.8.3).
    previous: Option<Config>,
    state: State,
    diagnostic: u8,
    local_discriminator: u32,
    remote_discriminator: u32,
    remote: Packet,
    is_polling: bool,
    is_final_due: bool,
    /// When the next packet is due.
    send_at: Micros,
    /// When the detection time ends.
    expires_at: Option<Micros>,
    /// State of the generator for jitter.
    jitter: u32,
    was_up: bool,
    /// Time of the last state change.
    changed_at: Micros,
    /// Number of transitions from up to another state.
    pub downs: u64,
    /// Packets sent and received.
    pub packets: (u64, u64),
}

impl Session {
    /// A session that is down. `local_discriminator` is unique and not 0.
    pub fn new(config: Config, local_discriminator: u32, now: Micros) -> Self {
        Self {
            config,
            previous: None,
            state: State::Down,
            diagnostic: 0,
            local_discriminator,
            remote_discriminator: 0,
            remote: Packet { required_min_rx: 1, ..Packet::default() },
            is_polling: false,
            is_final_due: false,
            send_at: now,
            expires_at: None,
            jitter: local_discriminator,
            was_up: false,
            changed_at: now,
            downs: 0,
            packets: (0, 0),
        }
    }

    /// The local state.
    pub fn state(&self) -> State {
        self.state
    }

    /// Our discriminator.
    pub fn local_discriminator(&self) -> u32 {
        self.local_discriminator
    }

    /// The configured parameters.
    pub fn config(&self) -> Config {
        self.config
    }

    /// The state that the other side reports.
    pub fn remote_state(&self) -> State {
        self.remote.state
    }

    /// The local diagnostic of the last failure.
    pub fn diagnostic(&self) -> u8 {
        self.diagnostic
    }

    /// The diagnostic that the other side reports.
    pub fn remote_diagnostic(&self) -> u8 {
        self.remote.diagnostic
    }

    /// Time of the last state change.
    pub fn changed_at(&self) -> Micros {
        self.changed_at
    }

    /// The negotiated values: our transmit interval and that of the other side in microseconds, and the other
    /// side's multiplier. `None` while nothing is received.
    pub fn negotiated(&self) -> Option<(u32, u32, u8)> {
        self.expires_at?;
        Some((self.interval(), self.remote_interval(), self.remote.multiplier.max(1)))
    }

    /// Whether the session was up and is not up any more. A neighbour that is administratively down has not
    /// failed (RFC 5882 section 3.2), and neither has one whose session never came up.
    pub fn has_failed(&self) -> bool {
        self.was_up && self.state != State::Up && self.remote.state != State::AdminDown
    }

    /// Changes the parameters; a session that is up negotiates them (RFC 5880 section 6.8.3).
    pub fn configure(&mut self, config: Config, now: Micros) {
        if self.config != config {
            let is_up = self.state == State::Up;
            self.previous = is_up.then_some(self.previous.unwrap_or(self.config));
            self.config = config;
            self.is_polling = is_up;
            self.send_at = now;
        }
    }

    /// Handles a valid packet of this session.
    pub fn receive(&mut self, packet: &Packet, now: Micros) -> Option<StateChange> {
        if packet.yours != 0 && packet.yours != self.local_discriminator {
            return None;
        }
        self.packets.1 += 1;
        self.remote_discriminator = packet.mine;
        self.remote = *packet;
        if packet.is_final {
            (self.is_polling, self.previous) = (false, None);
        }
        let from = self.state;
        let (to, diagnostic) = match (from, packet.state) {
            (State::AdminDown, _) => (State::AdminDown, self.diagnostic),
            (State::Down, State::AdminDown) => (State::Down, self.diagnostic),
            (_, State::AdminDown) => (State::Down, NEIGHBOR_DOWN),
            (State::Down, State::Down) => (State::Init, 0),
            (State::Down, State::Init) => (State::Up, 0),
            (State::Down, State::Up) => (State::Down, self.diagnostic),
            (State::Init, State::Init | State::Up) => (State::Up, 0),
            (State::Init, State::Down) => (State::Init, 0),
            (State::Up, State::Down) => (State::Down, NEIGHBOR_DOWN),
            (State::Up, _) => (State::Up, 0),
        };
        self.is_final_due |= packet.is_poll;
        let change = self.set_state(to, diagnostic, now);
        self.expires_at = (self.state != State::AdminDown).then(|| now + self.detection_time());
        // The other side may have changed its required minimum receive interval.
        self.send_at = self.send_at.min(now + Micros::from(self.interval()));
        if self.is_final_due {
            self.send_at = now;
        }
        change
    }

    fn set_state(&mut self, to: State, diagnostic: u8, now: Micros) -> Option<StateChange> {
        let from = std::mem::replace(&mut self.state, to);
        self.diagnostic = diagnostic;
        if from == to {
            return None;
        }
        self.changed_at = now;
        self.downs += u64::from(from == State::Up);
        self.was_up |= to == State::Up;
        // The transmit interval changes with the state: the other side must learn it at once.
        (self.is_polling, self.previous) = (to == State::Up, None);
        self.send_at = now;
        Some(StateChange { from, to })
    }

    /// Sets the session administratively down; the next packet reports it.
    pub fn admin_down(&mut self, now: Micros) -> Option<StateChange> {
        self.expires_at = None;
        self.set_state(State::AdminDown, ADMIN_DOWN, now)
    }

    /// When [`expire`](Self::expire) or [`send`](Self::send) has something to do.
    pub fn due_at(&self) -> Micros {
        self.expires_at.map_or(self.send_at, |expires| expires.min(self.send_at))
    }

    /// Takes the session down when the detection time has passed.
    pub fn expire(&mut self, now: Micros) -> Option<StateChange> {
        self.expires_at.filter(|expires| *expires <= now)?;
        self.expires_at = None;
        self.remote_discriminator = 0;
        self.remote.required_min_rx = 1;
        match self.state {
            State::Init | State::Up => self.set_state(State::Down, EXPIRED, now),
            State::Down | State::AdminDown => None,
        }
    }

    /// The packet that is due, if any.
    pub fn send(&mut self, now: Micros) -> Option<Packet> {
        if self.send_at > now {
            return None;
        }
        let rx_disabled = self.remote.required_min_rx == 0 && !self.is_final_due;
        let is_final = std::mem::take(&mut self.is_final_due);
        self.send_at = now + Micros::from(self.jittered(self.interval()));
        if rx_disabled {
            return None;
        }
        self.packets.0 += 1;
        Some(Packet {
            diagnostic: self.diagnostic,
            state: self.state,
            is_poll: self.is_polling && !is_final,
            is_final,
            is_demand: false,
            multiplier: self.config.multiplier,
            mine: self.local_discriminator,
            yours: self.remote_discriminator,
            desired_min_tx: self.desired_min_tx(),
            required_min_rx: self.config.required_min_rx,
        })
    }

    fn desired_min_tx(&self) -> u32 {
        let is_up = self.state == State::Up;
        if is_up { self.config.desired_min_tx } else { self.config.desired_min_tx.max(SLOW_TX_US) }
    }

    /// Transmit interval in microseconds (RFC 5880 section 6.8.2).
    fn interval(&self) -> u32 {
        let previous = self.previous.map_or(u32::MAX, |previous| previous.desired_min_tx);
        self.desired_min_tx().min(previous).max(self.remote.required_min_rx)
    }

    /// Detection time in microseconds (RFC 5880 section 6.8.4).
    pub fn detection_time(&self) -> Micros {
        Micros::from(self.remote.multiplier.max(1)) * Micros::from(self.remote_interval())
    }

    /// The interval at which the other side sends, in microseconds.
    fn remote_interval(&self) -> u32 {
        let previous = self.previous.map_or(0, |previous| previous.required_min_rx);
        self.config.required_min_rx.max(previous).max(self.remote.desired_min_tx)
    }

    /// The interval reduced by up to 25 %, so that sessions do not synchronize (RFC 5880 section 6.8.7). With
    /// a multiplier of 1, it is reduced by at least 10 %.
    fn jittered(&mut self, interval: u32) -> u32 {
        self.jitter = self.jitter.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let jitter = u64::from(self.jitter >> 16) * u64::from(interval) / 4 / 65_536;
        let min = if self.config.multiplier == 1 { interval / 10 } else { 0 };
        interval - (jitter as u32).max(min)
    }
}

#[cfg(test)]
mod tests;
