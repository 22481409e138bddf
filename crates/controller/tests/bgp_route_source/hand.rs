//! The route source by hand: connections that come and go, byte by byte.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use stoa_controller::learned::Session;

use crate::lab::Lab;

/// OPEN of AS 65000 with both families; its BGP identifier is 198.51.100.1.
const OPEN: &[u8] = &[
    4, 0xfd, 0xe8, 0, 90, 198, 51, 100, 1, 20, 2, 18, 1, 4, 0, 1, 0, 1, 1, 4, 0, 2, 0, 1, 65, 4, 0,
    0, 0xfd, 0xe8,
];

/// The same, and graceful restart of IPv4: the N bit, and whether packets went on while it was away.
fn open_that_restarts(outlives_notification: bool, forwarded: bool) -> Vec<u8> {
    let mut open = OPEN.to_vec();
    (open[9], open[11]) = (28, 26);
    let flags = if outlives_notification { 0x40 } else { 0 };
    open.extend([64, 6, flags, 120, 0, 1, 1, if forwarded { 0x80 } else { 0 }]);
    open
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(19 + body.len()).unwrap();
    [&[0xff; 16][..], &length.to_be_bytes(), &[kind], body].concat()
}

/// 30.0.N.0/24 by 10.1.0.2, with that ORIGIN: 3 is none.
fn update(number: u8, origin: u8) -> Vec<u8> {
    let attributes = [
        &[0x40, 1, 1, origin, 0x40, 2, 0][..],
        &[0x40, 3, 4, 10, 1, 0, 2, 0x40, 5, 4, 0, 0, 0, 100],
    ]
    .concat();
    let length = u8::try_from(attributes.len()).unwrap();
    message(2, &[&[0, 0, 0, length][..], &attributes, &[24, 30, 0, number]].concat())
}

fn ends() -> Vec<u8> {
    let ip6 = message(2, &[0, 0, 0, 6, 0x80, 15, 3, 0, 2, 1]);
    [message(2, &[0, 0, 0, 0]), ip6].concat()
}

fn connect(lab: &Lab) -> TcpStream {
    let stream = lab.router.enter(|| TcpStream::connect("127.0.0.1:1790")).unwrap().unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
}

/// What was said until the end of the connection: types, and the bodies of notifications.
fn said(mut stream: TcpStream) -> Vec<(u8, Vec<u8>)> {
    let (mut bytes, mut said) = (Vec::new(), Vec::new());
    stream.read_to_end(&mut bytes).unwrap();
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let length = usize::from(u16::from_be_bytes([rest[16], rest[17]]));
        let body = if rest[18] == 3 { rest[19..length].to_vec() } else { Vec::new() };
        said.push((rest[18], body));
        rest = &rest[length..];
    }
    said
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_newest_connection_counts_once_it_has_said_open() {
    let lab = Lab::new(false, 1);
    lab.wait_until("somebody listens", || {
        let reason = lab.state.statistics().reason;
        if reason == "the daemon has not connected yet" { Ok(()) } else { Err(reason) }
    })
    .await;
    let mut first = connect(&lab);
    let begin = [message(1, OPEN), message(4, &[])].concat();
    let some: Vec<u8> = (1..=19).flat_map(|number| update(number, 0)).collect();
    first.write_all(&[&begin[..], &some, &ends()].concat()).unwrap();
    lab.wait_for("routes", |seen| seen.len() == 19).await;
    lab.wait_session(Session::Complete).await;

    // Who says nothing changes nothing.
    let mut second = connect(&lab);
    first.write_all(&update(20, 0)).unwrap();
    lab.wait_for("another route", |seen| seen.len() == 20).await;
    assert_eq!(lab.state.statistics().sessions, 1);

    // Who says OPEN does; but an end before most routes were said is none.
    second.write_all(&[&begin[..], &ends()].concat()).unwrap();
    let said = said(first);
    assert_eq!(said.last(), Some(&(3, vec![6, 7])), "{said:?}");
    lab.wait_session(Session::Begun).await;
    assert_eq!(lab.seen().len(), 20);
    second.write_all(&some).unwrap();
    lab.wait_for("what was said again", |seen| {
        seen.len() == 19 && !seen.contains_key("30.0.20.0/24")
    })
    .await;
    lab.wait_session(Session::Complete).await;
    let statistics = lab.state.statistics();
    assert_eq!((statistics.sessions, statistics.updates), (2, 39));

    // A wrong attribute costs its routes, not the session.
    second.write_all(&[update(21, 0), update(5, 3)].concat()).unwrap();
    lab.wait_for("one came and one went", |seen| {
        seen.contains_key("30.0.21.0/24") && !seen.contains_key("30.0.5.0/24")
    })
    .await;
    assert_eq!(lab.state.statistics().malformed, 1);

    second.shutdown(Shutdown::Write).unwrap();
    lab.wait_session(Session::Ended).await;
    assert_eq!(lab.seen().len(), 19);
    assert_eq!(lab.state.statistics().reason, "the daemon has closed the connection");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_notification_takes_the_routes_along_and_a_lost_connection_does_not() {
    let lab = Lab::new(false, 1);
    lab.wait_until("somebody listens", || {
        let reason = lab.state.statistics().reason;
        if reason == "the daemon has not connected yet" { Ok(()) } else { Err(reason) }
    })
    .await;
    let routes = [&(1..=9).flat_map(|number| update(number, 0)).collect::<Vec<_>>()[..], &ends()];
    let say = |open: &[u8]| {
        let mut stream = connect(&lab);
        let begin = [message(1, open), message(4, &[])].concat();
        stream.write_all(&[&begin[..], &routes.concat()].concat()).unwrap();
        stream
    };
    // What the session came to is told by the controller, not by the clock: it would be there for two minutes.
    let ended = async |what: &str, routes: usize| {
        lab.wait_session(Session::Ended).await;
        lab.wait_for(what, |seen| seen.len() == routes).await;
        assert_eq!(lab.seen().len(), routes, "{what}");
    };
    let mut stream = say(OPEN);
    lab.wait_session(Session::Complete).await;
    stream.write_all(&message(3, &[6, 2])).unwrap();
    ended("shut down by its operator", 0).await;

    let stream = say(OPEN);
    lab.wait_for("all routes", |seen| seen.len() == 9).await;
    drop(stream);
    ended("killed, and nothing said of graceful restart", 9).await;

    let mut stream = say(&open_that_restarts(true, true));
    lab.wait_session(Session::Complete).await;
    stream.write_all(&message(3, &[6, 4])).unwrap();
    ended("a notification that both want to outlive", 9).await;
    let mut stream = say(&open_that_restarts(true, true));
    lab.wait_session(Session::Complete).await;
    stream.write_all(&message(3, &[6, 9, 6, 2])).unwrap();
    ended("a hard reset", 0).await;

    // Back again, it says that it did not forward meanwhile: what it had goes before it says a route.
    let stream = say(&open_that_restarts(false, true));
    lab.wait_for("all routes", |seen| seen.len() == 9).await;
    drop(stream);
    ended("killed", 9).await;
    let mut stream = connect(&lab);
    let open = open_that_restarts(false, false);
    stream.write_all(&[message(1, &open), message(4, &[])].concat()).unwrap();
    lab.wait_session(Session::Begun).await;
    lab.wait_for("no route", |seen| seen.is_empty()).await;

    // A path to a group leads nowhere, and is counted.
    let mut odd = update(1, 0);
    let at = odd.windows(4).position(|part| part == [10, 1, 0, 2]).unwrap();
    odd[at] = 224;
    stream.write_all(&odd).unwrap();
    lab.wait_until("it is counted", || {
        let statistics = lab.state.statistics();
        let is_told = statistics.reason.contains("224.1.0.2") && statistics.not_imported == 1;
        if is_told { Ok(()) } else { Err(format!("{statistics:?}")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nonsense_is_refused_with_the_reason() {
    let lab = Lab::new(false, 1);
    lab.wait_until("somebody listens", || {
        let reason = lab.state.statistics().reason;
        if reason == "the daemon has not connected yet" { Ok(()) } else { Err(reason) }
    })
    .await;
    let mut stream = connect(&lab);
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n and so on").unwrap();
    let said = said(stream);
    assert_eq!(said.last(), Some(&(3, vec![1, 1])), "{said:?}");
    assert_eq!(lab.state.statistics().sessions, 0);
}
