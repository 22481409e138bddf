//! Interfaces: state, addresses, counters.

use std::io::Write;

use comfy_table::{Cell, Table};
use serde_json::{Value, json};
use stoa_api::counters::INTERFACES;
use stoa_api::text::mac_text;
use stoa_api::v1::{Address, FamilyOptions, InterfaceState, ListInterfacesRequest, Tag};

use super::{columns, count, counts, table, with_counters, write};
use crate::failure::Failure;
use crate::operator::Client;

/// Requests the state and prints it.
pub async fn show(client: &mut Client, as_json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let reply = client.show_interfaces(ListInterfacesRequest::default()).await?.into_inner();
    if as_json {
        let list: Vec<Value> = reply.interfaces.iter().map(json).collect();
        writeln!(out, "{}", json!({ "interfaces": list }))?;
    } else {
        write(&to_table(&reply.interfaces), out)?;
    }
    Ok(())
}

fn to_table(interfaces: &[InterfaceState]) -> Table {
    let columns =
        columns(&["vrf", "name", "state", "on", "address", ">mtu"], INTERFACES, &[">drops"]);
    // The column is shown only if there are VRFs.
    let skip = usize::from(interfaces.iter().all(|interface| interface.vrf.is_empty()));
    let mut table = table(&columns[skip..]);
    for interface in interfaces {
        let addresses: Vec<String> = interface.addresses.iter().map(with_state).collect();
        let drops = interface.rx_drops + interface.rx_missed + interface.tx_drops;
        let row = [
            Cell::new(if interface.vrf.is_empty() { "default" } else { &interface.vrf }),
            Cell::new(&interface.name),
            Cell::new(state(interface)),
            Cell::new(on(interface)),
            Cell::new(if addresses.is_empty() { "-".to_owned() } else { addresses.join("\n") }),
            Cell::new(interface.mtu),
        ];
        let row = row.into_iter().chain(counts(INTERFACES, interface)).chain([count(drops)]);
        table.add_row(row.skip(skip).collect::<Vec<_>>());
    }
    table
}

pub(super) fn state(interface: &InterfaceState) -> &'static str {
    match (interface.enabled, interface.up) {
        (false, _) => "disabled",
        (true, true) => "up",
        (true, false) => "down",
    }
}

/// The driver of a port, or the tags and parent of a sub-interface; then cross-connect, host interface and options.
pub(super) fn on(interface: &InterfaceState) -> String {
    let mut on = driver_or_parent(interface);
    for (label, value) in
        [("to", &interface.cross_connect), ("host interface", &interface.host_interface)]
    {
        if !value.is_empty() {
            on += &format!("\n{label} {value}");
        }
    }
    for (family, options) in [("ipv4", interface.ip4_options), ("ipv6", interface.ip6_options)] {
        for option in set_options(options.unwrap_or_default()) {
            on += &format!("\n{family} {option}");
        }
    }
    on
}

/// The options that are configured: the names of their leaves, and of numbers the values.
fn set_options(options: FamilyOptions) -> Vec<String> {
    let Value::Object(fields) = json!(options) else { return Vec::new() };
    let option = |(name, value): (String, Value)| match (name.replace('_', "-"), value) {
        (_, value) if value == 0 || value == false => None,
        (name, Value::Bool(_)) => Some(name),
        (name, value) => Some(format!("{name} {value}")),
    };
    fields.into_iter().filter_map(option).collect()
}

fn driver_or_parent(interface: &InterfaceState) -> String {
    if interface.parent.is_empty() {
        return interface.driver.clone();
    }
    let tags: Vec<String> =
        [&interface.outer, &interface.inner].into_iter().flatten().map(Tag::to_string).collect();
    format!("vlan {} on {}", tags.join("."), interface.parent)
}

pub(super) fn json(interface: &InterfaceState) -> Value {
    let tag = |tag: &Option<Tag>| {
        tag.as_ref().map(|tag| json!({ "tpid": format!("{:#06x}", tag.tpid), "vid": tag.vid }))
    };
    let state = json!({
        "name": interface.name,
        "index": interface.index,
        "driver": interface.driver,
        "parent": interface.parent,
        "vrf": interface.vrf,
        "outer": tag(&interface.outer),
        "inner": tag(&interface.inner),
        "enabled": interface.enabled,
        "up": interface.up,
        "mac": mac_text(&interface.mac),
        "mtu": interface.mtu,
        "address_states": interface.addresses.iter().map(|own| &own.state).collect::<Vec<_>>(),
        "addresses": interface.addresses.iter().map(ToString::to_string).collect::<Vec<_>>(),
    });
    let last = json!({
        "detail": interface.detail,
        "rx_queues": interface.rx_queues,
        "tx_queues": interface.tx_queues,
        "host_interface": interface.host_interface,
        "cross_connect": interface.cross_connect,
        "software_rss": interface.software_rss,
        "ip4_options": interface.ip4_options,
        "ip6_options": interface.ip6_options,
        "created_unix_s": interface.created_unix_s,
        "changed_unix_s": interface.changed_unix_s,
        "cleared_unix_s": (interface.cleared_unix_s > 0).then_some(interface.cleared_unix_s),
    });
    with_counters(state, INTERFACES, interface, last)
}

/// An address, with its state if it is not preferred.
pub(super) fn with_state(own: &Address) -> String {
    match own.state.as_str() {
        "" | "preferred" => own.to_string(),
        state => format!("{own} ({state})"),
    }
}

#[cfg(test)]
mod tests {
    use stoa_api::v1::Address;

    use super::*;

    #[test]
    fn the_table_shows_driver_parent_and_host_interface() {
        let port = InterfaceState {
            name: "host-b".into(),
            driver: "af-packet".into(),
            enabled: true,
            up: true,
            mtu: 1500,
            rx_packets: 1234,
            host_interface: "red/host-b up".into(),
            ..InterfaceState::default()
        };
        let sub = InterfaceState {
            name: "host-b.100".into(),
            parent: "host-b".into(),
            outer: Some(Tag { tpid: 0x88a8, vid: 5 }),
            inner: Some(Tag { tpid: 0x8100, vid: 100 }),
            enabled: true,
            addresses: vec![Address {
                address: vec![10, 2, 0, 1],
                prefix_length: 24,
                state: "duplicate".into(),
            }],
            rx_missed: 2,
            tx_drops: 3,
            ..InterfaceState::default()
        };
        assert_eq!(on(&sub), "vlan s5.100 on host-b");
        assert_eq!(json(&sub)["outer"]["tpid"], "0x88a8");
        let text = to_table(&[port, sub]).to_string();
        for word in
            ["af-packet", "host interface red/host-b up", "1,234", "10.2.0.1/24", "up", "down"]
        {
            assert!(text.contains(word), "{word} in\n{text}");
        }
    }

    #[test]
    fn all_configured_options_are_shown() {
        let Value::Object(mut fields) = json!(FamilyOptions::default()) else {
            panic!("an object")
        };
        fields
            .values_mut()
            .for_each(|it| *it = if it.is_number() { json!(64) } else { json!(true) });
        let leaf = |name: &String| name.replace('_', "-");
        let given = fields.iter().map(|(name, value)| (format!("stoa-ip:{}", leaf(name)), value));
        let options: FamilyOptions = serde_json::from_value(Value::Object(
            given.map(|(name, value)| (name, value.clone())).collect(),
        ))
        .unwrap();
        let port = InterfaceState {
            driver: "null".into(),
            ip4_options: Some(FamilyOptions::default()),
            ip6_options: Some(options),
            ..InterfaceState::default()
        };
        let line = |(name, value): (&String, &Value)| match value {
            Value::Bool(_) => format!("\nipv6 {}", leaf(name)),
            value => format!("\nipv6 {} {value}", leaf(name)),
        };
        let lines = fields.iter().map(line);
        assert_eq!(on(&port), format!("null{}", lines.collect::<String>()));
        assert_eq!(json(&port)["ip6_options"], Value::Object(fields));
    }

    #[test]
    fn columns_and_members_have_their_names_and_order() {
        let row = InterfaceState { vrf: "red".into(), ..InterfaceState::default() };
        let (table, object) = (to_table(std::slice::from_ref(&row)), json(&row));
        let (header, keys) = super::super::names(&table, &object);
        assert_eq!(
            header.join(", "),
            "VRF, NAME, STATE, ON, ADDRESS, MTU, RX PACKETS, RX BYTES, TX PACKETS, TX BYTES, DROPS"
        );
        assert_eq!(
            keys.join(" "),
            "name index driver parent vrf outer inner enabled up mac mtu address_states addresses rx_packets rx_bytes \
                    tx_packets tx_bytes rx_drops rx_missed tx_drops detail rx_queues tx_queues host_interface cross_connect \
                    software_rss ip4_options ip6_options created_unix_s changed_unix_s cleared_unix_s"
        );
    }
}
