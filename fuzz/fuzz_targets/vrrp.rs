//! VRRP: valid advertisements obey RFC 9568 and RFC 3768 and survive encoding and decoding.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stoa_wire::checksum::{self, Pseudo};
use stoa_wire::protocol;
use stoa_wire::vrrp::{self, Version};

fn agrees(pseudo: &Pseudo, bytes: &[u8]) {
    let Ok(view) = vrrp::check(pseudo, vrrp::HOP_LIMIT, bytes) else { return };
    assert!(vrrp::check(pseudo, 254, bytes).is_err());
    let addresses: Vec<_> = view.addresses().collect();
    assert_eq!(addresses.len(), usize::from(bytes[3]));
    assert!(addresses.iter().all(|address| address.is_ipv6() == pseudo.is_ip6()));
    assert!(!pseudo.is_ip6() || view.fields.version == Version::Three);
    let mut out = [0; 8 + 16 * vrrp::MOST + 8];
    let length = vrrp::build(&mut out, pseudo, &view.fields, &addresses).expect("it fits");
    let again = vrrp::check(pseudo, vrrp::HOP_LIMIT, &out[..length]).expect("it is valid");
    assert!(again.addresses().eq(addresses));
    // Version 2 has intervals of whole seconds.
    let is_exact = view.fields.version == Version::Three || view.fields.interval_cs > 0;
    assert!(!is_exact || again.fields == view.fields);
}

fuzz_target!(|input: &[u8]| {
    let Some((first, bytes)) = input.split_first() else { return };
    let four = Pseudo::Ip4 { source: [192, 0, 2, 1].into(), destination: vrrp::GROUP4 };
    let six = Pseudo::Ip6 { source: [0x20; 16].into(), destination: vrrp::GROUP6 };
    let pseudo = if first & 1 == 0 { four } else { six };
    agrees(&pseudo, bytes);
    if bytes.len() >= 8 {
        let mut bytes = bytes.to_vec();
        bytes[6..8].fill(0);
        let extra = match first & 2 {
            0 => 0,
            _ => pseudo.sum(protocol::VRRP, bytes.len()),
        };
        let sum = checksum::finish(checksum::sum(&bytes) + extra);
        bytes[6..8].copy_from_slice(&sum.to_be_bytes());
        agrees(&pseudo, &bytes);
    }
});
