//! What a user without rights learns about secrets from the answers to a Set: nothing.

use super::*;

#[tokio::test]
async fn every_guess_at_a_secret_has_the_same_answer() {
    let memif = |name: &str, secret: Option<&str>| {
        let socket = format!("/run/stoa/{name}.sock");
        let mut memif = json!({ "socket": socket, "role": "master" });
        if let Some(secret) = secret {
            memif["secret"] = secret.into();
        }
        json!({ "name": name, "type": "iana-if-type:ethernetCsmacd",
            "stoa-interfaces:port": { "memif": memif } })
    };
    let list = [memif("if0", Some("right")), memif("if1", None)];
    let text = json!({ "ietf-interfaces:interfaces": { "interface": list },
        "ietf-netconf-acm:nacm": { "write-default": "permit" } });
    let mut testbed = Testbed::new(text, PATIENCE);
    let mut answers = Vec::new();
    for name in ["if0", "if1", "if2"] {
        let at = path(&format!("interfaces/interface[name={name}]/port/memif/secret"));
        for value in ["right", "wrong"] {
            let value = Typed::JsonIetfVal(json!(value).to_string().into_bytes());
            let val = Some(TypedValue { value: Some(value) });
            let update = vec![Update { path: Some(at.clone()), val, duplicates: 0 }];
            let both = [
                SetRequest { update: update.clone(), ..SetRequest::default() },
                SetRequest { replace: update, ..SetRequest::default() },
                SetRequest { delete: vec![at.clone()], ..SetRequest::default() },
            ];
            for request in both {
                let refused = testbed.client.set(by("ann", request)).await.unwrap_err();
                answers.push((refused.code(), refused.message().replace(name, "NAME")));
            }
        }
    }
    assert_eq!(answers[0].0, Code::PermissionDenied);
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
}
