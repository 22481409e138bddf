//! OPEN, KEEPALIVE, NOTIFICATION and timers: how a session begins and ends.

use std::time::{Duration, Instant};

use netgauze_bgp_pkt::capabilities::{
    BgpCapability, GracefulRestartAddressFamily, GracefulRestartCapability,
};
use netgauze_iana::address_family::AddressType;
use proptest::prelude::*;
use stoa_bgp::{Family, LocalConfig, Rib, Session, SessionError};

use crate::daemon::{
    Event, Recorder, capabilities, established, keepalive, local, message, open, update,
};

/// Code and subcode if the last message is a NOTIFICATION.
fn notified(bytes: &[u8]) -> Option<(u8, u8)> {
    let mut rest = bytes;
    let mut last = None;
    while !rest.is_empty() {
        let length = usize::from(u16::from_be_bytes([rest[16], rest[17]]));
        last = (rest[18] == 3).then(|| (rest[19], rest[20]));
        rest = &rest[length..];
    }
    last
}

#[test]
fn a_session_is_established_and_sends_end_of_rib() {
    let (now, mut recorder) = (Instant::now(), Recorder::default());
    let mut session = Session::new(local(), now);
    let open_message = session.take_output();
    assert_eq!((open_message[18], open_message[19]), (1, 4));
    let bytes = open(30, capabilities(65_000, true));
    // Nothing happens before the message is complete.
    for cut in 0..bytes.len() {
        assert_eq!(session.receive(&bytes[..cut], now, &mut recorder), Ok(0));
    }
    assert_eq!(session.receive(&bytes, now, &mut recorder), Ok(bytes.len()));
    assert_eq!(session.take_output(), keepalive());
    assert!(!session.is_established() && recorder.0.is_empty());
    assert_eq!(session.receive(&keepalive(), now, &mut recorder), Ok(19));
    let negotiated = *session.negotiated().expect("agreed");
    assert_eq!(negotiated.hold_time_s, 30);
    assert!(negotiated.sends_end_of_rib && negotiated.ip4.is_some_and(|family| family.add_paths));
    assert_eq!(recorder.0, [Event::Up(negotiated)]);
    let ends = [update(&[], &[], &[]), update(&[], &[0x80, 15, 3, 0, 2, 1], &[])].concat();
    assert_eq!(session.take_output(), ends);
}

#[test]
fn only_common_capabilities_are_negotiated() {
    let now = Instant::now();
    let agreed = |local: LocalConfig, offered: Vec<BgpCapability>| {
        let mut session = Session::new(local, now);
        session.receive(&open(90, offered), now, &mut Recorder::default()).expect("agreed");
        *session.negotiated().expect("agreed")
    };
    let negotiated = agreed(local(), capabilities(65_000, false));
    assert!(negotiated.ip4.is_some_and(|family| !family.add_paths) && negotiated.ip6.is_some());
    let negotiated =
        agreed(LocalConfig { add_paths: false, ..local() }, capabilities(65_000, true));
    assert!(negotiated.ip4.is_some_and(|family| !family.add_paths));
    // Without a multiprotocol capability: IPv4. With IPv6 only: no IPv4.
    let offered = capabilities(65_000, false);
    let negotiated = agreed(local(), offered[2..].to_vec());
    assert!(negotiated.ip4.is_some() && negotiated.ip6.is_none());
    let negotiated = agreed(local(), offered[1..].to_vec());
    assert!(negotiated.ip4.is_none() && negotiated.ip6.is_some());
}

#[test]
fn an_unacceptable_open_gets_a_notification() {
    let now = Instant::now();
    let refused = |local: LocalConfig, bytes: &[u8]| {
        let mut session = Session::new(local, now);
        session.take_output();
        let ended = session.receive(bytes, now, &mut Recorder::default()).expect_err("refused");
        assert!(!session.is_established() && session.deadline().is_none());
        (notified(&session.take_output()), ended.to_string())
    };
    let fits = open(90, capabilities(65_000, true));
    let (code, reason) = refused(local(), &open(90, capabilities(65_001, true)));
    assert_eq!(code, Some((2, 2)));
    assert!(reason.contains("set `as` of the route source to 65001"), "{reason}");
    let same_router_id = LocalConfig { router_id: [198, 51, 100, 1].into(), ..local() };
    assert_eq!(refused(same_router_id, &fits).0, Some((2, 3)));
    let old: Vec<_> = capabilities(65_000, true).into_iter().take(2).collect();
    assert_eq!(refused(local(), &open(90, old)).0, Some((2, 7)));
    let mut bytes = fits.clone();
    bytes[19] = 3;
    assert_eq!(refused(local(), &bytes).0, Some((2, 1)));
    assert_eq!(refused(local(), &open(2, capabilities(65_000, true))).0, Some((2, 6)));
    let mut bytes = fits.clone();
    bytes[28] = 200; // optional parameters exceed the message
    assert_eq!(refused(local(), &bytes).0.map(|code| code.0), Some(2));
    assert_eq!(refused(local(), &keepalive()).0, Some((5, 1)));
    assert_eq!(refused(local(), &[fits.clone(), fits].concat()).0, Some((5, 2)));
    assert_eq!(refused(local(), &[0; 19]).0, Some((1, 1)));
}

#[test]
fn the_hold_timer_expires_and_keepalives_are_sent() {
    let (start, mut recorder) = (Instant::now(), Recorder::default());
    let mut session = established(true, start, &mut recorder);
    let at = |seconds| start + Duration::from_secs(seconds);
    assert_eq!(session.deadline(), Some(at(30)));
    assert_eq!(session.tick(at(29)), Ok(()));
    assert_eq!(session.take_output(), []);
    assert_eq!(session.tick(at(30)), Ok(()));
    assert_eq!(session.take_output(), keepalive());
    assert_eq!(session.receive(&keepalive(), at(60), &mut recorder), Ok(19));
    assert_eq!(session.tick(at(149)), Ok(()));
    session.take_output();
    let ended = session.tick(at(150)).expect_err("hold timer expired");
    assert_eq!(notified(&session.take_output()), Some((4, 0)));
    assert!(ended.to_string().contains("no message from the daemon for 90 s"), "{ended}");
    assert_eq!(session.tick(at(500)), Ok(()));
}

/// As after a suspend: received messages count before the elapsed time.
#[test]
fn a_clock_jump_does_not_end_a_session_with_pending_messages() {
    let (start, mut recorder) = (Instant::now(), Recorder::default());
    let mut session = established(true, start, &mut recorder);
    let day = Duration::from_secs(86_400);
    for jump in 1..4 {
        let now = start + day * jump;
        assert_eq!(session.receive(&keepalive(), now, &mut recorder), Ok(19));
        assert_eq!(session.tick(now), Ok(()));
        assert_eq!(session.take_output(), keepalive(), "a single keepalive");
        // An earlier time changes nothing.
        assert_eq!(session.tick(now - day), Ok(()));
        assert_eq!(session.take_output(), []);
    }
}

#[test]
fn a_daemon_without_open_times_out() {
    let start = Instant::now();
    let mut session = Session::new(local(), start);
    assert_eq!(session.tick(start + Duration::from_secs(29)), Ok(()));
    assert!(session.tick(start + Duration::from_secs(30)).is_err());
}

#[test]
fn a_hold_time_of_zero_disables_timers() {
    let (now, mut recorder) = (Instant::now(), Recorder::default());
    let mut session = Session::new(local(), now);
    session.receive(&open(0, capabilities(65_000, true)), now, &mut recorder).expect("agreed");
    session.receive(&keepalive(), now, &mut recorder).expect("established");
    assert_eq!(session.deadline(), None);
}

#[test]
fn the_daemon_may_end_the_session() {
    let (now, mut recorder) = (Instant::now(), Recorder::default());
    let mut session = established(true, now, &mut recorder);
    let ended = session.receive(&message(3, &[6, 2]), now, &mut recorder).expect_err("ended");
    assert!(
        matches!(&ended, SessionError::Notification { reason, is_hard_reset: false } if reason.contains("administrative shutdown"))
    );
    // Nothing is sent or read after a NOTIFICATION.
    assert_eq!(session.take_output(), []);
    assert_eq!(session.receive(&keepalive(), now, &mut recorder), Ok(0));
}

/// The daemon's graceful restart capability: the N bit, and the F bit of each listed family.
fn restarts(notification: bool, families: &[(AddressType, bool)]) -> Vec<BgpCapability> {
    let mut all = capabilities(65_000, true);
    all.retain(|one| !matches!(one, BgpCapability::GracefulRestartCapability(_)));
    let families: Vec<_> = families
        .iter()
        .map(|(family, forwarding_state)| {
            GracefulRestartAddressFamily::new(*forwarding_state, *family)
        })
        .collect();
    let restart = GracefulRestartCapability::new(true, notification, 120, families);
    all.push(BgpCapability::GracefulRestartCapability(restart));
    all
}

#[test]
fn graceful_restart_is_negotiated_per_family() {
    let now = Instant::now();
    let agreed = |offered| {
        let mut session = Session::new(local(), now);
        session.receive(&open(90, offered), now, &mut Recorder::default()).expect("agreed");
        let negotiated = *session.negotiated().expect("agreed");
        let of = |family| negotiated.family(family).and_then(|it| it.forwarding_state);
        (negotiated.sends_end_of_rib, of(Family::Ip4), of(Family::Ip6))
    };
    let (ip4, ip6) = (AddressType::Ipv4Unicast, AddressType::Ipv6Unicast);
    assert_eq!(agreed(restarts(false, &[])), (true, None, None));
    let both = agreed(restarts(false, &[(ip4, true), (ip6, false)]));
    assert_eq!(both, (true, Some(true), Some(false)));
    let mut none = capabilities(65_000, true);
    none.retain(|one| !matches!(one, BgpCapability::GracefulRestartCapability(_)));
    assert_eq!(agreed(none), (false, None, None));
    // Stoa offers the N bit, and the F bit of both families.
    let open_message = Session::new(local(), now).take_output();
    let ours = [64, 10, 0x40, 120, 0, 1, 1, 0x80, 0, 2, 1, 0x80];
    assert!(open_message.windows(ours.len()).any(|part| part == ours), "{open_message:?}");
}

#[test]
fn a_notification_removes_routes_unless_gracefully_negotiated() {
    let now = Instant::now();
    let (ip4, families) = ((AddressType::Ipv4Unicast, false), [Family::Ip4, Family::Ip6]);
    let ended = |offered, notification: &[u8]| {
        let (mut recorder, mut session) = (Recorder::default(), Session::new(local(), now));
        let bytes = [open(90, offered), keepalive()].concat();
        session.receive(&bytes, now, &mut recorder).expect("established");
        let ended = match notification {
            [] => session.tick(now + Duration::from_secs(90)).expect_err("too long silent"),
            notification => {
                session.receive(&message(3, notification), now, &mut recorder).expect_err("ended")
            }
        };
        families.map(|family| session.retains_routes(&ended, family))
    };
    let n_bit = || restarts(true, &[ip4]);
    assert_eq!(ended(n_bit(), &[6, 4]), [true, false], "restarts in one family");
    assert_eq!(ended(n_bit(), &[]), [true, false], "the same from either end");
    assert_eq!(ended(n_bit(), &[6, 9, 6, 2]), [false, false], "a hard reset");
    assert_eq!(ended(restarts(false, &[ip4]), &[6, 4]), [false, false]);
    assert_eq!(ended(restarts(false, &[ip4]), &[]), [false, false]);
    assert_eq!(ended(restarts(true, &[]), &[6, 4]), [false, false]);
}

#[test]
fn cease_is_sent_once() {
    let now = Instant::now();
    let mut session = established(true, now, &mut Recorder::default());
    session.cease(6);
    assert_eq!(notified(&session.take_output()), Some((6, 6)));
    session.cease(3);
    assert_eq!(session.take_output(), []);
}

#[test]
fn route_refresh_is_accepted_without_reply() {
    let (now, mut recorder) = (Instant::now(), Recorder::default());
    let mut session = established(true, now, &mut recorder);
    assert_eq!(session.receive(&message(5, &[0, 1, 0, 1]), now, &mut recorder), Ok(23));
    assert!(session.is_established() && session.take_output().is_empty());
}

#[test]
fn end_of_rib_of_both_families_completes_the_rib() {
    let (now, mut rib) = (Instant::now(), Rib::new(1, None));
    assert!(!rib.is_complete());
    let mut session = established(true, now, &mut rib);
    session.receive(&update(&[], &[], &[]), now, &mut rib).expect("read");
    assert!(!rib.is_complete());
    assert_eq!([Family::Ip4, Family::Ip6].map(|family| rib.has_ended(family)), [true, false]);
    let end = update(&[], &[0x90, 15, 0, 3, 0, 2, 1], &[]);
    session.receive(&end, now, &mut rib).expect("read");
    assert!(rib.is_complete());
    let mut recorder = Recorder::default();
    session.receive(&end, now, &mut recorder).expect("read");
    assert_eq!(recorder.0, [Event::End(Family::Ip6)]);
}

proptest! {
    /// Arbitrary bytes in arbitrary pieces: no panic, no more read than available, and an ended session stays ended.
    #[test]
    fn arbitrary_bytes_do_not_panic(mut bytes: Vec<u8>, is_established: bool, kind in 1_u8..6) {
        let (now, mut rib) = (Instant::now(), Rib::new(2, None));
        let mut session = if is_established {
            established(true, now, &mut rib)
        } else {
            Session::new(local(), now)
        };
        for bytes in [bytes.clone(), message(kind, &bytes)] {
            if let Ok(read) = session.receive(&bytes, now, &mut rib) {
                prop_assert!(read <= bytes.len());
            } else {
                prop_assert!(!session.is_established());
            }
            rib.drain();
        }
        bytes.clear();
        prop_assert_eq!(session.receive(&bytes, now, &mut rib), Ok(0));
    }

    /// An OPEN with one wrong byte.
    #[test]
    fn a_corrupted_open_does_not_panic(offset in 19_usize..80, value: u8) {
        let now = Instant::now();
        let mut bytes = open(90, capabilities(65_000, true));
        if let Some(byte) = bytes.get_mut(offset) {
            *byte = value;
        }
        let mut session = Session::new(local(), now);
        let _ = session.receive(&bytes, now, &mut Recorder::default());
    }
}
