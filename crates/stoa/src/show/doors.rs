//! The doors of routing daemons: whether they are open, who has come, and how many routes they have.

use std::io::Write;

use serde_json::{Value, json};
use stoa_api::v1::{DoorState, ShowDoorsRequest};

use super::{Cell, Table, count, duration, number, table, unix_s, write};
use crate::failure::Failure;
use crate::operator::Client;

/// Asks and shows.
pub async fn show(client: &mut Client, as_json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let doors = client.show_doors(ShowDoorsRequest {}).await?.into_inner().doors;
    if as_json {
        let list: Vec<Value> = doors.iter().map(json).collect();
        writeln!(out, "{}", json!({ "doors": list }))?;
    } else if doors.is_empty() {
        writeln!(out, "No doors: they are configured below control-plane-protocols.")?;
    } else {
        write(&made(&doors, unix_s()), out)?;
        reasons(&doors, out)?;
    }
    Ok(())
}

fn made(doors: &[DoorState], now_unix_s: u64) -> Table {
    let columns = [
        "vrf",
        "door",
        "type",
        "netns",
        "session",
        "for",
        ">IPv4",
        ">IPv6",
        ">stale",
        ">waiting",
        ">left out",
    ];
    let skip = usize::from(doors.iter().all(|door| door.vrf.is_empty()));
    let mut table = table(&columns[skip..]);
    for door in doors {
        let age = match door.since_unix_s {
            0 => "-".to_owned(),
            since => duration(now_unix_s.saturating_sub(since)),
        };
        let row = [
            Cell::new(if door.vrf.is_empty() { "default" } else { &door.vrf }),
            Cell::new(&door.name),
            Cell::new(&door.r#type),
            Cell::new(if door.netns.is_empty() { "-" } else { &door.netns }),
            Cell::new(session(door)),
            Cell::new(age),
            count(door.ip4_routes),
            count(door.ip6_routes),
            count(door.stale),
            count(door.waiting),
            count(door.left_out),
        ];
        table.add_row(row.into_iter().skip(skip).collect::<Vec<_>>());
    }
    table
}

/// How the session does: there is none to be had with a door that is not open.
pub(super) fn session(door: &DoorState) -> &str {
    if door.is_open { &door.session } else { "not open" }
}

/// Why doors are not open or have no session, what was left out last, and for which gateways routes wait.
pub(super) fn reasons(doors: &[DoorState], out: &mut dyn Write) -> Result<(), Failure> {
    for door in doors {
        if !door.why.is_empty() {
            writeln!(out, "{}: {}", door.name, door.why)?;
        }
        for gateway in &door.unresolved {
            let routes = number(gateway.routes.into());
            writeln!(out, "{}: {routes} routes wait: {}", door.name, gateway.why)?;
        }
    }
    Ok(())
}

/// A door for programs.
pub(super) fn json(door: &DoorState) -> Value {
    let unresolved = door.unresolved.iter();
    let unresolved = unresolved.map(|it| json!({ "why": it.why, "routes": it.routes }));
    json!({
        "name": door.name,
        "type": door.r#type,
        "vrf": door.vrf,
        "netns": door.netns,
        "open": door.is_open,
        "session": door.session,
        "since_unix_s": (door.since_unix_s > 0).then_some(door.since_unix_s),
        "sessions": door.sessions,
        "why": (!door.why.is_empty()).then_some(&door.why),
        "ip4_routes": door.ip4_routes,
        "ip6_routes": door.ip6_routes,
        "stale": door.stale,
        "waiting": door.waiting,
        "left_out": door.left_out,
        "malformed": door.malformed,
        "unresolved": unresolved.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_door_that_is_not_open_says_why() {
        let open = DoorState {
            name: "frr".into(),
            r#type: "fpm".into(),
            session: "complete".into(),
            is_open: true,
            since_unix_s: 1_000,
            ip4_routes: 1_000_000,
            ..DoorState::default()
        };
        let why = "cannot listen at 127.0.0.1:2620: Address already in use (os error 98)";
        let shut = DoorState {
            name: "second".into(),
            session: "awaited".into(),
            why: why.into(),
            ..DoorState::default()
        };
        let doors = [open, shut];
        let text = made(&doors, 1_061).to_string();
        for words in ["complete", "1 min 1 s", "1,000,000", "not open"] {
            assert!(text.contains(words), "{words} in\n{text}");
        }
        assert!(!text.contains("awaited") && !text.contains("VRF"), "{text}");
        let mut below = Vec::new();
        reasons(&doors, &mut below).unwrap_or_else(|_| panic!("written"));
        assert_eq!(String::from_utf8(below).unwrap(), format!("second: {why}\n"));
        let told = json(&doors[1]);
        assert_eq!((&told["open"], &told["why"]), (&json!(false), &json!(why)));
    }
}
