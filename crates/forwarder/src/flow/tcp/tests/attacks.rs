//! What an attacker without knowledge of sequence numbers achieves: nothing. And what hosts that restart achieve: a new
//! connection.

use proptest::prelude::*;

use super::Direction::{Original, Reply};
use super::host::{Host, State};
use super::model::{Random, Weather, World};
use super::*;

/// RFC 5961 section 3.
#[test]
fn a_reset_counts_where_the_receiver_may_take_it() {
    let mut flow = Flow::open();
    assert_eq!(flow.data(Original, 1, 1, 100), Verdict::Accept);
    let blind = Verdict::Drop(Refusal::BlindReset);
    for far in [1_200, 1 << 30, 1 << 31, 0_u32.wrapping_sub(300_000)] {
        flow.unmoved(Original, &segment(Original, RST, far, 0), blind);
    }
    // In the window, but not exact; or late.
    flow.unmoved(Original, &segment(Original, RST, 500, 0), Verdict::Challenge);
    flow.unmoved(Original, &segment(Original, RST, 0_u32.wrapping_sub(9), 0), Verdict::Challenge);
    flow.accepts(Reply, ACK, 1, 101);
    assert_eq!(flow.tcp.class(), Class::TcpEstablished);
    flow.accepts(Original, RST, 101, 0);
    assert_eq!((flow.events, flow.tcp.class()), (Events::RESET, Class::TcpReset));
    // RFC 7857 section 2.2: late segments pass.
    assert_eq!(flow.data(Reply, 1, 101, 10), Verdict::Accept);
    assert_eq!((flow.events, flow.tcp.class()), (Events::default(), Class::TcpReset));
    flow.unmoved(Reply, &segment(Reply, RST_ACK, 1, 101), Verdict::Accept);
    assert_eq!(flow.verdict(Original, SYN, 9_000_000, 0), Verdict::Replace);
}

#[test]
fn a_reset_that_the_receiver_refuses_ends_nothing() {
    let mut flow = Flow::open();
    assert_eq!(flow.data(Original, 1, 1, 100), Verdict::Accept);
    // The receiver already awaits 101; its acknowledgement comes later.
    flow.accepts(Original, RST, 50, 0);
    assert_eq!((flow.events, flow.tcp.phase()), (Events::RESET, Phase::Resetting));
    assert_eq!(flow.tcp.class(), Class::TcpClosing, "it is not given up before its time");
    // It may live: a SYN does not replace it, and no further reset decides.
    for from in [Original, Reply] {
        flow.unmoved(from, &segment(from, SYN, 700_000, 0), Verdict::Challenge);
    }
    flow.unmoved(Original, &segment(Original, RST, 30, 0), Verdict::Challenge);
    flow.accepts(Reply, ACK, 1, 101);
    assert_eq!((flow.events, flow.tcp.class()), (Events::REVIVED, Class::TcpEstablished));
    assert_eq!(flow.data(Original, 101, 1, 100), Verdict::Accept);
}

/// A host that ends with data in flight: its reset follows the data.
#[test]
fn a_reset_in_doubt_counts_when_the_receiver_awaits_it() {
    let mut flow = Flow::open();
    assert_eq!(flow.data(Original, 1, 1, 100), Verdict::Accept);
    flow.accepts(Original, RST, 101, 0);
    assert_eq!(flow.tcp.phase(), Phase::Resetting);
    flow.accepts(Reply, ACK, 1, 50);
    assert_eq!((flow.events, flow.tcp.phase()), (Events::default(), Phase::Resetting));
    flow.accepts(Reply, ACK, 1, 101);
    assert_eq!((flow.tcp.phase(), flow.tcp.class()), (Phase::Reset, Class::TcpReset));
    assert_eq!(flow.verdict(Original, SYN, 700_000, 0), Verdict::Replace);
}

#[test]
fn a_reset_ahead_of_its_data_is_for_the_receiver_to_challenge() {
    let mut flow = Flow::open();
    flow.unmoved(Original, &segment(Original, RST, 101, 0), Verdict::Challenge);
    assert_eq!(flow.data(Original, 1, 1, 100), Verdict::Accept);
    assert_eq!((flow.events, flow.tcp.phase()), (Events::default(), Phase::Established));
    assert_eq!(flow.verdict(Original, SYN, 700_000, 0), Verdict::Challenge);
}

/// RFC 5961 section 4: the host answers, and nothing changes. A host that forgot the connection answers otherwise.
#[test]
fn a_syn_replaces_a_connection_only_if_nobody_knows_it() {
    let mut flow = Flow::open();
    let syn = segment(Original, SYN, 700_000, 0);
    let answer = segment(Reply, SYN_ACK, 900_000, 700_001);
    flow.unmoved(Original, &syn, Verdict::Challenge);
    flow.accepts(Reply, ACK, 1, 1);
    flow.unmoved(Reply, &answer, Verdict::Drop(Refusal::OutOfWindow));
    // Both forged, one right behind the other; the host answers a bit later.
    flow.unmoved(Original, &syn, Verdict::Challenge);
    flow.unmoved(Reply, &answer, Verdict::Drop(Refusal::Reopening));
    flow.unmoved(Original, &syn, Verdict::Challenge);
    flow.accepts(Reply, ACK, 1, 1);
    flow.now = 60_000;
    flow.unmoved(Original, &syn, Verdict::Challenge);
    // Nobody contradicts, for two more SYNs (RFC 6298: 1 and 2 seconds later).
    flow.unmoved(Reply, &answer, Verdict::Drop(Refusal::Reopening));
    flow.now += 1_024;
    flow.unmoved(Original, &syn, Verdict::Challenge);
    flow.unmoved(Original, &syn, Verdict::Challenge);
    flow.now += 2_048;
    flow.unmoved(Original, &syn, Verdict::Replace);
    // Or the port is closed, and the next attempt has another number.
    let mut flow = Flow::open();
    flow.unmoved(Original, &syn, Verdict::Challenge);
    let refusal = Segment { sequence: 0, ..segment(Reply, RST_ACK, 0, 700_001) };
    flow.unmoved(Reply, &refusal, Verdict::Challenge);
    flow.now += 5_000;
    flow.unmoved(Original, &segment(Original, SYN, 1 << 28, 0), Verdict::Challenge);
    flow.now += 1_024;
    flow.unmoved(Original, &segment(Original, SYN, 1 << 27, 0), Verdict::Replace);
}

/// RFC 4987 section 3.6: each SYN-ACK of a server with SYN cookies may have another number.
#[test]
fn a_server_without_memory_may_answer_twice() {
    for chosen in [0, 333] {
        let mut flow = Flow::begun();
        flow.accepts(Reply, SYN_ACK, 0, 1);
        flow.accepts(Original, SYN, 0, 0);
        flow.accepts(Reply, SYN_ACK, 333, 1);
        flow.accepts(Original, ACK, 1, chosen + 1);
        assert_eq!(flow.tcp.phase(), Phase::Established);
        assert_eq!(flow.data(Reply, chosen + 1, 1, 100), Verdict::Accept);
    }
}

/// A forged SYN between SYN and SYN-ACK, and a port that is used again before an answer.
#[test]
fn the_syn_ack_tells_which_syn_counts() {
    for chosen in [0, 80_000] {
        let mut flow = Flow::begun();
        flow.accepts(Original, SYN, 80_000, 0);
        flow.accepts(Reply, SYN_ACK, 0, chosen + 1);
        flow.accepts(Original, ACK, chosen + 1, 1);
        assert_eq!(flow.tcp.phase(), Phase::Established);
        assert_eq!(flow.data(Original, chosen + 1, 1, 100), Verdict::Accept);
    }
}

/// Two hosts with an open connection, on which data flows in both directions.
fn open(weather: Weather, seed: u64) -> World {
    let mut random = Random(seed ^ 0x77);
    let mut host = |scale| Host::new(random.next() << 1, Some(scale), 20_000, 1_000);
    let mut world = World::new([host(2), host(5)], weather, seed);
    let mut out = Vec::new();
    world.hosts[0].connect(world.now, &mut out);
    (world.hosts[1].state, world.hosts[1].is_passive) = (State::Listen, true);
    world.send(Original, out);
    let is_open = |world: &World| {
        world.class() == Some(Class::TcpEstablished) && world.hosts[1].state == State::Established
    };
    for _ in 0..100_000 {
        if is_open(&world) {
            break;
        }
        world.tick(10, 4);
    }
    assert!(is_open(&world), "{}", world.history());
    world
}

/// A segment of an attacker; he may agree with himself: `own` is a number of his own.
fn forged(random: &mut Random, world: &World, own: u32) -> Option<(Direction, Segment)> {
    let from = if random.is(50) { Original } else { Reply };
    let kinds = [SYN, SYN, SYN_ACK, RST, RST, RST_ACK, ACK, FIN_ACK, ACK | 8];
    let flags = kinds[random.below(kinds.len() as u32) as usize];
    let mut number = || match random.below(4) {
        0 => own,
        1 => own.wrapping_add(1),
        _ => random.next().wrapping_mul(2).wrapping_add(random.below(2)),
    };
    let (sequence, acknowledgement) = (number(), number());
    let (window, payload) = (random.below(65_536) as u16, random.below(3) * 700);
    let scale = Some(random.below(16) as u8);
    // He does not know numbers: those that he would hit by chance do not count.
    let side = world.tracker.as_ref()?.sides[from as usize];
    let is_near = side.end.wrapping_sub(sequence).wrapping_add(1 << 22) < 1 << 23;
    let segment =
        Segment { flags, sequence, acknowledgement, window, payload, scale, ..Segment::default() };
    (!is_near).then_some((from, segment))
}

/// So many milliseconds pass, in which both applications read.
fn run(world: &mut World, milliseconds: u64) {
    let end = world.now + milliseconds;
    while world.now < end {
        for from in [Original, Reply] {
            let mut out = Vec::new();
            world.hosts[from as usize].read(10_000, &mut out);
            world.send(from, out);
        }
        world.tick(5, 3);
    }
}

/// After an attack: both hosts can send, and nothing of theirs was refused.
fn live_on(world: &mut World) -> Result<(), TestCaseError> {
    for host in &mut world.hosts {
        host.to_send += 5_000;
    }
    run(world, 60_000);
    prop_assert!(world.refused.is_empty(), "{:#?}", world.refused);
    for side in [0, 1] {
        prop_assert_eq!(
            world.hosts[side].to_send,
            world.hosts[1 - side].received,
            "{}",
            world.history()
        );
    }
    prop_assert_eq!(world.class(), Some(Class::TcpEstablished), "{}", world.history());
    Ok(())
}

proptest! {
    #![proptest_config(cases(100))]
    #[test]
    fn a_blind_attacker_changes_nothing(
        seed: u64,
        loss in 0..10_u32,
        delay in 1..60_u32,
        rate in 1..10_u32,
    ) {
        let mut world = open(Weather { loss, repeats: 5, delay }, seed);
        let mut random = Random(seed ^ 0x99);
        for round in 0..1_000 {
            let own = 0x1234_5678_u32.wrapping_mul(round / 50);
            for _ in 0..random.below(rate) {
                if let Some((from, segment)) = forged(&mut random, &world, own) {
                    world.forge(from, segment);
                }
            }
            if round % 20 == 0 {
                for host in &mut world.hosts {
                    host.to_send += random.below(3_000);
                }
            }
            for from in [Original, Reply] {
                let mut out = Vec::new();
                world.hosts[from as usize].read(1_000, &mut out);
                world.send(from, out);
            }
            world.tick(10, 3);
            let (Some(state), Some(unattacked)) = (world.tracker, world.unattacked.or(world.tracker)) else {
                panic!("the flow is gone");
            };
            prop_assert_eq!(state.sides, unattacked.sides, "{}", world.history());
            prop_assert_eq!(state.phase, unattacked.phase, "{}", world.history());
        }
        prop_assert!(world.refused.is_empty(), "{:#?}", world.refused);
        prop_assert_eq!(world.class(), Some(Class::TcpEstablished));
    }

    /// SYNs and their answers, forged at any pace, on an idle connection whose hosts limit their answers.
    #[test]
    fn forged_syns_from_both_sides_replace_nothing(
        seed: u64,
        steps in prop::collection::vec(
            (prop::sample::select(vec![0_u64, 20, 200, 300, 490, 800, 1_100, 2_000]), 0..3_u8),
            1..30,
        ),
    ) {
        let mut world = open(Weather { loss: 0, repeats: 0, delay: 1 }, seed);
        run(&mut world, 2_000);
        let (sequence, acknowledgement) = (0x1234_5678, 0x1234_5679);
        let syn = Segment { flags: SYN, sequence, window: 9, ..Segment::default() };
        let answer = Segment { flags: SYN_ACK, acknowledgement, ..syn };
        for (pause, kind) in steps {
            run(&mut world, pause);
            match kind {
                0 | 1 => world.forge(Original, syn),
                _ => world.forge(Reply, answer),
            }
        }
        live_on(&mut world)?;
    }

    /// Resets in the windows, by chance, but for the one number that the receiver awaits; and SYNs behind them.
    #[test]
    fn resets_by_chance_end_nothing(
        seed: u64,
        loss in 0..5_u32,
        delay in 1..60_u32,
        rate in 1..10_u32,
    ) {
        let mut world = open(Weather { loss, repeats: 5, delay }, seed);
        let mut random = Random(seed ^ 0x11);
        for round in 0..500 {
            for _ in 0..random.below(rate) {
                let from = if random.is(50) { Original } else { Reply };
                let side = world.tracker.expect("a flow").sides[from as usize];
                let sequence = side.acked.wrapping_sub(100).wrapping_add(random.below(30_000));
                let flags = if random.is(20) { SYN } else { RST };
                // The numbers that the receiver awaits, now or after what is in flight.
                let is_exact = [side.acked, side.end].contains(&sequence);
                if flags == SYN || !is_exact {
                    world.forge(from, Segment { flags, sequence, ..Segment::default() });
                }
            }
            if round % 20 == 0 {
                for host in &mut world.hosts {
                    host.to_send += random.below(9_000);
                }
            }
            run(&mut world, 10);
        }
        live_on(&mut world)?;
    }

    /// One host, or both, forget an open connection, and the opener begins another one with the same ports.
    #[test]
    fn hosts_that_restart_get_a_new_connection(
        seed: u64,
        loss in 0..10_u32,
        delay in 1..60_u32,
        both: bool,
    ) {
        let mut world = open(Weather { loss, repeats: 5, delay }, seed);
        let mut random = Random(seed ^ 0x33);
        let mut fresh = || Host::new(random.next() << 1, Some(3), 20_000, 1_000);
        if both {
            world.hosts[1] = fresh();
            (world.hosts[1].state, world.hosts[1].is_passive) = (State::Listen, true);
        }
        world.hosts[0] = fresh();
        world.hosts[0].to_send = 5_000;
        let mut out = Vec::new();
        world.hosts[0].connect(world.now, &mut out);
        world.send(Original, out);
        let begun = world.now;
        while world.hosts[1].received != 5_000 || world.hosts[0].state != State::Established {
            world.tick(10, 3);
            if world.hosts[0].state == State::Closed {
                // Refused in the moment in which nobody listened.
                world.hosts[0] = fresh();
                world.hosts[0].to_send = 5_000;
                let mut out = Vec::new();
                world.hosts[0].connect(world.now, &mut out);
                world.send(Original, out);
            }
            let host = &mut world.hosts[1];
            if host.state == State::Closed {
                // The server accepts the next one.
                *host = fresh();
                (host.state, host.is_passive) = (State::Listen, true);
            }
            let mut out = Vec::new();
            world.hosts[1].read(1_000, &mut out);
            world.send(Reply, out);
            prop_assert!(world.now < begun + 200_000, "{}", world.history());
        }
        prop_assert_eq!(world.class(), Some(Class::TcpEstablished));
    }
}
