//! Changes as messages of a stream.

use stoa_api::gnmi::{Notification, Path, Update};

use super::path::to_gnmi;
use super::service::now;
use super::value::ValueEncoding;
use super::watch::Difference;
use crate::nacm;

/// Approximate size of the values in one message, in bytes.
const MESSAGE_BYTES: usize = 48 << 10;

/// Splits a difference into messages of bounded size, each created when the stream needs it.
pub fn messages(
    difference: Difference,
    coding: ValueEncoding,
    prefix: Option<&Path>,
) -> impl Iterator<Item = Notification> {
    let timestamp = now();
    let prefix = prefix.cloned();
    let path = |text: &str| to_gnmi(&nacm::rule_path(text));
    let (mut deletes, mut updates) =
        (difference.deletes.into_iter(), difference.updates.into_iter());
    std::iter::from_fn(move || {
        let mut message =
            Notification { timestamp, prefix: prefix.clone(), ..Notification::default() };
        let mut bytes = 0;
        while bytes < MESSAGE_BYTES
            && let Some(text) = deletes.next()
        {
            bytes += text.len();
            message.delete.push(path(&text));
        }
        while bytes < MESSAGE_BYTES
            && let Some((text, value)) = updates.next()
        {
            bytes += text.len() + value.len();
            let (path, val) = (Some(path(&text)), Some(coding.preencoded(value)));
            message.update.push(Update { path, val, duplicates: 0 });
        }
        (!message.update.is_empty() || !message.delete.is_empty()).then_some(message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_small_and_lose_nothing() {
        let updates: Vec<_> =
            (0..100).map(|number| (format!("/a:b/c{number}"), "x".repeat(2_000))).collect();
        let deletes = vec!["/a:b/gone".to_owned()];
        let difference = Difference { updates, deletes };
        let reported: Vec<_> = messages(difference, ValueEncoding::JsonIetf, None).collect();
        assert_eq!(reported.iter().map(|message| message.update.len()).sum::<usize>(), 100);
        assert_eq!(
            reported.iter().map(|message| message.delete.len()).collect::<Vec<_>>(),
            [1, 0, 0, 0]
        );
        assert!(messages(Difference::default(), ValueEncoding::Json, None).next().is_none());
    }
}
