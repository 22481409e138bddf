//! PPTP: the data of a segment as control messages, one behind the other, and as a packet of enhanced GRE. A message
//! with other call IDs is read as the same with these.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stoa_wire::pptp::{PptpError, call_id, length_of_split, message, set_call_id};

fuzz_target!(|data: &[u8]| {
    let mut rest = data;
    while !rest.is_empty() {
        let read = match message(rest) {
            Ok(read) => read,
            Err(PptpError::Split) => {
                assert!(length_of_split(rest).is_none_or(|length| length > rest.len()));
                break;
            }
            Err(PptpError::Malformed) => {
                assert_eq!(length_of_split(rest), None);
                break;
            }
        };
        assert!((16..=rest.len()).contains(&read.length));
        let (whole, behind) = rest.split_at(read.length);
        let mut again = whole.to_vec();
        for field in [read.own, read.peer].into_iter().flatten() {
            again[field.at..field.at + 2].copy_from_slice(&(!field.id).to_be_bytes());
        }
        let other = message(&again).expect("it has other call IDs, and nothing else");
        assert_eq!((other.kind, other.length), (read.kind, read.length));
        for (new, old) in [(other.own, read.own), (other.peer, read.peer)] {
            assert_eq!(new.map(|it| (it.at, it.id)), old.map(|it| (it.at, !it.id)));
        }
        rest = behind;
    }
    let mut packet = data.to_vec();
    set_call_id(&mut packet, 0x1234);
    match call_id(data) {
        Some(_) => assert_eq!(call_id(&packet), Some(0x1234)),
        None => assert_eq!(packet, data),
    }
});
