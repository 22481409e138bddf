//! Many flows at once, with all that they use.

use std::sync::Arc;

use stoa_engine::clock;
use stoa_engine::quiescence::Quiescence;
use stoa_tables::flow_hash::Flow;
use stoa_tables::flow_table::{FlowCapacity, FlowKey, FlowTable, NewFlow, Secret};
use stoa_tables::lpm::Kernel;
use stoa_warm_restart::{DescriptorStore, FormerArrays, Regions, Taken};

use super::head::Names;
use super::*;
use crate::acl::Policy;
use crate::flow::flows::{Flows, Sizes};
use crate::flow::timeouts::Class;
use crate::nat::quotas::Quota;
use crate::nat::{Nat, NatWorker};

/// The number of the policy of all flows.
const NUMBER: u32 = 77;
/// Flows of a run; `STOA_TEST_FLOWS` has another number.
const FLOWS: u32 = 3_000;

fn flow(number: u32) -> NewFlow {
    let (source, destination) = (0x0a00_0000 + number / 16, 0xc633_6401);
    let (source_port, destination_port, protocol) = (4000 + number as u16 % 16, 53, 17);
    let key = Flow { source, destination, source_port, destination_port, protocol };
    let (source, destination) = (destination, 0xcb00_7100 + number / 60_000);
    let (source_port, destination_port) = (53, 2000 + (number % 60_000) as u16);
    let reply = Flow { source, destination, source_port, destination_port, protocol };
    let class = Class::UdpReplied as u8;
    NewFlow { class, flags: 1, ..NewFlow::new(FlowKey::ip4(key, 0), Some(FlowKey::ip4(reply, 0))) }
}

/// The memory of a process that had so many flows, with mappings.
fn former(store: &mut DescriptorStore, count: u32, names: &Names) -> FormerArrays {
    let four = FlowCapacity { ip4: 8, translated_ip4: count, ..FlowCapacity::default() };
    let six = FlowCapacity { ip6: 8, ..FlowCapacity::default() };
    let [mut table, other] =
        [&four, &six].map(|capacity| FlowTable::new(capacity, &Secret([1; 64])).unwrap());
    let readers = [table.reader(), other.reader()];
    let (of_child, ours) = store.connect().unwrap();
    let mut regions = Regions::of_child(of_child);
    let cells = || readers.iter().flat_map(|it| it.leak_arrays()).collect();
    let (arrays, _) = regions.open_arrays("flows", cells).unwrap().unwrap();
    head::write(&arrays, [&four, &six]).unwrap();
    head::write_names(&arrays, names).unwrap();
    let now = (clock::duration(clock::tsc()).as_millis() / 1000) as u32;
    let mut owner = table.owner(0, now).unwrap();
    for number in 0..count {
        owner.create(&flow(number), now, now + 9).unwrap();
        let id = readers[0].find(&flow(number).key).id().unwrap();
        owner.entry(id).set_spare(0, NUMBER);
        // The number of the mapping in that process: it says that there was one.
        owner.entry(id).set_spare(1, 1 + number);
    }
    arrays.hold();
    while store.receive(&ours) == Taken::Part {}
    let (of_child, _ours) = store.connect().unwrap();
    let other = FlowTable::new(&six, &Secret([2; 64])).unwrap().reader();
    let mut regions = Regions::of_child(of_child);
    let opened = regions.open_arrays("flows", || other.leak_arrays().to_vec());
    opened.unwrap().unwrap().1.unwrap()
}

/// Stateful rules and translation.
const RULES: Policy = Policy {
    epoch: 1,
    has_outputs: false,
    is_stateful: true,
    has_nat: true,
    is_bare: true,
    has_algs: false,
};

/// `STOA_TEST_FLOWS=1000000 cargo test --release -p stoa-forwarder many_flows -- --nocapture` prints the time.
#[test]
fn many_flows_are_adopted_at_once() {
    let count = std::env::var("STOA_TEST_FLOWS").map_or(FLOWS, |it| it.parse().unwrap());
    let mut names = Names::default();
    names.add_vrf(0, "");
    let mut store = DescriptorStore::of("forwarder");
    let former = former(&mut store, count, &names);
    let sizes = Sizes { ip4: 64, ip6: 64, translated: count, mappings: count };
    let flows = Arc::new(Flows::new(sizes, Kernel::Bits, 1, &Quiescence::new(1)).unwrap());
    assert!(flows.mappings().quotas().prepare());
    let quota = Quota { policy: 1, ports: [None, Some(4), None, None] };
    let policy = crate::nat::Policy {
        number: NUMBER,
        instance: 1,
        interface: 1,
        subscribers: Vec::new(),
        exempt: Vec::new(),
        pools: Vec::new(),
        ports: (1024, u16::MAX),
        mapping: crate::nat::Mapping::EndpointIndependent,
        filtering: crate::nat::Filtering::Address,
        allocation: crate::nat::Allocation::Ports,
        quota: Some(quota),
        is_silent: false,
        is_nat64: false,
        algs: Vec::new(),
        counts: Arc::default(),
    };
    let nat = Nat { policies: vec![policy], numbers: vec![NUMBER], ..Nat::default() };
    let (mut tracker, mut worker) = (flows.tracker(0).unwrap(), NatWorker::new(&flows, 0));
    let now = flows.now(clock::tsc());
    let former = FormerFlows::of(former, names, now.tick).unwrap();
    let begin = Instant::now();
    let request = Request::new(former, begin + 10 * PATIENCE);
    adopt(&request, (&*flows, &nat, Some(RULES)), (&mut tracker, &mut worker), (1, now));
    println!("{count} flows in {:?}", begin.elapsed());
    let sums = flows.sums(true);
    assert_eq!(
        (sums.adopted, sums.left_out),
        (count.into(), 0),
        "{:?}",
        flows.adoption().left_out()
    );
    let live = (flows.translated(), flows.mappings().live());
    assert_eq!(live, (count, count));
    let subscribers = flows.mappings().quotas().subscribers(1);
    assert_eq!(subscribers, u64::from(count.div_ceil(16)));
    // Both keys of each lead to it, and it holds its mapping.
    for number in (0..count).step_by(97) {
        let NewFlow { key, reply_key, .. } = flow(number);
        let found = flows.reader(true).find(&reply_key.unwrap()).id();
        assert!(found.is_some() && found == flows.reader(true).find(&key).id(), "{number}");
    }
    assert!(flows.mappings().listed(0..count).all(|it| it.flows == 1));
    // Nothing is held once they are over.
    let selection = crate::flow::selection::Selection::default();
    flows.clear_selected(&selection);
    while !flows.is_clear() {
        tracker.maintain(now);
    }
    assert_eq!((flows.translated(), flows.live(true)), (0, 0));
    assert!(flows.mappings().listed(0..count).all(|it| it.flows == 0));
}

#[test]
fn late_flows_are_left_out() {
    let mut names = Names::default();
    names.add_vrf(0, "");
    let mut store = DescriptorStore::of("forwarder");
    let former = former(&mut store, 10, &names);
    let former = FormerFlows::of(former, names, 1).unwrap();
    let sizes = Sizes { ip4: 64, ip6: 64, translated: 64, mappings: 64 };
    let flows = Arc::new(Flows::new(sizes, Kernel::Bits, 1, &Quiescence::new(1)).unwrap());
    let (mut tracker, mut worker) = (flows.tracker(0).unwrap(), NatWorker::new(&flows, 0));
    let (now, nat) = (flows.now(clock::tsc()), Nat::default());
    let request = Request::new(former, Instant::now() + PATIENCE);
    // The control thread does not wait any longer.
    request.is_over.store(true, Ordering::Relaxed);
    adopt(&request, (&*flows, &nat, Some(RULES)), (&mut tracker, &mut worker), (1, now));
    let sums = flows.sums(true);
    assert_eq!((sums.adopted, sums.left_out), (0, 1));
    assert!(flows.adoption().left_out().contains(&(LeftOut::Late, 1)));
    // One that ends behind the others leaves nothing to do.
    flows.adoption().note_done();
    assert!(!flows.adoption().is_pending());
}
