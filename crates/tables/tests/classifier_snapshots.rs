//! Snapshots of a classifier see their own rules, whatever changes later, and keep no memory once they are dropped.

use proptest::prelude::*;
use stoa_tables::Reclaim;
use stoa_tables::classifier::{
    Classifier, ClassifierCapacity, ClassifierReader, FlowState, Fragment, Ip4Columns, Key, LANES,
    NO_RULE, Prefix, Range, Rule,
};

/// Rules by their rank, which is their id, too: a source prefix and a destination port.
type Model = Vec<(u32, Rule)>;

#[derive(Clone, Debug)]
enum Step {
    Insert(Rule),
    Remove(prop::sample::Index),
    Rebuild,
    Publish,
    /// Takes a snapshot.
    Take,
    /// Drops one.
    Drop(prop::sample::Index),
}

fn rule() -> impl Strategy<Value = Rule> {
    let port = prop_oneof![Just(Range::ANY), (0..4_u16).prop_map(Range::one)];
    (0..8_u32, 0..=3_u8, port).prop_map(|(byte, bits, destination_ports)| {
        let len = 29 + bits;
        let address = byte & (u32::MAX << (32 - u32::from(len)));
        let source = Some(Prefix::Ip4 { address, len });
        let is_any = destination_ports == Range::ANY;
        Rule { source, destination_ports, protocol: (!is_any).then_some(17), ..Rule::default() }
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => rule().prop_map(Step::Insert),
        4 => any::<prop::sample::Index>().prop_map(Step::Remove),
        1 => Just(Step::Rebuild),
        1 => Just(Step::Publish),
        4 => Just(Step::Take),
        3 => any::<prop::sample::Index>().prop_map(Step::Drop),
    ]
}

fn walk(model: &Model, source: u32, port: u16) -> u32 {
    let meets = |(_, rule): &&(u32, Rule)| {
        let Some(Prefix::Ip4 { address, len }) = rule.source else { return false };
        let ports = rule.destination_ports;
        (source ^ address) >> (32 - u32::from(len)) == 0
            && (ports.first..=ports.last).contains(&port)
    };
    model.iter().filter(meets).map(|(id, _)| *id).min().unwrap_or(NO_RULE)
}

fn udp(source: u32, destination_port: u16) -> Key<u32> {
    Key {
        source,
        destination: 0,
        protocol: 17,
        source_port: 9,
        destination_port,
        tcp_flags: 0,
        dscp: 0,
        fragment: Fragment::No,
        length: 64,
        interface: 0,
        output: 0,
        vlan: 0,
        state: FlowState::New,
    }
}

/// A snapshot has the rules of its model, for all packets that there are.
fn check(reader: &ClassifierReader, model: &Model) -> Result<(), TestCaseError> {
    let mut columns = Ip4Columns::default();
    let packet = |lane: usize| (lane as u32 % 8, lane as u16 / 8);
    for lane in 0..LANES {
        let (source, destination_port) = packet(lane);
        columns.set(lane, &udp(source, destination_port));
    }
    let mut ids = [0; LANES];
    reader.lookup_ip4(&columns, LANES, &mut ids);
    for (lane, id) in ids.into_iter().enumerate() {
        let (source, port) = packet(lane);
        prop_assert_eq!(id, walk(model, source, port), "source {} port {}", source, port);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 128 }))]
    #[test]
    fn snapshots_keep_their_rules(
        rules in prop::collection::vec(rule(), 0..if cfg!(miri) { 10 } else { 100 }),
        steps in prop::collection::vec(step(), 0..if cfg!(miri) { 20 } else { 120 }),
    ) {
        let mut model: Model = (0..).zip(rules).collect();
        let mut classifier = Classifier::new(ClassifierCapacity::for_rules(300)).unwrap();
        classifier.replace_all(model.iter().map(|(id, rule)| (*id, *id, *rule))).unwrap();
        let mut snapshots = vec![(classifier.snapshot(), model.clone())];
        let mut next = model.len() as u32;
        for step in steps {
            match step {
                Step::Insert(rule) => {
                    classifier.insert(next, next, &rule).unwrap();
                    model.push((next, rule));
                    next += 1;
                }
                Step::Remove(at) if !model.is_empty() => {
                    let (id, _) = model.remove(at.index(model.len()));
                    classifier.remove(id).unwrap();
                }
                Step::Rebuild => classifier.rebuild().unwrap(),
                Step::Publish => classifier.publish(),
                Step::Take => snapshots.push((classifier.snapshot(), model.clone())),
                Step::Drop(at) if !snapshots.is_empty() => {
                    snapshots.swap_remove(at.index(snapshots.len()));
                }
                Step::Remove(_) | Step::Drop(_) => {}
            }
            for (reader, model) in &snapshots {
                check(reader, model)?;
            }
        }
        snapshots.clear();
        model.iter().for_each(|(id, _)| classifier.remove(*id).unwrap());
        classifier.rebuild().unwrap();
        classifier.publish();
        prop_assert_eq!(classifier.pending(), 0);
        prop_assert_eq!(classifier.memory().lookup_bytes, 0, "memory was lost");
    }
}

/// Each change has a snapshot, and the former one is dropped: memory is used again.
#[test]
fn replaced_snapshots_take_bounded_memory() {
    let rule = |at: u32| Rule {
        source: Some(Prefix::Ip4 { address: at << 8, len: 24 }),
        ..Rule::default()
    };
    let mut classifier = Classifier::new(ClassifierCapacity::for_rules(2_000)).unwrap();
    classifier.replace_all((0..1_000).map(|at| (at, at, rule(at)))).unwrap();
    let mut snapshot = classifier.snapshot();
    let mut touched = 0;
    let rounds = if cfg!(miri) { 10 } else { 5_000 };
    for round in 0..rounds {
        classifier.replace(round % 1_000, round % 1_000, &rule(round)).unwrap();
        snapshot = classifier.snapshot();
        if round == rounds / 10 {
            touched = classifier.memory().touched_bytes;
        }
    }
    let now = classifier.memory().touched_bytes;
    assert!(now < touched + touched / 2, "{touched} bytes became {now}");
    drop(snapshot);
}
