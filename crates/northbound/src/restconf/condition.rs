//! Entity tags, modification times and conditional requests (RFC 9110, section 13).

use std::time::{SystemTime, UNIX_EPOCH};

use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use stoa_controller::datastore::Refusal;

use super::fault::Faults;

/// The entity tag and modification time of a datastore.
#[derive(Debug)]
pub struct Tags {
    tag: String,
    modified: SystemTime,
}

fn seconds(moment: SystemTime) -> u64 {
    moment.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

impl Tags {
    /// Those of a revision. Revisions count from the start of the program, in seconds since 1970.
    pub fn new(started: u64, revision: u64, modified: SystemTime) -> Tags {
        Tags { tag: format!("\"{started:x}-{revision:x}\""), modified }
    }

    /// Adds them to a response.
    pub fn add(&self, fields: &mut HeaderMap) {
        if let Ok(tag) = HeaderValue::try_from(&self.tag) {
            fields.insert(header::ETAG, tag);
        }
        if let Ok(date) = HeaderValue::try_from(httpdate::fmt_http_date(self.modified)) {
            fields.insert(header::LAST_MODIFIED, date);
        }
    }

    /// Whether a header field lists the tag; `None`: the field is missing. A weak tag does not permit a change
    /// (RFC 9110, section 13.1.1), but is sufficient for reads.
    fn is_listed(
        &self,
        fields: &HeaderMap,
        name: header::HeaderName,
        is_weak_enough: bool,
    ) -> Option<bool> {
        let mut values = fields.get_all(name).into_iter().peekable();
        values.peek()?;
        Some(values.filter_map(|value| value.to_str().ok()).any(|value| {
            value.split(',').map(str::trim).any(|tag| {
                let strong = match is_weak_enough {
                    true => tag.strip_prefix("W/").unwrap_or(tag),
                    false => tag,
                };
                tag == "*" || strong == self.tag
            })
        }))
    }

    fn date(fields: &HeaderMap, name: header::HeaderName) -> Option<u64> {
        let value = fields.get(name)?.to_str().ok()?;
        httpdate::parse_http_date(value).ok().map(seconds)
    }

    /// The response when the client has the current version.
    pub fn unmodified(&self, fields: &HeaderMap) -> Option<Response> {
        let is_same = match self.is_listed(fields, header::IF_NONE_MATCH, true) {
            Some(is_listed) => is_listed,
            None => Tags::date(fields, header::IF_MODIFIED_SINCE)
                .is_some_and(|date| seconds(self.modified) <= date),
        };
        if !is_same {
            return None;
        }
        let mut response = StatusCode::NOT_MODIFIED.into_response();
        self.add(response.headers_mut());
        Some(response)
    }

    /// Whether the client made the change conditional.
    ///
    /// # Errors
    /// When the condition is false.
    pub fn check(&self, fields: &HeaderMap) -> Result<bool, Faults> {
        let listed = self.is_listed(fields, header::IF_MATCH, false);
        let date = Tags::date(fields, header::IF_UNMODIFIED_SINCE).filter(|_| listed.is_none());
        let is_changed =
            listed == Some(false) || date.is_some_and(|date| seconds(self.modified) > date);
        match is_changed {
            true => Err(Refusal::Stale.into()),
            false => Ok(listed.is_some() || date.is_some()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn tags_and_dates_are_compared_as_the_rfc_says() {
        let modified = UNIX_EPOCH + Duration::from_secs(784_111_777);
        let tags = Tags::new(16, 2, modified);
        let fields = |all: &[(&'static str, &'static str)]| {
            let mut fields = HeaderMap::new();
            for (name, value) in all {
                fields.append(*name, HeaderValue::from_static(value));
            }
            fields
        };
        let check = |all: &[(&'static str, &'static str)]| tags.check(&fields(all)).ok();
        assert_eq!(check(&[]), Some(false));
        assert_eq!(check(&[("if-match", "\"10-2\"")]), Some(true));
        assert_eq!(check(&[("if-match", "\"x\" , \"10-2\"")]), Some(true));
        assert_eq!(check(&[("if-match", "\"x\""), ("if-match", "*")]), Some(true));
        for odd in ["", "10-2", "\"10-3\"", "W/\"10-2\"", ",,"] {
            assert_eq!(check(&[("if-match", odd)]), None, "{odd}");
        }
        let then = "Sun, 06 Nov 1994 08:49:37 GMT";
        assert_eq!(check(&[("if-unmodified-since", then)]), Some(true));
        assert_eq!(check(&[("if-unmodified-since", "Sun, 06 Nov 1994 08:49:36 GMT")]), None);
        assert_eq!(check(&[("if-unmodified-since", "yesterday")]), Some(false));
        let has = |all: &[(&'static str, &'static str)]| tags.unmodified(&fields(all)).is_some();
        assert!(has(&[("if-none-match", "W/\"10-2\"")]) && has(&[("if-modified-since", then)]));
        assert!(!has(&[]) && !has(&[("if-none-match", "\"10-1\""), ("if-modified-since", then)]));
    }
}
