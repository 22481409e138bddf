//! The route source through Linux: the routes of one kernel table, read once and followed by its news.
//!
//! The kernel tells what changes, but not all: when a device goes down its IPv4 routes go without a word, so do those on a
//! next-hop object that is removed, and what does not fit into the socket's room is lost (`ENOBUFS`). Each time the whole table is
//! read again and compared; only what is different is told.

mod compare;
mod look;
mod table;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use look::Faults;
pub use table::{Best, Table, Told};

use super::devices::Devices;
use super::message::{Messages, NextHop, Prefix, kind, route};
use super::socket::{Socket, group, is_lost};
use super::translate::{Batch, Translator, Verdict};
use super::{Place, RETRY, socket};
use crate::learned::{Event, RouteSource};
use crate::route_sources::RouteSourceState;

/// Routes of one batch to the table of learned routes.
const BATCH: usize = 4_096;
/// News that come one by one are gathered for so long, so that a batch of them costs one wake-up. The first after a silence does not wait.
const GATHER: Duration = Duration::from_millis(1);
/// How soon the table is read again when news say too little: others of the same cause come with them.
const SOON: Duration = Duration::from_millis(200);
/// How often the table is read again though nothing was lost.
const AUDIT_EVERY: Duration = Duration::from_secs(300);
/// How often it is looked whether the namespace is still the same.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Follows a kernel table, and tells what is in it, for ever. `room` is how many bytes of news may wait.
pub async fn run(
    route_source: RouteSource,
    table: u32,
    room: usize,
    place: Place,
    state: Arc<RouteSourceState>,
) {
    let mut said = String::new();
    loop {
        let reason = match Follower::open(&route_source, table, room, &place, &state) {
            Ok(mut follower) => {
                said.clear();
                state.up();
                route_source.tell(vec![Event::Up]).await;
                let reason = follower.follow().await.to_string();
                route_source.tell(vec![Event::Down]).await;
                reason
            }
            Err(error) => error.to_string(),
        };
        state.fail(&reason);
        if reason != said {
            tracing::warn!(
                route_source = route_source.source().name,
                netns = place.netns,
                "Linux cannot be followed: {reason}; trying again"
            );
            said = reason;
        }
        sleep(RETRY).await;
    }
}

/// Follows the table of one namespace.
struct Follower<'a> {
    route_source: &'a RouteSource,
    number: u32,
    place: &'a Place,
    state: &'a RouteSourceState,
    home: Option<(u64, u64)>,
    news: Socket,
    asks: Socket,
    devices: Devices,
    table: Table,
    translator: Translator,
    batch: Batch,
    /// When the table is to be read again.
    due: Option<Instant>,
    /// Before then it is not.
    rested: Instant,
    /// Before then no news are read.
    gathered: Instant,
}

impl<'a> Follower<'a> {
    fn open(
        route_source: &'a RouteSource,
        number: u32,
        room: usize,
        place: &'a Place,
        state: &'a RouteSourceState,
    ) -> io::Result<Self> {
        let home = place.identity();
        Ok(Self {
            route_source,
            number,
            place,
            state,
            home,
            // Before the first look: nothing that comes after it is missed.
            news: Socket::open(&place.netns, group::ROUTES | group::NEXT_HOPS, room)?,
            asks: Socket::open(&place.netns, 0, socket::READ)?,
            devices: Devices::open(place.clone())?,
            table: Table::default(),
            translator: Translator::default(),
            batch: Batch::default(),
            due: None,
            rested: Instant::now(),
            gathered: Instant::now(),
        })
    }

    /// Gives why it cannot go on.
    async fn follow(&mut self) -> io::Error {
        match self.follow_until_it_fails().await {
            Ok(never) => match never {},
            Err(error) => error,
        }
    }

    async fn follow_until_it_fails(&mut self) -> io::Result<std::convert::Infallible> {
        self.look(|_| {}).await?;
        self.tell().await;
        self.route_source.tell(vec![Event::Complete]).await;
        tracing::info!(
            route_source = self.route_source.source().name,
            routes = self.table.len(),
            "Linux has said what it has"
        );
        let mut configuration = self.place.line.changes();
        let mut audit = Instant::now() + AUDIT_EVERY;
        let mut buffer = vec![0; socket::READ];
        let state = self.state;
        loop {
            let due = self.due.map_or(audit, |due| due.max(self.rested).min(audit));
            tokio::select! {
                read = news_to_come(&self.news, self.gathered, &mut buffer) => self.hear_all(read, &mut buffer)?,
                changed = self.devices.changed() => {
                    let changed = changed?;
                    self.translator.devices_changed();
                    if changed.is_new_host_interface {
                        self.translate_again();
                    }
                    if changed.is_anything {
                        self.look_soon();
                    }
                }
                _ = configuration.changed() => {
                    if self.devices.reconfigure() {
                        self.translator.devices_changed();
                        self.translate_again();
                    }
                }
                () = sleep_until(due) => {
                    let is_audit = Instant::now() >= audit;
                    if is_audit {
                        audit = Instant::now() + AUDIT_EVERY;
                    }
                    self.look_again(is_audit, &mut buffer).await?;
                }
                asked = state.questions.next() => self.compare(asked, &mut buffer).await?,
                () = sleep(LOOK_EVERY) => {
                    if self.place.identity() != self.home {
                        return Err(io::Error::other("the network namespace is another one now"));
                    }
                }
            }
            if self.table.is_unsure() {
                self.look_soon();
            }
            self.tell().await;
        }
    }

    fn look_soon(&mut self) {
        self.due.get_or_insert_with(|| Instant::now() + SOON);
    }

    fn lost(&mut self) {
        // Losses that come together are fixed, counted and said as one.
        if self.due.is_none() {
            self.state.resynced();
            let route_source = &self.route_source.source().name;
            tracing::warn!(
                route_source,
                "Linux had more news than receive-buffer holds: reading the whole table again"
            );
        }
        self.look_soon();
    }

    /// Takes what was read, and what else is there, until there is a batch to tell.
    fn hear_all(&mut self, first: io::Result<usize>, buffer: &mut [u8]) -> io::Result<()> {
        let mut next = Some(first);
        let mut room = BATCH;
        while let Some(read) = next.take() {
            match read {
                Ok(0) => break,
                Ok(length) => drop(self.hear(&buffer[..length])),
                Err(error) if is_lost(&error) => self.lost(),
                Err(error) => return Err(error),
            }
            room -= 1;
            next = (room > 0 && self.batch.routes() < BATCH).then(|| self.news.receive_now(buffer));
        }
        self.gathered = Instant::now() + GATHER;
        Ok(())
    }

    /// Takes news. Gives the prefixes that they name.
    fn hear(&mut self, bytes: &[u8]) -> Vec<Prefix> {
        let mut faults = Faults::default();
        let mut named = Vec::new();
        for message in Messages::of(bytes).map_while(Result::ok) {
            match message.kind {
                kind::NEW_ROUTE | kind::DEL_ROUTE => {
                    let Some(route) = faults.read(&message, self.number) else { continue };
                    named.push(route.prefix);
                    let told = match message.kind {
                        kind::NEW_ROUTE => Told::Added { replaces: message.replaces() },
                        _ => Told::Gone,
                    };
                    if self.table.take(&route, told) {
                        self.changed(&route.prefix);
                    }
                }
                kind::NEW_NEXT_HOP => {
                    let devices = &mut self.devices;
                    let taken = NextHop::read(message.body).map(|next_hop| {
                        let events = self.batch.events();
                        self.translator.next_hop(&next_hop, &mut |it| devices.interface(it), events)
                    });
                    match taken {
                        Ok(Ok(true)) => self.translate_again(),
                        Ok(Ok(false)) => {}
                        Ok(Err(reason)) => faults.not_imported = Some((None, reason)),
                        Err(fault) => faults.note(fault),
                    }
                }
                kind::DEL_NEXT_HOP => {
                    if let Ok(next_hop) = NextHop::read(message.body) {
                        self.next_hop_gone(next_hop.id);
                        // The routes on it went without a word.
                        self.look_soon();
                    }
                }
                _ => {}
            }
        }
        self.count(faults);
        named
    }

    fn next_hop_gone(&mut self, id: u32) {
        let devices = &mut self.devices;
        let events = self.batch.events();
        self.translator.next_hop_gone(id, &mut |it| devices.interface(it), events);
    }

    /// Tells what the best route to a prefix is now.
    fn changed(&mut self, prefix: &Prefix) {
        let Some(best) = self.table.best(prefix) else {
            self.state.withdrawn(1);
            self.batch.route(prefix, stoa_api::v1::Protocol::Other, None);
            return;
        };
        let protocol = route::protocol(best.protocol);
        let devices = &mut self.devices;
        let verdict = self
            .translator
            .verdict(prefix, best.protocol, &best.meaning, &mut |it| devices.interface(it));
        match verdict {
            Verdict::Leads(target) => {
                self.state.updated(1);
                self.batch.route(prefix, protocol, Some(target));
            }
            Verdict::LeftOut(reason) => {
                self.state.not_imported(1, format_args!("{prefix}: {reason}"));
                self.batch.route(prefix, protocol, None);
            }
            Verdict::Own => self.batch.route(prefix, protocol, None),
        }
    }

    /// Devices are others now: every route is told by them again.
    fn translate_again(&mut self) {
        for prefix in self.table.prefixes() {
            self.changed(&prefix);
        }
    }

    async fn tell(&mut self) {
        if !self.batch.is_empty() {
            self.route_source.tell(self.batch.take()).await;
        }
    }

    fn count(&self, faults: Faults) {
        if let Some(fault) = faults.reason
            && self.state.malformed(faults.malformed)
        {
            let route_source = &self.route_source.source().name;
            tracing::warn!(
                route_source,
                "a message of Linux was left out: {fault}; said once, counted in the route source's state"
            );
        }
        if let Some((prefix, reason)) = faults.not_imported {
            match prefix {
                Some(prefix) => self.state.not_imported(1, format_args!("{prefix}: {reason}")),
                None => self.state.not_imported(1, format_args!("{reason}")),
            }
        }
    }
}

async fn news_to_come(news: &Socket, from: Instant, buffer: &mut [u8]) -> io::Result<usize> {
    sleep_until(from).await;
    news.receive(buffer).await
}
