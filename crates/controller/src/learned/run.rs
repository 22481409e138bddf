//! The thread of the table: it receives events of route sources and sends messages to the forwarder, no more
//! at a time than the forwarder keeps up with.

use std::sync::Arc;
use std::time::{Duration, Instant};

use stoa_api::v1;
use stoa_delta::InFlight;
use tokio::sync::mpsc;

use super::restart::RestartState;
use super::route_source::{Event, Source};
use super::statistics::{AuditCounters, LearnedStatistics, WorkCounters};
use super::stream::{self, StreamEvent};
use super::table::Table;
use super::table_handle::TableQuery;
use crate::apply::ForwarderConnection;
use crate::config::routes::Key;

/// Messages queued for the forwarder above which events of route sources wait.
const MAX_QUEUED_MESSAGES: usize = 16;
/// Batches of events processed in one iteration.
const MAX_BATCHES: usize = 32;
/// Longest sleep of an iteration.
const TICK: Duration = Duration::from_secs(1);
/// Minimum interval between log messages about refused routes.
const LOG_INTERVAL: Duration = Duration::from_secs(5);

/// A request to the table.
pub(super) type Request = Box<dyn FnOnce(&mut Runner) + Send>;

/// A batch of events and their route source.
pub(super) type SourceEvents = (Arc<Source>, Vec<Event>);

/// The table and its stream.
pub struct Runner {
    pub(super) table: Table,
    pub(super) work: WorkCounters,
    pub(super) audits: AuditCounters,
    pub(super) restart: RestartState,
    /// Route sources of the configuration, once known.
    pub(super) route_sources: Option<Vec<String>>,
    stream: Option<mpsc::Sender<v1::LearnedRoutes>>,
    in_flight: InFlight,
    is_completed: bool,
    last_logged: Option<Instant>,
    /// Why the forwarder last refused routes.
    pub(super) reason: String,
}

impl Runner {
    /// An empty table without a stream.
    pub(super) fn new() -> Self {
        let mut table = Table::default();
        table.messages.clear(true);
        Self {
            table,
            work: WorkCounters::default(),
            audits: AuditCounters::default(),
            restart: RestartState::default(),
            route_sources: None,
            stream: None,
            in_flight: InFlight::default(),
            is_completed: false,
            last_logged: None,
            reason: String::new(),
        }
    }

    /// Whether the forwarder has processed everything that was sent.
    pub(super) fn is_drained(&self) -> bool {
        self.stream.is_some() && self.table.messages.len() == 0 && self.in_flight.is_empty()
    }

    /// Whether the forwarder holds exactly the desired routes.
    pub(super) fn is_synced(&self) -> bool {
        self.is_drained() && self.is_completed
    }

    /// Whether the stream is open and everything was sent.
    pub(super) fn is_completed(&self) -> bool {
        self.stream.is_some() && self.is_completed
    }

    /// Serves until the controller shuts down.
    pub(super) async fn run(
        mut self,
        connection: Arc<ForwarderConnection>,
        mut events: mpsc::Receiver<SourceEvents>,
        mut requests: mpsc::Receiver<Request>,
        mut queries: mpsc::Receiver<TableQuery>,
    ) {
        let mut changes = connection.changes();
        let (sender, mut stream_events) = mpsc::channel(16);
        let stream_task = tokio::spawn(stream::run(Arc::clone(&connection), sender.clone()));
        loop {
            let now = Instant::now();
            if let Some(configuration) = connection.merged_configuration() {
                self.table.configure(&configuration);
            }
            self.table.tick(now);
            self.table.settle();
            self.complete(&connection, &sender);
            self.send();
            self.work.table_us += now.elapsed().as_micros() as u64;
            let pause = self.table.deadline().map_or(TICK, |deadline| deadline.min(TICK));
            let may_receive = self.table.messages.len() < MAX_QUEUED_MESSAGES;
            tokio::select! {
                biased;
                answer = stream_events.recv() => match answer {
                    Some(answer) => self.handle_stream_event(answer),
                    None => break,
                },
                request = requests.recv() => match request {
                    Some(request) => request(&mut self),
                    None => break,
                },
                Some(query) = queries.recv() => self.answer(query),
                first = events.recv(), if may_receive => match first {
                    Some(first) => self.handle_route_sources(first, &mut events),
                    None => break,
                },
                _ = changes.changed() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
        stream_task.abort();
    }

    /// Answers a query of monitoring, whose client may have given up.
    fn answer(&self, query: TableQuery) {
        match query {
            TableQuery::Statistics(answer) => {
                let statistics = LearnedStatistics {
                    route_sources: self.table.route_source_states(Instant::now()),
                    work: self.work,
                    audits: self.audits,
                    is_complete: self.is_completed(),
                };
                let _ = answer.send(statistics);
            }
            TableQuery::Origins(keys, answer) => {
                let of = |key: &Option<Key>| key.as_ref().and_then(|key| self.table.origin(key));
                let _ = answer.send(keys.iter().map(of).collect());
            }
        }
    }

    fn handle_route_sources(
        &mut self,
        first: SourceEvents,
        received: &mut mpsc::Receiver<SourceEvents>,
    ) {
        let now = Instant::now();
        let mut next = Some(first);
        let mut batches = 0;
        // Batches that arrived together are settled together.
        while let Some((source, events)) = next {
            batches += 1;
            let routes = |event: &Event| match event {
                Event::Update(update) => (update.ip4.len() + update.ip6.len()) as u64,
                _ => 0,
            };
            self.work.received += events.iter().map(routes).sum::<u64>();
            self.table.process(&source, events, now);
            let has_capacity =
                self.table.messages.len() < MAX_QUEUED_MESSAGES && batches < MAX_BATCHES;
            next = if has_capacity { received.try_recv().ok() } else { None };
        }
        self.work.table_us += now.elapsed().as_micros() as u64;
    }

    fn handle_stream_event(&mut self, stream_events: StreamEvent) {
        match stream_events {
            StreamEvent::Up(stream) => {
                let now = Instant::now();
                self.table.resend_all();
                (self.stream, self.in_flight) = (Some(stream), InFlight::default());
                self.is_completed = false;
                self.work.table_us += now.elapsed().as_micros() as u64;
            }
            StreamEvent::Reply(answer) => {
                if let Err(unexpected) = self.in_flight.acknowledge(answer.number) {
                    // Without its sender the stream ends, and another one is opened.
                    tracing::error!("the stream for learned routes: {unexpected}");
                    return self.stream_broke();
                }
                self.work.forwarder_us += answer.took_us;
                self.refused(&answer.refused);
            }
            StreamEvent::Counts(held) => self.handle_counts(&held),
            StreamEvent::Down => self.stream_broke(),
        }
    }

    /// Nothing that was sent counts.
    fn stream_broke(&mut self) {
        self.stream = None;
        self.is_completed = false;
        self.table.messages.clear(true);
    }

    fn refused(&mut self, runs: &[v1::RefusedRun]) {
        let Some(last) = runs.last() else { return };
        let of_run = |run: &v1::RouteRun| run.ip4.len() / 5 + run.ip6.len() / 17;
        let routes: usize = runs.iter().filter_map(|it| it.run.as_ref()).map(of_run).sum();
        self.work.refused += routes as u64;
        self.reason.clone_from(&last.reason);
        if self.last_logged.is_none_or(|at| at.elapsed() >= LOG_INTERVAL) {
            self.last_logged = Some(Instant::now());
            let (refused, reason) = (self.work.refused, &last.reason);
            tracing::error!(
                refused,
                fix = last.fix,
                "the forwarder refused learned routes: {reason}"
            );
        }
    }

    /// Marks the transfer as complete, once all route sources are.
    fn complete(
        &mut self,
        connection: &Arc<ForwarderConnection>,
        stream_events: &mpsc::Sender<StreamEvent>,
    ) {
        if self.stream.is_some()
            && !self.is_completed
            && self
                .route_sources
                .as_ref()
                .is_some_and(|route_sources| self.table.is_complete(route_sources))
            && self.may_sweep(connection, stream_events)
        {
            self.table.messages.complete();
            self.is_completed = true;
        }
    }

    fn send(&mut self) {
        let Some(stream) = &self.stream else { return };
        while self.in_flight.has_room(stream::WINDOW, usize::MAX) {
            let Ok(permit) = stream.try_reserve() else { return };
            let Some(mut message) = self.table.messages.next() else { return };
            message.number = self.in_flight.send(0);
            permit.send(message);
        }
    }
}
