//! Two routers share their virtual addresses by VRRP, and the logins of hosts.

use std::time::Duration;

use serde_json::{Value, json};
use stoa_lab::{Result, Tool, wait_until};

use crate::flow_sync::{Lab, SECRET, configuration};
use crate::login::{ann, log_in};

const PATIENCE: Duration = Duration::from_secs(40);
const SITE: &str = "198.18.2.20";
const MASTERS_PORTAL: &str = "https://198.18.1.1:8444/";

/// Hosts behind host-a have to log in at the portal of either router.
fn guests(number: usize, priority: u8) -> Result<Value> {
    let mut whole = configuration(number, priority, SECRET)?;
    let interfaces = whole["ietf-interfaces:interfaces"]["interface"].as_array_mut();
    let guests = interfaces.into_iter().flatten().find(|it| it["name"] == "host-a");
    let guests = guests.expect("it is configured");
    guests["stoa-host-interface:host-interface"] = json!({ "device": "guests" });
    guests["stoa-login:login"] = json!({});
    whole["stoa-login:login"] = json!({
        "portal": { "address": [format!("198.18.1.{}", 1 + 2 * number)] },
        "user": [ann()?],
    });
    Ok(whole)
}

/// Whether a ping of the client reaches the server.
fn reaches(lab: &Lab) -> Result<bool> {
    Ok(lab.client.command(Tool::PING)?.args(["-c", "1", "-W", "1", SITE]).run()?.success())
}

/// Waits until the logins of a router are as desired.
fn wait_logins(lab: &Lab, number: usize, what: &str, is: impl Fn(&[Value]) -> bool) -> Result<()> {
    wait_until(what, PATIENCE, || {
        let shown = lab.router(number).show("logins").map_err(|error| error.to_string())?;
        let hosts = shown["hosts"].as_array().cloned().unwrap_or_default();
        if is(&hosts) { Ok(()) } else { Err(shown.to_string()) }
    })
}

fn is_standby(hosts: &[Value]) -> bool {
    hosts.len() == 1 && hosts[0]["user"] == "ann" && hosts[0]["standby"] == true
}

fn is_active(hosts: &[Value]) -> bool {
    hosts.len() == 1 && hosts[0]["user"] == "ann" && hosts[0]["standby"] == false
}

#[test]
fn a_host_stays_logged_in_at_the_partner() -> Result<()> {
    let mut lab = Lab::new()?;
    lab.start(0, &guests(0, 150)?)?;
    lab.wait_for(0, "master")?;
    lab.start(1, &guests(1, 100)?)?;
    lab.wait_for(1, "backup")?;
    for number in [0, 1] {
        lab.wait_sync(number, "logins are in sync", |it| {
            let it = &it["logins"];
            it["status"] == "connected" && it["bulk_sent"] == true && it["bulk_received"] == true
        })?;
    }
    assert!(!reaches(&lab)?, "it has not logged in");
    wait_until("it logs in", PATIENCE, || {
        let status = log_in(&lab.client, MASTERS_PORTAL, &lab.scratch, ("ann", "correct horse"));
        match status {
            Ok(303) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })?;
    wait_logins(&lab, 0, "the first router has it", is_active)?;
    wait_logins(&lab, 1, "the partner has it", is_standby)?;
    assert!(reaches(&lab)?, "it has logged in");

    // The first router dies: the other one lets the host pass at once, and takes over its login.
    let _ = lab.kill(0)?;
    lab.wait_for(1, "master")?;
    wait_until("its packets pass at the other router", PATIENCE, || match reaches(&lab) {
        Ok(true) => Ok(()),
        other => Err(format!("{other:?}")),
    })?;
    wait_logins(&lab, 1, "the other router takes over", is_active)?;

    // It comes back without its state, and gets the login. Who logs the host out there logs it out everywhere.
    lab.start(0, &guests(0, 50)?)?;
    wait_logins(&lab, 0, "it gets the login back", is_standby)?;
    let cleared = lab.router(0).call(&["clear", "logins", "--user", "ann"])?.ok()?;
    assert!(cleared.stdout.contains('1'), "{}", cleared.stdout);
    for number in [0, 1] {
        wait_logins(&lab, number, "nobody has logged in", <[Value]>::is_empty)?;
    }
    assert!(!reaches(&lab)?, "it was logged out");
    Ok(())
}
