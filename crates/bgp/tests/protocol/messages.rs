//! OPEN, KEEPALIVE, NOTIFICATION, timers: how a session begins and ends.

use std::time::{Duration, Instant};

use netgauze_bgp_pkt::capabilities::{
    BgpCapability, GracefulRestartAddressFamily, GracefulRestartCapability,
};
use netgauze_iana::address_family::AddressType;
use proptest::prelude::*;
use stoa_bgp::{Ended, Family, Local, Rib, Session};

use crate::daemon::{
    Heard, Notes, capabilities, established, keepalive, local, message, open, update,
};

/// Code and subcode of the NOTIFICATION that is the last message of these.
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
fn a_session_is_established_and_says_that_there_is_nothing_to_say() {
    let (now, mut notes) = (Instant::now(), Notes::default());
    let mut session = Session::new(local(), now);
    let offer = session.take_output();
    assert_eq!((offer[18], offer[19]), (1, 4));
    let bytes = open(30, capabilities(65_000, true));
    // Byte by byte: nothing happens before the message is whole.
    for cut in 0..bytes.len() {
        assert_eq!(session.receive(&bytes[..cut], now, &mut notes), Ok(0));
    }
    assert_eq!(session.receive(&bytes, now, &mut notes), Ok(bytes.len()));
    assert_eq!(session.take_output(), keepalive());
    assert!(!session.is_established() && notes.0.is_empty());
    assert_eq!(session.receive(&keepalive(), now, &mut notes), Ok(19));
    let terms = *session.terms().expect("agreed");
    assert_eq!(terms.hold_time_s, 30);
    assert!(terms.says_end && terms.ip4.is_some_and(|family| family.add_paths));
    assert_eq!(notes.0, [Heard::Up(terms)]);
    let ends = [update(&[], &[], &[]), update(&[], &[0x80, 15, 3, 0, 2, 1], &[])].concat();
    assert_eq!(session.take_output(), ends);
}

#[test]
fn only_what_both_offer_is_agreed_on() {
    let now = Instant::now();
    let agreed = |local: Local, offered: Vec<BgpCapability>| {
        let mut session = Session::new(local, now);
        session.receive(&open(90, offered), now, &mut Notes::default()).expect("agreed");
        *session.terms().expect("agreed")
    };
    let terms = agreed(local(), capabilities(65_000, false));
    assert!(terms.ip4.is_some_and(|family| !family.add_paths) && terms.ip6.is_some());
    let terms = agreed(Local { add_paths: false, ..local() }, capabilities(65_000, true));
    assert!(terms.ip4.is_some_and(|family| !family.add_paths));
    // No family named: IPv4. Only IPv6: no IPv4.
    let offered = capabilities(65_000, false);
    let terms = agreed(local(), offered[2..].to_vec());
    assert!(terms.ip4.is_some() && terms.ip6.is_none());
    let terms = agreed(local(), offered[1..].to_vec());
    assert!(terms.ip4.is_none() && terms.ip6.is_some());
}

#[test]
fn a_daemon_that_does_not_fit_is_told_reason() {
    let now = Instant::now();
    let refused = |local: Local, bytes: &[u8]| {
        let mut session = Session::new(local, now);
        session.take_output();
        let ended = session.receive(bytes, now, &mut Notes::default()).expect_err("refused");
        assert!(!session.is_established() && session.deadline().is_none());
        (notified(&session.take_output()), ended.to_string())
    };
    let fits = open(90, capabilities(65_000, true));
    let (code, reason) = refused(local(), &open(90, capabilities(65_001, true)));
    assert_eq!(code, Some((2, 2)));
    assert!(reason.contains("set `as` of the route source to 65001"), "{reason}");
    let twin = Local { router_id: [198, 51, 100, 1].into(), ..local() };
    assert_eq!(refused(twin, &fits).0, Some((2, 3)));
    let old: Vec<_> = capabilities(65_000, true).into_iter().take(2).collect();
    assert_eq!(refused(local(), &open(90, old)).0, Some((2, 7)));
    let mut bytes = fits.clone();
    bytes[19] = 3;
    assert_eq!(refused(local(), &bytes).0, Some((2, 1)));
    assert_eq!(refused(local(), &open(2, capabilities(65_000, true))).0, Some((2, 6)));
    let mut bytes = fits.clone();
    bytes[28] = 200; // optional parameters that are longer than the message
    assert_eq!(refused(local(), &bytes).0.map(|code| code.0), Some(2));
    assert_eq!(refused(local(), &keepalive()).0, Some((5, 1)));
    assert_eq!(refused(local(), &[fits.clone(), fits].concat()).0, Some((5, 2)));
    assert_eq!(refused(local(), &[0; 19]).0, Some((1, 1)));
}

#[test]
fn silence_ends_it_and_we_are_not_silent() {
    let (start, mut notes) = (Instant::now(), Notes::default());
    let mut session = established(true, start, &mut notes);
    let at = |seconds| start + Duration::from_secs(seconds);
    assert_eq!(session.deadline(), Some(at(30)));
    assert_eq!(session.tick(at(29)), Ok(()));
    assert_eq!(session.take_output(), []);
    assert_eq!(session.tick(at(30)), Ok(()));
    assert_eq!(session.take_output(), keepalive());
    assert_eq!(session.receive(&keepalive(), at(60), &mut notes), Ok(19));
    assert_eq!(session.tick(at(149)), Ok(()));
    session.take_output();
    let ended = session.tick(at(150)).expect_err("90 s were silent");
    assert_eq!(notified(&session.take_output()), Some((4, 0)));
    assert!(ended.to_string().contains("silent for 90 s"), "{ended}");
    assert_eq!(session.tick(at(500)), Ok(()));
}

/// As when the machine was suspended: what came meanwhile counts, not the time that passed.
#[test]
fn a_clock_that_jumps_ends_no_session_that_has_something_to_say() {
    let (start, mut notes) = (Instant::now(), Notes::default());
    let mut session = established(true, start, &mut notes);
    let day = Duration::from_secs(86_400);
    for jump in 1..4 {
        let now = start + day * jump;
        assert_eq!(session.receive(&keepalive(), now, &mut notes), Ok(19));
        assert_eq!(session.tick(now), Ok(()));
        assert_eq!(session.take_output(), keepalive(), "one, not those of a day");
        // An older time than before changes nothing.
        assert_eq!(session.tick(now - day), Ok(()));
        assert_eq!(session.take_output(), []);
    }
}

#[test]
fn who_says_no_open_is_not_waited_for() {
    let start = Instant::now();
    let mut session = Session::new(local(), start);
    assert_eq!(session.tick(start + Duration::from_secs(29)), Ok(()));
    assert!(session.tick(start + Duration::from_secs(30)).is_err());
}

#[test]
fn a_hold_time_of_zero_means_for_ever() {
    let (now, mut notes) = (Instant::now(), Notes::default());
    let mut session = Session::new(local(), now);
    session.receive(&open(0, capabilities(65_000, true)), now, &mut notes).expect("agreed");
    session.receive(&keepalive(), now, &mut notes).expect("established");
    assert_eq!(session.deadline(), None);
}

#[test]
fn the_daemon_may_end_it() {
    let (now, mut notes) = (Instant::now(), Notes::default());
    let mut session = established(true, now, &mut notes);
    let ended = session.receive(&message(3, &[6, 2]), now, &mut notes).expect_err("ended");
    assert!(
        matches!(&ended, Ended::Peer { reason, is_hard: false } if reason.contains("shut down by its operator"))
    );
    // Nothing is said to one that has gone, and nothing more is read.
    assert_eq!(session.take_output(), []);
    assert_eq!(session.receive(&keepalive(), now, &mut notes), Ok(0));
}

/// The daemon's graceful restart: its N bit, and the F bit of each family that it has it for.
fn restarts(notification: bool, families: &[(AddressType, bool)]) -> Vec<BgpCapability> {
    let mut all = capabilities(65_000, true);
    all.retain(|one| !matches!(one, BgpCapability::GracefulRestartCapability(_)));
    let families: Vec<_> = families
        .iter()
        .map(|(family, forwarded)| GracefulRestartAddressFamily::new(*forwarded, *family))
        .collect();
    let restart = GracefulRestartCapability::new(true, notification, 120, families);
    all.push(BgpCapability::GracefulRestartCapability(restart));
    all
}

#[test]
fn what_the_daemon_says_of_its_restart_is_heard_family_by_family() {
    let now = Instant::now();
    let agreed = |offered| {
        let mut session = Session::new(local(), now);
        session.receive(&open(90, offered), now, &mut Notes::default()).expect("agreed");
        let terms = *session.terms().expect("agreed");
        let of = |family| terms.family(family).and_then(|it| it.forwarded);
        (terms.says_end, of(Family::Ip4), of(Family::Ip6))
    };
    let (ip4, ip6) = (AddressType::Ipv4Unicast, AddressType::Ipv6Unicast);
    assert_eq!(agreed(restarts(false, &[])), (true, None, None));
    let both = agreed(restarts(false, &[(ip4, true), (ip6, false)]));
    assert_eq!(both, (true, Some(true), Some(false)));
    let mut none = capabilities(65_000, true);
    none.retain(|one| !matches!(one, BgpCapability::GracefulRestartCapability(_)));
    assert_eq!(agreed(none), (false, None, None));
    // The N bit, and the F bits of both families, are what we offer.
    let offer = Session::new(local(), now).take_output();
    let ours = [64, 10, 0x40, 120, 0, 1, 1, 0x80, 0, 2, 1, 0x80];
    assert!(offer.windows(ours.len()).any(|part| part == ours), "{offer:?}");
}

#[test]
fn a_notification_takes_the_routes_along_unless_both_agreed_that_it_does_not() {
    let now = Instant::now();
    let (ip4, families) = ((AddressType::Ipv4Unicast, false), [Family::Ip4, Family::Ip6]);
    let ended = |offered, said: &[u8]| {
        let (mut notes, mut session) = (Notes::default(), Session::new(local(), now));
        let bytes = [open(90, offered), keepalive()].concat();
        session.receive(&bytes, now, &mut notes).expect("established");
        let ended = match said {
            [] => session.tick(now + Duration::from_secs(90)).expect_err("too long silent"),
            said => session.receive(&message(3, said), now, &mut notes).expect_err("ended"),
        };
        families.map(|family| session.outlives(&ended, family))
    };
    let n_bit = || restarts(true, &[ip4]);
    assert_eq!(ended(n_bit(), &[6, 4]), [true, false], "it restarts in one family");
    assert_eq!(ended(n_bit(), &[]), [true, false], "who of both says it is the same");
    assert_eq!(ended(n_bit(), &[6, 9, 6, 2]), [false, false], "a hard reset");
    assert_eq!(ended(restarts(false, &[ip4]), &[6, 4]), [false, false]);
    assert_eq!(ended(restarts(false, &[ip4]), &[]), [false, false]);
    assert_eq!(ended(restarts(true, &[]), &[6, 4]), [false, false]);
}

#[test]
fn we_may_end_it_once() {
    let now = Instant::now();
    let mut session = established(true, now, &mut Notes::default());
    session.cease(6);
    assert_eq!(notified(&session.take_output()), Some((6, 6)));
    session.cease(3);
    assert_eq!(session.take_output(), []);
}

#[test]
fn refresh_is_heard_and_needs_no_answer() {
    let (now, mut notes) = (Instant::now(), Notes::default());
    let mut session = established(true, now, &mut notes);
    assert_eq!(session.receive(&message(5, &[0, 1, 0, 1]), now, &mut notes), Ok(23));
    assert!(session.is_established() && session.take_output().is_empty());
}

#[test]
fn the_ends_of_both_families_make_it_complete() {
    let (now, mut rib) = (Instant::now(), Rib::new(1, None));
    assert!(!rib.is_complete());
    let mut session = established(true, now, &mut rib);
    session.receive(&update(&[], &[], &[]), now, &mut rib).expect("read");
    assert!(!rib.is_complete());
    let end = update(&[], &[0x90, 15, 0, 3, 0, 2, 1], &[]);
    session.receive(&end, now, &mut rib).expect("read");
    assert!(rib.is_complete());
    let mut notes = Notes::default();
    session.receive(&end, now, &mut notes).expect("read");
    assert_eq!(notes.0, [Heard::End(Family::Ip6)]);
}

proptest! {
    /// Whatever comes, in whatever pieces: no panic, no more read than there is, and an end that stays one.
    #[test]
    fn any_bytes_are_survived(mut bytes: Vec<u8>, is_established: bool, kind in 1_u8..6) {
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

    /// An OPEN with bytes that are not as they should be.
    #[test]
    fn an_odd_open_is_survived(place in 19_usize..80, value: u8) {
        let now = Instant::now();
        let mut bytes = open(90, capabilities(65_000, true));
        if let Some(byte) = bytes.get_mut(place) {
            *byte = value;
        }
        let mut session = Session::new(local(), now);
        let _ = session.receive(&bytes, now, &mut Notes::default());
    }
}
