//! Who may configure interfaces, and nothing else, must not become root: no port writes a file outside of its folder.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use serde_json::{Value, json};

use crate::https::{Answer, Router, hash};
use crate::testbed::{ANN, INTERFACES, JSON};

/// The authority of clients, which the attacker would replace by his own.
const AUTHORITY: &str = "the authority of clients";

/// A router on which ann may do everything with interfaces.
fn router() -> Router {
    let hash = hash();
    let rule = json!({ "name": "interfaces", "module-name": "*", "access-operations": "*",
        "action": "permit", "path": "/ietf-interfaces:interfaces" });
    let configuration = json!({
        "ietf-interfaces:interfaces": {},
        "ietf-netconf-acm:nacm": {
            "groups": { "group": [{ "name": "ops", "user-name": ["ann"] }] },
            "rule-list": [{ "name": "ops", "group": ["ops"], "rule": [rule] }],
        },
    });
    let users = json!([{ "name": "root", "password-hash": hash, "admin": true },
        { "name": "ann", "password-hash": hash }]);
    let router = Router::start(configuration, users);
    std::fs::write(router.path("client-ca.pem"), AUTHORITY).unwrap();
    router
}

/// What ann is answered who configures this port.
fn configure(router: &Router, name: &str, port: Value) -> Answer {
    let interface = json!({ "name": name, "type": "iana-if-type:ethernetCsmacd",
        "stoa-interfaces:port": port });
    let body = json!({ "ietf-interfaces:interface": [interface] }).to_string();
    router.ask(ANN, "POST", INTERFACES, &[JSON], &body)
}

#[test]
fn write_access_to_interfaces_is_not_write_access_to_files() {
    let router = router();
    let pcap = router.path("stoa.state/pcap");
    router.wait("the folder of capture files is there", || pcap.exists());
    let authority = router.path("client-ca.pem");
    let outside = authority.to_str().unwrap();
    let audit = router.path("stoa.state/audit-refused.log");
    symlink(&authority, pcap.join("symbolic.pcap")).unwrap();
    std::fs::hard_link(&authority, pcap.join("hard.pcap")).unwrap();
    let facts = std::fs::metadata(&authority).unwrap();
    let socket = router.path("stoa.state/new.sock");
    let attacks = [
        json!({ "pcap": { "output": outside } }),
        json!({ "pcap": { "output": audit.to_str().unwrap() } }),
        json!({ "pcap": { "output": format!("{}/../../client-ca.pem", pcap.display()) } }),
        json!({ "pcap": { "output": "../../client-ca.pem" } }),
        json!({ "pcap": { "output": "symbolic.pcap" } }),
        json!({ "pcap": { "output": "hard.pcap" } }),
        json!({ "pcap": { "input": outside } }),
        json!({ "pcap": { "input": "symbolic.pcap" } }),
        json!({ "memif": { "socket": socket.to_str().unwrap(), "role": "master" } }),
        json!({ "memif": { "socket": outside, "role": "master" } }),
        json!({ "dpdk": { "device": format!("net_pcap0,tx_pcap={outside}") } }),
        json!({ "dpdk": { "device": "net_failsafe0,exec(touch /tmp/x)" } }),
        json!({ "tap": { "device": "x", "netns": ".." } }),
        json!({ "tap": { "device": "tap%d" } }),
    ];
    for attack in attacks {
        let words = attack.to_string();
        let answer = configure(&router, "evil", attack);
        assert!((400..500).contains(&answer.status), "{words}: {answer:?}");
        let now = std::fs::metadata(&authority).unwrap();
        assert_eq!((now.ino(), now.mtime()), (facts.ino(), facts.mtime()), "{words}");
        assert_eq!(std::fs::read_to_string(&authority).unwrap(), AUTHORITY, "{words}");
        assert!(!socket.exists(), "{words}");
    }
    let log = std::fs::read_to_string(audit).unwrap();
    assert!(log.lines().count() > 5, "the audit log is kept: {log}");
}

#[test]
fn capture_files_of_ports_are_new_files_in_their_folder() {
    let router = router();
    let made = configure(&router, "out", json!({ "pcap": { "output": "out.pcap" } }));
    assert_eq!(made.status, 201, "{made:?}");
    let facts = std::fs::metadata(router.path("stoa.state/pcap/out.pcap")).unwrap();
    assert_eq!(facts.permissions().mode() & 0o777 & !0o640, 0, "{facts:?}");
    for name in ["none", "none-either"] {
        let made = configure(&router, name, json!({ "pcap": { "output": "/dev/null" } }));
        assert_eq!(made.status, 201, "several ports may discard: {made:?}");
    }
    let outside = configure(&router, "in", json!({ "pcap": { "input": "/etc/passwd" } }));
    assert!(outside.body.contains("--pcap-folder"), "the error names the fix: {outside:?}");
}
