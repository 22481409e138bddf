//! ICMP router discovery: valid messages obey RFC 1256, and advertisements survive encoding and decoding.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stoa_wire::checksum;
use stoa_wire::irdp::{self, Message};

fn agrees(bytes: &[u8]) {
    match irdp::check(bytes) {
        Ok(Message::Solicitation) => assert!(irdp::is_solicitation(bytes) && bytes[1] == 0),
        Ok(Message::Advertisement { lifetime_s, addresses }) => {
            assert!(!irdp::is_solicitation(bytes));
            let sent: Vec<_> = addresses.collect();
            assert_eq!(sent.len(), usize::from(bytes[4]));
            let mut out = [0; 8 + 8 * irdp::MOST];
            let length = irdp::build_advertisement(&mut out, lifetime_s, &sent);
            let length = length.expect("it fits");
            let Ok(Message::Advertisement { lifetime_s: again, addresses }) =
                irdp::check(&out[..length])
            else {
                panic!("what is built is valid")
            };
            assert_eq!((again, addresses.collect::<Vec<_>>()), (lifetime_s, sent));
        }
        Err(_) => {}
    }
}

fuzz_target!(|bytes: &[u8]| {
    agrees(bytes);
    if bytes.len() >= 4 {
        let mut bytes = bytes.to_vec();
        bytes[2..4].fill(0);
        let sum = checksum::finish(checksum::sum(&bytes));
        bytes[2..4].copy_from_slice(&sum.to_be_bytes());
        agrees(&bytes);
    }
});
