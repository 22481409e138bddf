//! FTP: the first byte chooses the sender, the rest is the data of a segment. What is announced and written anew is
//! read again as the same.
#![no_main]

use std::net::IpAddr;

use libfuzzer_sys::fuzz_target;
use stoa_wire::ftp::{Form, LONGEST, Sender, TEXT, announcement};

fuzz_target!(|input: &[u8]| {
    let Some((first, data)) = input.split_first() else { return };
    let sender = if first & 1 == 0 { Sender::Client } else { Sender::Server };
    let Ok(Some(found)) = announcement(data, sender) else { return };
    assert!(found.text.start < found.text.end && found.text.end < data.len().min(LONGEST));
    assert_ne!(found.port, 0);
    let address = found.address.unwrap_or(IpAddr::from([192, 0, 2, 1]));
    let bar = match found.form {
        Form::Numbers => b',',
        Form::Extended(bar) | Form::PortOnly(bar) => bar,
    };
    if address.to_string().contains(char::from(bar)) {
        return;
    }
    let mut bytes = [0; TEXT];
    let length = found.form.write(address, found.port, &mut bytes).expect("it has such addresses");
    let mut again = data.to_vec();
    again.splice(found.text.clone(), bytes[..length].iter().copied());
    // The new text may be longer than what is read of a segment.
    if let Ok(Some(read)) = announcement(&again, sender) {
        assert_eq!((read.form, read.address, read.port), (found.form, found.address, found.port));
        assert_eq!(read.text, found.text.start..found.text.start + length);
    }
});
