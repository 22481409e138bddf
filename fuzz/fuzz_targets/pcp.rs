//! PCP and NAT-PMP: what is answered is answered once, by a message of the right size.
#![no_main]

use std::net::Ipv6Addr;

use libfuzzer_sys::fuzz_target;
use stoa_wire::nat_pmp::{self, NatPmpError};
use stoa_wire::pcp::{self, Answer, Operation, PcpError, ResultCode};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(nat_pmp::Request::Map { protocol, .. }) = nat_pmp::parse(bytes) {
        assert!(bytes.len() >= 12 && matches!(protocol, 6 | 17));
    }
    let (result, data) = match pcp::parse(bytes) {
        Ok(request) => match request.operation {
            Operation::Map(_) => (ResultCode::Success, pcp::MAP),
            Operation::Peer(_) => (ResultCode::Success, pcp::PEER),
            Operation::Announce => (ResultCode::Success, 0),
        },
        Err(PcpError::Refused(result)) => (result, 0),
        Err(PcpError::Ignored) => {
            return assert_eq!(nat_pmp::parse(bytes), Err(NatPmpError::Ignored));
        }
    };
    let mut out = [0; pcp::LONGEST];
    let answer = Answer { result, lifetime_s: 7, epoch_s: 9 };
    let external = (data > 0).then_some((7, Ipv6Addr::LOCALHOST));
    let length = pcp::build_response(&mut out, bytes, &answer, external).expect("it fits");
    assert!(length.is_multiple_of(4) && length >= pcp::HEADER + data);
    assert_eq!(pcp::parse(&out[..length]), Err(PcpError::Ignored));
    // The same mapping.
    assert_eq!(
        out[pcp::HEADER..][..data.min(12)],
        bytes[pcp::HEADER.min(bytes.len())..][..data.min(12)]
    );
    if result == ResultCode::Success {
        // What was granted can be asked again: options that were ignored change nothing.
        out[1] &= 0x7f;
        let again = pcp::parse(&out[..length]).expect("a request");
        assert_eq!(Ok(again.options), pcp::parse(bytes).map(|it| it.options));
    }
});
