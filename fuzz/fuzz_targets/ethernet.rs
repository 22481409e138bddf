//! Ethernet with VLAN tags: decoded headers encode to the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stoa_wire::ethernet::{self, EthernetError};
use stoa_wire::vlan;

fuzz_target!(|frame: &[u8]| {
    let view = match ethernet::check(frame) {
        Ok(view) => view,
        Err(EthernetError::Truncated) => return assert!(frame.len() < ethernet::LENGTH),
        Err(EthernetError::TagTruncated) => return assert!(frame.len() < ethernet::LONGEST),
    };
    let range = view.payload_range();
    assert_eq!(range.start, ethernet::LENGTH + view.tags().len() * vlan::LENGTH);
    assert_eq!(view.payload(), &frame[range.clone()]);
    assert!(view.tags().len() == vlan::MOST || !vlan::is_tag(view.ethertype()));
    for tag in view.tags().iter() {
        assert!(vlan::is_tag(tag.tpid));
        let made = vlan::Tci::new(tag.tci.pcp(), tag.tci.dei(), tag.tci.vid());
        assert_eq!(made, (tag.tci.vid() <= vlan::LAST_VID).then_some(tag.tci));
    }

    let mut out = [0; ethernet::LONGEST];
    let header = view.header();
    let built =
        ethernet::build(&mut out, header.destination, header.source, view.tags(), view.ethertype());
    assert_eq!(built, Ok(range.start));
    assert_eq!(out[..range.start], frame[..range.start]);
    for mac in [header.destination, header.source] {
        assert_eq!(mac.to_string().parse(), Ok(mac));
    }
});
