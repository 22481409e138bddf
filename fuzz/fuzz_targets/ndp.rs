//! Neighbour discovery: the first 32 bytes are the addresses, the rest is the message with a valid hop limit and
//! checksum; valid messages obey RFC 4861.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stoa_wire::checksum;
use stoa_wire::ndp::{self, Message, flag};
use stoa_wire::ndp_options::{MOST, kind};
use stoa_wire::zerocopy::FromBytes;
use stoa_wire::{ipv6, protocol};

fn agrees(ip: &ipv6::Header, message: &[u8]) {
    let Ok(view) = ndp::check(ip, message) else { return };
    assert!(ndp::is_ndp(message[0]) && message[1] == 0);
    let options = view.options();
    let count = options.count();
    assert!(count <= MOST && count * 8 + 8 <= message.len());
    if ip.source().is_unspecified() {
        assert!(
            matches!(view, Message::NeighborAdvertisement(..)) || options.source_mac().is_none()
        );
    }
    let pseudo = ip.pseudo();
    let mut out = [0; ndp::LENGTH_WITH_MAC];
    match view {
        Message::NeighborSolicitation(solicitation, options) => {
            assert!(!solicitation.target().is_multicast());
            let mac = options.source_mac();
            let length = ndp::build_solicitation(&mut out, &pseudo, solicitation.target(), mac);
            let length = length.expect("always enough room");
            let Ok(Message::NeighborSolicitation(again, options)) = ndp::check(ip, &out[..length])
            else {
                panic!("what is built is valid")
            };
            assert_eq!((again.target, options.source_mac()), (solicitation.target, mac));
        }
        Message::NeighborAdvertisement(advertisement, options) => {
            assert!(!ip.destination().is_multicast() || !advertisement.has(flag::SOLICITED));
            let (mac, flags) = (options.target_mac(), advertisement.flags.get());
            let length = ndp::build_advertisement(&mut out, &pseudo, advertisement.target(), flags, mac);
            let length = length.expect("always enough room");
            let Ok(Message::NeighborAdvertisement(again, options)) = ndp::check(ip, &out[..length])
            else {
                panic!("what is built is valid")
            };
            assert_eq!((again.target, again.flags), (advertisement.target, advertisement.flags));
            assert_eq!(options.target_mac(), mac);
            assert_eq!(options.has(kind::TARGET_LINK_LAYER), mac.is_some());
        }
        Message::RouterAdvertisement(..) | Message::Redirect(..) => {
            assert!(ip.source().is_unicast_link_local());
        }
        Message::RouterSolicitation(_) => {}
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((source, rest)) = input.split_first_chunk::<16>() else { return };
    let Some((destination, message)) = rest.split_first_chunk::<16>() else { return };
    let mut header = [0; ipv6::LENGTH];
    let builder = ipv6::Builder {
        hop_limit: ndp::HOP_LIMIT,
        ..ipv6::Builder::new((*source).into(), (*destination).into(), protocol::ICMP6)
    };
    let room = builder.build(&mut header, message.len().min(65_535));
    assert_eq!(room, Ok(ipv6::LENGTH));
    let Ok(ip) = ipv6::Header::ref_from_bytes(&header) else { return };
    agrees(ip, message);
    if message.len() >= 4 {
        let mut message = message.to_vec();
        message[2..4].fill(0);
        let sum = checksum::sum(&message) + ip.pseudo().sum(protocol::ICMP6, message.len());
        message[2..4].copy_from_slice(&checksum::finish(sum).to_be_bytes());
        agrees(ip, &message);
    }
});
