//! The table compared with a list of all routes, as the kernel has them.

use proptest::prelude::*;

use super::*;
use crate::linux::message::route::Action as RouteAction;

/// A change in the kernel.
#[derive(Clone, Debug)]
enum Change {
    Add {
        number: u8,
        metric: u32,
        device: u32,
    },
    Replace {
        number: u8,
        metric: u32,
        device: u32,
    },
    Remove {
        number: u8,
        metric: u32,
    },
    /// Routes through a device were removed without notification.
    Miss {
        device: u32,
    },
    TableHandle,
}

fn change() -> impl Strategy<Value = Change> {
    let (number, metric, device) = (0..6_u8, 0..3_u32, 1..4_u32);
    prop_oneof![
        3 => (number.clone(), metric.clone(), device.clone())
            .prop_map(|(number, metric, device)| Change::Add { number, metric, device }),
        2 => (number.clone(), metric.clone(), device.clone())
            .prop_map(|(number, metric, device)| Change::Replace { number, metric, device }),
        3 => (number, metric).prop_map(|(number, metric)| Change::Remove { number, metric }),
        1 => device.prop_map(|device| Change::Miss { device }),
        1 => Just(Change::TableHandle),
    ]
}

fn prefix(number: u8) -> Prefix {
    Prefix { is_ip6: number % 2 == 1, bits: u128::from(number) << 8, length: 24 }
}

fn route(number: u8, metric: u32, device: u32) -> Route<'static> {
    let next_hop = NextHop { device, gateway: None, weight: 1 };
    Route {
        prefix: prefix(number),
        table: 254,
        protocol: 186,
        metric,
        has_service: false,
        action: RouteAction::NextHop(Some(next_hop)),
    }
}

/// All routes in the kernel's order of preference: prefix, metric, order of addition.
type Model = BTreeMap<(u8, u32), Vec<u32>>;

fn best(model: &Model, number: u8) -> Option<u32> {
    model.range((number, 0)..=(number, u32::MAX)).next().map(|(_, devices)| devices[0])
}

fn assert_matches(table: &Table, model: &Model) {
    for number in 0..6 {
        let best_device = table.best(&prefix(number)).map(|best| match best.meaning {
            KernelTarget::NextHops([next_hop]) => next_hop.device,
            other => panic!("{other:?}"),
        });
        assert_eq!(best_device, best(model, number), "prefix {number} of {model:?}");
    }
}

fn dump(table: &mut Table, model: &Model) {
    table.begin_dump();
    for ((number, metric), devices) in model {
        for device in devices {
            table.observe(&route(*number, *metric, *device), Observation::Dumped);
        }
    }
    table.complete_dump();
}

proptest! {
    /// The table matches the kernel or knows that it is ambiguous; after a dump it always matches.
    #[test]
    fn the_table_matches_the_kernel(changes in proptest::collection::vec(change(), 1..60)) {
        let (mut table, mut model, mut has_missed) = (Table::default(), Model::new(), false);
        for change in changes {
            match change {
                Change::Add { number, metric, device } => {
                    // Another one with the same metric: the kernel has both.
                    let devices = model.entry((number, metric)).or_default();
                    if devices.contains(&device) {
                        continue;
                    }
                    devices.push(device);
                    table.observe(&route(number, metric, device), Observation::Added { replaces: false });
                }
                Change::Replace { number, metric, device } => {
                    let devices = model.entry((number, metric)).or_default();
                    if devices.contains(&device) {
                        continue;
                    }
                    match devices.first_mut() {
                        Some(first) => *first = device,
                        None => devices.push(device),
                    }
                    table.observe(&route(number, metric, device), Observation::Added { replaces: true });
                }
                Change::Remove { number, metric } => {
                    let Some(devices) = model.get_mut(&(number, metric)) else { continue };
                    let device = devices.remove(0);
                    if devices.is_empty() {
                        model.remove(&(number, metric));
                    }
                    table.observe(&route(number, metric, device), Observation::Deleted);
                }
                Change::Miss { device } => {
                    model.values_mut().for_each(|devices| devices.retain(|it| *it != device));
                    model.retain(|_, devices| !devices.is_empty());
                    has_missed = true;
                }
                Change::TableHandle => {
                    dump(&mut table, &model);
                    has_missed = false;
                    prop_assert!(!table.is_ambiguous());
                }
            }
            if !has_missed && !table.is_ambiguous() {
                assert_matches(&table, &model);
            }
        }
        dump(&mut table, &model);
        assert_matches(&table, &model);
        prop_assert_eq!(table.len(), (0..6).filter(|it| best(&model, *it).is_some()).count());
        dump(&mut table, &Model::new());
        prop_assert!(table.is_empty() && table.actions.indices.is_empty(), "all actions are released");
    }
}

#[test]
fn one_ipv6_next_hop_of_several_is_deleted() {
    let next_hop = |device: u16| {
        let mut bytes = 8_u16.to_ne_bytes().to_vec();
        bytes.extend([0, 0]);
        bytes.extend(u32::from(device).to_ne_bytes());
        bytes
    };
    let both = [next_hop(1), next_hop(2)].concat();
    let mut whole = route(1, 5, 1);
    whole.action = RouteAction::Multipath(&both);
    let mut table = Table::default();
    assert!(table.observe(&whole, Observation::Added { replaces: false }));
    assert!(table.observe(&route(1, 5, 1), Observation::Deleted));
    let Some(BestRoute { meaning: KernelTarget::NextHops([left]), .. }) = table.best(&prefix(1))
    else {
        panic!("{table:?}")
    };
    assert_eq!(left.device, 2);
    assert!(table.observe(&route(1, 5, 2), Observation::Deleted));
    assert!(table.is_empty());
}

#[test]
fn the_link_local_network_of_each_device_is_no_change() {
    let mut table = Table::default();
    let mut changes = Vec::new();
    for _ in 0..3 {
        table.begin_dump();
        let mut observe =
            |device| u32::from(table.observe(&route(1, 256, device), Observation::Dumped));
        changes.push((1..4).map(&mut observe).sum::<u32>());
        assert!(table.complete_dump().is_empty());
    }
    assert_eq!(changes, [1, 0, 0]);
    assert!(!table.is_ambiguous());
}

#[test]
fn the_next_best_takes_over() {
    let mut table = Table::default();
    assert!(table.observe(&route(0, 20, 1), Observation::Added { replaces: false }));
    assert!(
        !table.observe(&route(0, 30, 2), Observation::Added { replaces: false }),
        "it is not the best"
    );
    assert!(table.observe(&route(0, 10, 3), Observation::Added { replaces: false }));
    assert!(!table.observe(&route(0, 20, 1), Observation::Deleted));
    assert!(table.observe(&route(0, 10, 3), Observation::Deleted));
    let best = table.best(&prefix(0)).unwrap();
    assert!(matches!(best.meaning, KernelTarget::NextHops([next_hop]) if next_hop.device == 2));
}
