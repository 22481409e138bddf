//! Who may connect to a route source over TCP on this machine: the users of routing daemons. A Unix socket would name
//! its peer, but FRR and BIRD connect over TCP only; the kernel's list of sockets has the user of each.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::{Mutex, PoisonError};

use nix::unistd::{Uid, User};
use tokio::net::TcpStream;

use super::netns;

/// The lists of TCP sockets in the namespace of the calling thread.
const LISTS: [&str; 2] = ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"];
/// State of a connection that both ends hold open.
const ESTABLISHED: &str = "01";

/// Decides who may connect to a route source.
#[derive(Debug)]
pub struct Admission {
    netns: String,
    /// Names or numbers of users, besides root and the user of this process.
    users: Vec<String>,
    /// Repeated refusals are logged once.
    last_refusal: Mutex<String>,
}

impl Admission {
    /// For connections in the network namespace `netns`.
    pub fn new(netns: &str, users: &[String]) -> Admission {
        let (netns, users) = (netns.to_owned(), users.to_vec());
        Admission { netns, users, last_refusal: Mutex::default() }
    }

    /// Whether a new connection is admitted; a refusal is logged.
    pub fn admits(&self, route_source: &str, stream: &TcpStream, from: SocketAddr) -> bool {
        let refusal = match netns::is_local(stream, from) {
            false => Some("the peer is not on this machine".to_owned()),
            true => self.refusal(stream),
        };
        let Some(refusal) = refusal else { return true };
        self.log(route_source, &refusal);
        false
    }

    /// Logs that a connection was refused because another one is in use.
    pub fn refuse_second(&self, route_source: &str) {
        self.log(route_source, "the present connection is in use: stop its daemon first");
    }

    fn log(&self, route_source: &str, refusal: &str) {
        let mut last = self.last_refusal.lock().unwrap_or_else(PoisonError::into_inner);
        if *last != refusal {
            tracing::warn!(route_source, "connection refused: {refusal}");
            refusal.clone_into(&mut last);
        }
    }

    /// Whether a process still holds the other end of the connection open.
    pub fn is_held(&self, stream: &TcpStream) -> bool {
        matches!(self.user(stream), Ok(Some(_)))
    }

    fn refusal(&self, stream: &TcpStream) -> Option<String> {
        let user = match self.user(stream) {
            Ok(Some(user)) => user,
            Ok(None) => return Some("no process holds its other end".to_owned()),
            Err(error) => return Some(format!("its user is unknown: {error}")),
        };
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

    /// The user of the socket at the other end.
    fn user(&self, stream: &TcpStream) -> io::Result<Option<u32>> {
        // What is local here is remote there.
        let (theirs, ours) = (stream.peer_addr()?, stream.local_addr()?);
        netns::run_in(&self.netns, || {
            for list in LISTS {
                // Without IPv6 there is no second list.
                let Ok(text) = std::fs::read_to_string(list) else { continue };
                if let Some(user) = owner(&text, theirs, ours) {
                    return Ok(Some(user));
                }
            }
            Ok(None)
        })
    }
}

/// The user of an established connection in a list of sockets. A socket without an inode has no process any more, and
/// the list shows root as its user.
fn owner(list: &str, local: SocketAddr, remote: SocketAddr) -> Option<u32> {
    let ends = [false, true].map(|mapped| (written(local, mapped), written(remote, mapped)));
    list.lines().skip(1).find_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let (local, remote, state) = (fields.next()?, fields.next()?, fields.next()?);
        let is_it = ends.iter().any(|end| end.0 == local && end.1 == remote);
        let (user, inode) = (fields.nth(3)?, fields.nth(1)?);
        (is_it && state == ESTABLISHED && inode != "0").then(|| user.parse().ok()).flatten()
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

    async fn connection(address: &str) -> (TcpStream, std::net::TcpStream, SocketAddr) {
        let listener = tokio::net::TcpListener::bind(address).await.unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, from) = listener.accept().await.unwrap();
        (stream, client, from)
    }

    #[tokio::test]
    async fn the_user_of_the_other_end_decides() {
        let own = Uid::effective().as_raw();
        let admission = Admission::new("", &[]);
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let (stream, client, from) = connection(address).await;
            assert_eq!(admission.user(&stream).unwrap(), Some(own), "{address}");
            assert!(admission.admits("x", &stream, from) && admission.is_held(&stream));
            // Data that was sent before does not keep it: nobody is there any more.
            std::io::Write::write_all(&mut &client, b"forged").unwrap();
            drop(client);
            assert!(!admission.is_held(&stream) && !admission.admits("x", &stream, from));
        }
    }

    #[test]
    fn users_are_read_from_the_list() {
        let list = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n \
            0: 0100007F:A3D2 0100007F:0A3C 01 00000000:00000000 00:00000000 00000000   120        0 4711 1 0 20 4 30 10 -1\n \
            1: 0100007F:A3D3 0100007F:0A3C 04 00000000:00000000 00:00000000 00000000   121        0 4712 1 0 20 4 30 10 -1\n \
            2: 0100007F:A3D4 0100007F:0A3C 01 00000000:00000000 00:00000000 00000000     0        0 0 1 0 20 4 30 10 -1\n \
            3: 0000000000000000FFFF00000100007F:A3D5 0000000000000000FFFF00000100007F:0A3C 01 0:0 0:0 0 122 0 4713 1\n";
        let server = "127.0.0.1:2620".parse().unwrap();
        let user = |port: u16| owner(list, ([127, 0, 0, 1], port).into(), server);
        assert_eq!(user(0xa3d2), Some(120));
        assert_eq!(user(0xa3d3), None, "it is closing");
        assert_eq!(user(0xa3d4), None, "no process holds it");
        assert_eq!(user(0xa3d5), Some(122), "an IPv6 socket");
        assert_eq!(user(0xa3d6), None);
    }
}
