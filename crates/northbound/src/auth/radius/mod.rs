//! RADIUS (RFC 2865): servers that authenticate users who are not in the configuration.
//!
//! Servers are asked one after the other, in a task that blocks no thread. Everything has a limit: concurrent
//! requests, attempts, the time of a login, and the cache.

pub mod accounting;
pub mod packet;

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use stoa_controller::config::management::{Radius, RadiusServer};
use stoa_wire::radius::LENGTH_MAX;
use tokio::net::UdpSocket;
use tokio::sync::Semaphore;

use super::account::Account;
use super::secret;
use accounting::Report;
use packet::{Credentials, Reply, Request, Station};

/// Concurrent logins.
const AT_ONCE: usize = 16;
/// Time limit of a login over all servers.
const WHOLE: Duration = Duration::from_secs(30);
/// How long a server that did not answer is tried last.
const SILENT: Duration = Duration::from_secs(60);
/// How long an accepted password is cached: programs send it with each request.
const REMEMBER: Duration = Duration::from_secs(60);
/// How long an event stream may last after its login, as a session.
const LIFE: Duration = Duration::from_secs(12 * 3_600);
/// Maximum number of cached passwords.
const REMEMBER_LIMIT: usize = 256;

/// No server answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRadiusReply;

/// Asks the servers and caches their responses.
#[derive(Debug)]
pub struct Servers {
    places: Semaphore,
    /// Servers that did not answer, and when.
    unresponsive: Mutex<HashMap<SocketAddr, Instant>>,
    /// Accepted accounts by a keyed digest of the credentials.
    right: Mutex<HashMap<String, (Account, Instant)>>,
    key: [u8; 32],
    /// The host name.
    machine: String,
}

impl Default for Servers {
    fn default() -> Self {
        Servers {
            places: Semaphore::new(AT_ONCE),
            unresponsive: Mutex::default(),
            right: Mutex::default(),
            key: secret::random(),
            machine: crate::machine::name(),
        }
    }
}

impl Servers {
    fn unresponsive(&self) -> MutexGuard<'_, HashMap<SocketAddr, Instant>> {
        self.unresponsive.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn right(&self) -> MutexGuard<'_, HashMap<String, (Account, Instant)>> {
        self.right.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn digest(&self, settings: &Radius, user: &str, password: &str) -> String {
        let fingerprint = Account::radius_fingerprint(settings);
        let shown = format!("{fingerprint} {} {user} {password}", user.len());
        secret::encoded(&secret::digest(&[&self.key[..], shown.as_bytes()]))
    }

    /// The account, if these credentials were accepted recently.
    pub fn was_verified(&self, settings: &Radius, user: &str, password: &str) -> Option<Account> {
        let digest = self.digest(settings, user, password);
        let right = self.right();
        let (account, since) = right.get(&digest)?;
        (since.elapsed() < REMEMBER).then(|| account.clone())
    }

    /// The account of this digest, if it was accepted in the last hours.
    pub fn account(&self, digest: &str) -> Option<Account> {
        let right = self.right();
        let (account, since) = right.get(digest)?;
        (since.elapsed() < LIFE).then(|| account.clone())
    }

    fn remember(&self, account: &Account) {
        let mut right = self.right();
        right.retain(|_, (_, since)| since.elapsed() < LIFE);
        if right.len() >= REMEMBER_LIMIT {
            let oldest = right.iter().min_by_key(|(_, (_, since))| *since);
            let Some(oldest) = oldest.map(|(digest, _)| digest.clone()) else { return };
            right.remove(&oldest);
        }
        right.insert(account.digest.clone(), (account.clone(), Instant::now()));
    }

    /// Sends a report to the first server that takes it.
    ///
    /// # Errors
    /// When no server answers within 30 s.
    pub async fn report(&self, settings: &Radius, report: &Report) -> Result<(), NoRadiusReply> {
        let name = settings.nas_identifier.as_deref().unwrap_or(&self.machine);
        let mut servers: Vec<&RadiusServer> = settings.server.iter().collect();
        servers.sort_by_key(|server| self.is_unresponsive(server));
        let asked = async {
            for server in servers {
                let Some(request) = report.request(name, &server.shared_secret) else { continue };
                let read = |bytes: &[u8]| request.is_answer(bytes, &server.shared_secret);
                let response =
                    exchange(settings, server, &request.packet, |it| read(it).then_some(())).await;
                self.note(server, response.is_some());
                if response.is_some() {
                    return Ok(());
                }
            }
            Err(NoRadiusReply)
        };
        tokio::time::timeout(WHOLE, asked).await.unwrap_or(Err(NoRadiusReply))
    }

    /// Authenticates a user, who manages this router or logs in a host. `None`: rejected.
    ///
    /// # Errors
    /// When no server answers within 30 s.
    pub async fn ask(
        &self,
        settings: &Radius,
        (from, station): (IpAddr, Option<&Station>),
        user: &str,
        password: &str,
    ) -> Result<Option<Account>, NoRadiusReply> {
        let from = station.map_or_else(|| from.to_canonical().to_string(), Station::name);
        let credentials = Credentials { user, password, from: &from, station };
        let asked = tokio::time::timeout(WHOLE, self.ask_all(settings, credentials)).await;
        let reply = asked.unwrap_or(Err(NoRadiusReply))?;
        let digest = self.digest(settings, user, password);
        let grants = reply.grants();
        let account = reply.user(user, settings);
        let account =
            account.map(|it| Account { grants, ..Account::from_radius(it, settings, digest) });
        account.iter().for_each(|account| self.remember(account));
        Ok(account)
    }

    async fn ask_all(
        &self,
        settings: &Radius,
        credentials: Credentials<'_>,
    ) -> Result<Reply, NoRadiusReply> {
        let _place = self.places.acquire().await.map_err(|_| NoRadiusReply)?;
        let mut servers: Vec<&RadiusServer> = settings.server.iter().collect();
        servers.sort_by_key(|server| self.is_unresponsive(server));
        let name = settings.nas_identifier.as_deref().unwrap_or(&self.machine);
        for server in servers {
            let Some(request) = Request::new(credentials, name, &server.shared_secret) else {
                // No server could accept it.
                return Ok(Reply::Rejected);
            };
            let read = |bytes: &[u8]| {
                request.reply(bytes, &server.shared_secret, settings.group_attribute)
            };
            let response = exchange(settings, server, &request.packet, read).await;
            self.note(server, response.is_some());
            match response {
                Some(Reply::Challenged) => {
                    let server = &server.name;
                    tracing::warn!(
                        server,
                        "RADIUS server sent Access-Challenge, which is not supported: login refused"
                    );
                    return Ok(Reply::Rejected);
                }
                Some(reply) => return Ok(reply),
                None => {}
            }
        }
        Err(NoRadiusReply)
    }

    fn is_unresponsive(&self, server: &RadiusServer) -> bool {
        let slot = SocketAddr::new(server.address, server.port);
        self.unresponsive().get(&slot).is_some_and(|since| since.elapsed() < SILENT)
    }

    fn note(&self, server: &RadiusServer, has_answered: bool) {
        let slot = SocketAddr::new(server.address, server.port);
        let mut unresponsive = self.unresponsive();
        let name = &server.name;
        if has_answered {
            if unresponsive.remove(&slot).is_some() {
                tracing::info!(server = name, %slot, "RADIUS server answers again");
            }
            return;
        }
        // Servers that are no longer configured.
        unresponsive.retain(|_, since| since.elapsed() < 10 * SILENT);
        if unresponsive.insert(slot, Instant::now()).is_none() {
            tracing::warn!(server = name, %slot, "RADIUS server does not answer");
        }
    }
}

/// Asks one server; `None`: no valid response. `read` tells whether a datagram is one.
async fn exchange<T>(
    settings: &Radius,
    server: &RadiusServer,
    packet: &[u8],
    read: impl Fn(&[u8]) -> Option<T>,
) -> Option<T> {
    let any: IpAddr = match server.address {
        IpAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).await.ok()?;
    // A connected socket receives datagrams of this server only.
    socket.connect((server.address, server.port)).await.ok()?;
    let patience = Duration::from_secs(u64::from(settings.timeout.max(1)));
    for _ in 0..settings.attempts.max(1) {
        // A retransmission is the same packet, so that the server recognizes it.
        if socket.send(packet).await.is_err() {
            continue;
        }
        let response = listen(&socket, server, &read);
        if let Ok(Some(reply)) = tokio::time::timeout(patience, response).await {
            return Some(reply);
        }
    }
    None
}

/// Waits for a valid response and discards others. `None`: the port is unreachable.
async fn listen<T>(
    socket: &UdpSocket,
    server: &RadiusServer,
    read: &impl Fn(&[u8]) -> Option<T>,
) -> Option<T> {
    let mut bytes = vec![0; LENGTH_MAX];
    let mut is_generated = false;
    loop {
        let length = socket.recv(&mut bytes).await.ok()?;
        let answer = bytes.get(..length).unwrap_or_default();
        let reply = read(answer);
        if reply.is_some() {
            return reply;
        }
        if !std::mem::replace(&mut is_generated, true) {
            tracing::warn!(
                server = server.name,
                "discarded a response of a RADIUS server: check its shared-secret; the response must \
                have a Message-Authenticator"
            );
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
