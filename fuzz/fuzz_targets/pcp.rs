//! PCP and NAT-PMP: what is answered is answered once, by a message of the right size.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stoa_wire::nat_pmp::{self, NatPmpError};
use stoa_wire::pcp::{self, Answer, Operation, PcpError, ResultCode};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(nat_pmp::Request::Map { protocol, .. }) = nat_pmp::parse(bytes) {
        assert!(bytes.len() >= 12 && matches!(protocol, 6 | 17));
    }
    let (result, map) = match pcp::parse(bytes) {
        Ok(request) => match request.operation {
            Operation::Map(map) => (ResultCode::Success, Some(map)),
            Operation::Announce => (ResultCode::Success, None),
        },
        Err(PcpError::Refused(result)) => (result, None),
        Err(PcpError::Ignored) => {
            return assert_eq!(nat_pmp::parse(bytes), Err(NatPmpError::Ignored));
        }
    };
    let mut out = [0; pcp::LONGEST];
    let answer = Answer { result, lifetime_s: 7, epoch_s: 9 };
    let length = pcp::build_response(&mut out, bytes, &answer, map.as_ref()).expect("it fits");
    assert!(length.is_multiple_of(4) && length >= pcp::HEADER);
    assert_eq!(pcp::parse(&out[..length]), Err(PcpError::Ignored));
    if map.is_some() {
        // The same mapping, and the same options.
        assert_eq!(out[pcp::HEADER..length], bytes[pcp::HEADER..]);
    }
});
