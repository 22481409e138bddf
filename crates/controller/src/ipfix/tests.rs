//! Warnings of a commit.

use stoa_api::text::ip_bytes;
use stoa_api::v1;

use stoa_yang::error::ValidationErrors;

use super::capability::check;
use super::warnings;

fn ipfix() -> v1::Ipfix {
    let collector = v1::IpfixCollector { name: "noc".into(), ..v1::IpfixCollector::default() };
    v1::Ipfix { collectors: vec![collector], flows: true, ..v1::Ipfix::default() }
}

fn texts(desired: &v1::Desired) -> Vec<String> {
    warnings(desired).map(|warning| warning.text).collect()
}

#[test]
fn a_commit_warns_of_an_export_of_nothing() {
    assert_eq!(texts(&v1::Desired::default()), Vec::<String>::new());
    let desired = v1::Desired { ipfix: Some(ipfix()), ..v1::Desired::default() };
    let [one] = &texts(&desired)[..] else { panic!("one warning") };
    assert!(one.starts_with("IPFIX exports no flows"), "{one}");
    let all = v1::Ipfix { nat_sessions: true, denials: true, ..ipfix() };
    let desired = v1::Desired { ipfix: Some(all.clone()), ..v1::Desired::default() };
    assert_eq!(texts(&desired).len(), 3);
    let stateful = v1::AclRule { stateful: true, ..v1::AclRule::default() };
    let logged =
        v1::AclRule { log: true, action: v1::AclAction::AclDrop.into(), ..v1::AclRule::default() };
    let desired = v1::Desired {
        ipfix: Some(all),
        acl_rules: vec![stateful, logged],
        nat: Some(v1::Nat::default()),
        ..v1::Desired::default()
    };
    assert_eq!(texts(&desired), Vec::<String>::new());
    let off = v1::Ipfix { flows: false, ..ipfix() };
    let desired = v1::Desired { ipfix: Some(off), ..v1::Desired::default() };
    assert_eq!(texts(&desired), Vec::<String>::new());
}

#[test]
fn a_commit_warns_of_a_collector_that_is_configured_twice() {
    let of = |name: &str, port| v1::IpfixCollector {
        name: name.into(),
        address: vec![192, 0, 2, 9],
        port,
        ..v1::IpfixCollector::default()
    };
    let with = |collectors| {
        let ipfix = v1::Ipfix { collectors, ..v1::Ipfix::default() };
        texts(&v1::Desired { ipfix: Some(ipfix), ..v1::Desired::default() })
    };
    let found = with(vec![of("noc", 4739), of("soc", 4740), of("old", 4739)]);
    let [one] = &found[..] else { panic!("{found:?}") };
    assert!(one.starts_with("IPFIX collectors noc and old are both 192.0.2.9 port 4739"), "{one}");
}

#[test]
fn collectors_are_hosts_that_any_link_may_lead_to() {
    let refused = |address: &str, source: &str| {
        let bytes = |text: &str| text.parse().map(ip_bytes).unwrap_or_default();
        let (address, source) = (bytes(address), bytes(source));
        let collector =
            v1::IpfixCollector { name: "x".into(), address, source, ..Default::default() };
        let mut errors = ValidationErrors::default();
        check(&collector, &mut errors);
        !errors.is_empty()
    };
    assert!(!refused("192.0.2.9", "") && !refused("2001:db8::9", "2001:db8::1"));
    assert!(refused("fe80::9", "") && refused("ff02::1", "") && refused("0.0.0.0", ""));
    assert!(refused("192.0.2.9", "2001:db8::1"));
}
