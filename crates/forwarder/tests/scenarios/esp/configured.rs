//! Associations of the desired state: they follow it, no number of a key is used twice, and what is refused changes
//! nothing.

use stoa_api::v1;
use stoa_forwarder::control::desired::Association;

use super::*;

fn outbound(spi: u32, key: u8) -> v1::SecurityAssociation {
    v1::SecurityAssociation {
        name: "out".to_owned(),
        interface: "tun".to_owned(),
        direction: v1::IpsecDirection::IpsecOutbound.into(),
        spi,
        algorithm: "aes-128-gcm".to_owned(),
        key: vec![key; 16],
        salt: SALT.to_vec(),
        extended: true,
        ..v1::SecurityAssociation::default()
    }
}

fn inbound(key: u8) -> v1::SecurityAssociation {
    v1::SecurityAssociation {
        name: "in".to_owned(),
        direction: v1::IpsecDirection::IpsecInbound.into(),
        window: 64,
        ..outbound(IN, key)
    }
}

/// A router with the tunnel "tun" and these associations.
fn setup(hop_limit: u8, associations: &[v1::SecurityAssociation]) -> Setup {
    let far4 = (IpAddr::V4([198, 51, 100, 0].into()), 24);
    let mut setup = Setup::three_ports().tunnel("tun", 4, ends(true), Encapsulation::Esp);
    let Some(PortConfig::Tunnel(tunnel)) = setup.0.ports.get_mut("tun") else { panic!() };
    tunnel.hop_limit = hop_limit;
    for it in associations {
        setup.0.ipsec.insert(it.name.clone(), Association::parse(it).unwrap());
    }
    setup.paths(far4, &[("tun", None, 1)])
}

/// Sends a packet into the tunnel; returns its SPI and number.
fn sent(lab: &mut Lab) -> Option<(u32, u32)> {
    lab.send("west", [packet_from(1, &udp(host4(1), FAR4, b"into"))]);
    let frame = lab.take("east").pop()?;
    let header = esp::check(&frame[34..], 0).unwrap();
    Some((header.spi.get(), header.sequence.get()))
}

#[test]
fn a_key_goes_on_where_it_has_ended() {
    let (first, second) = (outbound(OUT, 1), outbound(OUT + 1, 2));
    let mut lab = Lab::new(&setup(0, &[first.clone(), inbound(9)]));
    assert_eq!(sent(&mut lab), Some((OUT, 1)));
    // Another setting, another tunnel header, another name and SPI: the same key.
    let marked = v1::SecurityAssociation { dscp: Some(46), ..first.clone() };
    lab.apply(&setup(0, &[marked.clone(), inbound(9)])).unwrap();
    assert_eq!(sent(&mut lab), Some((OUT, 2)));
    lab.apply(&setup(9, &[marked, inbound(9)])).unwrap();
    assert_eq!(sent(&mut lab), Some((OUT, 3)));
    let renamed = v1::SecurityAssociation { name: "new".to_owned(), spi: 777, ..first.clone() };
    lab.apply(&setup(9, &[renamed])).unwrap();
    assert_eq!(sent(&mut lab), Some((777, 4)));
    // Another key begins at 1, and the first one goes on whenever it comes back.
    lab.apply(&setup(9, &[second])).unwrap();
    assert_eq!(sent(&mut lab), Some((OUT + 1, 1)));
    lab.apply(&setup(9, &[])).unwrap();
    assert_eq!(sent(&mut lab), None);
    lab.apply(&Setup::three_ports()).unwrap();
    lab.apply(&setup(9, &[first])).unwrap();
    assert_eq!(sent(&mut lab), Some((OUT, 5)));
    lab.assert_dropped(&[("tunnel-deleted", 1)]);
    let shown = lab.state().security_associations().associations;
    assert_eq!((shown.len(), shown[0].packets, shown[0].sequence), (1, 1, 5));
    assert!(shown[0].in_force && shown[0].association.as_ref().unwrap().key.is_empty());
}

#[test]
fn what_is_refused_changes_nothing() {
    let mut lab = Lab::new(&setup(0, &[outbound(OUT, 1), inbound(9)]));
    assert_eq!(sent(&mut lab), Some((OUT, 1)));
    // No headers of a tunnel without ESP.
    let mut plain = setup(0, &[outbound(OUT, 2), inbound(9)]);
    let Some(PortConfig::Tunnel(tunnel)) = plain.0.ports.get_mut("tun") else { panic!() };
    tunnel.encapsulation = Encapsulation::Gre;
    assert!(lab.apply(&plain).is_err());
    assert_eq!(sent(&mut lab), Some((OUT, 2)));
    assert!(lab.state().inbound_association(IN).is_some());
    lab.assert_dropped(&[]);
    // The SPI of another association, by which the direct interface has it.
    let keys = Keys { encryption: &[7; 16], integrity: &[] };
    let settings = Case::USUAL.settings(4_000);
    lab.state().add_inbound_association("tun", (&settings, keys), 64).unwrap();
    let taken = v1::SecurityAssociation { spi: 4_000, ..inbound(8) };
    assert!(lab.apply(&setup(0, &[outbound(OUT, 3), taken])).is_err());
    assert_eq!(sent(&mut lab), Some((OUT, 3)), "the former key, and no number is lost");
}

#[test]
fn a_withheld_association_is_down_and_says_why() {
    let withheld = v1::SecurityAssociation {
        key: Vec::new(),
        salt: Vec::new(),
        withheld: "its key was used".to_owned(),
        ..outbound(OUT, 1)
    };
    let mut lab = Lab::new(&setup(0, &[withheld, inbound(9)]));
    assert_eq!(sent(&mut lab), None);
    lab.assert_dropped(&[("tunnel-deleted", 1)]);
    let shown = lab.state().security_associations().associations;
    let of = |name: &str| {
        let is_it = |it: &&v1::SecurityAssociationState| {
            it.association.as_ref().is_some_and(|it| it.name == name)
        };
        shown.iter().find(is_it).unwrap()
    };
    assert_eq!((of("out").in_force, of("out").reason.as_str()), (false, "its key was used"));
    assert!(of("in").in_force);
    lab.apply(&setup(0, &[outbound(OUT, 2), inbound(9)])).unwrap();
    assert_eq!(sent(&mut lab), Some((OUT, 1)));
}

#[test]
fn wrong_messages_are_refused() {
    let good = outbound(OUT, 1);
    let refused = |change: fn(&mut v1::SecurityAssociation)| {
        let mut it = good.clone();
        change(&mut it);
        Association::parse(&it).err().map(|(cause, _)| cause).unwrap_or_default()
    };
    assert_eq!(refused(|_| {}), "");
    assert!(refused(|it| it.spi = 255).contains("reserved"));
    assert!(refused(|it| it.algorithm = "rot13".into()).contains("rot13"));
    assert!(refused(|it| it.key.truncate(15)).contains("16 bytes, not 15"));
    assert!(refused(|it| it.salt.clear()).contains("salt of 0 bytes"));
    assert!(refused(|it| it.integrity_key = vec![1]).contains("integrity"));
    assert!(refused(|it| it.dscp = Some(64)).contains("DSCP 64"));
    let ports = v1::IpsecUdp { local_port: 500, remote_port: 4500 };
    assert!(
        Association::parse(&v1::SecurityAssociation { udp: Some(ports), ..good.clone() }).is_err()
    );
    let none = v1::SecurityAssociation { window: 0, ..inbound(9) };
    assert!(Association::parse(&none).err().unwrap().0.contains("anti-replay window"));
}
