//! Frames of messages: the header (RFC 4271, section 4.1), and what is told in a NOTIFICATION.

use std::borrow::Cow;

/// Bytes of the header: marker, length, type.
pub(crate) const HEADER: usize = 19;
/// Bytes of a message at most (RFC 4271, section 4).
pub(crate) const LARGEST: usize = 4096;
/// The same when both have said that they can do more (RFC 8654, section 3).
pub(crate) const LARGEST_EXTENDED: usize = 65_535;

/// Types of messages (RFC 4271, section 4.1; RFC 2918, section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Open,
    Update,
    Notification,
    Keepalive,
    RouteRefresh,
}

/// What is wrong with what the peer sent, as a NOTIFICATION tells it (RFC 4271, section 6).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Fault {
    /// Error code.
    pub code: u8,
    /// Error subcode.
    pub subcode: u8,
    /// What belongs to it.
    pub data: Vec<u8>,
    /// The same for people.
    pub reason: Cow<'static, str>,
}

impl Fault {
    pub(crate) fn new(code: u8, subcode: u8, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { code, subcode, data: Vec::new(), reason: reason.into() }
    }

    pub(crate) fn with(mut self, data: &[u8]) -> Self {
        self.data = data.to_vec();
        self
    }
}

/// The type of the message that begins here, and its bytes with the header; `None` while it is not there as a whole.
pub(crate) fn frame(bytes: &[u8], largest: usize) -> Result<Option<(Kind, &[u8])>, Fault> {
    let Some((header, _)) = bytes.split_first_chunk::<HEADER>() else { return Ok(None) };
    if header[..16] != [0xff; 16] {
        return Err(Fault::new(1, 1, "a message does not begin with its marker"));
    }
    let length = usize::from(u16::from_be_bytes([header[16], header[17]]));
    let bad = || {
        Fault::new(1, 2, format!("a message of type {} with {length} bytes", header[18]))
            .with(&header[16..18])
    };
    let (kind, least, most) = match header[18] {
        1 => (Kind::Open, 29, LARGEST),
        2 => (Kind::Update, 23, largest),
        3 => (Kind::Notification, 21, largest),
        4 => (Kind::Keepalive, HEADER, HEADER),
        5 => (Kind::RouteRefresh, 23, largest),
        other => {
            let reason = format!("a message of the unknown type {other}");
            return Err(Fault::new(1, 3, reason).with(&[other]));
        }
    };
    if length < least || length > most {
        return Err(bad());
    }
    Ok(bytes.get(..length).map(|message| (kind, message)))
}

/// Appends a message: its header before `body`, which has to fit into [`LARGEST`].
pub(crate) fn append(into: &mut Vec<u8>, kind: u8, body: &[u8]) {
    let length = u16::try_from(HEADER + body.len()).unwrap_or(u16::MAX);
    into.extend([0xff; 16]);
    into.extend(length.to_be_bytes());
    into.push(kind);
    into.extend(body);
}

/// Appends a NOTIFICATION.
pub(crate) fn notify(into: &mut Vec<u8>, fault: &Fault) {
    let mut body = vec![fault.code, fault.subcode];
    let room = LARGEST - HEADER - body.len();
    body.extend(fault.data.iter().take(room));
    append(into, 3, &body);
}

/// Whether a NOTIFICATION is a hard reset (RFC 8538, section 3.1).
pub(crate) fn is_hard_reset(message: &[u8]) -> bool {
    message.get(HEADER..).is_some_and(|body| body.starts_with(&[6, 9]))
}

/// A NOTIFICATION of the peer in words (RFC 4271, section 4.5; RFC 4486; the text of RFC 9003).
pub(crate) fn notified(message: &[u8]) -> String {
    let [code, subcode, data @ ..] = message.get(HEADER..).unwrap_or_default() else {
        return "it sent an empty notification".to_owned();
    };
    let (mut code, mut subcode, mut data) = (*code, *subcode, data);
    // A hard reset has the notification that is meant within.
    let is_hard = is_hard_reset(message);
    if let ([within, its, rest @ ..], true) = (data, is_hard) {
        (code, subcode, data) = (*within, *its, rest);
    }
    let meaning = match (code, subcode) {
        (1, _) => "header error: it could not read what Stoa sent",
        (2, 2) => "wrong AS: set the same one in the daemon and in `as` of the route source",
        (2, 3) => "bad BGP identifier: give `router-id` of the route source another value",
        (2, 6) => "unacceptable hold time",
        (2, 7) => "unsupported capability",
        (2, _) => "OPEN refused",
        (3, _) => "UPDATE refused",
        (4, _) => "its hold timer expired",
        (5, _) => "unexpected message",
        (6, 1) => "cease: too many prefixes",
        (6, 2) => "cease: shut down by its operator",
        (6, 3) => "cease: the neighbour is not configured any more",
        (6, 4) => "cease: reset by its operator",
        (6, 5) => "cease: connection rejected",
        (6, 6) => "cease: its configuration changed",
        (6, 7) => "cease: two connections at once",
        (6, 8) => "cease: out of resources",
        (6, 9) => "cease: hard reset",
        (6, 10) => "cease: BFD says that the neighbour is down",
        (6, _) => "cease",
        _ => "unknown",
    };
    let words = match (code, subcode, data) {
        (6, 2 | 4, [length, text @ ..]) => {
            let text = text.get(..usize::from(*length)).unwrap_or_default();
            let text = String::from_utf8_lossy(text);
            let plain: String = text.chars().filter(|letter| !letter.is_control()).collect();
            if plain.is_empty() { plain } else { format!(", it says \"{plain}\"") }
        }
        _ => String::new(),
    };
    let hard = if is_hard { "hard reset, " } else { "" };
    format!("the daemon ended it: {meaning} ({hard}notification {code}/{subcode}){words}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        append(&mut bytes, kind, body);
        bytes
    }

    #[test]
    fn a_frame_is_read_when_it_is_whole() {
        let bytes = message(4, &[]);
        for cut in 0..bytes.len() {
            assert_eq!(frame(&bytes[..cut], LARGEST), Ok(None));
        }
        assert_eq!(frame(&bytes, LARGEST), Ok(Some((Kind::Keepalive, &bytes[..]))));
    }

    #[test]
    fn what_is_wrong_with_a_header_is_told_by_its_code() {
        let code = |bytes: &[u8]| match frame(bytes, LARGEST) {
            Ok(_) => None,
            Err(fault) => Some((fault.code, fault.subcode)),
        };
        let mut bytes = message(4, &[]);
        bytes[3] = 0;
        assert_eq!(code(&bytes), Some((1, 1)));
        assert_eq!(code(&message(4, &[0])), Some((1, 2)));
        assert_eq!(code(&message(2, &[0])), Some((1, 2)));
        assert_eq!(code(&message(2, &[0; 4078])), Some((1, 2)));
        assert_eq!(code(&message(9, &[])), Some((1, 3)));
        let large = message(2, &[0; 4078]);
        assert_eq!(frame(&large, LARGEST_EXTENDED), Ok(Some((Kind::Update, &large[..]))));
    }

    #[test]
    fn a_notification_is_told_in_words() {
        let mut bytes = Vec::new();
        notify(&mut bytes, &Fault::new(6, 2, "").with(b"\x03bye"));
        assert_eq!(bytes.len(), 25);
        assert!(
            notified(&bytes)
                .contains("shut down by its operator (notification 6/2), it says \"bye\"")
        );
        let mut hard = Vec::new();
        notify(&mut hard, &Fault::new(6, 9, "").with(b"\x06\x02\x03bye"));
        assert!(is_hard_reset(&hard) && !is_hard_reset(&bytes));
        assert!(
            notified(&hard)
                .contains("by its operator (hard reset, notification 6/2), it says \"bye\"")
        );
        assert!(notified(&hard[..21]).contains("(hard reset, notification 6/9)"));
        // A text that is cut, and none at all.
        assert!(notified(&bytes[..24]).ends_with("(notification 6/2)"));
        assert!(notified(&bytes[..20]).contains("empty"));
    }
}
