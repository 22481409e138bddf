//! Control-plane policers: packets that each class passed and dropped; and the classes whose packets go to the
//! controller.

use std::io::Write;

use comfy_table::{Cell, Table};
use serde_json::{Value, json};
use stoa_api::counters::PUNTS;
use stoa_api::punts::{Key, Listing};
use stoa_api::v1::{ListPuntsRequest, PuntState, PuntStreamState};

use super::{columns, count, counts, table, with_counters, write};
use crate::failure::Failure;
use crate::operator::Client;

/// Requests the state and prints it.
pub async fn show(client: &mut Client, as_json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let mut pages = client.show_punts(ListPuntsRequest {}).await?.into_inner();
    let mut all = Listing::default();
    while let Some(page) = pages.message().await? {
        all.add(page);
    }
    let streams = std::mem::take(&mut all.streams);
    let punts = all.into_rows();
    if as_json {
        let list: Vec<Value> = punts.iter().map(json).collect();
        let streams: Vec<Value> = streams.iter().map(stream_json).collect();
        writeln!(out, "{}", json!({ "punts": list, "streams": streams }))?;
        return Ok(());
    }
    write(&to_table(&punts), out)?;
    if !streams.is_empty() {
        writeln!(out)?;
        write(&to_stream_table(&streams), out)?;
    }
    Ok(())
}

/// Named as the drop reasons are.
fn to_stream_table(streams: &[PuntStreamState]) -> Table {
    let mut table = table(&[
        "class",
        "controller",
        ">sent",
        ">queued",
        ">punt-limited",
        ">punt-queue",
        ">punt-unsubscribed",
        ">injected",
        ">refused",
        "packets",
    ]);
    for stream in streams {
        table.add_row(vec![
            Cell::new(&stream.class),
            Cell::new(if stream.is_subscribed { "subscribed" } else { "-" }),
            count(stream.sent),
            count(stream.queued),
            count(stream.limited),
            count(stream.queue_full),
            count(stream.unsubscribed),
            count(stream.injected),
            count(stream.refused),
            Cell::new(keys(stream).join(", ")),
        ]);
    }
    table
}

fn keys(stream: &PuntStreamState) -> Vec<String> {
    stream.keys.iter().filter_map(Key::of).map(|key| key.to_string()).collect()
}

fn stream_json(stream: &PuntStreamState) -> Value {
    json!({
        "class": stream.class,
        "description": stream.description,
        "subscribed": stream.is_subscribed,
        "keys": keys(stream),
        "sent": stream.sent,
        "queued": stream.queued,
        "queued_bytes": stream.queued_bytes,
        "punt_limited": stream.limited,
        "punt_queue": stream.queue_full,
        "punt_unsubscribed": stream.unsubscribed,
        "injected": stream.injected,
        "refused": stream.refused,
        "rate": stream.rate,
        "queue_bytes": stream.queue_bytes,
        "inject_rate": stream.inject_rate,
    })
}

fn to_table(punts: &[PuntState]) -> Table {
    let last = [">limit/s", ">burst", "description"];
    let mut table = table(&columns(&["class", "interface"], PUNTS, &last));
    for punt in punts {
        let is_total = punt.interface.is_empty();
        let mut row = vec![
            Cell::new(if is_total { punt.class.as_str() } else { "" }),
            Cell::new(if is_total { "all" } else { punt.interface.as_str() }),
        ];
        row.extend(counts(PUNTS, punt));
        row.extend([
            count(punt.rate.into()),
            if is_total { Cell::new("") } else { count(punt.burst.into()) },
            Cell::new(if is_total { punt.description.as_str() } else { "" }),
        ]);
        table.add_row(row);
    }
    table
}

fn json(punt: &PuntState) -> Value {
    let class = json!({
        "class": punt.class,
        "description": punt.description,
        "interface": punt.interface,
    });
    let limits = json!({ "rate": punt.rate, "burst": punt.burst, "urgent": punt.urgent });
    with_counters(class, PUNTS, punt, limits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_named_once() {
        let punt = |interface: &str| PuntState {
            class: "arp".into(),
            description: "ARP requests".into(),
            interface: interface.into(),
            dropped: 1234,
            rate: 1000,
            ..PuntState::default()
        };
        let text = to_table(&[punt(""), punt("left")]).to_string();
        assert_eq!(text.matches("arp").count(), 1);
        assert_eq!((text.matches("1,234").count(), text.matches("left").count()), (2, 1));
        assert_eq!(json(&punt("left"))["interface"], "left");
    }

    #[test]
    fn drops_of_the_stream_have_their_reasons() {
        let stream = PuntStreamState {
            class: "ike".into(),
            keys: vec![Key::UdpPort(500).into(), Key::UdpPort(4500).into()],
            queue_full: 1234,
            ..PuntStreamState::default()
        };
        let text = to_stream_table(std::slice::from_ref(&stream)).to_string();
        assert!(text.contains("1,234") && text.contains("UDP port 500, UDP port 4500"), "{text}");
        let json = stream_json(&stream);
        assert_eq!((&json["punt_queue"], &json["subscribed"]), (&1234.into(), &false.into()));
    }

    #[test]
    fn columns_and_members_have_their_names_and_order() {
        let row = PuntState::default();
        let (table, object) = (to_table(std::slice::from_ref(&row)), json(&row));
        let (header, keys) = super::super::names(&table, &object);
        assert_eq!(
            header.join(", "),
            "CLASS, INTERFACE, PASSED, DROPPED, LIMIT/S, BURST, DESCRIPTION"
        );
        assert_eq!(keys.join(" "), "class description interface passed dropped rate burst urgent");
    }
}
