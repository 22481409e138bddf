//! A log message in the format of RFC 5424.

use std::time::SystemTime;

use stoa_api::date;

use crate::record::Record;

/// Maximum length of a message: more than the 2,048 bytes that receivers should accept (RFC 5424, section 6.1), and
/// what common receivers accept.
pub(crate) const MESSAGE_BYTES: usize = 8_192;

/// SD-ID of the structured data. 32473 is the enterprise number for examples (RFC 5612): Stoa has none of its own.
const FIELDS: &str = "stoa@32473";

/// The process that logs: header fields of all its messages.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    /// As in `uname -n`.
    pub(crate) host: String,
    /// As in "stoa-forwarder".
    pub(crate) program: String,
    pub(crate) pid: u32,
}

/// The severity of RFC 5424, section 6.2.1.
pub(crate) fn severity(level: tracing::Level) -> u8 {
    match level {
        tracing::Level::ERROR => 3,
        tracing::Level::WARN => 4,
        tracing::Level::INFO => 6,
        tracing::Level::DEBUG | tracing::Level::TRACE => 7,
    }
}

/// A header field: printable ASCII without spaces, of bounded length; "-" when nothing is left.
fn name(text: &str, limit: usize) -> String {
    let kept: String = text.chars().filter(char::is_ascii_graphic).take(limit).collect();
    if kept.is_empty() { "-".to_owned() } else { kept }
}

/// The name of a field without the characters that would end it (RFC 5424, section 6.3.3).
fn field_name(text: &str) -> String {
    name(&text.replace(['=', ']', '"'], ""), 32)
}

/// The message, without the framing of the transport.
pub(crate) fn message(
    sender: &Sender,
    priority: u8,
    time: SystemTime,
    target: &str,
    record: &Record,
) -> String {
    let mut text = format!(
        "<{priority}>1 {} {} {} {} {} ",
        date::with_micros(time),
        name(&sender.host, 255),
        name(&sender.program, 48),
        sender.pid,
        name(target, 32),
    );
    if record.fields.is_empty() {
        text.push('-');
    } else {
        text.push('[');
        text.push_str(FIELDS);
        for (field, value) in &record.fields {
            text.push_str(&format!(" {}=\"", field_name(field)));
            for letter in value.chars().map(plain) {
                if matches!(letter, '"' | '\\' | ']') {
                    text.push('\\');
                }
                text.push(letter);
            }
            text.push('"');
        }
        text.push(']');
    }
    text.push(' ');
    if !record.message.is_ascii() {
        // The byte order mark announces UTF-8 (RFC 5424, section 6.4).
        text.push('\u{feff}');
    }
    text.extend(record.message.chars().map(plain));
    cut(text)
}

/// Replaces control characters, so that text from outside cannot forge another log line.
fn plain(letter: char) -> char {
    if letter.is_control() { ' ' } else { letter }
}

/// Truncates a message to [`MESSAGE_BYTES`]. No field of Stoa is that long, so that the cut is in the text.
fn cut(mut text: String) -> String {
    if text.len() > MESSAGE_BYTES {
        let mut end = MESSAGE_BYTES;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
    }
    text
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use proptest::prelude::*;

    use super::*;

    /// What a receiver reads: header fields, pairs of the structured data, message.
    pub(crate) type Read = (u8, Vec<String>, Vec<(String, String)>, String);

    /// A parser of RFC 5424, section 6; `None` for a text that violates its grammar.
    pub(crate) fn read(text: &str) -> Option<Read> {
        let (priority, rest) = text.strip_prefix('<')?.split_once(">1 ")?;
        let mut parts = rest.splitn(6, ' ');
        let header: Vec<String> = parts.by_ref().take(5).map(str::to_owned).collect();
        let rest = parts.next()?;
        header
            .iter()
            .all(|it| !it.is_empty() && it.chars().all(|c| c.is_ascii_graphic()))
            .then_some(())?;
        let mut pairs = Vec::new();
        let rest = match rest.strip_prefix('-') {
            Some(rest) => rest,
            None => {
                let mut rest = rest.strip_prefix('[')?.strip_prefix(FIELDS)?;
                while let Some(pair) = rest.strip_prefix(' ') {
                    let (key, value) = pair.split_once("=\"")?;
                    let mut read = String::new();
                    let mut letters = value.char_indices();
                    let end = loop {
                        match letters.next()? {
                            (at, '"') => break at,
                            (_, '\\') => read.push(letters.next()?.1),
                            (_, ']') => return None,
                            (_, letter) => read.push(letter),
                        }
                    };
                    pairs.push((key.to_owned(), read));
                    rest = &value[end + 1..];
                }
                rest.strip_prefix(']')?
            }
        };
        let message = rest.strip_prefix(' ')?;
        Some((priority.parse().ok()?, header, pairs, message.to_owned()))
    }

    fn sender() -> Sender {
        Sender { host: "edge 1".into(), program: "stoa-forwarder".into(), pid: 7 }
    }

    #[test]
    fn a_message_has_the_parts_of_the_standard() {
        let time = UNIX_EPOCH + Duration::from_micros(1_500_000);
        let record = Record {
            message: "link is\nup".into(),
            fields: vec![("port", "wan0".into()), ("reason", r#"a "b" ] \"#.into())],
        };
        let text = message(&sender(), 30, time, "stoa_forwarder::control", &record);
        assert_eq!(
            text,
            "<30>1 1970-01-01T00:00:01.500000Z edge1 stoa-forwarder 7 stoa_forwarder::control \
             [stoa@32473 port=\"wan0\" reason=\"a \\\"b\\\" \\] \\\\\"] link is up"
        );
        let umlaut = Record { message: "Tür".into(), ..Record::default() };
        let text = message(&sender(), 30, time, "", &umlaut);
        assert!(text.ends_with(" 7 - - \u{feff}Tür"), "{text}");
    }

    proptest! {
        /// Any text comes back unchanged, but for control characters.
        #[test]
        fn any_text_is_read_again(host in ".*", target in ".*", text in ".{0,200}", value in ".{0,200}") {
            let record = Record { message: text.clone(), fields: vec![("field", value.clone())] };
            let sent = message(&Sender { host, ..sender() }, 191, UNIX_EPOCH, &target, &record);
            let (priority, header, pairs, read) = read(&sent).expect("follows the grammar");
            let plain = |text: &str| text.chars().map(super::plain).collect::<String>();
            prop_assert_eq!((priority, header.len()), (191, 5));
            prop_assert_eq!(pairs, vec![("field".to_owned(), plain(&value))]);
            let expected = plain(&text);
            prop_assert_eq!(
                read.trim_start_matches('\u{feff}'),
                expected.trim_start_matches('\u{feff}')
            );
        }

        #[test]
        fn no_message_is_too_long(text in "[aä€]{3000,9000}") {
            let record = Record { message: text, ..Record::default() };
            let sent = message(&sender(), 30, UNIX_EPOCH, "x", &record);
            prop_assert!(sent.len() <= MESSAGE_BYTES && sent.len() > 3_000);
        }
    }
}
