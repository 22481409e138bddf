//! The login endpoints, without a connection.

use axum::body::Body;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::*;
use crate::auth::{password, sessions};
use crate::server::app_state::WORDS_BYTES;

struct Testbed {
    _folder: tempfile::TempDir,
    router: Router,
    app: Arc<AppState>,
}

impl Testbed {
    fn new(users: &[(&str, bool)], requests_per_second: u32) -> Testbed {
        let folder = tempfile::tempdir().unwrap();
        let hash = password::hash("correct horse").unwrap();
        let user = |(name, admin): &(&str, bool)| json!({ "name": name, "password-hash": hash, "admin": admin });
        let users: Vec<Value> = users.iter().map(user).collect();
        let limits = json!({ "requests-per-second": requests_per_second });
        let text = json!({ "stoa-management:management": { "user": users, "limits": limits } });
        let app = AppState::new(&crate::tests::datastore(folder.path(), &text.to_string()));
        Testbed { router: router(&app), _folder: folder, app }
    }

    async fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Response {
        let mut request = http::Request::builder().method(method).uri(path);
        request = request.header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let address = std::net::Ipv4Addr::LOCALHOST.into();
        let request = request.extension(Peer::at(address));
        let request = request.body(Body::from(body.to_owned())).unwrap();
        self.router.clone().oneshot(request).await.unwrap()
    }
}

async fn json_of(response: Response) -> Value {
    let bytes = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

#[tokio::test]
async fn a_session_from_log_in_to_log_out() {
    let testbed = Testbed::new(&[("ann", false)], 1_000);
    let wrong = r#"{"user": "ann", "password": "wrong horse"}"#;
    let refused = testbed.ask("POST", "/login", &[], wrong).await;
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
    let right = r#"{"user": "ann", "password": "correct horse"}"#;
    let response = testbed.ask("POST", "/login", &[], right).await;
    assert_eq!(response.status(), StatusCode::OK);
    let cookie = response.headers()[header::SET_COOKIE].to_str().unwrap().to_owned();
    for word in ["HttpOnly", "Secure", "SameSite=Strict"] {
        assert!(cookie.contains(word), "{cookie}");
    }
    let cookie = cookie.split(';').next().unwrap();
    let mine = [("cookie", cookie), (sessions::HEADER, "1")];
    let known = json_of(testbed.ask("GET", "/whoami", &mine, "").await).await;
    assert_eq!(known["user"], "ann");
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert_eq!(known["router"], name.trim(), "the page shows the name of the router");
    let forged = testbed.ask("POST", "/logout", &[("cookie", cookie)], "").await;
    assert_eq!(forged.status(), StatusCode::FORBIDDEN);
    assert_eq!(testbed.ask("POST", "/logout", &mine, "").await.status(), StatusCode::OK);
    let after = testbed.ask("GET", "/whoami", &mine, "").await;
    assert_eq!(after.status(), StatusCode::UNAUTHORIZED);
    let results = |name: &str| -> Vec<String> {
        let log = std::fs::read_to_string(testbed.app.datastore.state().join(name)).unwrap();
        let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.map(|line| line["result"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(results("audit.log"), ["done"]);
    assert_eq!(results("audit-logins.log"), ["wrong credentials", "cross-site request"]);
}

#[tokio::test]
async fn tokens_are_created_used_and_removed() {
    let testbed = Testbed::new(&[("ann", false), ("root", true)], 1_000);
    let login = |user: &str| {
        let pair = base64::Engine::encode(
            &base64::engine::general_purpose::STANDARD,
            format!("{user}:correct horse"),
        );
        format!("Basic {pair}")
    };
    let (ann, root) = (login("ann"), login("root"));
    let basic = |text: &str| [("authorization", text.to_owned())];
    let ask = async |proof: &str, method: &str, path: &str, body: &str| {
        let proof = basic(proof);
        let headers: Vec<(&str, &str)> =
            proof.iter().map(|(name, it)| (*name, it.as_str())).collect();
        testbed.ask(method, path, &headers, body).await
    };
    let made = ask(&ann, "POST", "/tokens", r#"{"name": "script"}"#).await;
    assert_eq!(made.status(), StatusCode::CREATED);
    let made = json_of(made).await;
    let bearer = format!("Bearer {}", made["token"].as_str().unwrap());
    assert_eq!(json_of(ask(&bearer, "GET", "/whoami", "").await).await["proof"], "token");
    // A token cannot create one that outlives it.
    let more =
        json_of(ask(&bearer, "POST", "/tokens", r#"{"name": "y", "life-s": 9000000}"#).await);
    assert!(more.await["expires"].as_str() <= made["expires"].as_str());
    let other = r#"{"name": "script", "user": "root"}"#;
    assert_eq!(ask(&ann, "POST", "/tokens", other).await.status(), StatusCode::FORBIDDEN);
    let list = json_of(ask(&root, "GET", "/tokens", "").await).await;
    assert_eq!(list["tokens"][0]["user"], "ann");
    assert!(list["tokens"][0].get("token").is_none(), "{list}");
    for body in ["{", "[]", r#"{"name": ""}"#, r#"{"name": "x", "life-s": 0}"#, r#"{"nam": "x"}"#] {
        let odd = ask(&ann, "POST", "/tokens", body).await;
        assert_eq!(odd.status(), StatusCode::BAD_REQUEST, "{body}");
    }
    for path in ["/tokens/x", "/tokens/99"] {
        assert_eq!(ask(&ann, "DELETE", path, "").await.status(), StatusCode::NOT_FOUND);
    }
    assert_eq!(ask(&root, "DELETE", "/tokens/1", "").await.status(), StatusCode::OK);
    assert_eq!(ask(&bearer, "GET", "/whoami", "").await.status(), StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn limits_apply_before_authentication() {
    let testbed = Testbed::new(&[("ann", false)], 1_000);
    let large = format!(r#"{{"user": "{}", "password": ""}}"#, "x".repeat(WORDS_BYTES));
    let refused = testbed.ask("POST", "/login", &[], &large).await;
    assert_eq!(refused.status(), StatusCode::PAYLOAD_TOO_LARGE);
    let testbed = Testbed::new(&[("ann", false)], 5);
    let mut statuses = Vec::new();
    for _ in 0..10 {
        statuses.push(testbed.ask("GET", "/nowhere", &[], "").await.status());
    }
    assert!(statuses.contains(&StatusCode::TOO_MANY_REQUESTS), "{statuses:?}");
    assert_eq!(statuses[0], StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn cross_site_requests_and_forms_are_refused() {
    let testbed = Testbed::new(&[("ann", false)], 1_000);
    let right = r#"{"user": "ann", "password": "correct horse"}"#;
    let foreign = [("sec-fetch-site", "cross-site")];
    for path in ["/login", "/restconf/operations/stoa-datastore:commit"] {
        assert_eq!(
            testbed.ask("POST", path, &foreign, right).await.status(),
            StatusCode::FORBIDDEN
        );
    }
    let request = http::Request::builder().method("POST").uri("/login");
    let request = request.header("content-type", "text/plain").body(Body::from(right)).unwrap();
    let refused = testbed.router.clone().oneshot(request).await.unwrap();
    assert_eq!(refused.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
}

#[test]
fn metrics_need_the_right_to_all_that_they_tell() {
    let may = |module, path| crate::tests::with_denied(module, path, may_read_metrics);
    assert!(may("stoa-logging", None) && may("*", Some("/stoa-management:management")));
    for path in [
        "/ietf-interfaces:interfaces/interface[name='lan']",
        "/ietf-interfaces:interfaces/interface/oper-status",
        "/ietf-routing:routing/ribs/rib/routes/route",
        "/stoa-forwarder:forwarder/drops",
    ] {
        assert!(!may("*", Some(path)), "{path}");
    }
    let all = MODULES_IN_METRICS.into_iter().chain(IN_METRICS.map(|(module, _)| module));
    for module in all {
        assert!(!may(module, None), "{module}");
        let known = stoa_yang::schema().context().get_module_implemented(module);
        assert!(known.is_some(), "{module}");
    }
    assert!(!crate::tests::with_rules("deny", json!([]), may_read_metrics));
}

/// A router that has users but no administrator is not stuck: the answer names the command that creates one.
#[tokio::test]
async fn setup_after_the_first_user_names_the_command_on_the_router() {
    for is_admin in [false, true] {
        let testbed = Testbed::new(&[("ann", is_admin)], 1_000);
        testbed.app.follow(&testbed.app.management());
        let body = r#"{"token": "x", "user": "root", "password": "correct horse"}"#;
        let refused = testbed.ask("POST", "/setup", &[], body).await;
        assert_eq!(refused.status(), StatusCode::CONFLICT);
        let text = json_of(refused).await.to_string();
        assert!(text.contains("log in") && text.contains("`stoa user setup`"), "{text}");
    }
}
