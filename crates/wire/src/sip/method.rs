//! The header `CSeq` (RFC 3261 section 20.16): the method and the number of a request, which its answers repeat.

/// A method whose messages mean something for what was announced before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// Begins or changes a call.
    Invite,
    /// Ends a call.
    Bye,
    /// Takes back an INVITE that is not answered yet.
    Cancel,
    /// Registers an address.
    Register,
    /// Any other one, or none that is known.
    #[default]
    Other,
}

impl Method {
    /// The one with this name; names are case-sensitive (RFC 3261 section 7.1).
    pub(super) fn of(name: &[u8]) -> Self {
        match name {
            b"INVITE" => Self::Invite,
            b"BYE" => Self::Bye,
            b"CANCEL" => Self::Cancel,
            b"REGISTER" => Self::Register,
            _ => Self::Other,
        }
    }
}

/// The request that a message is, or that it answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sequence {
    /// Its number. A CANCEL has that of the INVITE that it takes back.
    pub number: u32,
    /// Its method.
    pub method: Method,
}

/// Reads the value of the header.
pub(super) fn sequence(value: &[u8]) -> Sequence {
    let mut words = value.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let (number, method) = (words.next().and_then(super::number), words.next());
    let method = match method {
        _ if words.next().is_some() => Method::Other,
        Some(name) => Method::of(name),
        None => Method::Other,
    };
    number.map_or(Sequence::default(), |number| Sequence { number, method })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_a_number_and_a_method() {
        let of = |method| Sequence { number: 314_159, method };
        assert_eq!(sequence(b"314159 INVITE"), of(Method::Invite));
        assert_eq!(sequence(b"314159 \t BYE"), of(Method::Bye));
        assert_eq!(sequence(b"314159 CANCEL"), of(Method::Cancel));
        assert_eq!(sequence(b"314159 REGISTER"), of(Method::Register));
        assert_eq!(sequence(b"314159 OPTIONS"), of(Method::Other));
        // Methods are case-sensitive (RFC 3261 section 7.1).
        assert_eq!(sequence(b"314159 bye"), of(Method::Other));
        for wrong in ["", "BYE", "x BYE", "4294967296 BYE"] {
            assert_eq!(sequence(wrong.as_bytes()), Sequence::default(), "{wrong}");
        }
    }
}
