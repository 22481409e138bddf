//! Requests of TFTP (RFC 1350): the server answers them from a port of its own choice.

/// Bytes of the shortest request: opcode, a name of one byte, a mode of one byte, and an end for each.
const SHORTEST: usize = 6;
/// Bytes of the longest request (RFC 2347 section 2).
const LONGEST: usize = 512;

causes! {
    /// Why a request is not read.
    TftpError {
        TooLong = "tftp-too-long", "the TFTP request has more than 512 bytes";
        Malformed = "tftp-malformed", "the TFTP request has no name or no mode";
    }
}

/// Whether a datagram to a server requests to read or to write a file.
///
/// # Errors
/// It has the opcode of a request, and cannot be one.
pub fn is_request(data: &[u8]) -> Result<bool, TftpError> {
    let Some((&[0, 1 | 2], rest)) = data.split_first_chunk::<2>() else { return Ok(false) };
    if data.len() > LONGEST {
        return Err(TftpError::TooLong);
    }
    let name = rest.iter().position(|byte| *byte == 0).filter(|length| *length > 0);
    let mode = name.and_then(|name| rest.get(name + 1..));
    let length = mode.and_then(|mode| mode.iter().position(|byte| *byte == 0));
    let is_whole = data.len() >= SHORTEST && length.is_some_and(|length| length > 0);
    if is_whole { Ok(true) } else { Err(TftpError::Malformed) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_requests_are_requests() {
        assert_eq!(is_request(b"\0\x01boot.bin\0octet\0"), Ok(true));
        assert_eq!(is_request(b"\0\x02a\0netascii\0blksize\x001428\0"), Ok(true));
        for other in [&b""[..], b"\0", b"\0\x03\0\x01data", b"\0\x04\0\x01", b"\x01\x01a\0b\0"] {
            assert_eq!(is_request(other), Ok(false));
        }
        for wrong in [
            &b"\0\x01"[..],
            b"\0\x01\0octet\0",
            b"\0\x01name",
            b"\0\x01name\0octet",
            b"\0\x01n\0\0",
        ] {
            assert_eq!(is_request(wrong), Err(TftpError::Malformed), "{wrong:?}");
        }
        let long = [b"\0\x01".as_slice(), &[b'a'; 600], b"\0octet\0"].concat();
        assert_eq!(is_request(&long), Err(TftpError::TooLong));
    }

    proptest! {
        #[test]
        fn any_name_and_mode_are_a_request(name in "[^\0]{1,40}", mode in "[a-z]{1,9}") {
            let data = [b"\0\x01".as_slice(), name.as_bytes(), b"\0", mode.as_bytes(), b"\0"].concat();
            prop_assert_eq!(is_request(&data), Ok(true));
        }

        #[test]
        fn hostile_datagrams_do_not_panic(data in prop::collection::vec(any::<u8>(), 0..600)) {
            let _ = is_request(&data);
        }
    }
}
