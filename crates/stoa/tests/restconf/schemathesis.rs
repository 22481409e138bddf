//! Schemathesis asks all that the OpenAPI description allows, and much that it does not.

use std::process::Command;

use serde_json::Value;

use crate::testbed::{JSON, ROOT, router};

/// The seed of what is asked: the same every time. `STOA_SEED` says another one.
const SEED: &str = "8040";

#[test]
fn schemathesis_finds_nothing() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let router = router();
    let described = router.ask(ROOT, "GET", "/openapi.json", &[], "");
    let file = router.path("openapi.json");
    std::fs::write(&file, &described.body).unwrap();
    let json = [("Content-Type", "application/json")];
    let made = router.ask(ROOT, "POST", "/tokens", &json, r#"{"name": "schemathesis"}"#).json();
    let token = made["token"].as_str().unwrap().to_owned();
    // It leaves its connections open, and has all of them from one address.
    let limits = "/restconf/data/stoa-management:management/limits";
    let many = r#"{"stoa-management:limits": {"connections": 10000}}"#;
    assert_eq!(router.ask(ROOT, "PATCH", limits, &[JSON], many).status, 204);
    let output = Command::new(format!("{root}/scripts/schemathesis"))
        .arg(&file)
        .arg(format!("https://localhost:{}", router.port))
        .arg(router.path("stoa.state/https/certificate.pem"))
        .env("STOA_TOKEN", token)
        .env("STOA_SEED", std::env::var("STOA_SEED").unwrap_or_else(|_| SEED.to_owned()))
        .current_dir(router.folder.path())
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let odd = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}\n{odd}\n{}", router.log());
    // It has really asked, and the router stands and is the one that was asked.
    let known = router.ask(ROOT, "GET", "/whoami", &[], "").json();
    assert_eq!(known["user"], Value::from("root"));
    assert!(!router.log().contains("panicked"), "{}", router.log());
    println!("{printed}");
}
