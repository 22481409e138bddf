//! The netlink route source: reads one kernel table and follows its notifications.
//!
//! The kernel does not report every change: it removes IPv4 routes of a device that goes down, and routes of
//! a deleted next-hop object, without notification, and it drops notifications that exceed the receive buffer
//! (`ENOBUFS`). In these cases the whole table is read again, and only differences are announced.

mod compare;
mod resync;
mod table;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use resync::ReadErrors;
pub use table::{BestRoute, Observation, Table};

use super::devices::Devices;
use super::message::{Messages, NextHopObject, Prefix, kind, route};
use super::socket::{Socket, group, is_lost};
use super::translate::{EventBatch, Translation, Translator};
use super::{NamespaceContext, RETRY_DELAY, socket};
use crate::learned::{Event, RouteSource};
use crate::route_sources::RouteSourceState;

/// Routes of one batch to the table of learned routes.
const BATCH_ROUTES: usize = 4_096;
/// Delay between reads, so that many notifications cost one wake-up. The first read after a pause is not
/// delayed.
const COALESCE: Duration = Duration::from_millis(1);
/// Delay of a resync after an incomplete notification: others with the same cause follow it.
const RESYNC_DELAY: Duration = Duration::from_millis(200);
/// Interval of resyncs without a known loss.
const RESYNC_INTERVAL: Duration = Duration::from_secs(300);
/// Interval at which the namespace is checked for replacement.
const NETNS_CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// Imports the routes of a kernel table, forever. `receive_buffer` is the size of the notification socket's
/// buffer.
pub async fn run(
    route_source: RouteSource,
    table: u32,
    receive_buffer: usize,
    context: NamespaceContext,
    state: Arc<RouteSourceState>,
) {
    let mut announced = String::new();
    loop {
        let reason = match Monitor::open(&route_source, table, receive_buffer, &context, &state) {
            Ok(mut monitor) => {
                announced.clear();
                state.up();
                route_source.send(vec![Event::Up]).await;
                let reason = monitor.run().await.to_string();
                route_source.send(vec![Event::Down]).await;
                reason
            }
            Err(error) => error.to_string(),
        };
        state.fail(&reason);
        if reason != announced {
            tracing::warn!(
                route_source = route_source.source().name,
                netns = context.netns,
                "cannot import kernel routes: {reason}; trying again"
            );
            announced = reason;
        }
        sleep(RETRY_DELAY).await;
    }
}

/// Monitors one table of one namespace.
struct Monitor<'a> {
    route_source: &'a RouteSource,
    number: u32,
    context: &'a NamespaceContext,
    state: &'a RouteSourceState,
    namespace_id: Option<(u64, u64)>,
    notifications: Socket,
    requests: Socket,
    devices: Devices,
    table: Table,
    translator: Translator,
    batch: EventBatch,
    /// When the table is to be read again.
    resync_due: Option<Instant>,
    /// No resync before this time.
    earliest_resync: Instant,
    /// No read of notifications before this time.
    next_read: Instant,
}

impl<'a> Monitor<'a> {
    fn open(
        route_source: &'a RouteSource,
        number: u32,
        receive_buffer: usize,
        context: &'a NamespaceContext,
        state: &'a RouteSourceState,
    ) -> io::Result<Self> {
        let namespace_id = context.identity();
        Ok(Self {
            route_source,
            number,
            context,
            state,
            namespace_id,
            // Opened before the first dump, so that no later change is missed.
            notifications: Socket::open(
                &context.netns,
                group::ROUTES | group::NEXT_HOPS,
                receive_buffer,
            )?,
            requests: Socket::open(&context.netns, 0, socket::BUFFER_SIZE)?,
            devices: Devices::open(context.clone())?,
            table: Table::default(),
            translator: Translator::default(),
            batch: EventBatch::default(),
            resync_due: None,
            earliest_resync: Instant::now(),
            next_read: Instant::now(),
        })
    }

    /// Runs until an error, which it returns.
    async fn run(&mut self) -> io::Error {
        match self.run_until_error().await {
            Ok(never) => match never {},
            Err(error) => error,
        }
    }

    async fn run_until_error(&mut self) -> io::Result<std::convert::Infallible> {
        self.read_table(|_| {}).await?;
        self.flush().await;
        self.route_source.send(vec![Event::Complete]).await;
        tracing::info!(
            route_source = self.route_source.source().name,
            routes = self.table.len(),
            "imported the kernel table"
        );
        let mut configuration = self.context.connection.changes();
        let mut audit = Instant::now() + RESYNC_INTERVAL;
        let mut buffer = vec![0; socket::BUFFER_SIZE];
        let state = self.state;
        loop {
            let resync_due = self
                .resync_due
                .map_or(audit, |resync_due| resync_due.max(self.earliest_resync).min(audit));
            tokio::select! {
                read = next_notification(&self.notifications, self.next_read, &mut buffer) => self.handle_notifications(read, &mut buffer)?,
                changed = self.devices.changed() => {
                    let changed = changed?;
                    self.translator.devices_changed();
                    if changed.is_new_host_interface {
                        self.retranslate();
                    }
                    if changed.any {
                        self.schedule_resync();
                    }
                }
                _ = configuration.changed() => {
                    if self.devices.reconfigure() {
                        self.translator.devices_changed();
                        self.retranslate();
                    }
                }
                () = sleep_until(resync_due) => {
                    let is_audit = Instant::now() >= audit;
                    if is_audit {
                        audit = Instant::now() + RESYNC_INTERVAL;
                    }
                    self.resync(is_audit, &mut buffer).await?;
                }
                pending = state.comparison_requests.next_requests() => self.compare(pending, &mut buffer).await?,
                () = sleep(NETNS_CHECK_INTERVAL) => {
                    if self.context.identity() != self.namespace_id {
                        return Err(io::Error::other("the network namespace was replaced"));
                    }
                }
            }
            if self.table.is_ambiguous() {
                self.schedule_resync();
            }
            self.flush().await;
        }
    }

    fn schedule_resync(&mut self) {
        self.resync_due.get_or_insert_with(|| Instant::now() + RESYNC_DELAY);
    }

    fn notifications_lost(&mut self) {
        // Losses in quick succession are counted and logged as one.
        if self.resync_due.is_none() {
            self.state.resynced();
            let route_source = &self.route_source.source().name;
            tracing::warn!(
                route_source,
                "notifications exceeded receive-buffer and were lost: reading the whole table again"
            );
        }
        self.schedule_resync();
    }

    /// Processes notifications until there is a full batch or none is left.
    fn handle_notifications(
        &mut self,
        first: io::Result<usize>,
        buffer: &mut [u8],
    ) -> io::Result<()> {
        let mut next = Some(first);
        let mut receive_buffer = BATCH_ROUTES;
        while let Some(read) = next.take() {
            match read {
                Ok(0) => break,
                Ok(length) => drop(self.handle_messages(&buffer[..length])),
                Err(error) if is_lost(&error) => self.notifications_lost(),
                Err(error) => return Err(error),
            }
            receive_buffer -= 1;
            next = (receive_buffer > 0 && self.batch.routes() < BATCH_ROUTES)
                .then(|| self.notifications.receive_now(buffer));
        }
        self.next_read = Instant::now() + COALESCE;
        Ok(())
    }

    /// Processes notifications. Returns the prefixes in them.
    fn handle_messages(&mut self, bytes: &[u8]) -> Vec<Prefix> {
        let mut errors = ReadErrors::default();
        let mut mentioned = Vec::new();
        for message in Messages::of(bytes).map_while(Result::ok) {
            match message.kind {
                kind::NEW_ROUTE | kind::DEL_ROUTE => {
                    let Some(route) = errors.read(&message, self.number) else { continue };
                    mentioned.push(route.prefix);
                    let observation = match message.kind {
                        kind::NEW_ROUTE => Observation::Added { replaces: message.replaces() },
                        _ => Observation::Deleted,
                    };
                    if self.table.observe(&route, observation) {
                        self.changed(&route.prefix);
                    }
                }
                kind::NEW_NEXT_HOP => {
                    let devices = &mut self.devices;
                    let result = NextHopObject::read(message.body).map(|next_hop| {
                        let events = self.batch.events();
                        self.translator.update_object(
                            &next_hop,
                            &mut |it| devices.interface(it),
                            events,
                        )
                    });
                    match result {
                        Ok(Ok(true)) => self.retranslate(),
                        Ok(Ok(false)) => {}
                        Ok(Err(reason)) => errors.not_imported = Some((None, reason)),
                        Err(error) => errors.on_changed(error),
                    }
                }
                kind::DEL_NEXT_HOP => {
                    if let Ok(next_hop) = NextHopObject::read(message.body) {
                        self.remove_object(next_hop.id);
                        // Linux removed its routes without notification.
                        self.schedule_resync();
                    }
                }
                _ => {}
            }
        }
        self.count(errors);
        mentioned
    }

    fn remove_object(&mut self, id: u32) {
        let devices = &mut self.devices;
        let events = self.batch.events();
        self.translator.remove_object(id, &mut |it| devices.interface(it), events);
    }

    /// Announces the best route to a prefix.
    fn changed(&mut self, prefix: &Prefix) {
        let Some(best) = self.table.best(prefix) else {
            self.state.withdrawn(1);
            self.batch.route(prefix, stoa_api::v1::Protocol::Other, None);
            return;
        };
        let protocol = route::protocol(best.protocol);
        let devices = &mut self.devices;
        let translation =
            self.translator
                .translation(prefix, best.protocol, &best.meaning, &mut |it| devices.interface(it));
        match translation {
            Translation::Forward(target) => {
                self.state.updated(1);
                self.batch.route(prefix, protocol, Some(target));
            }
            Translation::NotImported(reason) => {
                self.state.not_imported(1, format_args!("{prefix}: {reason}"));
                self.batch.route(prefix, protocol, None);
            }
            Translation::Ignored => self.batch.route(prefix, protocol, None),
        }
    }

    /// Devices have changed: announce every route again.
    fn retranslate(&mut self) {
        for prefix in self.table.prefixes() {
            self.changed(&prefix);
        }
    }

    async fn flush(&mut self) {
        if !self.batch.is_empty() {
            self.route_source.send(self.batch.take_events()).await;
        }
    }

    fn count(&self, errors: ReadErrors) {
        if let Some(error) = errors.reason
            && self.state.malformed(errors.malformed)
        {
            let route_source = &self.route_source.source().name;
            tracing::warn!(
                route_source,
                "ignored a malformed netlink message: {error}; logged once, counted in the route source's state"
            );
        }
        if let Some((prefix, reason)) = errors.not_imported {
            match prefix {
                Some(prefix) => self.state.not_imported(1, format_args!("{prefix}: {reason}")),
                None => self.state.not_imported(1, format_args!("{reason}")),
            }
        }
    }
}

async fn next_notification(
    notifications: &Socket,
    from: Instant,
    buffer: &mut [u8],
) -> io::Result<usize> {
    sleep_until(from).await;
    notifications.receive(buffer).await
}
