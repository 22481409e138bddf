//! A link over memif with a BFD session, whose other end is a [`Peer`]: what floods and large changes must not end.

use std::time::Duration;

use serde_json::{Value, json};
use stoa_lab::{Configuration, Result, Router};

use crate::punt_flood::peer::{NEIGHBOR, Peer};

/// A number of the environment, which `make soak` sets.
pub(crate) fn given(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// The interface `link` over the memif at `socket`, with a session at this interval, and another interface, `away`.
pub(crate) fn configuration(socket: &str, interval: Duration) -> Configuration {
    let address = |text: &str| text.parse().expect("an address");
    let mut made = Configuration::new(&[])
        .port("link", json!({ "memif": { "socket": socket, "role": "master" } }))
        .port("away", json!({ "null": {} }))
        .addresses("link", &[address("198.18.1.1/24")])
        .addresses("away", &[address("198.18.2.1/24")]);
    let us = interval.as_micros() as u64;
    let link = made.interface("link");
    link["stoa-interfaces:mac-address"] = json!("02:fe:00:00:00:01");
    link["stoa-bfd:bfd"] = json!({ "session": [{
        "dest-addr": NEIGHBOR, "desired-min-tx-interval": us, "required-min-rx-interval": us,
    }] });
    link["ietf-ip:ipv4"]["neighbor"] =
        json!([{ "ip": NEIGHBOR, "link-layer-address": "02:00:00:00:00:02" }]);
    made
}

/// The state of the link.
pub(crate) fn state(router: &Router) -> Result<Value> {
    let path = "/ietf-interfaces:interfaces/interface[name='link']";
    let output = router.call(&["show", "state", path])?.ok()?;
    let state: Value = serde_json::from_str(&output.stdout).expect("JSON");
    Ok(state["ietf-interfaces:interface"][0].clone())
}

/// The state of the session.
pub(crate) fn session(router: &Router) -> Result<Value> {
    Ok(session_of(&state(router)?))
}

/// The session in the state of the link.
pub(crate) fn session_of(link: &Value) -> Value {
    link["stoa-bfd:bfd"]["session"][0]["session-running"].clone()
}

/// Waits until the session is up. BFD begins with one packet a second.
pub(crate) fn wait_until_up(router: &Router, peer: &mut Peer) -> Result<()> {
    for _ in 0..60 {
        if peer.is_up() {
            return Ok(());
        }
        peer.beside(|| std::thread::sleep(Duration::from_millis(500)));
    }
    assert!(peer.is_up(), "{:?}; {}", session(router)?, router.log());
    Ok(())
}

/// The session is up, and was never down.
pub(crate) fn assert_alive(session: &Value, peer: &Peer, what: &str) {
    assert_eq!((session["local-state"].as_str(), peer.downs), (Some("up"), 0), "{what}: {session}");
    assert_eq!(session["session-down-count"], "0", "{what}: {session}");
}
