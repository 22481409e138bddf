//! Registrations, ends beside that of a flow, and what is over.

use super::*;
use crate::acl_stateful::await_flows;

pub(super) fn masquerade() -> Setup {
    let policies = vec![sip_policy(Mapping::EndpointIndependent)];
    with_nat(Setup::three_ports(), policies, Vec::new())
}

/// A registrar binds the client of host 1 for some seconds.
pub(super) fn registered(lab: &mut Lab, client_port: u16, contact_port: u16, expires: &str) {
    let (client, server, outside) =
        (IpAddr::from(host4(1)), IpAddr::from(host4(2)), IpAddr::from(our4(2)));
    let register = request("REGISTER", "sip:example.com", &format!("10.0.1.2:{contact_port}"), "");
    let ports = (client_port, 5060);
    let got = sent(lab, (1, "east"), (client, server), ports, &register).unwrap();
    let seen = got.ports.unwrap().0;
    let ok = |via: &str, contact: &str| {
        let ok = answer("REGISTER", via, contact, "");
        let ok = ok.replace("CSeq: ", &format!("Call-ID: 1@10.0.1.2:{contact_port}\r\nCSeq: "));
        ok.replace(&format!("<sip:b@{contact}>"), &format!("<sip:a@{contact}>;expires={expires}"))
    };
    let contact = format!("{outside}:{contact_port}");
    let said = ok(&contact, &contact);
    let got = sent(lab, (2, "west"), (server, outside), (5060, seen), &said).unwrap();
    let inside = format!("{client}:{contact_port}");
    assert_eq!(text(&got), ok(&inside, &inside));
}

fn invited(lab: &mut Lab, port: u16) -> Option<Parsed> {
    let (server, outside) = (IpAddr::from(host4(2)), IpAddr::from(our4(2)));
    let uri = format!("sip:a@{outside}:{port}");
    let invite = request("INVITE", &uri, "10.0.2.2:5060", &session(server, 9000));
    sent(lab, (2, "west"), (server, outside), (5060, port), &invite)
}

pub(super) fn is_called(lab: &mut Lab, port: u16) -> bool {
    let got = invited(lab, port);
    got.inspect(|it| {
        assert!(text(it).starts_with(&format!("INVITE sip:a@10.0.1.2:{port} SIP/2.0\r\n")));
        assert_eq!(ends(it), ("10.0.2.2:5060".into(), format!("10.0.1.2:{port}")));
    })
    .is_some()
}

/// So long that all flows end.
pub(super) fn pass(lab: &mut Lab, seconds: u64) {
    lab.state().skip(Duration::from_secs(seconds));
    await_flows(lab, 0);
}

/// Longer than the flow by which it has registered, and as often as it is called.
#[test]
fn a_registered_client_is_reached() {
    for (client_port, contact_port) in [(5060, 5060), (40_000, 5070)] {
        let mut lab = Lab::new(&masquerade());
        registered(&mut lab, client_port, contact_port, "1800");
        for _ in 0..2 {
            pass(&mut lab, 700);
            assert!(is_called(&mut lab, contact_port));
            // The answer has its session translated, too.
            let (client, server) = (IpAddr::from(host4(1)), IpAddr::from(host4(2)));
            let ok = |end: IpAddr| {
                let contact = format!("{end}:{contact_port}");
                answer("INVITE", "10.0.2.2:5060", &contact, &session(end, 8000))
            };
            let ports = (contact_port, 5060);
            let got = sent(&mut lab, (1, "east"), (client, server), ports, &ok(client)).unwrap();
            assert_eq!(text(&got), ok(our4(2).into()));
            let rtp = media(&mut lab, (2, "west"), (server, our4(2).into()), (9000, 8000));
            assert_eq!(rtp, pair(server, client, (9000, 8000)));
        }
        pass(&mut lab, 700);
        assert!(!is_called(&mut lab, contact_port), "it is bound no more");
        assert_eq!(sums(&mut lab).passed, AlgSums::default().passed);
    }
}

#[test]
fn a_binding_has_an_end() {
    let mut lab = Lab::new(&masquerade());
    registered(&mut lab, 5060, 5060, "86400");
    pass(&mut lab, 3_500);
    assert!(is_called(&mut lab, 5060));
    registered(&mut lab, 5060, 5060, "0");
    pass(&mut lab, 700);
    assert!(!is_called(&mut lab, 5060));
    // And no longer than an hour.
    registered(&mut lab, 5060, 5060, "86400");
    pass(&mut lab, 3_610);
    assert!(!is_called(&mut lab, 5060));
    // Others are not let in.
    registered(&mut lab, 5060, 5060, "600");
    pass(&mut lab, 400);
    let other = (IpAddr::from(Ipv4Addr::new(10, 0, 2, 9)), IpAddr::from(our4(2)));
    assert!(
        sent(&mut lab, (2, "west"), other, (5060, 5060), "OPTIONS sip:a SIP/2.0\r\n\r\n").is_none()
    );
}

/// The answer to the `Via` of a client that sends from another port.
#[test]
fn answers_to_another_port_are_let_in() {
    for setup in [masquerade(), sip_gate()] {
        let mut lab = Lab::new(&setup);
        let (client, server) = (IpAddr::from(host4(1)), IpAddr::from(host4(2)));
        let ask = request("OPTIONS", "sip:b@example.com", "10.0.1.2:5070", "");
        let got = sent(&mut lab, (1, "east"), (client, server), (40_000, 5060), &ask).unwrap();
        let outside = got.ip.unwrap().0;
        assert_eq!(text(&got).contains("Via: SIP/2.0/UDP 10.0.1.2:5070"), outside == client);
        let ok = |end: IpAddr| answer("OPTIONS", &format!("{end}:5070"), "10.0.2.2:5060", "");
        let to = (server, outside);
        assert!(sent(&mut lab, (2, "west"), to, (5060, 5071), &ok(outside)).is_none());
        let got = sent(&mut lab, (2, "west"), to, (5060, 5070), &ok(outside)).unwrap();
        assert_eq!((text(&got), ends(&got).1), (ok(client), "10.0.1.2:5070".into()));
    }
}

#[test]
fn media_are_expected_for_a_while() {
    let mut lab = Lab::new(&sip_gate());
    let (client, server) = (IpAddr::from(host4(1)), IpAddr::from(host4(2)));
    let invite = request("INVITE", "sip:b@example.com", "10.0.1.2:5060", &session(client, 8000));
    sent(&mut lab, (1, "east"), (client, server), (5060, 5060), &invite).unwrap();
    lab.state().skip(Duration::from_secs(170));
    assert!(media(&mut lab, (2, "west"), (server, client), (9000, 8000)).is_some());
    lab.state().skip(Duration::from_secs(11));
    assert!(media(&mut lab, (2, "west"), (server, client), (9001, 8001)).is_none());
    assert!(media(&mut lab, (1, "east"), (client, server), (8001, 9001)).is_none());
}

/// As many as two hosts may have: further media keep their ports, and further ends are that of the flow. No address of
/// inside is left.
#[test]
fn what_finds_no_room_is_left_out() {
    let mut lab = Lab::new(&masquerade());
    let (client, server, outside) =
        (IpAddr::from(host4(1)), IpAddr::from(host4(2)), IpAddr::from(our4(2)));
    let invite = |end: IpAddr, contact: u16, port| {
        request("INVITE", "sip:b@x", &format!("{end}:{contact}"), &session(end, port))
            // These are not translated.
            .replace(&format!("From: <sip:a@{end}:{contact}"), "From: <sip:a")
            .replace(&format!("Call-ID: 1@{end}:{contact}"), "Call-ID: 1")
    };
    for at in 0..34 {
        let (contact, port) = (if at == 33 { 5070 } else { 5060 }, 8000 + 2 * at);
        let text_of = invite(client, contact, port);
        let got = sent(&mut lab, (1, "east"), (client, server), (5060, 5060), &text_of).unwrap();
        assert_eq!(text(&got), invite(outside, 5060, port), "{at}");
        let full = [0, 1, 3][usize::from(at.max(31) - 31)];
        assert_eq!(passed_as_it_is(&mut lab, Passed::FullPair), full, "{at}");
    }
    // What the server says of the end is known.
    let ok = |end: IpAddr| answer("INVITE", &format!("{end}:5060"), "b.example", "");
    let back = (server, outside);
    let got = sent(&mut lab, (2, "west"), back, (5060, 5060), &ok(outside)).unwrap();
    assert_eq!(text(&got), ok(client));
}

/// An exchange calls by one provider: its telephones send no RTCP, which is expected all the same.
#[test]
fn many_calls_follow_each_other() {
    let mut lab = Lab::new(&masquerade());
    let (client, server, outside) =
        (IpAddr::from(host4(1)), IpAddr::from(host4(2)), IpAddr::from(our4(2)));
    for at in 0..40 {
        let (own, other) = (8000 + 2 * at, 9000 + 2 * at);
        let invite = request("INVITE", "sip:b@x", "10.0.1.2:5060", &session(client, own));
        let got = sent(&mut lab, (1, "east"), (client, server), (5060, 5060), &invite).unwrap();
        assert_ne!(text(&got), invite, "{at}");
        let ok = answer("INVITE", "203.0.113.9:5060", "b.example", &session(server, other));
        sent(&mut lab, (2, "west"), (server, outside), (5060, 5060), &ok).unwrap();
        let rtp = media(&mut lab, (1, "east"), (client, server), (own, other));
        assert_eq!(rtp, pair(outside, server, (own, other)));
    }
    assert_eq!(passed_as_it_is(&mut lab, Passed::FullPair), 0);
}
