//! Neighbours: MAC addresses and states by interface.

use std::io::Write;

use comfy_table::{Cell, Table};
use serde_json::{Value, json};
use stoa_api::text::{by_number, ip_text, mac_text};
use stoa_api::v1::{ListNeighborsRequest, NeighborState};

use super::{table, write};
use crate::failure::Failure;
use crate::operator::Client;

/// Requests the state and prints it.
pub async fn show(
    client: &mut Client,
    selection: &Selection<'_>,
    as_json: bool,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let mut neighbors = all(client).await?;
    neighbors.retain(|neighbor| selection.has(neighbor));
    if as_json {
        let list: Vec<Value> = neighbors.iter().map(json).collect();
        writeln!(out, "{}", json!({ "neighbors": list }))?;
    } else if neighbors.is_empty() {
        writeln!(out, "No neighbours yet: Stoa resolves them when packets go to them.")?;
    } else {
        write(&to_table(&neighbors), out)?;
    }
    Ok(())
}

/// Which neighbours to show.
#[derive(Clone, Copy, Debug, Default)]
pub struct Selection<'a> {
    /// 4, 6, or 0 for both.
    pub family: u32,
    /// `None`: of all interfaces.
    pub interface: Option<&'a str>,
}

impl Selection<'_> {
    fn has(&self, neighbor: &NeighborState) -> bool {
        let family = if neighbor.address.len() == 4 { 4 } else { 6 };
        (self.family == 0 || self.family == family)
            && self.interface.is_none_or(|name| name == neighbor.interface)
    }
}

/// All neighbours.
pub async fn all(client: &mut Client) -> Result<Vec<NeighborState>, Failure> {
    let mut stream = client.show_neighbors(ListNeighborsRequest {}).await?.into_inner();
    let mut neighbors = Vec::new();
    while let Some(neighbor) = stream.message().await? {
        neighbors.push(neighbor);
    }
    neighbors.sort_by(|one, other| {
        let by_name = by_number(&one.interface, &other.interface);
        by_name.then_with(|| {
            (one.address.len(), &one.address).cmp(&(other.address.len(), &other.address))
        })
    });
    Ok(neighbors)
}

fn to_table(neighbors: &[NeighborState]) -> Table {
    let mut table = table(&["interface", "address", "mac", "state", ">age s", ">queued"]);
    for neighbor in neighbors {
        table.add_row(vec![
            Cell::new(&neighbor.interface),
            Cell::new(ip_text(&neighbor.address)),
            Cell::new(mac_text(&neighbor.mac)),
            Cell::new(&neighbor.state),
            Cell::new(neighbor.age_s),
            Cell::new(neighbor.queued),
        ]);
    }
    table
}

pub(super) fn json(neighbor: &NeighborState) -> Value {
    let mac = if neighbor.mac.is_empty() { String::new() } else { mac_text(&neighbor.mac) };
    json!({
        "interface": neighbor.interface,
        "address": ip_text(&neighbor.address),
        "mac": mac,
        "state": neighbor.state,
        "age_s": neighbor.age_s,
        "queued": neighbor.queued,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unresolved_neighbor_has_no_mac() {
        let neighbor = NeighborState {
            interface: "host-a".into(),
            address: vec![10, 1, 0, 9],
            state: "incomplete".into(),
            ..NeighborState::default()
        };
        assert_eq!(json(&neighbor)["mac"], "");
        let of = |family, interface| Selection { family, interface }.has(&neighbor);
        assert!(of(0, None) && of(4, Some("host-a")) && !of(6, None) && !of(0, Some("host-b")));
        assert!(to_table(&[neighbor]).to_string().contains("incomplete"));
    }
}
