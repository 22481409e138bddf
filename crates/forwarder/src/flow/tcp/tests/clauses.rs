//! One test per clause of the RFCs, led by hand.

use super::Direction::{Original, Reply};
use super::*;
use stoa_wire::tcp::flag::{CWR, ECE, PSH, URG};

#[test]
fn impossible_flags_are_refused_in_each_phase() {
    let refused = Verdict::Drop(Refusal::ImpossibleFlags);
    let impossible = [0, FIN, URG, PSH, FIN | URG | PSH, SYN | FIN, SYN | RST, FIN | RST, 0xff];
    let fin_rst = [FIN | RST | ACK, SYN | FIN | ACK, SYN | RST | ACK];
    for flags in impossible.into_iter().chain(fin_rst) {
        let odd = segment(Original, flags, 1, 1);
        assert_eq!(
            Tcp::open(&odd, Options::default()),
            Err(Refusal::ImpossibleFlags),
            "{flags:#x}"
        );
        for mut flow in [Flow::begun(), Flow::open()] {
            flow.unmoved(Original, &odd, refused);
            flow.unmoved(Reply, &Segment { sequence: ISS[1] + 1, ..odd }, refused);
        }
    }
    // Each kind may come with others.
    for flags in [ACK | PSH, ACK | URG, ACK | ECE | CWR, ACK | URG | PSH, FIN | ACK | PSH | URG] {
        Flow::open().accepts(Original, flags, 1, 1);
    }
    let syn = segment(Original, SYN | ECE | CWR | URG, 0, 0);
    assert!(Tcp::open(&syn, Options::default()).is_ok());
}

/// RFC 9293 section 3.5; RFC 5382 section 2.1.
#[test]
fn three_segments_open_a_connection() {
    let mut flow = Flow::begun();
    assert_eq!((flow.tcp.phase(), flow.tcp.class()), (Phase::SynSent, Class::TcpOpening));
    flow.accepts(Original, SYN, 0, 0);
    flow.accepts(Reply, SYN_ACK, 0, 1);
    assert_eq!((flow.tcp.phase(), flow.tcp.class()), (Phase::SynReceived, Class::TcpOpening));
    flow.accepts(Original, SYN, 0, 0);
    flow.accepts(Reply, SYN_ACK, 0, 1);
    assert_eq!(flow.events, Events::default());
    flow.accepts(Original, ACK, 1, 1);
    assert_eq!(flow.events, Events::ESTABLISHED);
    assert_eq!((flow.tcp.phase(), flow.tcp.class()), (Phase::Established, Class::TcpEstablished));
    // The acknowledgement was lost behind the tracker.
    flow.accepts(Reply, SYN_ACK, 0, 1);
    flow.accepts(Original, ACK, 1, 1);
    assert_eq!(flow.events, Events::default());
}

/// RFC 9293 section 3.5, figure 8; RFC 5382 REQ-2.
#[test]
fn both_sides_may_open() {
    let mut flow = Flow::begun();
    flow.accepts(Reply, SYN, 0, 0);
    assert_eq!(flow.tcp.phase(), Phase::SynCrossed);
    flow.accepts(Original, SYN_ACK, 0, 1);
    assert_eq!(flow.tcp.class(), Class::TcpOpening);
    flow.accepts(Reply, SYN_ACK, 0, 1);
    assert_eq!(flow.events, Events::ESTABLISHED);
    // Or by plain acknowledgements.
    let mut flow = Flow::begun();
    flow.accepts(Reply, SYN, 0, 0);
    flow.accepts(Reply, ACK, 1, 1);
    flow.accepts(Original, ACK, 1, 1);
    assert_eq!(flow.tcp.phase(), Phase::Established);
}

/// RFC 9293 section 3.10.7.3: an opener answers what acknowledges something else by a reset.
#[test]
fn an_opening_survives_segments_of_older_connections() {
    let mut flow = Flow::begun();
    for old in [segment(Reply, SYN_ACK, 7, 77), segment(Reply, ACK, 7, 77)] {
        flow.unmoved(Reply, &old, Verdict::Challenge);
    }
    flow.unmoved(Original, &segment(Original, RST, 77, 0), Verdict::Challenge);
    // A reset without acknowledgement, or with a wrong one, is nothing to an opener.
    flow.unmoved(Reply, &segment(Reply, RST, 0, 0), Verdict::Challenge);
    flow.unmoved(Reply, &segment(Reply, RST_ACK, 0, 9), Verdict::Challenge);
    flow.unmoved(Original, &segment(Original, ACK, 1, 1), Verdict::Drop(Refusal::NoConnection));
    flow.accepts(Reply, SYN_ACK, 0, 1);
    let bad = Verdict::Drop(Refusal::BadAcknowledgement);
    flow.unmoved(Original, &segment(Original, ACK, 1, 2), bad);
    flow.accepts(Original, ACK, 1, 1);
}

#[test]
fn a_closed_port_ends_the_attempt() {
    let mut flow = Flow::begun();
    let refusal = Segment { sequence: 0, ..segment(Reply, RST_ACK, 0, 1) };
    assert_eq!(flow.pass(Reply, &refusal), Verdict::Accept);
    assert_eq!((flow.events, flow.tcp.class()), (Events::RESET, Class::TcpReset));
    assert_eq!(flow.verdict(Original, SYN, 0, 0), Verdict::Replace, "the next attempt");
}

/// RFC 7413: data in the SYN, of which the other side may acknowledge only the SYN; data behind the SYN-ACK.
#[test]
fn a_syn_may_carry_data() {
    for acknowledged in [1, 101] {
        let syn = Segment { payload: 100, ..segment(Original, SYN, 0, 0) };
        let mut flow = Flow { tcp: Tcp::open(&syn, Options::default()).unwrap(), ..Flow::begun() };
        flow.accepts(Reply, SYN_ACK, 0, acknowledged);
        assert_eq!(flow.data(Reply, 1, acknowledged, 500), Verdict::Accept);
        assert_eq!(flow.data(Reply, 501, acknowledged, 500), Verdict::Accept);
        assert_eq!(flow.data(Original, acknowledged, 1001, 10), Verdict::Accept);
        assert!(flow.events.has(Events::ESTABLISHED));
    }
}

/// RFC 7323 section 2.2: windows scale if both SYNs have the option, and those of SYNs never do.
#[test]
fn windows_scale_if_both_sides_agree() {
    for (scales, is_far) in [
        ([Some(7), Some(2)], true),
        ([Some(7), None], false),
        ([None, Some(7)], false),
        // Above 14 counts as 14.
        ([Some(255), Some(0)], true),
    ] {
        let syn = Segment { scale: scales[0], ..segment(Original, SYN, 0, 0) };
        let mut flow = Flow { tcp: Tcp::open(&syn, Options::default()).unwrap(), ..Flow::begun() };
        let answer = Segment { scale: scales[1], ..segment(Reply, SYN_ACK, 0, 1) };
        assert_eq!(flow.pass(Reply, &answer), Verdict::Accept);
        flow.accepts(Original, ACK, 1, 1);
        // 1,000 units of 128 bytes or more.
        let far = flow.data(Reply, 100_000, 1, 10);
        let expected = if is_far { Verdict::Accept } else { Verdict::Drop(Refusal::OutOfWindow) };
        assert_eq!(far, expected, "{scales:?}");
    }
}

/// RFC 9293 sections 3.4 and 3.8.6.
#[test]
fn segments_stay_inside_of_the_windows() {
    let mut flow = Flow::open();
    assert_eq!(flow.data(Original, 1, 1, 1007), Verdict::Accept);
    let outside = Verdict::Drop(Refusal::OutOfWindow);
    let next = |sequence| Segment { payload: 1, ..segment(Original, ACK, sequence, 1) };
    flow.unmoved(Original, &next(1009), outside);
    // A probe of the closed window, its repetition, a keep-alive with and without a byte (sections 3.8.6.1, 3.8.4).
    assert_eq!(flow.data(Original, 1008, 1, 1), Verdict::Accept);
    assert_eq!(flow.data(Original, 1008, 1, 1), Verdict::Accept);
    flow.accepts(Reply, ACK, 1, 1008);
    assert_eq!(flow.data(Original, 1007, 1, 1), Verdict::Accept);
    assert_eq!(flow.data(Original, 1007, 1, 0), Verdict::Accept);
    // All of it again.
    assert_eq!(flow.data(Original, 1, 1, 1007), Verdict::Accept);
    flow.unmoved(Original, &next(0_u32.wrapping_sub(300_000)), outside);
    flow.unmoved(Original, &next(1 << 31), outside);
    // An acknowledgement of what was never sent, and one of long ago (RFC 5961 section 5).
    let bad = Verdict::Drop(Refusal::BadAcknowledgement);
    flow.unmoved(Reply, &segment(Reply, ACK, 1, 1010), bad);
    flow.unmoved(Reply, &segment(Reply, ACK, 1, 0_u32.wrapping_sub(300_000)), bad);
    flow.accepts(Reply, ACK, 1, 1009);
}

/// RFC 9293 section 3.6; RFC 5382 section 2.1: one FIN leaves the other direction open.
#[test]
fn half_a_connection_stays_open() {
    let mut flow = Flow::open();
    assert_eq!(
        flow.pass(Original, &Segment { payload: 10, ..segment(Original, FIN_ACK, 1, 1) }),
        Verdict::Accept
    );
    assert_eq!((flow.events, flow.tcp.class()), (Events::HALF_CLOSED, Class::TcpHalfClosed));
    flow.accepts(Reply, ACK, 1, 12);
    for part in 0..100 {
        assert_eq!(flow.data(Reply, 1 + part * 900, 12, 900), Verdict::Accept);
        flow.accepts(Original, ACK, 12, 1 + part * 900 + 900);
    }
    assert_eq!((flow.events, flow.tcp.phase()), (Events::default(), Phase::HalfClosed));
    flow.accepts(Reply, FIN_ACK, 90_001, 12);
    assert_eq!((flow.events, flow.tcp.class()), (Events::default(), Class::TcpClosing));
    flow.accepts(Original, ACK, 12, 90_002);
    assert_eq!((flow.events, flow.tcp.class()), (Events::CLOSED, Class::TcpTimeWait));
}

#[test]
fn both_sides_may_close_at_once() {
    let mut flow = Flow::open();
    flow.accepts(Original, FIN_ACK, 1, 1);
    flow.accepts(Reply, FIN_ACK, 1, 1);
    assert_eq!(flow.tcp.phase(), Phase::Closing);
    flow.accepts(Original, ACK, 2, 2);
    assert_eq!(flow.tcp.phase(), Phase::Closing);
    flow.accepts(Reply, ACK, 2, 2);
    assert_eq!((flow.events, flow.tcp.phase()), (Events::CLOSED, Phase::TimeWait));
}

/// A client that closes in the acknowledgement of the SYN-ACK, and a server that closes before it comes.
#[test]
fn connections_may_close_while_they_open() {
    let mut flow = Flow::begun();
    flow.accepts(Reply, SYN_ACK, 0, 1);
    flow.accepts(Reply, FIN_ACK, 1, 1);
    assert_eq!(flow.tcp.phase(), Phase::SynReceived);
    flow.accepts(Original, FIN_ACK, 1, 2);
    assert_eq!(
        (flow.events, flow.tcp.phase()),
        (Events::ESTABLISHED.and(Events::HALF_CLOSED), Phase::Closing)
    );
    flow.accepts(Reply, ACK, 2, 2);
    assert_eq!(flow.tcp.phase(), Phase::TimeWait);
}

/// RFC 9293 section 3.10.7.8: the acknowledgement of the last FIN was lost.
#[test]
fn a_repeated_fin_meets_time_wait() {
    let mut flow = closed();
    for from in [Original, Reply] {
        flow.accepts(from, FIN_ACK, 1, 2);
        flow.accepts(from.reverse(), ACK, 2, 2);
        assert_eq!((flow.events, flow.tcp.class()), (Events::default(), Class::TcpTimeWait));
    }
    // And without it, it would open nothing.
    for loose in [false, true] {
        for flags in [FIN_ACK, RST, RST_ACK, SYN_ACK] {
            let options = Options { loose, ..Options::default() };
            let first = Tcp::open(&segment(Reply, flags, 1, 2), options);
            assert_eq!(first, Err(Refusal::NoConnection));
        }
    }
    let data = Segment { payload: 1, ..segment(Original, ACK, 2, 2) };
    flow.unmoved(Original, &data, Verdict::Drop(Refusal::OutOfWindow));
    // RFC 1337: no reset ends it early.
    flow.unmoved(Reply, &segment(Reply, RST, 2, 0), Verdict::Accept);
}

fn closed() -> Flow {
    let mut flow = Flow::open();
    flow.accepts(Original, FIN_ACK, 1, 1);
    flow.accepts(Reply, FIN_ACK, 1, 2);
    flow.accepts(Original, ACK, 2, 2);
    assert_eq!(flow.tcp.phase(), Phase::TimeWait);
    flow
}

/// RFC 9293 section 3.6.1 and RFC 6191.
#[test]
fn a_newer_syn_reuses_time_wait() {
    for from in [Original, Reply] {
        let mut flow = closed();
        flow.unmoved(from, &segment(from, SYN, 2, 0), Verdict::Replace);
        flow.unmoved(from, &segment(from, SYN, 1 << 20, 0), Verdict::Replace);
        // An old one is for the host to judge, who may see by timestamps that it is new.
        flow.unmoved(from, &segment(from, SYN, 0, 0), Verdict::Challenge);
        flow.unmoved(from, &segment(from, SYN, 0, 0), Verdict::Challenge);
        flow.accepts(from.reverse(), ACK, 2, 2);
        let answer = segment(from.reverse(), SYN_ACK, 500_000, 1);
        flow.unmoved(from, &segment(from, SYN, 0, 0), Verdict::Challenge);
        flow.unmoved(from.reverse(), &answer, Verdict::Drop(Refusal::Reopening));
        flow.unmoved(from, &segment(from, SYN, 0, 0), Verdict::Replace);
    }
}

#[test]
fn loose_picks_up_in_the_middle() {
    let middle = Segment { payload: 10, ..segment(Original, ACK, 50_000, 70_000) };
    assert_eq!(Tcp::open(&middle, Options::default()), Err(Refusal::NoConnection));
    let options = Options { loose: true, liberal: false };
    let tcp = Tcp::open(&middle, options).unwrap();
    let mut flow = Flow { tcp, options, ..Flow::begun() };
    assert_eq!((flow.tcp.phase(), flow.tcp.class()), (Phase::PickedUp, Class::TcpOpening));
    // One side alone establishes nothing.
    assert_eq!(flow.data(Original, 50_010, 70_000, 10), Verdict::Accept);
    assert_eq!(flow.tcp.phase(), Phase::PickedUp);
    // More was in flight, and windows are unknown.
    assert_eq!(flow.data(Reply, 900_000, 60_000, 10), Verdict::Accept);
    assert_eq!((flow.events, flow.tcp.class()), (Events::ESTABLISHED, Class::TcpEstablished));
    assert_eq!(flow.data(Original, 40_000, 950_000, 10), Verdict::Accept);
}

#[test]
fn liberal_checks_no_numbers() {
    let mut flow = Flow::begun();
    flow.options.liberal = true;
    // The SYN-ACK went another way.
    assert_eq!(flow.data(Original, 1, 1, 10), Verdict::Accept);
    assert_eq!(flow.tcp.phase(), Phase::Established);
    assert_eq!(flow.data(Original, 30_000, 1 << 30, 10), Verdict::Accept);
    flow.unmoved(Original, &segment(Original, RST, 1 << 31, 0), Verdict::Challenge);
    let mut forged = Flow { tcp: flow.tcp, ..Flow::begun() };
    forged.options.liberal = true;
    flow.accepts(Original, RST, 30_010, 0);
    assert_eq!(flow.events, Events::RESET);
    // Whoever forges a segment far away does not know afterwards which reset is exact.
    assert_eq!(forged.data(Original, 1 << 30, 1 << 30, 10), Verdict::Accept);
    assert_eq!(forged.data(Reply, 1 << 30, 1 << 30, 10), Verdict::Accept);
    for number in [1 << 29, 1 << 30, (1 << 30) + 10] {
        for from in [Original, Reply] {
            forged.unmoved(from, &segment(from, RST, number, 0), Verdict::Challenge);
        }
    }
}

#[test]
fn a_relaxed_state_takes_a_connection_that_went_on() {
    let mut flow = Flow::open();
    let far = Segment { payload: 10, ..segment(Original, ACK, 20_000_000, 30_000_000) };
    flow.unmoved(Original, &far, Verdict::Drop(Refusal::OutOfWindow));
    flow.tcp.relax();
    assert_eq!(flow.pass(Original, &far), Verdict::Accept);
    assert_eq!(flow.data(Reply, 30_000_000, 20_000_010, 10), Verdict::Accept);
    assert_eq!(flow.tcp.phase(), Phase::Established);
}

#[test]
fn options_of_syns_are_kept() {
    let syn = Segment { sack: true, timestamps: true, ..segment(Original, SYN, 0, 0) };
    let mut flow = Flow { tcp: Tcp::open(&syn, Options::default()).unwrap(), ..Flow::begun() };
    let answer = Segment { sack: true, ..segment(Reply, SYN_ACK, 0, 1) };
    assert_eq!(flow.pass(Reply, &answer), Verdict::Accept);
    assert_eq!((flow.tcp.has_sack(), flow.tcp.has_timestamps()), (true, false));
}

/// The window may have grown until a SYN or SYN-ACK is repeated.
#[test]
fn windows_of_repeated_syns_count() {
    let wide = |flags, ack| Segment { window: 3000, ..segment(Reply, flags, 0, ack) };
    for is_crossed in [false, true] {
        let mut flow = Flow::begun();
        if is_crossed {
            flow.accepts(Reply, SYN, 0, 0);
            assert_eq!(flow.pass(Reply, &wide(SYN, 0)), Verdict::Accept);
        } else {
            flow.accepts(Reply, SYN_ACK, 0, 1);
        }
        assert_eq!(flow.pass(Reply, &wide(SYN_ACK, 1)), Verdict::Accept);
        flow.accepts(Original, ACK, 1, 1);
        assert_eq!(flow.data(Original, 2500, 1, 500), Verdict::Accept);
    }
}

/// RFC 7323 section 2.2: what a SYN offers holds if it is the one that is answered, and only then.
#[test]
fn the_syn_that_is_answered_brings_the_window() {
    let syn = Segment { scale: Some(0), ..segment(Original, SYN, 0, 0) };
    let other = Segment { scale: Some(14), ..segment(Original, SYN, 80_000, 0) };
    for (chosen, far) in [(0, Verdict::Drop(Refusal::OutOfWindow)), (80_000, Verdict::Accept)] {
        let mut flow = Flow { tcp: Tcp::open(&syn, Options::default()).unwrap(), ..Flow::begun() };
        assert_eq!(flow.pass(Original, &other), Verdict::Accept);
        let answer = Segment { scale: Some(0), ..segment(Reply, SYN_ACK, 0, chosen + 1) };
        assert_eq!(flow.pass(Reply, &answer), Verdict::Accept);
        flow.accepts(Original, ACK, chosen + 1, 1);
        assert_eq!(flow.data(Reply, 100_000, chosen + 1, 10), far);
    }
}

/// An acknowledgement of the other side that overtakes its SYN-ACK, and is behind it where it arrives.
#[test]
fn a_window_before_the_syn_ack_counts() {
    for scale in [None, Some(3)] {
        let syn = Segment { scale, ..segment(Original, SYN, 0, 0) };
        let mut flow = Flow { tcp: Tcp::open(&syn, Options::default()).unwrap(), ..Flow::begun() };
        let early = Segment { window: 5007, ..segment(Reply, ACK, 1, 1) };
        assert_eq!(flow.pass(Reply, &early), Verdict::Accept);
        assert_eq!(flow.tcp.phase(), Phase::SynSent);
        assert_eq!(
            flow.pass(Reply, &Segment { scale, ..segment(Reply, SYN_ACK, 0, 1) }),
            Verdict::Accept
        );
        flow.accepts(Original, ACK, 1, 1);
        let start = 4_000 << scale.unwrap_or(0);
        assert_eq!(flow.data(Original, start, 1, 10), Verdict::Accept);
    }
}
