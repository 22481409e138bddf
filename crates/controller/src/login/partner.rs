//! The logins of a partner, another router that shares addresses by VRRP: the connection to it, as long as there is
//! one in the configuration and hosts have to log in. [`super::sessions::partner`] decides what is said.
//!
//! It has the addresses and the secret of the synchronization of flows, and the TCP port behind that.

mod frames;
pub(super) mod shown;

use std::net::SocketAddr;
use std::time::Duration;

use stoa_api::login::Key;
use stoa_api::text::ip;
use stoa_api::v1;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;

use self::frames::{Error, Frames, Writer};
use super::logins::{Logins, clock_s};
use super::sessions::partner::Message;
use crate::apply::ForwarderConnection;

/// How often changes are looked for, and how often an end says that it is there.
const STEP: Duration = Duration::from_secs(1);
/// How long an end may take for its part of the handshake.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// How long an end may send nothing, or take nothing.
const SILENCE: Duration = Duration::from_secs(10);
/// Logins that are read while others wait for them.
const BATCH: usize = 64;

/// Where the partner is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Settings {
    local: SocketAddr,
    partner: SocketAddr,
    secret: String,
}

impl Settings {
    fn of(sync: &v1::FlowSync) -> Option<Self> {
        let end = |address: &[u8], port: u32| {
            let port = u16::try_from(port).ok()?.checked_add(1)?;
            Some(SocketAddr::new(ip(address)?, port))
        };
        Some(Self {
            local: end(&sync.local_address, sync.local_port)?,
            partner: end(&sync.partner_address, sync.partner_port)?,
            secret: sync.secret.clone(),
        })
    }

    /// Whether this router begins the connection: the one with the higher address.
    fn connects(&self) -> bool {
        self.local.ip() > self.partner.ip()
    }

    fn status(&self) -> v1::FlowSyncStatus {
        if self.connects() {
            v1::FlowSyncStatus::FlowSyncConnecting
        } else {
            v1::FlowSyncStatus::FlowSyncListening
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
            let settings = settings(connection);
            self.sessions().set_partner(settings.is_some());
            let status =
                settings.as_ref().map_or(v1::FlowSyncStatus::FlowSyncOff, Settings::status);
            self.shown.change(|it| {
                *it = v1::LoginSyncState { status: status.into(), ..Default::default() }
            });
            let differ = async {
                while self::settings(connection) == settings {
                    if changes.changed().await.is_err() {
                        std::future::pending::<()>().await;
                    }
                }
            };
            match &settings {
                Some(settings) => tokio::select! {
                    () = differ => {}
                    () = self.reach(settings, connection) => {}
                },
                None => differ.await,
            }
        }
    }

    /// Connects again and again.
    async fn reach(&self, settings: &Settings, connection: &ForwarderConnection) {
        let mut listener = None;
        loop {
            let Err(error) = self.meet(settings, &mut listener, connection).await;
            self.sessions().part();
            self.shown.change(|it| {
                if it.status() == v1::FlowSyncStatus::FlowSyncConnected {
                    tracing::warn!(partner = %settings.partner, "login: the partner is gone: {error}");
                }
                it.set_status(settings.status());
                it.error = error.to_string();
                (it.is_bulk_sent, it.is_bulk_received) = (false, false);
                it.refused_connections += u64::from(error.is_refusal());
            });
            tokio::time::sleep(STEP).await;
        }
    }

    /// One connection, until it is over.
    async fn meet(
        &self,
        settings: &Settings,
        listener: &mut Option<TcpListener>,
        connection: &ForwarderConnection,
    ) -> Result<std::convert::Infallible, Error> {
        let stream = if settings.connects() {
            begin(settings).await?
        } else {
            accept(settings, listener).await?
        };
        stream.set_nodelay(true)?;
        let opened = frames::open(stream, &settings.secret, settings.connects());
        let (frames, writer) = timeout(HANDSHAKE, opened).await.map_err(|_| Error::Silent)??;
        let hello = self.sessions().meet_partner(settings.connects());
        tokio::select! {
            ended = self.listen(frames, connection) => ended,
            ended = self.speak(writer, hello) => ended,
        }
    }

    /// Follows what the partner says.
    async fn listen(
        &self,
        mut frames: Frames<OwnedReadHalf>,
        connection: &ForwarderConnection,
    ) -> Result<std::convert::Infallible, Error> {
        let mut is_proven = false;
        loop {
            let messages = timeout(SILENCE, frames.next()).await.map_err(|_| Error::Silent)??;
            let now = clock_s();
            if !std::mem::replace(&mut is_proven, true) {
                self.shown.change(|it| {
                    it.set_status(v1::FlowSyncStatus::FlowSyncConnected);
                    it.error.clear();
                    it.connections += 1;
                });
            }
            for message in messages {
                if message == Message::Complete {
                    self.shown.change(|it| it.is_bulk_received = true);
                }
                self.sessions().hear(message, |name| connection.has_login(name), now);
            }
            self.changed.notify_one();
        }
    }

    /// Tells the partner of logins and ends.
    async fn speak(
        &self,
        mut writer: Writer<OwnedWriteHalf>,
        hello: Message,
    ) -> Result<std::convert::Infallible, Error> {
        let mut is_complete = false;
        let mut first = vec![hello];
        loop {
            let mut behind: Option<Key> = None;
            loop {
                let taken = self.sessions().take(&mut behind, BATCH, clock_s());
                let are_all = taken.len() < BATCH;
                writer.send(std::mem::take(&mut first).into_iter().chain(taken).collect()).await?;
                if are_all {
                    break;
                }
            }
            let last = if std::mem::replace(&mut is_complete, true) {
                self.sessions().alive()
            } else {
                self.shown.change(|it| it.is_bulk_sent = true);
                Message::Complete
            };
            writer.send(vec![last]).await?;
            tokio::time::sleep(STEP).await;
        }
    }
}

/// The partner of the configuration in force, if hosts have to log in anywhere.
fn settings(connection: &ForwarderConnection) -> Option<Settings> {
    connection.with_configuration(|it| {
        let it = it?;
        let has_login = it.interfaces.iter().any(|it| it.login.is_some());
        it.desired.flow_sync.as_ref().filter(|_| has_login).and_then(Settings::of)
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
        let is_it = |it: &v1::Interface| it.name == name && it.login.is_some();
        self.with_configuration(|it| it.is_some_and(|it| it.interfaces.iter().any(is_it)))
    }
}

async fn begin(settings: &Settings) -> Result<TcpStream, Error> {
    let socket = if settings.local.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.bind(SocketAddr::new(settings.local.ip(), 0))?;
    let connected = timeout(HANDSHAKE, socket.connect(settings.partner)).await;
    Ok(connected.map_err(|_| Error::Silent)??)
}

/// Waits for the partner; other hosts are refused.
async fn accept(
    settings: &Settings,
    listener: &mut Option<TcpListener>,
) -> Result<TcpStream, Error> {
    if listener.is_none() {
        *listener = Some(TcpListener::bind(settings.local).await?);
    }
    let Some(listener) = listener else { return Err(Error::Silent) };
    let (stream, from) = listener.accept().await?;
    if from.ip().to_canonical() == settings.partner.ip() {
        Ok(stream)
    } else {
        Err(Error::Stranger(from.ip()))
    }
}
