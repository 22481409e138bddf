//! The audit of learned routes: whether the forwarder holds what the controller wants, and how the doors of daemons do.

use std::io::Write;

use serde_json::{Value, json};
use stoa_api::v1::{
    AuditLearnedReply, AuditLearnedRequest, AuditedKernel, AuditedTable, DoorState,
};

use super::{Cell, count, doors, number, table, write};
use crate::failure::Failure;
use crate::operator::Client;

/// Asks and shows. Learned routes that differ are told to the forwarder again.
pub async fn show(client: &mut Client, as_json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let audit = client.audit_learned(AuditLearnedRequest {}).await?.into_inner();
    if as_json {
        writeln!(out, "{}", json(&audit))?;
        return Ok(());
    }
    let mut made = table(&["VRF", "family", ">wanted", ">held", ">different", "verdict"]);
    for audited in audit.tables.iter().filter(|it| it.vrf.is_empty() || it.wanted + it.held > 0) {
        made.add_row(vec![
            Cell::new(if audited.vrf.is_empty() { "default" } else { &audited.vrf }),
            Cell::new(format!("IPv{}", audited.family)),
            count(audited.wanted),
            count(audited.held),
            count(audited.different),
            Cell::new(verdict(audited)),
        ]);
    }
    write(&made, out)?;
    if !audit.kernels.is_empty() {
        writeln!(out)?;
        write(&kernels(&audit.kernels), out)?;
    }
    if !audit.doors.is_empty() {
        writeln!(out)?;
        write(&of_doors(&audit.doors), out)?;
    }
    doors::reasons(&audit.doors, out)?;
    if audit.refused > 0 {
        let refused = number(audit.refused);
        writeln!(out, "The forwarder refused {refused} routes so far, last: {}", audit.why)?;
    }
    Ok(())
}

fn verdict(table: &AuditedTable) -> &'static str {
    match (table.is_compared, table.different) {
        (true, 0) => "equal",
        (true, _) => "told again",
        (false, _) => "routes change: ask again",
    }
}

fn kernels(kernels: &[AuditedKernel]) -> super::Table {
    let mut made = table(&["door", "kernel table", ">routes", ">held", ">different", "verdict"]);
    for kernel in kernels {
        let verdict = match (kernel.is_equal, kernel.is_compared) {
            (true, _) => "equal",
            (_, true) => "told again",
            (_, false) => &kernel.why,
        };
        made.add_row(vec![
            Cell::new(&kernel.door),
            Cell::new(format!("{} {}", kernel.netns, kernel.table).trim_start()),
            count(kernel.routes),
            count(kernel.held),
            count(kernel.different),
            Cell::new(verdict),
        ]);
    }
    made
}

fn of_doors(all: &[DoorState]) -> super::Table {
    let mut made = table(&["door", "session", ">IPv4", ">IPv6", ">stale", ">malformed"]);
    for door in all {
        made.add_row(vec![
            Cell::new(&door.name),
            Cell::new(doors::session(door)),
            count(door.ip4_routes),
            count(door.ip6_routes),
            count(door.stale),
            count(door.malformed),
        ]);
    }
    made
}

fn json(audit: &AuditLearnedReply) -> Value {
    let table = |it: &AuditedTable| {
        json!({
            "vrf": it.vrf, "family": it.family, "wanted": it.wanted, "held": it.held,
            "different": it.different, "compared": it.is_compared,
        })
    };
    let kernel = |it: &AuditedKernel| {
        json!({
            "door": it.door, "netns": it.netns, "table": it.table, "routes": it.routes,
            "held": it.held, "different": it.different, "compared": it.is_compared,
            "equal": it.is_equal, "why": it.why,
        })
    };
    let is_equal = audit.tables.iter().all(|it| it.is_compared && it.different == 0)
        && audit.kernels.iter().all(|it| it.is_equal);
    json!({
        "audit": if is_equal { "equal" } else { "different" },
        "complete": audit.is_complete,
        "tables": audit.tables.iter().map(table).collect::<Vec<_>>(),
        "kernels": audit.kernels.iter().map(kernel).collect::<Vec<_>>(),
        "doors": audit.doors.iter().map(doors::json).collect::<Vec<_>>(),
        "heard": audit.heard, "refused": audit.refused, "why": audit.why,
        "controller_us": audit.table_us, "forwarder_us": audit.forwarder_us,
    })
}
