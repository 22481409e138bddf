//! Application level gateways.

use super::*;

#[test]
fn gateways_are_those_that_the_policy_names() {
    let of = |algs: Value| instance(&[policy(1, json!({ "algs": algs }))], &[]);
    let ftp = json!({ "name": "ftp", "transport-protocol": 6, "dst-transport-port": { "start-port-number": 2121 } });
    let off = json!({ "name": "tftp", "status": false });
    let found = nat(&json!([of(json!([ftp, off]))]));
    let algs = [v1::NatAlg { name: "ftp".to_owned(), port: 2121 }];
    assert_eq!(found.policies[0].algs, algs);
    let found = nat(&json!([of(json!([{ "name": "tftp" }]))]));
    assert_eq!(found.policies[0].algs, [v1::NatAlg { name: "tftp".to_owned(), port: 69 }]);
    let found = nat(&json!([of(json!([{ "name": "pptp", "transport-protocol": 6 }]))]));
    assert_eq!(found.policies[0].algs, [v1::NatAlg { name: "pptp".to_owned(), port: 1723 }]);
    for (alg, leaf, cause) in [
        (json!({ "name": "h323" }), "", "no application level gateway"),
        (json!({ "name": "ftp", "transport-protocol": 17 }), "/transport-protocol", "protocol 17"),
        (
            json!({ "name": "ftp", "dst-transport-port": { "start-port-number": 1, "end-port-number": 9 } }),
            "/dst-transport-port/end-port-number",
            "one port",
        ),
        (
            json!({ "name": "ftp", "dst-transport-port": { "start-port-number": 0 } }),
            "/dst-transport-port/start-port-number",
            "port 0",
        ),
    ] {
        let found = error(&of(json!([alg])));
        assert_eq!(
            found.0,
            format!("policy[id='1']/algs[name={}]{leaf}", alg["name"]).replace('"', "'")
        );
        assert!(found.1.contains(cause), "{found:?}");
    }
}
