//! The route audit: whether the forwarder has the imported routes, and the state of the route sources.

use std::io::Write;

use serde_json::{Value, json};
use stoa_api::v1::{
    AuditLearnedReply, AuditLearnedRequest, AuditedKernel, AuditedTable, RouteSourceState,
};

use super::{Cell, count, number, route_sources, table, write};
use crate::failure::Failure;
use crate::operator::Client;

/// Runs the audit and prints the result. The controller sends differing routes to the forwarder again.
pub async fn show(client: &mut Client, as_json: bool, out: &mut dyn Write) -> Result<(), Failure> {
    let audit = client.audit_learned(AuditLearnedRequest {}).await?.into_inner();
    if as_json {
        writeln!(out, "{}", json(&audit))?;
        return Ok(());
    }
    let mut shown = table(&["VRF", "family", ">desired", ">held", ">different", "result"]);
    for audited in audit.tables.iter().filter(|it| it.vrf.is_empty() || it.desired + it.held > 0) {
        shown.add_row(vec![
            Cell::new(if audited.vrf.is_empty() { "default" } else { &audited.vrf }),
            Cell::new(format!("IPv{}", audited.family)),
            count(audited.desired),
            count(audited.held),
            count(audited.different),
            Cell::new(result(audited)),
        ]);
    }
    write(&shown, out)?;
    if !audit.kernels.is_empty() {
        writeln!(out)?;
        write(&kernels_table(&audit.kernels), out)?;
    }
    if !audit.route_sources.is_empty() {
        writeln!(out)?;
        write(&route_sources_table(&audit.route_sources), out)?;
    }
    route_sources::reasons(&audit.route_sources, out)?;
    if audit.refused > 0 {
        let refused = number(audit.refused);
        writeln!(
            out,
            "The forwarder has refused {refused} routes. Reason of the last one: {}",
            audit.reason
        )?;
    }
    Ok(())
}

fn result(table: &AuditedTable) -> &'static str {
    match (table.is_compared, table.different) {
        (true, 0) => "equal",
        (true, _) => "sent again",
        (false, _) => "routes change: ask again",
    }
}

fn kernels_table(kernels: &[AuditedKernel]) -> super::Table {
    let mut shown =
        table(&["route source", "kernel table", ">routes", ">held", ">different", "result"]);
    for kernel in kernels {
        let result = match (kernel.is_equal, kernel.is_compared) {
            (true, _) => "equal",
            (_, true) => "sent again",
            (_, false) => &kernel.reason,
        };
        shown.add_row(vec![
            Cell::new(&kernel.route_source),
            Cell::new(format!("{} {}", kernel.netns, kernel.table).trim_start()),
            count(kernel.routes),
            count(kernel.held),
            count(kernel.different),
            Cell::new(result),
        ]);
    }
    shown
}

fn route_sources_table(all: &[RouteSourceState]) -> super::Table {
    let mut shown = table(&["route source", "session", ">IPv4", ">IPv6", ">stale", ">malformed"]);
    for route_source in all {
        shown.add_row(vec![
            Cell::new(&route_source.name),
            Cell::new(route_sources::session(route_source)),
            count(route_source.ip4_routes),
            count(route_source.ip6_routes),
            count(route_source.stale),
            count(route_source.malformed),
        ]);
    }
    shown
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
