//! Forms: their fields, and the mark by which the portal knows its own.
//!
//! A mark is a digest of a cookie under a key of the portal. A page of another site can send neither: it does not know
//! the cookie, which no script may read and which browsers send with requests of the portal's own pages alone.

use std::time::Duration;

use axum::body::Body;
use http::HeaderMap;
use http::header::{self, HeaderValue};
use http_body_util::{BodyExt, Limited};

use crate::auth::secret;

/// Time for a form to arrive.
const FORM: Duration = Duration::from_secs(10);
/// Bytes of a form at most.
const FORM_BYTES: usize = 8 << 10;
/// Fields of a form at most.
const FIELDS: usize = 16;
/// The name of the cookie: `__Host-` binds it to this host, with TLS.
const COOKIE: &str = "__Host-stoa-portal";
/// The length of its value.
const COOKIE_BYTES: usize = 43;

/// The fields of a form.
#[derive(Debug, Default)]
pub(super) struct Form(Vec<(String, String)>);

impl Form {
    /// Reads a form; `None`: it is too long, too slow or broken.
    pub(super) async fn read(body: Body) -> Option<Self> {
        Self::read_within(FORM, body).await
    }

    async fn read_within(limit: Duration, body: Body) -> Option<Self> {
        let whole = Limited::new(body, FORM_BYTES).collect();
        let whole = tokio::time::timeout(limit, whole).await.ok()?.ok()?;
        Some(Self::of(&whole.to_bytes()))
    }

    /// The fields of `application/x-www-form-urlencoded`.
    fn of(bytes: &[u8]) -> Self {
        let pairs = bytes.split(|byte| *byte == b'&').take(FIELDS);
        let text = |bytes: &[u8]| {
            let spaced: Vec<u8> =
                bytes.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
            percent_encoding::percent_decode(&spaced).decode_utf8_lossy().into_owned()
        };
        let pair = |pair: &[u8]| {
            let at = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
            let (name, value) = pair.split_at(at);
            (text(name), text(value.get(1..).unwrap_or_default()))
        };
        Self(pairs.map(pair).collect())
    }

    /// The value of a field; "": it is not there.
    pub(super) fn value(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }
}

/// The cookie of a request, if it looks like one of the portal.
fn cookie(headers: &HeaderMap) -> Option<&str> {
    let all = headers.get_all(header::COOKIE).into_iter().filter_map(|it| it.to_str().ok());
    let mut pairs = all.flat_map(|it| it.split(';')).filter_map(|it| it.trim().split_once('='));
    let (_, value) = pairs.find(|(name, _)| *name == COOKIE)?;
    (value.len() == COOKIE_BYTES && value.is_ascii()).then_some(value)
}

fn mark_of(key: &[u8; 32], cookie: &str) -> String {
    secret::encoded(&secret::digest(&[key, cookie.as_bytes()]))
}

/// The mark for a page, and the field that sets its cookie if the browser has none.
pub(super) fn mark(key: &[u8; 32], headers: &HeaderMap) -> (String, Option<HeaderValue>) {
    if let Some(cookie) = cookie(headers) {
        return (mark_of(key, cookie), None);
    }
    let cookie = secret::text();
    let field = format!("{COOKIE}={cookie}; Path=/; Secure; HttpOnly; SameSite=Strict");
    (mark_of(key, &cookie), HeaderValue::from_str(&field).ok())
}

/// Whether a form has the mark of a page of the portal that this browser has got.
pub(super) fn is_marked(key: &[u8; 32], headers: &HeaderMap, form: &Form) -> bool {
    cookie(headers).is_some_and(|it| secret::is_same(&mark_of(key, it), form.value("mark")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_decoded() {
        let form = Form::of(b"user=ann%40example&password=a+b%26%3D%2B%C3%A9&empty=&user=bob&odd");
        assert_eq!(form.value("user"), "ann@example");
        assert_eq!(form.value("password"), "a b&=+\u{e9}");
        assert_eq!((form.value("empty"), form.value("none"), form.value("odd")), ("", "", ""));
    }

    #[tokio::test]
    async fn a_form_that_never_ends_is_given_up() {
        let endless = futures_util::stream::pending::<Result<Vec<u8>, std::io::Error>>();
        let read = Form::read_within(Duration::from_millis(10), Body::from_stream(endless));
        assert!(read.await.is_none());
    }

    #[test]
    fn only_a_form_of_the_portal_with_its_cookie_counts() {
        let key = [7; 32];
        let (mark, field) = mark(&key, &HeaderMap::new());
        let field = field.unwrap();
        let field = field.to_str().unwrap();
        let value = field.split(';').next().unwrap();
        let with = |cookie: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::COOKIE, cookie.parse().unwrap());
            headers
        };
        let form = |mark: &str| Form(vec![("mark".to_owned(), mark.to_owned())]);
        assert!(is_marked(&key, &with(value), &form(&mark)));
        assert!(is_marked(&key, &with(&format!("a=b; {value}")), &form(&mark)));
        assert!(!is_marked(&key, &HeaderMap::new(), &form(&mark)));
        assert!(!is_marked(&key, &with(value), &form("")));
        assert!(!is_marked(&[8; 32], &with(value), &form(&mark)));
        let other = format!("{COOKIE}={}", secret::text());
        assert!(!is_marked(&key, &with(&other), &form(&mark)));
        // A cookie that the browser has stays.
        assert!(super::mark(&key, &with(value)).1.is_none());
        for part in ["Secure", "HttpOnly", "SameSite=Strict", "Path=/"] {
            assert!(field.contains(part), "{field}");
        }
    }
}
