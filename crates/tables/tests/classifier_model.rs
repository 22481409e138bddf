//! The classifier against a linear walk over the rules, over random rules, changes and packets.

use proptest::prelude::*;
use stoa_tables::Reclaim;
use stoa_tables::classifier::{
    Classifier, ClassifierCapacity, ClassifierError, ClassifierLimit, FlowState, Fragment,
    Ip4Columns, Ip6Columns, Key, LANES, NO_RULE, Owner, Prefix, Range, RecentIp4Keys,
    RecentIp6Keys, Rule, RuleError, attributes, ports,
};
use stoa_tables::lpm::Kernel;

/// What a packet of either family has; the upper bits of an IPv6 address are those of an IPv4 address.
type Packet = Key<u128>;

/// Whether a packet meets a rule, read from the documentation of [`Rule`].
fn meets(rule: &Rule, packet: &Packet, is_ip6: bool) -> bool {
    let is_in = |prefix: Option<Prefix>, address: u128| match prefix {
        None => true,
        Some(Prefix::Ip4 { address: network, len }) => {
            !is_ip6
                && (0..u32::from(len)).all(|bit| (network ^ address as u32) >> (31 - bit) & 1 == 0)
        }
        Some(Prefix::Ip6 { address: network, len }) => {
            is_ip6 && (0..u32::from(len)).all(|bit| (network ^ address) >> (127 - bit) & 1 == 0)
        }
    };
    let is_within = |range: Range, number: u16| (range.first..=range.last).contains(&number);
    let needs_ports = [rule.source_ports, rule.destination_ports] != [Range::ANY; 2];
    let needs_first = needs_ports || rule.tcp_flags_mask != 0;
    let of_other_family = |prefix: Option<Prefix>| {
        prefix.is_some_and(|it| matches!(it, Prefix::Ip6 { .. }) != is_ip6)
    };
    is_in(rule.source, packet.source)
        && is_in(rule.destination, packet.destination)
        && !of_other_family(rule.source)
        && !of_other_family(rule.destination)
        && rule.protocol.is_none_or(|protocol| protocol == packet.protocol)
        && is_within(rule.source_ports, packet.source_port)
        && is_within(rule.destination_ports, packet.destination_port)
        && packet.tcp_flags & rule.tcp_flags_mask == rule.tcp_flags
        && rule.dscp.is_none_or(|dscp| dscp == packet.dscp)
        && rule.fragments & packet.fragment.bit() != 0
        && !(needs_first && packet.fragment == Fragment::Later)
        && is_within(rule.lengths, packet.length)
        && rule.interface.is_none_or(|interface| interface == packet.interface)
        && rule.output.is_none_or(|output| output == packet.output)
        && rule.vlan.is_none_or(|vlan| vlan == packet.vlan)
        && rule.states & packet.state.bit() != 0
}

/// Rules by rank and id; the first one that a packet meets.
fn walk(model: &[(u32, u32, Rule)], packet: &Packet, is_ip6: bool) -> u32 {
    let first =
        model.iter().filter(|(.., rule)| meets(rule, packet, is_ip6)).min_by_key(|it| (it.0, it.1));
    first.map_or(NO_RULE, |(_, id, _)| *id)
}

fn address() -> BoxedStrategy<u128> {
    // Few values, so that prefixes nest and packets meet them.
    let byte = || prop_oneof![Just(0_u8), Just(1), Just(0x80), Just(0xff), any::<u8>()];
    prop::array::uniform16(byte()).prop_map(u128::from_be_bytes).boxed()
}

fn prefix() -> BoxedStrategy<Option<Prefix>> {
    let lens = prop_oneof![Just(0_u8), Just(32), Just(128), 0..=128_u8];
    let some = (address(), lens, any::<bool>()).prop_map(|(address, len, is_ip6)| {
        if is_ip6 {
            let mask = u128::MAX.checked_shr(len.into()).unwrap_or(0);
            Prefix::Ip6 { address: address & !mask, len }
        } else {
            let len = len.min(32);
            let mask = u32::MAX.checked_shr(len.into()).unwrap_or(0);
            Prefix::Ip4 { address: address as u32 & !mask, len }
        }
    });
    prop_oneof![1 => Just(None), 2 => some.prop_map(Some)].boxed()
}

fn number() -> impl Strategy<Value = u16> {
    prop_oneof![
        Just(0_u16),
        Just(1023),
        Just(1024),
        Just(443),
        Just(u16::MAX),
        0..200_u16,
        any::<u16>()
    ]
}

fn range() -> impl Strategy<Value = Range> {
    prop_oneof![
        2 => Just(Range::ANY),
        1 => number().prop_map(Range::one),
        1 => (number(), number()).prop_map(|(one, other)| Range {
            first: one.min(other),
            last: one.max(other),
        }),
    ]
}

prop_compose! {
    fn any_rule()(
        source in prefix(), destination in prefix(),
        protocol in prop::option::of(prop_oneof![Just(6_u8), Just(17), Just(1), any::<u8>()]),
        source_ports in range(), destination_ports in range(),
        (tcp_flags, tcp_flags_mask) in (any::<u8>(), prop_oneof![3 => Just(0_u8), 1 => any::<u8>()]),
        dscp in prop::option::weighted(0.1, 0..64_u8),
        fragments in prop_oneof![3 => Just(7_u8), 1 => 1..8_u8],
        lengths in prop_oneof![3 => Just(Range::ANY), 1 => range()],
        [interface, output, vlan] in prop::array::uniform3(prop::option::weighted(0.1, 0..4_u16)),
        states in prop_oneof![3 => Just(31_u8), 1 => 1..32_u8],
    ) -> Rule {
        let ports = |range: Range| if protocol.is_none() { Range::ANY } else { range };
        let tcp_flags_mask = if protocol == Some(6) { tcp_flags_mask } else { 0 };
        // A rule that no packet can meet is refused.
        let is_ip6 = |prefix: Option<Prefix>| prefix.map(|it| matches!(it, Prefix::Ip6 { .. }));
        let is_mixed = source.is_some() && is_ip6(source) != is_ip6(destination);
        let destination = if is_mixed { None } else { destination };
        // Later fragments have neither ports nor TCP flags.
        let has_ports = [source_ports, destination_ports] != [Range::ANY; 2] || tcp_flags_mask != 0;
        let fragments = if has_ports { fragments | Fragment::No.bit() } else { fragments };
        Rule {
            source, destination, protocol,
            source_ports: ports(source_ports), destination_ports: ports(destination_ports),
            tcp_flags: tcp_flags & tcp_flags_mask, tcp_flags_mask,
            dscp, fragments, lengths, interface, output, vlan, states,
        }
    }
}

/// On the heap: hundreds of rules with all that they can shrink to do not fit on a test's stack.
fn rule() -> BoxedStrategy<Rule> {
    any_rule().boxed()
}

/// A packet that meets a rule's prefixes and more of it as `bits` are set.
fn packet_near(rule: &Rule, address: [u128; 2], bits: u32, numbers: [u16; 2]) -> Packet {
    let inside = |prefix: Option<Prefix>, address: u128| match prefix {
        Some(Prefix::Ip4 { address: network, len }) if bits & 1 == 0 => {
            u128::from(network | address as u32 & u32::MAX.checked_shr(len.into()).unwrap_or(0))
        }
        Some(Prefix::Ip6 { address: network, len }) if bits & 1 == 0 => {
            network | address & u128::MAX.checked_shr(len.into()).unwrap_or(0)
        }
        _ => address,
    };
    let fragments = [Fragment::No, Fragment::No, Fragment::First, Fragment::Later];
    use FlowState::{Established, Invalid, New, Related, Untracked};
    let states = [Untracked, New, Established, Related, Invalid];
    let port = |range: Range, number: u16| {
        [range.first, range.last, range.last.saturating_add(1), number][(bits >> 1 & 3) as usize]
    };
    Packet {
        source: inside(rule.source, address[0]),
        destination: inside(rule.destination, address[1]),
        protocol: if bits & 8 == 0 { rule.protocol.unwrap_or(17) } else { 6 },
        source_port: port(rule.source_ports, numbers[0]),
        destination_port: port(rule.destination_ports, numbers[1]),
        tcp_flags: if bits & 16 == 0 { rule.tcp_flags } else { (bits >> 24) as u8 },
        dscp: rule.dscp.filter(|_| bits & 32 == 0).unwrap_or(numbers[1] as u8 % 64),
        fragment: fragments[(bits >> 6 & 3) as usize],
        length: port(rule.lengths, numbers[0]),
        interface: rule.interface.filter(|_| bits & 256 == 0).unwrap_or(numbers[0] % 4),
        output: rule.output.filter(|_| bits & 1 << 13 == 0).unwrap_or(numbers[1] % 4),
        vlan: rule.vlan.filter(|_| bits & 512 == 0).unwrap_or(numbers[0] % 4),
        state: states[(bits >> 10 & 7) as usize % states.len()],
    }
}

/// All kernels agree with the walk for these packets, as both families; so do recent results.
fn agree(
    classifier: &Classifier,
    model: &[(u32, u32, Rule)],
    packets: &[Packet],
) -> Result<(), TestCaseError> {
    let (mut recent4, mut recent6) = (RecentIp4Keys::new(), RecentIp6Keys::new());
    let owner = |relevant| Owner { number: 1, relevant, rules: model.len() };
    let [bits4, bits6] = classifier.relevant_bits();
    for kernel in [Kernel::Scalar, Kernel::Avx2, Kernel::Avx512] {
        let Some(reader) = classifier.reader().with_kernel(kernel) else { continue };
        for packets in packets.chunks(LANES) {
            let (mut ip4, mut ip6) = (Ip4Columns::default(), Ip6Columns::default());
            for (lane, packet) in packets.iter().enumerate() {
                ip6.set(lane, packet);
                let Packet { protocol, source_port, destination_port, tcp_flags, .. } = *packet;
                let Packet { dscp, fragment, length, interface, output, vlan, .. } = *packet;
                let four = Key {
                    source: packet.source as u32,
                    destination: packet.destination as u32,
                    protocol,
                    source_port,
                    destination_port,
                    tcp_flags,
                    dscp,
                    fragment,
                    length,
                    interface,
                    output,
                    vlan,
                    state: packet.state,
                };
                ip4.set(lane, &four);
            }
            let mut ids = [[7; LANES]; 4];
            reader.lookup_ip4(&ip4, packets.len(), &mut ids[0]);
            reader.lookup_ip6(&ip6, packets.len(), &mut ids[1]);
            let lanes = packets.len();
            recent4.look_up(owner(&bits4), (&ip4, lanes), &mut ids[2], |keys, lanes, ids| {
                reader.lookup_ip4(keys, lanes, ids);
            });
            recent6.look_up(owner(&bits6), (&ip6, lanes), &mut ids[3], |keys, lanes, ids| {
                reader.lookup_ip6(keys, lanes, ids);
            });
            for (lane, packet) in packets.iter().enumerate() {
                for (is_ip6, ids) in [false, true, false, true].into_iter().zip(&ids) {
                    let expected = walk(model, packet, is_ip6);
                    prop_assert_eq!(ids[lane], expected, "{:?} {} {:?}", kernel, is_ip6, packet);
                }
            }
            prop_assert!(ids.iter().all(|ids| ids[packets.len()..].iter().all(|id| *id == 7)));
        }
    }
    Ok(())
}

#[derive(Clone, Debug)]
enum Change {
    Insert(u32, Rule),
    Remove(prop::sample::Index),
    Replace(prop::sample::Index, u32, Rule),
    Rebuild,
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => (0..1000_u32, rule()).prop_map(|(rank, rule)| Change::Insert(rank, rule)),
        3 => any::<prop::sample::Index>().prop_map(Change::Remove),
        2 => (any::<prop::sample::Index>(), 0..1000_u32, rule())
            .prop_map(|(at, rank, rule)| Change::Replace(at, rank, rule)),
        1 => Just(Change::Rebuild),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 32 }))]
    #[test]
    fn all_kernels_agree_with_a_linear_walk(
        rules in prop::collection::vec(rule(), 0..if cfg!(miri) { 20 } else { 300 }),
        changes in prop::collection::vec(change(), 0..if cfg!(miri) { 6 } else { 60 }),
        near in prop::collection::vec(
            (any::<prop::sample::Index>(), [address(), address()], any::<u32>(), [number(), number()]),
            if cfg!(miri) { 4 } else { 100 },
        ),
    ) {
        // Ranks in another order than ids, some of them equal.
        let rank = |id: usize| (id as u32 * 617) % 1000;
        let mut model: Vec<(u32, u32, Rule)> =
            rules.iter().enumerate().map(|(id, rule)| (rank(id), id as u32, *rule)).collect();
        let mut classifier = Classifier::new(ClassifierCapacity::for_rules(500)).unwrap();
        // A reader, so that what is replaced waits.
        let _reader = classifier.reader();
        classifier.replace_all(model.iter().map(|(rank, id, rule)| (*id, *rank, *rule))).unwrap();
        classifier.publish();
        let packets = |model: &[(u32, u32, Rule)]| -> Vec<Packet> {
            let near = near.iter().map(|(at, address, bits, numbers)| {
                let any = Rule::default();
                let rule = if model.is_empty() { &any } else { &at.get(model).2 };
                packet_near(rule, *address, *bits, *numbers)
            });
            near.collect()
        };
        agree(&classifier, &model, &packets(&model))?;
        let mut next = 1000;
        for (epoch, change) in changes.into_iter().enumerate() {
            match change {
                Change::Insert(rank, rule) => {
                    classifier.insert(next, rank, &rule).unwrap();
                    model.push((rank, next, rule));
                    next += 1;
                }
                Change::Remove(at) if !model.is_empty() => {
                    let (_, id, _) = model.swap_remove(at.index(model.len()));
                    classifier.remove(id).unwrap();
                }
                Change::Replace(at, rank, rule) if !model.is_empty() => {
                    let at = at.index(model.len());
                    classifier.replace(model[at].1, rank, &rule).unwrap();
                    (model[at].0, model[at].2) = (rank, rule);
                }
                Change::Rebuild => classifier.rebuild().unwrap(),
                _ => {}
            }
            classifier.publish();
            classifier.retire_mark(epoch as u64);
            classifier.reclaim(epoch as u64);
            prop_assert_eq!(classifier.pending(), 0);
            prop_assert_eq!(classifier.len(), model.len());
        }
        agree(&classifier, &model, &packets(&model))?;
        for (_, id, _) in model {
            classifier.remove(id).unwrap();
        }
        classifier.publish();
        classifier.retire_mark(1000);
        classifier.reclaim(1000);
        // Nodes remain until the next build.
        classifier.rebuild().unwrap();
        classifier.publish();
        classifier.retire_mark(1001);
        classifier.reclaim(1001);
        prop_assert_eq!(classifier.memory().lookup_bytes, 0, "memory was lost");
    }
}

#[test]
fn invalid_rules_are_refused() {
    let ip4 = |address: u32, len: u8| Some(Prefix::Ip4 { address, len });
    let ip6 = Some(Prefix::Ip6 { address: 1 << 127, len: 1 });
    let tcp = Rule { protocol: Some(6), ..Rule::default() };
    let port = Range::one(80);
    let wrong = [
        (Rule { source: ip4(1, 31), ..tcp }, RuleError::HostBitsSet),
        (Rule { source: ip4(1, 33), ..tcp }, RuleError::LengthOutOfRange(33)),
        (Rule { source: ip4(0, 0), destination: ip6, ..tcp }, RuleError::MixedFamilies),
        (
            Rule { lengths: Range { first: 2, last: 1 }, ..tcp },
            RuleError::UpsideDown { first: 2, last: 1 },
        ),
        (Rule { source_ports: port, protocol: None, ..tcp }, RuleError::PortsWithoutProtocol),
        (Rule { tcp_flags_mask: 2, protocol: Some(17), ..tcp }, RuleError::FlagsWithoutTcp),
        (Rule { tcp_flags: 2, ..tcp }, RuleError::FlagsBeyondMask),
        (Rule { dscp: Some(64), ..tcp }, RuleError::DscpOutOfRange(64)),
        (Rule { vlan: Some(4096), ..tcp }, RuleError::VlanOutOfRange(4096)),
        (Rule { states: 0, ..tcp }, RuleError::NothingMeets),
        (
            Rule { fragments: Fragment::Later.bit(), source_ports: port, ..tcp },
            RuleError::NothingMeets,
        ),
    ];
    let mut classifier = Classifier::new(ClassifierCapacity::for_rules(2)).unwrap();
    for (rule, error) in wrong {
        assert_eq!(classifier.insert(3, 0, &rule), Err(ClassifierError::Rule { id: 3, error }));
    }
    assert_eq!(classifier.insert(NO_RULE, 0, &tcp), Err(ClassifierError::IdOutOfRange));
    assert!(classifier.is_empty());
}

#[test]
fn limits_are_named_and_nothing_changes() {
    let rule =
        |port: u16| Rule { protocol: Some(6), source_ports: Range::one(port), ..Rule::default() };
    let mut classifier = Classifier::new(ClassifierCapacity::for_rules(2)).unwrap();
    assert_eq!(classifier.remove(1), Err(ClassifierError::Absent(1)));
    classifier.insert(1, 0, &rule(1)).unwrap();
    assert_eq!(classifier.insert(1, 0, &rule(1)), Err(ClassifierError::Present(1)));
    classifier.insert(2, 0, &rule(2)).unwrap();
    let full = Err(ClassifierError::Full(ClassifierLimit::Rules));
    assert_eq!(classifier.insert(3, 0, &rule(3)), full);
    assert_eq!(classifier.replace_all((0..3).map(|id| (id, 0, rule(4)))), full);
    assert_eq!((classifier.len(), classifier.get(2)), (2, Some((0, &rule(2)))));
    // Both families have a leaf of one block with five and seven lines: no third one fits.
    let capacity = ClassifierCapacity { rules: 9, lookup_bytes: 13 * 64 };
    let mut classifier = Classifier::new(capacity).unwrap();
    classifier.insert(1, 0, &rule(1)).unwrap();
    classifier.publish();
    let full = ClassifierError::Full(ClassifierLimit::LookupBytes);
    assert_eq!(classifier.insert(2, 0, &rule(2)), Err(full));
    assert_eq!((classifier.len(), classifier.memory().lookup_bytes), (1, 12 * 64));
    let text = full.to_string();
    assert!(text.contains("look-up memory"), "{text}");
}

#[test]
fn rules_that_nothing_tells_apart_take_bounded_memory() {
    let count = if cfg!(miri) { 40 } else { 3000 };
    // Ranges of lengths and ports that contain each other: no field of the key separates them.
    let rule = |at: u16| Rule {
        protocol: Some(17),
        lengths: Range { first: at, last: u16::MAX - at },
        source_ports: Range { first: at, last: u16::MAX - at },
        destination_ports: Range { first: at, last: u16::MAX - at },
        ..Rule::default()
    };
    let mut classifier = Classifier::new(ClassifierCapacity::for_rules(count)).unwrap();
    let rules = (0..count as u32).map(|id| (id, count as u32 - id, rule(id as u16)));
    classifier.replace_all(rules).unwrap();
    classifier.publish();
    assert!(classifier.memory().lookup_bytes < 2048 * count, "{:?}", classifier.memory());
    let mut keys = Ip4Columns::default();
    let attributes = attributes(17, 0, 0, Fragment::No, FlowState::New);
    let words = [1, 2, ports(33, 40_000), attributes, 0, 30];
    keys.0.iter_mut().zip(words).for_each(|(column, word)| column[0] = word);
    let mut ids = [0; LANES];
    classifier.reader().lookup_ip4(&keys, 1, &mut ids);
    // The greatest id has the smallest rank; lengths admit up to 30.
    assert_eq!(ids[0], 30);
}
