//! A process is killed again and again while it creates and removes flows: what the next one reads is always whole.

use std::io::{BufRead, BufReader};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use stoa_tables::Reclaim;
use stoa_tables::flow_hash::Flow;
use stoa_tables::flow_table::{
    Created, Direction, FlowCapacity, FlowKey, FlowTable, FormerFlow, FormerTable, NewFlow,
    Reading, Secret,
};
use stoa_warm_restart::{CHILD_ENVIRONMENT, DescriptorStore, Regions, Taken, regions};

/// The environment variable that makes this program the process that is killed.
const ROLE: &str = "STOA_TEST_ROLE";
const CAPACITY: FlowCapacity =
    FlowCapacity { ip4: 24, translated_ip4: 24, ip6: 24, translated_ip6: 24 };
/// Flows that stay.
const LASTING: u32 = 16;
const KILLS: u32 = 60;

fn key(number: u32) -> FlowKey {
    let [source_port, destination_port, protocol] = [number as u16, 80, 6];
    let protocol = protocol as u8;
    if number.is_multiple_of(3) {
        let (source, destination) = (u128::from(number) << 64 | 1, 2);
        return FlowKey::ip6(
            Flow { source, destination, source_port, destination_port, protocol },
            0,
        );
    }
    let (source, destination) = (number, 2);
    FlowKey::ip4(Flow { source, destination, source_port, destination_port, protocol }, 0)
}

/// All of a flow follows from its number.
fn flow(number: u32) -> NewFlow {
    let reply = number.is_multiple_of(2).then(|| key(number + 3_000_000).reversed());
    NewFlow {
        class: number as u8,
        flags: number as u8 & 0x1f,
        zone_pair: number as u16,
        tcp: std::array::from_fn(|at| number.wrapping_mul(at as u32 + 3)),
        ..NewFlow::new(key(number), reply)
    }
}

/// Not a test: the process that is killed.
#[test]
fn play_a_role() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    // A failed test leaves no process behind.
    nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL).unwrap();
    let mut table = FlowTable::new(&CAPACITY, &Secret([3; 64])).unwrap();
    let reader = table.reader();
    let opened = regions().open_arrays("flows", || reader.leak_arrays().to_vec()).unwrap();
    let (arrays, _) = opened.unwrap();
    let mut owner = table.owner(5, 0).unwrap();
    let mut create = |number: u32, remove: Option<u32>| {
        if let Some(id) = remove {
            owner.remove(id).unwrap();
            owner.retire_mark(1);
            owner.reclaim(1);
        }
        let Ok(Created::New(id)) = owner.create(&flow(number), number, u32::MAX) else {
            return None;
        };
        owner.entry(id).count(Direction::Original, number, number);
        Some(id)
    };
    (0..LASTING).for_each(|number| assert!(create(number, None).is_some()));
    arrays.hold();
    println!("ready");
    let mut known = [None; 8];
    for number in (LASTING..3_000_000).cycle() {
        let at = number as usize % known.len();
        known[at] = create(number, known[at]);
    }
}

/// Starts the process, and waits until it creates and removes flows.
fn start(store: &mut DescriptorStore) -> (Child, OwnedFd) {
    let (of_child, ours) = store.connect().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "play_a_role", "--nocapture"]).env(ROLE, "killed");
    command.env(CHILD_ENVIRONMENT, "stdin").stdin(of_child).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.is_ok_and(|line| line.ends_with("ready"))));
    (child, ours)
}

/// What the next process reads.
fn read(regions: &mut Regions) -> Vec<FormerFlow> {
    let reader = FlowTable::new(&CAPACITY, &Secret([4; 64])).unwrap().reader();
    let opened = regions.open_arrays("flows", || reader.leak_arrays().to_vec()).unwrap();
    let former = FormerTable::of(&CAPACITY).unwrap();
    let words = opened.unwrap().1.unwrap().with_words(former.words()).unwrap();
    let mut all = Vec::new();
    let read = |array, first, into: &mut [u32]| words.read(array, first, into);
    assert!(former.read(0..u32::MAX, read, |reading| match reading {
        Reading::Flow(flow) => all.push(flow),
        Reading::Damaged => panic!("a line that no table writes"),
    }));
    all
}

#[test]
fn what_a_killed_process_leaves_is_whole() {
    let mut store = DescriptorStore::of("forwarder");
    // Moments without a pattern; the seed does not matter.
    let (mut random, mut most) = (0x2545_F491_4F6C_DD1D_u64, 0);
    for _ in 0..KILLS {
        let (mut child, ours) = start(&mut store);
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        std::thread::sleep(Duration::from_micros(random % 3_000));
        child.kill().unwrap();
        child.wait().unwrap();
        while store.receive(ours.as_fd()) == Taken::Part {}
        let (of_child, _ours) = store.connect().unwrap();
        let all = read(&mut Regions::of_child(of_child));
        for number in 0..LASTING {
            assert!(all.iter().any(|it| it.key == key(number)), "flow {number} is there");
        }
        // One may be in the making, and one may have left the index but not the table.
        assert!(all.len() <= LASTING as usize + 9, "{}", all.len());
        most = most.max(all.len());
        for found in all {
            let number = found.past.start;
            let expected = flow(number);
            assert_eq!((found.key, found.reply_key), (expected.key, expected.reply_key));
            assert_eq!((found.class, found.flags), (expected.class, expected.flags));
            assert_eq!((found.tcp, found.zone_pair), (expected.tcp, expected.zone_pair));
            assert_eq!((found.owner, found.past.seen), (5, number));
            let [passed, answered] = found.past.counters;
            // What it counts comes later.
            assert!([0, u64::from(number)].contains(&passed.packets), "{passed:?}");
            assert!([0, u64::from(number)].contains(&passed.bytes), "{passed:?}");
            assert_eq!(answered.packets, 0);
        }
    }
    assert!(most > LASTING as usize, "it was killed while it had more");
}
