//! Ends that try to open ports of others, and limits that they meet.

use stoa_forwarder::control::desired::FlowLimits;

use super::*;

/// Sends a text between the signalling ports of the client, host 1, and of the server, host 2; what arrives.
fn says(lab: &mut Lab, from: u8, text_of: &str) -> Option<String> {
    let (client, server) = (IpAddr::from(host4(1)), IpAddr::from(host4(2)));
    let (to, ends) =
        if from == 1 { ("east", (client, server)) } else { ("west", (server, client)) };
    sent(lab, (from, to), ends, (5060, 5060), text_of).map(|it| text(&it))
}

/// What the server sends to a port of the client, from another one than that of its signalling.
fn reaches(lab: &mut Lab, port: u16) -> bool {
    let ends = (host4(2).into(), host4(1).into());
    media(lab, (2, "west"), ends, (7000, port)).is_some()
}

/// A server whose client has announced nothing sends to ports of its choice.
#[test]
fn an_answer_lets_its_sender_reach_no_port() {
    for [client, server] in [[host4(1).into(), host4(2).into()], [host6(1).into(), host6(2).into()]]
    {
        let [client, server]: [IpAddr; 2] = [client, server];
        let mut lab = Lab::new(&sip_gate());
        let ask = request("OPTIONS", "sip:b", "a.example", "");
        sent(&mut lab, (1, "east"), (client, server), (5060, 5060), &ask).unwrap();
        let ok = answer("OPTIONS", "a.example:5060", "b.example", &session(server, 9000));
        sent(&mut lab, (2, "west"), (server, client), (5060, 5060), &ok).unwrap();
        assert_eq!(expected(&mut lab), Some(2));
        for port in [53, 161, 8000, 9000, 30_000] {
            let got = media(&mut lab, (2, "west"), (server, client), (9000, port));
            assert_eq!(got, None, "{port}");
        }
        assert!(media(&mut lab, (1, "east"), (client, server), (8000, 9000)).is_some());
        assert!(media(&mut lab, (2, "west"), (server, client), (9000, 8000)).is_some());
    }
}

/// An answer repeats what the server has written into its request.
#[test]
fn an_answer_opens_no_port_of_its_sender() {
    let mut lab = Lab::new(&sip_gate());
    says(&mut lab, 1, &request("OPTIONS", "sip:b", "10.0.1.2:5060", "")).unwrap();
    let asked = "OPTIONS sip:a@10.0.1.2:5060 SIP/2.0\r\nVia: SIP/2.0/UDP 10.0.1.2:2222\r\n\
                 Record-Route: <sip:10.0.1.2:2223;lr>\r\nContact: <sip:a@10.0.1.2:2224>\r\n\r\n";
    assert!(says(&mut lab, 2, asked).is_some());
    let repeated = asked.split_once("\r\n").unwrap().1;
    for cseq in ["OPTIONS", "REGISTER"] {
        let ok = format!("SIP/2.0 200 OK\r\nCSeq: 1 {cseq}\r\n{repeated}");
        assert_eq!(says(&mut lab, 1, &ok), Some(ok));
    }
    for port in [2222, 2223, 2224] {
        assert!(!reaches(&mut lab, port), "{port}");
    }
    // Nor does a route that the server has given it.
    let bye = "BYE sip:b@10.0.2.2 SIP/2.0\r\nVia: SIP/2.0/UDP 10.0.1.2:5060\r\n\
               Route: <sip:10.0.1.2:2223;lr>\r\n\r\n";
    assert!(says(&mut lab, 1, bye).is_some());
    assert!(!reaches(&mut lab, 2223));
}

/// A server binds ends that its client has never named.
#[test]
fn a_registrar_opens_no_port_that_was_not_announced() {
    let mut lab = Lab::new(&sip_gate());
    let ok = |port: u16| {
        let contact = format!("Contact: <sip:a@10.0.1.2:{port}>;expires=600\r\n");
        format!("SIP/2.0 200 OK\r\nCall-ID: 1@10.0.1.2:5070\r\nCSeq: 1 REGISTER\r\n{contact}\r\n")
    };
    // The client announces media at one port, and an end at another one.
    let invite = request("INVITE", "sip:b", "10.0.1.2:5060", &session(host4(1), 8000));
    says(&mut lab, 1, &invite).unwrap();
    for port in [161, 2222, 8000, 5070] {
        // Each is asked for: an answer counts once.
        says(&mut lab, 1, &request("REGISTER", "sip:b", "10.0.1.2:5070", "")).unwrap();
        says(&mut lab, 2, &ok(port)).unwrap();
    }
    assert_eq!(passed_as_it_is(&mut lab, Passed::Foreign), 3);
    lab.state().skip(Duration::from_secs(300));
    for port in [161, 2222, 8000] {
        assert!(!reaches(&mut lab, port), "{port}");
    }
    assert!(reaches(&mut lab, 5070));
}

/// What was bound under other rules is decided by these.
#[test]
fn a_change_of_rules_ends_bindings() {
    for changes in [false, true] {
        let mut lab = Lab::new(&sip_gate());
        says(&mut lab, 1, &request("REGISTER", "sip:b", "10.0.1.2:5060", "")).unwrap();
        let ok = "SIP/2.0 200 OK\r\nCall-ID: 1@10.0.1.2:5060\r\nCSeq: 1 REGISTER\r\n\
                  Contact: <sip:a@10.0.1.2>;expires=600\r\n\r\n";
        says(&mut lab, 2, ok).unwrap();
        if changes {
            let rules = [("rest", all(Action::Reject)), ("end", all(Action::Drop))];
            lab.apply(&list(sip_gate(), "in", &rules)).unwrap();
        }
        assert_eq!(reaches(&mut lab, 5060), !changes);
    }
}

/// Text of the server that is of no use does not stop the translation of what concerns the client.
#[test]
fn what_an_outside_end_names_does_not_stop_its_answer() {
    let policies = vec![sip_policy(Mapping::EndpointIndependent)];
    let (client, server, outside) =
        (IpAddr::from(host4(1)), IpAddr::from(host4(2)), IpAddr::from(our4(2)));
    for (body, cause) in [
        (session(server, 80), Passed::Foreign),
        ("m=audio x RTP/AVP 0\r\n".to_owned(), Passed::Malformed),
    ] {
        let mut lab = Lab::new(&with_nat(Setup::three_ports(), policies.clone(), Vec::new()));
        let ask = request("INVITE", "sip:b", "10.0.1.2:5060", "");
        sent(&mut lab, (1, "east"), (client, server), (5060, 5060), &ask).unwrap();
        let ok = |via: IpAddr| answer("INVITE", &format!("{via}:5060"), "10.0.2.2:5060", &body);
        let back = (server, outside);
        let got = sent(&mut lab, (2, "west"), back, (5060, 5060), &ok(outside)).unwrap();
        assert_eq!(text(&got), ok(client));
        assert_eq!(passed_as_it_is(&mut lab, cause), 1);
    }
}

/// Both ends have announced media, and the client, whose port is taken, sends first: from the announced one.
#[test]
fn media_that_a_client_begins_have_the_announced_port() {
    let policies = vec![sip_policy(Mapping::EndpointIndependent)];
    let mut lab = Lab::new(&with_nat(Setup::three_ports(), policies, Vec::new()));
    let (client, server, outside) =
        (IpAddr::from(host4(1)), IpAddr::from(host4(2)), IpAddr::from(our4(2)));
    let (there, back) = ((client, server), (server, outside));
    let other = (IpAddr::from(host4(3)), server);
    assert!(media(&mut lab, (3, "east"), other, (8000, 53)).is_some());
    let invite = request("INVITE", "sip:b", "10.0.1.2:5060", &session(client, 8000));
    let got = sent(&mut lab, (1, "east"), there, (5060, 5060), &invite).unwrap();
    let found = stoa_wire::sip::read(&got.payload).unwrap();
    let [Some(audio), ..] = stoa_wire::sip::sdp::media(found.body).unwrap() else { panic!() };
    assert_ne!(audio.port, 8000);
    let ok = answer("INVITE", "10.0.2.2:5060", "10.0.2.2:5060", &session(server, 9000));
    sent(&mut lab, (2, "west"), back, (5060, 5060), &ok).unwrap();
    let rtp = media(&mut lab, (1, "east"), there, (8000, 9000));
    assert_eq!(rtp, pair(outside, server, (audio.port, 9000)));
    let rtp = media(&mut lab, (2, "west"), back, (9000, audio.port));
    assert_eq!(rtp, pair(server, client, (9000, 8000)));
    // Nothing more is expected once RTCP has begun, too.
    let rtcp = media(&mut lab, (2, "west"), back, (9001, audio.port + 1));
    assert_eq!(rtcp, pair(server, client, (9001, 8001)));
    assert_eq!(expected(&mut lab), Some(0));
}

/// Ends of one client never share an external port.
#[test]
fn announced_ends_have_ports_of_their_own() {
    let policies =
        vec![NatPolicy { ports: (8000, 8029), ..sip_policy(Mapping::EndpointIndependent) }];
    let mut lab = Lab::new(&with_nat(Setup::three_ports(), policies, Vec::new()));
    let there = (IpAddr::from(host4(1)), IpAddr::from(host4(2)));
    let mut all = Vec::new();
    // The first ones keep their ports; those of the others are none of the policy.
    for ports in [8001..8005, 8005..8009, 6001..6005] {
        let images = ports.map(|port| format!("m=image {port} udptl t38\r\n"));
        let body = format!("v=0\r\nc=IN IP4 10.0.1.2\r\n{}", images.collect::<String>());
        let invite = request("INVITE", "sip:b", "10.0.1.2:8000", &body);
        let got = sent(&mut lab, (1, "east"), there, (8000, 5060), &invite).unwrap();
        all.push(got.ports.unwrap().0);
        all.dedup();
        let found = stoa_wire::sip::read(&got.payload).unwrap();
        let media = stoa_wire::sip::sdp::media(found.body).unwrap();
        all.extend(media.into_iter().flatten().map(|it| it.port));
    }
    all.sort_unstable();
    all.dedup();
    assert!(all.len() >= 13 && all.iter().all(|port| (8000..8030).contains(port)), "{all:?}");
}

/// A limit of flows refuses media for now: they are still expected.
#[test]
fn media_that_a_limit_refuses_may_come_again() {
    let limited = |most: u32| {
        let mut setup = sip_gate().with("west", |it| it.zone = "lan".to_owned());
        setup = setup.with("east", |it| it.zone = "lan".to_owned());
        let zones = [("lan".to_owned(), [Some(most), None, None])].into();
        setup.0.flow_limits = FlowLimits { zones, ..FlowLimits::default() };
        setup
    };
    let mut lab = Lab::new(&limited(2));
    let invite = request("INVITE", "sip:b", "10.0.1.2:5060", &session(host4(1), 8000));
    says(&mut lab, 1, &invite).unwrap();
    assert!(reaches(&mut lab, 8000) && !reaches(&mut lab, 8001));
    assert_eq!(flows(&mut lab).len(), 2);
    lab.apply(&limited(3)).unwrap();
    assert!(reaches(&mut lab, 8001));
}

/// Requests of hosts that do not exist, to a server inside: it still calls.
#[test]
fn forged_requests_leave_room() {
    let forward = NatMapping { protocol: 17, ..forward(5060, 5060, 0) };
    let policies = vec![sip_policy(Mapping::EndpointIndependent)];
    let mut lab = Lab::new(&with_nat(Setup::three_ports(), policies, vec![forward]));
    let (client, server, outside) =
        (IpAddr::from(host4(1)), IpAddr::from(host4(2)), IpAddr::from(our4(2)));
    for host in 10..210 {
        let forged = Ipv4Addr::new(10, 0, 2, host);
        let media = (0..3).map(|at| format!("m=audio {} RTP/AVP 0\r\n", 9002 + 2 * at));
        let body = session(forged, 9000) + &media.collect::<String>();
        let invite = request("INVITE", "sip:a", &format!("{forged}:5070"), &body);
        let ends = (forged.into(), outside);
        assert!(sent(&mut lab, (2, "west"), ends, (5060, 5060), &invite).is_some());
    }
    assert!(expected(&mut lab).is_some_and(|it| (100..=256).contains(&it)));
    let invite = |end: IpAddr| {
        let text_of = request("INVITE", "sip:b", &format!("{end}:5060"), &session(end, 8000));
        text_of.replace(&format!("sip:a@{end}:5060>;"), "sip:a>;").replace(&format!("1@{end}"), "1")
    };
    let got = sent(&mut lab, (1, "east"), (client, server), (5060, 5060), &invite(client)).unwrap();
    assert_eq!(text(&got), invite(outside));
    let rtp = media(&mut lab, (2, "west"), (server, outside), (9000, 8000));
    assert_eq!(rtp, pair(server, client, (9000, 8000)));
}
