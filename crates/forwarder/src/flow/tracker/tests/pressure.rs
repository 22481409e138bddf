//! Flows under pressure: who gives way, and sources at their limit.

use super::*;

/// A key of a protocol from one of many hosts.
fn from(host: u32, port: u16, protocol: u8) -> FlowKey {
    let (source, destination) = (0x0a00_0000 + host, 0xc000_0201);
    let (source_port, destination_port) = (port, 53);
    FlowKey::ip4(Flow { source, destination, source_port, destination_port, protocol }, 0)
}

fn of(protocol: u8) -> Seen<'static> {
    Seen { bytes: &[], kind: Kind(protocol.into()), place: Place(100) }
}

struct Pressed {
    flows: Arc<Flows>,
    tracker: FlowTracker,
    now: Now,
}

impl Pressed {
    fn new(capacity: u32) -> Self {
        let (flows, tracker) = flows(capacity);
        let now = Now { tick: flows.now(stoa_engine::clock::tsc()).tick, ms: 0 };
        Self { flows, tracker, now }
    }

    fn create(&mut self, key: FlowKey) -> Opened {
        let FlowKey { tuple: stoa_tables::flow_table::Tuple::Ip4(flow), .. } = key else {
            panic!("IPv4")
        };
        let side = self.tracker.of(true);
        side.begin();
        side.create(key, &of(flow.protocol), ADMITTED, self.now)
    }

    /// A further packet; whether it has a flow.
    fn follow(&mut self, key: FlowKey, protocol: u8) -> bool {
        let side = self.tracker.of(true);
        let found = side.find(&key).and_then(|found| Some((found.id()?, found.direction())));
        found.is_some_and(|found| {
            let followed = side.follow(found, &of(protocol), (self.now, 1));
            matches!(followed, Followed::Pass { .. })
        })
    }

    /// So many new flows of UDP, each of another host and never answered.
    fn flood(&mut self, hosts: std::ops::Range<u32>) {
        for host in hosts {
            assert_eq!(self.create(from(1000 + host, 7, protocol::UDP)), Opened::New, "{host}");
        }
    }

    fn pass(&mut self, seconds: u32) {
        for _ in 0..seconds {
            self.now.tick = self.now.tick.wrapping_add(1);
            while self.tracker.maintain(self.now) {}
        }
    }
}

#[test]
fn a_flood_waits_for_answers_to_others() {
    // In an index of a few buckets only, a key may find no room by chance before all ids are used.
    const CAPACITY: u32 = 4096;
    // UDP has five minutes and pings have one: all of the flood would expire later.
    for age in [0, 2, 10, 59] {
        let mut all = Pressed::new(CAPACITY);
        all.flood(0..3 * CAPACITY);
        all.pass(age);
        let ping = from(1, 9, protocol::ICMP4);
        assert_eq!(all.create(ping), Opened::New);
        all.flood(20_000..20_000 + CAPACITY / 2);
        assert!(all.follow(ping.reversed(), protocol::ICMP4), "{age}");
        // It is answered now: all others go first.
        all.flood(30_000..30_000 + 5 * CAPACITY);
        all.pass(5);
        all.flood(60_000..60_000 + CAPACITY);
        assert!(all.follow(ping.reversed(), protocol::ICMP4), "{age}");
        assert_eq!(all.flows.sums(true).refused, 0);
    }
}

#[test]
fn answered_udp_outlives_a_flood() {
    let mut all = Pressed::new(1024);
    let asked: Vec<FlowKey> = (0..20).map(|host| from(host, 53, protocol::UDP)).collect();
    for key in &asked {
        assert_eq!(all.create(*key), Opened::New);
        assert!(all.follow(key.reversed(), protocol::UDP));
    }
    for second in 0..100 {
        all.flood(second * 400..second * 400 + 400);
        all.pass(1);
    }
    assert!(asked.iter().all(|key| all.follow(*key, protocol::UDP)));
}

#[test]
fn a_source_at_its_limit_is_refused_alone() {
    let mut all = Pressed::new(8192);
    assert_eq!([true, false].map(|is_ip4| all.flows.source_limit(is_ip4)), [512; 2]);
    let of_one = |port| from(1, port, protocol::UDP);
    for port in 0..600 {
        let opened = all.create(of_one(port));
        let limited = Opened::Drop(Drop::FlowSourceLimit);
        assert_eq!(opened, if port < 512 { Opened::New } else { limited }, "{port}");
    }
    let sums = all.flows.sums(true);
    assert_eq!((sums.created, sums.source_limited, sums.refused), (512, 88, 0));
    // Its flows go on, and so do other sources.
    assert!(all.follow(of_one(511), protocol::UDP));
    assert!(matches!(all.create(of_one(0)), Opened::Existing(_)));
    // One in a thousand shares its counter by chance.
    let others = (2..52).filter(|host| all.create(from(*host, 7, protocol::UDP)) == Opened::New);
    assert!(others.count() > 40);
    // When flows end, it may begin others.
    all.pass(301);
    assert_eq!(all.flows.live(true), 0);
    assert_eq!(all.create(of_one(600)), Opened::New);
    all.flows.limit_sources(true, Some(1));
    assert_eq!(all.create(of_one(601)), Opened::Drop(Drop::FlowSourceLimit));
    all.flows.clear();
    while all.tracker.maintain(all.now) {}
    assert_eq!(all.create(of_one(601)), Opened::New);
    // Evicted flows count no more.
    let mut all = Pressed::new(1024);
    all.flows.limit_sources(true, Some(16));
    for round in 0..20_u16 {
        let mut keys = (0..8).map(|port| of_one(round * 8 + port));
        assert!(keys.all(|key| all.create(key) == Opened::New), "{round}");
        all.flood(u32::from(round) * 1_600..u32::from(round) * 1_600 + 1_600);
    }
}

#[test]
fn the_default_share_is_enough_for_an_office() {
    for (capacity, share) in [(16, 256), (4096, 256), (65_536, 4096), (1 << 20, 65_536)] {
        let quiescence = Quiescence::new(1);
        let flows = Flows::new(
            crate::flow::flows::Sizes { ip4: capacity, ip6: 16, ..Default::default() },
            Kernel::Bits,
            1,
            &quiescence,
        )
        .unwrap();
        assert_eq!((flows.source_limit(true), flows.source_limit(false)), (share, 256));
    }
}
