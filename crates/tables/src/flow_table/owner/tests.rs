//! Owners in situations that the model does not reach: contention, and keys that do not differ.

use super::super::tests::{many, secret};
use super::*;
use crate::flow_table::{FlowCapacity, FlowKey, FlowTable, Secret};

/// The lock of the bucket of one key is held, as by another worker: the flow ends, once, and nothing of it stays.
#[test]
fn a_flow_whose_second_key_is_contended_ends_once() {
    let capacity = FlowCapacity { translated_ip4: 1, ..FlowCapacity::default() };
    for seed in 0..8 {
        for is_removed in [false, true] {
            let mut table = FlowTable::new(&capacity, &secret(seed)).unwrap();
            let (mut owner, reader) = (table.owner(0, 0).unwrap(), table.reader());
            let (first, second) = (many(1), many(2));
            let new = NewFlow::new(first, Some(second));
            let Ok(Created::New(id)) = owner.create(&new, 0, 10) else { panic!("no flow") };
            let memory = std::sync::Arc::clone(&owner.memory);
            let home = |key| memory.index.hash.place(&Canonical::new(&key)).home;
            if home(first) == home(second) {
                continue;
            }
            assert!(memory.index.bucket(home(second)).lock());
            let mut collected = 0;
            if is_removed {
                owner.remove(id).unwrap();
                assert!(owner.remove(id).is_err());
            } else {
                owner.expire(10, &[10; 256], 9, |_| collected += 1);
                assert_eq!(collected, 1);
            }
            assert_eq!((owner.live(), owner.evictable(), owner.pending()), (0, 0, 0));
            assert!(!reader.find(&first).is_some());
            // Who finds the rest sees that it is no flow, and takes it for none.
            let rest = reader.find(&second).id().expect("the second key");
            assert!(!reader.entry(rest).is_live());
            memory.index.bucket(home(second)).unlock();
            let again = owner.create(&NewFlow::new(second, Some(first)), 10, 20);
            assert_eq!(again, Err(FlowError::Contended));
            owner.expire(12, &[10; 256], 9, |_| collected += 1);
            assert_eq!((collected, owner.pending()), (u32::from(!is_removed), 1));
            assert!(!reader.find(&second).is_some());
            owner.retire_mark(1);
            owner.reclaim(1);
            assert!(matches!(owner.create(&new, 12, 20), Ok(Created::New(_))));
        }
    }
}

#[test]
fn a_reply_key_that_is_no_other_one_counts_as_none() {
    let capacity = FlowCapacity { ip4: 2, translated_ip4: 2, ..FlowCapacity::default() };
    let mut table = FlowTable::new(&capacity, &secret(3)).unwrap();
    let (mut owner, reader) = (table.owner(0, 0).unwrap(), table.reader());
    for (number, is_reversed) in [(1, false), (2, true)] {
        let key = many(number);
        let reply = if is_reversed { key.reversed() } else { key };
        let created = owner.create(&NewFlow::new(key, Some(reply)), 0, 10);
        let Ok(Created::New(id)) = created else { panic!("{created:?}") };
        assert_eq!(
            (reader.find(&key).id(), reader.find(&key.reversed()).id()),
            (Some(id), Some(id))
        );
        assert_eq!(owner.entry(id).kind(), Kind::Ip4);
        assert_eq!(owner.entry(id).reply_key(), key.reversed());
    }
}

#[test]
fn debug_output_has_no_secret() {
    let capacity = FlowCapacity { ip4: 1, ..FlowCapacity::default() };
    let secret = Secret(core::array::from_fn(|at| 0x11 * (at / 4) as u8));
    let table = FlowTable::new(&capacity, &secret).unwrap();
    let text = format!("{table:?}");
    for word in 1..16_u32 {
        let word = word * 0x1111_1111;
        assert!(!text.contains(&word.to_string()), "{word}");
        assert!(!text.contains(&(word | 1).to_string()), "{word}");
    }
}

/// Whichever key a packet has, and in whichever direction: its other ends lead back to it.
#[test]
fn the_other_ends_of_a_packet_are_those_behind_the_router() {
    use crate::flow_hash::Flow;
    use crate::flow_table::{Ends, Tuple};

    let capacity = FlowCapacity { translated_ip4: 8, ..FlowCapacity::default() };
    let mut table = FlowTable::new(&capacity, &secret(5)).unwrap();
    let (mut owner, reader) = (table.owner(0, 0).unwrap(), table.reader());
    let ends_of = |key: &FlowKey| match key.tuple {
        Tuple::Ip4(it) => Ends {
            source: it.source,
            destination: it.destination,
            ports: u32::from(it.source_port) << 16 | u32::from(it.destination_port),
        },
        Tuple::Ip6(_) => unreachable!(),
    };
    // Both orders of ends in both keys.
    for (at, (inside, remote, outside)) in
        [(1, 5, 9), (5, 1, 9), (9, 5, 1), (5, 9, 1), (1, 9, 5), (9, 1, 5)].into_iter().enumerate()
    {
        let flow = |source, destination, source_port, destination_port| {
            let protocol = 6;
            let it = Flow { source, destination, source_port, destination_port, protocol };
            FlowKey::ip4(it, at as u16)
        };
        let key = flow(inside, remote, 4000, 80);
        let reply = flow(remote, outside, 80, 5000);
        let Ok(Created::New(id)) = owner.create(&NewFlow::new(key, Some(reply)), 0, 10) else {
            panic!("no flow")
        };
        for (received, sent) in [(key, reply.reversed()), (reply, key.reversed())] {
            let [before, after] = [received, sent].map(|key| reader.find(&key));
            assert_eq!((before.id(), after.id()), (Some(id), Some(id)));
            assert_eq!(before.direction(), after.direction());
            assert!(before.is_received() && !after.is_received());
            assert_eq!(before, Match::of_received(id, before.direction()));
            assert_eq!(reader.other_ends(before), Some(ends_of(&sent)));
            assert_eq!(reader.other_ends(after), Some(ends_of(&received)));
        }
        owner.remove(id).unwrap();
    }
    assert_eq!(reader.other_ends(Match::NONE), None);
}
