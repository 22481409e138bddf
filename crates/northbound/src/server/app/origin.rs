//! Cross-site requests: a browser adds passwords and certificates to them by itself, and names the origin of the page.

use http::header::{HOST, ORIGIN};
use http::{HeaderMap, Method, Uri};

/// The reason to refuse a state-changing request that comes from a page of another site.
pub fn refusal(method: &Method, uri: &Uri, headers: &HeaderMap) -> Option<&'static str> {
    if method.is_safe() {
        return None;
    }
    let site = headers.get("sec-fetch-site").map(http::HeaderValue::as_bytes);
    if site.is_some_and(|site| !matches!(site, b"same-origin" | b"none")) {
        return Some("cross-site request refused: Sec-Fetch-Site is not same-origin");
    }
    let mut origins = headers.get_all(ORIGIN).into_iter();
    let named = uri.authority().map(|authority| authority.as_str());
    let here = named.or_else(|| headers.get(HOST)?.to_str().ok());
    let is_ours = |origin: &http::HeaderValue| {
        let page = origin.to_str().ok().and_then(|origin| origin.strip_prefix("https://"));
        page.zip(here).is_some_and(|(page, here)| is_same(page, here))
    };
    let words = "cross-site request refused: Origin is not this host";
    (!origins.all(is_ours)).then_some(words)
}

fn is_same(one: &str, other: &str) -> bool {
    let plain = |host: &str| host.strip_suffix(":443").unwrap_or(host).to_ascii_lowercase();
    plain(one) == plain(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cross_site_requests_change_nothing() {
        let refused = |method: Method, fields: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in fields {
                headers.append(*name, http::HeaderValue::from_static(value));
            }
            let uri = Uri::from_static("/restconf/data");
            refusal(&method, &uri, &headers).is_some()
        };
        let host = ("host", "Router:8443");
        assert!(!refused(Method::POST, &[host]));
        assert!(!refused(Method::POST, &[host, ("origin", "https://router:8443")]));
        assert!(!refused(Method::POST, &[("host", "router"), ("origin", "https://router:443")]));
        assert!(!refused(Method::POST, &[host, ("sec-fetch-site", "same-origin")]));
        assert!(!refused(Method::GET, &[host, ("sec-fetch-site", "cross-site")]));
        for origin in ["null", "https://evil", "http://router:8443", "https://router:8444", ""] {
            assert!(refused(Method::DELETE, &[host, ("origin", origin)]), "{origin}");
        }
        assert!(refused(Method::POST, &[("origin", "https://router")]), "no host");
        for site in ["cross-site", "same-site", ""] {
            assert!(refused(Method::POST, &[host, ("sec-fetch-site", site)]), "{site}");
        }
        let two = [host, ("origin", "https://router:8443"), ("origin", "https://evil")];
        assert!(refused(Method::POST, &two));
    }
}
