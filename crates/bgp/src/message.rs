//! Message framing: the header (RFC 4271, section 4.1) and NOTIFICATION messages.

use std::borrow::Cow;

/// Size of the header: marker, length, type.
pub(crate) const HEADER_SIZE: usize = 19;
/// Largest message (RFC 4271, section 4).
pub(crate) const MAX_MESSAGE_SIZE: usize = 4096;
/// Largest message when both sides support extended messages (RFC 8654, section 3).
pub(crate) const MAX_EXTENDED_MESSAGE_SIZE: usize = 65_535;

/// Message types (RFC 4271, section 4.1; RFC 2918, section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageType {
    Open,
    Update,
    Notification,
    Keepalive,
    RouteRefresh,
}

/// A protocol error, as it is sent in a NOTIFICATION (RFC 4271, section 6).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct ProtocolError {
    /// Error code.
    pub code: u8,
    /// Error subcode.
    pub subcode: u8,
    /// Data field of the NOTIFICATION.
    pub data: Vec<u8>,
    /// The error as text.
    pub reason: Cow<'static, str>,
}

impl ProtocolError {
    pub(crate) fn new(code: u8, subcode: u8, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { code, subcode, data: Vec::new(), reason: reason.into() }
    }

    pub(crate) fn with_data(mut self, data: &[u8]) -> Self {
        self.data = data.to_vec();
        self
    }
}

/// Returns type and bytes (header included) of the first message; `None` while it is incomplete.
pub(crate) fn frame(
    bytes: &[u8],
    max_message_size: usize,
) -> Result<Option<(MessageType, &[u8])>, ProtocolError> {
    let Some((header, _)) = bytes.split_first_chunk::<HEADER_SIZE>() else { return Ok(None) };
    if header[..16] != [0xff; 16] {
        return Err(ProtocolError::new(1, 1, "the message header has no marker"));
    }
    let length = usize::from(u16::from_be_bytes([header[16], header[17]]));
    let bad = || {
        ProtocolError::new(
            1,
            2,
            format!("a message of type {} has a bad length of {length} bytes", header[18]),
        )
        .with_data(&header[16..18])
    };
    let (kind, least, most) = match header[18] {
        1 => (MessageType::Open, 29, MAX_MESSAGE_SIZE),
        2 => (MessageType::Update, 23, max_message_size),
        3 => (MessageType::Notification, 21, max_message_size),
        4 => (MessageType::Keepalive, HEADER_SIZE, HEADER_SIZE),
        5 => (MessageType::RouteRefresh, 23, max_message_size),
        other => {
            let reason = format!("unknown message type {other}");
            return Err(ProtocolError::new(1, 3, reason).with_data(&[other]));
        }
    };
    if length < least || length > most {
        return Err(bad());
    }
    Ok(bytes.get(..length).map(|message| (kind, message)))
}

/// Appends a message. Header and `body` must fit into [`MAX_MESSAGE_SIZE`].
pub(crate) fn append(into: &mut Vec<u8>, kind: u8, body: &[u8]) {
    let length = u16::try_from(HEADER_SIZE + body.len()).unwrap_or(u16::MAX);
    into.extend([0xff; 16]);
    into.extend(length.to_be_bytes());
    into.push(kind);
    into.extend(body);
}

/// Appends a NOTIFICATION.
pub(crate) fn append_notification(into: &mut Vec<u8>, fault: &ProtocolError) {
    let mut body = vec![fault.code, fault.subcode];
    let space = MAX_MESSAGE_SIZE - HEADER_SIZE - body.len();
    body.extend(fault.data.iter().take(space));
    append(into, 3, &body);
}

/// Whether a NOTIFICATION is a hard reset (RFC 8538, section 3.1).
pub(crate) fn is_hard_reset(message: &[u8]) -> bool {
    message.get(HEADER_SIZE..).is_some_and(|body| body.starts_with(&[6, 9]))
}

/// Describes a received NOTIFICATION (RFC 4271, section 4.5; RFC 4486; shutdown text of RFC 9003).
pub(crate) fn describe_notification(message: &[u8]) -> String {
    let [code, subcode, data @ ..] = message.get(HEADER_SIZE..).unwrap_or_default() else {
        return "the daemon sent an empty notification".to_owned();
    };
    let (mut code, mut subcode, mut data) = (*code, *subcode, data);
    // A hard reset carries the actual notification in its data.
    let is_hard_reset = is_hard_reset(message);
    if let ([within, its, rest @ ..], true) = (data, is_hard_reset) {
        (code, subcode, data) = (*within, *its, rest);
    }
    let meaning = match (code, subcode) {
        (1, _) => "message header error: the daemon could not parse Stoa's message",
        (2, 2) => "bad peer AS: set `as` of the route source to the daemon's AS",
        (2, 3) => "bad BGP identifier: change `router-id` of the route source",
        (2, 6) => "unacceptable hold time",
        (2, 7) => "unsupported capability",
        (2, _) => "OPEN message error",
        (3, _) => "UPDATE message error",
        (4, _) => "the daemon's hold timer expired",
        (5, _) => "finite state machine error",
        (6, 1) => "cease: maximum number of prefixes reached",
        (6, 2) => "cease: administrative shutdown",
        (6, 3) => "cease: peer de-configured",
        (6, 4) => "cease: administrative reset",
        (6, 5) => "cease: connection rejected",
        (6, 6) => "cease: other configuration change",
        (6, 7) => "cease: connection collision resolution",
        (6, 8) => "cease: out of resources",
        (6, 9) => "cease: hard reset",
        (6, 10) => "cease: BFD down",
        (6, _) => "cease",
        _ => "unknown",
    };
    let quoted = match (code, subcode, data) {
        (6, 2 | 4, [length, text @ ..]) => {
            let text = text.get(..usize::from(*length)).unwrap_or_default();
            let text = String::from_utf8_lossy(text);
            let plain: String = text.chars().filter(|letter| !letter.is_control()).collect();
            if plain.is_empty() { plain } else { format!(", message \"{plain}\"") }
        }
        _ => String::new(),
    };
    let hard = if is_hard_reset { "hard reset, " } else { "" };
    format!(
        "the daemon closed the session: {meaning} ({hard}notification {code}/{subcode}){quoted}"
    )
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
    fn a_message_is_returned_when_it_is_complete() {
        let bytes = message(4, &[]);
        for cut in 0..bytes.len() {
            assert_eq!(frame(&bytes[..cut], MAX_MESSAGE_SIZE), Ok(None));
        }
        assert_eq!(frame(&bytes, MAX_MESSAGE_SIZE), Ok(Some((MessageType::Keepalive, &bytes[..]))));
    }

    #[test]
    fn header_errors_have_the_codes_of_the_rfc() {
        let code = |bytes: &[u8]| match frame(bytes, MAX_MESSAGE_SIZE) {
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
        assert_eq!(
            frame(&large, MAX_EXTENDED_MESSAGE_SIZE),
            Ok(Some((MessageType::Update, &large[..])))
        );
    }

    #[test]
    fn notifications_are_described() {
        let mut bytes = Vec::new();
        append_notification(&mut bytes, &ProtocolError::new(6, 2, "").with_data(b"\x03bye"));
        assert_eq!(bytes.len(), 25);
        assert!(
            describe_notification(&bytes)
                .contains("administrative shutdown (notification 6/2), message \"bye\"")
        );
        let mut hard = Vec::new();
        append_notification(&mut hard, &ProtocolError::new(6, 9, "").with_data(b"\x06\x02\x03bye"));
        assert!(is_hard_reset(&hard) && !is_hard_reset(&bytes));
        assert!(
            describe_notification(&hard).contains(
                "administrative shutdown (hard reset, notification 6/2), message \"bye\""
            )
        );
        assert!(describe_notification(&hard[..21]).contains("(hard reset, notification 6/9)"));
        // A truncated text, and none at all.
        assert!(describe_notification(&bytes[..24]).ends_with("(notification 6/2)"));
        assert!(describe_notification(&bytes[..20]).contains("empty"));
    }
}
