//! The portal without a router behind it: what it refuses, and what every answer has.

use axum::body::Body;
use http::Method;
use serde_json::{Value, json};
use tower::ServiceExt;

use stoa_api::login::Key;
use stoa_controller::login::sessions::New;
use stoa_controller::login::{Limits, Method as LoginMethod};

use super::*;

const OURS: &str = "10.0.0.1:8444";
/// Two hosts.
const ANN: [u8; 6] = [2, 0, 0, 0, 0, 9];
const BOB: [u8; 6] = [2, 0, 0, 0, 0, 8];

struct Testbed {
    _folder: tempfile::TempDir,
    portal: Arc<Portal>,
    router: Router,
}

fn testbed() -> Testbed {
    let folder = tempfile::tempdir().unwrap();
    let text = json!({
        "ietf-interfaces:interfaces": { "interface": [{
            "name": "guests", "type": "iana-if-type:ethernetCsmacd",
            "stoa-interfaces:port": { "null": {} },
            "stoa-login:login": {},
            "ietf-ip:ipv4": { "address": [{ "ip": "10.0.0.1", "prefix-length": 24 }] },
            "ietf-ip:ipv6": { "address": [{ "ip": "2001:db8::1", "prefix-length": 64 }] },
        }, {
            "name": "staff", "type": "iana-if-type:ethernetCsmacd",
            "stoa-interfaces:port": { "null": {} },
            "stoa-login:login": {},
            "ietf-ip:ipv4": { "address": [{ "ip": "10.0.2.1", "prefix-length": 24 }] },
        }] },
        "stoa-login:login": {
            "portal": { "address": ["10.0.0.1"], "url": "https://portal.example:8444/" },
        },
    });
    let datastore = crate::tests::datastore(folder.path(), &text.to_string());
    let portal = Portal::new(datastore);
    Testbed { _folder: folder, router: router(&portal), portal }
}

/// A client at an address, whose frames have a MAC address.
fn client(address: &str, mac: [u8; 6]) -> Peer {
    Peer { mac: Some(mac), ..Peer::at(address.parse().unwrap()) }
}

impl Testbed {
    async fn ask(
        &self,
        method: Method,
        path: &str,
        fields: &[(&str, &str)],
    ) -> (StatusCode, HeaderMap, String) {
        let form = "user=ann&password=x&mark=y";
        self.ask_from(client("10.0.0.9", ANN), (method, path), fields, form).await
    }

    async fn ask_from(
        &self,
        from: Peer,
        (method, path): (Method, &str),
        fields: &[(&str, &str)],
        form: &str,
    ) -> (StatusCode, HeaderMap, String) {
        let mut request = http::Request::builder().method(method).uri(path).extension(from);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(form.to_owned())).unwrap();
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
        (parts.status, parts.headers, String::from_utf8(body.to_vec()).unwrap())
    }

    /// The page of a client.
    async fn page(&self, from: Peer) -> String {
        self.ask_from(from, (Method::GET, "/"), &[("host", OURS)], "").await.2
    }

    /// Sends a form of the portal with its mark.
    async fn submit(&self, from: Peer, path: &str, fields: &str) -> (StatusCode, String) {
        let got = self.ask_from(from.clone(), (Method::GET, "/"), &[("host", OURS)], "").await;
        let cookie = got.1["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
        let mark = got.2.split("name=\"mark\" value=\"").nth(1).unwrap_or_default();
        let form = format!("mark={}&{fields}", mark.split('"').next().unwrap_or_default());
        let fields = [("host", OURS), ("cookie", cookie.as_str())];
        let (status, _, page) = self.ask_from(from, (Method::POST, path), &fields, &form).await;
        (status, page)
    }

    fn log_in(&self, mac: [u8; 6]) {
        let new = New {
            host: Key { interface: "guests".to_owned(), mac },
            id: 1,
            user: "ann".to_owned(),
            method: LoginMethod::Local,
            limits: Limits::default(),
            hosts_most: None,
            address: String::new(),
            class: Vec::new(),
            interim_s: None,
        };
        self.portal.datastore.connection().logins().begin(new).unwrap();
    }
}

#[tokio::test]
async fn a_host_is_the_mac_address_of_its_frames() {
    let testbed = testbed();
    testbed.log_in(ANN);
    for address in ["10.0.0.9", "10.0.0.77", "2001:db8::9"] {
        let page = testbed.page(client(address, ANN)).await;
        assert!(page.contains("You are logged in"), "{address}: {page}");
        // Another host with the same address reads nothing of this login, and cannot end it.
        let page = testbed.page(client(address, BOB)).await;
        assert!(page.contains("name=\"password\""), "{address}: {page}");
        testbed.submit(client(address, BOB), "/log-out", "").await;
    }
    assert!(testbed.page(client("10.0.0.9", ANN)).await.contains("You are logged in"));
    // Neither a host of another network, nor one whose frame nobody has kept.
    for from in [client("10.0.1.9", ANN), Peer::at("10.0.0.9".parse().unwrap())] {
        let page = testbed.page(from.clone()).await;
        assert!(page.contains("not in a network"), "{page}");
        let (status, _) = testbed.submit(from, "/log-in", "user=ann&password=x").await;
        assert_eq!(status, StatusCode::FORBIDDEN);
    }
    testbed.submit(client("10.0.0.9", ANN), "/log-out", "").await;
    assert!(testbed.page(client("10.0.0.9", ANN)).await.contains("name=\"password\""));
}

#[tokio::test]
async fn what_one_host_uses_up_is_not_of_others() {
    let testbed = testbed();
    let fields = "user=nobody&password=x";
    let mut last = StatusCode::OK;
    for _ in 0..12 {
        last = testbed.submit(client("2001:db8::9", BOB), "/log-in", fields).await.0;
    }
    let waits = [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE];
    assert!(waits.contains(&last), "it has to wait: {last}");
    // The same /64, another host.
    let fields = "user=ann&password=x";
    let (status, page) = testbed.submit(client("2001:db8::a", ANN), "/log-in", fields).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED, "{page}");
}

/// A host with many MAC addresses leaves attempts to the hosts of other interfaces.
#[tokio::test]
async fn what_one_interface_uses_up_is_not_of_others() {
    let testbed = testbed();
    let fields = "user=ann&password=x";
    // On a slow machine, tokens come back meanwhile.
    for last in 10.. {
        let now = std::time::Instant::now();
        let take = || testbed.portal.of_interfaces.take_attempt("guests".to_owned(), 25, now);
        while take() {}
        let host = client("10.0.0.9", [2, 0, 0, 0, 0, last]);
        let (status, _) = testbed.submit(host, "/log-in", fields).await;
        if status == StatusCode::SERVICE_UNAVAILABLE {
            break;
        }
    }
    let (status, page) = testbed.submit(client("10.0.2.9", ANN), "/log-in", fields).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED, "{page}");
}

#[tokio::test]
async fn what_a_browser_names_leads_nowhere() {
    let testbed = testbed();
    let (status, headers, page) = testbed.ask(Method::GET, "/", &[("host", OURS)]).await;
    assert_eq!(status, StatusCode::OK);
    assert!(page.contains("<h1>Log in</h1>") && !page.contains("<script"), "{page}");
    assert!(headers["content-security-policy"].to_str().unwrap().starts_with("default-src 'none'"));
    assert_eq!(headers["cache-control"], "no-store");
    assert_eq!(headers["x-frame-options"], "DENY");
    assert!(headers["set-cookie"].to_str().unwrap().contains("SameSite=Strict"));
    for host in ["evil.example", "10.0.0.1", "portal.example.evil:443"] {
        let (status, _, page) = testbed.ask(Method::GET, "/", &[("host", host)]).await;
        assert_eq!(status, StatusCode::MISDIRECTED_REQUEST, "{host}");
        assert!(!page.contains(host), "{page}");
    }
    for path in ["/other", "/log-in", "//evil.example/", "/?next=https://evil.example/"] {
        let (status, headers, page) =
            testbed.ask(Method::GET, path, &[("host", "portal.example:8444")]).await;
        assert!(!page.contains("evil"), "{page}");
        if status != StatusCode::OK {
            assert_eq!(status, StatusCode::SEE_OTHER, "{path}");
            assert_eq!(headers["location"], "/", "{path}");
        }
    }
}

#[tokio::test]
async fn forms_of_others_are_refused() {
    let testbed = testbed();
    let (status, ..) = testbed.ask(Method::POST, "/log-in", &[("host", OURS)]).await;
    assert_eq!(status, StatusCode::FORBIDDEN, "no mark");
    for (name, value) in [("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")] {
        for path in ["/log-in", "/log-out"] {
            let fields = [("host", OURS), (name, value)];
            let (status, _, page) = testbed.ask(Method::POST, path, &fields).await;
            assert_eq!(status, StatusCode::FORBIDDEN, "{page}");
            assert!(page.starts_with("cross-site request refused"), "{page}");
        }
    }
}

#[tokio::test]
async fn hosts_learn_that_they_have_to_log_in() {
    let testbed = testbed();
    let (status, headers, text) =
        testbed.ask(Method::GET, "/captive-portal/api", &[("host", "portal.example:8444")]).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(headers["content-type"], "application/captive+json");
    let answer: Value = serde_json::from_str(&text).unwrap();
    let from = client("10.0.1.9", ANN);
    let asked = (Method::GET, "/captive-portal/api");
    let (_, _, text) = testbed.ask_from(from, asked, &[("host", OURS)], "").await;
    let elsewhere: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(elsewhere["captive"], json!(false), "{elsewhere}");
    assert_eq!(
        answer,
        json!({ "captive": true, "user-portal-url": "https://portal.example:8444/" })
    );
}

#[test]
fn forged_hosts_are_refused() {
    let settings = Settings {
        address: vec!["10.0.0.1".parse().unwrap(), "2001:db8::1".parse().unwrap()],
        port: 8444,
        url: Some("https://portal.example/".to_owned()),
        ..Settings::default()
    };
    let is_ours = |host: &str| {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        is_ours(&settings, &Uri::from_static("/"), &headers)
    };
    for ours in ["portal.example", "PORTAL.example:443", "10.0.0.1:8444", "[2001:db8::1]:8444"] {
        assert!(is_ours(ours), "{ours}");
    }
    for other in ["evil.example", "10.0.0.1", "portal.example.evil", "10.0.0.2:8444", ""] {
        assert!(!is_ours(other), "{other}");
    }
}
