//! Security associations of the state.

use stoa_api::v1;

/// An association of each direction, and one that is withheld.
pub(super) fn ipsec() -> v1::Ipsec {
    let outbound = v1::SecurityAssociation {
        name: "out".into(),
        interface: "e".into(),
        direction: v1::IpsecDirection::IpsecOutbound.into(),
        spi: 0x1001,
        algorithm: "aes-128-gcm".into(),
        key: vec![1; 16],
        salt: vec![2; 4],
        extended: true,
        dscp: Some(46),
        dont_fragment: v1::DontFragment::DfSet.into(),
        ..v1::SecurityAssociation::default()
    };
    let inbound = v1::SecurityAssociation {
        name: "in".into(),
        direction: v1::IpsecDirection::IpsecInbound.into(),
        spi: 0x2002,
        window: 1_024,
        dscp: None,
        dont_fragment: v1::DontFragment::DfCopy.into(),
        udp: Some(v1::IpsecUdp { local_port: 4500, remote_port: 4500 }),
        key: vec![3; 16],
        ..outbound.clone()
    };
    let withheld = v1::SecurityAssociation {
        name: "used".into(),
        spi: 0x2003,
        key: Vec::new(),
        salt: Vec::new(),
        withheld: "its key was used".into(),
        ..inbound.clone()
    };
    v1::Ipsec { associations: vec![outbound, inbound, withheld], boot_id: 0 }
}
