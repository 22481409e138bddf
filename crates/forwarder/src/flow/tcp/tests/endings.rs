//! Whole connections through the tracker: nothing of a live one is refused, and a dead one does not stay.

use proptest::prelude::*;

use super::super::*;
use super::cases;
use super::host::{Host, State};
use super::model::{Random, Weather, World};

/// What a run does.
#[derive(Clone, Debug)]
struct Script {
    seed: u64,
    weather: Weather,
    scales: [Option<u8>; 2],
    capacities: [u32; 2],
    bytes: [u32; 2],
    mss: u32,
    /// Both open at once.
    is_simultaneous: bool,
    /// Percent of the ticks in which applications read.
    reads: u32,
    /// A side that aborts, at this tick.
    abort: Option<(bool, u32)>,
}

fn weather() -> impl Strategy<Value = Weather> {
    let loss = prop_oneof![2 => Just(0_u32), 2 => 1..10_u32, 1 => 10..30_u32];
    let repeats = prop_oneof![Just(0_u32), 1..30_u32];
    (loss, repeats, 1..100_u32).prop_map(|(loss, repeats, delay)| Weather { loss, repeats, delay })
}

fn scripts() -> impl Strategy<Value = Script> {
    let scale = prop_oneof![1 => Just(None), 3 => (0..9_u8).prop_map(Some)];
    let capacity =
        prop_oneof![2 => 1..5_000_u32, 2 => 5_000..80_000_u32, 1 => 80_000..2_000_000_u32];
    let bytes = prop_oneof![1 => Just(0_u32), 3 => 1..40_000_u32, 1 => 40_000..1_000_000_u32];
    let abort = prop::option::of((any::<bool>(), 0..200_u32));
    (
        any::<u64>(),
        weather(),
        [scale.clone(), scale],
        [capacity.clone(), capacity],
        [bytes.clone(), bytes],
        (any::<bool>(), 0..100_u32),
        (100..9_000_u32, abort),
    )
        .prop_map(
            |(seed, weather, scales, capacities, bytes, (crossed, reads), (mss, abort))| Script {
                seed,
                weather,
                scales,
                capacities,
                bytes,
                mss,
                is_simultaneous: crossed && seed % 4 == 0,
                reads: reads + 1,
                abort,
            },
        )
}

fn world(script: &Script) -> World {
    let mut random = Random(script.seed ^ 0x5555);
    let mut host = |side: usize| {
        // Numbers that wrap soon, in half of the runs.
        let iss = if random.is(50) {
            0_u32.wrapping_sub(random.below(100_000))
        } else {
            random.next() << 1
        };
        let mut host = Host::new(iss, script.scales[side], script.capacities[side], script.mss);
        host.to_send = script.bytes[side];
        // Transmissions that take too long are cut.
        host.to_send = host.to_send.min(script.capacities[1 - side] * 100).min(script.mss * 200);
        host
    };
    let hosts = [host(0), host(1)];
    World::new(hosts, script.weather, script.seed)
}

/// Opens, transmits, closes.
fn run(script: &Script) {
    let mut world = world(script);
    let mut out = Vec::new();
    world.hosts[0].connect(world.now, &mut out);
    world.send(Direction::Original, out);
    world.hosts[1].is_passive = !script.is_simultaneous;
    if script.is_simultaneous {
        let mut out = Vec::new();
        world.hosts[1].connect(world.now, &mut out);
        // Where the flow begins with the other side, the direction is not that of the model.
        let first = world.hosts[0].iss;
        world.track(
            Direction::Original,
            Segment {
                flags: SYN,
                sequence: first,
                window: 100,
                scale: script.scales[0],
                ..Segment::default()
            },
        );
        world.send(Direction::Reply, out);
    } else {
        world.hosts[1].state = State::Listen;
    }
    let mut ticks = 0;
    loop {
        ticks += 1;
        assert!(ticks < 2_000_000, "no end\n{}", world.history());
        let burst = 1 + world.random.below(8);
        let step = if world.is_quiet() { 200 } else { 10 };
        world.tick(step, burst);
        for side in [Direction::Original, Direction::Reply] {
            act(&mut world, side, script, ticks);
        }
        if world.is_quiet() {
            world.check();
            let is_over = |host: &Host| matches!(host.state, State::Closed | State::Listen);
            if world.hosts.iter().all(is_over) {
                break;
            }
        }
        if script.abort.is_some() && ticks > 20_000 {
            break;
        }
    }
    let refused = &world.refused;
    assert!(refused.is_empty(), "segments of hosts were refused\n{refused:#?}");
    if script.abort.is_none() {
        for side in [0, 1] {
            let (sent, received) = (world.hosts[side].to_send, world.hosts[1 - side].received);
            assert_eq!(sent, received, "{}", world.history());
        }
        // Where the last acknowledgements are lost for too long, the first host to forget answers by a reset.
        let was_reset = world.hosts.iter().any(|host| host.was_reset);
        let is_over = world.class() == Some(Class::TcpTimeWait)
            || was_reset && world.class() == Some(Class::TcpReset);
        assert!(is_over, "{}", world.history());
    }
}

/// What the application of a side does in a tick.
fn act(world: &mut World, side: Direction, script: &Script, ticks: u32) {
    let mut out = Vec::new();
    let is_reading = world.random.is(script.reads) || ticks > 5_000;
    let is_closing = world.random.is(5);
    let idle = world.random.below(50);
    let host = &mut world.hosts[side as usize];
    if is_reading {
        let bytes = host.capacity / (1 + idle % 8) + 1;
        host.read(bytes, &mut out);
    }
    host.closes |= is_closing && (host.is_synchronized() || ticks > 1_000);
    if idle == 0 && host.state == State::Established {
        out.push(host.keep_alive(ticks % 2));
    }
    if script.abort == Some((side == Direction::Original, ticks)) {
        host.abort(&mut out);
    }
    world.send(side, out);
}

proptest! {
    #![proptest_config(cases(300))]
    #[test]
    fn connections_live_until_they_end(script in scripts()) {
        run(&script);
    }
}
