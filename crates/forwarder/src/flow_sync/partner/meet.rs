//! Connections that begin: until the other end has proven that it knows the secret, it is nobody.

use std::cell::Cell;
use std::io;
use std::time::{Duration, Instant};

use super::Thread;
use crate::flow_sync::connection::{Connection, End};
use crate::flow_sync::socket;
use crate::flow_sync::walk::Walk;

/// How often it tries to reach a partner.
const RETRY: Duration = Duration::from_secs(1);
/// Connections that are accepted in a step, at most.
const ACCEPTED: usize = 64;
/// Connections that prove themselves at a time, each for some seconds. Others wait in Linux.
const PROVING: usize = 4;

impl Thread {
    /// Begins a connection, or accepts one.
    pub(super) fn meet(&mut self, now: Instant) -> Result<(), End> {
        let ends = self.settings.ends;
        let is_due = self.tried.is_none_or(|it| now - it >= RETRY);
        if !ends.listens() {
            if self.connection.is_none() && self.pending.is_empty() && is_due {
                self.tried = Some(now);
                let stream = socket::begin(ends.local, ends.partner)?;
                self.pending.push(Connection::new(stream, true, &self.settings.secret, now));
            }
            return Ok(());
        }
        if self.listener.is_none() && is_due {
            self.tried = Some(now);
            self.listener = Some(socket::accept_at(ends.local)?);
        }
        self.accept(now)
    }

    /// Accepts connections of the partner, and closes others at once: they must not keep it waiting.
    fn accept(&mut self, now: Instant) -> Result<(), End> {
        for _ in 0..ACCEPTED {
            let has_place = self.pending.len() < PROVING;
            let Some(listener) = self.listener.as_ref().filter(|_| has_place) else { break };
            match listener.accept() {
                Ok((stream, from)) if from.ip() == self.settings.ends.partner.ip() => {
                    stream.set_nonblocking(true)?;
                    // The partner has begun anew, or another program of its machine: whoever proves itself is the
                    // partner.
                    let secret = &self.settings.secret;
                    self.pending.push(Connection::new(stream, false, secret, now));
                }
                Ok((_, from)) => {
                    self.state.refused_connections += 1;
                    tracing::debug!("flow sync: {from} is not the partner");
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Lets the other ends of new connections prove that they know the secret. One that does takes the place of the
    /// former one.
    pub(super) fn prove_all(&mut self, now: Instant) {
        for mut pending in std::mem::take(&mut self.pending) {
            let is_proven = Cell::new(false);
            let tick = self.tick();
            match pending.service((now, tick), || !is_proven.get(), |_| is_proven.set(true)) {
                Err(end) => self.note_end(&end),
                Ok(()) if pending.is_proven() => self.begin(pending),
                Ok(()) => self.pending.push(pending),
            }
        }
    }

    /// A connection has a partner.
    fn begin(&mut self, connection: Connection) {
        tracing::info!("flow sync: connected to the partner {}", self.settings.ends.partner);
        self.connection = Some(connection);
        self.number = self.flows.standby().next_connection();
        (self.theirs, self.bulk) = (None, 0);
        (self.partner_lacks_flows, self.has_unknown_vrf) = (false, false);
        self.walks.iter_mut().for_each(Walk::restart);
        self.leases.restart();
        self.again.begin();
        self.state.connections += 1;
        (self.state.error, self.state.is_bulk_received) = (String::new(), false);
        self.send_names();
    }
}
