//! Ports that a registrar has bound: nobody else gets them, and they end with the binding.

use stoa_forwarder::control::desired::NatBlocks;

use super::changes::{is_called, masquerade, pass, registered};
use super::*;
use crate::adoption::await_mappings;
use crate::nat44_blocks::{blocks, by_blocks};

const BOTH: [Mapping; 2] = [Mapping::EndpointIndependent, Mapping::EndpointDependent];

fn by(policy: NatPolicy) -> Setup {
    with_nat(Setup::three_ports(), vec![policy], Vec::new())
}

/// The external port of a datagram that host 3 sends to the registrar from a port.
fn port_of_another(lab: &mut Lab, port: u16) -> u16 {
    let ends = (IpAddr::from(host4(3)), IpAddr::from(host4(2)));
    sent(lab, (3, "east"), ends, (port, 5060), "\r\n\r\n").unwrap().ports.unwrap().0
}

/// So long that all flows have ended, and mappings that nothing holds: so many are left.
fn end_flows(lab: &mut Lab, seconds: u64, mappings: u64) {
    pass(lab, seconds);
    await_mappings(lab, mappings);
    // One that is left stays.
    lab.pass_time(Duration::from_secs(10));
    await_mappings(lab, mappings);
}

/// A registrar answers that it has bound some contacts of an address-of-record.
fn answered(lab: &mut Lab, user: &str, contacts: &str) {
    let (client, server, outside) =
        (IpAddr::from(host4(1)), IpAddr::from(host4(2)), IpAddr::from(our4(2)));
    let to = format!("To: <sip:{user}@example.com>");
    let register = request("REGISTER", "sip:example.com", "10.0.1.2:5060", "");
    let register = register.replace("To: <sip:b@example.com>", &to);
    let got = sent(lab, (1, "east"), (client, server), (5060, 5060), &register).unwrap();
    let seen = got.ports.unwrap().0;
    let ok = format!(
        "SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP {outside}:5060;branch=z9hG4bK1\r\n{to};tag=2\r\n\
         CSeq: 1 REGISTER\r\n{contacts}\r\n"
    );
    assert!(sent(lab, (2, "west"), (server, outside), (5060, seen), &ok).is_some());
}

fn contact() -> String {
    format!("Contact: <sip:a@{}:5060>;expires=1800\r\n", our4(2))
}

/// Longer than the flow by which its client has registered.
#[test]
fn a_bound_port_is_that_of_no_other_host() {
    for (mapping, (client_port, port)) in
        BOTH.into_iter().flat_map(|it| [(it, (5060, 5060)), (it, (40_000, 5070))])
    {
        let mut lab = Lab::new(&by(sip_policy(mapping)));
        registered(&mut lab, client_port, port, "1800");
        end_flows(&mut lab, 700, 1);
        assert_ne!(port_of_another(&mut lab, port), port, "{mapping:?}");
        assert!(is_called(&mut lab, port));
        end_flows(&mut lab, 700, 1);
        assert_ne!(port_of_another(&mut lab, port), port, "{mapping:?}");
        end_flows(&mut lab, 700, 0);
        assert_eq!(port_of_another(&mut lab, port), port, "it is bound no more: {mapping:?}");
    }
}

/// `Contact: *`, or one that has ended: the answer lists it no more (RFC 3261 section 10.3).
#[test]
fn a_port_is_free_once_its_client_is_bound_no_more() {
    for mapping in BOTH {
        for contacts in ["", "Contact: <sip:a@192.0.2.7>;expires=600\r\n"] {
            let mut lab = Lab::new(&by(sip_policy(mapping)));
            answered(&mut lab, "a", &contact());
            assert_eq!(expected(&mut lab), Some(1));
            // Not by an answer that refuses it.
            answered(&mut lab, "a", &contact());
            answered(&mut lab, "a", contacts);
            assert_eq!(expected(&mut lab), Some(0));
            end_flows(&mut lab, 700, 0);
            assert!(!is_called(&mut lab, 5060));
            assert_eq!(port_of_another(&mut lab, 5060), 5060);
        }
    }
}

/// One of them ends nothing that the other one needs.
#[test]
fn two_addresses_of_record_have_one_end() {
    let mut lab = Lab::new(&masquerade());
    answered(&mut lab, "a", &contact());
    answered(&mut lab, "b", "");
    assert_eq!(expected(&mut lab), Some(1), "it was never bound");
    answered(&mut lab, "b", &contact());
    answered(&mut lab, "b", "");
    end_flows(&mut lab, 700, 1);
    assert!(is_called(&mut lab, 5060));
    answered(&mut lab, "a", "");
    end_flows(&mut lab, 700, 1);
    assert!(is_called(&mut lab, 5060), "its time ends it");
    end_flows(&mut lab, 700, 0);
    assert_eq!(port_of_another(&mut lab, 5060), 5060);
}

#[test]
fn a_binding_keeps_the_port_set_of_its_client() {
    for mapping in BOTH {
        let algs = sip_policy(mapping).algs;
        let of = by_blocks(mapping, NatBlocks { limit: 1, ..blocks() });
        let mut lab = Lab::new(&by(NatPolicy { algs, ..of }));
        let used = |lab: &mut Lab| {
            lab.state().tick();
            let it = lab.state().nat().policies.remove(0);
            (it.used_blocks, it.unused_blocks)
        };
        let (client, server, outside) =
            (IpAddr::from(host4(1)), IpAddr::from(host4(2)), IpAddr::from(POOL));
        let register = request("REGISTER", "sip:example.com", "10.0.1.2:5060", "");
        let got = sent(&mut lab, (1, "east"), (client, server), (5060, 5060), &register).unwrap();
        let seen = got.ports.unwrap().0;
        let bound = |seconds: u32| {
            let contact = format!("Contact: <sip:a@{POOL}:{seen}>;expires={seconds}\r\n");
            format!("SIP/2.0 200 OK\r\nCSeq: 1 REGISTER\r\n{contact}\r\n")
        };
        let back = (server, outside);
        sent(&mut lab, (2, "west"), back, (5060, seen), &bound(1_800)).unwrap();
        end_flows(&mut lab, 700, 1);
        assert_eq!(used(&mut lab), (1, 0), "{mapping:?}");
        assert!(
            sent(&mut lab, (2, "west"), back, (5060, seen), "OPTIONS sip:a SIP/2.0\r\n\r\n")
                .is_some()
        );
        sent(&mut lab, (2, "west"), back, (5060, seen), &bound(0)).unwrap();
        end_flows(&mut lab, 700, 0);
        lab.pass_time(Duration::from_secs(150));
        assert_eq!(used(&mut lab), (0, 0), "{mapping:?}");
    }
}

#[test]
fn a_binding_counts_for_the_quota_of_its_client() {
    // Without mappings, the flow of the registration counts beside it.
    for (mapping, most) in BOTH.into_iter().zip([1, 2]) {
        let quotas = [None, Some(most), None, None];
        let mut lab = Lab::new(&by(NatPolicy { quotas, ..sip_policy(mapping) }));
        let (client, server) = (IpAddr::from(host4(1)), IpAddr::from(host4(2)));
        registered(&mut lab, 5060, 5060, "900");
        end_flows(&mut lab, 700, 1);
        let asked = |lab: &mut Lab| {
            let ask = |port| sent(lab, (1, "east"), (client, server), (port, 53), "ask").is_some();
            (6000..6003).map(ask).filter(|has_passed| *has_passed).count() as u32
        };
        assert_eq!(asked(&mut lab), most - 1, "{mapping:?}");
        end_flows(&mut lab, 320, 0);
        assert_eq!(asked(&mut lab), most, "{mapping:?}");
    }
}
