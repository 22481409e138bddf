//! The route source with hand-written messages: connections that come and go.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use stoa_controller::learned::{RouteSourceSummary, Session};

use crate::testbed::Testbed;

/// OPEN of AS 65000 with both families and BGP identifier 198.51.100.1.
const OPEN: &[u8] = &[
    4, 0xfd, 0xe8, 0, 90, 198, 51, 100, 1, 20, 2, 18, 1, 4, 0, 1, 0, 1, 1, 4, 0, 2, 0, 1, 65, 4, 0,
    0, 0xfd, 0xe8,
];

/// The same with graceful restart of IPv4: the N bit and the F bit.
fn open_with_graceful_restart(graceful_notification: bool, forwarding_state: bool) -> Vec<u8> {
    let mut open = OPEN.to_vec();
    (open[9], open[11]) = (28, 26);
    let flags = if graceful_notification { 0x40 } else { 0 };
    open.extend([64, 6, flags, 120, 0, 1, 1, if forwarding_state { 0x80 } else { 0 }]);
    open
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(19 + body.len()).unwrap();
    [&[0xff; 16][..], &length.to_be_bytes(), &[kind], body].concat()
}

/// 30.0.N.0/24 via 10.1.0.2 with that ORIGIN; 3 is invalid.
fn update(number: u8, origin: u8) -> Vec<u8> {
    let attributes = [
        &[0x40, 1, 1, origin, 0x40, 2, 0][..],
        &[0x40, 3, 4, 10, 1, 0, 2, 0x40, 5, 4, 0, 0, 0, 100],
    ]
    .concat();
    let length = u8::try_from(attributes.len()).unwrap();
    message(2, &[&[0, 0, 0, length][..], &attributes, &[24, 30, 0, number]].concat())
}

/// 2001:db8:N::/48 via 2001:db8:ffff::2.
fn update6(number: u8) -> Vec<u8> {
    let next_hop = [0x20, 1, 0x0d, 0xb8, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
    let reach = [&[0, 2, 1, 16][..], &next_hop, &[0, 48, 0x20, 1, 0x0d, 0xb8, 0, number]].concat();
    let attributes = [
        &[0x40, 1, 1, 0, 0x40, 2, 0, 0x40, 5, 4, 0, 0, 0, 100][..],
        &[0x80, 14, u8::try_from(reach.len()).unwrap()],
        &reach,
    ]
    .concat();
    let length = u8::try_from(attributes.len()).unwrap();
    message(2, &[&[0, 0, 0, length][..], &attributes].concat())
}

fn end_of_rib() -> Vec<u8> {
    let ip6 = message(2, &[0, 0, 0, 6, 0x80, 15, 3, 0, 2, 1]);
    [message(2, &[0, 0, 0, 0]), ip6].concat()
}

fn connect(testbed: &Testbed) -> TcpStream {
    let stream = testbed.router.enter(|| TcpStream::connect("127.0.0.1:1790")).unwrap().unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
}

/// The messages up to the end of the connection: types, and bodies of NOTIFICATIONs.
fn received_messages(mut stream: TcpStream) -> Vec<(u8, Vec<u8>)> {
    let (mut bytes, mut received_messages) = (Vec::new(), Vec::new());
    stream.read_to_end(&mut bytes).unwrap();
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let length = usize::from(u16::from_be_bytes([rest[16], rest[17]]));
        let body = if rest[18] == 3 { rest[19..length].to_vec() } else { Vec::new() };
        received_messages.push((rest[18], body));
        rest = &rest[length..];
    }
    received_messages
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_connection_does_not_replace_one_in_use() {
    let testbed = Testbed::new(false, 1);
    testbed.wait_until_listening().await;
    let mut first = connect(&testbed);
    let begin = [message(1, OPEN), message(4, &[])].concat();
    let some: Vec<u8> = (1..=19).flat_map(|number| update(number, 0)).collect();
    first.write_all(&[&begin[..], &some, &end_of_rib()].concat()).unwrap();
    testbed.wait_for("routes", |seen| seen.len() == 19).await;
    testbed.wait_session(Session::Complete).await;

    // Whoever connects while the daemon does is refused.
    let received_messages = received_messages(connect(&testbed));
    assert_eq!(received_messages.last(), Some(&(3, vec![6, 7])), "{received_messages:?}");
    first.write_all(&update(20, 0)).unwrap();
    testbed.wait_for("another route", |seen| seen.len() == 20).await;
    assert_eq!(testbed.state.statistics().sessions, 1);

    // A restarted daemon connects when its former connection has no process any more. End-of-RIB before most routes is
    // not credible.
    drop(first);
    let mut second = connect(&testbed);
    second.write_all(&[&begin[..], &end_of_rib()].concat()).unwrap();
    testbed.wait_session(Session::Begun).await;
    assert_eq!(testbed.seen().len(), 20);
    second.write_all(&some).unwrap();
    testbed
        .wait_for("the routes announced again", |seen| {
            seen.len() == 19 && !seen.contains_key("30.0.20.0/24")
        })
        .await;
    testbed.wait_session(Session::Complete).await;
    let statistics = testbed.state.statistics();
    assert_eq!((statistics.sessions, statistics.updates), (2, 39));

    // A malformed attribute withdraws its routes and keeps the session.
    second.write_all(&[update(21, 0), update(5, 3)].concat()).unwrap();
    testbed
        .wait_for("one came and one went", |seen| {
            seen.contains_key("30.0.21.0/24") && !seen.contains_key("30.0.5.0/24")
        })
        .await;
    assert_eq!(testbed.state.statistics().malformed, 1);

    second.shutdown(Shutdown::Write).unwrap();
    let ended = Instant::now();
    testbed.wait_session(Session::Ended).await;
    assert!(ended.elapsed() < Duration::from_secs(1), "{:?}", ended.elapsed());
    let state = testbed.summary().await;
    assert_eq!((state.stale, testbed.state.statistics().since_unix_s), (19, 0));
    let left = state.stale_time_left.unwrap();
    assert!(left > Duration::from_secs(118) && left <= Duration::from_secs(120), "{left:?}");
    assert_eq!(testbed.seen().len(), 19);
    assert_eq!(testbed.state.statistics().reason, "the daemon has closed the connection");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_family_waits_for_its_own_routes_and_repetitions_count_once() {
    let testbed = Testbed::new(false, 1);
    testbed.wait_until_listening().await;
    let begin = [message(1, OPEN), message(4, &[])].concat();
    let ip4: Vec<u8> = (1..=40).flat_map(|number| update(number, 0)).collect();
    let ip6: Vec<u8> = (1..=3).flat_map(update6).collect();
    // Everything twice: without add-path the session does not store its routes.
    let mut first = connect(&testbed);
    first.write_all(&[&begin[..], &ip4, &ip4, &ip6, &ip6, &end_of_rib()].concat()).unwrap();
    testbed.wait_session(Session::Complete).await;
    let count = |state: &RouteSourceSummary| (state.ip4, state.ip6, state.stale);
    assert_eq!(count(&testbed.summary().await), (40, 3, 0));
    drop(first);
    testbed.wait_session(Session::Ended).await;

    // A restarted daemon: End-of-RIB at once, IPv4 soon, IPv6 when its neighbours have returned.
    let mut second = connect(&testbed);
    second.write_all(&[&begin[..], &end_of_rib(), &ip4[..ip4.len() / 40 * 38]].concat()).unwrap();
    testbed.wait_session(Session::Begun).await;
    let end = Instant::now() + Duration::from_secs(30);
    while count(&testbed.summary().await) != (38, 3, 3) {
        assert!(Instant::now() < end, "IPv4 is complete: {:?}", testbed.summary().await);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    let state = testbed.summary().await;
    assert_eq!((count(&state), state.session), ((38, 3, 3), Session::Begun), "IPv6 stays");
    second.write_all(&ip6).unwrap();
    testbed.wait_session(Session::Complete).await;
    assert_eq!(count(&testbed.summary().await), (38, 3, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_notification_removes_routes_and_a_lost_connection_does_not() {
    let testbed = Testbed::new(false, 1);
    testbed.wait_until_listening().await;
    let routes =
        [&(1..=9).flat_map(|number| update(number, 0)).collect::<Vec<_>>()[..], &end_of_rib()];
    let open_session = |open: &[u8]| {
        let mut stream = connect(&testbed);
        let begin = [message(1, open), message(4, &[])].concat();
        stream.write_all(&[&begin[..], &routes.concat()].concat()).unwrap();
        stream
    };
    // The controller reports the end of the session: waiting for the hold timer would take two minutes.
    let ended = async |what: &str, routes: usize| {
        testbed.wait_session(Session::Ended).await;
        testbed.wait_for(what, |seen| seen.len() == routes).await;
        assert_eq!(testbed.seen().len(), routes, "{what}");
    };
    let mut stream = open_session(OPEN);
    testbed.wait_session(Session::Complete).await;
    stream.write_all(&message(3, &[6, 2])).unwrap();
    ended("administrative shutdown", 0).await;

    let stream = open_session(OPEN);
    testbed.wait_for("all routes", |seen| seen.len() == 9).await;
    drop(stream);
    ended("killed, without graceful restart", 9).await;

    let mut stream = open_session(&open_with_graceful_restart(true, true));
    testbed.wait_session(Session::Complete).await;
    stream.write_all(&message(3, &[6, 4])).unwrap();
    ended("a notification with graceful notification", 9).await;
    let mut stream = open_session(&open_with_graceful_restart(true, true));
    testbed.wait_session(Session::Complete).await;
    stream.write_all(&message(3, &[6, 9, 6, 2])).unwrap();
    ended("a hard reset", 0).await;

    // The new session reports that forwarding state was lost: the old routes are removed before any
    // announcement.
    let stream = open_session(&open_with_graceful_restart(false, true));
    testbed.wait_for("all routes", |seen| seen.len() == 9).await;
    drop(stream);
    ended("killed", 9).await;
    let mut stream = connect(&testbed);
    let open = open_with_graceful_restart(false, false);
    stream.write_all(&[message(1, &open), message(4, &[])].concat()).unwrap();
    testbed.wait_session(Session::Begun).await;
    testbed.wait_for("no route", |seen| seen.is_empty()).await;

    // A multicast next hop is not usable and is counted.
    let mut unusable = update(1, 0);
    let at = unusable.windows(4).position(|part| part == [10, 1, 0, 2]).unwrap();
    unusable[at] = 224;
    stream.write_all(&unusable).unwrap();
    testbed
        .wait_until("it is counted", || {
            let statistics = testbed.state.statistics();
            let is_reported =
                statistics.reason.contains("224.1.0.2") && statistics.not_imported == 1;
            if is_reported { Ok(()) } else { Err(format!("{statistics:?}")) }
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_is_refused_with_a_notification() {
    let testbed = Testbed::new(false, 1);
    testbed.wait_until_listening().await;
    let mut stream = connect(&testbed);
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n and so on").unwrap();
    let received_messages = received_messages(stream);
    assert_eq!(received_messages.last(), Some(&(3, vec![1, 1])), "{received_messages:?}");
    assert_eq!(testbed.state.statistics().sessions, 0);
}
