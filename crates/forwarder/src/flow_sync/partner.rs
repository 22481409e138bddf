//! The thread that keeps the partner up to date, and has workers keep what the partner sends.

mod receive;

use std::cell::Cell;
use std::io;
use std::net::TcpListener;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use stoa_api::v1;
use stoa_engine::clock;
use stoa_seal::FRAME_MAX;
use stoa_tables::flow_table::Kind;

use super::connection::{Connection, End};
use super::message::{ITEM_MIN, put_complete, put_names};
use super::settings::Settings;
use super::socket;
use super::walk::{Moment, Walk};
use crate::flow::adoption::head::Names;
use crate::flow::flows::{Flows, random};

/// How often it reads tables and sockets.
const STEP: Duration = Duration::from_millis(10);
/// How often it tries to reach a partner.
const RETRY: Duration = Duration::from_secs(1);
/// Bytes of items after which a frame is sealed.
const BATCH: usize = 16 << 10;
/// Turns of the bulk in a step.
const BULK_TURNS: usize = 8;
/// Room that each ring must have for the items of a frame.
const LEAST: usize = FRAME_MAX / ITEM_MIN;

/// What it does, as the contract has it.
pub type Snapshot = v1::FlowSyncState;

/// What the control thread and this one share.
#[derive(Default)]
struct Mailbox {
    contents: Mutex<Contents>,
    wakeup: Condvar,
}

#[derive(Default)]
struct Contents {
    settings: Option<Settings>,
    names: Option<Box<Names>>,
    is_ended: bool,
    snapshot: Snapshot,
}

impl Mailbox {
    fn lock(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread, for the control thread. It ends when this is dropped.
pub struct Partner {
    mailbox: Arc<Mailbox>,
    settings: Settings,
}

impl Partner {
    /// Starts the thread. `names`: what numbers of this process mean.
    ///
    /// # Errors
    /// The system has no thread, or no memory.
    pub fn start(flows: &Arc<Flows>, settings: &Settings, names: Names) -> io::Result<Self> {
        if !flows.standby().prepare([true, false].map(|it| flows.capacity(it))) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let mailbox = Arc::new(Mailbox::default());
        let mut thread = Thread::new(flows, settings, (&mailbox, names));
        thread.publish();
        std::thread::Builder::new().name("flow-sync".to_owned()).spawn(move || thread.run())?;
        Ok(Self { mailbox, settings: settings.clone() })
    }

    /// Its settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Has it work by other settings.
    pub fn follow(&mut self, settings: &Settings) {
        self.settings = settings.clone();
        self.mailbox.lock().settings = Some(settings.clone());
        self.mailbox.wakeup.notify_one();
    }

    /// Numbers mean something else from now on.
    pub fn rename(&self, names: Names) {
        self.mailbox.lock().names = Some(Box::new(names));
    }

    /// What it has done.
    pub fn snapshot(&self) -> Snapshot {
        self.mailbox.lock().snapshot.clone()
    }
}

impl Drop for Partner {
    fn drop(&mut self) {
        self.mailbox.lock().is_ended = true;
        self.mailbox.wakeup.notify_one();
    }
}

/// The thread.
struct Thread {
    mailbox: Arc<Mailbox>,
    flows: Arc<Flows>,
    settings: Settings,
    /// What numbers mean here, and at the partner.
    names: Box<Names>,
    theirs: Option<Box<Names>>,
    /// Which process this is, and which one the partner was last; whether that is another one than it was before this
    /// connection.
    process: u64,
    their_process: Option<u64>,
    has_restarted: bool,
    listener: Option<TcpListener>,
    /// A connection whose other end has proven nothing yet.
    pending: Option<Connection>,
    connection: Option<Connection>,
    tried: Option<Instant>,
    walks: [Walk; 3],
    /// Which walk of the bulk comes next; past the end: the bulk was sent.
    bulk: usize,
    /// Whether the queue was full a step ago.
    was_full: bool,
    state: Snapshot,
}

impl Thread {
    fn new(flows: &Arc<Flows>, settings: &Settings, with: (&Arc<Mailbox>, Names)) -> Self {
        Self {
            mailbox: with.0.clone(),
            flows: flows.clone(),
            settings: settings.clone(),
            names: Box::new(with.1),
            theirs: None,
            process: random::<1>()[0],
            their_process: None,
            has_restarted: false,
            listener: None,
            pending: None,
            connection: None,
            tried: None,
            walks: [Kind::Ip4, Kind::TranslatedIp4, Kind::Ip6].map(Walk::new),
            bulk: 0,
            was_full: false,
            state: Snapshot::default(),
        }
    }

    fn run(mut self) {
        loop {
            self.step();
            let contents = self.mailbox.lock();
            if contents.is_ended {
                return;
            }
            let waited = self.mailbox.wakeup.wait_timeout(contents, STEP);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
        }
    }

    fn step(&mut self) {
        self.receive();
        let now = Instant::now();
        if let Err(end) = self.meet(now) {
            self.note_end(&end);
        }
        self.prove(now);
        if let Some(mut connection) = self.connection.take() {
            match self.serve(&mut connection, now) {
                Ok(()) => self.connection = Some(connection),
                Err(end) => self.note_end(&end),
            }
        }
        self.publish();
    }

    /// Follows what the control thread says.
    fn receive(&mut self) {
        let mut contents = self.mailbox.lock();
        let (settings, names) = (contents.settings.take(), contents.names.take());
        drop(contents);
        if let Some(names) = names {
            self.names = names;
            self.send_names();
        }
        if let Some(settings) = settings {
            (self.listener, self.pending, self.connection) = (None, None, None);
            (self.settings, self.tried) = (settings, None);
        }
    }

    fn send_names(&mut self) {
        let mut items = Vec::new();
        put_names(self.process, &self.names, &mut items);
        let sent = self.connection.as_mut().map(|it| it.send(&items));
        if let Some(Err(end)) = sent {
            self.connection = None;
            self.note_end(&end);
        }
    }

    /// Begins a connection, or accepts one.
    fn meet(&mut self, now: Instant) -> Result<(), End> {
        let Settings { local, partner, .. } = self.settings;
        let is_due = self.tried.is_none_or(|it| now - it >= RETRY);
        if !self.settings.listens() {
            if self.connection.is_none() && self.pending.is_none() && is_due {
                self.tried = Some(now);
                let stream = socket::begin(local, partner)?;
                self.pending = Some(Connection::new(stream, true, &self.settings.secret, now));
            }
            return Ok(());
        }
        if self.listener.is_none() && is_due {
            self.tried = Some(now);
            self.listener = Some(socket::accept_at(local)?);
        }
        let Some(listener) = &self.listener else { return Ok(()) };
        match listener.accept() {
            Ok((stream, from)) if from.ip() == partner.ip() => {
                stream.set_nonblocking(true)?;
                // The partner has begun anew: what it began before is over.
                self.pending = Some(Connection::new(stream, false, &self.settings.secret, now));
            }
            Ok((_, from)) => {
                self.state.refused_connections += 1;
                tracing::debug!("flow sync: {from} is not the partner");
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Lets the other end of a new connection prove that it knows the secret. Then that takes the place of the former
    /// one.
    fn prove(&mut self, now: Instant) {
        let Some(mut pending) = self.pending.take() else { return };
        let is_proven = Cell::new(false);
        let tick = self.tick();
        let served = pending.service((now, tick), || !is_proven.get(), |_| is_proven.set(true));
        match served {
            Err(end) => self.note_end(&end),
            Ok(()) if !pending.is_proven() => self.pending = Some(pending),
            Ok(()) => {
                tracing::info!("flow sync: connected to the partner {}", self.settings.partner);
                self.connection = Some(pending);
                (self.theirs, self.bulk, self.has_restarted) = (None, 0, false);
                self.walks.iter_mut().for_each(Walk::restart);
                self.state.connections += 1;
                (self.state.error, self.state.is_bulk_received) = (String::new(), false);
                self.send_names();
            }
        }
    }

    fn tick(&self) -> u32 {
        self.flows.now(clock::tsc()).tick
    }

    /// Takes what has come, and sends what has changed.
    fn serve(&mut self, connection: &mut Connection, now: Instant) -> Result<(), End> {
        let (flows, tick) = (self.flows.clone(), self.tick());
        let has_room = || flows.standby().rings().iter().all(|(_, ring)| ring.slots() >= LEAST);
        connection.service((now, tick), has_room, |item| self.take(item))?;
        self.walk(connection, tick)
    }

    /// Sends what the partner does not know, as far as there is room.
    fn walk(&mut self, connection: &mut Connection, tick: u32) -> Result<(), End> {
        if self.theirs.is_none() {
            return Ok(());
        }
        let timeouts = self.flows.profiles().timeouts();
        let mut moment = Moment {
            now: tick,
            age_s: self.settings.age_s,
            is_bulk: true,
            has_standby: self.has_restarted,
            timeouts: &timeouts,
        };
        let (mut items, mut failed) = (Vec::with_capacity(2 * BATCH), None);
        for _ in 0..BULK_TURNS {
            let Some(walk) = self.walks.get_mut(self.bulk) else { break };
            let turn = walk.turn(&self.flows, moment, room(connection, &mut failed), &mut items);
            turn.add_to(&mut self.state);
            if turn.is_done {
                self.bulk += 1;
                if self.bulk == self.walks.len() {
                    put_complete(&mut items);
                }
            }
        }
        if self.bulk >= self.walks.len() {
            moment.is_bulk = false;
            for walk in &mut self.walks {
                let turn =
                    walk.turn(&self.flows, moment, room(connection, &mut failed), &mut items);
                turn.add_to(&mut self.state);
            }
        }
        if !items.is_empty() {
            connection.send(&items)?;
        }
        let is_full = !connection.has_room();
        self.state.queue_full += u64::from(is_full && !self.was_full);
        self.was_full = is_full;
        failed.map_or(Ok(()), Err)
    }

    /// A connection is over, or there was none.
    fn note_end(&mut self, end: &End) {
        if matches!(end, End::Refused(_) | End::Refuses | End::Malformed(_)) {
            self.state.refused_connections += 1;
        }
        let error = end.to_string();
        if self.state.error != error {
            tracing::warn!("flow sync with the partner {}: {error}", self.settings.partner);
            self.state.error = error;
        }
    }

    fn publish(&mut self) {
        let sums = self.flows.standby().sums();
        let status = match &self.connection {
            Some(_) => v1::FlowSyncStatus::FlowSyncConnected,
            None if self.listener.is_some() => v1::FlowSyncStatus::FlowSyncListening,
            None => v1::FlowSyncStatus::FlowSyncConnecting,
        };
        let is_connected = self.connection.is_some();
        let state = &mut self.state;
        state.status = status.into();
        state.is_bulk_sent = is_connected && self.bulk >= self.walks.len();
        state.is_bulk_received &= is_connected;
        state.queued_bytes = self.connection.as_ref().map_or(0, |it| it.queued() as u64);
        sums.add_to(state);
        self.mailbox.lock().snapshot = state.clone();
    }
}

/// Whether there is room for one more item. Seals the items as a frame when they are many.
fn room<'a>(
    connection: &'a mut Connection,
    failed: &'a mut Option<End>,
) -> impl FnMut(&mut Vec<u8>) -> bool + 'a {
    |items| {
        if items.len() >= BATCH {
            if let Err(end) = connection.send(items) {
                *failed = Some(end);
            }
            items.clear();
        }
        failed.is_none() && connection.has_room()
    }
}
