//! The audit of learned routes: whether the forwarder holds what the controller wants, and how the route sources of daemons do.

use std::io::Write;

use serde_json::{Value, json};
use stoa_api::v1::{
    AuditLearnedReply, AuditLearnedRequest, AuditedKernel, AuditedTable, RouteSourceState,
};

use super::{Cell, count, number, route_sources, table, write};
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
    for audited in audit.tables.iter().filter(|it| it.vrf.is_empty() || it.desired + it.held > 0) {
        made.add_row(vec![
            Cell::new(if audited.vrf.is_empty() { "default" } else { &audited.vrf }),
            Cell::new(format!("IPv{}", audited.family)),
            count(audited.desired),
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
    if !audit.route_sources.is_empty() {
        writeln!(out)?;
        write(&of_route_sources(&audit.route_sources), out)?;
    }
    route_sources::reasons(&audit.route_sources, out)?;
    if audit.refused > 0 {
        let refused = number(audit.refused);
        writeln!(out, "The forwarder refused {refused} routes so far, last: {}", audit.reason)?;
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
    let mut made =
        table(&["route_source", "kernel table", ">routes", ">held", ">different", "verdict"]);
    for kernel in kernels {
        let verdict = match (kernel.is_equal, kernel.is_compared) {
            (true, _) => "equal",
            (_, true) => "told again",
            (_, false) => &kernel.reason,
        };
        made.add_row(vec![
            Cell::new(&kernel.route_source),
            Cell::new(format!("{} {}", kernel.netns, kernel.table).trim_start()),
            count(kernel.routes),
            count(kernel.held),
            count(kernel.different),
            Cell::new(verdict),
        ]);
    }
    made
}

fn of_route_sources(all: &[RouteSourceState]) -> super::Table {
    let mut made = table(&["route_source", "session", ">IPv4", ">IPv6", ">stale", ">malformed"]);
    for route_source in all {
        made.add_row(vec![
            Cell::new(&route_source.name),
            Cell::new(route_sources::session(route_source)),
            count(route_source.ip4_routes),
            count(route_source.ip6_routes),
            count(route_source.stale),
            count(route_source.malformed),
        ]);
    }
    made
}

fn json(audit: &AuditLearnedReply) -> Value {
    let table = |it: &AuditedTable| {
        json!({
            "vrf": it.vrf, "family": it.family, "desired": it.desired, "held": it.held,
            "different": it.different, "compared": it.is_compared,
        })
    };
    let kernel = |it: &AuditedKernel| {
        json!({
            "route_source": it.route_source, "netns": it.netns, "table": it.table, "routes": it.routes,
            "held": it.held, "different": it.different, "compared": it.is_compared,
            "equal": it.is_equal, "reason": it.reason,
        })
    };
    let is_equal = audit.tables.iter().all(|it| it.is_compared && it.different == 0)
        && audit.kernels.iter().all(|it| it.is_equal);
    json!({
        "audit": if is_equal { "equal" } else { "different" },
        "complete": audit.is_complete,
        "tables": audit.tables.iter().map(table).collect::<Vec<_>>(),
        "kernels": audit.kernels.iter().map(kernel).collect::<Vec<_>>(),
        "route_sources": audit.route_sources.iter().map(route_sources::json).collect::<Vec<_>>(),
        "received": audit.received, "refused": audit.refused, "reason": audit.reason,
        "controller_us": audit.table_us, "forwarder_us": audit.forwarder_us,
    })
}
