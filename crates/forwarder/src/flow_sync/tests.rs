//! Connections between two ends in this process.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use stoa_seal::{FRAME_MAX, Refusal};

use super::connection::{Connection, End, QUEUE, READ, READS};
use super::message::{Item, put_alive, put_complete};

/// Both ends of a TCP connection: the one that has begun it first.
fn sockets() -> [TcpStream; 2] {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (other, _) = listener.accept().unwrap();
    [&one, &other].iter().for_each(|it| it.set_nonblocking(true).unwrap());
    [one, other]
}

fn ends(secrets: [&str; 2]) -> [Connection; 2] {
    let [one, other] = sockets();
    let now = Instant::now();
    [Connection::new(one, true, secrets[0], now), Connection::new(other, false, secrets[1], now)]
}

fn serve(end: &mut Connection, items: &mut Vec<Item>) -> Result<(), End> {
    end.service((Instant::now(), 1), || true, |it| items.push(it))
}

/// Serves both until something is so.
fn until(all: &mut [Connection; 2], mut is: impl FnMut(&[Connection; 2], &[Vec<Item>; 2]) -> bool) {
    let (mut items, deadline) =
        ([Vec::new(), Vec::new()], Instant::now() + Duration::from_secs(20));
    while !is(all, &items) {
        assert!(Instant::now() < deadline, "{items:?}");
        for (end, items) in all.iter_mut().zip(&mut items) {
            serve(end, items).unwrap();
        }
    }
}

#[test]
fn two_ends_with_the_same_secret_get_items() {
    let mut both = ends(["secret", "secret"]);
    until(&mut both, |all, _| all.iter().all(Connection::is_proven));
    let mut items = Vec::new();
    put_complete(&mut items);
    both[0].send(&items).unwrap();
    let has = |of: &[Item]| of.contains(&Item::Complete);
    until(&mut both, |_, items| has(&items[1]) && !has(&items[0]));
}

#[test]
fn another_secret_ends_the_connection() {
    let [mut one, mut other] = ends(["secret", "Secret"]);
    let (mut items, deadline) = (Vec::new(), Instant::now() + Duration::from_secs(20));
    let end = loop {
        assert!(Instant::now() < deadline);
        let ended = [serve(&mut one, &mut items), serve(&mut other, &mut items)];
        if let Some(end) = ended.into_iter().find_map(Result::err) {
            break end;
        }
    };
    assert!(matches!(end, End::Refused(Refusal::Secret)), "{end}");
    assert!(items.is_empty() && !one.is_proven() && !other.is_proven());
}

#[test]
fn other_programs_are_refused() {
    use std::io::Write;
    let [one, mut other] = sockets();
    let mut end = Connection::new(one, true, "secret", Instant::now());
    other.write_all(&[b'x'; 100]).unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    let ended = loop {
        assert!(Instant::now() < deadline);
        if let Err(ended) = serve(&mut end, &mut Vec::new()) {
            break ended;
        }
    };
    assert!(matches!(ended, End::Refused(Refusal::Protocol)), "{ended}");
    // One that says nothing does not keep the place.
    let [one, _other] = sockets();
    let mut silent = Connection::new(one, true, "", Instant::now());
    let later = Instant::now() + Duration::from_secs(6);
    let ended = silent.service((later, 1), || true, |_| {});
    assert!(matches!(ended, Err(End::Silent)), "{ended:?}");
}

#[test]
fn the_queue_to_a_partner_that_reads_nothing_is_bounded() {
    let mut both = ends(["secret", "secret"]);
    until(&mut both, |all, _| all.iter().all(Connection::is_proven));
    let [one, _other] = &mut both;
    let mut items = Vec::new();
    (0..FRAME_MAX).for_each(|_| put_alive(&mut items));
    // What Linux has room for goes first.
    let mut frames = 0_usize;
    loop {
        serve(one, &mut Vec::new()).unwrap();
        if !one.has_room() {
            break;
        }
        one.send(&items).unwrap();
        frames += 1;
    }
    assert!(frames < 4_000 && one.queued() < QUEUE + 2 * FRAME_MAX, "{}", one.queued());
    let soon = Instant::now() + Duration::from_secs(5);
    assert!(one.service((soon, 1), || false, |_| {}).is_ok());
    let later = soon + Duration::from_secs(11);
    let ended = one.service((later, 1), || false, |_| {});
    assert!(matches!(ended, Err(End::Stuck)), "{ended:?}");
}

/// Its thread has other things to do.
#[test]
fn a_partner_that_sends_without_end_is_read_in_parts() {
    let mut both = ends(["secret", "secret"]);
    until(&mut both, |all, _| all.iter().all(Connection::is_proven));
    let [one, other] = &mut both;
    let mut frame = Vec::new();
    (0..FRAME_MAX).for_each(|_| put_alive(&mut frame));
    let mut sent = 0_usize;
    while one.has_room() {
        one.send(&frame).unwrap();
        sent += FRAME_MAX;
        serve(one, &mut Vec::new()).unwrap();
    }
    // The writer goes on while the other end reads.
    let most = READS * READ + FRAME_MAX;
    let (mut taken, mut calls) = (0, 0);
    while taken < sent {
        let mut items = 0;
        other.service((Instant::now(), 1), || true, |_| items += 1).unwrap();
        assert!(items <= most, "{items} of {sent}");
        (taken, calls) = (taken + items, calls + 1);
        serve(one, &mut Vec::new()).unwrap();
    }
    assert!(calls > 1, "{sent}");
}

#[test]
fn a_partner_is_not_silent_while_nobody_listens() {
    let mut both = ends(["secret", "secret"]);
    until(&mut both, |all, _| all.iter().all(Connection::is_proven));
    let [one, _] = &mut both;
    // What the other end has sent is read; it sends nothing more.
    serve(one, &mut Vec::new()).unwrap();
    let later = Instant::now() + Duration::from_secs(60);
    assert!(one.service((later, 1), || false, |_| panic!("it takes nothing")).is_ok());
    let end = one.service((later + Duration::from_secs(11), 1), || true, |_| {});
    assert!(matches!(end, Err(End::Silent)), "{end:?}");
}
