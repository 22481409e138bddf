//! Who may connect to a route source over TCP on this machine: the users of routing daemons. A Unix socket would name
//! its peer, but FRR and BIRD connect over TCP only; the kernel's list of sockets has the user of each.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use nix::unistd::{Uid, User};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_blocking};

use super::netns;
use crate::config::route_sources::RouteSourceConfig;
use crate::route_sources::RouteSourceState;

/// The lists of TCP sockets in the namespace of the calling thread.
const LISTS: [&str; 2] = ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"];
/// State of a connection that both ends hold open.
const ESTABLISHED: &str = "01";
/// Pause between two checks, each of which reads the lists of the whole namespace.
const PAUSE: Duration = Duration::from_millis(100);
/// New connections of one check.
const BATCH: usize = 128;

/// A new connection and where it comes from.
type Accepted = (TcpStream, SocketAddr);

/// Decides who may connect to a route source.
#[derive(Debug)]
pub struct Admission {
    netns: String,
    /// Names or numbers of users, besides root and the user of this process.
    users: Vec<String>,
    /// Where refusals are reported.
    state: Arc<RouteSourceState>,
}

/// The permitted connections of a listener. They are checked on a task of its own, so that whoever waits for one may
/// stop to wait without losing it, and in batches, so that many refused ones delay others little.
#[derive(Debug)]
pub struct Entrance {
    admitted: mpsc::Receiver<io::Result<TcpStream>>,
    task: JoinHandle<()>,
}

impl Entrance {
    /// Accepts the connections of `listener` that are permitted; refusals are logged.
    pub fn open(admission: Arc<Admission>, route_source: &str, listener: TcpListener) -> Entrance {
        let (sender, admitted) = mpsc::channel(1);
        let task = tokio::spawn(admission.serve(route_source.to_owned(), listener, sender));
        Entrance { admitted, task }
    }

    /// The next connection. Nothing is lost when the caller stops to wait.
    ///
    /// # Errors
    /// When the listener fails.
    pub async fn next(&mut self) -> io::Result<TcpStream> {
        let next = self.admitted.recv().await;
        next.unwrap_or_else(|| Err(io::Error::other("the listener is closed")))
    }
}

impl Drop for Entrance {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Admission {
    /// For connections in the network namespace `netns`; refusals are reported in `state`.
    pub fn new(netns: &str, users: &[String], state: Arc<RouteSourceState>) -> Arc<Admission> {
        let (netns, users) = (netns.to_owned(), users.to_vec());
        Arc::new(Admission { netns, users, state })
    }

    /// Accepts and checks connections until the listener fails.
    async fn serve(
        self: Arc<Self>,
        route_source: String,
        listener: TcpListener,
        admitted: mpsc::Sender<io::Result<TcpStream>>,
    ) {
        loop {
            let checked = match accept(&listener).await {
                Ok(batch) => self.clone().check(batch).await,
                Err(error) => Err(error),
            };
            let checked = match checked {
                Ok(checked) => checked,
                Err(error) => {
                    // Without a receiver, nobody is interested.
                    let _ = admitted.send(Err(error)).await;
                    return;
                }
            };
            for (stream, refusal) in checked {
                match refusal {
                    Some(refusal) => self.refuse(&route_source, &refusal),
                    None if admitted.send(Ok(stream)).await.is_err() => return,
                    None => {}
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// The connections, each with the reason if it is refused.
    async fn check(
        self: Arc<Self>,
        batch: Vec<Accepted>,
    ) -> io::Result<Vec<(TcpStream, Option<String>)>> {
        let check = move || {
            let lists = lists(&self.netns);
            let owners = lists.as_ref().map(|lists| owners(lists));
            let refusal = |stream: &TcpStream, from| {
                if !netns::is_local(stream, from) {
                    return Some("the peer is not on this machine".to_owned());
                }
                match (&owners, ends(stream)) {
                    (Ok(owners), Ok(ends)) => self.refusal(owner(owners, ends)),
                    (Err(error), _) => Some(format!("its user is unknown: {error}")),
                    (_, Err(error)) => Some(format!("its addresses are unknown: {error}")),
                }
            };
            batch
                .into_iter()
                .map(|(stream, from)| {
                    let refusal = refusal(&stream, from);
                    (stream, refusal)
                })
                .collect()
        };
        spawn_blocking(check).await.map_err(io::Error::other)
    }

    /// Reports that a connection was refused because another one is in use.
    pub fn refuse_second(&self, route_source: &str) {
        self.refuse(route_source, "the present connection is in use: stop its daemon first");
    }

    fn refuse(&self, route_source: &str, refusal: &str) {
        // Repeated refusals are logged once.
        if self.state.refused_connection(refusal) {
            tracing::warn!(route_source, "connection refused: {refusal}");
        }
    }

    /// Whether a process still holds the other end of the connection open.
    pub fn is_held(&self, stream: &TcpStream) -> impl Future<Output = bool> + use<> {
        let (netns, ends) = (self.netns.clone(), ends(stream));
        async move {
            let Ok(ends) = ends else { return false };
            let is_held = move || lists(&netns).is_ok_and(|it| owner(&owners(&it), ends).is_some());
            spawn_blocking(is_held).await.unwrap_or(false)
        }
    }

    /// Why a connection of this user is refused; `None`: it is not.
    fn refusal(&self, user: Option<u32>) -> Option<String> {
        let Some(user) = user else { return Some("no process holds its other end".to_owned()) };
        let is_permitted = |name: &String| match name.parse::<u32>() {
            Ok(number) => number == user,
            Err(_) => {
                User::from_name(name).ok().flatten().is_some_and(|known| known.uid.as_raw() == user)
            }
        };
        if user == 0 || user == Uid::effective().as_raw() || self.users.iter().any(is_permitted) {
            return None;
        }
        let name = User::from_uid(Uid::from_raw(user)).ok().flatten().map(|user| user.name);
        let name = name.unwrap_or_else(|| user.to_string());
        Some(format!("user {name} is not permitted: add it to peer-user, if it is the daemon's"))
    }
}

/// Users that may connect to a route source and that this machine has not: a wrong name keeps the daemon out. The
/// default names two, of which most machines have one.
pub fn unknown_users(config: &RouteSourceConfig) -> Vec<&str> {
    let is_default = |name: &String| ["frr", "bird"].contains(&name.as_str());
    if config.peer_users.iter().all(is_default) || config.kind.listen_address().is_none() {
        return Vec::new();
    }
    let is_unknown = |name: &&str| {
        name.parse::<u32>().is_err() && User::from_name(name).is_ok_and(|it| it.is_none())
    };
    config.peer_users.iter().map(String::as_str).filter(is_unknown).collect()
}

/// Waits for a connection, and takes all that wait with it.
async fn accept(listener: &TcpListener) -> io::Result<Vec<Accepted>> {
    let mut batch = vec![listener.accept().await?];
    while batch.len() < BATCH {
        tokio::select! {
            biased;
            // The next call reports an error again, unless it was of one connection.
            Ok(next) = listener.accept() => batch.push(next),
            () = std::future::ready(()) => break,
        }
    }
    Ok(batch)
}

/// The socket at the other end: its own address and the one that it is connected to. What is local here is remote
/// there.
fn ends(stream: &TcpStream) -> io::Result<(SocketAddr, SocketAddr)> {
    Ok((stream.peer_addr()?, stream.local_addr()?))
}

/// The lists of TCP sockets in a network namespace.
fn lists(netns: &str) -> io::Result<String> {
    // Without IPv6 there is no second list.
    let read = || Ok(LISTS.iter().filter_map(|list| std::fs::read_to_string(list).ok()).collect());
    netns::run_in(netns, read)
}

/// The users of established connections by their two addresses, as in lists of sockets. A socket without an inode has
/// no process any more, and the list shows root as its user.
fn owners(lists: &str) -> HashMap<(&str, &str), u32> {
    let entries = lists.lines().filter_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let (local, remote, state) = (fields.next()?, fields.next()?, fields.next()?);
        let (user, inode) = (fields.nth(3)?, fields.nth(1)?);
        let is_held = state == ESTABLISHED && inode != "0";
        is_held.then(|| user.parse().ok()).flatten().map(|user: u32| ((local, remote), user))
    });
    entries.collect()
}

/// The user of the connection with these ends.
fn owner(
    owners: &HashMap<(&str, &str), u32>,
    (local, remote): (SocketAddr, SocketAddr),
) -> Option<u32> {
    [false, true].into_iter().find_map(|mapped| {
        owners.get(&(written(local, mapped).as_str(), written(remote, mapped).as_str())).copied()
    })
}

/// An address and port as the kernel writes them. `mapped`: an IPv4 address of an IPv6 socket.
fn written(end: SocketAddr, mapped: bool) -> String {
    let words = |octets: &[u8]| -> String {
        let word = |four: &[u8]| {
            let four = <[u8; 4]>::try_from(four).unwrap_or_default();
            format!("{:08X}", u32::from_ne_bytes(four))
        };
        octets.chunks(4).map(word).collect()
    };
    let address = match end.ip() {
        IpAddr::V4(ip) if mapped => words(&ip.to_ipv6_mapped().octets()),
        IpAddr::V4(ip) => words(&ip.octets()),
        IpAddr::V6(ip) => words(&Ipv6Addr::octets(&ip)),
    };
    format!("{address}:{:04X}", end.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::route_sources::{Kind, Source};

    #[test]
    fn users_that_do_not_exist_are_named() {
        let unknown = |users: &[&str], kind: Kind| {
            let source = Source {
                name: "x".into(),
                vrf: "".into(),
                preference: None,
                stale_time: Duration::from_secs(1),
            };
            let peer_users = users.iter().map(|user| (*user).to_owned()).collect();
            let config = RouteSourceConfig { source, netns: String::new(), peer_users, kind };
            unknown_users(&config).into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        let fpm = || Kind::Fpm { address: [127, 0, 0, 1].into(), port: 2_620 };
        assert_eq!(unknown(&["root", "no-such-user", "4711"], fpm()), ["no-such-user"]);
        assert!(unknown(&["bird", "frr"], fpm()).is_empty(), "the default names two");
        let netlink = Kind::Netlink { table: 254, receive_buffer: 4_096 };
        assert!(unknown(&["no-such-user"], netlink).is_empty(), "nobody connects to it");
    }

    /// An entrance and its address.
    async fn entrance(address: &str) -> (Entrance, Arc<Admission>, SocketAddr) {
        let listener = TcpListener::bind(address).await.unwrap();
        let (address, admission) =
            (listener.local_addr().unwrap(), Admission::new("", &[], Arc::default()));
        (Entrance::open(admission.clone(), "x", listener), admission, address)
    }

    async fn next(entrance: &mut Entrance) -> TcpStream {
        let next = tokio::time::timeout(Duration::from_secs(5), entrance.next()).await;
        next.expect("a connection is admitted").unwrap()
    }

    #[tokio::test]
    async fn the_user_of_the_other_end_decides() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let (mut entrance, admission, address) = entrance(address).await;
            let client = std::net::TcpStream::connect(address).unwrap();
            let stream = next(&mut entrance).await;
            assert_eq!(stream.peer_addr().unwrap(), client.local_addr().unwrap());
            assert!(admission.is_held(&stream).await);
            // Data that was sent before does not keep it: nobody is there any more.
            std::io::Write::write_all(&mut &client, b"forged").unwrap();
            drop(client);
            assert!(!admission.is_held(&stream).await);
            // Nor does it admit a new one.
            let gone = std::net::TcpStream::connect(address).unwrap();
            std::io::Write::write_all(&mut &gone, b"forged").unwrap();
            drop(gone);
            let client = std::net::TcpStream::connect(address).unwrap();
            let stream = next(&mut entrance).await;
            assert_eq!(stream.peer_addr().unwrap(), client.local_addr().unwrap());
        }
        let own = Uid::effective().as_raw();
        let admission = Admission::new("", &["4711".to_owned()], Arc::default());
        assert_eq!(admission.refusal(Some(own)), None);
        assert_eq!(admission.refusal(Some(4711)), None);
        assert!(admission.refusal(Some(4712)).unwrap().contains("4712 is not permitted"));
        assert!(admission.refusal(None).unwrap().contains("no process"));
    }

    #[tokio::test]
    async fn refused_connections_are_checked_together() {
        let (mut entrance, _, address) = entrance("127.0.0.1:0").await;
        for _ in 0..100 {
            drop(std::net::TcpStream::connect(address).unwrap());
        }
        let client = std::net::TcpStream::connect(address).unwrap();
        // One check for each, a tenth of a second apart, would take ten seconds.
        let stream = next(&mut entrance).await;
        assert_eq!(stream.peer_addr().unwrap(), client.local_addr().unwrap());
    }

    #[tokio::test]
    async fn who_stops_to_wait_loses_nothing() {
        let (mut entrance, _, address) = entrance("127.0.0.1:0").await;
        let _client = std::net::TcpStream::connect(address).unwrap();
        for _ in 0..100 {
            tokio::select! {
                biased;
                it = entrance.next() => return drop(it.unwrap()),
                () = tokio::time::sleep(Duration::from_micros(100)) => {}
            }
        }
        next(&mut entrance).await;
    }

    #[test]
    fn users_are_read_from_the_list() {
        let list = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n \
            0: 0100007F:A3D2 0100007F:0A3C 01 00000000:00000000 00:00000000 00000000   120        0 4711 1 0 20 4 30 10 -1\n \
            1: 0100007F:A3D3 0100007F:0A3C 04 00000000:00000000 00:00000000 00000000   121        0 4712 1 0 20 4 30 10 -1\n \
            2: 0100007F:A3D4 0100007F:0A3C 01 00000000:00000000 00:00000000 00000000     0        0 0 1 0 20 4 30 10 -1\n \
            3: 0000000000000000FFFF00000100007F:A3D5 0000000000000000FFFF00000100007F:0A3C 01 0:0 0:0 0 122 0 4713 1\n";
        let server = "127.0.0.1:2620".parse().unwrap();
        let user = |port: u16| owner(&owners(list), (([127, 0, 0, 1], port).into(), server));
        assert_eq!(user(0xa3d2), Some(120));
        assert_eq!(user(0xa3d3), None, "it is closing");
        assert_eq!(user(0xa3d4), None, "no process holds it");
        assert_eq!(user(0xa3d5), Some(122), "an IPv6 socket");
        assert_eq!(user(0xa3d6), None);
    }
}
