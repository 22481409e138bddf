//! The connection by real sockets, on addresses of the loopback device.

use std::sync::Arc;
use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::login::sessions::{Limits, Method, New};

const SECRET: &str = "0123456789abcdef";

fn settings(own: u8, partner: u8, port: u16, secret: &str) -> Settings {
    let end = |last: u8| SocketAddr::from(([127, 0, 0, last], port));
    Settings { ends: Ends { local: end(own), partner: end(partner) }, secret: secret.to_owned() }
}

/// A port that is free for now.
fn port() -> u16 {
    std::net::TcpListener::bind(("127.0.0.2", 0)).unwrap().local_addr().unwrap().port()
}

/// A router with this partner, until it is aborted.
fn run(settings: Settings) -> (Arc<Logins>, tokio::task::JoinHandle<()>) {
    let logins = Arc::new(Logins::default());
    logins.sessions().set_partner(true);
    let own = Arc::clone(&logins);
    let task = tokio::spawn(async move { own.reach(&settings, &|_: &str| true).await });
    (logins, task)
}

async fn until(what: &str, is: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !is() {
        assert!(Instant::now() < end, "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn is_connected(logins: &Logins) -> bool {
    logins.partner().status() == v1::FlowSyncStatus::FlowSyncConnected
}

fn log_in(logins: &Logins) {
    let host = Key { interface: "guests".to_owned(), mac: [2, 0, 0, 0, 0, 9] };
    let new = New {
        host,
        id: 7,
        user: "ann".to_owned(),
        method: Method::Radius,
        limits: Limits::default(),
        hosts_most: None,
        address: String::new(),
        class: Vec::new(),
        interim_s: None,
    };
    logins.begin(new).unwrap();
}

#[tokio::test]
async fn other_hosts_and_who_proves_nothing_do_not_keep_the_partner_out() {
    let port = port();
    let (logins, task) = run(settings(2, 3, port, SECRET));
    let address = SocketAddr::from(([127, 0, 0, 2], port));
    until("it listens", || std::net::TcpStream::connect(address).is_ok()).await;
    // Connections of another host, and from the address of the partner without a secret.
    let mut open = Vec::new();
    for number in 0..40 {
        let socket = TcpSocket::new_v4().unwrap();
        let from = [127, 0, 0, if number % 2 == 0 { 4 } else { 3 }];
        socket.bind(SocketAddr::from((from, 0))).unwrap();
        open.push(socket.connect(address).await.unwrap());
    }
    let (partner, other) = run(settings(3, 2, port, SECRET));
    until("the partner is connected", || is_connected(&logins) && is_connected(&partner)).await;
    assert!(logins.partner().refused_connections >= 20);
    // The one that was proven last counts: the partner has restarted.
    let (again, third) = run(settings(3, 2, port, SECRET));
    until("it is connected again", || is_connected(&again) && logins.partner().connections >= 2)
        .await;
    log_in(&again);
    until("the login is here", || logins.list().sessions.len() == 1).await;
    [task, other, third].iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn an_end_without_the_secret_gets_no_login_and_counts_as_gone() {
    let port = port();
    let (logins, task) = run(settings(2, 3, port, SECRET));
    log_in(&logins);
    let address = SocketAddr::from(([127, 0, 0, 2], port));
    until("it listens", || std::net::TcpStream::connect(address).is_ok()).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from(([127, 0, 0, 3], 0))).unwrap();
    let mut stream = socket.connect(address).await.unwrap();
    // A hello of the right form, with a key of somebody.
    let hello = stoa_seal::Handshake::new(frames::PROTOCOL).unwrap();
    stream.write_all(hello.hello()).await.unwrap();
    let mut received = Vec::new();
    let mut buffer = [0; 4_096];
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        received.extend_from_slice(&buffer[..count]);
    }
    // The hello, and one frame that says nothing.
    assert!(received.len() < 150, "{}", received.len());
    assert!(!is_connected(&logins));
    assert_eq!((logins.partner().sent_logins, logins.partner().connections), (0, 0));
    task.abort();
}

#[tokio::test]
async fn another_secret_is_named_at_both_ends() {
    let port = port();
    let (one, task) = run(settings(2, 3, port, SECRET));
    let (other, second) = run(settings(3, 2, port, "another secret, long"));
    until("both refuse", || [&one, &other].iter().all(|it| it.partner().error.contains("secret")))
        .await;
    assert!(!is_connected(&one) && !is_connected(&other));
    [task, second].iter().for_each(tokio::task::JoinHandle::abort);
}
