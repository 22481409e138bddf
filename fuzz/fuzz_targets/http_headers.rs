//! HTTP header fields that Stoa parses itself: conditions, media types, origins, cookies.
#![no_main]

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderValue, Method, Uri, header};
use libfuzzer_sys::fuzz_target;
use stoa_northbound::auth::sessions;
use stoa_northbound::restconf::condition::Tags;
use stoa_northbound::restconf::media::Media;
use stoa_northbound::server::app::origin;

/// The field name of a line, by its first byte.
const NAMES: [header::HeaderName; 10] = [
    header::IF_MATCH,
    header::IF_NONE_MATCH,
    header::IF_MODIFIED_SINCE,
    header::IF_UNMODIFIED_SINCE,
    header::ACCEPT,
    header::CONTENT_TYPE,
    header::ORIGIN,
    header::HOST,
    header::COOKIE,
    header::HeaderName::from_static("sec-fetch-site"),
];

fuzz_target!(|bytes: &[u8]| {
    let mut fields = HeaderMap::new();
    for line in bytes.split(|byte| *byte == b'\n') {
        let Some((name, value)) = line.split_first() else { continue };
        let Ok(value) = HeaderValue::from_bytes(value) else { continue };
        fields.append(NAMES[usize::from(*name) % NAMES.len()].clone(), value);
    }
    let tags = Tags::new(16, 2, SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777));
    let asks = fields.contains_key(header::IF_MATCH);
    assert!(tags.check(&fields).is_err() || !asks || tags.check(&fields).is_ok_and(|it| it));
    if let Some(response) = tags.unmodified(&fields) {
        assert_eq!(response.status(), 304);
    }
    if let Ok(media) = Media::accepted(&fields) {
        assert_eq!(Media::for_faults(&fields), media);
    }
    let _ = Media::content_type(&fields);
    let here = Uri::from_static("/restconf/data");
    let refused = origin::refusal(&Method::PUT, &here, &fields);
    let foreign =
        fields.get_all(header::ORIGIN).iter().any(|it| !it.as_bytes().starts_with(b"https://"));
    assert!(refused.is_some() || !foreign, "a page without TLS changes something");
    assert!(origin::refusal(&Method::GET, &here, &fields).is_none());
    for value in fields.get_all(header::COOKIE).iter().filter_map(|it| it.to_str().ok()) {
        assert!(sessions::cookie(value).is_none_or(|cookie| value.contains(cookie)));
    }
});
