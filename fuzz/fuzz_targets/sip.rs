//! SIP: the first byte chooses what is translated, the rest is a datagram. A message that is written anew is read
//! again, has nothing left to translate, and its `Content-Length` is right.
#![no_main]

use std::net::Ipv4Addr;

use libfuzzer_sys::fuzz_target;
use stoa_wire::sip::sdp::{MEDIA, media};
use stoa_wire::sip::write::{Host, Hosts, Session, write};
use stoa_wire::sip::{ENDS, LONGEST, read};

const INSIDE: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 2);
const OUTSIDE: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 77);

fuzz_target!(|input: &[u8]| {
    let Some((first, data)) = input.split_first() else { return };
    let Ok(message) = read(data) else { return };
    assert!(data.len() <= LONGEST && message.body.len() <= data.len());
    assert!(message.ends_of(INSIDE).count() <= ENDS);
    assert!(
        message.announced(INSIDE).all(|port| message.ends_of(INSIDE).any(|it| it == port))
            || message.ends_of(INSIDE).count() == ENDS
    );
    let _ = (message.bound(INSIDE, 5060), media(message.body));
    assert!(message.address_of_record().len() <= data.len() && message.call_id.len() <= data.len());
    let ports: &[(u16, u16)] = if first & 1 == 0 { &[(5060, 41_000)] } else { &[(5060, 5060)] };
    let host = Host { from: INSIDE, to: OUTSIDE, ports };
    let of = |bit: u8| (first & bit == 0).then_some(host);
    let hosts = Hosts { sender: of(4), receiver: of(8) };
    let session = Session { address: (INSIDE, OUTSIDE), ports: [Some((30_000, 30_001)); MEDIA] };
    let session = (first & 2 == 0).then_some(&session);
    let mut bytes = vec![0; 4 * LONGEST];
    let length = write(&message, &hosts, session, &mut bytes).expect("there is room");
    // Longer ones are not read.
    let Ok(again) = read(&bytes[..length]) else { return assert!(length > LONGEST) };
    assert_eq!((again.status, again.has_sdp), (message.status, message.has_sdp));
    assert_eq!((again.sequence, again.call_id), (message.sequence, message.call_id));
    assert_eq!(again.address_of_record(), message.address_of_record());
    let mut twice = vec![0; 4 * LONGEST];
    let second = write(&again, &hosts, session, &mut twice).expect("there is room");
    assert_eq!(twice[..second], bytes[..length]);
    let short = write(&message, &hosts, session, &mut bytes[..length.saturating_sub(1)]);
    assert!(short.is_none());
});
