//! UPDATE messages: parsing compared with the codec crate, and error handling (RFC 7606).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Instant;

use ipnet::{Ipv4Net, Ipv6Net};
use netgauze_bgp_pkt::BgpMessage;
use netgauze_bgp_pkt::nlri::{Ipv4Unicast, Ipv4UnicastAddress, Ipv6Unicast, Ipv6UnicastAddress};
use netgauze_bgp_pkt::path_attribute::{
    As4PathSegment, AsPath, AsPathSegmentType, ClusterId, ClusterList, LocalPreference, MpReach,
    MpUnreach, MultiExitDiscriminator, NextHop, Origin, Originator, PathAttribute,
    PathAttributeValue,
};
use netgauze_bgp_pkt::update::BgpUpdateMessage;
use proptest::prelude::*;
use stoa_bgp::{Attributes, Session};

use crate::daemon::{Event, Recorder, attributes, established, update, written};

/// The calls that one message causes in an established session, and the result.
fn receive_one(add_paths: bool, bytes: &[u8]) -> (Vec<Event>, Session, Result<usize, u8>) {
    let (now, mut recorder) = (Instant::now(), Recorder::default());
    let mut session = established(add_paths, now, &mut recorder);
    recorder.0.clear();
    let result = session.receive(bytes, now, &mut recorder).map_err(|_| {
        let sent = session.take_output();
        assert_eq!((sent[18], sent[19]), (3, 3), "an UPDATE error");
        sent[20]
    });
    (recorder.0, session, result)
}

const TEN: [u8; 2] = [8, 10];

#[test]
fn malformed_attributes_withdraw_their_routes() {
    let valid = attributes(1, 100);
    let missing = [&valid[4..], &valid[..17], &[&valid[..17], &valid[24..]].concat()];
    let malformed = [
        [&valid[..], &[0x80, 4, 3, 0, 0, 0]].concat(),
        [&valid[..], &[0xc0, 8, 5, 0, 0, 0, 0, 0]].concat(),
        // Exceeds the field.
        [&valid[..], &[0x80, 4, 9, 0]].concat(),
    ];
    for attributes in missing.into_iter().chain(malformed.iter().map(Vec::as_slice)) {
        let (events, session, result) = receive_one(false, &update(&[8, 11], attributes, &TEN));
        assert!(result.is_ok() && session.is_established(), "{attributes:?}");
        let gone = |prefix| Event::Unreach4(vec![(0, prefix, 8)]);
        assert_eq!(events, [gone(11 << 24), gone(10 << 24)], "{attributes:?}");
        assert_eq!(session.counts().treated_as_withdrawn, 1);
        assert!(session.counts().last_error.is_some());
    }
}

#[test]
fn malformed_prefixes_end_the_session() {
    let valid = attributes(1, 100);
    let reach = |hop: &[u8], nlri: &[u8]| {
        let length = u8::try_from(hop.len()).expect("short");
        let value = [&[0, 2, 1, length], hop, &[0], nlri].concat();
        let size = u8::try_from(value.len()).expect("short");
        [&valid[..], &[0x80, 14, size], &value].concat()
    };
    let wrong = [
        (update(&[], &valid, &[33, 1, 2, 3, 4, 5]), 10),
        (update(&[24, 1], &valid, &[]), 10),
        (update(&[], &reach(&[0x20; 15], &[8, 0x20]), &[]), 9),
        (update(&[], &reach(&[0x20; 16], &[129; 18]), &[]), 10),
        (update(&[], &[0x80, 14, 2, 0, 2], &[]), 9),
        (update(&[], &[0x40, 1, 9, 0], &[]), 1),
        (crate::daemon::message(2, &[0, 9, 0, 0]), 1),
        (crate::daemon::message(2, &[0, 0, 0, 9]), 1),
    ];
    for (bytes, subcode) in wrong {
        assert_eq!(receive_one(false, &bytes).2, Err(subcode), "{bytes:?}");
    }
}

#[test]
fn families_that_were_not_negotiated_are_ignored() {
    // IPv4 multicast and a VPN (SAFI 2 and 128).
    for safi in [2, 128] {
        let value =
            [&attributes(1, 100)[..], &[0x80, 14, 9, 0, 1, safi, 4, 1, 2, 3, 4, 0]].concat();
        let (events, _, result) = receive_one(false, &update(&[], &value, &[]));
        assert_eq!((events, result.is_ok()), (vec![], true));
    }
}

#[test]
fn ipv4_prefixes_may_be_in_mp_reach_nlri() {
    let reach = [0x80, 14, 11, 0, 1, 1, 4, 192, 0, 2, 9, 0, 8, 10];
    let bytes = [&attributes(1, 100)[..], &reach].concat();
    let (events, _, _) = receive_one(false, &update(&[], &bytes, &[]));
    let [Event::Reach4(set, prefixes)] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!(set.next_hop, IpAddr::from([192, 0, 2, 9]));
    assert_eq!(prefixes, &[(0, 10 << 24, 8)]);
}

/// Attributes in the representation of both crates.
#[derive(Clone, Debug)]
struct Generated {
    set: Attributes,
    path: Vec<(bool, Vec<u32>)>,
    med: Option<u32>,
    originator: Option<Ipv4Addr>,
    clusters: Vec<Ipv4Addr>,
}

prop_compose! {
    fn generated()(
        hop in 1_u32..0xe000_0000, origin in 0_u8..3, local_preference: u32, med: Option<u32>,
        path in prop::collection::vec((prop::bool::weighted(0.8), prop::collection::vec(1_u32.., 1..5)), 0..3),
        originator in prop::option::of(1_u32..), clusters in prop::collection::vec(1_u32.., 0..3),
    ) -> Generated {
        let length: usize = path.iter().map(|(is_sequence, numbers)| if *is_sequence { numbers.len() } else { 1 }).sum();
        let neighbor_as = match path.first() { Some((true, numbers)) => numbers[0], _ => 0 };
        let set = Attributes {
            next_hop: Ipv4Addr::from(hop).into(), local_preference, med: med.unwrap_or(0), neighbor_as,
            originator: originator.unwrap_or(0), path_length: length as u16, cluster_length: clusters.len() as u16, origin,
        };
        let clusters = clusters.into_iter().map(Ipv4Addr::from).collect();
        Generated { set, path, med, originator: originator.map(Ipv4Addr::from), clusters }
    }
}

impl Generated {
    fn attributes(&self) -> Vec<PathAttribute> {
        let origin = match self.set.origin {
            0 => Origin::IGP,
            1 => Origin::EGP,
            _ => Origin::Incomplete,
        };
        let segments = self.path.iter().map(|(is_sequence, numbers)| {
            let kind =
                if *is_sequence { AsPathSegmentType::AsSequence } else { AsPathSegmentType::AsSet };
            As4PathSegment::new(kind, numbers.clone())
        });
        let segments: Vec<_> = segments.collect();
        let preference = LocalPreference::new(self.set.local_preference);
        let mut values = vec![
            (false, true, PathAttributeValue::Origin(origin)),
            (false, true, PathAttributeValue::AsPath(AsPath::As4PathSegments(segments.into()))),
            (false, true, PathAttributeValue::LocalPreference(preference)),
        ];
        if let Some(med) = self.med {
            let med = MultiExitDiscriminator::new(med);
            values.push((true, false, PathAttributeValue::MultiExitDiscriminator(med)));
        }
        if let Some(id) = self.originator {
            values.push((true, false, PathAttributeValue::Originator(Originator::new(id))));
        }
        if !self.clusters.is_empty() {
            let clusters: Vec<_> = self.clusters.iter().map(|id| ClusterId::new(*id)).collect();
            let list = ClusterList::new(clusters);
            values.push((true, false, PathAttributeValue::ClusterList(list)));
        }
        values
            .into_iter()
            .map(|(optional, transitive, value)| part(optional, transitive, value))
            .collect()
    }
}

fn part(optional: bool, transitive: bool, value: PathAttributeValue) -> PathAttribute {
    // The multiprotocol attributes may need the extended length.
    let is_extended = optional && !matches!(value, PathAttributeValue::Originator(_));
    PathAttribute::from(optional, transitive, false, is_extended, value).expect("flags that fit")
}

type Prefixes<A> = Vec<(u32, A, u8)>;

fn prefixes4() -> impl Strategy<Value = Prefixes<u32>> {
    let one = (1_u32..100, 0x0100_0000_u32..0xdfff_ffff, 1_u8..=32);
    let one =
        one.prop_map(|(id, address, length)| (id, address & (u32::MAX << (32 - length)), length));
    prop::collection::vec(one, 1..30)
}

fn prefixes6() -> impl Strategy<Value = Prefixes<u128>> {
    let one = (1_u32..100, any::<u128>(), 4_u8..=128).prop_map(|(id, address, length)| {
        let address = address >> 4 | 2 << 124;
        (id, address & (u128::MAX << (128 - length)), length)
    });
    prop::collection::vec(one, 1..30)
}

fn nlri4(prefixes: &Prefixes<u32>, has_ids: bool) -> Vec<Ipv4UnicastAddress> {
    let one = |&(id, address, length): &(u32, u32, u8)| {
        let net = Ipv4Net::new(address.into(), length).expect("a prefix");
        Ipv4UnicastAddress::new(has_ids.then_some(id), Ipv4Unicast::from_net(net).expect("unicast"))
    };
    prefixes.iter().map(one).collect()
}

fn nlri6(prefixes: &Prefixes<u128>, has_ids: bool) -> Vec<Ipv6UnicastAddress> {
    let one = |&(id, address, length): &(u32, u128, u8)| {
        let net = Ipv6Net::new(address.into(), length).expect("a prefix");
        Ipv6UnicastAddress::new(has_ids.then_some(id), Ipv6Unicast::from_net(net).expect("unicast"))
    };
    prefixes.iter().map(one).collect()
}

fn without_ids<A: Copy>(prefixes: &Prefixes<A>, has_ids: bool) -> Prefixes<A> {
    let one =
        |(id, address, length): &(u32, A, u8)| (if has_ids { *id } else { 0 }, *address, *length);
    prefixes.iter().map(one).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Messages that the codec crate writes are parsed alike.
    #[test]
    fn updates_of_the_codec_crate_are_parsed_alike(
        generated in generated(), has_ids: bool, announced in prefixes4(), gone in prefixes4(), announced6 in prefixes6(), withdrawn6 in prefixes6(),
        global in 1_u128.., local in prop::option::of(1_u64..),
    ) {
        let IpAddr::V4(hop) = generated.set.next_hop else { unreachable!("generated as IPv4") };
        let global = Ipv6Addr::from(global >> 4 | 2 << 124);
        let local = local.map(|local| Ipv6Addr::from(0xfe80_u128 << 112 | u128::from(local)));
        let mut all = generated.attributes();
        all.push(part(false, true, PathAttributeValue::NextHop(NextHop::new(hop))));
        let reach = MpReach::Ipv6Unicast { next_hop_global: global, next_hop_local: local, nlri: nlri6(&announced6, has_ids).into() };
        all.push(part(true, false, PathAttributeValue::MpReach(reach)));
        let unreach = MpUnreach::Ipv6Unicast { nlri: nlri6(&withdrawn6, has_ids).into() };
        all.push(part(true, false, PathAttributeValue::MpUnreach(unreach)));
        let message = BgpUpdateMessage::new(nlri4(&gone, has_ids), all, nlri4(&announced, has_ids));
        let bytes = written(&BgpMessage::Update(message));
        let (events, session, result) = receive_one(has_ids, &bytes);
        prop_assert_eq!(result, Ok(bytes.len()));
        prop_assert_eq!(session.counts().last_error, None);
        let expected = [
            Event::Unreach4(without_ids(&gone, has_ids)),
            Event::Unreach6(without_ids(&withdrawn6, has_ids)),
            Event::Reach6(Attributes { next_hop: global.into(), ..generated.set }, without_ids(&announced6, has_ids)),
            Event::Reach4(generated.set, without_ids(&announced, has_ids)),
        ];
        prop_assert_eq!(events, expected);
    }

    /// An UPDATE with one wrong byte is accepted, treated as withdraw, or ends the session.
    #[test]
    fn a_corrupted_update_does_not_panic(generated in generated(), announced in prefixes4(), place: prop::sample::Index, value: u8) {
        let IpAddr::V4(hop) = generated.set.next_hop else { unreachable!("generated as IPv4") };
        let mut all = generated.attributes();
        all.push(part(false, true, PathAttributeValue::NextHop(NextHop::new(hop))));
        let message = BgpUpdateMessage::new([], all, nlri4(&announced, true));
        let mut bytes = written(&BgpMessage::Update(message));
        let body = bytes.len() - 19;
        bytes[19 + place.index(body)] = value;
        let (_, session, result) = receive_one(true, &bytes);
        prop_assert_eq!(session.is_established(), result.is_ok());
    }
}
