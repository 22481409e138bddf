//! Metrics of learned routes and their audits.

use std::fmt;

use super::page::{Page, float, one};
use crate::learned::{AuditCounters, LearnedStatistics};

/// The work of the table, and the results of audits.
pub(super) fn table(page: &mut Page<'_>, statistics: &LearnedStatistics) -> fmt::Result {
    let work = &statistics.work;
    let help = "Route changes received from all route sources";
    page.counter("learned_changes", "routes", help, work.received)?;
    let help = "Learned routes that the forwarder refused, for example because a table is full";
    page.counter("learned_refused", "routes", help, work.refused)?;
    let help = "Whether all route sources have sent a full update and no stale route remains";
    page.gauge("learned_complete", "", help, one(statistics.is_complete))?;
    audits(page, &statistics.audits)
}

fn audits(page: &mut Page<'_>, audits: &AuditCounters) -> fmt::Result {
    let help = "Audits of learned routes, each minute and on demand";
    page.counter("route_audits", "", help, audits.runs)?;
    let help = "Routes of the forwarder that differed from the desired ones";
    page.counter("route_audit_different", "routes", help, audits.different)?;
    let help = "Of them, routes that were repaired";
    page.counter("route_audit_repaired", "routes", help, audits.repaired)?;
    if audits.last_unix_s == 0 {
        return Ok(());
    }
    let help = "End of the last audit, since 1970";
    page.gauge("route_audit_time", "seconds", help, float(audits.last_unix_s))?;
    let help = "Whether the last audit compared all tables and found no difference";
    page.gauge("route_audit_equal", "", help, one(audits.was_equal))
}
