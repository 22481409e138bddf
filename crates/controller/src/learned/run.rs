//! The thread that the table lives on: route sources' events in, messages out, no more of them under way than the forwarder keeps
//! up with.

use std::sync::Arc;
use std::time::{Duration, Instant};

use stoa_api::v1;
use tokio::sync::mpsc;

use super::figures::Audits;
use super::leftover::Leftover;
use super::link::{self, Heard};
use super::route_source::{Event, Source};
use super::table::Table;
use crate::apply::Line;

/// Messages that wait for the forwarder before route sources are heard no more.
const WAITING: usize = 16;
/// Batches of route sources that are heard between two looks at everything else.
const BATCHES: usize = 32;
/// How long it sleeps at most.
const TICK: Duration = Duration::from_secs(1);
/// How often refused routes are told in the log at most.
const SAY_EVERY: Duration = Duration::from_secs(5);

/// What somebody asks of the table.
pub(super) type Request = Box<dyn FnOnce(&mut Runner) + Send>;

/// What route sources say, and who says it.
pub(super) type Said = (Arc<Source>, Vec<Event>);

/// Figures of the table's own work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Microseconds that the table has worked.
    pub table_us: u64,
    /// Microseconds of the forwarder's control thread.
    pub forwarder_us: u64,
    /// Changes of routes that route sources have told.
    pub heard: u64,
    /// Routes that the forwarder refused.
    pub refused: u64,
}

/// The table and its line.
pub struct Runner {
    pub(super) table: Table,
    pub(super) work: Work,
    pub(super) audits: Audits,
    pub(super) leftover: Leftover,
    /// Route sources that the configuration has, once it is known.
    pub(super) route_sources: Option<Vec<String>>,
    stream: Option<mpsc::Sender<v1::LearnedRoutes>>,
    sent: u64,
    answered: u64,
    is_completed: bool,
    said: Option<Instant>,
    /// Why the forwarder refused routes last.
    pub(super) reason: String,
}

impl Runner {
    /// An empty table whose line is not up yet.
    pub(super) fn new() -> Self {
        let mut table = Table::default();
        table.out.clear(true);
        Self {
            table,
            work: Work::default(),
            audits: Audits::default(),
            leftover: Leftover::default(),
            route_sources: None,
            stream: None,
            sent: 0,
            answered: 0,
            is_completed: false,
            said: None,
            reason: String::new(),
        }
    }

    /// Whether the forwarder has done all that the table has told.
    pub(super) fn is_drained(&self) -> bool {
        self.stream.is_some() && self.table.out.len() == 0 && self.sent == self.answered
    }

    /// Whether the forwarder holds all that is desired, and nothing else.
    pub(super) fn is_settled(&self) -> bool {
        self.is_drained() && self.is_completed
    }

    /// Whether the line stands and everything was said.
    pub(super) fn is_completed(&self) -> bool {
        self.stream.is_some() && self.is_completed
    }

    /// Serves until the controller ends.
    pub(super) async fn run(
        mut self,
        line: Arc<Line>,
        mut said: mpsc::Receiver<Said>,
        mut requests: mpsc::Receiver<Request>,
    ) {
        let mut changes = line.changes();
        let (sender, mut heard) = mpsc::channel(16);
        let keeper = tokio::spawn(link::keep(Arc::clone(&line), sender.clone()));
        loop {
            let now = Instant::now();
            if let Some(configuration) = line.in_force() {
                self.table.configure(&configuration);
            }
            self.table.tick(now);
            self.table.settle();
            self.complete(&line, &sender);
            self.send();
            self.work.table_us += now.elapsed().as_micros() as u64;
            let pause = self.table.deadline().map_or(TICK, |deadline| deadline.min(TICK));
            let may_hear = self.table.out.len() < WAITING;
            tokio::select! {
                biased;
                answer = heard.recv() => match answer {
                    Some(answer) => self.hear_line(answer),
                    None => break,
                },
                request = requests.recv() => match request {
                    Some(request) => request(&mut self),
                    None => break,
                },
                first = said.recv(), if may_hear => match first {
                    Some(first) => self.hear_route_sources(first, &mut said),
                    None => break,
                },
                _ = changes.changed() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
        keeper.abort();
    }

    fn hear_route_sources(&mut self, first: Said, said: &mut mpsc::Receiver<Said>) {
        let now = Instant::now();
        let mut next = Some(first);
        let mut batches = 0;
        // What came together is settled together.
        while let Some((source, events)) = next {
            batches += 1;
            let routes = |event: &Event| match event {
                Event::Update(update) => (update.ip4.len() + update.ip6.len()) as u64,
                _ => 0,
            };
            self.work.heard += events.iter().map(routes).sum::<u64>();
            self.table.hear(&source, events, now);
            let has_room = self.table.out.len() < WAITING && batches < BATCHES;
            next = if has_room { said.try_recv().ok() } else { None };
        }
        self.work.table_us += now.elapsed().as_micros() as u64;
    }

    fn hear_line(&mut self, heard: Heard) {
        match heard {
            Heard::Up(stream) => {
                let now = Instant::now();
                self.table.say_all();
                (self.stream, self.sent, self.answered) = (Some(stream), 0, 0);
                self.is_completed = false;
                self.work.table_us += now.elapsed().as_micros() as u64;
            }
            Heard::Answer(answer) => {
                self.answered = answer.number;
                self.work.forwarder_us += answer.took_us;
                self.refused(&answer.refused);
            }
            Heard::Counts(held) => self.hear_counts(&held),
            Heard::Down => {
                self.stream = None;
                self.is_completed = false;
                self.table.out.clear(true);
            }
        }
    }

    fn refused(&mut self, runs: &[v1::RefusedRun]) {
        let Some(last) = runs.last() else { return };
        let of_run = |run: &v1::RouteRun| run.ip4.len() / 5 + run.ip6.len() / 17;
        let routes: usize = runs.iter().filter_map(|it| it.run.as_ref()).map(of_run).sum();
        self.work.refused += routes as u64;
        self.reason.clone_from(&last.reason);
        if self.said.is_none_or(|said| said.elapsed() >= SAY_EVERY) {
            self.said = Some(Instant::now());
            let (refused, reason) = (self.work.refused, &last.reason);
            tracing::error!(
                refused,
                fix = last.fix,
                "the forwarder refused learned routes: {reason}"
            );
        }
    }

    /// Tells the forwarder that all was said, once it was.
    fn complete(&mut self, line: &Arc<Line>, heard: &mpsc::Sender<Heard>) {
        if self.stream.is_some()
            && !self.is_completed
            && self
                .route_sources
                .as_ref()
                .is_some_and(|route_sources| self.table.is_complete(route_sources))
            && self.may_sweep(line, heard)
        {
            self.table.out.complete();
            self.is_completed = true;
        }
    }

    fn send(&mut self) {
        let Some(stream) = &self.stream else { return };
        while self.sent - self.answered < link::WINDOW as u64 {
            let Ok(permit) = stream.try_reserve() else { return };
            let Some(mut message) = self.table.out.next() else { return };
            self.sent += 1;
            message.number = self.sent;
            permit.send(message);
        }
    }
}
