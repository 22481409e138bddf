//! Virtual routers (VRRP): their state, since when, and the master.

use std::io::Write;

use comfy_table::{Cell, Table};
use serde_json::{Value, json};
use stoa_api::counters::VIRTUAL_ROUTERS;
use stoa_api::text::ip_text;
use stoa_api::v1::{InterfaceState, ListInterfacesRequest, VirtualRouterState};

use super::{columns, counts, duration, table, unix_s, with_counters, write};
use crate::failure::Failure;
use crate::operator::Client;

/// Requests the state and prints it.
pub async fn show(client: &mut Client, as_json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let interfaces =
        client.show_interfaces(ListInterfacesRequest::default()).await?.into_inner().interfaces;
    if as_json {
        let list: Vec<Value> = routers(&interfaces).map(json).collect();
        writeln!(out, "{}", json!({ "virtual_routers": list }))?;
    } else if routers(&interfaces).next().is_none() {
        writeln!(
            out,
            "No virtual routers. They are configured below ipv4 vrrp and ipv6 vrrp of an interface."
        )?;
    } else {
        write(&to_table(&interfaces, unix_s()), out)?;
    }
    Ok(())
}

fn routers(
    interfaces: &[InterfaceState],
) -> impl Iterator<Item = (&InterfaceState, &VirtualRouterState)> {
    interfaces
        .iter()
        .flat_map(|interface| interface.virtual_routers.iter().map(move |it| (interface, it)))
}

fn to_table(interfaces: &[InterfaceState], now_unix_s: u64) -> Table {
    let first = ["vrf", "interface", ">vrid", "address", "state", "for", "priority", "master"];
    let columns = columns(&first, VIRTUAL_ROUTERS, &[]);
    let skip = usize::from(routers(interfaces).all(|(interface, _)| interface.vrf.is_empty()));
    let mut table = table(&columns[skip..]);
    for (interface, router) in routers(interfaces) {
        let addresses: Vec<String> = router.addresses.iter().map(|it| ip_text(it)).collect();
        let row = [
            Cell::new(if interface.vrf.is_empty() { "default" } else { &interface.vrf }),
            Cell::new(&interface.name),
            Cell::new(router.vrid),
            Cell::new(addresses.join("\n")),
            Cell::new(&router.state),
            Cell::new(duration(now_unix_s.saturating_sub(router.changed_unix_s))),
            Cell::new(priority(router)),
            Cell::new(master(router)),
        ];
        let row = row.into_iter().chain(counts(VIRTUAL_ROUTERS, router));
        table.add_row(row.skip(skip).collect::<Vec<_>>());
    }
    table
}

/// The effective priority, with the configured one if a tracked object is down.
fn priority(router: &VirtualRouterState) -> String {
    match router.configured_priority {
        _ if router.owner => format!("{} (owner)", router.priority),
        configured if configured != router.priority => {
            format!("{} of {configured}", router.priority)
        }
        configured => configured.to_string(),
    }
}

/// The master: this router, or the source of the last advertisement.
fn master(router: &VirtualRouterState) -> String {
    match router.state.as_str() {
        "master" => "this router".to_owned(),
        "backup" => ip_text(&router.last_advertisement_source),
        _ => "-".to_owned(),
    }
}

fn json((interface, router): (&InterfaceState, &VirtualRouterState)) -> Value {
    let last_advertisement_source = (!router.last_advertisement_source.is_empty())
        .then(|| ip_text(&router.last_advertisement_source));
    let state = json!({
        "interface": interface.name,
        "vrf": interface.vrf,
        "vrid": router.vrid,
        "family": if router.ip6 { 6 } else { 4 },
        "addresses": router.addresses.iter().map(|it| ip_text(it)).collect::<Vec<_>>(),
        "state": router.state,
        "changed_unix_s": router.changed_unix_s,
        "owner": router.owner,
        "priority": router.priority,
        "configured_priority": router.configured_priority,
        "last_advertisement_source": last_advertisement_source,
        "event": router.event,
        "reason": router.reason,
    });
    with_counters(state, VIRTUAL_ROUTERS, router, json!({}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_master_is_this_router_or_the_last_advertiser() {
        let backup = VirtualRouterState {
            vrid: 51,
            state: "backup".into(),
            priority: 90,
            configured_priority: 150,
            addresses: vec![vec![192, 0, 2, 1], vec![192, 0, 2, 7]],
            last_advertisement_source: vec![192, 0, 2, 3],
            transitions: 1_234,
            changed_unix_s: 1_000,
            ..VirtualRouterState::default()
        };
        assert_eq!((master(&backup), priority(&backup)), ("192.0.2.3".into(), "90 of 150".into()));
        let down = VirtualRouterState { state: "initialize".into(), ..backup.clone() };
        assert_eq!(master(&down), "-");
        let owner = VirtualRouterState {
            state: "master".into(),
            owner: true,
            priority: 255,
            configured_priority: 255,
            ..backup.clone()
        };
        assert_eq!(
            (master(&owner), priority(&owner)),
            ("this router".into(), "255 (owner)".into())
        );
        let lan = InterfaceState {
            name: "lan".into(),
            virtual_routers: vec![backup, owner],
            ..InterfaceState::default()
        };
        let text = to_table(std::slice::from_ref(&lan), 1_059).to_string();
        for words in ["lan", "51", "192.0.2.1", "192.0.2.7", "59 s", "1,234", "this router"] {
            assert!(text.contains(words), "{words} in\n{text}");
        }
        let shown: Vec<Value> = routers(&[lan]).map(json).collect();
        assert_eq!(
            (&shown[0]["last_advertisement_source"], &shown[0]["family"]),
            (&json!("192.0.2.3"), &json!(4))
        );
    }

    #[test]
    fn columns_and_members_have_their_names_and_order() {
        let virtual_routers = vec![VirtualRouterState::default()];
        let (vrf, name) = ("red".to_owned(), "lan".to_owned());
        let all = [InterfaceState { name, vrf, virtual_routers, ..InterfaceState::default() }];
        let table = to_table(&all, 0);
        let object = routers(&all).map(json).next().unwrap();
        let (header, keys) = super::super::names(&table, &object);
        assert_eq!(
            header.join(", "),
            "VRF, INTERFACE, VRID, ADDRESS, STATE, FOR, PRIORITY, MASTER, TRANSITIONS"
        );
        assert_eq!(
            keys.join(" "),
            "interface vrf vrid family addresses state changed_unix_s owner priority configured_priority \
                    last_advertisement_source event reason transitions received sent interval_errors priority_zero_received \
                    priority_zero_sent address_errors"
        );
    }
}
