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
    assert!(!request.is_third_party && !request.prefers_failure && !request.has_filter);
}

#[test]
fn options_are_read_and_unknown_ones_refused_or_ignored() {
    let request = parse(&map(&[2, 0, 0, 0])).unwrap();
    assert!(request.prefers_failure && !request.is_third_party);
    let third = [&[1, 0, 0, 16][..], &[0; 16]].concat();
    assert!(parse(&map(&third)).unwrap().is_third_party);
    let filter = [&[3, 0, 0, 20][..], &[0; 20]].concat();
    assert!(parse(&map(&[filter.clone(), filter].concat())).unwrap().has_filter);
    // One that may be ignored, with padding.
    assert!(parse(&map(&[200, 0, 0, 3, 1, 2, 3, 0, 2, 0, 0, 0])).unwrap().prefers_failure);
    let refused = |options: &[u8]| match parse(&map(options)) {
        Err(PcpError::Refused(result)) => result,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(&[9, 0, 0, 0]), ResultCode::UnsupportedOption);
    assert_eq!(refused(&[0, 0, 0, 0]), ResultCode::UnsupportedOption);
    assert_eq!(refused(&[2, 0, 0, 4, 0, 0, 0, 0]), ResultCode::MalformedOption);
    assert_eq!(refused(&[2, 0, 0, 0, 2, 0, 0, 0]), ResultCode::MalformedOption);
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
    let mut peer = map(&[]);
    peer[1] = opcode::PEER;
    assert_eq!(refused(&peer), result(ResultCode::UnsupportedOpcode));
}

#[test]
fn a_response_repeats_the_request_with_the_external_end() {
    let request = map(&[2, 0, 0, 0]);
    let external = Ipv4Addr::new(192, 0, 2, 1).to_ipv6_mapped();
    let Operation::Map(asked) = parse(&request).unwrap().operation else { panic!() };
    let given = Map { external, external_port: 40_000, ..asked };
    let answer = Answer { result: ResultCode::Success, lifetime_s: 120, epoch_s: 77 };
    let mut out = [0xff; LONGEST];
    let length = build_response(&mut out, &request, &answer, Some(&given)).unwrap();
    let response = &out[..length];
    assert_eq!(response[..12], [2, 0x81, 0, 0, 0, 0, 0, 120, 0, 0, 0, 77]);
    assert_eq!(response[12..24], [0; 12]);
    assert_eq!(response[24..42], request[24..42]);
    assert_eq!(response[42..44], 40_000_u16.to_be_bytes());
    assert_eq!(response[44..60], external.octets());
    assert_eq!(response[60..], request[60..]);
    assert_eq!(parse(response), Err(PcpError::Ignored));
    let length = build_announcement(&mut out, 9).unwrap();
    assert_eq!((length, &out[..12]), (24, &[2, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9][..]));
    assert!(build_response(&mut [0; 20], &request, &answer, None).is_err());
}

proptest! {
    /// Whatever comes, its answer is a response of whole words that nobody answers again.
    #[test]
    fn any_bytes_have_an_answer(
        mut bytes in prop::collection::vec(any::<u8>(), 0..1_300),
        is_map: bool,
    ) {
        if is_map && bytes.len() > 1 {
            (bytes[0], bytes[1]) = (VERSION, opcode::MAP);
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
