//! Items as bytes, and what is none.

use proptest::prelude::*;

use stoa_tables::flow_hash::Flow;

use super::*;

fn sent() -> impl Strategy<Value = SentKey> {
    let of_nat64 = |key| SentKey { key, is_nat64: true };
    prop_oneof![
        key(false).prop_map(SentKey::from),
        key(true).prop_map(SentKey::from),
        key(true).prop_map(of_nat64)
    ]
}

fn key(is_ip6: bool) -> impl Strategy<Value = FlowKey> {
    any::<([u128; 2], u16, u16, u8, u16)>().prop_map(move |(ends, from, to, kind, vrf)| {
        let protocol = if kind < 128 { protocol::TCP } else { kind };
        let [source, destination] = ends;
        let (source_port, destination_port) = (from, to);
        let six = Flow { source, destination, source_port, destination_port, protocol };
        let [source, destination] = ends.map(|it| it as u32);
        let four = Flow { source, destination, source_port, destination_port, protocol };
        if is_ip6 { FlowKey::ip6(six, vrf) } else { FlowKey::ip4(four, vrf) }
    })
}

fn record(now: u32) -> impl Strategy<Value = Record> {
    let keys = prop_oneof![
        (key(true), Just(None)),
        (key(false), Just(None)),
        (key(false), key(false).prop_map(Some)),
        (key(true), key(false).prop_map(Some)),
        (key(false), key(true).prop_map(Some))
    ];
    let rest = any::<([u8; 4], bool, [u32; TCP_WORDS], [u32; 2], [bool; 2], u32)>();
    (keys, rest).prop_map(move |((key, reply_key), rest)| {
        let ([class, flags, zone, owner], is_standby, mut tcp, ago, is, number) = rest;
        tcp[state_words(&key)..].fill(0);
        let seen = ago[0] % (SECONDS_MAX / 2);
        let start = seen + ago[1] % (SECONDS_MAX / 2);
        let past = Past {
            start: now.wrapping_sub(start),
            seen: now.wrapping_sub(seen),
            ..Past::default()
        };
        let id = |is: bool| is.then_some(0);
        let uses = Uses { number, mapping: id(is[0]), block: id(!is[0]), is_inbound: is[1] };
        let spare = if reply_key.is_some() { uses.words() } else { [0; 2] };
        let zone_pair = u16::from(zone) << 8;
        let flow = FormerFlow { key, reply_key, class, flags, owner, zone_pair, tcp, past, spare };
        Record { flow, is_standby }
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        now: u32, record in record(9), end in sent(), known in sent(), lacks_flows: bool,
        words in any::<[u64; 3]>(),
    ) {
        // Its times are those of another clock.
        let mut moved = record;
        let by = now.wrapping_sub(9);
        moved.flow.past.start = record.flow.past.start.wrapping_add(by);
        moved.flow.past.seen = record.flow.past.seen.wrapping_add(by);
        let mut names = Box::<Names>::default();
        names.words_mut().zip(words).for_each(|(to, word)| *to = word);
        let mut bytes = Vec::new();
        put_names(lacks_flows, &names, &mut bytes);
        put_flow(&record, 9, &mut bytes);
        put_alive(&mut bytes);
        put_end(&end, &mut bytes);
        put_complete(&mut bytes);
        put_known(&known, &mut bytes);
        put_again(&mut bytes);
        let mut items = Vec::new();
        prop_assert_eq!(read(&bytes, now, |it| items.push(it)), Ok(()));
        let expected = [
            Item::Names(lacks_flows, names), Item::Flow(moved), Item::Alive, Item::End(end), Item::Complete,
            Item::Known(known), Item::Again,
        ];
        prop_assert_eq!(&items[..], &expected[..]);
        // Half an item is none.
        let mut one = Vec::new();
        put_flow(&record, 9, &mut one);
        for length in 1..one.len() {
            prop_assert_eq!(read(&one[..length], now, |_| {}), Err(Malformed));
        }
    }

    #[test]
    fn anything_is_read_without_harm(
        mut bytes in prop::collection::vec(any::<u8>(), 0..100), record in record(9),
        changed: prop::sample::Index, value: u8,
    ) {
        let _ = read(&bytes, 1, |_| {});
        // What is read is what was written, with whatever byte.
        bytes.clear();
        put_flow(&record, 9, &mut bytes);
        let at = changed.index(bytes.len());
        bytes[at] = value;
        let mut first = None;
        let _ = read(&bytes, 9, |item| first = first.take().or(Some(item)));
        if let Some(Item::Flow(it)) = first {
            let mut again = Vec::new();
            put_flow(&it, 9, &mut again);
            prop_assert_eq!(bytes.get(..again.len()), Some(&again[..]));
        }
    }
}

#[test]
fn records_have_the_sizes_of_the_page() {
    let flow = |is_ip6: bool| {
        let protocol = protocol::TCP;
        let (source_port, destination_port) = (1, 2);
        let six = Flow { source: 1, destination: 2, source_port, destination_port, protocol };
        let four = Flow { source: 1, destination: 2, source_port, destination_port, protocol };
        if is_ip6 { FlowKey::ip6(six, 0) } else { FlowKey::ip4(four, 0) }
    };
    let reply = FlowKey { vrf: 1, ..flow(false) };
    let size = |key: FlowKey, reply_key: Option<FlowKey>| {
        let flow = FormerFlow {
            key,
            reply_key,
            class: 0,
            flags: 0,
            owner: 0,
            zone_pair: 0,
            tcp: [0; _],
            past: Past::default(),
            spare: [0; 2],
        };
        let mut bytes = Vec::new();
        put_flow(&Record { flow, is_standby: false }, 0, &mut bytes);
        bytes.len()
    };
    let sizes = [size(flow(false), None), size(flow(false), Some(reply)), size(flow(true), None)];
    assert_eq!(sizes, [55, 76, 79]);
    assert_eq!([size(flow(true), Some(reply)), size(reply, Some(flow(true)))], [100; 2]);
}

/// Where a key of the family 6 follows one of IPv4, or keys of NAT64 stand on both sides or alone.
#[test]
fn families_that_no_flow_has_are_no_record() {
    let flow = |is_ip6: bool, source: u128| {
        let (destination, source_port, destination_port, protocol) = (2, 3, 4, protocol::UDP);
        let six = Flow { source, destination, source_port, destination_port, protocol };
        let (source, destination) = (source as u32, 2);
        let four = Flow { source, destination, source_port, destination_port, protocol };
        if is_ip6 { FlowKey::ip6(six, 0) } else { FlowKey::ip4(four, 0) }
    };
    let whole = |keys: &[SentKey]| {
        let mut bytes = vec![FLOW];
        keys[0].put(&mut bytes);
        bytes.push((keys.len() > 1).into());
        for key in &keys[1..] {
            key.put(&mut bytes);
            bytes.extend_from_slice(&[0; 5]);
        }
        bytes.extend_from_slice(&[0; 5 + 8 + 4]);
        read(&bytes, 1, |_| {}).is_ok()
    };
    let four = |source| SentKey::from(flow(false, source));
    let six = |source| SentKey::from(flow(true, source));
    let crossed = |source| SentKey { is_nat64: true, ..six(source) };
    assert!(whole(&[four(1)]) && whole(&[six(1)]) && whole(&[four(1), four(2)]));
    assert!(whole(&[crossed(1), four(2)]) && whole(&[four(2), crossed(1)]));
    assert!(!whole(&[crossed(1)]) && !whole(&[crossed(1), crossed(2)]));
    assert!(!whole(&[six(1), four(2)]) && !whole(&[four(2), six(1)]) && !whole(&[six(1), six(2)]));
}
