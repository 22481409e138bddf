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

/// Host 1 sends a request to the registrar from port 5060; its external port.
fn asks(lab: &mut Lab, text_of: &str) -> u16 {
    let ends = (IpAddr::from(host4(1)), IpAddr::from(host4(2)));
    sent(lab, (1, "east"), ends, (5060, 5060), text_of).unwrap().ports.unwrap().0
}

/// Host 1 registers an address-of-record, with a number.
fn registers(lab: &mut Lab, user: &str, number: u32) -> u16 {
    let register = request("REGISTER", "sip:example.com", "10.0.1.2:5060", "");
    let register = register.replace("b@example.com", &format!("{user}@example.com"));
    asks(lab, &register.replace("CSeq: 1 ", &format!("CSeq: {number} ")))
}

/// What a registrar answers to that.
fn to_register(status: &str, user: &str, number: u32, contacts: &str) -> String {
    format!(
        "SIP/2.0 {status}\r\nTo: <sip:{user}@example.com>;tag=2\r\nCall-ID: 1@10.0.1.2:5060\r\n\
         CSeq: {number} REGISTER\r\n{contacts}\r\n"
    )
}

/// It sends a text to an external port of the router.
fn replies(lab: &mut Lab, port: u16, text_of: &str) {
    let back = (IpAddr::from(host4(2)), IpAddr::from(our4(2)));
    assert!(sent(lab, (2, "west"), back, (5060, port), text_of).is_some());
}

/// A registrar answers that it has bound some contacts of an address-of-record.
fn answered(lab: &mut Lab, user: &str, contacts: &str) {
    let seen = registers(lab, user, 1);
    replies(lab, seen, &to_register("200 OK", user, 1, contacts));
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
            for refusal in ["401 Unauthorized", "503 Service Unavailable"] {
                let seen = registers(&mut lab, "a", 1);
                replies(&mut lab, seen, &to_register(refusal, "a", 1, ""));
                assert_eq!(expected(&mut lab), Some(1), "{refusal}");
            }
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
        let asks = |lab: &mut Lab| {
            let got = sent(lab, (1, "east"), (client, server), (5060, 5060), &register).unwrap();
            got.ports.unwrap().0
        };
        let seen = asks(&mut lab);
        let bound = |seconds: u32| {
            let contact = format!("Contact: <sip:a@{POOL}:{seen}>;expires={seconds}\r\n");
            to_register("200 OK", "b", 1, &contact)
        };
        let back = (server, outside);
        sent(&mut lab, (2, "west"), back, (5060, seen), &bound(1_800)).unwrap();
        end_flows(&mut lab, 700, 1);
        assert_eq!(used(&mut lab), (1, 0), "{mapping:?}");
        assert!(
            sent(&mut lab, (2, "west"), back, (5060, seen), "OPTIONS sip:a SIP/2.0\r\n\r\n")
                .is_some()
        );
        assert_eq!(asks(&mut lab), seen);
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

/// Whom a client has sent anything could hold its port, its quota and its port set otherwise.
#[test]
fn what_no_client_has_asked_for_binds_nothing() {
    for mapping in BOTH {
        let mut lab = Lab::new(&by(sip_policy(mapping)));
        let ok = |number, call: &str| {
            let said = to_register("200 OK", "b", number, &contact());
            said.replace("1@10.0.1.2:5060", call)
        };
        let seen = asks(&mut lab, &request("OPTIONS", "sip:b", "10.0.1.2:5060", ""));
        replies(&mut lab, seen, &ok(1, "1@10.0.1.2:5060"));
        // Nor does another answer than that to its last request.
        registers(&mut lab, "b", 2);
        registers(&mut lab, "b", 3);
        for (number, call) in [(2, "1@10.0.1.2:5060"), (3, "2@10.0.1.2:5060")] {
            replies(&mut lab, seen, &ok(number, call));
        }
        assert_eq!(expected(&mut lab), Some(0), "{mapping:?}");
        end_flows(&mut lab, 700, 0);
        assert!(!is_called(&mut lab, 5060));
        assert_eq!(port_of_another(&mut lab, 5060), 5060);
    }
}

/// The client need not be there any more.
#[test]
fn a_registrar_renews_no_binding_by_itself() {
    for mapping in BOTH {
        let mut lab = Lab::new(&by(sip_policy(mapping)));
        answered(&mut lab, "a", &contact());
        // Repeated, it does not begin anew.
        let again = to_register("200 OK", "a", 1, &contact());
        for _ in 0..2 {
            end_flows(&mut lab, 700, 1);
            replies(&mut lab, 5060, &again);
        }
        end_flows(&mut lab, 700, 0);
        assert!(!is_called(&mut lab, 5060), "{mapping:?}");
    }
}

/// Forged, late or repeated: the client has registered anew since, or another time.
#[test]
fn an_older_answer_ends_no_binding() {
    let mut lab = Lab::new(&masquerade());
    let seen = registers(&mut lab, "a", 1);
    let none = to_register("200 OK", "a", 1, "");
    replies(&mut lab, seen, &none);
    registers(&mut lab, "a", 2);
    replies(&mut lab, seen, &to_register("200 OK", "a", 2, &contact()));
    let others = [none, to_register("200 OK", "a", 2, ""), to_register("200 OK", "a", 3, "")];
    for other in others {
        replies(&mut lab, seen, &other);
        replies(&mut lab, seen, &other.replace("Call-ID: 1", "Call-ID: 2"));
        assert_eq!(expected(&mut lab), Some(1), "{other}");
    }
}

/// With a policy without mappings, the flow would hold a quota or port set beside the mapping, for ever.
#[test]
fn hosts_inside_reach_a_bound_port_as_those_outside_do() {
    for mapping in BOTH {
        for is_by_blocks in [false, true] {
            let algs = sip_policy(mapping).algs;
            let of = match is_by_blocks {
                true => by_blocks(mapping, NatBlocks { limit: 1, ..blocks() }),
                false => NatPolicy { quotas: [None, Some(2), None, None], ..policy(mapping) },
            };
            let outside = IpAddr::from(if is_by_blocks { POOL } else { our4(2) });
            let mut lab = Lab::new(&by(NatPolicy { algs, ..of }));
            let seen = registers(&mut lab, "a", 1);
            let contact = format!("Contact: <sip:a@{outside}:{seen}>;expires=1800\r\n");
            let ok = to_register("200 OK", "a", 1, &contact);
            let back = (IpAddr::from(host4(2)), outside);
            assert!(sent(&mut lab, (2, "west"), back, (5060, seen), &ok).is_some());
            end_flows(&mut lab, 700, 1);
            let asked = (6_000..6_003).filter(|port| {
                let ends = (IpAddr::from(host4(3)), outside);
                sent(&mut lab, (3, "west"), ends, (*port, seen), "\r\n\r\n").is_some()
            });
            let count = asked.count();
            assert_eq!(count != 0, mapping == BOTH[0], "{mapping:?} {is_by_blocks}: {count}");
            end_flows(&mut lab, 700, 1);
            // What it may have is still there.
            let there = (IpAddr::from(host4(3)), IpAddr::from(host4(2)));
            assert!(sent(&mut lab, (3, "east"), there, (6_010, 53), "ask").is_some());
            lab.state().tick();
            if is_by_blocks {
                let it = lab.state().nat().policies.remove(0);
                assert_eq!(it.used_blocks, 2, "{mapping:?}: of the client and of host 3");
            }
        }
    }
}
