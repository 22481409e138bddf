//! The logins of a partner, another router that shares addresses by VRRP: the connection to it, as long as there is
//! one in the configuration and hosts have to log in. [`super::sessions::partner`] decides what is sent.
//!
//! It has the addresses and the secret of the synchronization of flows, and the TCP port behind that.

mod frames;
pub(super) mod shown;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use stoa_api::flow_sync::Ends;
use stoa_api::login::Key;
use stoa_api::v1;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;

use self::frames::{Error, Frames, Opened, SILENCE, Writer};
use super::logins::{Logins, clock_s};
use super::sessions::partner::Message;
use crate::apply::ForwarderConnection;

/// How often changes are looked for, how often an end sends something, and how often a connection is tried.
const STEP: Duration = Duration::from_secs(1);
/// How long an end may take until it has proven that it knows the secret.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// Connections that have proven nothing yet at most: the oldest one goes.
const OPENING: usize = 8;
/// Logins that are read while others wait for them.
const BATCH: usize = 64;

/// Where the partner is.
#[derive(Clone, PartialEq, Eq)]
struct Settings {
    ends: Ends,
    secret: String,
}

impl Settings {
    fn of(sync: &v1::FlowSync) -> Option<Self> {
        let ends = Ends::of(sync).ok()?.of_logins()?;
        Some(Self { ends, secret: sync.secret.clone() })
    }

    fn status(&self) -> v1::FlowSyncStatus {
        if self.ends.listens() {
            v1::FlowSyncStatus::FlowSyncListening
        } else {
            v1::FlowSyncStatus::FlowSyncConnecting
        }
    }
}

/// A connection that is served, until it is over.
type Serving<'a> = Pin<Box<dyn Future<Output = Error> + Send + 'a>>;

/// Connections that are opened.
#[derive(Default)]
struct Opening {
    tasks: JoinSet<Result<Opened, Error>>,
    oldest_first: VecDeque<AbortHandle>,
}

impl Opening {
    fn add(&mut self, task: impl Future<Output = Result<Opened, Error>> + Send + 'static) {
        self.oldest_first.retain(|it| !it.is_finished());
        if self.oldest_first.len() >= OPENING
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            oldest.abort();
        }
        self.oldest_first.push_back(self.tasks.spawn(task));
    }

    /// The next one that is open, or has failed.
    async fn next(&mut self) -> Result<Opened, Error> {
        loop {
            match self.tasks.join_next().await {
                Some(Ok(opened)) => return opened,
                // It gave way to others.
                Some(Err(_)) => {}
                None => std::future::pending().await,
            }
        }
    }
}

impl Logins {
    /// The connection to the partner, and what was sent and received.
    pub fn partner(&self) -> v1::LoginSyncState {
        let counts = self.sessions().counts();
        v1::LoginSyncState {
            sent_logins: counts.sent_logins,
            sent_ends: counts.sent_ends,
            received_logins: counts.received_logins,
            received_ends: counts.received_ends,
            added_logins: counts.added,
            taken_over_logins: counts.taken_over,
            refused_logins: counts.refused,
            ..self.shown.get()
        }
    }

    /// Keeps the partner of the configuration up to date, forever.
    pub(super) async fn follow_partner(&self, connection: &ForwarderConnection) {
        let mut changes = connection.changes();
        loop {
            changes.mark_unchanged();
            let (is_used, settings) = settings(connection);
            self.sessions().set_partner(is_used);
            let status =
                settings.as_ref().map_or(v1::FlowSyncStatus::FlowSyncOff, Settings::status);
            self.shown.begin(status);
            let differ = async {
                while self::settings(connection) == (is_used, settings.clone()) {
                    if changes.changed().await.is_err() {
                        std::future::pending::<()>().await;
                    }
                }
            };
            let Some(settings) = &settings else {
                differ.await;
                continue;
            };
            let has_login = |name: &str| connection.has_login(name);
            tokio::select! {
                () = differ => {}
                () = self.reach(settings, &has_login) => {}
            }
        }
    }

    /// Connects again and again, and serves the connection that was proven last.
    async fn reach(&self, settings: &Settings, has_login: &(impl Fn(&str) -> bool + Sync)) {
        let (mut listener, mut opening) = (None, Opening::default());
        let mut serving: Option<Serving<'_>> = None;
        let mut ticks = tokio::time::interval(STEP);
        loop {
            tokio::select! {
                _ = ticks.tick() => {
                    if settings.ends.listens() && listener.is_none() {
                        match TcpListener::bind(settings.ends.local).await {
                            Ok(bound) => listener = Some(bound),
                            Err(error) => self.shown.failed(settings.ends.partner, &error.into(), false),
                        }
                    } else if !settings.ends.listens() && serving.is_none() && opening.tasks.is_empty() {
                        opening.add(begin(settings.clone()));
                    }
                }
                accepted = accept(listener.as_ref(), settings) => match accepted {
                    Ok(stream) => opening.add(open(stream, settings.clone())),
                    Err(error) => self.shown.failed(settings.ends.partner, &error, serving.is_some()),
                },
                opened = opening.next() => match opened {
                    Ok(opened) => serving = Some(Box::pin(self.serve(opened, settings, has_login))),
                    Err(error) => self.shown.failed(settings.ends.partner, &error, serving.is_some()),
                },
                error = end_of(&mut serving) => {
                    serving = None;
                    self.sessions().disconnected();
                    self.shown.ended(settings.ends.partner, settings.status(), &error);
                }
            }
        }
    }

    /// Serves a connection whose other end knows the secret, until it is over.
    async fn serve(
        &self,
        (frames, writer, first): Opened,
        settings: &Settings,
        has_login: &(impl Fn(&str) -> bool + Sync),
    ) -> Error {
        let hello = self.sessions().connected(!settings.ends.listens());
        self.shown.connected(settings.ends.partner);
        let ended = tokio::select! {
            ended = self.receive(frames, first, has_login) => ended,
            ended = self.send_changes(writer, hello) => ended,
        };
        match ended {
            Err(error) => error,
            Ok(never) => match never {},
        }
    }

    /// Follows what the partner sends.
    async fn receive(
        &self,
        mut frames: Frames<OwnedReadHalf>,
        first: Vec<Message>,
        has_login: &(impl Fn(&str) -> bool + Sync),
    ) -> Result<Infallible, Error> {
        let mut messages = first;
        loop {
            let now = clock_s();
            for message in messages {
                // Asked before the logins are locked.
                let is_asked = message.interface().is_some_and(has_login);
                if message == Message::Complete {
                    self.shown.received_all();
                }
                self.sessions().receive(message, is_asked, now);
            }
            self.changed.notify_one();
            messages = timeout(SILENCE, frames.next()).await.map_err(|_| Error::Silent)??;
        }
    }

    /// Sends logins and ends to the partner.
    async fn send_changes(
        &self,
        mut writer: Writer<OwnedWriteHalf>,
        hello: Message,
    ) -> Result<Infallible, Error> {
        let mut is_complete = false;
        let mut first = vec![hello];
        loop {
            let mut behind: Option<Key> = None;
            loop {
                let taken = self.sessions().take(&mut behind, BATCH, clock_s());
                let are_all = taken.len() < BATCH;
                writer.send(std::mem::take(&mut first).into_iter().chain(taken)).await?;
                if are_all {
                    break;
                }
            }
            let last = if std::mem::replace(&mut is_complete, true) {
                self.sessions().alive()
            } else {
                self.shown.sent_all();
                Message::Complete
            };
            writer.send([last]).await?;
            tokio::time::sleep(STEP).await;
        }
    }
}

/// The end of a connection, if there is one.
async fn end_of(serving: &mut Option<Serving<'_>>) -> Error {
    match serving {
        Some(serving) => serving.await,
        None => std::future::pending().await,
    }
}

/// Whether there is a partner in the configuration in force, and where it is, if hosts have to log in anywhere.
fn settings(connection: &ForwarderConnection) -> (bool, Option<Settings>) {
    connection.with_configuration(|it| {
        let Some(it) = it else { return (false, None) };
        let has_login = it.interfaces.iter().any(|it| it.login.is_some());
        let sync = it.desired.flow_sync.as_ref();
        (sync.is_some(), sync.filter(|_| has_login).and_then(Settings::of))
    })
}

impl ForwarderConnection {
    /// Flows and logins at the partner.
    ///
    /// # Errors
    /// The forwarder does not answer.
    pub(crate) async fn list_flow_sync(&self) -> Result<v1::ListFlowSyncReply, tonic::Status> {
        let request = v1::ListFlowSyncRequest {};
        let mut listed = self.flow_sync_client().list_flow_sync(request).await?.into_inner();
        listed.logins = Some(self.logins().partner());
        Ok(listed)
    }

    /// Whether hosts of an interface have to log in.
    fn has_login(&self, name: &str) -> bool {
        let of = |it: &v1::Interface| it.login.is_some();
        self.with_configuration(|it| it.and_then(|it| it.interfaces.named(name)).is_some_and(of))
    }
}

/// Begins a connection from an own address.
async fn begin(settings: Settings) -> Result<Opened, Error> {
    let socket =
        if settings.ends.local.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.bind(SocketAddr::new(settings.ends.local.ip(), 0))?;
    let connected = timeout(HANDSHAKE, socket.connect(settings.ends.partner)).await;
    open(connected.map_err(|_| Error::Silent)??, settings).await
}

/// Waits until the other end has proven that it knows the secret.
async fn open(stream: TcpStream, settings: Settings) -> Result<Opened, Error> {
    stream.set_nodelay(true)?;
    let opened = frames::open(stream, &settings.secret, !settings.ends.listens());
    timeout(HANDSHAKE, opened).await.map_err(|_| Error::Silent)?
}

/// Waits for the partner; other hosts are refused.
async fn accept(listener: Option<&TcpListener>, settings: &Settings) -> Result<TcpStream, Error> {
    let Some(listener) = listener else { return std::future::pending().await };
    let (stream, from) = listener.accept().await?;
    if from.ip().to_canonical() == settings.ends.partner.ip() {
        Ok(stream)
    } else {
        Err(Error::OtherHost(from.ip()))
    }
}

#[cfg(test)]
mod tests;
