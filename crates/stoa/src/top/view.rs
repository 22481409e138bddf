//! The output of `stoa top`: rates as sorted tables, and as JSON.

use comfy_table::{Cell, Table};
use serde_json::{Value, json};

use stoa_api::text::by_number;

use super::{InterfaceRate, Rates};
use crate::show::{number, table, write};

/// Sort order of interfaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Order {
    /// By name
    Name,
    /// By received packets, most first
    #[default]
    Rx,
    /// By sent packets, most first
    Tx,
    /// By lost packets, most first
    Drops,
}

impl Order {
    fn sort(self, interfaces: &mut [InterfaceRate]) {
        let by = |key: fn(&InterfaceRate) -> f64| {
            move |a: &InterfaceRate, b: &InterfaceRate| key(b).total_cmp(&key(a))
        };
        interfaces.sort_by(|a, b| by_number(&a.name, &b.name));
        match self {
            Self::Name => {}
            Self::Rx => interfaces.sort_by(by(|one| one.rx_packets)),
            Self::Tx => interfaces.sort_by(by(|one| one.tx_packets)),
            Self::Drops => interfaces.sort_by(by(|one| one.drops)),
        }
    }
}

/// The rates as lines of tables.
pub fn lines(rates: &Rates, order: Order) -> Vec<String> {
    let mut rates = rates.clone();
    order.sort(&mut rates.interfaces);
    rates.nodes.sort_by(|a, b| b.share.total_cmp(&a.share));
    rates.drops.sort_by(|a, b| b.packets.total_cmp(&a.packets).then(b.total.cmp(&a.total)));
    let mut out = Vec::new();
    let tables = [workers(&rates), interfaces(&rates), nodes(&rates), drops(&rates)];
    for (at, table) in tables.iter().enumerate() {
        if at > 0 {
            out.push(b'\n');
        }
        // Writing to memory does not fail.
        let _ = write(table, &mut out);
    }
    String::from_utf8_lossy(&out).lines().map(str::to_owned).collect()
}

fn rounded(value: f64) -> Cell {
    Cell::new(number(value.round() as u64))
}

fn workers(rates: &Rates) -> Table {
    let mut table = table(&[">worker", ">busy", ">packets/s", ">vector"]);
    for one in &rates.workers {
        table.add_row(vec![
            Cell::new(one.index),
            Cell::new(format!("{:.1} %", one.busy * 100.0)),
            rounded(one.packets),
            Cell::new(format!("{:.1}", one.vector)),
        ]);
    }
    table
}

fn interfaces(rates: &Rates) -> Table {
    let columns = ["interface", "state", ">rx/s", ">rx Mbit/s", ">tx/s", ">tx Mbit/s", ">lost/s"];
    let mut table = table(&columns);
    let mega = |bits: f64| Cell::new(format!("{:.2}", bits / 1e6));
    for one in &rates.interfaces {
        table.add_row(vec![
            Cell::new(&one.name),
            Cell::new(if one.up { "up" } else { "down" }),
            rounded(one.rx_packets),
            mega(one.rx_bits),
            rounded(one.tx_packets),
            mega(one.tx_bits),
            rounded(one.drops),
        ]);
    }
    table
}

fn nodes(rates: &Rates) -> Table {
    let mut table = table(&["node", ">packets/s", ">packets/call", ">cycles/packet", ">share"]);
    for one in &rates.nodes {
        table.add_row(vec![
            Cell::new(&one.name),
            rounded(one.packets),
            Cell::new(format!("{:.1}", one.vector)),
            Cell::new(format!("{:.1}", one.cycles_per_packet)),
            Cell::new(format!("{:.0} %", one.share * 100.0)),
        ]);
    }
    table
}

fn drops(rates: &Rates) -> Table {
    let mut table = table(&["drop", ">packets/s", ">total", "reason"]);
    for one in &rates.drops {
        table.add_row(vec![
            Cell::new(&one.reason),
            rounded(one.packets),
            Cell::new(number(one.total)),
            Cell::new(&one.description),
        ]);
    }
    table
}

/// The rates as JSON.
pub fn json(rates: &Rates) -> Value {
    let interfaces: Vec<Value> = rates
        .interfaces
        .iter()
        .map(|one| {
            json!({
                "name": one.name, "up": one.up,
                "rx_packets_per_s": one.rx_packets, "rx_bits_per_s": one.rx_bits,
                "tx_packets_per_s": one.tx_packets, "tx_bits_per_s": one.tx_bits,
                "drops_per_s": one.drops,
            })
        })
        .collect();
    let nodes: Vec<Value> = rates
        .nodes
        .iter()
        .map(|one| {
            json!({
                "name": one.name, "packets_per_s": one.packets, "packets_per_call": one.vector,
                "cycles_per_packet": one.cycles_per_packet, "share": one.share,
            })
        })
        .collect();
    let drops: Vec<Value> = rates
        .drops
        .iter()
        .map(|one| json!({ "reason": one.reason, "packets_per_s": one.packets, "packets": one.total }))
        .collect();
    let workers: Vec<Value> = rates
        .workers
        .iter()
        .map(|one| {
            json!({
                "index": one.index, "busy": one.busy, "packets_per_s": one.packets,
                "vector": one.vector,
            })
        })
        .collect();
    json!({ "workers": workers, "interfaces": interfaces, "nodes": nodes, "drops": drops })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_sorted() {
        let one = |name: &str, rx, tx, drops| InterfaceRate {
            name: name.into(),
            up: true,
            rx_packets: rx,
            rx_bits: 0.0,
            tx_packets: tx,
            tx_bits: 0.0,
            drops,
        };
        let mut all = [one("b", 1.0, 9.0, 0.0), one("a", 1.0, 2.0, 0.0), one("c", 5.0, 0.0, 1.0)];
        for (order, names) in
            [(Order::Name, "abc"), (Order::Rx, "cab"), (Order::Tx, "bac"), (Order::Drops, "cab")]
        {
            order.sort(&mut all);
            let sorted: String = all.iter().map(|one| one.name.as_str()).collect();
            assert_eq!(sorted, names, "{order:?}");
        }
    }

    #[test]
    fn rates_become_tables_and_json() {
        let (before, now) = super::super::tests::snapshots();
        let rates = now.rates_since(&before);
        let text = lines(&rates, Order::Rx).join("\n");
        for word in ["ethernet-input", "50.0 %", "no-route", "0.01", "100 %"] {
            assert!(text.contains(word), "{word} in {text}");
        }
        assert_eq!(json(&rates)["interfaces"][0]["rx_packets_per_s"], 10.0);
    }
}
