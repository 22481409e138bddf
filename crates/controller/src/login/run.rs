//! Drives the logins: counters and time in, rows to the forwarder, events to accounting, and the file.

use std::collections::HashSet;
use std::net::IpAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use stoa_api::login::Key;
use stoa_api::text::mac_text;
use stoa_api::v1;

use super::logins::{Logins, clock_s};
use super::rows::LoginTable;
use super::sessions::{Event, Session};
use super::store::{Store, Stored, Writer};
use crate::apply::ForwarderConnection;
use crate::config::model::Login;
use crate::prefix::net_from_proto;
use crate::rows::RowStream;

/// How often counters are read and time passes for logins.
const INTERVAL: Duration = Duration::from_secs(1);
/// The time limit of a request of counters.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A host that asks, and its login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedIn {
    /// The host; its interface needs a login.
    pub host: Key,
    /// Its login.
    pub session: Option<Session>,
}

/// Counters of a run of the forwarder; `None`: it does not answer.
type Counters = Option<v1::ListLoginsReply>;
/// A request of counters.
type Reading<'a> = Pin<Box<dyn Future<Output = Counters> + Send + 'a>>;

/// Asks the forwarder for counters.
async fn read(connection: &ForwarderConnection) -> Counters {
    let asked = async { connection.login_client().list_logins(v1::ListLoginsRequest {}).await };
    let counters = tokio::time::timeout(TIMEOUT, asked).await;
    Some(counters.ok()?.ok()?.into_inner())
}

/// The end of a request, if there is one.
async fn end_of(reading: &mut Option<Reading<'_>>) -> Counters {
    match reading {
        Some(reading) => reading.await,
        None => std::future::pending().await,
    }
}

impl Logins {
    /// Reads the file, then drives the logins and the partner forever.
    pub(crate) async fn run(&self, connection: &ForwarderConnection, state: &Path) {
        let mut writer = Writer::new(Store::of(state));
        let Stored { at_s, logins, ended, is_partial } = writer.read();
        self.sessions().restore(logins, at_s, clock_s());
        self.sessions().restore_ended(ended, at_s > 0 && !is_partial);
        tokio::join!(self.drive(connection, writer), self.follow_partner(connection));
    }

    async fn drive(&self, connection: &ForwarderConnection, mut writer: Writer) {
        let rows = connection.rows().open::<LoginTable>();
        self.send(&rows).await;
        rows.complete().await;
        let mut ticks = tokio::time::interval(INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut reading: Option<Reading<'_>> = None;
        loop {
            tokio::select! {
                _ = ticks.tick() => {
                    if reading.is_none() && self.sessions().all().next().is_some() {
                        reading = Some(Box::pin(read(connection)));
                    }
                }
                counters = end_of(&mut reading) => {
                    reading = None;
                    self.pass(connection, counters);
                }
                () = self.changed.notified() => {}
            }
            self.send(&rows).await;
            let is_changed = self.sessions().take_is_changed();
            writer.step(is_changed, || {
                let sessions = self.sessions();
                let (ended, is_whole) = sessions.ended();
                let logins = sessions.all().cloned().collect();
                Stored { at_s: clock_s(), logins, ended, is_partial: !is_whole }
            });
        }
    }

    /// Takes over counters, and lets time pass.
    fn pass(&self, connection: &ForwarderConnection, counters: Counters) {
        let now = clock_s();
        // Read once, before the logins are locked: there may be as many users and interfaces as logins.
        let configured = connection.with_configuration(|it| {
            let it = it?;
            let with = it.interfaces.iter().filter(|it| it.login.is_some());
            let interfaces: HashSet<String> = with.map(|it| it.name.clone()).collect();
            Some((interfaces, Arc::clone(&it.login)))
        });
        let (interfaces, login) = configured.unzip();
        let login = login.unwrap_or_default();
        let users: HashSet<&str> = login.user.iter().map(|it| it.name.as_str()).collect();
        let mut sessions = self.sessions();
        match counters {
            Some(v1::ListLoginsReply { logins, run }) => sessions.count(&logins, run, now),
            None => sessions.count_none(now),
        }
        if let Some(interfaces) = interfaces {
            sessions.retain_interfaces(|name| interfaces.contains(name));
            sessions.retain_users(|user| users.contains(user));
        }
        sessions.pass(now, login.radius.interim_interval);
    }

    /// Sends changed rows to the forwarder, and events to accounting.
    async fn send(&self, rows: &RowStream<LoginTable>) {
        let (changes, events) = {
            let mut sessions = self.sessions();
            (sessions.take_rows(), sessions.take_events())
        };
        if !changes.is_empty() {
            rows.update(changes).await;
        }
        events.iter().for_each(log);
        self.add_events(events);
    }
}

/// Whether an interface has an address in whose network a client is.
fn has_network_of(interface: &v1::Interface, client: IpAddr) -> bool {
    let family = if client.is_ipv4() { &interface.ip4 } else { &interface.ip6 };
    let mut networks = family.iter().flat_map(|it| &it.addresses).filter_map(net_from_proto);
    networks.any(|network| network.contains(&client))
}

fn log(event: &Event) {
    let (session, what) = match event {
        Event::Started(it) => (it, "a host has logged in"),
        Event::Interim(_) => return,
        Event::Stopped(it, cause) => (it, cause.name()),
    };
    let mac = mac_text(&session.mac);
    tracing::info!(interface = session.interface, mac, user = session.user, "login: {what}");
}

impl ForwarderConnection {
    /// The interface of a client where hosts have to log in, by the networks of its addresses. `None`: there is none,
    /// or several in different VRFs.
    pub fn login_interface(&self, client: IpAddr) -> Option<String> {
        let client = client.to_canonical();
        self.with_configuration(|it| {
            let login = it?.interfaces.iter().filter(|it| it.login.is_some());
            let mut found = login.filter(|it| has_network_of(it, client));
            let first = found.next()?;
            found.next().is_none().then(|| first.name.clone())
        })
    }

    /// The login of a host.
    pub fn logged_in(&self, host: Key) -> LoggedIn {
        let session = self.logins().of(&host);
        LoggedIn { host, session }
    }

    /// Whether a configuration is in force: until then, nothing is known about interfaces and servers.
    pub fn is_configured(&self) -> bool {
        self.with_configuration(|it| it.is_some())
    }

    /// The portal and its users, by the configuration in force.
    pub fn login(&self) -> Arc<Login> {
        self.with_configuration(|it| it.map(|it| Arc::clone(&it.login))).unwrap_or_default()
    }
}
