//! The limit of flows of a source: counts that follow the flows, and who is a source.

use super::super::key::Canonical;
use super::*;

/// A limit that is often reached, and none.
pub(super) fn limit() -> impl Strategy<Value = u32> {
    prop_oneof![1..5_u32, Just(u32::MAX)]
}

impl Model {
    fn counter(&self, key: &FlowKey) -> usize {
        self.owner.memory.sources.of(&Canonical::new(key))
    }

    /// Flows that share the counter of the source of a key.
    pub(super) fn of_source(&self, key: &FlowKey) -> u32 {
        let counter = self.counter(key);
        let flows = self.flows.values().filter(|flow| self.counter(&flow.key) == counter);
        flows.count() as u32
    }

    /// Each counter has the flows of its sources.
    pub(super) fn check_sources(&self) {
        let mut expected: HashMap<usize, u32> = HashMap::new();
        for flow in self.flows.values() {
            *expected.entry(self.counter(&flow.key)).or_default() += 1;
        }
        for (counter, count) in self.owner.memory.sources.counts().enumerate() {
            assert_eq!(count, expected.get(&counter).copied().unwrap_or(0), "counter {counter}");
        }
        assert_eq!(self.table.counted_by_source(), self.flows.len() as u64);
    }
}

fn four(source: u32, port: u16, vrf: u16) -> FlowKey {
    let (destination, destination_port, protocol) = (9, 443, 6);
    FlowKey::ip4(Flow { source, destination, source_port: port, destination_port, protocol }, vrf)
}

fn six(source: u128, port: u16) -> FlowKey {
    let (destination, destination_port, protocol) = (9 << 64 | 9, 443, 6);
    FlowKey::ip6(Flow { source, destination, source_port: port, destination_port, protocol }, 0)
}

#[test]
fn a_source_at_its_limit_keeps_no_other_one_out() {
    let capacity = FlowCapacity { ip4: 64, ip6: 64, ..FlowCapacity::default() };
    let mut table = FlowTable::new(&capacity, &secret(2)).unwrap();
    let [mut one, mut two] = [0, 1].map(|number| table.owner(number, 0).unwrap());
    assert_eq!(table.source_limit(), u32::MAX);
    table.limit_sources(3);
    let create = |owner: &mut FlowOwner, key| owner.create(&NewFlow::new(key, None), 0, 9);
    let refused = Err(FlowError::SourceLimit { limit: 3 });
    // Of all owners together, whichever end is the lower one.
    for (low, port) in [(1, 1), (1, 2), (1, 3), (700, 1), (700, 2), (700, 3)] {
        let owner = if port == 2 { &mut two } else { &mut one };
        assert!(matches!(create(owner, four(low, port, 0)), Ok(Created::New(_))), "{low} {port}");
    }
    assert_eq!(create(&mut one, four(1, 4, 0)), refused);
    assert_eq!(create(&mut two, four(700, 4, 0)), refused);
    // Flows that exist go on; another VRF is another source, and whom it asks is none.
    assert!(matches!(create(&mut one, four(1, 1, 0)), Ok(Created::Existing(_))));
    assert!(matches!(create(&mut one, four(1, 1, 0).reversed()), Ok(Created::Existing(_))));
    assert!(matches!(create(&mut one, four(1, 1, 1)), Ok(Created::New(_))));
    assert!(matches!(create(&mut one, four(9, 1, 0)), Ok(Created::New(_))));
    // A /64 is one source.
    for host in 0..3_u16 {
        let created = create(&mut one, six(5 << 64 | u128::from(host), host));
        assert!(matches!(created, Ok(Created::New(_))));
    }
    assert_eq!(create(&mut one, six(5 << 64 | 77, 1)), refused);
    assert!(matches!(create(&mut one, six(6 << 64 | 77, 1)), Ok(Created::New(_))));
    assert_eq!(table.counted_by_source(), 12);
    // So are addresses that stand for hosts of one network.
    let stand_in = |host: u32| four(GROUPED + (7 << GROUP_HOSTS) + host, 1, 0);
    let counter = |host| one.memory.sources.of(&Canonical::new(&stand_in(host)));
    assert!([1, (1 << GROUP_HOSTS) - 1].iter().all(|host| counter(*host) == counter(0)));
    assert_ne!(counter(0), counter(1 << GROUP_HOSTS));
    // What has ended makes room; a lower limit ends nothing.
    let first = table.reader().find(&four(1, 1, 0)).id().unwrap();
    assert!(two.remove(first).is_err());
    one.remove(first).unwrap();
    assert!(one.remove(first).is_err());
    assert!(matches!(create(&mut two, four(1, 5, 0)), Ok(Created::New(_))));
    assert_eq!(create(&mut two, four(1, 6, 0)), refused);
    table.limit_sources(1);
    assert_eq!((table.live(), table.counted_by_source()), (12, 12));
    for owner in [&mut one, &mut two] {
        owner.expire(100, &[10; 256], 99, |_| {});
    }
    assert_eq!((table.live(), table.counted_by_source()), (0, 0));
}

#[test]
#[cfg_attr(miri, ignore)]
fn neighbouring_sources_seldom_share_a_counter() {
    let capacity = FlowCapacity { ip4: 65_536, ..FlowCapacity::default() };
    let mut table = FlowTable::new(&capacity, &secret(8)).unwrap();
    let memory = table.owner(0, 0).unwrap().memory;
    let distinct = |keys: &mut dyn Iterator<Item = FlowKey>| {
        let counters = keys.map(|key| memory.sources.of(&Canonical::new(&key)));
        counters.collect::<std::collections::HashSet<_>>().len()
    };
    // 1024 balls in 16,384 bins meet about 31 times.
    let hosts = distinct(&mut (0..1024).map(|host| four(0x0a00_0000 + host, 1, 0)));
    let vrfs = distinct(&mut (0..1024).map(|vrf| four(0x0a00_0000, 1, vrf)));
    let networks = distinct(&mut (0..1024).map(|network| six(network << 64 | 1, 1)));
    for count in [hosts, vrfs, networks] {
        assert!((960..=1015).contains(&count), "{hosts} {vrfs} {networks}");
    }
}
