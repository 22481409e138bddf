//! Requests that are wrong: each has its result and its counter, and nothing is mapped.

use stoa_forwarder::punt::{Class, Limit};

use super::*;

/// The result of a message whose answer may have another shape.
#[track_caller]
fn refusal(lab: &mut Lab, message: &[u8]) -> (u8, u8) {
    let answer = exchange(lab, 1, message);
    assert!(answer.len() >= 24 && answer.len().is_multiple_of(4) && answer.len() <= 1_100);
    assert!(u32::from_be_bytes(answer[4..8].try_into().unwrap()) >= 30);
    (answer[1], answer[3])
}

#[test]
fn wrong_requests_have_results_and_counters() {
    let mut lab = lab(pool_policy(control()));
    let whole = map(UDP, 4000);
    let bytes = whole.bytes();
    let third = |address| Ask { client: address, ..whole.clone() };
    let wrong: [(Vec<u8>, u8); 11] = [
        ([&[1], &bytes[1..]].concat(), 1),
        ([&[3], &bytes[1..]].concat(), 1),
        (bytes[..56].to_vec(), 3),
        (bytes[..23].to_vec(), 3),
        ([bytes.clone(), [200, 0, 0, 0].repeat(261)].concat(), 3),
        ([&[2, 9], &bytes[2..]].concat(), 4),
        (whole.clone().with(99, &[]).bytes(), 5),
        (whole.clone().with(2, &[0; 4]).bytes(), 6),
        (Ask { protocol: 132, ..whole.clone() }.bytes(), 9),
        (Ask { protocol: 0, internal: 0, ..whole.clone() }.bytes(), 9),
        (third(host4(3)).bytes(), 12),
    ];
    for (message, result) in &wrong {
        assert_eq!(refusal(&mut lab, message).1, *result, "{message:?}");
    }
    let no_protocol = Ask { protocol: 0, ..whole.clone() };
    assert_eq!(refusal(&mut lab, &no_protocol.bytes()), (0x81, 3));
    assert_eq!(mappings(&mut lab), []);
    let answers = lab.state().nat().port_control.unwrap().answers;
    let count = |name: &str| {
        answers.iter().find(|it| it.protocol == "pcp" && it.result == name).unwrap().count
    };
    let names = ["UNSUPP_VERSION", "MALFORMED_REQUEST", "UNSUPP_OPTION", "ADDRESS_MISMATCH"];
    assert_eq!(names.map(count), [2, 4, 1, 1]);
    assert_eq!(announce(&mut lab), 0x80, "an announcement is asked for");
}

/// Asks for the epoch; the opcode of the answer.
fn announce(lab: &mut Lab) -> u8 {
    let mut message = vec![2, 0, 0, 0, 0, 0, 0, 0];
    message.extend(mapped(host4(1)));
    let answer = exchange(lab, 1, &message);
    assert_eq!((answer.len(), answer[3]), (24, SUCCESS));
    answer[1]
}

#[test]
fn what_is_no_request_is_not_answered() {
    let mut lab = lab(pool_policy(control()));
    let mut response = map(UDP, 4000).bytes();
    response[1] |= 0x80;
    let messages: [&[u8]; 6] = [&[], &[2], &[0], &[0, 0x81], &[0, 1, 0, 0], &response];
    for message in messages {
        let packet = udp_ports(host4(1), our4(1), (40_000, PORT), message);
        refused(&mut lab, 1, &packet, "pcp-ignored");
    }
    // A wrong checksum.
    let mut packet = udp_ports(host4(1), our4(1), (40_000, PORT), &map(UDP, 4000).bytes());
    packet[27] ^= 1;
    refused(&mut lab, 1, &packet, "pcp-ignored");
    assert_eq!(mappings(&mut lab), []);
}

/// Whatever comes is answered or counted, and the server goes on.
#[test]
fn mutated_requests_are_accounted_for() {
    let mut setup = translated(pool_policy(PortControl { allows_third_party: true, ..control() }));
    let most = 1_000_000;
    setup.0.punts.insert(Class::Pcp, Limit { rate: most, burst: most, total: most });
    let mut lab = Lab::new(&setup);
    let peer = Ask { opcode: 2, remote: (host4(2), 9), ..map(TCP, 4000) };
    let third = map(UDP, 4000).with(1, &mapped(Ipv4Addr::new(10, 0, 1, 9)));
    let seeds = [
        map(UDP, 4000).filter(120, host4(2), 0).filter(0, host4(2), 0).bytes(),
        peer.bytes(),
        third.with(2, &[]).bytes(),
        vec![0, 1, 0, 0, 0, 80, 0, 90, 0, 0, 2, 0],
    ];
    let mut word = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = |below: usize| {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        (word >> 33) as usize % below
    };
    let (mut answered, mut dropped) = (0, 0);
    for _ in 0..60 {
        let frames = (0..32).map(|_| {
            let mut message = seeds[random(seeds.len())].clone();
            for _ in 0..random(4) {
                let at = random(message.len());
                message[at] = random(256) as u8;
            }
            if random(8) == 0 {
                message.truncate(random(message.len()));
            }
            packet_from(1, &udp_ports(host4(1), our4(1), (40_000, PORT), &message))
        });
        let frames: Vec<_> = frames.collect();
        lab.send("west", frames);
        answered += lab.take("west").len() as u64;
        let drops = lab.dropped();
        assert!(drops.iter().all(|(reason, _)| reason == "pcp-ignored"), "{drops:?}");
        dropped += drops.iter().map(|(_, count)| count).sum::<u64>();
    }
    assert_eq!(answered + dropped, 60 * 32);
    assert!(answered > 1_000 && dropped > 50, "{answered} {dropped}");
    assert!(lab.state().nat().port_control.unwrap().leases > 1);
}

#[test]
fn requests_are_limited_by_rate() {
    let mut setup = translated(pool_policy(control()));
    setup.0.punts.insert(Class::Pcp, Limit { rate: 1, burst: 5, total: 1_000 });
    let mut lab = Lab::new(&setup);
    let packet = udp_ports(host4(1), our4(1), (40_000, PORT), &map(UDP, 4000).bytes());
    let frames = vec![packet_from(1, &packet); 40];
    lab.send("west", frames);
    let answered = lab.take("west").len();
    let dropped: Vec<_> = lab.dropped();
    assert!((5..=8).contains(&answered), "{answered}");
    assert_eq!(dropped, [("pcp-limited".to_owned(), 40 - answered as u64)]);
}
