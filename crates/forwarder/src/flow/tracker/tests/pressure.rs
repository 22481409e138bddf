//! Flows under pressure: who gives way.

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
    const CAPACITY: u32 = 128;
    // UDP has five minutes and pings have one: all of the flood would expire later.
    for age in [0, 2, 10, 59] {
        let mut all = Pressed::new(CAPACITY);
        all.flood(0..3 * CAPACITY);
        all.pass(age);
        let ping = from(1, 9, protocol::ICMP4);
        assert_eq!(all.create(ping), Opened::New);
        all.flood(500..500 + CAPACITY / 2);
        assert!(all.follow(ping.reversed(), protocol::ICMP4), "{age}");
        // It is answered now: all others go first.
        all.flood(1000..1000 + 5 * CAPACITY);
        all.pass(5);
        all.flood(5000..5000 + CAPACITY);
        assert!(all.follow(ping.reversed(), protocol::ICMP4), "{age}");
        assert_eq!(all.flows.sums(true).refused, 0);
    }
}

#[test]
fn answered_udp_outlives_a_flood() {
    let mut all = Pressed::new(128);
    let asked: Vec<FlowKey> = (0..20).map(|host| from(host, 53, protocol::UDP)).collect();
    for key in &asked {
        assert_eq!(all.create(*key), Opened::New);
        assert!(all.follow(key.reversed(), protocol::UDP));
    }
    for second in 0..100 {
        all.flood(second * 50..second * 50 + 50);
        all.pass(1);
    }
    assert!(asked.iter().all(|key| all.follow(*key, protocol::UDP)));
}
