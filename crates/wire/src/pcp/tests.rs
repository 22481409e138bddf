//! Requests as RFC 6887 draws them, and any bytes.

use core::net::Ipv4Addr;

use proptest::prelude::*;

use super::*;

/// A request for TCP port 80 of 10.0.0.2, for an hour, with these options.
fn map(options: &[u8]) -> Vec<u8> {
    let client = Ipv4Addr::new(10, 0, 0, 2).to_ipv6_mapped();
    let mut bytes = vec![VERSION, opcode::MAP, 0, 0];
    bytes.extend(3_600_u32.to_be_bytes());
    bytes.extend(client.octets());
    bytes.extend([7; 12]);
    bytes.extend([6, 0, 0, 0, 0, 80, 0x1f, 0x90]);
    bytes.extend(Ipv4Addr::UNSPECIFIED.to_ipv6_mapped().octets());
    bytes.extend(options);
    bytes
}

#[test]
fn a_map_request_is_read() {
    let request = parse(&map(&[])).unwrap();
    let expected = Map {
        nonce: [7; 12],
        protocol: 6,
        internal_port: 80,
        external_port: 8_080,
        external: Ipv4Addr::UNSPECIFIED.to_ipv6_mapped(),
    };
    assert_eq!(request.operation, Operation::Map(expected));
    assert_eq!((request.lifetime_s, request.client.to_string()), (3_600, "::ffff:10.0.0.2".into()));
    assert_eq!(request.options, Options::default());
}

#[test]
fn a_peer_request_is_read() {
    let mut bytes = map(&[]);
    bytes[1] = opcode::PEER;
    bytes.extend([0x01, 0xbb, 0, 0]);
    let remote = Ipv4Addr::new(198, 51, 100, 7).to_ipv6_mapped();
    bytes.extend(remote.octets());
    let Operation::Peer(peer) = parse(&bytes).unwrap().operation else { panic!() };
    assert_eq!((peer.map.internal_port, peer.remote_port, peer.remote), (80, 443, remote));
    let result = |bytes: &[u8]| match parse(bytes) {
        Err(PcpError::Refused(result)) => result,
        other => panic!("{other:?}"),
    };
    assert_eq!(result(&bytes[..76]), ResultCode::MalformedRequest);
    // It has no filters.
    bytes.extend([2, 0, 0, 0]);
    assert_eq!(result(&bytes), ResultCode::MalformedOption);
}

/// A filter for a prefix of 198.51.100.7 and a port.
fn filter(prefix_length: u8, port: u16) -> Vec<u8> {
    let address = Ipv4Addr::new(198, 51, 100, 7).to_ipv6_mapped();
    [&[3, 0, 0, 20, 0, prefix_length], &port.to_be_bytes()[..], &address.octets()].concat()
}

#[test]
fn filters_are_read_in_their_order() {
    let of = |options: &[Vec<u8>]| parse(&map(&options.concat())).map(|it| it.options.filters);
    let both = of(&[filter(128, 80), filter(120, 0)]).unwrap();
    let ports: Vec<u16> = both.as_slice().iter().map(|it| it.port).collect();
    assert_eq!((ports, both.clears), (vec![80, 0], false));
    let prefixes: Vec<_> = both.as_slice().iter().map(Filter::prefix4).collect();
    assert_eq!(prefixes, [Some((0xc633_6407, 32)), Some((0xc633_6400, 24))]);
    let after = of(&[filter(128, 80), filter(0, 0), filter(24, 7)]).unwrap();
    assert_eq!((after.as_slice().len(), after.clears), (1, true));
    assert_eq!(after.as_slice()[0].prefix4(), Some((0xc633_6400, 24)));
    assert_eq!(of(&[filter(64, 7)]).unwrap().as_slice()[0].prefix4(), None);
    let many = vec![filter(128, 1); MOST_FILTERS + 1];
    let excessive = PcpError::Refused(ResultCode::ExcessiveRemotePeers);
    assert_eq!(of(&many), Err(excessive));
    assert!(of(&many[1..]).is_ok());
    assert!(of(&[many, vec![filter(0, 0)]].concat()).is_ok(), "none is left");
    assert_eq!(of(&[filter(129, 1)]), Err(PcpError::Refused(ResultCode::MalformedOption)));
}

#[test]
fn options_are_read_and_unknown_ones_refused_or_ignored() {
    let options = parse(&map(&[2, 0, 0, 0])).unwrap().options;
    assert!(options.prefers_failure && options.third_party.is_none());
    let third = [&[1, 0, 0, 16][..], &[9; 16]].concat();
    assert_eq!(parse(&map(&third)).unwrap().options.third_party, Some([9; 16].into()));
    // One that may be ignored, with padding.
    let options = parse(&map(&[200, 0, 0, 3, 1, 2, 3, 0, 2, 0, 0, 0])).unwrap().options;
    assert!(options.prefers_failure);
    let refused = |options: &[u8]| match parse(&map(options)) {
        Err(PcpError::Refused(result)) => result,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(&[9, 0, 0, 0]), ResultCode::UnsupportedOption);
    assert_eq!(refused(&[0, 0, 0, 0]), ResultCode::UnsupportedOption);
    assert_eq!(refused(&[2, 0, 0, 4, 0, 0, 0, 0]), ResultCode::MalformedOption);
    assert_eq!(refused(&[2, 0, 0, 0, 2, 0, 0, 0]), ResultCode::MalformedOption);
    assert_eq!(refused(&[third.clone(), third].concat()), ResultCode::MalformedOption);
    assert_eq!(refused(&[1, 0, 0, 4, 0, 0, 0, 0]), ResultCode::MalformedOption);
    assert_eq!(refused(&[200, 0, 0, 4]), ResultCode::MalformedOption);
    assert_eq!(refused(&[200, 0, 0, 0].repeat(65)), ResultCode::MalformedOption);
}

#[test]
fn what_cannot_be_served_has_a_result() {
    let refused = |bytes: &[u8]| parse(bytes).unwrap_err();
    assert_eq!(refused(&[2]), PcpError::Ignored);
    assert_eq!(refused(&[2, 0x81]), PcpError::Ignored);
    let result = PcpError::Refused;
    assert_eq!(refused(&[1, 1, 0, 0]), result(ResultCode::UnsupportedVersion));
    assert_eq!(refused(&map(&[])[..56]), result(ResultCode::MalformedRequest));
    assert_eq!(refused(&map(&[0; 3])), result(ResultCode::MalformedRequest));
    assert_eq!(refused(&map(&[200, 0, 0, 0].repeat(261))), result(ResultCode::MalformedRequest));
    let mut unknown = map(&[]);
    unknown[1] = 3;
    assert_eq!(refused(&unknown), result(ResultCode::UnsupportedOpcode));
}

#[test]
fn a_response_repeats_the_request_with_the_external_end() {
    let request = map(&[2, 0, 0, 0]);
    let external = Ipv4Addr::new(192, 0, 2, 1).to_ipv6_mapped();
    let answer = Answer { result: ResultCode::Success, lifetime_s: 120, epoch_s: 77 };
    let mut out = [0xff; LONGEST];
    let length = build_response(&mut out, &request, &answer, Some((40_000, external))).unwrap();
    let response = out[..length].to_vec();
    let response = response.as_slice();
    assert_eq!(response[..12], [2, 0x81, 0, 0, 0, 0, 0, 120, 0, 0, 0, 77]);
    assert_eq!(response[12..24], [0; 12]);
    assert_eq!(response[24..42], request[24..42]);
    assert_eq!(response[42..44], 40_000_u16.to_be_bytes());
    assert_eq!(response[44..60], external.octets());
    assert_eq!(response[60..], request[60..]);
    // Options that were ignored are left out, unless the request is refused.
    let ignored = map(&[200, 0, 0, 3, 1, 2, 3, 0, 2, 0, 0, 0]);
    let mut other = [0; LONGEST];
    let length = build_response(&mut other, &ignored, &answer, None).unwrap();
    assert_eq!(other[60..length], [2, 0, 0, 0]);
    let answer = Answer { result: ResultCode::NoResources, ..answer };
    let length = build_response(&mut other, &ignored, &answer, None).unwrap();
    assert_eq!(other[HEADER..length], ignored[HEADER..]);
    assert_eq!(parse(response), Err(PcpError::Ignored));
    let length = build_announcement(&mut out, 9).unwrap();
    assert_eq!((length, &out[..12]), (24, &[2, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9][..]));
    assert!(build_response(&mut [0; 20], &request, &answer, None).is_err());
}

#[test]
fn results_have_their_numbers_and_lifetimes() {
    for (number, result) in ResultCode::ALL.into_iter().enumerate() {
        assert_eq!(result as usize, number);
    }
    assert_eq!(ResultCode::NoResources.error_lifetime_s(), 30);
    assert_eq!(ResultCode::NotAuthorized.error_lifetime_s(), 1_800);
}

proptest! {
    /// Whatever comes, its answer is a response of whole words that nobody answers again.
    #[test]
    fn any_bytes_have_an_answer(
        mut bytes in prop::collection::vec(any::<u8>(), 0..1_300),
        kind in prop::option::of(0_u8..4),
    ) {
        if let Some(kind) = kind && bytes.len() > 1 {
            (bytes[0], bytes[1]) = (VERSION, kind);
            bytes.truncate(bytes.len() / 4 * 4);
        }
        let result = match parse(&bytes) {
            Ok(_) => ResultCode::Success,
            Err(PcpError::Ignored) => {
                prop_assert!(bytes.len() < 2 || bytes[1] & 0x80 != 0);
                return Ok(());
            }
            Err(PcpError::Refused(result)) => result,
        };
        let mut out = [0; LONGEST];
        let answer = Answer { result, lifetime_s: 1, epoch_s: 2 };
        let length = build_response(&mut out, &bytes, &answer, None).unwrap();
        prop_assert!(length.is_multiple_of(4) && (HEADER..=LONGEST).contains(&length));
        prop_assert_eq!(parse(&out[..length]), Err(PcpError::Ignored));
        prop_assert_eq!(out[3], result as u8);
    }
}
