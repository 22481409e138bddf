//! Messages of calls and registrations, with other ends; and text that is none.

use core::net::Ipv4Addr;

use proptest::prelude::*;

use super::sdp::{Media, media};
use super::write::{Host, Hosts, Session, write};
use super::*;

const INSIDE: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 2);
const OUTSIDE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 77);
const PORTS: [(u16, u16); 2] = [(5060, 41_000), (5070, 5070)];

const SDP: &str = "v=0\r\no=alice 1 1 IN IP4 10.0.1.2\r\ns=-\r\nc=IN IP4 10.0.1.2\r\nt=0 0\r\n\
                   m=audio 8000 RTP/AVP 0 8\r\na=sendrecv\r\nm=video 8002 RTP/AVPF 96\r\n\
                   a=rtcp:9001 IN IP4 10.0.1.2\r\n";

fn invite(body: &str) -> String {
    format!(
        "INVITE sip:bob@192.0.2.9 SIP/2.0\r\n\
         Via: SIP/2.0/UDP 10.0.1.2:5060;branch=z9hG4bK776asdhds;rport\r\n\
         Max-Forwards: 70\r\n\
         To: Bob <sip:bob@192.0.2.9>\r\n\
         From: \"10.0.1.2 Alice\" <sip:alice@10.0.1.2>;tag=1928301774\r\n\
         Call-ID: a84b4c76e66710@10.0.1.2\r\n\
         CSeq: 314159 INVITE\r\n\
         m: \"at 10.0.1.2\" <sip:alice@10.0.1.2>\r\n\
         c: application/sdp\r\n\
         l: {}\r\n\r\n{body}",
        body.len()
    )
}

const OUT: Host<'static> = Host { from: INSIDE, to: OUTSIDE, ports: &PORTS };
const BACK: Host<'static> =
    Host { from: OUTSIDE, to: INSIDE, ports: &[(41_000, 5060), (5070, 5070)] };

/// Hosts of a message from inside.
fn out() -> Hosts<'static> {
    Hosts { sender: Some(OUT), receiver: None }
}

/// Hosts of a message from outside.
fn back() -> Hosts<'static> {
    Hosts { sender: None, receiver: Some(BACK) }
}

fn written(text: &str, hosts: &Hosts<'_>, session: Option<&Session>) -> String {
    let mut bytes = [0; LONGEST];
    let message = read(text.as_bytes()).unwrap();
    let length = write(&message, hosts, session, &mut bytes).unwrap();
    String::from_utf8(bytes[..length].to_vec()).unwrap()
}

#[test]
fn an_invitation_gets_other_ends() {
    let text = invite(SDP);
    let message = read(text.as_bytes()).unwrap();
    assert!(message.has_sdp && !message.lists_bindings() && message.status.is_none());
    assert_eq!(message.sequence, Sequence { number: 314_159, method: Method::Invite });
    assert_eq!(message.call_id, b"a84b4c76e66710@10.0.1.2");
    assert_eq!(message.ends_of(INSIDE).collect::<Vec<_>>(), [5060]);
    let found = media(message.body).unwrap();
    let address = Some(INSIDE.into());
    let audio = Media { address, port: 8000, rtcp: Some(8001) };
    let video = Media { address, port: 8002, rtcp: Some(9001) };
    assert_eq!(found, [Some(audio), Some(video), None, None]);
    let ports = [Some((30_000, 30_001)), Some((30_002, 30_003)), None, None];
    let session = Session { address: (INSIDE, OUTSIDE), ports };
    let new = written(&text, &out(), Some(&session));
    for line in [
        "INVITE sip:bob@192.0.2.9 SIP/2.0\r\n",
        "Via: SIP/2.0/UDP 203.0.113.77:41000;branch=z9hG4bK776asdhds;rport\r\n",
        // Of these, nothing changes.
        "From: \"10.0.1.2 Alice\" <sip:alice@10.0.1.2>;tag=1928301774\r\n",
        "Call-ID: a84b4c76e66710@10.0.1.2\r\n",
        "m: \"at 10.0.1.2\" <sip:alice@203.0.113.77:41000>\r\n",
        "o=alice 1 1 IN IP4 203.0.113.77\r\n",
        "c=IN IP4 203.0.113.77\r\n",
        "m=audio 30000 RTP/AVP 0 8\r\n",
        "m=video 30002 RTP/AVPF 96\r\n",
        "a=rtcp:30003 IN IP4 203.0.113.77\r\n",
    ] {
        assert!(new.contains(line), "{line}{new}");
    }
    let again = read(new.as_bytes()).unwrap();
    assert_eq!(again.body.len(), new.len() - again.head().len(), "Content-Length");
}

#[test]
fn an_answer_comes_back() {
    let text = "SIP/2.0 200 OK\r\n\
                Via: SIP/2.0/UDP 203.0.113.77:41000;branch=z9;received=203.0.113.77;rport=41000\r\n\
                Record-Route: <sip:192.0.2.1;lr>,\r\n <sip:203.0.113.77:41000;lr>\r\n\
                CSeq: 2 REGISTER\r\n\
                Contact: <sip:a@192.0.2.7>;expires=7, <sip:alice@203.0.113.77:41000>;q=0.5;Expires=600\r\n\
                Expires: 3600\r\n\r\n";
    let message = read(text.as_bytes()).unwrap();
    assert_eq!(message.status, Some(200));
    assert_eq!(message.sequence, Sequence { number: 2, method: Method::Register });
    assert_eq!(message.bound(OUTSIDE, 41_000), Some(600));
    assert_eq!((message.bound(OUTSIDE, 5060), message.bound(INSIDE, 41_000)), (None, None));
    let new = written(text, &back(), None);
    for line in [
        "Via: SIP/2.0/UDP 10.0.1.2:5060;branch=z9;received=10.0.1.2;rport=5060\r\n",
        "\r\n <sip:10.0.1.2:5060;lr>\r\n",
        "<sip:alice@10.0.1.2:5060>;q=0.5;Expires=600\r\n",
    ] {
        assert!(new.contains(line), "{line}{new}");
    }
    let request =
        "BYE sip:alice@203.0.113.77:41000;ob SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1\r\n\r\n";
    assert!(
        written(request, &back(), None).starts_with("BYE sip:alice@10.0.1.2:5060;ob SIP/2.0\r\n")
    );
}

#[test]
fn a_registrar_lists_what_it_has_bound() {
    let of = |start: &str, method: &str| {
        let text =
            format!("{start}\r\nt: \"A\" <sip:a@example.com;x>;tag=9\r\nCSeq: 2 {method}\r\n\r\n");
        let message = read(text.as_bytes()).unwrap();
        assert_eq!(message.address_of_record(), b"sip:a@example.com;x");
        message.lists_bindings()
    };
    assert!(of("SIP/2.0 200 OK", "REGISTER"));
    assert!(!of("SIP/2.0 401 Unauthorized", "REGISTER") && !of("SIP/2.0 200 OK", "OPTIONS"));
    assert!(!of("REGISTER sip:example.com SIP/2.0", "REGISTER"));
    for (to, uri) in [("To: sip:a@b;tag=1\r\n", "sip:a@b"), ("", ""), ("To: <\r\n", "")] {
        let text = format!("SIP/2.0 200 OK\r\n{to}i: 7@x\r\n\r\n");
        let message = read(text.as_bytes()).unwrap();
        assert_eq!((message.address_of_record(), message.call_id), (uri.as_bytes(), &b"7@x"[..]));
    }
}

#[test]
fn only_requests_of_a_host_announce_its_ends() {
    let of = |text: &str| read(text.as_bytes()).unwrap().announced(INSIDE).collect::<Vec<_>>();
    let via = |ports: [u16; 2]| {
        let [first, second] = ports.map(|port| format!("SIP/2.0/UDP 10.0.1.2:{port};rport"));
        [format!("Via: {first}\r\nv: {second}\r\n"), format!("Via: {first}, {second}\r\n")]
    };
    let contact = "Contact: <sip:a@10.0.1.2:5070>\r\n";
    let routes = "Route: <sip:10.0.1.2:5071;lr>\r\nRecord-Route: <sip:10.0.1.2:5072;lr>\r\n";
    assert_eq!(of(&invite("")), [5060]);
    let own =
        format!("INVITE sip:b SIP/2.0\r\nVia: SIP/2.0/UDP 10.0.1.2:5061\r\n{contact}{routes}\r\n");
    assert_eq!(of(&own), [5061, 5070]);
    // What it relays, and what it answers, others may have written.
    for via in via([5061, 5062]) {
        let relayed = format!("INVITE sip:b SIP/2.0\r\n{via}{contact}{routes}\r\n");
        assert_eq!(of(&relayed), [5061]);
        let answer = format!("SIP/2.0 200 OK\r\n{via}{contact}{routes}\r\n");
        assert_eq!(of(&answer), []);
    }
    // Not even if the first one has a name.
    let named = "Via: SIP/2.0/UDP a.example, SIP/2.0/UDP 10.0.1.2:5061\r\n";
    assert_eq!(of(&format!("INVITE sip:b SIP/2.0\r\n{named}{contact}\r\n")), []);
    let folded = "Via:\r\n SIP/2.0/UDP a.example,\r\n SIP/2.0/UDP 10.0.1.2:5061\r\n";
    assert_eq!(of(&format!("INVITE sip:b SIP/2.0\r\n{folded}{contact}\r\n")), []);
}

#[test]
fn ends_of_others_stay() {
    let text = "OPTIONS sip:x@10.0.1.2:5061 SIP/2.0\r\n\
                v: SIP/2.0/UDP 10.0.1.2:5061\r\n\
                Contact: <sip:10.0.1.2@192.0.2.7>, <sip:x@10.0.1.20>, <sip:x@110.0.1.2>, <sip:x@10.0.1.2:>\r\n\
                Route: <sip:10.0.1.2.example.com>\r\n\
                Subject: 10.0.1.2:5060\r\n\r\n";
    assert_eq!(written(text, &out(), None), text);
    // Without a port, one is written only if it is another one.
    let text = "OPTIONS sip:x SIP/2.0\r\nContact: <sip:x@10.0.1.2>\r\n\r\n";
    let same = Host { ports: &[(5060, 5060)], ..OUT };
    let same = Hosts { sender: Some(same), receiver: None };
    assert!(written(text, &same, None).contains("<sip:x@203.0.113.77>\r\n"));
}

/// A caller has the same private address behind another router, and its external port is that of the client.
#[test]
fn the_way_of_an_answer_stays() {
    let caller = "SIP/2.0/UDP 10.0.1.2:5060;received=192.0.2.9;rport=5060";
    let proxy = "SIP/2.0/UDP 192.0.2.1;rport=5060";
    for way in [
        format!("Via: {proxy}\r\nVia: {caller}\r\n"),
        format!("Via: {proxy}, {caller}\r\n"),
        format!("v: {proxy},\r\n {caller}\r\n"),
        format!("Via: {caller}\r\n"),
    ] {
        let text = format!("SIP/2.0 200 OK\r\n{way}CSeq: 1 INVITE\r\n\r\n");
        assert_eq!(written(&text, &out(), None), text);
        let request = format!("INVITE sip:a@10.0.1.2:5060 SIP/2.0\r\nVia: {proxy}\r\n{way}\r\n");
        assert_eq!(written(&request, &out(), None), request);
    }
}

/// Only the topmost one, with all its parameters, wherever it is folded.
#[test]
fn the_way_of_an_answer_begins_at_its_receiver() {
    let others = "SIP/2.0/UDP 203.0.113.77:41000;received=203.0.113.77;rport=41000";
    for (own, new) in [
        (
            "SIP/2.0/UDP 203.0.113.77:41000;rport=41000;received=203.0.113.77",
            "SIP/2.0/UDP 10.0.1.2:5060;rport=5060;received=10.0.1.2",
        ),
        (
            "SIP/2.0/UDP phone.example;rport=41000;received=203.0.113.77",
            "SIP/2.0/UDP phone.example;rport=5060;received=10.0.1.2",
        ),
        (
            "\r\n SIP/2.0/UDP 203.0.113.77:41000\r\n ;rport=41000",
            "\r\n SIP/2.0/UDP 10.0.1.2:5060\r\n ;rport=5060",
        ),
        // It names another host.
        ("SIP/2.0/UDP 192.0.2.1;rport=41000", "SIP/2.0/UDP 192.0.2.1;rport=41000"),
    ] {
        for more in [format!(", {others}"), format!(",\r\n {others}"), format!("\r\nv: {others}")] {
            let of = |own: &str| format!("SIP/2.0 200 OK\r\nVia: {own}{more}\r\n\r\n");
            assert_eq!(written(&of(own), &back(), None), of(new));
        }
    }
}

/// The contact of the other end has the same private address.
#[test]
fn a_request_goes_to_its_receiver() {
    let bye = "BYE sip:b@10.0.1.2 SIP/2.0\r\nRoute: <sip:10.0.1.2:5070;lr>\r\n\r\n";
    assert_eq!(written(bye, &out(), None), bye);
    let receiver = Some(Host { from: INSIDE, to: OUTSIDE, ports: &PORTS });
    let new = written(bye, &Hosts { sender: None, receiver }, None);
    let of = |uri: &str, route: &str| {
        format!("BYE sip:b@{uri} SIP/2.0\r\nRoute: <sip:{route};lr>\r\n\r\n")
    };
    assert_eq!(new, of("203.0.113.77:41000", "203.0.113.77:5070"));
}

#[test]
fn what_is_missing_is_not_added() {
    let text = invite("c=IN IP4\r\nm=audio\r\na=rtcp:\r\n");
    let session = Session { address: (INSIDE, OUTSIDE), ports: [Some((30_000, 30_001)); 4] };
    assert_eq!(written(&text, &Hosts::default(), Some(&session)), text);
}

#[test]
fn what_is_no_message_is_malformed() {
    for text in [
        "GET / HTTP/1.1\r\n\r\n",
        "SIP/2.0 99 Low\r\n\r\n",
        "SIP/2.0\r\n\r\n",
        "INVITE sip:x SIP/2.0",
        "INVITE sip:x SIP/2.0\r\nVia: x\r\n",
        "INVITE sip:x SIP/2.0\r\nContent-Length: 5\r\n\r\n1234",
        "INVITE sip:x SIP/2.0\r\nContent-Length: x\r\n\r\n",
    ] {
        assert_eq!(read(text.as_bytes()).err(), Some(SipError::Malformed), "{text}");
    }
    let long = format!("INVITE sip:x SIP/2.0\r\nSubject: {}\r\n\r\n", "x".repeat(LONGEST));
    assert_eq!(read(long.as_bytes()).err(), Some(SipError::TooLong));
    assert!(is_keep_alive(b"\r\n\r\n") && is_keep_alive(b"\0\0\0\0") && !is_keep_alive(b"x"));
    // What is behind the body is not read.
    let more = "INVITE sip:x SIP/2.0\r\nContent-Length: 2\r\n\r\n12345";
    assert_eq!(read(more.as_bytes()).unwrap().body, b"12");
}

#[test]
fn media_are_read_by_their_protocol() {
    let of = |text: &str| media(text.as_bytes());
    let found = of("c=IN IP4 10.0.1.2\nm=image 4000 udptl t38\nm=message 5000 TCP/MSRP *\n\
                    m=audio 0 RTP/AVP 0\nm=audio 6000 UDP/TLS/RTP/SAVPF 0\nc=IN IP4 0.0.0.0\n");
    let address = Some(INSIDE.into());
    let none = Media { address, port: 0, rtcp: None };
    let held = Media { address: Some(Ipv4Addr::UNSPECIFIED.into()), port: 6000, rtcp: Some(6001) };
    let image = Media { port: 4000, ..none };
    assert_eq!(found, Ok([Some(image), Some(none), Some(none), Some(held)]));
    assert_eq!(of("m=audio x RTP/AVP 0\n"), Err(SipError::Malformed));
    assert_eq!(of("m=audio 49170/2 RTP/AVP 31\n"), Err(SipError::Malformed));
    assert_eq!(of(&"m=audio 2 RTP/AVP 0\n".repeat(5)), Err(SipError::TooLong));
    assert_eq!(of("m=audio 65535 RTP/AVP 0\n").unwrap()[0].unwrap().rtcp, None);
    let named = of("c=IN IP6 2001:db8::1\nm=audio 2 RTP/AVP 0\nc=IN IP4 host.example\n").unwrap();
    assert_eq!(named[0].unwrap().address, None);
}

/// Text that has what is looked for.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(vec![
        "SIP/2.0 ",
        "INVITE sip:",
        " SIP/2.0",
        "\r\n",
        "\n",
        "Via: ",
        "Contact:",
        "Content-Length: ",
        "c: application/sdp",
        "10.0.1.2",
        ":5060",
        ";rport=",
        "5060",
        "\"",
        "\\",
        "<sip:a@",
        ">",
        ",",
        "c=IN IP4 ",
        "m=audio ",
        " RTP/AVP 0",
        "a=rtcp:",
        ";expires=",
        "CSeq: 1 REGISTER",
        " ",
        "70000",
        "o=a 1 1 IN IP4 ",
        "=",
        "200 OK",
    ]);
    let piece = prop_oneof![
        9 => piece.prop_map(|it| it.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(piece, 0..60).prop_map(|it| it.concat())
}

proptest! {
    /// Other ends come back as they were: whatever the text, its head is the same.
    #[test]
    fn what_is_written_comes_back(text in pieces(), is_message: bool) {
        let start = if is_message { "OPTIONS sip:10.0.1.2:5070 SIP/2.0\r\n" } else { "" };
        let data = [start.as_bytes(), &text, b"\r\n\r\n"].concat();
        let _ = media(&data);
        let Ok(message) = read(&data) else { return Ok(()) };
        prop_assert!(message.ends_of(INSIDE).count() <= ENDS);
        prop_assert!(message.announced(INSIDE).count() <= ENDS);
        let ports = [Some((30_000, 30_001)); sdp::MEDIA];
        let session = Session { address: (INSIDE, OUTSIDE), ports };
        let mut bytes = [0; 2 * LONGEST];
        let length = write(&message, &out(), Some(&session), &mut bytes).unwrap();
        let new = &bytes[..length];
        let again = read(new).unwrap();
        prop_assert_eq!((again.status, again.has_sdp), (message.status, message.has_sdp));
        // Its own length is that of the new body, or there is none.
        prop_assert_eq!(again.body.len() + again.head().len(), new.len());
        let mut twice = [0; 2 * LONGEST];
        let length = write(&again, &out(), Some(&session), &mut twice).unwrap();
        prop_assert_eq!(&twice[..length], new, "nothing is left to change");
    }

    #[test]
    fn what_does_not_fit_is_not_written(length in 0_usize..900) {
        let text = invite(SDP);
        let message = read(text.as_bytes()).unwrap();
        let mut bytes = vec![0; length];
        let written = write(&message, &Hosts::default(), None, &mut bytes);
        prop_assert_eq!(written, (length >= text.len()).then_some(text.len()));
        if written.is_some() {
            prop_assert_eq!(&bytes[..text.len()], text.as_bytes());
        }
    }
}

#[test]
fn the_start_line_and_the_sequence_name_one_method() {
    let method = |start: &str, of: &str| {
        let text = format!("{start}\r\nCSeq: 1 {of}\r\n\r\n");
        read(text.as_bytes()).unwrap().sequence.method
    };
    assert_eq!(method("BYE sip:x SIP/2.0", "BYE"), Method::Bye);
    assert_eq!(method("OPTIONS sip:x SIP/2.0", "BYE"), Method::Other);
    assert_eq!(method("BYE sip:x SIP/2.0", "OPTIONS"), Method::Other);
    assert_eq!(method("bye sip:x SIP/2.0", "BYE"), Method::Other);
    assert_eq!(method("SIP/2.0 200 OK", "BYE"), Method::Bye);
}
