//! Requests that are wrong: each has its result and its counter, and nothing is mapped.

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
        ([bytes.clone(), vec![200, 0, 0, 0].repeat(261)].concat(), 3),
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
    assert_eq!(refusal_free(&mut lab), 0x80, "an announcement is asked for");
}

/// Asks for the epoch; the opcode of the answer.
fn refusal_free(lab: &mut Lab) -> u8 {
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

#[test]
fn requests_are_limited_by_rate() {
    use stoa_forwarder::punt::{Class, Limit};
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
