//! The web page: files that `scripts/build-dashboard` builds from `dashboard/`, compressed and embedded.
//!
//! They contain no secrets. Without a login, the page shows the login form and no data.

use std::io::Read;
use std::sync::Arc;

use axum::Router;
use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::header::{self, HeaderMap, HeaderValue};
use http::{HeaderName, StatusCode};

use crate::server::app_state::{AppState, failure};

/// A file of the page.
struct File {
    /// Its path on the server.
    path: &'static str,
    /// Its media type.
    kind: &'static str,
    /// Its entity tag, which changes with the content.
    tag: &'static str,
    /// The content, compressed with gzip.
    packed: &'static [u8],
}

include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// The first page. The script shows all others.
const PAGE: &str = "/";
/// Only our own files: no inline script or style, nothing of other sites, no frames.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
/// The name of a file changes with its content, so it can be cached without limit.
const FOR_EVER: &str = "public, max-age=31536000, immutable";

/// The routes of the web page.
pub fn router() -> Router<Arc<AppState>> {
    Router::new()
        .route(PAGE, get(async |headers: HeaderMap| serve(PAGE, &headers)))
        .route("/assets/{name}", get(asset))
}

async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Response {
    serve(&format!("/assets/{name}"), &headers)
}

fn serve(path: &str, asked: &HeaderMap) -> Response {
    let Some(file) = FILES.iter().find(|file| file.path == path) else {
        return failure(StatusCode::NOT_FOUND, "not found: no such path on this server");
    };
    let words = |name: HeaderName| asked.get(name).and_then(|value| value.to_str().ok());
    let listed = words(header::IF_NONE_MATCH).unwrap_or_default();
    let is_same = listed.split(',').any(|tag| tag.trim().trim_start_matches("W/") == file.tag);
    let accepted = words(header::ACCEPT_ENCODING).unwrap_or_default();
    let mut response = match (is_same, takes_gzip(accepted)) {
        (true, _) => StatusCode::NOT_MODIFIED.into_response(),
        (false, true) => {
            let encoding = [(header::CONTENT_ENCODING, "gzip")];
            (encoding, file.packed).into_response()
        }
        (false, false) => match unpacked(file) {
            Ok(content) => content.into_response(),
            Err(_) => {
                return failure(StatusCode::INTERNAL_SERVER_ERROR, "cannot decompress the page");
            }
        },
    };
    let cache = if path == PAGE { "no-cache" } else { FOR_EVER };
    let fields = [
        (header::CONTENT_TYPE, file.kind),
        (header::ETAG, file.tag),
        (header::CACHE_CONTROL, cache),
        (header::VARY, "accept-encoding"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ];
    for (name, value) in fields {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Whether `Accept-Encoding` allows gzip.
fn takes_gzip(accepted: &str) -> bool {
    accepted.split(',').any(|one| {
        let (name, weight) = one.split_once(';').unwrap_or((one, ""));
        let weight = weight.trim().strip_prefix("q=").and_then(|it| it.parse::<f32>().ok());
        matches!(name.trim(), "gzip" | "*") && weight.is_none_or(|weight| weight > 0.0)
    })
}

fn unpacked(file: &File) -> std::io::Result<Vec<u8>> {
    let mut content = Vec::new();
    flate2::read::GzDecoder::new(file.packed).read_to_end(&mut content)?;
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(path: &str, fields: &[(&'static str, &'static str)]) -> Response {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.insert(*name, HeaderValue::from_static(value));
        }
        serve(path, &headers)
    }

    #[test]
    fn the_page_is_served_and_cached() {
        let plain = get("/", &[]);
        assert_eq!(plain.status(), StatusCode::OK);
        assert!(plain.headers()["content-security-policy"].to_str().unwrap().contains("'none'"));
        assert_eq!(plain.headers()["cache-control"], "no-cache");
        assert!(!plain.headers().contains_key("content-encoding"));
        let packed = get("/", &[("accept-encoding", "br, gzip;q=0.5")]);
        assert_eq!(packed.headers()["content-encoding"], "gzip");
        let script = FILES.iter().find(|file| file.kind.starts_with("text/javascript")).unwrap();
        let same = get(script.path, &[("if-none-match", script.tag)]);
        assert_eq!(same.status(), StatusCode::NOT_MODIFIED);
        assert_eq!(same.headers()["cache-control"], FOR_EVER);
        assert_eq!(get("/assets/../../etc/passwd", &[]).status(), StatusCode::NOT_FOUND);
        assert!(!takes_gzip("") && !takes_gzip("gzip;q=0") && takes_gzip("*"));
    }

    #[test]
    fn the_page_names_its_files_and_holds_no_script() {
        let page = FILES.iter().find(|file| file.path == PAGE).unwrap();
        let text = String::from_utf8(unpacked(page).unwrap()).unwrap();
        let mut named = text.split("\"/assets/").skip(1).filter_map(|rest| rest.split('"').next());
        assert!(named.all(|name| FILES.iter().any(|file| file.path == format!("/assets/{name}"))));
        assert!(text.contains("\"/assets/") && text.matches("<script").count() == 1);
        assert!(!text.contains("style=") && !text.contains("<style"), "the policy forbids these");
    }

    #[test]
    fn the_first_load_is_small() {
        let page = FILES.iter().find(|file| file.path == PAGE).unwrap();
        let text = String::from_utf8(unpacked(page).unwrap()).unwrap();
        let is_first = |file: &&File| file.path == PAGE || text.contains(file.path);
        let bytes = |files: &mut dyn Iterator<Item = &File>| -> usize {
            files.map(|file| file.packed.len()).sum()
        };
        let first = bytes(&mut FILES.iter().filter(is_first));
        assert!(first < 200_000, "{first} bytes compressed: the limit of the first load is 200 kB");
        let all = bytes(&mut FILES.iter());
        assert!(all < 350_000, "{all} bytes compressed: the limit of all files is 350 kB");
    }
}
