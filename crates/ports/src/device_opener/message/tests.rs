//! Requests and answers: one encoding each, and nothing else is taken.

use proptest::prelude::*;

use super::*;

fn request(netns: &str, operation: Operation) -> Request {
    Request { number: 7, netns: netns.into(), expected: Identity::default(), operation }
}

fn is_taken(netns: &str, operation: Operation) -> bool {
    let request = request(netns, operation);
    Request::decode(&request.encode()).is_some_and(|decoded| decoded == request)
}

#[test]
fn only_names_are_namespaces() {
    for netns in ["blue", "blue-1", "0", "_a.b", &"n".repeat(255)] {
        assert!(is_taken(netns, Operation::Tun), "{netns}");
    }
    let long = "n".repeat(256);
    for netns in
        ["", ".", "..", "/proc/1/ns/net", "a/b", "../proc/1/ns/net", "-a", "a\0b", "a b", &long]
    {
        assert!(!is_taken(netns, Operation::Tun), "{netns:?}");
    }
}

#[test]
fn settings_are_of_one_device() {
    let of = |device: &str| is_taken("blue", Operation::Settings { device: device.into() });
    assert!(of("wan0") && of("eth0.100"));
    for device in ["", "all", "default", ".", "..", "a/b", "../all", "sixteen-letters-"] {
        assert!(!of(device), "{device:?}");
    }
}

#[test]
fn what_has_no_meaning_is_refused() {
    let good = request("blue", Operation::Socket(SocketKind::Packet)).encode();
    let with = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        Request::decode(&bytes)
    };
    assert!(with(4, 3).is_some());
    // Operations 5 and 6 need an index, 7 a device, and there are no others.
    for kind in 5..=u8::MAX {
        assert_eq!(with(4, kind), None, "{kind}");
    }
    for (at, what) in [(5, "options"), (7, "a device's length"), (8, "an index"), (6, "a length")] {
        assert_eq!(with(at, 1), None, "{what}");
    }
    assert_eq!(Request::decode(&[&good[..], b"x"].concat()), None, "something behind");
    for end in 0..good.len() {
        assert_eq!(Request::decode(&good[..end]), None, "{end} bytes");
    }
    let attach = Operation::AttachXdp {
        index: 3,
        attach: XdpAttach::Generic,
        is_virtual: true,
        fragments: true,
    };
    let mut bytes = request("blue", attach).encode();
    assert!(Request::decode(&bytes).is_some());
    bytes[5] = 3;
    assert_eq!(Request::decode(&bytes), None, "no such place");
}

#[test]
fn a_long_text_is_cut_between_characters() {
    let text = "ä".repeat(TEXT_MAX);
    let answer = Answer { number: 1, result: Err(Refusal::Failed { errno: 0, text }) };
    let bytes = answer.encode();
    assert_eq!(bytes.len(), ANSWER_MAX);
    let Some(Answer { result: Err(Refusal::Failed { text, .. }), .. }) = Answer::decode(&bytes)
    else {
        panic!("it is an answer");
    };
    assert_eq!(text, "ä".repeat(TEXT_MAX / 2));
}

fn operations() -> impl Strategy<Value = Operation> {
    let kinds = [SocketKind::Packet, SocketKind::Xdp, SocketKind::Route, SocketKind::Generic];
    let places = [XdpAttach::Auto, XdpAttach::Native, XdpAttach::Generic];
    let attach = (1..=u32::MAX, prop::sample::select(places.to_vec()), any::<[bool; 2]>());
    let attach = attach.prop_map(|(index, attach, [is_virtual, fragments])| Operation::AttachXdp {
        index,
        attach,
        is_virtual,
        fragments,
    });
    prop_oneof![
        prop::sample::select(kinds.to_vec()).prop_map(Operation::Socket),
        Just(Operation::Tun),
        attach,
        (1..=u32::MAX).prop_map(|index| Operation::DropBehindSockets { index }),
        "[a-z][a-z0-9.]{0,3}[0-9]".prop_map(|device| Operation::Settings { device }),
    ]
}

fn results() -> impl Strategy<Value = Result<Done, Refusal>> {
    let done = (any::<u8>(), any::<u32>(), ".{0,80}");
    let done = done.prop_map(|(descriptors, value, text)| Ok(Done { descriptors, value, text }));
    let steps = prop::sample::select(vec![Step::Open, Step::Compare, Step::Enter, Step::Thread]);
    let not_entered = (steps, any::<i32>())
        .prop_map(|(step, errno)| Err(Refusal::NotEntered(NotEntered { step, errno })));
    let failed =
        (any::<i32>(), ".{0,80}").prop_map(|(errno, text)| Err(Refusal::Failed { errno, text }));
    prop_oneof![done, Just(Err(Refusal::Invalid)), not_entered, failed]
}

proptest! {
    #[test]
    fn requests_are_read_back(
        number: u32,
        netns in "[a-zA-Z0-9_][a-zA-Z0-9._@+:-]{0,60}",
        identity: [u64; 2],
        operation in operations(),
    ) {
        let [device, inode] = identity;
        let expected = Identity { device, inode };
        let request = Request { number, netns, expected, operation };
        let bytes = request.encode();
        prop_assert!(bytes.len() <= REQUEST_MAX);
        prop_assert_eq!(Request::decode(&bytes), Some(request));
    }

    #[test]
    fn answers_are_read_back(number: u32, result in results()) {
        let answer = Answer { number, result };
        prop_assert_eq!(Answer::decode(&answer.encode()), Some(answer));
    }

    #[test]
    fn any_bytes_have_one_meaning_at_most(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Some(request) = Request::decode(&bytes) {
            prop_assert_eq!(request.encode(), bytes.clone());
        }
        if let Some(answer) = Answer::decode(&bytes) {
            prop_assert_eq!(answer.encode(), bytes);
        }
    }

    #[test]
    fn a_spoilt_message_has_one_meaning_at_most(
        operation in operations(),
        result in results(),
        at in 0_usize..40,
        value: u8,
    ) {
        let mut bytes = request("blue", operation).encode();
        let length = bytes.len();
        bytes[at % length] = value;
        if let Some(request) = Request::decode(&bytes) {
            prop_assert_eq!(request.encode(), bytes);
        }
        let mut bytes = Answer { number: 1, result }.encode();
        let length = bytes.len();
        bytes[at % length] = value;
        if let Some(answer) = Answer::decode(&bytes) {
            prop_assert_eq!(answer.encode(), bytes);
        }
    }
}
