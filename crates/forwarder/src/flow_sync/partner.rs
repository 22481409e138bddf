//! The thread that keeps the partner up to date, and has workers keep what the partner sends.

mod again;
mod meet;
mod receive;
mod send;

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stoa_api::v1;
use stoa_engine::clock;
use stoa_tables::flow_table::Kind;

use super::connection::{Connection, End};
use super::leases::add_to;
use super::leases::walk::LeaseWalk;
use super::message::put_names;
use super::settings::Settings;
use super::standby::{LEAST, Sums};
use super::walk::Walk;
use crate::flow::adoption::head::Names;
use crate::flow::flows::Flows;
use crate::mailbox::Mailbox;
use again::Again;

/// How often it reads tables and sockets.
const STEP: Duration = Duration::from_millis(10);

/// What it does, as the contract has it.
pub type Snapshot = v1::FlowSyncState;

/// What the control thread and this one share.
#[derive(Default)]
struct Contents {
    settings: Option<Settings>,
    names: Option<Box<Names>>,
    /// A configuration is in force: what was refused before may have its policy now.
    is_changed: bool,
    is_ended: bool,
    snapshot: Snapshot,
}

/// The thread, for the control thread. It ends when this is dropped.
pub struct Partner {
    mailbox: Arc<Mailbox<Contents>>,
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
        self.mailbox.wake();
    }

    /// Numbers mean something else from now on.
    pub fn rename(&self, names: Names) {
        self.mailbox.lock().names = Some(Box::new(names));
    }

    /// A configuration has come into force.
    pub fn note_change(&self) {
        self.mailbox.lock().is_changed = true;
    }

    /// What it has done.
    pub fn snapshot(&self) -> Snapshot {
        self.mailbox.lock().snapshot.clone()
    }
}

impl Drop for Partner {
    fn drop(&mut self) {
        self.mailbox.lock().is_ended = true;
        self.mailbox.wake();
    }
}

/// The thread.
struct Thread {
    mailbox: Arc<Mailbox<Contents>>,
    flows: Arc<Flows>,
    settings: Settings,
    /// What numbers mean here, and at the partner.
    names: Box<Names>,
    theirs: Option<Box<Names>>,
    /// Whether this router may lack flows that the partner has in standby: until a bulk of the partner was complete.
    /// And whether the partner does, at this connection.
    lacks_flows: bool,
    partner_lacks_flows: bool,
    /// Whether this connection has named flows of VRFs that have no such name here.
    has_unknown_vrf: bool,
    listener: Option<TcpListener>,
    /// Connections whose other ends have proven nothing yet.
    pending: Vec<Connection>,
    connection: Option<Connection>,
    /// The number of the connection.
    number: u32,
    again: Again,
    tried: Option<Instant>,
    walks: [Walk; 3],
    leases: LeaseWalk,
    /// Which walk of the bulk comes next, that over leases behind the others; past its end: the bulk was sent.
    bulk: usize,
    /// Whether the queue was full a step ago.
    was_full: bool,
    state: Snapshot,
    /// What had become of records when the settings came.
    before: Sums,
    leases_before: [u64; 2],
}

impl Thread {
    fn new(
        flows: &Arc<Flows>,
        settings: &Settings,
        with: (&Arc<Mailbox<Contents>>, Names),
    ) -> Self {
        Self {
            mailbox: with.0.clone(),
            flows: flows.clone(),
            settings: settings.clone(),
            names: Box::new(with.1),
            theirs: None,
            lacks_flows: true,
            partner_lacks_flows: false,
            has_unknown_vrf: false,
            listener: None,
            pending: Vec::new(),
            connection: None,
            number: 0,
            again: Again::default(),
            tried: None,
            walks: [Kind::Ip4, Kind::TranslatedIp4, Kind::Ip6].map(Walk::new),
            leases: LeaseWalk::default(),
            bulk: 0,
            was_full: false,
            state: Snapshot::default(),
            before: flows.standby().sums(),
            leases_before: flows.standby().leases().sums(),
        }
    }

    fn run(mut self) {
        loop {
            self.step();
            let contents = self.mailbox.lock();
            if contents.is_ended {
                return;
            }
            drop(self.mailbox.wait(contents, STEP));
        }
    }

    fn step(&mut self) {
        self.receive();
        let now = Instant::now();
        if let Err(end) = self.meet(now) {
            self.note_end(&end);
        }
        self.prove_all(now);
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
        let is_changed = std::mem::take(&mut contents.is_changed);
        drop(contents);
        if is_changed {
            self.again.note_change();
        }
        if let Some(names) = names {
            self.names = names;
            self.send_names();
        }
        if let Some(settings) = settings {
            (self.listener, self.connection) = (None, None);
            self.pending.clear();
            (self.settings, self.tried) = (settings, None);
            // What it counts begins with the settings.
            self.state = Snapshot::default();
            self.before = self.flows.standby().sums();
            self.leases_before = self.flows.standby().leases().sums();
        }
    }

    fn send_names(&mut self) {
        let mut items = Vec::new();
        put_names(self.lacks_flows, &self.names, &mut items);
        let sent = self.connection.as_mut().map(|it| it.send(&items));
        if let Some(Err(end)) = sent {
            self.connection = None;
            self.note_end(&end);
        }
    }

    fn tick(&self) -> u32 {
        self.flows.now(clock::tsc()).tick
    }

    /// Takes what has come, and sends what has changed.
    fn serve(&mut self, connection: &mut Connection, now: Instant) -> Result<(), End> {
        let (flows, tick) = (self.flows.clone(), self.tick());
        let has_room = || {
            flows.standby().rings().iter().all(|(_, ring)| ring.slots() >= LEAST)
                && flows.standby().leases().has_room()
        };
        connection.service((now, tick), has_room, |item| self.take(item))?;
        self.ask_again(connection, now)?;
        self.walk(connection, (now, tick))
    }

    /// A connection is over, or there was none.
    fn note_end(&mut self, end: &End) {
        if matches!(end, End::Refused(_) | End::Refuses | End::Malformed(_)) {
            self.state.refused_connections += 1;
        }
        let error = end.to_string();
        // A connection that proves nothing says nothing about the one that has.
        if self.connection.is_none() && self.state.error != error {
            tracing::warn!("flow sync with the partner {}: {error}", self.settings.ends.partner);
            self.state.error = error;
        }
    }

    fn publish(&mut self) {
        let sums = self.flows.standby().sums().since(&self.before);
        let status = match &self.connection {
            Some(_) => v1::FlowSyncStatus::FlowSyncConnected,
            None if self.listener.is_some() => v1::FlowSyncStatus::FlowSyncListening,
            None => v1::FlowSyncStatus::FlowSyncConnecting,
        };
        let is_connected = self.connection.is_some();
        let state = &mut self.state;
        state.status = status.into();
        state.is_bulk_sent = is_connected && self.bulk > self.walks.len();
        state.is_bulk_received &= is_connected;
        state.queued_bytes = self.connection.as_ref().map_or(0, |it| it.queued() as u64);
        sums.add_to(state);
        add_to(state, self.flows.standby().leases().sums(), self.leases_before);
        self.mailbox.lock().snapshot = state.clone();
    }
}
