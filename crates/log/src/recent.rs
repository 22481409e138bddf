//! The last messages of this process, for operators who cannot read standard error, journald or a syslog server.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use stoa_api::v1::LogMessage;
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use crate::record::Record;

/// Messages that are kept.
const MESSAGES: usize = 1_000;
/// Maximum length of a message with its fields, in bytes. The rest is cut.
const TEXT_BYTES: usize = 1_024;
/// Parts of names of fields whose values are not shown.
const SECRET_NAMES: [&str; 7] =
    ["secret", "password", "passphrase", "token", "hash", "private", "cookie"];
/// The start of a password hash (PHC string).
const HASH: &str = "$argon2";
/// What stands in the place of a secret.
const HIDDEN: &str = "(hidden)";

/// The messages, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    messages: Mutex<VecDeque<Arc<LogMessage>>>,
}

/// The layer that keeps events.
pub(crate) struct RecentLayer(pub(crate) Arc<Recent>);

impl<S: Subscriber> Layer<S> for RecentLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.0.keep(LogMessage {
            unix_us: u64::try_from(since.as_micros()).unwrap_or(u64::MAX),
            level: metadata.level().as_str().to_ascii_lowercase(),
            target: metadata.target().to_owned(),
            text: text(&Record::of(event)),
        });
    }
}

impl Recent {
    fn keep(&self, message: LogMessage) {
        let message = Arc::new(message);
        let mut messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        if messages.len() >= MESSAGES {
            messages.pop_front();
        }
        messages.push_back(message);
    }

    /// A copy of all messages, oldest first.
    pub(crate) fn messages(&self) -> Vec<LogMessage> {
        // Only references are copied under the lock, which threads that log wait for.
        let kept: Vec<_> = {
            let messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
            messages.iter().map(Arc::clone).collect()
        };
        kept.iter().map(|message| LogMessage::clone(message)).collect()
    }
}

/// A message and its fields on one line, without secrets. No value looks like more fields or lines.
fn text(record: &Record) -> String {
    let mut text = on_one_line(&without_hashes(&record.message));
    for (name, value) in &record.fields {
        let lower = name.to_ascii_lowercase();
        let is_secret = SECRET_NAMES.iter().any(|part| lower.contains(part));
        let value = if is_secret { HIDDEN.to_owned() } else { delimited(without_hashes(value)) };
        // Writing to a string does not fail.
        let _ = write!(text, " {name}={value}");
    }
    if text.len() > TEXT_BYTES {
        let end = (0..=TEXT_BYTES).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
        text.push('\u{2026}');
    }
    text
}

/// The value of a field, in quotes if it could be taken for something else.
fn delimited(value: String) -> String {
    let is_odd =
        |letter: char| letter.is_whitespace() || letter.is_control() || "\"'".contains(letter);
    if value.contains(is_odd) && !is_quoted(&value) { format!("{value:?}") } else { value }
}

/// Whether the value is a string in quotes already, as `Debug` writes them.
fn is_quoted(value: &str) -> bool {
    let Some(inner) = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
        return false;
    };
    let mut is_escaped = false;
    for letter in inner.chars() {
        let is_end = letter == '"' && !is_escaped;
        if is_end || breaks_line(letter) {
            return false;
        }
        is_escaped = letter == '\\' && !is_escaped;
    }
    !is_escaped
}

/// Whether a reader may begin a line here, or do something else than show the letter.
fn breaks_line(letter: char) -> bool {
    letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}')
}

/// The text with escapes for line ends and other control characters.
fn on_one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for letter in text.chars() {
        match breaks_line(letter) {
            true => line.extend(letter.escape_default()),
            false => line.push(letter),
        }
    }
    line
}

/// The text without password hashes.
fn without_hashes(text: &str) -> String {
    let mut rest = text;
    let mut shown = String::new();
    while let Some(at) = rest.find(HASH) {
        shown.push_str(&rest[..at]);
        shown.push_str(HIDDEN);
        let is_end = |letter: char| letter.is_whitespace() || matches!(letter, '"' | '\'');
        rest = &rest[at..];
        rest = &rest[rest.find(is_end).unwrap_or(rest.len())..];
    }
    shown.push_str(rest);
    shown
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    fn logged(log: impl FnOnce()) -> Vec<LogMessage> {
        let recent = Arc::<Recent>::default();
        let subscriber = tracing_subscriber::registry().with(RecentLayer(Arc::clone(&recent)));
        tracing::subscriber::with_default(subscriber, log);
        recent.messages()
    }

    #[test]
    fn the_last_messages_are_kept_with_their_fields() {
        let messages = logged(|| {
            for number in 0..MESSAGES + 10 {
                tracing::info!(number, "a message");
            }
            tracing::warn!(name = "lan", "down");
        });
        assert_eq!(messages.len(), MESSAGES);
        assert_eq!(messages[0].text, "a message number=11");
        let last = messages.last().unwrap();
        assert_eq!((last.level.as_str(), last.text.as_str()), ("warn", "down name=lan"));
        assert!(last.target.contains("recent") && last.unix_us > 1_600_000_000_000_000);
    }

    #[test]
    fn values_do_not_look_like_other_fields_or_lines() {
        let messages = logged(|| {
            tracing::info!(user = "ann from=10.0.0.1", from = "192.0.2.9", "login failed");
            tracing::info!(user = "ann\nlogin", "login\nfailed");
            tracing::info!(path = ?"a b", odd = "\"a\" by=\"b\"", "read");
        });
        let texts = messages.iter().map(|message| message.text.as_str()).collect::<Vec<_>>();
        let blank = r#"login failed user="ann from=10.0.0.1" from=192.0.2.9"#;
        let line_end = r#"login\nfailed user="ann\nlogin""#;
        let quotes = r#"read path="a b" odd="\"a\" by=\"b\"" "#.trim_end();
        assert_eq!(texts, [blank, line_end, quotes]);
    }

    #[test]
    fn secrets_are_hidden_and_long_messages_are_cut() {
        let hash = "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNo";
        let messages = logged(|| {
            tracing::info!(shared_secret = "s3cret", password = "horse", "radius");
            tracing::info!(value = hash, "refused: '{hash}' is not a hash");
            tracing::info!("{}", "\u{e9}".repeat(TEXT_BYTES));
        });
        assert_eq!(messages[0].text, "radius shared_secret=(hidden) password=(hidden)");
        assert_eq!(messages[1].text, "refused: '(hidden)' is not a hash value=(hidden)");
        assert!(messages[2].text.len() <= TEXT_BYTES + 3 && messages[2].text.ends_with('\u{2026}'));
    }
}
