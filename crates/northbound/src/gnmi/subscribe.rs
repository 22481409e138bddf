//! Subscribe: modes ONCE, POLL and STREAM.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use stoa_api::gnmi::subscribe_request::Request;
use stoa_api::gnmi::subscribe_response::Response;
use stoa_api::gnmi::subscription_list::Mode;
use stoa_api::gnmi::{
    Path, SubscribeRequest, SubscribeResponse, SubscriptionList, SubscriptionMode,
};
use stoa_controller::datastore::Event;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc::Sender;
use tokio::sync::mpsc::error::SendTimeoutError;
use tonic::{Status, Streaming};

use super::messages::messages;
use super::read::{echoed, look};
use super::service::{Caller, PATHS_LIMIT, Service, plain_only};
use super::value::ValueEncoding;
use super::watch::{Difference, REST, Watch};
use super::{status, stored_values};
use crate::restconf::query::Content;
use crate::server::quota::{QuotaSlot, quarter};

/// Time for the first message of a client.
const FIRST: Duration = Duration::from_secs(10);
/// Interval between checks of the client's rights on an idle stream.
const RIGHTS: Duration = Duration::from_secs(5);

type StreamItem = Result<SubscribeResponse, Status>;

/// A slot among the open streams, released on drop.
#[derive(Debug)]
pub struct OpenStream {
    service: Arc<Service>,
    user: String,
    _share: QuotaSlot,
    /// Stored values of this stream.
    values: usize,
}

fn too_many_values() -> Status {
    Status::resource_exhausted(format!(
        "too many values: all streams together store at most {}, and {} of one user: subscribe to less",
        stored_values::LIMIT,
        stored_values::USER_LIMIT
    ))
}

impl OpenStream {
    /// Takes a slot for a client.
    ///
    /// # Errors
    /// When too many streams are open in total, by this user, or from this address.
    pub fn new(service: &Arc<Service>, caller: &Caller) -> Result<OpenStream, Status> {
        let user = caller.identity.name.clone();
        let limit = usize::from(service.app.management().limits.subscriptions);
        let most = quarter(limit);
        let quota = service.streams.take(caller.from, Some(&user), most, limit);
        let quota = quota.ok_or_else(|| {
            Status::resource_exhausted(format!(
                "too many streams: the limit is {limit}, and {most} for one user or address: close one, \
                 or raise stoa-management:management/limits/subscriptions"
            ))
        })?;
        Ok(OpenStream { service: Arc::clone(service), user, _share: quota, values: 0 })
    }

    /// Sets the number of values that this stream stores.
    fn set_values(&mut self, values: usize) -> Result<(), Status> {
        let before = std::mem::replace(&mut self.values, values);
        match self.service.values.replace(&self.user, before, values) {
            true => Ok(()),
            false => Err(too_many_values()),
        }
    }

    /// Values that a subscription with `held` values may have.
    fn room(&self, held: usize) -> usize {
        self.service.values.room(&self.user, held)
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.service.values.replace(&self.user, self.values, 0);
    }
}

/// Why a stream ends.
enum End {
    /// An error for the client.
    Error(Status),
    /// The client is gone.
    Gone,
}

impl From<Status> for End {
    fn from(status: Status) -> End {
        End::Error(status)
    }
}

/// Serves one stream to its end.
pub async fn serve(
    service: Arc<Service>,
    caller: Caller,
    open: OpenStream,
    requests: Streaming<SubscribeRequest>,
    sender: Sender<StreamItem>,
) {
    let patience = service.patience;
    let run_stream = run_stream(service, caller, open, requests, &sender);
    let end = match AssertUnwindSafe(run_stream).catch_unwind().await {
        Ok(Ok(())) | Ok(Err(End::Gone)) => return,
        Ok(Err(End::Error(status))) => status,
        Err(_) => Status::internal("internal error: see the log of the router"),
    };
    let _ = sender.send_timeout(Err(end), patience).await;
}

async fn run_stream(
    service: Arc<Service>,
    caller: Caller,
    open: OpenStream,
    mut requests: Streaming<SubscribeRequest>,
    sender: &Sender<StreamItem>,
) -> Result<(), End> {
    let first = tokio::time::timeout(FIRST, requests.message()).await;
    let late = |_| Status::deadline_exceeded("no subscription arrived in time");
    let Some(first) = first.map_err(late)?? else { return Ok(()) };
    let Some(Request::Subscribe(list)) = first.request else {
        return Err(Status::invalid_argument(
            "the first message of a stream must be a subscription",
        )
        .into());
    };
    plain_only(&list.use_models, &first.extension)?;
    if list.qos.is_some_and(|qos| qos.marking != 0) {
        return Err(Status::unimplemented("qos is not supported: omit it").into());
    }
    let coding = ValueEncoding::of(list.encoding)?;
    let mode = Mode::try_from(list.mode);
    let mode =
        mode.map_err(|_| Status::invalid_argument("unknown mode: use STREAM, ONCE or POLL"))?;
    let (prefix, updates_only) = (echoed(list.prefix.as_ref()), list.updates_only);
    let broken = |_| Status::internal("cannot parse the paths");
    let watches = tokio::task::spawn_blocking(move || watches(&list, mode));
    let watches = watches.await.map_err(broken)??;
    let looked = Duration::ZERO;
    let mut stream = Stream { service, caller, open, coding, prefix, watches, looked, sender };
    match mode {
        Mode::Once => stream.once(updates_only).await,
        Mode::Poll => stream.poll(requests, updates_only).await,
        Mode::Stream => stream.stream(requests, updates_only).await,
    }
}

fn watches(list: &SubscriptionList, mode: Mode) -> Result<Vec<Watch>, Status> {
    if list.subscription.is_empty() || list.subscription.len() > PATHS_LIMIT {
        let words = format!("a stream must have 1 to {PATHS_LIMIT} subscriptions");
        return Err(Status::invalid_argument(words));
    }
    let mut all = Vec::new();
    for subscription in &list.subscription {
        let mut subscription = subscription.clone();
        if mode != Mode::Stream {
            // The stream mode has no meaning here.
            subscription.mode = SubscriptionMode::OnChange.into();
            (subscription.sample_interval, subscription.heartbeat_interval) = (0, 0);
        }
        all.extend(Watch::of(list.prefix.as_ref(), &subscription)?);
    }
    Ok(all)
}

/// A stream with its subscriptions.
struct Stream<'a> {
    service: Arc<Service>,
    caller: Caller,
    open: OpenStream,
    coding: ValueEncoding,
    prefix: Option<Path>,
    watches: Vec<Watch>,
    /// Total duration of reads since the last reset.
    looked: Duration,
    sender: &'a Sender<StreamItem>,
}

impl Stream<'_> {
    async fn once(&mut self, updates_only: bool) -> Result<(), End> {
        for at in 0..self.watches.len() {
            if !updates_only {
                let difference = self.read(at).await?;
                self.report(difference).await?;
                self.watches[at].forget();
                self.count_values()?;
            }
        }
        self.sync().await
    }

    async fn poll(
        &mut self,
        mut requests: Streaming<SubscribeRequest>,
        updates_only: bool,
    ) -> Result<(), End> {
        loop {
            self.looked = Duration::ZERO;
            self.once(updates_only).await?;
            // A delay before the next poll, as between the reads of a stream.
            let rest = Instant::now() + self.looked * REST;
            let next = tokio::select! {
                next = async {
                    tokio::time::sleep_until(rest.into()).await;
                    requests.message().await
                } => next?,
                () = self.until_denied() => return Err(End::Error(out())),
                () = self.sender.closed() => return Err(End::Gone),
            };
            match next.map(|next| next.request) {
                None => return Ok(()),
                Some(Some(Request::Poll(_))) => self.check_rights()?,
                Some(_) => {
                    let words = "in mode POLL, only poll messages may follow the first message";
                    return Err(Status::invalid_argument(words).into());
                }
            }
        }
    }

    async fn stream(
        &mut self,
        mut requests: Streaming<SubscribeRequest>,
        updates_only: bool,
    ) -> Result<(), End> {
        // Subscribe before the first read, so that the next read has concurrent changes.
        let mut events = self.service.app.datastore.subscribe();
        for at in 0..self.watches.len() {
            let difference = self.read(at).await?;
            if !updates_only {
                self.report(difference).await?;
            }
        }
        self.sync().await?;
        let mut is_open = true;
        loop {
            let dues = self.watches.iter().filter_map(Watch::due);
            let next = dues.chain([Instant::now() + RIGHTS]).min().unwrap_or_else(Instant::now);
            tokio::select! {
                () = tokio::time::sleep_until(next.into()) => {}
                event = events.recv() => match event {
                    Ok(Event::Edited) => continue,
                    Ok(Event::Changed { .. }) | Err(RecvError::Lagged(_)) => {
                        let now = Instant::now();
                        self.watches.iter_mut().for_each(|watch| watch.hurry(now));
                    }
                    Err(RecvError::Closed) => {
                        return Err(Status::unavailable("the router is shutting down").into());
                    }
                },
                request = requests.message(), if is_open => match request? {
                    // The client has closed its side and still receives.
                    None => is_open = false,
                    Some(_) => {
                        let words = "in mode STREAM, no message may follow the first one";
                        return Err(Status::invalid_argument(words).into());
                    }
                },
                () = self.sender.closed() => return Err(End::Gone),
            }
            self.check_rights()?;
            self.run_once().await?;
        }
    }

    /// Reads what is due and reports the changes.
    async fn run_once(&mut self) -> Result<(), End> {
        for at in 0..self.watches.len() {
            let now = Instant::now();
            if self.watches[at].due().is_none_or(|due| due > now) {
                continue;
            }
            match self.read(at).await {
                Ok(difference) => self.report(difference).await?,
                // The forwarder restarts: its state is reported afterwards.
                Err(End::Error(status)) if status.code() == tonic::Code::Unavailable => {
                    tracing::debug!("stream waits for the forwarder: {}", status.message());
                    self.watches[at].postpone(now);
                }
                Err(end) => return Err(end),
            }
        }
        Ok(())
    }

    /// Reads one subscription.
    async fn read(&mut self, at: usize) -> Result<Difference, End> {
        let watch = &self.watches[at];
        let closed = |_| Status::unavailable("the router is shutting down");
        let permit = self.service.reads.acquire().await.map_err(closed)?;
        let begun = Instant::now();
        let room = self.open.room(watch.count());
        let (app, picker) = (&self.service.app, watch.picker(self.coding, room));
        let seen = look(app, &self.caller, &watch.pattern, Content::All, picker).await;
        drop(permit);
        let seen = seen.map_err(|faults| status::of_faults(&faults))?;
        let seen = seen.ok_or_else(too_many_values)?;
        let now = Instant::now();
        self.looked += now.duration_since(begun);
        let difference = self.watches[at].take(seen, begun, now);
        self.count_values()?;
        Ok(difference)
    }

    fn count_values(&mut self) -> Result<(), Status> {
        self.open.set_values(self.watches.iter().map(Watch::count).sum())
    }

    async fn report(&self, difference: Difference) -> Result<(), End> {
        for message in messages(difference, self.coding, self.prefix.as_ref()) {
            self.send(Response::Update(message)).await?;
        }
        Ok(())
    }

    async fn sync(&self) -> Result<(), End> {
        self.send(Response::SyncResponse(true)).await
    }

    /// Queues a message. A client that does not read it in time is disconnected.
    async fn send(&self, response: Response) -> Result<(), End> {
        let message = SubscribeResponse { response: Some(response), extension: Vec::new() };
        match self.sender.send_timeout(Ok(message), self.service.patience).await {
            Ok(()) => Ok(()),
            Err(SendTimeoutError::Closed(_)) => Err(End::Gone),
            Err(SendTimeoutError::Timeout(_)) => {
                let (user, from) = (&self.caller.identity.name, self.caller.from);
                tracing::warn!(user, %from, "disconnecting a client that does not read its gNMI stream");
                self.caller.hang_up.0.notify_one();
                Err(End::Gone)
            }
        }
    }

    /// Checks that the client's credentials are still valid, and updates its rights.
    fn check_rights(&mut self) -> Result<(), Status> {
        let app = &self.service.app;
        let check_rights =
            app.authenticator.reauthenticate(&app.management(), &self.caller.identity);
        self.caller.identity = check_rights.ok_or_else(out)?;
        Ok(())
    }

    /// Ends when the credentials are no longer valid.
    async fn until_denied(&self) {
        let app = &self.service.app;
        while app.authenticator.reauthenticate(&app.management(), &self.caller.identity).is_some() {
            tokio::time::sleep(RIGHTS).await;
        }
    }
}

fn out() -> Status {
    Status::unauthenticated("the credentials are no longer valid: log in again")
}
