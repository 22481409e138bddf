//! The end of a call ends what it expects.

use super::changes::masquerade;
use super::*;

const CALL: &str = "Call-ID: 7@example.com\r\n";

/// A client of host 1 and a server, host 2, that exchange messages of a call.
struct Call {
    lab: Lab,
    outside: IpAddr,
}

impl Call {
    fn by(setup: &Setup, outside: IpAddr) -> Self {
        Self { lab: Lab::new(setup), outside }
    }

    /// The client sends a message.
    fn says(&mut self, text_of: &str) {
        let ends = (host4(1).into(), host4(2).into());
        assert!(sent(&mut self.lab, (1, "east"), ends, (5060, 5060), text_of).is_some());
    }

    /// The server does.
    fn hears(&mut self, text_of: &str) {
        let ends = (host4(2).into(), self.outside);
        assert!(sent(&mut self.lab, (2, "west"), ends, (5060, 5060), text_of).is_some());
    }

    /// The client invites, with a number; how many connections are expected then.
    fn invites(&mut self, number: u32) -> u64 {
        self.says(&message("INVITE sip:b SIP/2.0", number, "INVITE", &session(host4(1), 8000)));
        self.expected()
    }

    fn expected(&mut self) -> u64 {
        expected(&mut self.lab).unwrap()
    }
}

fn message(start: &str, number: u32, method: &str, body: &str) -> String {
    let content = if body.is_empty() { "" } else { "Content-Type: application/sdp\r\n" };
    format!("{start}\r\n{CALL}CSeq: {number} {method}\r\n{content}\r\n{body}")
}

#[test]
fn the_end_of_a_call_frees_what_it_expects() {
    let of_nat = Call::by(&masquerade(), our4(2).into());
    let of_rules = Call::by(&sip_gate(), host4(1).into());
    for (mut call, count) in [(of_nat, 4), (of_rules, 2)] {
        for status in
            ["302 Moved Temporarily", "486 Busy Here", "503 Service Unavailable", "603 Decline"]
        {
            assert_eq!(call.invites(1), count);
            call.hears(&message("SIP/2.0 180 Ringing", 1, "INVITE", ""));
            assert_eq!(call.expected(), count, "it goes on");
            call.hears(&message(&format!("SIP/2.0 {status}"), 1, "INVITE", ""));
            assert_eq!(call.expected(), 0, "{status}");
        }
        // The client takes it back. The answer to that ends nothing.
        assert_eq!(call.invites(2), count);
        call.says(&message("CANCEL sip:b SIP/2.0", 2, "CANCEL", ""));
        assert_eq!(call.expected(), 0);
        assert_eq!(call.invites(3), count);
        call.hears(&message("SIP/2.0 481 Call Does Not Exist", 3, "CANCEL", ""));
        call.hears(&message("SIP/2.0 500 Server Error", 3, "UPDATE", ""));
        assert_eq!(call.expected(), count);
        // Both ends have announced media, which never come. Either ends the call, by a request with its own number.
        for is_client in [true, false] {
            call.hears(&message("SIP/2.0 200 OK", 3, "INVITE", &session(host4(2), 9000)));
            assert_eq!(call.expected(), count + 2);
            let bye = message("BYE sip:x SIP/2.0", 70, "BYE", "");
            if is_client {
                call.says(&bye)
            } else {
                call.hears(&bye)
            }
            assert_eq!(call.expected(), 0);
            call.invites(3);
        }
        assert_eq!(sums(&mut call.lab).passed, AlgSums::default().passed);
    }
}

/// An INVITE is refused until it has credentials. The refusal may be repeated behind the next one.
#[test]
fn a_refusal_that_is_repeated_ends_no_later_request() {
    let mut call = Call::by(&masquerade(), our4(2).into());
    call.invites(1);
    let refused = message("SIP/2.0 407 Proxy Authentication Required", 1, "INVITE", "");
    call.hears(&refused);
    assert_eq!(call.invites(2), 4);
    call.hears(&refused);
    assert_eq!(call.expected(), 4);
    // Nor does that of another call.
    let other = message("BYE sip:a SIP/2.0", 2, "BYE", "").replace(CALL, "i: 8@example.com\r\n");
    call.hears(&other);
    assert_eq!(call.expected(), 4);
    let rtp = media(&mut call.lab, (2, "west"), (host4(2).into(), our4(2).into()), (9000, 8000));
    assert_eq!(rtp, pair(host4(2).into(), host4(1).into(), (9000, 8000)));
}

/// Media that have begun go on.
#[test]
fn flows_outlast_the_message_that_ends_their_call() {
    let mut call = Call::by(&sip_gate(), host4(1).into());
    call.invites(1);
    call.hears(&message("SIP/2.0 200 OK", 1, "INVITE", &session(host4(2), 9000)));
    let back = (IpAddr::from(host4(2)), IpAddr::from(host4(1)));
    assert!(media(&mut call.lab, (2, "west"), back, (9000, 8000)).is_some());
    call.says(&message("BYE sip:b SIP/2.0", 2, "BYE", ""));
    assert_eq!(call.expected(), 0);
    assert!(media(&mut call.lab, (2, "west"), back, (9000, 8000)).is_some());
    assert!(media(&mut call.lab, (2, "west"), back, (9001, 8001)).is_none());
}

/// The session stays as it is (RFC 3261 section 14.1).
#[test]
fn a_refused_change_of_a_call_leaves_its_media() {
    let of_nat = Call::by(&masquerade(), our4(2).into());
    let of_rules = Call::by(&sip_gate(), host4(1).into());
    for (mut call, count) in [(of_nat, 4), (of_rules, 2)] {
        call.invites(1);
        let ok = message("SIP/2.0 200 OK", 1, "INVITE", &session(host4(2), 9000));
        call.hears(&ok);
        for (number, refusal) in [(2, "491 Request Pending"), (3, "401 Unauthorized")] {
            assert_eq!(call.invites(number), count + 2);
            call.hears(&message(&format!("SIP/2.0 {refusal}"), number, "INVITE", ""));
            assert_eq!(call.expected(), count + 2, "{refusal}");
        }
        // The request is refused whose session another one has renewed.
        call.says(&message("BYE sip:b SIP/2.0", 4, "BYE", ""));
        call.invites(5);
        call.says(&message("UPDATE sip:b SIP/2.0", 6, "UPDATE", &session(host4(1), 8000)));
        assert_eq!(call.expected(), count);
        call.hears(&message("SIP/2.0 486 Busy Here", 5, "INVITE", ""));
        assert_eq!(call.expected(), 0);
    }
}

/// The other end may have another opinion: who has sent an INVITE takes it back, and who has received it refuses it.
#[test]
fn only_its_own_end_takes_back_a_request() {
    let mut call = Call::by(&masquerade(), our4(2).into());
    call.invites(1);
    call.hears(&message("CANCEL sip:a SIP/2.0", 1, "CANCEL", ""));
    call.says(&message("SIP/2.0 486 Busy Here", 1, "INVITE", ""));
    call.hears(&message("OPTIONS sip:a SIP/2.0", 1, "BYE", ""));
    assert_eq!(call.expected(), 4);
    call.says(&message("CANCEL sip:b SIP/2.0", 1, "CANCEL", ""));
    assert_eq!(call.expected(), 0);
}
