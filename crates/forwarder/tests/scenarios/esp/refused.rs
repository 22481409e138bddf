//! What is not what it should be, by the name of its drop.

use std::sync::atomic::Ordering::Relaxed;

use super::*;
use stoa_forwarder::control::ipsec::AssociationError;

fn packet() -> Vec<u8> {
    udp(FAR4, host4(1), b"out")
}

#[test]
fn numbers_are_accepted_once_and_only_of_authentic_packets() {
    for case in [
        Case::USUAL,
        Case { is_extended: true, algorithm: Algorithm::Aes128CbcSha1, ..Case::USUAL },
    ] {
        let mut lab = case.lab();
        let frame = |sequence| packet_from(2, &case.encapsulated(sequence, &packet()));
        // A forged packet with a high number does not move the window.
        let mut forged = frame(5_000);
        *forged.last_mut().unwrap() ^= 1;
        lab.send("east", [forged]);
        lab.assert_dropped(&[("esp-forged", 1)]);
        // Twice in one vector, and again later.
        lab.send("east", [frame(100), frame(100), frame(99)]);
        assert_eq!(lab.take("west").len(), 2);
        lab.send("east", [frame(99), frame(37), frame(36), frame(101)]);
        assert_eq!(lab.take("west").len(), 2, "64 numbers from 37 on, before 101");
        // With ESN, a number behind the window is taken for one of the next 2^32 (RFC 4303 appendix A2.2).
        let behind = if case.is_extended { "esp-forged" } else { "esp-late" };
        lab.assert_dropped(&[(behind, 1), ("esp-replayed", 2)]);
        let inbound = lab.state().inbound_association(IN).unwrap();
        let received = inbound.received();
        let counts = [&received.packets, &received.replayed, &received.late, &received.forged];
        let refused = if case.is_extended { [0, 2] } else { [1, 1] };
        assert_eq!(counts.map(|it| it.load(Relaxed)), [4, 2, refused[0], refused[1]]);
    }
}

#[test]
fn what_is_wrong_has_a_name() {
    let case = Case::USUAL;
    let mut lab = case.lab();
    let esp = case.sealed(1, &case.text(&packet(), protocol::IP4));
    let mut unknown = esp.clone();
    unknown[..4].copy_from_slice(&0x7777_u32.to_be_bytes());
    let mut changed = esp.clone();
    changed[20] ^= 0x80;
    lab.send(
        "east",
        [&unknown[..], &esp[..20], &esp[..3], &changed]
            .map(|it| packet_from(2, &case.outer(it, 0))),
    );
    lab.assert_dropped(&[("esp-forged", 1), ("esp-malformed", 1), ("esp-unknown-spi", 2)]);
    let counted = lab.state().inbound_association(IN).unwrap();
    assert_eq!(counted.received().malformed.load(Relaxed), 1);
    let mut padding = case.text(&packet(), protocol::IP4);
    let at = padding.len() - 3;
    padding[at] ^= 1;
    let mut long = case.text(&packet(), protocol::IP4);
    let at = long.len() - 2;
    long[at] = 250;
    let cut = case.text(&packet()[..25], protocol::IP4);
    let texts = [
        padding,
        long,
        cut,
        case.text(&packet(), protocol::IP6),
        case.text(&packet(), protocol::TCP),
        case.text(&[0; 100], protocol::NO_NEXT_HEADER),
    ];
    let frames =
        (2..).zip(&texts).map(|(sequence, text)| case.outer(&case.sealed(sequence, text), 0));
    lab.send("east", frames.map(|it| packet_from(2, &it)).collect::<Vec<_>>());
    lab.assert_silent();
    lab.assert_dropped(&[("esp-dummy", 1), ("esp-next-header", 3), ("esp-padding", 2)]);
    // Padding of traffic flow confidentiality behind the inner packet is left out.
    let padded = [&packet()[..], &[0x55; 200]].concat();
    let frame = case.outer(&case.sealed(20, &case.text(&padded, protocol::IP4)), 0);
    lab.send("east", [packet_from(2, &frame)]);
    assert_eq!(lab.only("west").payload, b"out");
}

/// A text that is no multiple of a block was not changed on its way: its sender made it so.
#[test]
fn a_text_of_cbc_that_is_no_multiple_of_a_block_is_malformed() {
    let case = Case { algorithm: Algorithm::Aes128CbcSha256, ..Case::USUAL };
    let mut lab = case.lab();
    let esp = case.sealed(1, &case.text(&packet(), protocol::IP4));
    lab.send("east", [packet_from(2, &case.outer(&esp[..esp.len() - 4], 0))]);
    lab.assert_dropped(&[("esp-malformed", 1)]);
    let inbound = lab.state().inbound_association(IN).unwrap();
    let received = inbound.received();
    assert_eq!([&received.malformed, &received.forged].map(|it| it.load(Relaxed)), [1, 0]);
}

#[test]
fn an_association_is_for_its_own_way_of_transport() {
    let (plain, in_udp) = (Case::USUAL, Case { is_udp: true, ..Case::USUAL });
    for (case, other) in [(plain, in_udp), (in_udp, plain)] {
        let mut lab = case.lab();
        lab.send("east", [packet_from(2, &other.encapsulated(1, &packet()))]);
        lab.assert_silent();
        lab.assert_dropped(&[("esp-unknown-spi", 1)]);
    }
    let mut lab = in_udp.lab();
    let keepalive = udp_ports(host4(2), our4(2), (4501, 4500), &[0xff]);
    lab.send("east", [packet_from(2, &keepalive)]);
    lab.assert_silent();
    lab.assert_dropped(&[("esp-keepalive", 1)]);
}

#[test]
fn without_numbers_nothing_is_sent() {
    let case = Case::USUAL;
    let mut lab = case.lab();
    let (encryption, integrity) = case.keys();
    let keys = Keys { encryption: &encryption, integrity: &integrity };
    let how = (DontFragment::Copy, None);
    let last = u64::from(u32::MAX) - 2;
    lab.state().set_outbound_association("tun", (&case.settings(OUT), keys), how, last).unwrap();
    lab.send("west", (0..5).map(|_| packet_from(1, &udp(host4(1), FAR4, b"into"))));
    let frames = lab.take("east");
    assert_eq!(frames.len(), 2, "RFC 4303 section 3.3.3: the number must not cycle");
    assert_eq!(case.opened(&frames[1], u32::MAX.into()).len(), 32);
    lab.assert_dropped(&[("esp-sequence", 3)]);
    let outbound = lab.state().outbound_association("tun").unwrap();
    assert_eq!(outbound.sent(), (u32::MAX.into(), 64), "bytes of what was sent");
}

/// Each with the text that an operator reads.
#[test]
fn settings_that_cannot_work_are_refused_by_name() {
    let case = Case::USUAL;
    let cbc = Case { algorithm: Algorithm::Aes128CbcSha1, ..case };
    let (settings, of_cbc) = (case.settings(0x3003), cbc.settings(0x3003));
    let ports = |source| Some(UdpPorts { source, destination: 4500 });
    let both = [
        (Settings { spi: 255, ..settings.clone() }, "SPI 255 is reserved; choose one from 256 on"),
        (
            Settings { is_implicit: true, ..of_cbc.clone() },
            "aes-128-cbc-sha1 has no implicit IV; send the IV",
        ),
        (Settings { salt: SALT.into(), ..of_cbc }, "aes-128-cbc-sha1 has no salt; leave it out"),
        (
            Settings { udp: ports(4501), ..settings.clone() },
            "ESP in UDP at our port 4501; choose 4500",
        ),
    ];
    let mut lab = case.lab();
    for (settings, text) in both {
        let (encryption, integrity) = Case { algorithm: settings.algorithm, ..case }.keys();
        let keys = Keys { encryption: &encryption, integrity: &integrity };
        let how = (DontFragment::Copy, None);
        let set = lab.state().set_outbound_association("tun", (&settings, keys), how, 0);
        let added = lab.state().add_inbound_association("tun", (&settings, keys), 64);
        assert_eq!([set, added].map(|it| it.unwrap_err().to_string()), [text; 2]);
    }
    let extended = Settings { is_extended: true, ..settings.clone() };
    let (encryption, integrity) = case.keys();
    let keys = Keys { encryption: &encryption, integrity: &integrity };
    let mut add = |settings, window| {
        lab.state().add_inbound_association("tun", (settings, keys), window).unwrap_err()
    };
    assert_eq!(add(&extended, 0), AssociationError::NoWindow);
    assert_eq!(
        [63, 65_537].map(|size| add(&settings, size)),
        [63, 65_537].map(AssociationError::Window)
    );
    let mut set = |settings, dscp, last| {
        let how = (DontFragment::Copy, dscp);
        lab.state().set_outbound_association("tun", (settings, keys), how, last)
    };
    assert_eq!(set(&settings, Some(64), 0), Err(AssociationError::Dscp(64)));
    let last = u64::from(u32::MAX);
    assert_eq!(set(&settings, None, last), Err(AssociationError::LastNumber(last)));
    assert_eq!(set(&extended, None, u64::MAX), Err(AssociationError::LastNumber(u64::MAX)));
    assert_eq!(set(&extended, Some(63), last), Ok(()));
    lab.state().add_inbound_association("tun", (&settings, keys), 0).unwrap();
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let case = Case::USUAL;
    let mut lab = case.lab();
    let keys = Keys { encryption: &[1; 16], integrity: &[] };
    let settings = case.settings(IN);
    let again = lab.state().add_inbound_association("tun", (&settings, keys), 64);
    assert_eq!(again.unwrap_err().to_string(), "SPI 0x00002002 is in use");
    let short = Keys { encryption: &[1; 15], ..keys };
    let how = (DontFragment::Copy, None);
    let refused = lab.state().set_outbound_association("tun", (&settings, short), how, 0);
    assert!(matches!(refused, Err(AssociationError::Key(_))), "{refused:?}");
    let refused = lab.state().add_inbound_association("west", (&case.settings(0x3003), keys), 64);
    assert_eq!(refused, Err(AssociationError::NoTunnel("west".to_owned())));
    lab.send("east", [packet_from(2, &case.encapsulated(1, &packet()))]);
    assert_eq!(lab.only("west").payload, b"out");
    assert!(lab.state().remove_inbound_association(IN));
    // Without associations, it is a protocol like others that nobody has registered.
    lab.send("east", [packet_from(2, &case.encapsulated(2, &packet()))]);
    assert_eq!(lab.only("east").icmp, Some((3, 2)));
    assert!(!lab.state().remove_inbound_association(IN));
}
