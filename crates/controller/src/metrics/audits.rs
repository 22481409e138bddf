//! Metrics of the audits of the desired state.

use std::fmt;

use stoa_api::audit::Kind;

use super::page::{Page, one};
use crate::apply::DesiredAudits;

/// What audits have found, by kind of entries.
pub(super) fn render(page: &mut Page<'_>, audits: &DesiredAudits) -> fmt::Result {
    let help = "Audits of the desired state, each minute, after a restart of either process, and on demand";
    page.counter("desired_audits", "", help, audits.runs)?;
    let found = |kind: Kind| audits.different.get(&kind).copied().unwrap_or_default();
    let samples = Kind::ALL.into_iter().map(|kind| ([("kind", kind.name())], found(kind)));
    let help = "Entries of the desired state that were not in force as desired, by kind";
    page.counters("desired_audit_different", "entries", help, samples)?;
    if audits.runs == 0 {
        return Ok(());
    }
    let help = "Whether the last audit found no difference, or repaired all of them";
    page.gauge("desired_audit_equal", "", help, one(audits.is_equal))
}
